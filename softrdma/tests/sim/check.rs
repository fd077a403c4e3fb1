//! The invariants at the end of a run.

use std::collections::HashMap;

use softrdma::queues::completion::overran;

use softrdma::queues::receive::next_in_claim;
use softrdma::queues::shared::{Events, Memory, Object, QpWord, SrqWord, Word, held};
use softrdma::rules::completion::Completion;
use softrdma::rules::timers::ack_timeout;
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, Status};

use crate::Totals;
use crate::direct;
use crate::ledger::{Ledger, Posted, Sent, word};
use crate::process::{RECEIVE_ID, qp_num};
use crate::world::{Act, World};

/// The invariants, once nobody has anything left to do.
pub fn check(world: &World, totals: &mut Totals) {
    totals.recoveries += world.recoveries.get();
    totals.staged += world.staged.get();
    totals.bursts += world.bursts.get();
    totals.in_bursts += world.in_bursts.get();
    totals.early += world.early.get();
    totals.resized += world.resized.get();
    totals.outdated += world.outdated.get();
    totals.stops += world.stops.get();
    totals.moved += world.moved.get();
    totals.lost += world.lost.get();
    totals.kept += world.kept.get();
    totals.rings.add(&world.rings.counts());
    totals.found.iter_mut().zip(&world.found).for_each(|(total, found)| *total += found.get());
    for (lock, owner) in world.held() {
        if world.alive(owner) {
            world.violated(&format!("{lock:?} is still held by a process that lives"));
        }
        if world.alive(lock.0) {
            world.violated(&format!("{lock:?} is still held by the dead"));
        }
    }
    for place in 0..world.processes.len() {
        if world.alive(place) {
            check_queues(world, place, totals);
            check_order(world, place);
        } else {
            totals.deaths += 1;
        }
    }
    check_messages(world, totals);
}

fn check_queues(world: &World, place: usize, totals: &mut Totals) {
    let process = &world.processes[place];
    let segment = &process.segment;
    let ledger = world.ledger.borrow();
    let mut claims = vec![0; segment.objects().len()];
    let overrun = (0..process.pollers.len() as u32).any(|cq| overran(segment, cq));
    totals.overruns += u64::from(overrun);
    for object in segment.objects() {
        match object {
            Object::Qp(qp) => {
                let journal = segment.load(Word::Qp(qp, QpWord::Journal));
                // What went by a direct ring need not have been said.
                let completed = direct::completed(world, (place, qp)).map(u64::from);
                let (waits, left) = direct::waiting(world, (place, qp));
                totals.unheard += u64::from(waits);
                // Whoever went to sleep while it was sent is not told of a message whose sender died in that
                // moment, and of which nobody was told that it was sent.
                let is_untold = |message: &u64| {
                    let sent = &ledger.sent[*message as usize];
                    sent.status.is_none() && (sent.dropped || !world.alive(sent.from.0))
                };
                if waits as usize != left.len() || !left.iter().all(is_untold) {
                    world.violated(&format!("process {place} sleeps beside messages: a bell was lost"));
                }
                let waiting = held(
                    completed.unwrap_or_else(|| segment.load(Word::Qp(qp, QpWord::Head))),
                    segment.load(Word::Qp(qp, QpWord::Tail)),
                    segment.capacity(object),
                );
                let Some(waiting) = waiting else { world.violated("the counts of a receive ring are wrong") };
                let broken = segment.load(Word::Qp(qp, QpWord::State)) == QpState::Err as u64;
                let claim = next_in_claim(segment, qp);
                if let Some((claim, _)) = &claim {
                    claims[claim.srq as usize] += 1;
                    totals.claims_left += 1;
                }
                if journal != 0 {
                    world.violated("a journal is left");
                }
                if broken
                    && (waiting > 0 || claim.is_some() || !process.sends[qp as usize].borrow().is_empty())
                {
                    world
                        .violated(&format!("queue pair {qp} of process {place} is in error and not flushed"));
                }
                let queue = Posted::Ring((place, qp));
                if !overrun && !all_are_there(world, queue, waiting as usize) {
                    world.violated(&format!(
                        "receive requests of queue pair {qp} of process {place} are lost"
                    ));
                }
                let received = ledger.sent.iter().any(|sent| sent.to == (place, qp) && sent.received > 0);
                let events = Events(segment.load(Word::Qp(qp, QpWord::Events)));
                let waits = segment.load(Word::Qp(qp, QpWord::State)) == QpState::Rtr as u64
                    && process.configs[qp as usize].qp_type != QpType::Ud;
                if received && waits && !events.was_raised(Event::CommEst) {
                    world.violated("a message arrived in RTR and nobody was told");
                }
                if broken
                    && process.configs[qp as usize].srq.is_some()
                    && !events.was_raised(Event::QpLastWqeReached)
                {
                    world.violated("the last request was reached and nobody was told");
                }
            }
            Object::Cq(cq) => {
                let head = segment.load(Word::Cq(cq, softrdma::queues::shared::CqWord::Head));
                let tail = segment.load(Word::Cq(cq, softrdma::queues::shared::CqWord::Tail));
                if head != tail {
                    world.violated(&format!("process {place} sleeps beside completions: a bell was lost"));
                }
            }
            Object::Srq(_) => {}
        }
    }
    check_shared_queues(world, place, &claims, overrun);
}

