//! Send queues: requests into slots, and the doorbell.

use core::ffi::c_int;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering, fence};

use super::qp::Qp;
use super::slots::Slots;
use crate::abi::uapi::siw_user::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::kernel::qp::ring_doorbell;
use crate::provider::object::Object;

/// The producer's side of a send queue.
pub struct SendQueue {
    slots: Slots<siw_sqe>,
    /// Requests put in so far.
    put: u32,
    signal_all: bool,
}

/// # Safety
/// `slot` is a slot of a queue that is mapped and locked.
#[inline(always)]
unsafe fn flags<'a>(slot: NonNull<siw_sqe>) -> &'a AtomicU16 {
    // SAFETY: an aligned half word of mapped memory that both sides access atomically; used while the queue
    // stays locked.
    unsafe { AtomicU16::from_ptr(&raw mut (*slot.as_ptr()).flags) }
}

/// The driver's number of an operation; nothing for those that it does not have.
#[inline(always)]
fn operation(opcode: u32) -> Option<u8> {
    const WRITE: u32 = IBV_WR_RDMA_WRITE as u32;
    const SEND: u32 = IBV_WR_SEND as u32;
    const READ: u32 = IBV_WR_RDMA_READ as u32;
    const SEND_WITH_INV: u32 = IBV_WR_SEND_WITH_INV as u32;
    match opcode {
        WRITE => Some(SIW_OP_WRITE),
        SEND => Some(SIW_OP_SEND),
        READ => Some(SIW_OP_READ),
        SEND_WITH_INV => Some(SIW_OP_SEND_REMOTE_INV),
        _ => None,
    }
}

#[inline(always)]
fn translate_flags(send_flags: u32, signal_all: bool) -> u16 {
    let mut flags = SIW_WQE_VALID;
    for (theirs, ours) in [
        (IBV_SEND_SIGNALED, SIW_WQE_SIGNALLED),
        (IBV_SEND_SOLICITED, SIW_WQE_SOLICITED),
        (IBV_SEND_INLINE, SIW_WQE_INLINE),
        (IBV_SEND_FENCE, SIW_WQE_READ_FENCE),
    ] {
        if send_flags & theirs as u32 != 0 {
            flags |= ours;
        }
    }
    if signal_all { flags | SIW_WQE_SIGNALLED } else { flags }
}

/// Writes all of a request but its flags, which it returns: with them the slot becomes the driver's. EINVAL for
/// what a slot cannot hold.
///
/// # Safety
/// The slot is mapped and the program's; the request names valid buffers.
#[inline(always)]
unsafe fn write(slot: NonNull<siw_sqe>, wr: &ibv_send_wr, signal_all: bool) -> Result<u16> {
    let opcode = operation(wr.opcode).ok_or(Errno::EINVAL)?;
    let flags = translate_flags(wr.send_flags, signal_all);
    let sqe = slot.as_ptr();
    // SAFETY: the slot can be written. Every operation has its address and key at the same place of the union,
    // and those without one carry bytes that the driver ignores.
    unsafe {
        (*sqe).id = wr.wr_id;
        // The driver's field is a byte.
        (*sqe).num_sge = wr.num_sge as u8;
        (*sqe).opcode = opcode;
        (*sqe).raddr = wr.wr.rdma.remote_addr;
        (*sqe).rkey = wr.wr.rdma.rkey;
    }
    if flags & SIW_WQE_INLINE != 0 {
        // SAFETY: in the slot.
        let room = unsafe { (&raw mut (*sqe).sge[1]).cast::<u8>() };
        let mut used = 0;
        for i in 0..wr.num_sge.max(0) as usize {
            // SAFETY: the request's list has `num_sge` entries, each a readable buffer; the bytes fit the room,
            // which is SIW_MAX_INLINE bytes of the slot.
            unsafe {
                let entry = &*wr.sg_list.add(i);
                let length = entry.length as usize;
                if length > SIW_MAX_INLINE - used {
                    return Err(Errno::EINVAL);
                }
                let data = core::ptr::with_exposed_provenance::<u8>(entry.addr as usize);
                core::ptr::copy_nonoverlapping(data, room.add(used), length);
                used += length;
            }
        }
        // SAFETY: in the slot.
        unsafe { (*sqe).sge[0].length = used as u32 };
    } else {
        let entries = usize::from(wr.num_sge as u8);
        if entries > SIW_MAX_SGE {
            return Err(Errno::EINVAL);
        }
        const _: () = assert!(size_of::<siw_sge>() == size_of::<ibv_sge>());
        for i in 0..entries {
            // SAFETY: the list has that many entries, of the same layout as the slot's.
            unsafe { (*sqe).sge[i] = wr.sg_list.add(i).cast::<siw_sge>().read() };
        }
    }
    Ok(flags)
}

