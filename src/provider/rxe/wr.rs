//! Building send requests by calls (`man ibv_wr_post`): each builder takes a slot, the setters complete the
//! entry in it, and `wr_complete` shows all entries to the driver.
//!
//! The lock is held from `wr_start` to `wr_complete` or `wr_abort`. The first thing that goes wrong is kept,
//! makes the following calls do nothing, and is what `wr_complete` returns; then nothing is posted.

use core::ffi::{c_int, c_void};

use super::ah::Ah;
use super::qp::Qp;
use super::send::SendQueue;
use super::wqe::Entry;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::kernel::qp::ring_doorbell;
use crate::provider::object::{Handle, Object};
use crate::provider::qp_ex;

/// The operations (`IBV_QP_EX_WITH_*`) that a kind of queue pair has builders for; none for a kind without.
#[must_use]
pub fn operations(qp_type: u32) -> Option<u64> {
    match qp_type {
        kind if kind == IBV_QPT_RC as u32 => Some(qp_ex::RELIABLE | IBV_QP_EX_WITH_FLUSH as u64),
        kind if kind == IBV_QPT_UC as u32 => Some(qp_ex::UNRELIABLE),
        kind if kind == IBV_QPT_UD as u32 => Some(qp_ex::DATAGRAM),
        _ => None,
    }
}

qp_ex::set_functions!(wr_flush);

/// # Safety
/// `qp` is a live extended queue pair of this provider, and the calling thread is between `wr_start` and
/// `wr_complete` or `wr_abort`.
#[inline(always)]
unsafe fn started<'a>(qp: *mut ibv_qp_ex) -> &'a mut SendQueue {
    // SAFETY: `wr_start` left the lock held for this thread, and no function keeps its reference.
    unsafe { Qp::from_extended(qp).send.held_mut() }
}

/// Takes a slot for a request of the given operation and lets `complete` fill in what belongs to it. `word` is
/// the immediate data or the key to invalidate. ENOSPC is kept when the queue is full.
///
/// # Safety
/// As [`started`].
#[inline(always)]
unsafe fn build(qp: *mut ibv_qp_ex, opcode: ibv_wr_opcode, word: u32, complete: impl FnOnce(Entry)) {
    // SAFETY: handed on to the caller; the program sets wr_id and wr_flags from this thread.
    let (queue, wr_id, wr_flags) = unsafe { (started(qp), (*qp).wr_id, (*qp).wr_flags) };
    if queue.error.is_err() {
        return;
    }
    let Some(slot) = queue.ring.slot(&mut queue.batch) else {
        queue.error = Err(Errno::ENOSPC);
        return;
    };
    // SAFETY: slots are a multiple of 8 bytes apart in a page-aligned mapping, and hold the head of an entry.
    let entry = unsafe { Entry::begin(slot, wr_id, opcode as u32, wr_flags, word, queue.ssn) };
    complete(entry);
    queue.ssn = queue.ssn.wrapping_add(1);
    queue.ring.accept(&mut queue.batch);
}

/// Completes the last request, unless something went wrong or there is none; keeps the error of `set`.
///
/// # Safety
/// As [`started`].
#[inline(always)]
unsafe fn complete(qp: *mut ibv_qp_ex, set: impl FnOnce(&SendQueue, Entry) -> Result<()>) {
    // SAFETY: handed on to the caller.
    let queue = unsafe { started(qp) };
    if queue.error.is_err() {
        return;
    }
    if let Some(slot) = queue.ring.last(&queue.batch) {
        // SAFETY: `build` began the entry in this slot, which the driver has not been told of.
        queue.error = set(queue, unsafe { Entry::reopen(slot) });
    }
}

/// Builders whose request is an opcode, a word, and what a method of [`Entry`] sets.
macro_rules! builders {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $ty:ty),*) = $opcode:ident, $word:expr $(, $set:ident($($value:ident),*))?;
    )*) => { $(
        $(#[$doc])*
        unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $arg: $ty)*) {
            // SAFETY: the program calls this between `wr_start` and `wr_complete`.
            unsafe { build(qp, $opcode, $word, |_entry| { $(_entry.$set($($value),*))? }) }
        }
    )* };
}

