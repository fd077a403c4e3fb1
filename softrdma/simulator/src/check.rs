//! The invariants at the end of a run, from what the programs saw.

use std::collections::HashMap;

use softrdma::rules::timers::{ack_timeout, rnr_timer};
use softrdma::rules::verbs::{Opcode, Status};
use softrdma_schedule::play::Fate;

use crate::Totals;
use crate::ledger::{Ledger, PROCESSES, Polled, Sent, word};
use crate::plan::{Message, Plan};

/// A request that arrived so soon was carried out when it was posted: nothing waits for less.
const AT_ONCE: u64 = 8_000;

/// What is wrong, if anything is.
pub fn check(plan: &Plan, ledger: &Ledger, totals: &mut Totals) -> Result<(), String> {
    for (place, process) in plan.processes.iter().enumerate() {
        if !ledger.seen[place].dead.get() {
            for qp in 0..process.qps.len() {
                check_order(plan, ledger, (place, qp))?;
            }
            check_answers(plan, ledger, place, totals)?;
        }
    }
    check_messages(plan, ledger, totals)
}

fn is_send(polled: &&Polled) -> bool {
    polled.wr_id >> 63 == 0
}

/// Completions of a queue pair came in the order of its requests, messages in the order they were sent.
fn check_order(plan: &Plan, ledger: &Ledger, end: (usize, usize)) -> Result<(), String> {
    let (seen, own) = (&ledger.seen[end.0], &plan.processes[end.0].qps[end.1]);
    let overran = seen.overran.get();
    let all: Vec<Polled> = seen.polled[..seen.count.get()].iter().map(|polled| polled.get()).collect();
    let mine = all.iter().filter(|polled| polled.qp == end.1);
    let (sends, receives): (Vec<&Polled>, Vec<&Polled>) = mine.partition(is_send);
    if !sends.is_sorted_by_key(|polled| polled.wr_id) {
        return Err(format!("send completions of {end:?} are out of order"));
    }
    if own.srq.is_none() && !receives.is_sorted_by_key(|polled| polled.wr_id) {
        return Err(format!("receive completions of {end:?} are out of order"));
    }
    let mut broken = None;
    for polled in &sends {
        let life = ledger.sent[polled.wr_id as usize].life.get();
        if polled.status != Some(Status::Success) {
            broken = Some(life);
        } else if broken == Some(life) && own.qp_type.is_reliable() {
            return Err(format!("request {} of {end:?} succeeds after one that failed", polled.wr_id));
        }
    }
    let mut last: HashMap<(usize, usize), usize> = HashMap::new();
    for polled in &receives {
        let Some(message) = polled.message else { continue };
        let from = plan.messages[message].from;
        let before = last.insert(from, message);
        if before.is_some_and(|before| before > message) {
            return Err(format!("message {message} overtakes another"));
        }
        // A reliable queue pair loses none in between.
        let life = ledger.sent[message].life.get();
        let missed = (before.map_or(0, |before| before + 1)..message).find(|number| {
            let (sent, other) = (&ledger.sent[*number], &plan.messages[*number]);
            other.from == from
                && other.receives()
                && sent.posted.get() != 0
                && !sent.forgotten.get()
                && !is_forgotten(ledger, sent, other)
                && !(sent.life.get() != life && sent.status.get().is_some_and(|s| s != Status::Success))
                && sent.received.get() == 0
        });
        if let Some(missed) = missed.filter(|_| own.qp_type.is_reliable() && !overran) {
            return Err(format!("message {missed} is missing before {message}"));
        }
    }
    Ok(())
}

/// The completion of a request comes before whatever its receiver sent after it, and after the call that posted
/// it had returned: where one thread posts and polls, and the request did not wait, so that no other carried it
/// out.
fn check_answers(plan: &Plan, ledger: &Ledger, place: usize, totals: &mut Totals) -> Result<(), String> {
    if plan.processes[place].threads > 1 {
        return Ok(());
    }
    let seen = &ledger.seen[place];
    // By process, the first message that was polled which it sent latest.
    let mut answers: [Option<usize>; PROCESSES] = [None; PROCESSES];
    for polled in seen.polled[..seen.count.get()].iter().map(|polled| polled.get()) {
        if let Some(message) = polled.message {
            let latest = &mut answers[plan.messages[message].from.0];
            let posted = |message: usize| ledger.sent[message].posted.get();
            if latest.is_none_or(|latest| posted(latest) < posted(message)) {
                *latest = Some(message);
            }
        }
        if !is_send(&&polled) || polled.status != Some(Status::Success) {
            continue;
        }
        let (number, sent) = (polled.wr_id as usize, &ledger.sent[polled.wr_id as usize]);
        let (arrived, waited) = (sent.arrived.get(), sent.arrived.get().saturating_sub(sent.posted.get()));
        let to = plan.messages[number].to.0;
        if sent.received.get() == 0 || to == place || waited >= AT_ONCE {
            continue;
        }
        totals.answered += 1;
        let known = arrived.max(sent.returned.get());
        let answer = answers[to].filter(|answer| ledger.sent[*answer].posted.get() > known);
        if let Some(answer) = answer {
            return Err(format!(
                "message {answer:x} comes before the completion of {number:x}, which it answers"
            ));
        }
    }
    Ok(())
}

