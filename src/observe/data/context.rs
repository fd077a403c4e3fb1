//! The data calls of `ibv_context`, and the functions of `ibv_wq` and `ibv_dm`.

use core::ffi::{c_int, c_void};

use super::{MOST, Observed, Originals, begin, each_number, is_judged};
use crate::abi::verbs::*;
use crate::check::{self, Receives};
use crate::observe::record::data;

type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
type PostSrqRecv = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
type PostSrqOps = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int;
type PostWqRecv = unsafe extern "C" fn(*mut ibv_wq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
type ToDm = unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int;
type FromDm = unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int;

/// What a provider has, where it has it.
#[derive(Clone, Copy, PartialEq)]
#[allow(unpredictable_function_pointer_comparisons, reason = "a table that is there twice does no harm")]
struct Context {
    poll_cq: Option<PollCq>,
    req_notify_cq: Option<ReqNotifyCq>,
    post_send: Option<PostSend>,
    post_recv: Option<PostRecv>,
    post_srq_recv: Option<PostSrqRecv>,
    post_srq_ops: Option<PostSrqOps>,
}

#[derive(Clone, Copy, PartialEq)]
#[allow(unpredictable_function_pointer_comparisons, reason = "as above")]
struct Memory {
    to: Option<ToDm>,
    from: Option<FromDm>,
}

static CONTEXTS: Originals<Context, MOST> = Originals::new();
static WORK_QUEUES: Originals<Option<PostWqRecv>, MOST> = Originals::new();
static MEMORIES: Originals<Memory, MOST> = Originals::new();

/// A function that the table has, since only then there is one in its place.
macro_rules! original {
    ($tables:ident, $number:ident, $name:ident) => {
        match $tables.get($number).$name {
            Some(function) => function,
            None => return libc::EOPNOTSUPP,
        }
    };
}

/// The functions of a context's data path, one of each place.
///
/// `post_srq_ops` is None where the context is too short for it.
pub fn observe_context(ops: &mut ibv_context_ops, post_srq_ops: Option<&mut Option<PostSrqOps>>) {
    let mut none = None;
    let post_srq_ops = post_srq_ops.unwrap_or(&mut none);
    let table = Context {
        poll_cq: ops.poll_cq,
        req_notify_cq: ops.req_notify_cq,
        post_send: ops.post_send,
        post_recv: ops.post_recv,
        post_srq_recv: ops.post_srq_recv,
        post_srq_ops: *post_srq_ops,
    };
    let Some(number) = CONTEXTS.number(table) else { return };
    const POLL_CQ: [PollCq; MOST] = each_number!(poll_cq);
    const REQ_NOTIFY_CQ: [ReqNotifyCq; MOST] = each_number!(req_notify_cq);
    const POST_SEND: [PostSend; MOST] = each_number!(post_send);
    const POST_RECV: [PostRecv; MOST] = each_number!(post_recv);
    const POST_SRQ_RECV: [PostSrqRecv; MOST] = each_number!(post_srq_recv);
    const POST_SRQ_OPS: [PostSrqOps; MOST] = each_number!(observed_srq_ops);
    ops.poll_cq = ops.poll_cq.map(|_| POLL_CQ[number]);
    ops.req_notify_cq = ops.req_notify_cq.map(|_| REQ_NOTIFY_CQ[number]);
    ops.post_send = ops.post_send.map(|_| POST_SEND[number]);
    ops.post_recv = ops.post_recv.map(|_| POST_RECV[number]);
    ops.post_srq_recv = ops.post_srq_recv.map(|_| POST_SRQ_RECV[number]);
    *post_srq_ops = post_srq_ops.map(|_| POST_SRQ_OPS[number]);
}

/// The function of a work queue just made.
pub fn observe_wq(place: &mut Option<PostWqRecv>) {
    const POST_WQ_RECV: [PostWqRecv; MOST] = each_number!(post_wq_recv);
    if place.is_some()
        && let Some(number) = WORK_QUEUES.number(*place)
    {
        *place = Some(POST_WQ_RECV[number]);
    }
}

/// The functions of device memory just made.
pub fn observe_dm(to: &mut Option<ToDm>, from: &mut Option<FromDm>) {
    const TO: [ToDm; MOST] = each_number!(memcpy_to_dm);
    const FROM: [FromDm; MOST] = each_number!(memcpy_from_dm);
    if let Some(number) = MEMORIES.number(Memory { to: *to, from: *from }) {
        *to = to.map(|_| TO[number]);
        *from = from.map(|_| FROM[number]);
    }
}

/// The convention of a value: an error's number, 0 for none.
fn failure(answer: c_int) -> Option<i32> {
    (answer != 0).then_some(answer)
}

unsafe extern "C" fn poll_cq<const N: usize>(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    let provided = original!(CONTEXTS, N, poll_cq);
    let seen = begin();
    let judged = is_judged(&seen);
    if judged {
        check::poll_begins(cq);
    }
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(cq, num_entries, wc) };
    if judged {
        // SAFETY: the provider has written as many completions as it says.
        unsafe { check::polled(cq, wc, answer) };
    }
    if let Some(mut seen) = seen
        && seen.records()
    {
        if answer == 0 {
            seen.end_empty(data::POLL_CQ, cq as u64);
        } else {
            // SAFETY: the provider has written as many completions as it says.
            unsafe { polled(seen, cq, num_entries, wc, answer) };
        }
    }
    answer
}

