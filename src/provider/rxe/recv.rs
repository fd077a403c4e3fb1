//! Receive queues, of a queue pair or shared.

use core::ffi::c_int;

use queue_lock::QueueLock;

use super::explain;
use super::mapping::Mapped;
use super::ring::WorkRing;
use super::wqe;
use crate::abi::uapi::rdma_user_rxe::mminfo;
use crate::abi::verbs::ibv_recv_wr;
use crate::errno::{Errno, Result};
use crate::uverbs::device_file::DeviceFile;

/// The producer's side of a receive queue.
pub struct ReceiveQueue {
    ring: Mapped<WorkRing>,
    max_sge: u32,
    /// Scatter/gather entries of a request that [`ReceiveQueue::post_one`] takes.
    few: u32,
}

impl ReceiveQueue {
    /// Maps the ring at `place`, for requests of up to `max_sge` scatter/gather entries.
    pub fn map(file: &DeviceFile, place: &mminfo, max_sge: u32) -> Result<Self> {
        let ring = Mapped::work(file, place, wqe::RECV_HEAD)?;
        let max_sge = wqe::max_recv_sge(max_sge, ring.slot_size());
        Ok(Self { ring, max_sge, few: max_sge.min(wqe::FEW) })
    }

    /// Replaces the ring by another of the same queue; on an error the old one stays.
    pub fn remap(&mut self, file: &DeviceFile, place: &mminfo) -> Result<()> {
        let resized = Self::map(file, place, self.max_sge)?;
        *self = resized;
        Ok(())
    }

    /// Posts a single request of [few](wqe::FEW) scatter/gather entries, as most are, without a call, so that
    /// no registers are saved for it. `false` for any other list, and where the queue does not take the
    /// request: nothing happened.
    ///
    /// # Safety
    /// `list` is null or a list of valid requests.
    #[inline(always)]
    pub unsafe fn post_one(&mut self, list: *mut ibv_recv_wr) -> bool {
        // SAFETY: used in this call alone, which has the queue to itself.
        let mut ring = unsafe { self.ring.local() };
        // SAFETY: by the contract.
        let Some(wr) = (unsafe { list.as_ref() }) else { return false };
        // A negative number counts as a huge one.
        if !wr.next.is_null() || wr.num_sge as u32 > self.few {
            return false;
        }
        let mut batch = ring.start();
        if !ring.has_room(&batch) {
            return false;
        }
        // SAFETY: as in `post`.
        unsafe { wqe::write_short_recv(ring.next(&batch), wr) };
        ring.accept(&mut batch);
        ring.publish(&batch);
        true
    }

    /// Posts a list of requests and tells the driver of all of them at once. ENOMEM when the queue is full,
    /// EINVAL for more scatter/gather entries than the queue takes, with the request that failed; those before
    /// it are posted.
    ///
    /// # Safety
    /// `list` is null or a list of valid requests.
    #[inline(always)]
    pub unsafe fn post(
        &mut self,
        list: *mut ibv_recv_wr,
    ) -> core::result::Result<(), (Errno, *mut ibv_recv_wr)> {
        // SAFETY: used in this call alone, which has the queue to itself.
        let mut ring = unsafe { self.ring.local() };
        let max_sge = self.max_sge;
        let mut batch = ring.start();
        let mut next = list;
        let mut outcome = Ok(());
        // SAFETY: by the contract, each request is valid and leads to the next or to null.
        while let Some(wr) = unsafe { next.as_ref() } {
            let Some(slot) = ring.slot(&mut batch) else {
                explain::queue_full("post_recv", wr.wr_id);
                outcome = Err((Errno::ENOMEM, next));
                break;
            };
            // A negative number counts as a huge one.
            if wr.num_sge as u32 > max_sge {
                explain::too_many_entries(wr, max_sge);
                outcome = Err((Errno::EINVAL, next));
                break;
            }
            // SAFETY: slots are a multiple of 8 bytes apart in a page-aligned mapping; they hold the head and
            // `max_sge` entries, as `map` cut it; the request's list is valid.
            unsafe { wqe::write_recv(slot, wr) };
            ring.accept(&mut batch);
            next = wr.next;
        }
        ring.publish(&batch);
        outcome
    }
}

/// Posts a list of requests to a queue; 0 or an errno value, with the request that failed in `bad_wr`, unless
/// that is null.
///
/// # Safety
/// `list` is null or a list of valid requests, `bad_wr` null or the program's place for the answer.
#[inline(always)]
pub unsafe fn post(
    queue: &QueueLock<ReceiveQueue>,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let Some(mut held) = queue.try_lock() else {
        // SAFETY: by the contract.
        return unsafe { post_any(queue, list, bad_wr) };
    };
    // SAFETY: by the contract.
    if unsafe { held.post_one(list) } {
        return 0;
    }
    drop(held);
    // SAFETY: by the contract.
    unsafe { post_any(queue, list, bad_wr) }
}

/// As [`post`], for lists of any length and where the lock is to be waited for.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe extern "C" fn post_any(
    queue: &QueueLock<ReceiveQueue>,
    list: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: by the contract.
    match unsafe { queue.lock().post(list) } {
        Ok(()) => 0,
        Err((errno, at)) => {
            // SAFETY: by the contract.
            if let Some(bad_wr) = unsafe { bad_wr.as_mut() } {
                *bad_wr = at;
            }
            errno.0
        }
    }
}
