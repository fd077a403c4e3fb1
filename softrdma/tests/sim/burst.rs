//! Several requests of a send queue carried out in one burst.

use softrdma::queues::burst::Burst;
use softrdma::queues::respond::Queues;
use softrdma::queues::shared::Object;
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::rules::completion::Completion;
use softrdma::rules::requester::{Action, Outcome, Work};
use softrdma::rules::verbs::{QpType, Status, WcOpcode};

use crate::direct;
use crate::execute::{begin, end_of, incoming, payload, queues_now, start, target};
use crate::ledger::End;
use crate::process::{Me, append, break_whole, key, qp_num, record};
use crate::world::World;

/// Carries out what goes straight through at the head of a send queue; whether anything did, or was lost.
pub async fn burst(world: &World, me: Me, qp: u32) -> bool {
    let queue = &world.processes[me.0].sends[qp as usize];
    let Some(end) = queue.borrow().request().map(|request| end_of(world, me, qp, request)) else {
        return false;
    };
    if !world.alive(end.0) || world.is_gone(end) {
        return false;
    }
    let known = queues_now(world, end)[0];
    let known = world.processes[me.0].routes.borrow().get(&(qp, end)).map_or(known, |known| known[0]);
    let segment = &world.processes[end.0].segment;
    let config = &world.processes[end.0].configs[end.1 as usize];
    if world.is_kept(end.0, end.1) {
        return false;
    }
    world.acquire(me, end.0, Object::Qp(end.1)).await;
    if world.is_gone(end) {
        world.release(me, end.0, Object::Qp(end.1));
        return false;
    }
    if config.qp_type == QpType::Rc {
        direct::enter(world, (me.0, qp), end).await;
    }
    let mut burst = Burst::default();
    burst.open(segment, &Queues { qp: end.1, cq: config.recv_cq, srq: config.srq });
    let mut completions = Vec::new();
    let mut delivered = 0;
    let (mut numbers, mut lost) = (Vec::new(), false);
    loop {
        let goes_on = offer(world, me, qp, end, &mut burst);
        if !goes_on {
            burst.close();
        }
        let done = match steps(world, me, end, &mut burst, known).await {
            Stepped::Delivered => true,
            Stepped::Closed => false,
            Stepped::Nothing => break,
            Stepped::Lost(kept) => {
                lose(world, me, qp, kept, &mut delivered, &mut completions, &numbers).await;
                lost = true;
                break;
            }
        };
        if !done {
            world.release(me, end.0, Object::Qp(end.1));
            direct::left(world, (me.0, qp));
            break;
        }
        if goes_on {
            delivered += 1;
            let now = world.now.get();
            let mut queue = queue.borrow_mut();
            let Some(request) = queue.request().cloned() else { break };
            let outcome = Outcome::Done(request.length() as u32);
            record(world, &request, outcome, false);
            numbers.push(request.wr_id);
            if let Some(Action::Complete(Some(completion))) = queue.outcome(outcome, now) {
                completions.push((delivered, completion));
            }
        }
    }
    // With no lock of the target held: it may be this process.
    for (_, completion) in completions {
        append(world, me, qp, &completion).await;
    }
    world.bursts.set(world.bursts.get() + u64::from(delivered > 0));
    world.in_bursts.set(world.in_bursts.get() + delivered);
    delivered > 0 || lost
}

/// Offers the request at the head of the queue.
fn offer(world: &World, me: Me, qp: u32, end: End, burst: &mut Burst) -> bool {
    let queue = world.processes[me.0].sends[qp as usize].borrow();
    let Some(request) = queue.request().filter(|_| queue.work(world.now.get()) == Work::Execute) else {
        return false;
    };
    if end_of(world, me, qp, request) != end
        || start(world, (me.0, qp), request).is_err()
        || world.random.once_in(16)
    {
        return false;
    }
    begin(world, request);
    let config = &world.processes[end.0].configs[end.1 as usize];
    let bytes = payload(config.qp_type, request);
    burst.bytes()[..bytes.len()].copy_from_slice(&bytes);
    let incoming = incoming(world, (me.0, qp), request);
    burst.offer(&world.processes[end.0].segment, &target(world, end), &incoming, key)
}

/// What became of a burst's steps.
enum Stepped {
    Delivered,
    Closed,
    /// The lock of the completion queue could not be had; that of the queue pair is abandoned.
    Nothing,
    /// Only so many of its messages are there. The lock of the queue pair is abandoned.
    Lost(u32),
}

/// The connection breaks, with the first message that is not there.
async fn lose(
    world: &World,
    me: Me,
    qp: u32,
    kept: u32,
    delivered: &mut u64,
    completions: &mut Vec<(u64, Completion)>,
    numbers: &[u64],
) {
    world.lost.set(world.lost.get() + 1);
    if !world.processes[me.0].configs[qp as usize].qp_type.is_reliable() {
        return;
    }
    *delivered = u64::from(kept);
    let number = qp_num((me.0, qp));
    let flushed = |wr_id| Completion::flushed(wr_id, WcOpcode::Send, number);
    for (_, completion) in completions.drain(..).filter(|(place, _)| *place <= u64::from(kept)) {
        append(world, me, qp, &completion).await;
    }
    let first = Completion { status: Status::RemOpErr, ..flushed(numbers[kept as usize]) };
    append(world, me, qp, &first).await;
    // Also those that asked for no completion.
    for wr_id in &numbers[kept as usize + 1..] {
        append(world, me, qp, &flushed(*wr_id)).await;
    }
    break_whole(world, me, (me.0, qp), None).await;
}

/// Steps until a message is delivered or the burst is closed.
async fn steps(world: &World, me: Me, end: End, burst: &mut Burst, known: u32) -> Stepped {
    let segment = &world.processes[end.0].segment;
    loop {
        let progress = burst.step(&world.memory(me, end.0));
        match progress {
            Progress::Done(true) => return Stepped::Delivered,
            Progress::Done(false) => return Stepped::Closed,
            Progress::Lock(object) => {
                let busy = world.random.once_in(200);
                if !busy {
                    world.acquire(me, end.0, object).await;
                }
                if busy || segment.generation(object) != known {
                    if !busy {
                        world.release(me, end.0, object);
                    }
                    world.abandon(me, end.0, Object::Qp(end.1));
                    return Stepped::Nothing;
                }
            }
            Progress::Unlock(object) => {
                if !world.release(me, end.0, object) {
                    let kept = burst.kept(Ok(world.resolve(me, end.0, end.1, object).await));
                    if kept != Some(burst.count()) {
                        world.abandon(me, end.0, Object::Qp(end.1));
                        let Some(kept) = kept else { world.violated("nobody knows what was delivered") };
                        return Stepped::Lost(kept);
                    }
                }
            }
            Progress::Continue => {}
            Progress::Bell(_) | Progress::Alert(_) => world.violated("a burst wakes somebody"),
        }
        world.pause().await;
    }
}