/// # Safety
/// `wc` has as many completions as `answer` says.
#[inline(never)]
unsafe fn polled(
    mut seen: Observed<'_>,
    cq: *mut ibv_cq,
    num_entries: c_int,
    wc: *const ibv_wc,
    answer: c_int,
) {
    const EACH: usize = size_of::<ibv_wc>() / 8;
    const _: () = assert!(size_of::<ibv_wc>().is_multiple_of(8) && align_of::<ibv_wc>() == 8);
    let head = |seen: &mut Observed<'_>| {
        seen.word(cq as u64);
        seen.word(num_entries as u64);
        seen.word(0);
    };
    head(&mut seen);
    for at in 0..usize::try_from(answer).unwrap_or(0) {
        if !seen.has_room(EACH) {
            seen.part(data::POLL_CQ);
            head(&mut seen);
        }
        for word in 0..EACH {
            // SAFETY: by the contract; padding of the program's struct is bytes that are there.
            seen.word(unsafe { wc.add(at).cast::<u64>().add(word).read() });
        }
    }
    let failed = (answer < 0).then(|| answer.wrapping_neg());
    seen.end(data::POLL_CQ, answer.into(), failed);
}

unsafe extern "C" fn req_notify_cq<const N: usize>(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    let provided = original!(CONTEXTS, N, req_notify_cq);
    let seen = begin();
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(cq, solicited_only) };
    if let Some(mut seen) = seen
        && seen.records()
    {
        seen.word(cq as u64);
        seen.word(solicited_only as u64);
        seen.end(data::REQ_NOTIFY_CQ, answer.into(), failure(answer));
    }
    answer
}

/// Writes scatter/gather elements.
///
/// # Safety
/// The list has as many as `count` says, if that is positive.
unsafe fn elements(seen: &mut Observed<'_>, list: *const ibv_sge, count: c_int) {
    if list.is_null() {
        return;
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by the contract.
        let sge = unsafe { *list.add(at) };
        seen.word(sge.addr);
        seen.halves(sge.length, sge.lkey);
    }
}

/// How many elements of a request are written: none of one that was refused, whose list may be shorter than it
/// says. Then the request's own number stands there, with [`UNSEEN`].
fn shown_elements(
    seen: &Observed<'_>,
    list: *const ibv_sge,
    count: c_int,
    head: usize,
    refused: bool,
) -> u32 {
    let asked = if list.is_null() { 0 } else { u32::try_from(count).unwrap_or(0) };
    let whole = !refused && (list.is_null() || count >= 0) && seen.has_room(head + 2 * asked as usize);
    if whole { asked } else { UNSEEN | (count as u32 & !UNSEEN) }
}

/// In the place of how many elements follow: none, and the rest is what the request says, without its sign.
pub const UNSEEN: u32 = 1 << 31;

/// What of a list was accepted, by what the provider has answered.
#[derive(Clone, Copy)]
enum Posted<T> {
    /// All of it.
    Whole,
    /// What stands before this request.
    Until(*const T),
    /// Nobody knows.
    Unknown,
}

impl<T> Posted<T> {
    /// # Safety
    /// `first` is null or the list, `bad` null or where the provider has written where it failed.
    unsafe fn of(answer: c_int, first: *const T, bad: *mut *mut T, next: impl Fn(&T) -> *const T) -> Self {
        if answer == 0 {
            return Self::Whole;
        }
        // SAFETY: by the contract; what the program had there before is compared, and not looked into.
        let bad = unsafe { bad.as_ref() }.map_or(core::ptr::null(), |bad| bad.cast_const());
        let mut at = first;
        // SAFETY: by the contract.
        while let Some(request) = unsafe { at.as_ref() } {
            if at == bad {
                return Self::Until(bad);
            }
            at = next(request);
        }
        Self::Unknown
    }

    /// Whether this request was refused, and whether the list was read no further.
    fn refused(self, request: *const T) -> (bool, bool) {
        match self {
            Self::Whole => (false, false),
            Self::Until(bad) => (request == bad, request == bad),
            Self::Unknown => (true, false),
        }
    }
}

