//! The data path: the C functions that programs call for every message.

use core::ffi::c_int;

use crate::abi::verbs::*;
use crate::errno::Errno;

/// The C functions of the data path. They stand in the tables that the inline functions of `verbs.h` call
/// through, so nothing of ours lies between a program and a ring.
#[derive(Clone, Copy)]
pub struct DataPath {
    /// `ibv_poll_cq`: takes up to `num_entries` completions; their number, or negative.
    pub poll_cq: unsafe extern "C" fn(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int,
    /// `ibv_req_notify_cq`: arms the completion channel; 0 or an errno value.
    pub req_notify_cq: unsafe extern "C" fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int,
    /// `ibv_post_send`: 0 or an errno value with `*bad_wr` at the first request not posted.
    pub post_send: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
    /// `ibv_post_recv`: as `post_send`.
    pub post_recv: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    /// `ibv_post_srq_recv`: as `post_send`.
    pub post_srq_recv: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    /// `ibv_post_srq_ops` (tag matching): 0 or an errno value with `*bad_op` at the first operation not posted;
    /// [`no_srq_ops`] for a device without.
    pub post_srq_ops: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int,
}

/// `ibv_post_srq_ops` of a device that matches no tags: EOPNOTSUPP, with `*bad_op` as it was.
pub unsafe extern "C" fn no_srq_ops(
    _srq: *mut ibv_srq,
    _op: *mut ibv_ops_wr,
    _bad_op: *mut *mut ibv_ops_wr,
) -> c_int {
    Errno::EOPNOTSUPP.0
}