impl SendQueue {
    /// A queue in `slots`; `signal_all` makes every request complete visibly.
    pub fn new(slots: Slots<siw_sqe>, signal_all: bool) -> Self {
        Self { slots, put: 0, signal_all }
    }

    /// Puts requests into free slots up to the first that cannot be: where it stopped, and why.
    ///
    /// # Safety
    /// `list` is null or a list of valid requests.
    #[inline(always)]
    unsafe fn fill(&mut self, list: *mut ibv_send_wr) -> (*mut ibv_send_wr, Result<()>) {
        let mut next = list;
        // SAFETY: by the contract, each request is valid and leads to the next or to null.
        while let Some(wr) = unsafe { next.as_ref() } {
            let slot = self.slots.at(self.put);
            // SAFETY: a slot of this queue, which the caller has locked.
            let flags = unsafe { flags(slot) };
            // Acquire: the driver has read the last request there before it clears the flag.
            if flags.load(Ordering::Acquire) & SIW_WQE_VALID != 0 {
                return (next, Err(Errno::ENOMEM));
            }
            // SAFETY: the slot is ours while the flag is clear; the request is valid.
            match unsafe { write(slot, wr, self.signal_all) } {
                // Release: the request is written before the flag gives it away.
                Ok(value) => flags.store(value, Ordering::Release),
                Err(errno) => return (next, Err(errno)),
            }
            self.put = self.put.wrapping_add(1);
            next = wr.next;
        }
        (next, Ok(()))
    }

    /// Whether the driver may have stopped looking at the queue before the requests from `start` on were put
    /// in: then it must be told. While the request before them is still the driver's, it will find them by
    /// itself.
    #[inline(always)]
    fn may_sleep(&self, start: u32) -> bool {
        if self.put.wrapping_sub(start) >= self.slots.count() {
            return true;
        }
        // The new flags are visible before the old one is read. The driver clears the old one before it looks
        // for new ones, so one of the two sees the other.
        fence(Ordering::SeqCst);
        // SAFETY: a slot of this queue, which the caller has locked.
        unsafe { flags(self.slots.at(start.wrapping_sub(1))) }.load(Ordering::Relaxed) & SIW_WQE_VALID == 0
    }
}

#[cold]
#[inline(never)]
fn explain(wr: *mut ibv_send_wr, errno: Errno) {
    // SAFETY: the request that posting stopped at is one of the program's list.
    if let Some(wr) = unsafe { wr.as_ref() } {
        trace!(
            Error,
            "siw: post_send: {errno:?}; request {:#x} (opcode {}, {} entries, flags {:#x})",
            wr.wr_id,
            wr.opcode,
            wr.num_sge,
            wr.send_flags
        );
    }
}

/// Posts send requests and tells the driver. Errors are negative, as rdma-core's soft-iWARP gives them:
/// -EINVAL, -ENOMEM for a full queue, -1 when the driver refuses (the number is in `errno`). Where the driver
/// is told, its answer is the result, and `*bad_wr` alone shows that a later request was not posted.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the program passes a live queue pair of a context whose table holds this function.
    let Some(object) = (unsafe { Qp::from_c(qp) }) else { return -Errno::EINVAL.0 };
    // SAFETY: the program's place for the answer, or null.
    let Some(bad_wr) = (unsafe { bad_wr.as_mut() }) else { return -Errno::EINVAL.0 };
    *bad_wr = core::ptr::null_mut();
    let mut queue = object.send.lock();
    let start = queue.put;
    // SAFETY: the program passes a valid list or null.
    let (stopped, outcome) = unsafe { queue.fill(list) };
    let mut answer = 0;
    if let Err(errno) = outcome {
        explain(stopped, errno);
        *bad_wr = stopped;
        answer = -errno.0;
    }
    if queue.put != start && queue.may_sleep(start) {
        // SAFETY: a live queue pair.
        answer = if unsafe { ring_doorbell(qp, object.imported) }.is_ok() { 0 } else { -1 };
        if answer != 0 {
            *bad_wr = stopped;
        }
    }
    answer
}