/// Whether every receive request of a queue is gone or among those that `wait`.
fn all_are_there(world: &World, queue: Posted, wait: usize) -> bool {
    let ledger = world.ledger.borrow();
    let posted = ledger.receives.iter().filter(|receive| receive.queue == queue);
    let gone = posted.clone().filter(|receive| receive.status.is_some() || receive.forgotten);
    gone.count() + wait == posted.count()
}

/// Of shared receive queues, of which queue pairs hold `claims` requests each.
fn check_shared_queues(world: &World, place: usize, claims: &[usize], overrun: bool) {
    let segment = &world.processes[place].segment;
    for object in segment.objects() {
        let Object::Srq(srq) = object else { continue };
        let head = segment.load(Word::Srq(srq, SrqWord::Head));
        let tail = segment.load(Word::Srq(srq, SrqWord::Tail));
        let Some(waiting) = held(head, tail, segment.capacity(object)) else {
            world.violated("the counts of a shared receive queue are wrong")
        };
        let limit = segment.load(Word::Srq(srq, SrqWord::Limit));
        let told = Events(segment.load(Word::Srq(srq, SrqWord::Events))).was_raised(Event::SrqLimitReached);
        if told != (limit == 0) {
            world.violated("a limit is reached and nobody was told, or told and still set");
        }
        let queue = Posted::Shared(place, srq);
        if !overrun && !all_are_there(world, queue, waiting as usize + claims[srq as usize]) {
            world.violated(&format!("requests of shared receive queue {srq} of process {place} are lost"));
        }
    }
}

