//! Send queues: posting lists of requests, and telling the driver.

use core::ffi::c_int;

use super::explain;
use super::mapping::Mapped;
use super::qp::Qp;
use super::ring::{Batch, WorkRing};
use super::wqe::{self, SendShape};
use crate::abi::uapi::rdma_user_rxe::mminfo;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::kernel::qp::ring_doorbell;
use crate::provider::posting;
use crate::uverbs::device_file::DeviceFile;

/// The producer's side of a send queue.
pub struct SendQueue {
    /// The ring.
    pub ring: Mapped<WorkRing>,
    /// What entries may hold.
    pub shape: SendShape,
    /// Sequence number of the next entry.
    pub ssn: u32,
    /// Entries being built by `ibv_wr_*`.
    pub batch: Batch,
    /// What went wrong while they were built.
    pub error: Result<()>,
}

impl SendQueue {
    /// Maps the ring at `place`.
    pub fn map(file: &DeviceFile, place: &mminfo, cap: &ibv_qp_cap, qp_type: u32) -> Result<Self> {
        let ring = Mapped::work(file, place, wqe::SEND_HEAD + wqe::ATOMIC_WRITE_BYTES)?;
        let shape = SendShape::new(cap, qp_type, ring.slot_size());
        Ok(Self { ring, shape, ssn: 0, batch: Batch::default(), error: Ok(()) })
    }

    /// Puts a list of requests into the ring and shows all of them at once. EINVAL for a request that the queue
    /// cannot take, ENOMEM when it is full, with the request that failed; those before it are posted.
    ///
    /// # Safety
    /// `list` is null or a list of valid requests, which name live objects and buffers.
    #[inline(always)]
    unsafe fn post(&mut self, list: *mut ibv_send_wr) -> core::result::Result<(), (Errno, *mut ibv_send_wr)> {
        let mut batch = self.ring.start();
        let mut next = list;
        let mut outcome = Ok(());
        // SAFETY: by the contract, each request is valid and leads to the next or to null.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: handed on to the caller.
            if let Err(errno) = unsafe { self.post_one(&mut batch, wr) } {
                outcome = Err((errno, next));
                break;
            }
            next = wr.next;
        }
        self.ring.publish(&batch);
        outcome
    }

    /// # Safety
    /// As [`SendQueue::post`].
    #[inline(always)]
    unsafe fn post_one(&mut self, batch: &mut Batch, wr: &ibv_send_wr) -> Result<()> {
        // SAFETY: a valid request, with its list.
        let length = match unsafe { wqe::check_send(&self.shape, wr) } {
            Ok(length) => length,
            Err(errno) => {
                self.explain(wr);
                return Err(errno);
            }
        };
        let Some(slot) = self.ring.slot(batch) else {
            explain::queue_full("post_send", wr.wr_id);
            return Err(Errno::ENOMEM);
        };
        // SAFETY: slots are a multiple of 8 bytes apart in a page-aligned mapping, of the size that the shape
        // was made with; the request was accepted for that shape.
        unsafe { wqe::write_send(slot, &self.shape, wr, length, self.ssn) }?;
        self.ssn = self.ssn.wrapping_add(1);
        self.ring.accept(batch);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn explain(&self, wr: &ibv_send_wr) {
        trace!(
            Error,
            "rxe: post_send: request {:#x} (opcode {}, {} entries, flags {:#x}) does not fit a queue with {} \
             entries and \
             {} inline bytes",
            wr.wr_id,
            wr.opcode,
            wr.num_sge,
            wr.send_flags,
            self.shape.max_sge,
            self.shape.max_inline
        );
    }
}

/// Posts send requests, then tells the driver; an error of either, the driver's first.
///
/// Requests stay in the ring when the driver refuses (EINVAL before RTS), as with rdma-core.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair of a context whose table holds this function, and its
    // place for the answer.
    let Some(object) = (unsafe { posting::begin::<Qp, _>(qp, list, bad_wr) }) else { return Errno::EINVAL.0 };
    // SAFETY: the program passes a valid list.
    let posted = unsafe { object.send.lock().post(list) };
    let mut answer = 0;
    if let Err((errno, at)) = posted {
        // SAFETY: as above.
        unsafe { *bad_wr = at };
        answer = errno.0;
    }
    // SAFETY: a live queue pair.
    match unsafe { ring_doorbell(qp, object.imported) } {
        Ok(()) => answer,
        Err(errno) => errno.0,
    }
}