/// Whether a request may have gone with the reset of its target, or met it.
fn is_forgotten(ledger: &Ledger, sent: &Sent, message: &Message) -> bool {
    ledger.pair(message.to).reset.get().is_some_and(|reset| sent.posted.get() <= reset)
}

/// Every request ended as its attributes and its peer say, and what succeeded left its data.
fn check_messages(plan: &Plan, ledger: &Ledger, totals: &mut Totals) -> Result<(), String> {
    let stops = plan.fates.iter().any(|(_, _, fate)| matches!(fate, Fate::Stops(_)));
    let mut added = Vec::new();
    let mut swaps = vec![0; plan.processes.len()];
    for (number, (message, sent)) in plan.messages.iter().zip(&ledger.sent).enumerate() {
        if sent.posted.get() == 0 {
            continue;
        }
        totals.sent += 1;
        totals.received += u64::from(sent.received.get());
        let fail = |what: &str| Err(format!("message {number}: {what}"));
        let own = &plan.processes[message.from.0].qps[message.from.1];
        let (here, there) = (&ledger.seen[message.from.0], &ledger.seen[message.to.0]);
        let Some(status) = sent.status.get() else { continue };
        let waited = sent.completed.get().saturating_sub(sent.posted.get());
        match status {
            Status::Success => totals.succeeded += 1,
            Status::WrFlushErr => totals.flushed += 1,
            Status::RnrRetryExcErr => {
                totals.not_ready_exceeded += 1;
                let peer = &plan.processes[message.to.0].qps[message.to.1];
                if waited < rnr_timer(peer.min_rnr_timer) * u64::from(own.rnr_retry) {
                    return fail("gave up on a receiver that is not ready too early");
                }
            }
            Status::RetryExcErr => {
                totals.retry_exceeded += 1;
                let patience = ack_timeout(own.timeout).map(|time| time * (u64::from(own.retry_cnt) + 1));
                if patience.is_none_or(|patience| waited < patience) {
                    return fail("gave up too early");
                }
            }
            Status::LocProtErr if message.bad_lkey => totals.local_errors += 1,
            Status::RemAccessErr if message.bad_rkey => totals.refused += 1,
            // Its window went with a queue pair that broke, was stopped over it, or was closed by a first try.
            Status::RemAccessErr
                if message.opcode == Opcode::SendWithInv
                    && (ledger.pair(message.to).lives.get() > 0
                        || ledger.pair(message.to).broken.get()
                        || stops) =>
            {
                totals.refused += 1;
            }
            Status::RemInvReqErr | Status::RemOpErr => totals.refused += 1,
            other => return fail(&format!("ends with {other:?}")),
        }
        if status == Status::Success && !message.signalled {
            return fail("completes without being asked to");
        }
        let reliable = own.qp_type.is_reliable();
        let is_alone = here.overran.get() || there.overran.get();
        if status != Status::Success && status != Status::WrFlushErr && sent.received.get() > 0 && reliable {
            return fail("failed and was received");
        }
        if status == Status::Success
            && reliable
            && message.receives()
            && !there.dead.get()
            && sent.received.get() != 1
            && !is_alone
            && !is_forgotten(ledger, sent, message)
        {
            return fail("succeeded and was never received");
        }
        if status != Status::Success || !reliable {
            continue;
        }
        let is = |space: &[std::cell::Cell<u64>], of: u64| {
            space.iter().zip(0..message.words).all(|(place, at)| place.get() == word(of, at))
        };
        let result = ledger.results[number][0].get();
        match message.opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm | Opcode::AtomicWrite
                if !is(&ledger.written[number], number as u64) =>
            {
                return fail("wrote other data");
            }
            Opcode::RdmaRead if !is(&ledger.results[number], message.to.0 as u64) => {
                return fail("read other data");
            }
            Opcode::FetchAndAdd => added.push((message.to.0, result)),
            Opcode::CmpAndSwp => swaps[message.to.0] += u32::from(result == 0),
            _ => {}
        }
    }
    let count = added.len();
    added.sort_unstable();
    added.dedup();
    if added.len() != count || added.iter().any(|&(place, old)| old >= ledger.counter[place].get()) {
        return Err("additions are lost".into());
    }
    if swaps.iter().any(|&swapped| swapped > 1) {
        return Err("two swaps found the same value".into());
    }
    Ok(())
}