/// Words of a send request before its elements.
pub const SEND_WORDS: usize = 9;
/// Of a receive request.
pub const RECV_WORDS: usize = 2;
/// Of an operation on tags.
pub const OPS_WORDS: usize = 6;

/// Writes the requests of a list.
///
/// # Safety
/// `wr` is null or a list of requests, of which `posted` says what was accepted.
#[inline(never)]
unsafe fn send_list(
    seen: &mut Observed<'_>,
    qp: *mut ibv_qp,
    mut wr: *const ibv_send_wr,
    posted: Posted<ibv_send_wr>,
) {
    // SAFETY: by the contract, and the verb's.
    let (qp_num, qp_type) = unsafe { qp.as_ref() }.map_or((0, 0), |qp| (qp.qp_num, qp.qp_type));
    seen.halves(qp_num, qp_type);
    // SAFETY: by the contract.
    while let Some(request) = unsafe { wr.as_ref() } {
        let (refused, last) = posted.refused(wr);
        if !seen.has_room(SEND_WORDS + 2 * usize::try_from(request.num_sge).unwrap_or(0)) {
            seen.part(data::POST_SEND);
            seen.halves(qp_num, qp_type);
        }
        let shown = shown_elements(seen, request.sg_list, request.num_sge, SEND_WORDS, refused);
        seen.word(request.wr_id);
        seen.halves(request.opcode, request.send_flags);
        // SAFETY: every view of the union is 4 plain bytes.
        seen.halves(unsafe { request.anon1.imm_data }, shown);
        // SAFETY: words of unions of plain C data, of which the operation says what they are.
        unsafe {
            if request.opcode == IBV_WR_BIND_MW as u32 {
                let bind = &request.anon2.bind_mw;
                seen.word(bind.mw as u64);
                seen.word(bind.rkey.into());
                seen.word(bind.bind_info.addr);
                seen.word(bind.bind_info.length);
                seen.halves(bind.bind_info.mw_access_flags, 0);
                seen.word(bind.bind_info.mr as u64);
            } else {
                let words = (&raw const request.wr).cast::<u64>();
                for word in 0..4 {
                    seen.word(words.add(word).read());
                }
                seen.halves(request.qp_type.xrc.remote_srqn, 0);
                let tso = &request.anon2.tso;
                seen.word(u64::from(tso.hdr_sz) | u64::from(tso.mss) << 16);
            }
            elements(seen, request.sg_list, if shown & UNSEEN == 0 { shown as c_int } else { 0 });
        }
        if last {
            break;
        }
        wr = request.next;
    }
}

/// As [`send_list`].
///
/// # Safety
/// As for that.
#[inline(never)]
unsafe fn recv_list(
    seen: &mut Observed<'_>,
    queue: u64,
    mut wr: *const ibv_recv_wr,
    call: u16,
    posted: Posted<ibv_recv_wr>,
) {
    seen.word(queue);
    // SAFETY: by the contract.
    while let Some(request) = unsafe { wr.as_ref() } {
        let (refused, last) = posted.refused(wr);
        if !seen.has_room(RECV_WORDS + 2 * usize::try_from(request.num_sge).unwrap_or(0)) {
            seen.part(call);
            seen.word(queue);
        }
        let shown = shown_elements(seen, request.sg_list, request.num_sge, RECV_WORDS, refused);
        seen.word(request.wr_id);
        seen.halves(shown, 0);
        // SAFETY: by the contract.
        unsafe { elements(seen, request.sg_list, if shown & UNSEEN == 0 { shown as c_int } else { 0 }) };
        if last {
            break;
        }
        wr = request.next;
    }
}

unsafe extern "C" fn post_send<const N: usize>(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let provided = original!(CONTEXTS, N, post_send);
    let seen = begin();
    let judged = is_judged(&seen);
    if judged {
        // SAFETY: the program's list, which is the verb's to read.
        unsafe { check::send_begins(qp, wr) };
    }
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(qp, wr, bad_wr) };
    if judged {
        // SAFETY: as above; the provider has said where it failed.
        unsafe { check::send_ended(qp, wr, bad_wr, answer) };
    }
    if let Some(mut seen) = seen
        && seen.records()
    {
        seen.stop();
        // SAFETY: the list is the program's until the call returns.
        unsafe {
            let posted = Posted::of(answer, wr, bad_wr, |wr: &ibv_send_wr| wr.next);
            send_list(&mut seen, qp, wr, posted);
        }
        seen.end(data::POST_SEND, answer.into(), failure(answer));
    }
    answer
}

