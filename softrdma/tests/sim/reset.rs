//! Queue pairs that begin anew, or end.

use std::future::Future;

use softrdma::queues::completion::remove;
use softrdma::queues::flush;
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, Word, slot};
use softrdma::rules::verbs::{QpState, QpType};

use crate::direct;
use crate::ledger::Posted;
use crate::process::{Me, RECEIVE_ID, post_receive, qp_num};
use crate::world::{Act, World};

/// RESET, and back to RTS with fresh receive requests.
pub async fn reset(world: &World, me: Me, qp: u32) {
    clear(world, me, qp).await;
    world.note(me.0, "resets", || format!("{qp}"));
    let (process, end, object) = (&world.processes[me.0], (me.0, qp), Object::Qp(qp));
    process.sends[qp as usize].borrow_mut().set_state(QpState::Rts);
    world.acquire(me, me.0, object).await;
    direct::open(world, end);
    world.pause().await;
    process.segment.store(Word::Qp(qp, QpWord::State), QpState::Rts as u64);
    process.direct[qp as usize].reset.set(Some(world.now.get()));
    let capacity = u64::from(process.segment.capacity(object));
    if capacity > 0 && !process.configs[qp as usize].starved {
        for _ in 0..1 + world.random.below(capacity - 1) {
            post_receive(world, me.0, Posted::Ring(end));
        }
    }
    world.release(me, me.0, object);
    world.rings.add(|rings| rings.reset += u64::from(process.configs[qp as usize].qp_type == QpType::Rc));
}

/// The end of a queue pair.
pub async fn destroy(world: &World, me: Me, qp: u32) {
    clear(world, me, qp).await;
    world.note(me.0, "destroys", || format!("{qp}"));
    world.processes[me.0].direct[qp as usize].reset.set(Some(u64::MAX));
    world.rings.add(|rings| rings.destroyed += 1);
}

/// RESET: all requests are gone without completions, and all completions that nobody polled.
async fn clear(world: &World, me: Me, qp: u32) {
    let (process, end, object) = (&world.processes[me.0], (me.0, qp), Object::Qp(qp));
    let config = &process.configs[qp as usize];
    world.acquire(me, me.0, object).await;
    direct::end(world, end).await;
    world.pause().await;
    let held = flush::reset(&process.segment, qp);
    world.release(me, me.0, object);
    if let Some((claim, request)) = held
        && softrdma_testing::post::post(&process.segment, Object::Srq(claim.srq), &request).is_err()
    {
        world.violated("a request that was held has no room in its shared queue");
    }
    direct::disconnect(world, end);
    forget_sends(world, me, qp);
    for cq in [config.send_cq, config.recv_cq] {
        world.acquire(me, me.0, Object::Cq(cq)).await;
        note_removed(world, end, cq);
        remove(&process.segment, cq, qp_num(end));
        world.release(me, me.0, Object::Cq(cq));
    }
    process.direct[qp as usize].receives.set(world.ledger.borrow().receives.len());
    for receive in &mut world.ledger.borrow_mut().receives {
        receive.forgotten |= receive.queue == Posted::Ring(end) && receive.status.is_none();
    }
}

/// Notes what is about to be removed from a completion queue.
fn note_removed(world: &World, end: (usize, u32), cq: u32) {
    let segment = &world.processes[end.0].segment;
    let count = |word| segment.load(Word::Cq(cq, word)) as u32;
    let (mut head, tail) = (count(CqWord::Head), count(CqWord::Tail));
    while head != tail {
        let slot = slot(head, segment.capacity(Object::Cq(cq)));
        let entry = |word| segment.load(Word::Entry { cq, slot, word });
        if (entry(3) >> 32) as u32 == qp_num(end) && entry(1) & RECEIVE_ID != 0 {
            world.ledger.borrow_mut().receives[(entry(1) & !RECEIVE_ID) as usize].forgotten = true;
        }
        head = head.wrapping_add(1);
    }
}

/// The send requests of a queue pair are gone without completions, and so are those that nobody polled.
fn forget_sends(world: &World, me: Me, qp: u32) {
    let process = &world.processes[me.0];
    let mut queue = process.sends[qp as usize].borrow_mut();
    queue.set_state(QpState::Err);
    while queue.flush().is_some() {}
    queue.set_state(QpState::Reset);
    let anew = &process.direct[qp as usize].anew;
    anew.set(anew.get() + 1);
    let acts = process.acts[me.1].borrow();
    let is_planned = |number: u64| {
        acts.iter().any(|(_, act)| matches!(act, Act::Post(_, request) if request.wr_id == number))
    };
    for (sent, number) in world.ledger.borrow_mut().sent.iter_mut().zip(0..) {
        sent.dropped |= sent.from == (me.0, qp) && sent.status.is_none() && !is_planned(number);
    }
}

/// Carries a request out. The sender of a connection to another process may die in between, and begins anew at
/// once with nothing of what it had: `None`.
pub async fn mortal<T>(world: &World, me: Me, qp: u32, request: impl Future<Output = T>) -> Option<T> {
    let config = &world.processes[me.0].configs[qp as usize];
    if config.qp_type != QpType::Rc || config.peer.0 == me.0 {
        return Some(request.await);
    }
    let ended = world.mortal(me, request).await;
    if ended.is_none() {
        world.rings.add(|rings| rings.anew += 1);
        direct::die(world, (me.0, qp));
        forget_sends(world, me, qp);
        world.processes[me.0].sends[qp as usize].borrow_mut().set_state(QpState::Rts);
    }
    ended
}
