//! Building send requests by calls (`man ibv_wr_post`).
//!
//! The lock is held from `wr_start` to `wr_complete` or `wr_abort`. The first thing that goes wrong is kept,
//! makes the following calls do nothing, and is what `wr_complete` returns; then nothing is posted.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use super::building::Start;
use super::qp::Qp;
use super::queue::Sends;
use super::send::SendQueue;
use super::wqe::Binding;
use super::writing::Bytes;
use crate::abi::verbs::*;

/// The queue of a queue pair that a program builds requests for.
///
/// # Safety
/// `qp` is live and has these functions, and the calling thread is between `wr_start` and `wr_complete` or
/// `wr_abort`.
#[inline(always)]
unsafe fn started<'a>(qp: *mut ibv_qp_ex) -> (&'a mut SendQueue, &'a Sends) {
    // SAFETY: by the contract there is one, and its lock is held by this thread.
    unsafe {
        let object = Qp::of(qp.cast::<ibv_qp>()).unwrap_unchecked();
        let (send, sends) = (object.send.as_ref(), object.origin.sends.as_ref());
        (send.unwrap_unchecked().held_mut(), sends.unwrap_unchecked())
    }
}

/// Begins a request.
///
/// # Safety
/// See [`started`].
#[inline(always)]
unsafe fn build(qp: *mut ibv_qp_ex, code: ibv_wr_opcode, word: Option<u32>, start: Start) {
    // SAFETY: by the contract; number and flags are the program's to set.
    unsafe {
        let (queue, sends) = started(qp);
        queue.build(sends, ((*qp).wr_id, (*qp).wr_flags), code, word, start);
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program passes a live queue pair with these functions.
    unsafe {
        let object = Qp::of(qp.cast::<ibv_qp>()).unwrap_unchecked();
        let send = object.send.as_ref().unwrap_unchecked();
        send.lock().leave_held();
        send.held_mut().start_building();
    }
}

/// Ends what `wr_start` began.
///
/// # Safety
/// See [`started`].
unsafe fn end(qp: *mut ibv_qp_ex, post: bool) -> c_int {
    // SAFETY: by the contract; no reference to the queue is kept.
    unsafe {
        let object = Qp::of(qp.cast::<ibv_qp>()).unwrap_unchecked();
        let (queue, sends) = started(qp);
        let error = queue.end_building(sends, post);
        object.send.as_ref().unwrap_unchecked().release();
        error.map_or(0, |errno| errno.0)
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program calls it after `wr_start`.
    unsafe { end(qp, true) }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: as above.
    unsafe { end(qp, false) };
}

macro_rules! builders {
    ($($name:ident($($argument:ident: $kind:ty),*) = $code:ident, $word:expr, $start:expr;)+) => {
        $(unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $argument: $kind)*) {
            // SAFETY: the program calls it between `wr_start` and `wr_complete`.
            unsafe { build(qp, $code, $word, $start) };
        })+
    };
}

builders! {
    wr_send() = IBV_WR_SEND, None, Start::Plain;
    wr_send_imm(imm_data: __be32) = IBV_WR_SEND_WITH_IMM, Some(imm_data), Start::Plain;
    wr_send_inv(rkey: u32) = IBV_WR_SEND_WITH_INV, Some(rkey.to_be()), Start::Plain;
    wr_rdma_write(rkey: u32, address: u64) = IBV_WR_RDMA_WRITE, None, Start::Remote(address, rkey);
    wr_rdma_write_imm(rkey: u32, address: u64, imm_data: __be32)
        = IBV_WR_RDMA_WRITE_WITH_IMM, Some(imm_data), Start::Remote(address, rkey);
    wr_rdma_read(rkey: u32, address: u64) = IBV_WR_RDMA_READ, None, Start::Remote(address, rkey);
    wr_atomic_cmp_swp(rkey: u32, address: u64, compare: u64, swap: u64)
        = IBV_WR_ATOMIC_CMP_AND_SWP, None, Start::Atomic(address, rkey, swap, Some(compare));
    wr_atomic_fetch_add(rkey: u32, address: u64, add: u64)
        = IBV_WR_ATOMIC_FETCH_AND_ADD, None, Start::Atomic(address, rkey, add, None);
    wr_local_inv(rkey: u32) = IBV_WR_LOCAL_INV, Some(rkey.to_be()), Start::Key(None);
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    bind_info: *const ibv_mw_bind_info,
) {
    // SAFETY: the program calls it between `wr_start` and `wr_complete`, with a live window.
    unsafe {
        let number = (*qp).qp_base.qp_num;
        match Binding::of(&*bind_info, true, rkey, number) {
            Ok(binding) => {
                build(qp, IBV_WR_BIND_MW, Some((*mw).rkey.to_be()), Start::Key(Some(binding)));
            }
            Err(errno) => started(qp).0.fail(errno),
        }
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the program calls it between `wr_start` and `wr_complete`, with a live address handle.
    unsafe {
        started(qp).0.set_peer(|queue, to| {
            let vector = queue.address_vector(ah)?;
            to.datagram(vector, remote_qpn, remote_qkey);
            Ok(())
        })
    };
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: the program calls it between `wr_start` and `wr_complete`.
    unsafe {
        started(qp).0.set_peer(|_, to| {
            to.xrc(remote_srqn);
            Ok(())
        })
    };
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let sge = ibv_sge { addr, length, lkey };
    // SAFETY: as above.
    unsafe {
        let (queue, sends) = started(qp);
        queue.set_memory(sends, core::slice::from_ref(&sge));
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, num_sge: usize, sg_list: *const ibv_sge) {
    // SAFETY: as above; the program passes as many pieces.
    unsafe {
        let (queue, sends) = started(qp);
        let list = if num_sge == 0 { &[] } else { core::slice::from_raw_parts(sg_list, num_sge) };
        queue.set_memory(sends, list);
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: as above; the program passes as many bytes.
    unsafe {
        let (queue, sends) = started(qp);
        queue.set_data(sends, core::iter::once(Bytes { start: addr.cast(), length }));
    }
}

unsafe extern "C" fn wr_set_inline_data_list(
    qp: *mut ibv_qp_ex,
    num_buf: usize,
    buf_list: *const ibv_data_buf,
) {
    // SAFETY: as above; the program passes as many pieces.
    unsafe {
        let (queue, sends) = started(qp);
        let pieces = (0..num_buf).map(|at| {
            let piece = &*buf_list.add(at);
            Bytes { start: piece.addr.cast(), length: piece.length }
        });
        queue.set_data(sends, pieces);
    }
}

macro_rules! set_functions {
    ($($name:ident)+) => {
        /// Puts the functions in the place of those that libmlx5 has put there.
        ///
        /// # Safety
        /// A queue pair of libmlx5's with builders, of which nobody posts.
        pub unsafe fn set_functions(public: NonNull<ibv_qp_ex>) {
            let public = public.as_ptr();
            // SAFETY: by the contract; every release has these fields.
            unsafe {
                $(if (*public).$name.is_some() {
                    (*public).$name = Some($name);
                })+
            }
        }
    };
}

set_functions! {
    wr_start wr_complete wr_abort wr_send wr_send_imm wr_send_inv wr_rdma_write wr_rdma_write_imm wr_rdma_read
    wr_atomic_cmp_swp wr_atomic_fetch_add wr_local_inv wr_bind_mw wr_set_ud_addr wr_set_xrc_srqn wr_set_sge
    wr_set_sge_list wr_set_inline_data wr_set_inline_data_list
}