/// Ends a post of receives.
///
/// # Safety
/// The arguments and the answer of such a call.
unsafe fn received(
    seen: Option<Observed<'_>>,
    call: u16,
    queue: u64,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    answer: c_int,
) {
    if let Some(mut seen) = seen
        && seen.records()
    {
        seen.stop();
        // SAFETY: the list is the program's until the call returns.
        unsafe {
            let posted = Posted::of(answer, wr, bad_wr, |wr: &ibv_recv_wr| wr.next);
            recv_list(&mut seen, queue, wr, call, posted);
        }
        seen.end(call, answer.into(), failure(answer));
    }
}

unsafe extern "C" fn post_recv<const N: usize>(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let provided = original!(CONTEXTS, N, post_recv);
    let seen = begin();
    // SAFETY: handed on to the caller; a live queue pair.
    unsafe {
        let to = Receives::Qp(qp);
        let judged = is_judged(&seen);
        if judged {
            check::receive_begins(to, wr);
        }
        let answer = provided(qp, wr, bad_wr);
        if judged {
            check::receive_ended(to, wr, bad_wr, answer);
        }
        let number = qp.as_ref().map_or(0, |qp| u64::from(qp.qp_num));
        received(seen, data::POST_RECV, number, wr, bad_wr, answer);
        answer
    }
}

unsafe extern "C" fn post_srq_recv<const N: usize>(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let provided = original!(CONTEXTS, N, post_srq_recv);
    let seen = begin();
    // SAFETY: handed on to the caller.
    unsafe {
        let to = Receives::Srq(srq);
        let judged = is_judged(&seen);
        if judged {
            check::receive_begins(to, wr);
        }
        let answer = provided(srq, wr, bad_wr);
        if judged {
            check::receive_ended(to, wr, bad_wr, answer);
        }
        received(seen, data::POST_SRQ_RECV, srq as u64, wr, bad_wr, answer);
        answer
    }
}

unsafe extern "C" fn post_wq_recv<const N: usize>(
    wq: *mut ibv_wq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let Some(provided) = *WORK_QUEUES.get(N) else { return libc::EOPNOTSUPP };
    let seen = begin();
    // SAFETY: handed on to the caller.
    unsafe {
        let answer = provided(wq, wr, bad_wr);
        received(seen, data::POST_WQ_RECV, wq as u64, wr, bad_wr, answer);
        answer
    }
}

unsafe extern "C" fn observed_srq_ops<const N: usize>(
    srq: *mut ibv_srq,
    op: *mut ibv_ops_wr,
    bad_op: *mut *mut ibv_ops_wr,
) -> c_int {
    let provided = original!(CONTEXTS, N, post_srq_ops);
    let seen = begin();
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(srq, op, bad_op) };
    let Some(mut seen) = seen else { return answer };
    if !seen.records() {
        return answer;
    }
    seen.stop();
    seen.word(srq as u64);
    let mut next = op.cast_const();
    // SAFETY: a list of the program's, which is its own until the call returns.
    while let Some(operation) = unsafe { next.as_ref() } {
        if !seen.has_room(OPS_WORDS) {
            seen.part(data::POST_SRQ_OPS);
            seen.word(srq as u64);
        }
        seen.word(operation.wr_id);
        seen.halves(operation.opcode, operation.flags as u32);
        seen.halves(operation.tm.handle, operation.tm.unexpected_cnt);
        seen.word(operation.tm.add.recv_wr_id);
        seen.word(operation.tm.add.tag);
        seen.word(operation.tm.add.mask);
        next = operation.next;
    }
    seen.end(data::POST_SRQ_OPS, answer.into(), failure(answer));
    answer
}

unsafe extern "C" fn memcpy_to_dm<const N: usize>(
    dm: *mut ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    let provided = original!(MEMORIES, N, to);
    let seen = begin();
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(dm, dm_offset, host_addr, length) };
    copied(seen, data::MEMCPY_TO_DM, [dm as u64, dm_offset, host_addr as u64, length as u64], answer);
    answer
}

unsafe extern "C" fn memcpy_from_dm<const N: usize>(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    let provided = original!(MEMORIES, N, from);
    let seen = begin();
    // SAFETY: handed on to the caller.
    let answer = unsafe { provided(host_addr, dm, dm_offset, length) };
    copied(seen, data::MEMCPY_FROM_DM, [dm as u64, dm_offset, host_addr as u64, length as u64], answer);
    answer
}

fn copied(seen: Option<Observed<'_>>, call: u16, words: [u64; 4], answer: c_int) {
    if let Some(mut seen) = seen
        && seen.records()
    {
        words.into_iter().for_each(|word| seen.word(word));
        seen.end(call, answer.into(), failure(answer));
    }
}
