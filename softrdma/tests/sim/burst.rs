//! Several requests of a send queue carried out in one burst.

use softrdma::core::burst::Burst;
use softrdma::core::requester::{Action, Outcome, Work};
use softrdma::core::respond::Queues;
use softrdma::core::shared::Object;
use softrdma::core::transport::{Machine, Progress};

use crate::attempt::{end_of, incoming, payload, queues_now, start, target};
use crate::ledger::End;
use crate::process::{Me, append, key, record};
use crate::world::World;

/// Carries out what goes straight through at the head of a send queue; whether anything did.
pub async fn burst(world: &World, me: Me, qp: u32) -> bool {
    let queue = &world.processes[me.0].sends[qp as usize];
    let Some(end) = queue.borrow().request().map(|request| end_of(world, me, qp, request)) else {
        return false;
    };
    if !world.alive(end.0) {
        return false;
    }
    let known = queues_now(world, end)[0];
    let known = world.processes[me.0].routes.borrow().get(&(qp, end)).map_or(known, |known| known[0]);
    let segment = &world.processes[end.0].segment;
    let config = &world.processes[end.0].configs[end.1 as usize];
    world.acquire(me, end.0, Object::Qp(end.1)).await;
    let mut burst = Burst::default();
    burst.open(segment, &Queues { qp: end.1, cq: config.recv_cq, srq: config.srq });
    let mut completions = Vec::new();
    let mut delivered = 0;
    loop {
        let goes_on = offer(world, me, qp, end, &mut burst);
        if !goes_on {
            burst.close();
        }
        let Some(done) = steps(world, me, end, &mut burst, known).await else { break };
        if !done {
            world.release(me, end.0, Object::Qp(end.1));
            break;
        }
        if goes_on {
            delivered += 1;
            let now = world.now.get();
            let mut queue = queue.borrow_mut();
            let Some(request) = queue.request().cloned() else { break };
            let outcome = Outcome::Done(request.length() as u32);
            record(world, &request, outcome, false);
            if let Some(Action::Complete(Some(completion))) = queue.outcome(outcome, now) {
                completions.push(completion);
            }
        }
    }
    // With no lock of the target held: it may be this process.
    for completion in completions {
        append(world, me, qp, &completion).await;
    }
    world.bursts.set(world.bursts.get() + u64::from(delivered > 0));
    world.in_bursts.set(world.in_bursts.get() + delivered);
    delivered > 0
}

/// Offers the request at the head of the queue.
fn offer(world: &World, me: Me, qp: u32, end: End, burst: &mut Burst) -> bool {
    let queue = world.processes[me.0].sends[qp as usize].borrow();
    let Some(request) = queue.request().filter(|_| queue.work(world.now.get()) == Work::Attempt) else {
        return false;
    };
    if end_of(world, me, qp, request) != end
        || start(world, (me.0, qp), request).is_err()
        || world.random.once_in(16)
    {
        return false;
    }
    let config = &world.processes[end.0].configs[end.1 as usize];
    let bytes = payload(config.qp_type, request);
    burst.bytes()[..bytes.len()].copy_from_slice(&bytes);
    let incoming = incoming(world, (me.0, qp), request);
    burst.offer(&world.processes[end.0].segment, &target(world, end), &incoming, key)
}

/// Steps until a message is delivered (`true`) or the burst is closed. `None` when the lock of the completion queue could
/// not be had; that of the queue pair is abandoned then.
async fn steps(world: &World, me: Me, end: End, burst: &mut Burst, known: u32) -> Option<bool> {
    let segment = &world.processes[end.0].segment;
    loop {
        match burst.step(segment) {
            Progress::Done(done) => return Some(done),
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
                    return None;
                }
            }
            Progress::Unlock(object) => world.release(me, end.0, object),
            Progress::Continue => {}
            Progress::Bell(_) | Progress::Alert(_) => world.violated("a burst wakes somebody"),
        }
        world.pause().await;
    }
}
