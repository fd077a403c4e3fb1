//! The functions that walk over the completions of an extended completion queue. Those that read a completion's
//! fields are left alone: a record has the fields that every completion has, and those that were asked for.

use core::ffi::c_int;

use super::{MOST, Observed, Originals, begin, each_number, is_judged};
use crate::abi::verbs::*;
use crate::check::{self, Completion};
use crate::observe::record::data;

type StartPoll = unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int;
type NextPoll = unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int;
type EndPoll = unsafe extern "C" fn(*mut ibv_cq_ex);

#[derive(Clone, Copy, PartialEq)]
#[allow(unpredictable_function_pointer_comparisons, reason = "a table that is there twice does no harm")]
struct Walk {
    start: Option<StartPoll>,
    next: Option<NextPoll>,
    end: Option<EndPoll>,
}

static WALKS: Originals<Walk, MOST> = Originals::new();

/// The functions of a queue just made.
pub fn observe_cq(cq: &mut ibv_cq_ex) {
    const START: [StartPoll; MOST] = each_number!(start_poll);
    const NEXT: [NextPoll; MOST] = each_number!(next_poll);
    const END: [EndPoll; MOST] = each_number!(end_poll);
    let walk = Walk { start: cq.start_poll, next: cq.next_poll, end: cq.end_poll };
    if let Some(number) = WALKS.number(walk) {
        cq.start_poll = cq.start_poll.map(|_| START[number]);
        cq.next_poll = cq.next_poll.map(|_| NEXT[number]);
        cq.end_poll = cq.end_poll.map(|_| END[number]);
    }
}

unsafe extern "C" fn start_poll<const N: usize>(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    let Some(provided) = WALKS.get(N).start else { return libc::EOPNOTSUPP };
    let seen = begin();
    if is_judged(&seen) {
        check::poll_begins(cq.cast());
    }
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(cq, attr) };
    // SAFETY: as above.
    unsafe { walked(seen, data::START_POLL, cq, answer) };
    answer
}

unsafe extern "C" fn next_poll<const N: usize>(cq: *mut ibv_cq_ex) -> c_int {
    let Some(provided) = WALKS.get(N).next else { return libc::EOPNOTSUPP };
    let seen = begin();
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(cq) };
    // SAFETY: as above.
    unsafe { walked(seen, data::NEXT_POLL, cq, answer) };
    answer
}

unsafe extern "C" fn end_poll<const N: usize>(cq: *mut ibv_cq_ex) {
    let Some(provided) = WALKS.get(N).end else { return };
    let seen = begin();
    // SAFETY: handed on to the caller.
    unsafe { provided(cq) };
    if is_judged(&seen) {
        check::poll_ends(cq.cast());
    }
    if let Some(mut seen) = seen
        && seen.records()
    {
        seen.word(cq as u64);
        seen.end(data::END_POLL, 0, None);
    }
}

/// # Safety
/// A live queue, which stands at a completion where `answer` is 0.
unsafe fn walked(seen: Option<Observed<'_>>, call: u16, cq: *mut ibv_cq_ex, answer: c_int) {
    if is_judged(&seen) {
        // SAFETY: handed on to the caller.
        unsafe { judge(call, cq, answer) };
    }
    let Some(mut seen) = seen else { return };
    if !seen.records() {
        return;
    }
    if answer == libc::ENOENT {
        return seen.end_empty(call, cq as u64);
    }
    seen.word(cq as u64);
    seen.word(0);
    seen.word(0);
    // SAFETY: by the contract.
    let queue = unsafe { cq.as_ref() };
    if answer == 0
        && let Some(queue) = queue
    {
        let succeeded = queue.status == IBV_WC_SUCCESS as u32;
        // SAFETY: by the contract; the functions are those that the provider has put there.
        let read = |function: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>| unsafe {
            function.map_or(0, |function| function(cq))
        };
        seen.word(queue.wr_id);
        let opcode = if succeeded { read(queue.read_opcode) } else { 0 };
        seen.halves(queue.status, opcode);
        let vendor_err = if succeeded { 0 } else { read(queue.read_vendor_err) };
        seen.halves(vendor_err, if succeeded { read(queue.read_byte_len) } else { 0 });
        seen.halves(if succeeded { read(queue.read_imm_data) } else { 0 }, read(queue.read_qp_num));
        let flags = if succeeded { read(queue.read_wc_flags) } else { 0 };
        seen.halves(if succeeded { read(queue.read_src_qp) } else { 0 }, flags);
        seen.word(0);
    }
    seen.end(call, answer.into(), (answer != 0).then_some(answer));
}

/// # Safety
/// As for [`walked`].
unsafe fn judge(call: u16, cq: *mut ibv_cq_ex, answer: c_int) {
    // SAFETY: by the contract.
    let queue = unsafe { cq.as_ref() };
    if answer == 0
        && let Some(queue) = queue
    {
        // SAFETY: by the contract; the functions are those that the provider has put there.
        let read = |function: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> u32>| unsafe {
            function.map(|function| function(cq))
        };
        let completion = Completion {
            wr_id: queue.wr_id,
            status: queue.status,
            opcode: if queue.status == IBV_WC_SUCCESS as u32 { read(queue.read_opcode) } else { None },
            qp_num: read(queue.read_qp_num),
        };
        check::completed(cq.cast(), completion);
    } else if call == data::START_POLL {
        // A walk that has not begun has no end.
        check::poll_ends(cq.cast());
    }
}
