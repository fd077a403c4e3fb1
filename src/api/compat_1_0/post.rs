//! The functions that inline functions of 1.0 call through `ibv_context.ops`.
//!
//! Requests of 1.0 begin with the link to the next one, so a list is written anew in today's form, on the stack
//! when it is short, and posted at once.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use ironverbs_os::growth::TryFill;

use super::layout::*;
use crate::abi::verbs::*;
use crate::errno::Errno;

/// Lists up to this length need no memory.
const SHORT: usize = 16;

/// A request of 1.0 and today's form of it.
trait Request: Sized {
    type Real: Copy;

    /// The next of the list.
    fn next(&self) -> *mut Self;

    /// Today's form, linked to `next`.
    ///
    /// # Safety
    /// The request is valid; what it names is live.
    unsafe fn real(&self, datagram: bool, next: *mut Self::Real) -> Self::Real;
}

impl Request for ibv_recv_wr_1_0 {
    type Real = ibv_recv_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn real(&self, _datagram: bool, next: *mut ibv_recv_wr) -> ibv_recv_wr {
        ibv_recv_wr { wr_id: self.wr_id, next, sg_list: self.sg_list, num_sge: self.num_sge }
    }
}

impl Request for ibv_send_wr_1_0 {
    type Real = ibv_send_wr;

    fn next(&self) -> *mut Self {
        self.next
    }

    unsafe fn real(&self, datagram: bool, next: *mut ibv_send_wr) -> ibv_send_wr {
        // SAFETY: plain C data of integers and pointers; all zeros is its empty value.
        let mut real: ibv_send_wr = unsafe { core::mem::zeroed() };
        real.wr_id = self.wr_id;
        real.next = next;
        real.sg_list = self.sg_list;
        real.num_sge = self.num_sge;
        real.opcode = self.opcode;
        real.send_flags = self.send_flags;
        real.anon1.imm_data = self.imm_data;
        real.wr = self.wr;
        if datagram {
            // SAFETY: requests of datagrams hold a live address handle of 1.0.
            unsafe { real.wr.ud.ah = (*self.wr.ud.ah.cast::<ibv_ah_1_0>()).real_ah };
        }
        real
    }
}

/// How many requests a list has, and where the last leads: to the request with that index, in a list that goes
/// round, or nowhere.
///
/// # Safety
/// `list` is null or a list of valid requests.
unsafe fn measure<R: Request>(list: *mut R) -> (usize, Option<usize>) {
    // SAFETY: by the contract, each request leads to the next or to null.
    let next = |at: *mut R| unsafe { (*at).next() };
    // Brent's way to find a cycle: a mark that is set anew at each power of two, and is met again within the
    // cycle.
    let (mut count, mut since, mut most) = (0, 0, 1);
    let (mut mark, mut at) = (null_mut(), list);
    while at != mark {
        if since == most || mark.is_null() {
            (mark, since, most) = (at, 0, 2 * most);
        }
        (count, since, at) = (count + 1, since + 1, next(at));
        if at.is_null() {
            return (count, None);
        }
    }
    if list.is_null() {
        return (0, None);
    }
    // Two that are one round apart meet where the cycle begins.
    let (mut first, mut ahead) = (list, list);
    (0..since).for_each(|_| ahead = next(ahead));
    let mut before = 0;
    while first != ahead {
        (first, ahead, before) = (next(first), next(ahead), before + 1);
    }
    (before + since, Some(before))
}