/// Completions of each queue pair came in the order of its requests, messages in the order they were sent.
fn check_order(world: &World, place: usize) {
    let process = &world.processes[place];
    let ledger = world.ledger.borrow();
    let polled = process.polled.borrow();
    for (qp, config) in (0u32..).zip(&process.configs) {
        let mine = polled.iter().filter(|completion| completion.qp_num == qp_num((place, qp)));
        let (receives, sends): (Vec<&Completion>, Vec<&Completion>) =
            mine.partition(|completion| completion.wr_id & RECEIVE_ID != 0);
        if !sends.is_sorted_by_key(|completion| completion.wr_id) {
            world.violated(&format!(
                "send completions of queue pair {qp} of process {place} are out of order"
            ));
        }
        if config.srq.is_none() && !receives.is_sorted_by_key(|completion| completion.wr_id) {
            world.violated(&format!(
                "receive completions of queue pair {qp} of process {place} are out of order"
            ));
        }
        // A completion that another thread took just before the reset may be seen after it.
        let before_reset = process.direct[qp as usize].receives.get() as u64;
        let failed = receives.iter().any(|completion| {
            completion.wr_id & !RECEIVE_ID >= before_reset && completion.status != Status::Success
        });
        let state = process.segment.load(Word::Qp(qp, QpWord::State));
        if failed && !world.is_gone((place, qp)) && state != QpState::Err as u64 {
            world.violated(&format!(
                "queue pair {qp} of process {place} has failed receives and is not in error"
            ));
        }
        // How often the send queue had begun anew when a request failed.
        let mut broken = None;
        for completion in &sends {
            let life = ledger.sent[completion.wr_id as usize].life;
            if completion.status != Status::Success {
                broken = Some(life);
            } else if broken == Some(life) && config.qp_type.is_reliable() {
                world.violated("a request succeeds after one that failed");
            }
        }
        let mut last = HashMap::new();
        for completion in receives.iter().filter(|completion| completion.status == Status::Success) {
            let message = message_of(&ledger, completion);
            let life = ledger.sent[message as usize].life;
            let before = last.insert(completion.src_qp, message);
            if before.is_some_and(|before| before > message) {
                world.violated(&format!("message {message} overtakes another"));
            }
            // A reliable queue pair loses none in between.
            let missed = ledger.sent.iter().zip(0..).any(|(sent, number)| {
                qp_num(sent.from) == completion.src_qp
                    && sent.receives()
                    && !sent.dropped
                    && !is_forgotten(world, sent)
                    && !(sent.life != life && sent.status.is_some_and(|s| s != Status::Success))
                    && before.is_none_or(|before| number > before)
                    && number < message
            });
            if config.qp_type.is_reliable() && missed && !overran(&process.segment, config.recv_cq) {
                world.violated(&format!("a message before {message} is missing"));
            }
        }
    }
}

/// Whether a request may have gone with the reset of its target, or met it.
fn is_forgotten(world: &World, sent: &Sent) -> bool {
    world.processes[sent.to.0].direct[sent.to.1 as usize].reset.get().is_some_and(|reset| sent.begun <= reset)
}

fn message_of(ledger: &Ledger, completion: &Completion) -> u64 {
    use softrdma::rules::verbs::WcFlags;
    if completion.flags.has(WcFlags::WITH_IMM) {
        return u64::from(completion.imm_or_key);
    }
    let skipped = if completion.flags.has(WcFlags::GRH) { 5 } else { 0 };
    ledger.receives[(completion.wr_id & !RECEIVE_ID) as usize].buffer[skipped]
}

