//! Polling completion by completion: `start_poll`, `next_poll`, `end_poll`, and a function for each field.
//!
//! From a `start_poll` that gave 0 to its `end_poll` the lock is held, also after a `next_poll` that found
//! nothing, as `man ibv_create_cq_ex` has it.

use core::ffi::{c_int, c_uint};

use softrdma::rules::completion::Completion;

use super::cq::{self, Cq};
use super::device::nanoseconds;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::cq_ex;
use crate::provider::object::Object;

/// `IBV_WC_EX_WITH_*` that ask for the time of a completion.
pub const TIMESTAMPS: u64 =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as u64 | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64;

/// `IBV_WC_EX_WITH_*` that completions can answer.
pub const WC_FLAGS: u64 = IBV_WC_STANDARD_FLAGS as u64 | TIMESTAMPS;

cq_ex::set_functions!(read_completion_ts, read_completion_wallclock_ns);

/// Takes the next completion and shows the two fields that programs read without a function; ENOENT (`errno`
/// set) if there is none, with the last one still to be read.
///
/// # Safety
/// `current` is a live extended queue of this provider, and the calling thread holds the lock.
#[inline(always)]
unsafe fn take(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: by the contract, and no reference leaves this function. The public part is the program's to read,
    // ours to write.
    unsafe {
        let cq = Cq::from_extended(current);
        let place = cq.current.held_mut();
        let taken = cq.queue.poll(1, &mut |completion| {
            (*current).status = completion.status as ibv_wc_status_t;
            (*current).wr_id = completion.wr_id;
            *place = Some(*completion);
        });
        if taken == 0 { Errno::ENOENT.also_set().0 } else { 0 }
    }
}

/// Takes the first completion of a batch, and the lock; ENOENT (`errno` set), without the lock, if there is
/// none.
unsafe extern "C" fn start_poll<const LOCKED: bool>(
    current: *mut ibv_cq_ex,
    _: *mut ibv_poll_cq_attr,
) -> c_int {
    // SAFETY: the program passes the queue whose table holds this function. The lock is held from here to
    // `end_poll`, or since creation when the program promised one thread.
    unsafe {
        let cq = Cq::from_extended(current);
        if LOCKED {
            cq.current.lock().leave_held();
        }
        let taken = take(current);
        if LOCKED && taken != 0 {
            cq.current.release();
        }
        taken
    }
}

/// Goes on to the next completion; ENOENT (`errno` set) if there is none yet, with the last one still to be
/// read.
unsafe extern "C" fn next_poll(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the program calls this between `start_poll` and `end_poll`.
    unsafe { take(current) }
}

/// Ends the batch: gives back the lock.
unsafe extern "C" fn end_poll<const LOCKED: bool>(current: *mut ibv_cq_ex) {
    if LOCKED {
        // SAFETY: the program calls this once after a `start_poll` that gave 0, so that this thread holds the
        // lock.
        unsafe { Cq::from_extended(current).current.release() }
    }
}

/// What a function reads of the completion that the walk stands at; 0 before the first.
///
/// # Safety
/// `current` is a live extended queue of this provider, and the calling thread is between `start_poll` and
/// `end_poll`.
#[inline(always)]
unsafe fn read<T: Default>(current: *mut ibv_cq_ex, field: impl FnOnce(&Completion) -> T) -> T {
    // SAFETY: `start_poll` left the lock held for this thread, and no function keeps its reference.
    unsafe { Cq::from_extended(current).current.held_mut() }.as_ref().map_or_else(T::default, field)
}

/// Functions that read one field of the current completion each.
macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty = $field:expr;)*) => { $(
        $(#[$doc])*
        unsafe extern "C" fn $name(current: *mut ibv_cq_ex) -> $ty {
            // SAFETY: the program calls this between `start_poll` and `end_poll`.
            unsafe { read(current, $field) }
        }
    )* };
}

readers! {
    /// `IBV_WC_*` operation.
    read_opcode -> ibv_wc_opcode_t = |completion| completion.opcode as ibv_wc_opcode_t;
    /// What the peer's answer said of an error.
    read_vendor_err -> u32 = |completion| completion.vendor_err;
    /// `ibv_wc_flags`.
    read_wc_flags -> c_uint = cq::flags;
    /// Bytes transferred.
    read_byte_len -> u32 = |completion| completion.byte_len;
    /// Immediate data, big endian; or the key that the peer invalidated.
    read_imm_data -> __be32 = |completion| completion.imm_or_key;
    /// Local queue pair.
    read_qp_num -> u32 = |completion| completion.qp_num;
    /// The peer's queue pair.
    read_src_qp -> u32 = |completion| completion.src_qp;
    /// The peer's local identifier, which RoCE has not.
    read_slid -> u32 = |completion| cq::source_lid(completion).into();
    /// Service level, which tells the type of a packet.
    read_sl -> u8 = cq::service_level;
    /// Destination path bits, which RoCE has not.
    read_dlid_path_bits -> u8 = |_| 0;
    /// When the completion was there, in nanoseconds of CLOCK_MONOTONIC.
    read_completion_ts -> u64 = |completion| completion.timestamp;
    /// The same in nanoseconds since 1970.
    read_completion_wallclock_ns -> u64 = |completion| {
        let ago = nanoseconds(libc::CLOCK_MONOTONIC).saturating_sub(completion.timestamp);
        nanoseconds(libc::CLOCK_REALTIME).saturating_sub(ago)
    };
}