/// Posts a list of 1.0 with today's function. When that fails, `*bad` becomes the request of 1.0 that stands
/// where today's failed. A list that goes round becomes one that does, which the queue ends by being full.
///
/// # Safety
/// `list` is null or a list of valid requests, `bad` can be written.
unsafe fn post<R: Request>(
    list: *mut R,
    datagram: bool,
    bad: *mut *mut R,
    verb: impl FnOnce(*mut R::Real, *mut *mut R::Real) -> c_int,
) -> c_int {
    // SAFETY: by the contract.
    let (count, again) = unsafe { measure(list) };
    let mut short = [const { MaybeUninit::<R::Real>::uninit() }; SHORT];
    let mut long = Vec::new();
    let place: *mut R::Real = if count <= SHORT {
        short.as_mut_ptr().cast()
    } else if long.try_reserve_exact(count).is_ok() {
        long.fill_reserved(count, MaybeUninit::<R::Real>::uninit);
        long.as_mut_ptr().cast()
    } else {
        // SAFETY: by the contract.
        unsafe { *bad = list };
        return Errno::ENOMEM.0;
    };
    let mut at = list;
    for index in 0..count {
        let next = if index + 1 < count { Some(index + 1) } else { again };
        // SAFETY: there is a place for each of the `count` requests, of which `at` is this one.
        unsafe {
            let next = next.map_or(null_mut(), |next| place.add(next));
            place.add(index).write((*at).real(datagram, next));
            at = (*at).next();
        }
    }
    let mut real_bad = null_mut();
    let answer = verb(if count == 0 { null_mut() } else { place }, &raw mut real_bad);
    if answer != 0 {
        at = list;
        for index in 0..count {
            // SAFETY: as above.
            unsafe {
                if place.add(index) == real_bad {
                    *bad = at;
                    break;
                }
                at = (*at).next();
            }
        }
    }
    answer
}

/// Calls a function of today's table with today's objects.
///
/// # Safety
/// `$object` is null or a live struct of 1.0, of an open context.
macro_rules! real {
    ($object:ident, $real:ident, $function:ident) => {{
        let Some(object) = $object.as_ref() else { return Errno::EINVAL.0 };
        let Some(function) = (*(*object.context).real_context).ops.$function else {
            return Errno::EOPNOTSUPP.0;
        };
        (function, object.$real)
    }};
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq_1_0, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the program passes a live queue and room for the completions.
    unsafe {
        let (poll, real_cq) = real!(cq, real_cq, poll_cq);
        poll(real_cq, num_entries, wc)
    }
}

pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq_1_0, solicited_only: c_int) -> c_int {
    // SAFETY: the program passes a live queue.
    unsafe {
        let (notify, real_cq) = real!(cq, real_cq, req_notify_cq);
        notify(real_cq, solicited_only)
    }
}

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp_1_0,
    list: *mut ibv_send_wr_1_0,
    bad: *mut *mut ibv_send_wr_1_0,
) -> c_int {
    // SAFETY: the program passes a live queue pair, a valid list and a place to write.
    unsafe {
        let (verb, real_qp) = real!(qp, real_qp, post_send);
        let datagram = (*qp).qp_type == IBV_QPT_UD as u32;
        post(list, datagram, bad, |list, bad| verb(real_qp, list, bad))
    }
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp_1_0,
    list: *mut ibv_recv_wr_1_0,
    bad: *mut *mut ibv_recv_wr_1_0,
) -> c_int {
    // SAFETY: as for `post_send`.
    unsafe {
        let (verb, real_qp) = real!(qp, real_qp, post_recv);
        post(list, false, bad, |list, bad| verb(real_qp, list, bad))
    }
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq_1_0,
    list: *mut ibv_recv_wr_1_0,
    bad: *mut *mut ibv_recv_wr_1_0,
) -> c_int {
    // SAFETY: the program passes a live queue, a valid list and a place to write.
    unsafe {
        let (verb, real_srq) = real!(srq, real_srq, post_srq_recv);
        post(list, false, bad, |list, bad| verb(real_srq, list, bad))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(count: usize) -> Vec<ibv_recv_wr_1_0> {
        let mut list: Vec<_> = (0..count)
            .map(|index| ibv_recv_wr_1_0 {
                next: null_mut(),
                wr_id: 100 + index as u64,
                sg_list: null_mut(),
                num_sge: index as c_int,
            })
            .collect();
        let first = list.as_mut_ptr();
        for index in 1..count {
            // SAFETY: within the array.
            unsafe { (*first.add(index - 1)).next = first.add(index) };
        }
        list
    }

    #[test]
    fn a_list_arrives_in_order_and_the_bad_request_is_found() {
        for count in [1, SHORT, SHORT + 1, 5 * SHORT] {
            let mut list = requests(count);
            let first = list.as_mut_ptr();
            let last = count - 1;
            let mut bad = null_mut();
            // SAFETY: a valid list and a place to write; today's list is valid during the call.
            let answer = unsafe {
                post(first, false, &raw mut bad, |real, real_bad| {
                    let mut at = real;
                    for index in 0..count {
                        assert_eq!(((*at).wr_id, (*at).num_sge), (100 + index as u64, index as c_int));
                        if index == last {
                            *real_bad = at;
                        }
                        at = (*at).next;
                    }
                    assert!(at.is_null());
                    libc::ENOMEM
                })
            };
            assert_eq!(answer, libc::ENOMEM);
            // SAFETY: within the array.
            assert_eq!(bad, unsafe { first.add(last) });
        }
    }

    #[test]
    fn a_list_that_goes_round_becomes_one_that_does() {
        const QUEUE: usize = 100;
        for (before, round) in [(0, 1), (0, 2), (0, SHORT), (1, 1), (3, 5), (SHORT, SHORT + 1), (40, 3)] {
            let count = before + round;
            let mut list = requests(count);
            let first = list.as_mut_ptr();
            // SAFETY: within the array.
            unsafe { (*first.add(count - 1)).next = first.add(before) };
            // SAFETY: a valid list.
            assert_eq!(unsafe { measure(first) }, (count, Some(before)));
            let place = |n: usize| if n < count { n } else { before + (n - before) % round };
            let mut bad = null_mut();
            // SAFETY: a valid list and a place to write; today's list is valid during the call.
            let answer = unsafe {
                post(first, false, &raw mut bad, |real, real_bad| {
                    let mut at = real;
                    for n in 0..QUEUE {
                        assert_eq!((*at).wr_id, 100 + place(n) as u64);
                        at = (*at).next;
                    }
                    *real_bad = at;
                    libc::ENOMEM
                })
            };
            assert_eq!(answer, libc::ENOMEM);
            // SAFETY: within the array.
            assert_eq!(bad, unsafe { first.add(place(QUEUE)) });
        }
    }

    #[test]
    fn an_empty_list_stays_empty_and_success_names_no_bad_request() {
        let mut bad = null_mut();
        // SAFETY: a place to write; the lists are null or valid.
        unsafe {
            assert_eq!(
                post(null_mut::<ibv_recv_wr_1_0>(), false, &raw mut bad, |real, _| c_int::from(
                    !real.is_null()
                )),
                0
            );
            let mut list = requests(2);
            assert_eq!(post(list.as_mut_ptr(), false, &raw mut bad, |_, _| 0), 0);
        }
        assert!(bad.is_null());
    }

    #[test]
    fn a_datagram_gets_the_address_handle_inside() {
        let real_ah = 0x1000 as *mut ibv_ah;
        let mut ah = ibv_ah_1_0 { context: null_mut(), pd: null_mut(), handle: 0, real_ah };
        let request = ibv_send_wr_1_0 {
            next: null_mut(),
            wr_id: 1,
            sg_list: null_mut(),
            num_sge: 3,
            opcode: IBV_WR_SEND_WITH_IMM as u32,
            send_flags: IBV_SEND_SIGNALED as u32,
            imm_data: 77,
            wr: ibv_send_wr_wr {
                ud: ibv_send_wr_wr_ud { ah: (&raw mut ah).cast(), remote_qpn: 5, remote_qkey: 6 },
            },
        };
        // SAFETY: a valid request with a live handle; both forms hold the datagram part.
        unsafe {
            let real = request.real(true, null_mut());
            assert_eq!((real.wr.ud.ah, real.wr.ud.remote_qpn, real.wr.ud.remote_qkey), (real_ah, 5, 6));
            assert_eq!((real.wr_id, real.num_sge, real.anon1.imm_data), (1, 3, 77));
            assert_eq!((real.opcode, real.send_flags), (request.opcode, request.send_flags));
        }
    }
}
