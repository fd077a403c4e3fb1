//! Receive queues, of a queue pair or shared.

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
}

impl ReceiveQueue {
    /// Maps the ring at `place`, for requests of up to `max_sge` scatter/gather entries.
    pub fn map(file: &DeviceFile, place: &mminfo, max_sge: u32) -> Result<Self> {
        let ring = Mapped::work(file, place, wqe::RECV_HEAD)?;
        let max_sge = wqe::max_recv_sge(max_sge, ring.slot_size());
        Ok(Self { ring, max_sge })
    }

    /// Replaces the ring by another of the same queue; on an error the old one stays.
    pub fn remap(&mut self, file: &DeviceFile, place: &mminfo) -> Result<()> {
        let resized = Self::map(file, place, self.max_sge)?;
        *self = resized;
        Ok(())
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