/// Every request ended as its attributes and its peer say, and what succeeded left its data.
fn check_messages(world: &World, totals: &mut Totals) {
    let ledger = world.ledger.borrow();
    let mut added = Vec::new();
    let mut swaps = vec![0; world.processes.len()];
    for (sent, message) in ledger.sent.iter().zip(0..) {
        totals.sent += 1;
        totals.received += u64::from(sent.received);
        let config = &world.processes[sent.from.0].configs[sent.from.1 as usize];
        let target = &world.processes[sent.to.0];
        let fail = |what: &str| world.violated(&format!("message {message}: {what}"));
        let overrun = |place: usize| {
            let process = &world.processes[place];
            (0..process.pollers.len() as u32).any(|cq| overran(&process.segment, cq))
        };
        let invalidated = target.invalidated.borrow().contains(&message);
        totals.invalidated += u64::from(invalidated);
        // Its process was stopped between the key and the delivery, and nobody waited for it.
        let undone = world.undone.borrow().contains(&message);
        if invalidated
            && sent.received == 0
            && world.alive(sent.from.0)
            && world.alive(sent.to.0)
            && !overrun(sent.to.0)
            && !undone
            && !sent.dropped
            && !is_forgotten(world, sent)
        {
            fail("invalidated its key and was never received");
        }
        let Some(status) = sent.status else {
            check_unseen(world, sent, message, overrun(sent.from.0));
            let failed = |before: &Sent| {
                before.from == sent.from
                    && before.life == sent.life
                    && before.status.is_some_and(|status| status != Status::Success)
            };
            // Whatever was posted after a request that failed is flushed, signalled or not.
            if world.alive(sent.from.0)
                && !overrun(sent.from.0)
                && !sent.dropped
                && config.qp_type.is_reliable()
                && ledger.sent[..message as usize].iter().any(failed)
            {
                fail("was posted after one that failed, and is not flushed");
            }
            continue;
        };
        match status {
            Status::Success => totals.succeeded += 1,
            Status::WrFlushErr => totals.flushed += 1,
            Status::RnrRetryExcErr => {
                totals.not_ready_exceeded += 1;
                if sent.not_ready != u32::from(config.retry.rnr_retry) + 1 {
                    fail("gave up after the wrong number of tries");
                }
            }
            Status::RetryExcErr => totals.retry_exceeded += 1,
            Status::LocProtErr => totals.local_errors += 1,
            Status::RemAccessErr if sent.opcode == Opcode::SendWithInv && !undone => {
                fail("found its key invalid")
            }
            Status::RemInvReqErr | Status::RemAccessErr | Status::RemOpErr => totals.refused += 1,
            other => fail(&format!("ends with {other:?}")),
        }
        if status == Status::RetryExcErr && ack_timeout(config.retry.timeout).is_none() {
            fail("gave up without a timeout");
        }
        if status == Status::Success && !sent.signalled {
            fail("completes without being asked to");
        }
        let receives = sent.receives();
        let reliable = config.qp_type.is_reliable();
        if status != Status::Success && sent.received > 0 && !sent.unknown {
            fail("failed and was received");
        }
        if status == Status::Success
            && reliable
            && receives
            && world.alive(sent.to.0)
            && sent.received != 1
            && !overrun(sent.to.0)
            && !is_forgotten(world, sent)
        {
            fail("succeeded and was never received");
        }
        if status != Status::Success || !reliable {
            continue;
        }
        let results = world.processes[sent.from.0].results.borrow();
        let content = |of: u64| (0..sent.words).map(|at| word(of, at)).collect::<Vec<_>>();
        match sent.opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::AtomicWrite
                if target.written.borrow().get(&message) != Some(&content(message)) =>
            {
                fail("wrote other data")
            }
            Opcode::RdmaRead if results.get(&message) != Some(&content(sent.to.0 as u64)) => {
                fail("read other data")
            }
            Opcode::FetchAndAdd => added.push((sent.to.0, results[&message][0])),
            Opcode::CmpAndSwp => swaps[sent.to.0] += u32::from(results[&message][0] == 0),
            _ => {}
        }
    }
    let count = added.len();
    added.sort_unstable();
    added.dedup();
    if added.len() != count || added.iter().any(|&(place, old)| old >= world.processes[place].counter.get()) {
        world.violated("additions are lost");
    }
    if swaps.iter().any(|&swapped| swapped > 1) {
        world.violated("two swaps found the same value");
    }
}

/// A request without a completion: unsignalled, never posted, its process dead, or waiting where waiting has no
/// end.
fn check_unseen(world: &World, sent: &Sent, message: u64, overrun: bool) {
    if !world.alive(sent.from.0) || overrun || sent.dropped {
        return;
    }
    let process = &world.processes[sent.from.0];
    let config = &process.configs[sent.from.1 as usize];
    let waits = !process.sends[sent.from.1 as usize].borrow().is_empty();
    let posted = !process.acts[config.thread]
        .borrow()
        .iter()
        .any(|(_, act)| matches!(act, Act::Post(_, request) if request.wr_id == message));
    if waits && config.retry.timeout == 0 {
        return;
    }
    if waits || !posted {
        world.violated(&format!("message {message} never comes to an end"));
    }
    if sent.signalled {
        world.violated(&format!("the completion of message {message} is lost"));
    }
}
