//! Rules at the poll of completions.

use std::sync::atomic::{AtomicBool, Ordering};

use super::buffers::Sum;
use super::objects::{Ledger, Object};
use super::posts::give_up;
use super::queue_pair::{Looked, Seen};
use super::report::{Findings, is_noted};
use super::rules::Id;
use super::thread;
use crate::abi::verbs::*;

/// A completion that the program has polled.
#[derive(Clone, Copy)]
pub struct Completion {
    /// The request's identifier.
    pub wr_id: u64,
    /// `IBV_WC_SUCCESS`, or what failed.
    pub status: u32,
    /// Of a successful one, the operation, where it can be read.
    pub opcode: Option<u32>,
    /// The queue pair's number, where it can be read.
    pub qp_num: Option<u32>,
}

/// Whether a queue was made for one thread, so that it matters who polls it.
static IS_ANY_FOR_ONE: AtomicBool = AtomicBool::new(false);

/// A queue is made for one thread.
pub fn made_for_one() {
    IS_ANY_FOR_ONE.store(true, Ordering::Relaxed);
}

/// Whether [`poll_begins`] and [`poll_ends`] are to be told.
#[inline]
pub fn are_polls_told() -> bool {
    IS_ANY_FOR_ONE.load(Ordering::Relaxed)
}

/// A thread begins to poll.
pub fn poll_begins(ledger: &mut Ledger, found: &mut Findings, address: u64) {
    let mine = thread();
    let Some(cq) = ledger.cq(address) else { return };
    if !cq.is_for_one {
        return;
    }
    let (within, poller) = (cq.within, core::mem::replace(&mut cq.poller, mine));
    cq.within = mine;
    let about = |ledger: &Ledger| ledger.objects.get(address).and_then(Object::about);
    if within != 0 && within != mine {
        let what = "two threads poll the queue at the same time".to_owned();
        found.error(Id::CqThreads, what, about(ledger));
    } else if poller != 0 && poller != mine {
        let what = || "another thread has polled the queue before".to_owned();
        found.note(Id::CqThreads, what, about(ledger));
    }
}

/// A thread has polled.
pub fn poll_ends(ledger: &mut Ledger, address: u64) {
    if let Some(cq) = ledger.cq(address) {
        cq.within = 0;
    }
}

/// The program has polled a completion.
pub fn completed(ledger: &mut Ledger, found: &mut Findings, cq: u64, completion: Completion) {
    let Some(context) = ledger.objects.get(cq).map(|object| object.context) else { return };
    let Some(number) = completion.qp_num else { return give_up_all(ledger, cq) };
    let Some(address) = ledger.numbered(context, number) else { return };
    match is_receive(ledger, address, cq, &completion) {
        Some(true) => received(ledger, found, address, &completion),
        Some(false) => sent(ledger, found, address, &completion),
        None => {
            give_up(ledger, address);
            if let Some(qp) = ledger.qp(address) {
                qp.follows_receives = false;
            }
        }
    }
}

/// A completion names no queue pair: what its queue's have outstanding is not known any more.
#[cold]
fn give_up_all(ledger: &mut Ledger, cq: u64) {
    loop {
        let follows = |object: &Object| match &object.detail {
            super::objects::Detail::Qp(qp) => {
                [qp.send_cq, qp.recv_cq].contains(&cq) && (qp.follows_sends || qp.follows_receives)
            }
            _ => false,
        };
        let found = ledger.objects.iter().find(|(_, object)| follows(object)).map(|(address, _)| address);
        let Some(address) = found else { return };
        give_up(ledger, address);
        if let Some(qp) = ledger.qp(address) {
            qp.follows_receives = false;
        }
    }
}

/// Whether a completion is of a receive; None where nothing says so.
fn is_receive(ledger: &mut Ledger, address: u64, cq: u64, completion: &Completion) -> Option<bool> {
    if let Some(opcode) = completion.opcode.filter(|_| completion.status == IBV_WC_SUCCESS as u32) {
        return Some(opcode & IBV_WC_RECV as u32 != 0);
    }
    let qp = ledger.qp(address)?;
    if qp.send_cq != qp.recv_cq {
        return Some(cq == qp.recv_cq);
    }
    let is_send = qp.sends.iter().any(|request| request.wr_id == completion.wr_id);
    let is_receive = qp.receives.contains(&completion.wr_id);
    match (is_send, is_receive) {
        (true, false) if qp.srq == 0 => Some(false),
        (false, true) => Some(true),
        (false, false) if qp.srq != 0 && qp.follows_sends => Some(true),
        _ => None,
    }
}

