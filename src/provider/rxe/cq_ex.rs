//! Polling completion by completion: `start_poll`, `next_poll`, `end_poll`, and a function for each field.
//!
//! From a `start_poll` that gave 0 to its `end_poll` the lock is held, also after a `next_poll` that found
//! nothing, as `man ibv_create_cq_ex` has it. The slots that were read are given back in `end_poll`, or by a
//! `next_poll` that found nothing.

use core::ffi::{c_int, c_uint};

use super::cq::{Cq, Queue};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::cq_ex;
use crate::provider::object::Object;

/// `IBV_WC_EX_WITH_*` that soft-RoCE's completions can answer.
pub const WC_FLAGS: u64 = IBV_WC_STANDARD_FLAGS as u64;

cq_ex::set_functions!();

/// # Safety
/// `current` is a live extended queue of this provider, and the calling thread is between `start_poll` and
/// `end_poll`.
#[inline(always)]
unsafe fn polled<'a>(current: *mut ibv_cq_ex) -> &'a mut Queue {
    // SAFETY: `start_poll` left the lock held for this thread, and no function keeps its reference.
    unsafe { Cq::from_extended(current).queue.held_mut() }
}

/// The completion that the walk stands at.
///
/// # Safety
/// As [`polled`].
#[inline(always)]
unsafe fn completion(current: *mut ibv_cq_ex) -> *const ibv_wc {
    // SAFETY: handed on to the caller.
    unsafe { polled(current).current }
}

/// The two fields that programs read without a function.
///
/// # Safety
/// As [`polled`].
#[inline(always)]
unsafe fn show(current: *mut ibv_cq_ex) {
    // SAFETY: the completion lies in a slot of the ring; the public part is the program's to read, ours to
    // write.
    unsafe {
        let queue = polled(current);
        let completion = queue.ring.entry(&queue.walk).as_ptr().cast_const().cast::<ibv_wc>();
        queue.current = completion;
        (*current).status = (*completion).status;
        (*current).wr_id = (*completion).wr_id;
    }
}

/// Takes the first completion of a batch, and the lock; ENOENT (`errno` set), without the lock, if there is
/// none.
unsafe extern "C" fn start_poll<const LOCKED: bool>(
    current: *mut ibv_cq_ex,
    _: *mut ibv_poll_cq_attr,
) -> c_int {
    // SAFETY: the program passes the queue whose table holds this function. The lock is held from here to
    // `end_poll`, or since creation when the program promised one thread; no reference leaves this function.
    unsafe {
        let cq = Cq::from_extended(current);
        if LOCKED {
            match cq.queue.try_lock_alone() {
                Some(queue) => queue.leave_held(),
                None => return start_poll_shared(current),
            }
        }
        let queue = cq.queue.held_mut();
        let Some(walk) = queue.ring.walk() else { return nothing::<LOCKED>(current) };
        queue.walk = walk;
        show(current);
    }
    0
}

/// `start_poll` in a process with several threads: as `poll_shared` of `cq.rs`.
///
/// # Safety
/// `current` is a live extended queue of this provider.
#[inline(never)]
unsafe extern "C" fn start_poll_shared(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as in `start_poll`.
    unsafe {
        let cq = Cq::from_extended(current);
        if cq.glance.idle() && cq.glance.empty() {
            return nothing::<false>(current);
        }
        match cq.queue.try_lock_shared() {
            Some(queue) => queue.leave_held(),
            None => return start_poll_later(current),
        }
        start_held(current)
    }
}

/// As [`start_poll_shared`], where another thread holds the lock: waits for it.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe extern "C" fn start_poll_later(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as in `start_poll`.
    unsafe {
        Cq::from_extended(current).queue.lock().leave_held();
        start_held(current)
    }
}

/// Starts, and notes whether nothing was found.
///
/// # Safety
/// As [`start_poll_shared`], and the calling thread holds the lock.
#[inline(always)]
unsafe fn start_held(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as in `start_poll`.
    unsafe {
        let cq = Cq::from_extended(current);
        let queue = cq.queue.held_mut();
        let walk = queue.ring.walk();
        if walk.is_none() != cq.glance.idle() {
            cq.glance.set_idle(walk.is_none());
        }
        let Some(walk) = walk else { return nothing::<true>(current) };
        queue.walk = walk;
        show(current);
    }
    0
}

/// ENOENT (`errno` set), without the lock where it is `HELD`.
///
/// # Safety
/// As [`start_poll_shared`]; where `HELD`, the calling thread holds the lock.
#[cold]
#[inline(never)]
unsafe extern "C" fn nothing<const HELD: bool>(current: *mut ibv_cq_ex) -> c_int {
    if HELD {
        // SAFETY: by the contract.
        unsafe { Cq::from_extended(current).queue.release() };
    }
    Errno::ENOENT.also_set().0
}

/// Goes on to the next completion; ENOENT (`errno` set) if there is none yet, with the last one still to be
/// read.
unsafe extern "C" fn next_poll(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the program calls this between `start_poll` and `end_poll`.
    unsafe {
        let Queue { ring, walk, .. } = polled(current);
        if !ring.advance(walk) {
            return next_poll_arrived(current);
        }
        show(current);
    }
    0
}

/// As [`next_poll`], where what arrived since `start_poll` is to be looked for. Apart, so that the usual case
/// has no branch that is taken.
///
/// # Safety
/// As [`polled`].
#[cold]
#[inline(never)]
unsafe extern "C" fn next_poll_arrived(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        let Queue { ring, walk, .. } = polled(current);
        if !ring.step(walk) {
            return Errno::ENOENT.also_set().0;
        }
        show(current);
    }
    0
}

/// Ends the batch: gives back what was read, and the lock.
unsafe extern "C" fn end_poll<const LOCKED: bool>(current: *mut ibv_cq_ex) {
    // SAFETY: the program calls this once after a `start_poll` that gave 0, so that this thread holds the lock;
    // the reference ends before the release.
    unsafe {
        let Queue { ring, walk, .. } = polled(current);
        ring.finish(walk);
        if LOCKED {
            Cq::from_extended(current).queue.release();
        }
    }
}

/// Functions that read one field of the current completion each.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty: $($field:ident).+;)*) => { $(
        $(#[$doc])*
        unsafe extern "C" fn $name(current: *mut ibv_cq_ex) -> $ty {
            // SAFETY: the program calls this between `start_poll` and `end_poll`; the completion lies in a slot
            // of the ring, and its fields, also those of the union, are integers.
            unsafe { (*completion(current)).$($field).+.into() }
        }
    )* };
}

readers! {
    /// `IBV_WC_*` operation.
    read_opcode -> ibv_wc_opcode_t: opcode;
    /// The driver's error code.
    read_vendor_err -> u32: vendor_err;
    /// `ibv_wc_flags`.
    read_wc_flags -> c_uint: wc_flags;
    /// Bytes transferred.
    read_byte_len -> u32: byte_len;
    /// Immediate data, big endian; or the key that the peer invalidated.
    read_imm_data -> __be32: anon1.imm_data;
    /// Local queue pair.
    read_qp_num -> u32: qp_num;
    /// The peer's queue pair.
    read_src_qp -> u32: src_qp;
    /// The peer's local identifier.
    read_slid -> u32: slid;
    /// Service level.
    read_sl -> u8: sl;
    /// Destination path bits.
    read_dlid_path_bits -> u8: dlid_path_bits;
}
