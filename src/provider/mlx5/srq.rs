//! Shared receive queues. Free requests are a list through the ring itself: each names the next, posting
//! takes the first, and a completion puts its request behind the last.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use queue_lock::QueueLock;

use super::cqe::Cqe;
use super::dv::DirectSrq;
use super::queue::{Origin, take_data};
use super::wqe::{self, Segment};
use super::{barrier, found};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};

/// Where a request names the next one (bytes).
const NEXT: usize = 2;

#[derive(Clone, Copy, Default)]
struct Slot {
    wr_id: u64,
    /// The device has it.
    posted: bool,
}

/// What the lock guards.
pub struct SrqQueue {
    slots: Box<[Slot]>,
    ring: NonNull<u8>,
    /// Bytes of a request are 2 to this power.
    shift: u32,
    /// Segments of memory in each.
    segments: usize,
    /// The next to be posted.
    head: u16,
    /// The last free one, which is never posted itself.
    tail: u16,
    /// Requests set aside, first and last: they replace those that the device could not fill (ODP).
    aside: Option<(u16, u16)>,
    /// How many were ever posted.
    posted: u32,
    record: NonNull<AtomicU32>,
}

// SAFETY: pointers to libmlx5's ring and record, used under the lock as long as the queue lives.
unsafe impl Send for SrqQueue {}

/// A shared receive queue.
pub struct Srq {
    /// Ring and list.
    pub queue: QueueLock<SrqQueue>,
    /// Of a queue of XRC its user index, and what that stands for.
    origin: Option<(u32, NonNull<Origin>)>,
}

// SAFETY: what the index stands for may be used by any thread.
unsafe impl Send for Srq {}
// SAFETY: as above.
unsafe impl Sync for Srq {}

impl Srq {
    /// The queue that libmlx5 has just made with `count` requests in its ring, a power of two, none of them
    /// posted; ENOMEM, EINVAL where it is not as it should be.
    ///
    /// # Safety
    /// What `direct` says is true, as long as the value is used.
    pub unsafe fn new(direct: &DirectSrq, count: u32) -> Result<Self> {
        let sound = count.is_power_of_two()
            && count <= 1 << 16
            && direct.stride.is_power_of_two()
            && direct.stride as usize >= 2 * wqe::UNIT
            && direct.head < count
            && direct.tail < count;
        let (Some(ring), Some(record), true) = (NonNull::new(direct.buf), NonNull::new(direct.dbrec), sound)
        else {
            return Err(Errno::EINVAL);
        };
        let mut slots = Vec::new();
        slots.try_reserve_exact(count as usize).map_err(|_| Errno::ENOMEM.also_set())?;
        slots.resize_with(count as usize, Slot::default);
        let aside = direct.tail + 1..count;
        Ok(Self {
            queue: QueueLock::new(SrqQueue {
                slots: slots.into_boxed_slice(),
                ring,
                shift: direct.stride.trailing_zeros(),
                segments: direct.stride as usize / wqe::UNIT - 1,
                head: direct.head as u16,
                tail: direct.tail as u16,
                aside: (!aside.is_empty()).then(|| (aside.start as u16, (aside.end - 1) as u16)),
                posted: 0,
                record: record.cast(),
            }),
            origin: None,
        })
    }

    /// It is one of XRC, with this user index.
    pub fn set_origin(&mut self, uidx: u32, origin: NonNull<Origin>) {
        self.origin = Some((uidx, origin));
    }

    /// Of a queue of XRC its user index, and what that stands for.
    pub fn origin(&self) -> Option<(u32, NonNull<Origin>)> {
        self.origin
    }
}

impl Srq {
    /// What is kept beside a shared receive queue of libmlx5's; none where nothing is.
    ///
    /// # Safety
    /// `srq` is null or live.
    #[inline(always)]
    pub unsafe fn of<'a>(srq: *const ibv_srq) -> Option<&'a Self> {
        // SAFETY: values of these queues are this type, and removed before the queue is freed.
        found::get(srq).map(|found| unsafe { found.cast::<Self>().as_ref() })
    }
}

/// What the completion of a receive says that the device does not.
pub struct Received {
    /// The program's number.
    pub wr_id: u64,
    /// What came of data in the completion.
    pub status: ibv_wc_status_t,
}

impl SrqQueue {
    #[inline(always)]
    fn at(&self, index: u16) -> Segment {
        let index = usize::from(index) & (self.slots.len() - 1);
        // SAFETY: the index is cut to the ring.
        unsafe { Segment(self.ring).add(index << self.shift) }
    }