fn received(ledger: &mut Ledger, found: &mut Findings, address: u64, completion: &Completion) {
    let Some(qp) = ledger.qp(address) else { return };
    qp.received += 1;
    if qp.srq != 0 || !qp.follows_receives {
        return;
    }
    let Some(at) = qp.receives.iter().position(|wr_id| *wr_id == completion.wr_id) else {
        qp.follows_receives = false;
        return;
    };
    qp.receives.remove(at);
    let (is_last, recv_cq, number) = (qp.receives.is_empty(), qp.recv_cq, qp.number);
    let receives = [IBV_QPS_RTR, IBV_QPS_RTS].iter().any(|state| qp.state == Some(*state as u32));
    let waits = receives && qp.service == IBV_QPT_RC as u32;
    if let Some(cq) = ledger.cq(recv_cq) {
        cq.receives = cq.receives.saturating_sub(1);
    }
    if is_last && waits {
        let what = || format!("queue pair {number:#x} has no receive request any more");
        let about = ledger.objects.get(address).and_then(Object::about);
        found.note(Id::ReceiveNotReady, what, about);
    }
}

fn sent(ledger: &mut Ledger, found: &mut Findings, address: u64, completion: &Completion) {
    let succeeded = completion.status == IBV_WC_SUCCESS as u32;
    let about = |ledger: &Ledger| ledger.objects.get(address).and_then(Object::about);
    let Some(qp) = ledger.qp(address) else { return };
    if completion.status == IBV_WC_RNR_RETRY_EXC_ERR as u32 {
        let what = format!("the peer of queue pair {:#x} had no receive request", qp.number);
        found.error(Id::ReceiveNotReady, what, about(ledger));
    }
    let Some(qp) = ledger.qp(address) else { return };
    if !qp.follows_sends {
        return;
    }
    let Some(count) = qp.ended_by(completion.wr_id, succeeded) else {
        return give_up(ledger, address);
    };
    let (is_datagram, send_cq, mut signaled) = (qp.is_datagram(), qp.send_cq, 0);
    for ended in 0..count {
        let Some(qp) = ledger.qp(address) else { break };
        let Some((request, looked)) = qp.take_oldest() else { break };
        signaled += u64::from(request.is_signaled);
        if !succeeded && ended + 1 == count {
            let is_wanted = qp.state == Some(IBV_QPS_ERR as u32) || qp.state.is_none();
            qp.seen = match qp.seen {
                _ if is_wanted => Seen::Nothing,
                Seen::Nothing => Seen::Once(qp.posted),
                Seen::Once(posted) if request.serial < posted => Seen::Once(posted),
                _ => Seen::Again,
            };
        }
        if succeeded && let Some(looked) = looked {
            let may_know = !request.is_signaled || is_datagram;
            let (number, received) = (qp.number, qp.received);
            look(ledger, found, address, (number, received, may_know), request.wr_id, &looked);
        }
    }
    if let Some(cq) = ledger.cq(send_cq) {
        cq.sends = cq.sends.saturating_sub(signaled);
    }
}

/// Looks at what a request has sent, which has completed.
fn look(
    ledger: &mut Ledger,
    found: &mut Findings,
    address: u64,
    (number, received, may_know): (u32, u64, bool),
    wr_id: u64,
    Looked { buffer, place, .. }: &Looked,
) {
    let Some(change) = buffer.change() else { return };
    let is_sure = !may_know && !buffer.is_shared && received == buffer.received;
    let (first, length) = buffer.extent();
    let (id, how) = match change {
        Sum::Gone => (Id::BufferUnmapped, "cannot be read any more"),
        _ => (Id::BufferChanged, "were changed"),
    };
    let what = format!(
        "{length} bytes at {first:#x}, which request {wr_id} of queue pair {number:#x} sends, {how} before its \
         completion was polled"
    );
    let Some(object) = ledger.objects.get_mut(address) else { return };
    if !is_sure {
        if !is_noted() {
            return;
        }
        found.note(id, || what, object.about());
    } else if object.is_first(id) {
        found.error(id, what, object.about());
    } else {
        return;
    }
    found.posted(*place);
}