builders! {
    /// Compare and swap of 8 bytes.
    wr_atomic_cmp_swp(rkey: u32, remote_addr: u64, compare: u64, swap: u64)
        = IBV_WR_ATOMIC_CMP_AND_SWP, 0, set_atomic(rkey, remote_addr, compare, swap);
    /// Deregisters a key for peers.
    wr_local_inv(invalidate_rkey: u32) = IBV_WR_LOCAL_INV, invalidate_rkey;
    /// RDMA read.
    wr_rdma_read(rkey: u32, remote_addr: u64) = IBV_WR_RDMA_READ, 0, set_remote(rkey, remote_addr);
    /// RDMA write.
    wr_rdma_write(rkey: u32, remote_addr: u64) = IBV_WR_RDMA_WRITE, 0, set_remote(rkey, remote_addr);
    /// RDMA write with immediate data.
    wr_rdma_write_imm(rkey: u32, remote_addr: u64, imm_data: __be32)
        = IBV_WR_RDMA_WRITE_WITH_IMM, imm_data, set_remote(rkey, remote_addr);
    /// Send.
    wr_send() = IBV_WR_SEND, 0;
    /// Send with immediate data.
    wr_send_imm(imm_data: __be32) = IBV_WR_SEND_WITH_IMM, imm_data;
    /// Send that invalidates a key of the peer.
    wr_send_inv(invalidate_rkey: u32) = IBV_WR_SEND_WITH_INV, invalidate_rkey;
}

/// Fetch and add of 8 bytes.
unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, add: u64) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`.
    unsafe { build(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, |entry| entry.set_atomic(rkey, remote_addr, add, 0)) }
}

/// Atomic write of the 8 bytes at `atomic_wr`.
unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    atomic_wr: *const c_void,
) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with 8 readable bytes; the ring was
    // mapped for slots with room for them.
    unsafe {
        build(qp, IBV_WR_ATOMIC_WRITE, 0, |entry| {
            entry.set_remote(rkey, remote_addr);
            entry.set_atomic_write(atomic_wr.cast());
        });
    }
}

/// Flush of `len` bytes of the peer's memory.
unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    len: usize,
    kind: u8,
    level: u8,
) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`.
    unsafe { build(qp, IBV_WR_FLUSH, 0, |entry| entry.set_flush(rkey, remote_addr, len, kind, level)) }
}

/// Binding of a memory window under the new key `rkey`.
unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with a live window, and the
    // description of a binding to a live region.
    unsafe { build(qp, IBV_WR_BIND_MW, 0, |entry| entry.set_bind((*mw).rkey, rkey, &*info)) }
}

/// Destination of the last datagram.
unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with a live address handle.
    unsafe {
        complete(qp, |_, entry| {
            let ah = Handle::from_c(ah)?.object::<Ah>();
            entry.set_destination(&ah.destination, remote_qpn, remote_qkey);
            Ok(())
        });
    }
}

/// Inline data of the last request: `length` bytes at `addr`.
unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with readable data; a slot holds
    // `max_inline` bytes, as the shape was cut to it.
    unsafe {
        complete(qp, |queue, entry| {
            entry.set_inline(queue.shape.max_inline, &[ibv_data_buf { addr, length }])
        })
    }
}

/// Inline data of the last request, from several pieces.
unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    num_buf: usize,
    buf_list: *const ibv_data_buf,
) {
    // SAFETY: as for `wr_set_inline_data`; the list is valid for its length, and not looked at when that is 0.
    unsafe {
        complete(qp, |queue, entry| {
            let pieces = if num_buf == 0 { &[] } else { core::slice::from_raw_parts(buf_list, num_buf) };
            entry.set_inline(queue.shape.max_inline, pieces)
        });
    }
}

/// The only scatter/gather entry of the last request; an empty one leaves it without payload.
unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`.
    unsafe {
        complete(qp, |queue, entry| {
            if queue.shape.max_sge == 0 && length != 0 {
                return Err(Errno::ENOSPC);
            }
            entry.set_sge(ibv_sge { addr, length, lkey });
            Ok(())
        });
    }
}

/// The scatter/gather list of the last request.
unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, num_sge: usize, sg_list: *const ibv_sge) {
    // SAFETY: the program calls this between `wr_start` and `wr_complete`, with a valid list; a slot holds
    // `max_sge` entries, as the shape was cut to it.
    unsafe { complete(qp, |queue, entry| entry.set_sge_list(queue.shape.max_sge, num_sge, sg_list)) }
}

/// Begins a batch, and takes the lock.
unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program passes a live queue pair whose table holds this function.
    let mut queue = unsafe { Qp::from_extended(qp) }.send.lock();
    queue.error = Ok(());
    queue.batch = queue.ring.start();
    queue.leave_held();
}

/// Posts the batch, tells the driver, and gives the lock back; the first error of the batch, with nothing
/// posted, or that of the driver.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program calls this once after `wr_start`, so that this thread holds the lock; the reference
    // ends before the release. A queue pair is what an extended one starts with.
    unsafe {
        let queue = started(qp);
        let done = match queue.error {
            Ok(()) => {
                queue.ring.publish(&queue.batch);
                ring_doorbell(qp.cast(), Qp::from_extended(qp).imported)
            }
            failed => failed,
        };
        Qp::from_extended(qp).send.release();
        done.map_or_else(|errno| errno.0, |()| 0)
    }
}

/// Drops the batch, and gives the lock back.
unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the program calls this once after `wr_start`, so that this thread holds the lock.
    unsafe { Qp::from_extended(qp).send.release() }
}