    #[inline(always)]
    fn memory(&self, index: u16) -> Segment {
        // SAFETY: every request has room for a segment behind the first.
        unsafe { self.at(index).add(wqe::UNIT) }
    }

    /// The next in the list, cut to the ring.
    #[inline(always)]
    fn next(&self, index: u16) -> u16 {
        // SAFETY: inside a request of the ring, which only this process writes, under the lock; aligned for
        // it.
        let next = unsafe { self.at(index).0.add(NEXT).cast::<u16>().read() };
        u16::from_be(next) & (self.slots.len() - 1) as u16
    }

    #[inline(always)]
    fn set_next(&mut self, index: u16, next: u16) {
        // SAFETY: as above.
        unsafe { self.at(index).0.add(NEXT).cast::<u16>().write(next.to_be()) };
    }

    /// A request is free again.
    #[inline(always)]
    fn free(&mut self, index: u16) {
        self.set_next(self.tail, index);
        self.tail = index;
    }

    #[inline(always)]
    fn tell(&mut self, more: u32) {
        self.posted = self.posted.wrapping_add(more);
        barrier::before_record();
        // SAFETY: libmlx5's record of the queue, aligned for it; the device reads it.
        unsafe { self.record.as_ref() }.store(self.posted.to_be(), Ordering::Relaxed);
    }

    /// Posts a list.
    ///
    /// # Safety
    /// The program's list is valid.
    pub unsafe fn post(
        &mut self,
        list: *mut ibv_recv_wr,
    ) -> core::result::Result<(), (Errno, *mut ibv_recv_wr)> {
        let mut request = list;
        let (mut count, mut done) = (0, Ok(()));
        // SAFETY: the program's list, by the contract.
        while let Some(wr) = unsafe { request.as_ref() } {
            if wr.num_sge > self.segments as c_int {
                done = Err((Errno::EINVAL, request));
                break;
            }
            if self.head == self.tail {
                done = Err((Errno::ENOMEM, request));
                break;
            }
            let (index, given) = (self.head, wr.num_sge.max(0) as usize);
            self.slots[usize::from(index)] = Slot { wr_id: wr.wr_id, posted: true };
            self.head = self.next(index);
            let memory = self.memory(index);
            // SAFETY: no more segments than the request has room for; the program's list of memory has as
            // many.
            unsafe {
                for at in 0..given {
                    let sge = &*wr.sg_list.add(at);
                    memory.add(at * wqe::UNIT).memory(sge.addr, sge.length, sge.lkey);
                }
                if given < self.segments {
                    memory.add(given * wqe::UNIT).end_of_memory();
                }
            }
            count += 1;
            request = wr.next;
        }
        if count != 0 {
            self.tell(count);
        }
        done
    }

    /// The receive at a place that a completion names is done; none where there is no such place.
    #[inline(always)]
    pub fn complete(&mut self, cqe: Cqe, data: bool) -> Option<Received> {
        let index = cqe.counter();
        let slot = self.slots.get_mut(usize::from(index))?;
        let (wr_id, posted) = (slot.wr_id, core::mem::replace(&mut slot.posted, false));
        self.free(index);
        let status = if data { self.take(index, posted, cqe) } else { IBV_WC_SUCCESS as ibv_wc_status_t };
        Some(Received { wr_id, status })
    }

    #[cold]
    fn take(&self, index: u16, posted: bool, cqe: Cqe) -> ibv_wc_status_t {
        if !posted {
            return IBV_WC_GENERAL_ERR as ibv_wc_status_t;
        }
        // SAFETY: the request was posted, so its segments were written, and its memory is the program's.
        unsafe { take_data(self.memory(index), self.segments, cqe, cqe.byte_len(), None) }
    }

    /// A receive whose memory was not there is posted again, in another place of the ring where there is one.
    #[cold]
    pub fn post_again(&mut self, cqe: Cqe) {
        let index = cqe.counter();
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return };
        slot.posted = false;
        let wr_id = slot.wr_id;
        match self.aside {
            Some((first, last)) => {
                self.set_next(last, index);
                self.free(first);
                self.aside = Some((self.next(first), index));
            }
            None => self.free(index),
        }
        let head = self.head;
        self.slots[usize::from(head)] = Slot { wr_id, posted: true };
        let (from, to) = (self.memory(index), self.memory(head));
        self.head = self.next(head);
        // SAFETY: both have so many segments behind the first; where they are one place, nothing changes.
        unsafe { core::ptr::copy(from.0.as_ptr(), to.0.as_ptr(), self.segments * wqe::UNIT) };
        self.tell(1);
    }
}
