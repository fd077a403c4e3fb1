//! Receive queues, of a queue pair or shared.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};

use super::slots::Slots;
use crate::abi::uapi::siw_user::*;
use crate::abi::verbs::ibv_recv_wr;
use crate::errno::{Errno, Result};
use crate::log::trace;

/// The producer's side of a receive queue.
pub struct ReceiveQueue {
    slots: Slots<siw_rqe>,
    /// Requests put in so far.
    put: u32,
}

/// # Safety
/// `slot` is a slot of a queue that is mapped and locked.
#[inline(always)]
unsafe fn flags<'a>(slot: NonNull<siw_rqe>) -> &'a AtomicU16 {
    // SAFETY: an aligned half word of mapped memory that both sides access atomically; used while the queue
    // stays locked.
    unsafe { AtomicU16::from_ptr(&raw mut (*slot.as_ptr()).flags) }
}

impl ReceiveQueue {
    /// A queue in `slots`.
    pub fn new(slots: Slots<siw_rqe>) -> Self {
        Self { slots, put: 0 }
    }

    /// Posts a list of requests; 0, or -ENOMEM for a full queue and -EINVAL for a request without buffers or
    /// with too many, with `*bad_wr` at the request that failed. Those before it are posted.
    ///
    /// # Safety
    /// `list` is null or a list of valid requests, `bad_wr` null or can be written.
    #[inline(always)]
    pub unsafe fn post(&mut self, list: *mut ibv_recv_wr, bad_wr: *mut *mut ibv_recv_wr) -> c_int {
        let mut next = list;
        // SAFETY: by the contract, each request is valid and leads to the next or to null.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: a valid request.
            if let Err(errno) = unsafe { self.post_one(wr) } {
                explain(wr, errno);
                // SAFETY: by the contract.
                if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
                    *bad_wr = next;
                }
                return -errno.0;
            }
            next = wr.next;
        }
        0
    }

    /// # Safety
    /// The request's list is valid.
    #[inline(always)]
    unsafe fn post_one(&mut self, wr: &ibv_recv_wr) -> Result<()> {
        let slot = self.slots.at(self.put);
        // SAFETY: a slot of this queue, which is locked, because it is borrowed for writing.
        let flags = unsafe { flags(slot) };
        // Acquire: the driver has read the last request there before it clears the flag.
        if flags.load(Ordering::Acquire) & SIW_WQE_VALID != 0 {
            return Err(Errno::ENOMEM);
        }
        // The driver has no receives without a buffer.
        if !(1..=SIW_MAX_SGE as c_int).contains(&wr.num_sge) {
            return Err(Errno::EINVAL);
        }
        let rqe = slot.as_ptr();
        // SAFETY: the slot is ours while the flag is clear, and it has room for as many entries as the list
        // has, of the same layout.
        unsafe {
            (*rqe).id = wr.wr_id;
            (*rqe).num_sge = wr.num_sge as u8;
            for i in 0..wr.num_sge as usize {
                (*rqe).sge[i] = wr.sg_list.add(i).cast::<siw_sge>().read();
            }
        }
        // Release: the request is written before the flag gives it to the driver.
        flags.store(SIW_WQE_VALID, Ordering::Release);
        self.put = self.put.wrapping_add(1);
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn explain(wr: &ibv_recv_wr, errno: Errno) {
    trace!(Error, "siw: post_recv: {errno:?}; request {:#x} with {} entries", wr.wr_id, wr.num_sge);
}
