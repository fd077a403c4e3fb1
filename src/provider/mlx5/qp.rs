//! Queue pairs: what is kept beside libmlx5's, and posting.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use queue_lock::QueueLock;

use super::queue::{Origin, Receives, Source};
use super::send::SendQueue;
use super::wqe;
use super::{barrier, found};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::context;

/// A queue pair.
#[repr(C, align(64))]
pub struct Qp {
    /// What completions lead to.
    pub origin: Origin,
    /// The sending side; none where libmlx5 posts.
    pub send: Option<QueueLock<SendQueue>>,
    /// The receiving side; none where libmlx5 posts, or a shared queue is used.
    pub receive: Option<QueueLock<ReceiveQueue>>,
    /// Sends are built by calls, of ours.
    pub builders: bool,
}

/// The receiving side of a queue pair, guarded by its lock.
pub struct ReceiveQueue {
    record: NonNull<AtomicU32>,
    /// Requests that were ever posted.
    posted: u32,
    /// Pieces of memory that a request has room for.
    segments: c_int,
    /// How many it may have in the queue pair's state, or -1.
    max_sge: c_int,
}

// SAFETY: the record is libmlx5's, and lives as long as the queue pair.
unsafe impl Send for ReceiveQueue {}

impl ReceiveQueue {
    /// The queue of a queue pair in state RESET, with its doorbell record (the word of receives).
    pub fn new(record: NonNull<AtomicU32>, segments: c_int) -> Self {
        Self { record, posted: 0, segments, max_sge: -1 }
    }

    /// The queue pair is in another state now.
    pub fn moved(&mut self, state: ibv_qp_state_t) {
        if state == IBV_QPS_RESET as ibv_qp_state_t {
            (self.posted, self.max_sge) = (0, -1);
        } else if state == IBV_QPS_INIT as ibv_qp_state_t {
            self.max_sge = self.segments;
        }
    }

    /// Posts a list; requests before the one that failed are posted.
    ///
    /// # Safety
    /// The program's list is valid; `receives` is this queue's.
    unsafe fn post(
        &mut self,
        receives: &Receives,
        list: *mut ibv_recv_wr,
    ) -> Result<(), (Errno, *mut ibv_recv_wr)> {
        let mut request = list;
        let (mut posted, mut done) = (self.posted, Ok(()));
        // SAFETY: the program's list, by the contract.
        while let Some(wr) = unsafe { request.as_ref() } {
            if receives.in_flight(posted) >= receives.count() {
                done = Err((Errno::ENOMEM, request));
                break;
            }
            if wr.num_sge > self.max_sge {
                done = Err((Errno::EINVAL, request));
                break;
            }
            let to = receives.at(posted);
            let mut used = 0;
            // SAFETY: the request has room for the pieces of memory, of which there are no more.
            unsafe {
                for at in 0..wr.num_sge.max(0) as usize {
                    let sge = &*wr.sg_list.add(at);
                    if sge.length != 0 {
                        to.add(used * wqe::UNIT).memory(sge.addr, sge.length, sge.lkey);
                        used += 1;
                    }
                }
                if used < self.segments as usize {
                    to.add(used * wqe::UNIT).end_of_memory();
                }
            }
            receives.note(posted, wr.wr_id);
            posted = posted.wrapping_add(1);
            request = wr.next;
        }
        if posted != self.posted {
            self.posted = posted;
            receives.publish(posted);
            barrier::before_record();
            // SAFETY: see the field; aligned for it, and the device reads it.
            unsafe { self.record.as_ref() }.store((posted & 0xffff).to_be(), Ordering::Relaxed);
        }
        done
    }
}

impl Qp {
    /// What is kept beside a queue pair of libmlx5's; none where nothing is.
    ///
    /// # Safety
    /// `qp` is null or live.
    #[inline(always)]
    pub unsafe fn of<'a>(qp: *const ibv_qp) -> Option<&'a Self> {
        // SAFETY: values of queue pairs are this type, and removed before the queue pair is freed.
        found::get(qp).map(|found| unsafe { found.cast::<Self>().as_ref() })
    }

    /// The queue pair is in another state now. libmlx5 has put a function of its own into the table of
    /// builders.
    ///
    /// # Safety
    /// libmlx5's queue pair, beside which this is kept.
    pub unsafe fn moved(&self, qp: *mut ibv_qp, state: ibv_qp_state_t) {
        if let (true, Some(public)) = (self.builders, NonNull::new(qp.cast())) {
            // SAFETY: by the contract; it has builders, so it is an extended one.
            unsafe { super::wr::set_functions(public) };
        }
        let reset = state == IBV_QPS_RESET as ibv_qp_state_t;
        if let Some(send) = &self.send {
            let mut send = send.lock();
            if let (true, Some(sends)) = (reset, &self.origin.sends) {
                sends.reset();
            }
            send.moved(state);
        }
        if let Some(receive) = &self.receive {
            let mut receive = receive.lock();
            if let (true, Source::Own(receives)) = (reset, &self.origin.receives) {
                receives.reset();
            }
            receive.moved(state);
        }
    }
}

/// Names the request that failed, and its error.
///
/// # Safety
/// `bad_wr` is the program's place for the answer.
#[inline(always)]
unsafe fn answer<W>(done: Result<(), (Errno, *mut W)>, bad_wr: *mut *mut W) -> c_int {
    match done {
        Ok(()) => 0,
        Err((errno, request)) => {
            // SAFETY: by the contract.
            unsafe { bad_wr.write(request) };
            errno.0
        }
    }
}

/// libmlx5's function, for what it posts itself.
macro_rules! plugins {
    ($object:expr, $slot:ident($($argument:expr),*)) => {{
        let plugin = context::provider((*$object).context).ok().and_then(|provider| provider.plugin());
        match plugin.and_then(|plugin| plugin.operations().$slot) {
            Some(function) => function($($argument),*),
            None => Errno::EOPNOTSUPP.0,
        }
    }};
}
pub(super) use plugins;

/// Posts requests to send.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair, a valid list and a place for the answer.
    unsafe {
        match Qp::of(qp).and_then(|qp| Some((qp.send.as_ref()?, qp.origin.sends.as_ref()?))) {
            Some((send, sends)) => answer(send.lock().post(sends, list), bad_wr),
            None => plugins!(qp, post_send(qp, list, bad_wr)),
        }
    }
}

/// Posts requests to receive.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        if let Some(Qp {
            origin: Origin { receives: Source::Own(receives), .. },
            receive: Some(receive),
            ..
        }) = Qp::of(qp)
        {
            return answer(receive.lock().post(receives, list), bad_wr);
        }
        plugins!(qp, post_recv(qp, list, bad_wr))
    }
}

/// Posts requests to receive to a shared queue.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        match super::srq::Srq::of(srq) {
            Some(shared) => answer(shared.queue.lock().post(list), bad_wr),
            None => plugins!(srq, post_srq_recv(srq, list, bad_wr)),
        }
    }
}
