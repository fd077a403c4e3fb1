//! The public fields of queues and queue pairs that are just being made, which nobody else knows yet. Who fills
//! them in is as with rdma-core.
//!
//! | made by | native provider | plugin's command (`ibv_cmd_*`) | C entry |
//! |---|---|---|---|
//! | `ibv_create_cq`, `ibv_create_cq_ex` | handle, size | [`begin_cq`], [`answer_cq`] | [`finish_cq`] |
//! | `ibv_create_srq` | handle | [`begin_srq`], handle | [`finish_srq`], context |
//! | `ibv_create_srq_ex` | handle, [`finish_srq`] | as above, and type, number and objects | context |
//! | `ibv_create_qp` | [`of_qp`], [`name_qp_parts`] | context, [`begin_qp`], [`name_qp_ex_parts`] | |
//! | `ibv_create_qp_ex` | [`of_qp`], [`name_qp_ex_parts`] | as above | context |
//! | `ibv_open_qp` | [`of_qp`], [`name_opened_qp`] | [`begin_qp`], [`name_opened_qp`] | |
//! | `ibv_create_wq` | | context, objects and type; handle and number | by the inline function of `verbs.h` |
//!
//! A plugin's command fills in more, and some of it before it asks the kernel, so that it stays when the kernel
//! refuses: plugins of other releases read it, and rely on its being there. The memory is the plugin's, who may
//! have left it as `malloc` gave it, so fields are written through pointers and never borrowed.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use crate::abi::verbs::*;
use crate::provider::object::Handle;
use crate::uverbs::cq::CqCreated;

/// Names the context of a plugin's completion queue, before the kernel makes it.
///
/// # Safety
/// `cq` is a queue that its provider is making.
pub unsafe fn begin_cq(cq: *mut ibv_cq, context: *mut ibv_context) {
    // SAFETY: by the contract.
    unsafe { (*cq).context = context }
}

/// Fills in what the kernel answered of a plugin's completion queue.
///
/// # Safety
/// `cq` is a queue that its provider is making.
pub unsafe fn answer_cq(cq: *mut ibv_cq, created: CqCreated) {
    // SAFETY: by the contract.
    unsafe {
        (*cq).handle = created.handle;
        (*cq).cqe = created.cqe as c_int;
    }
}

/// Fills in what the library keeps in a completion queue.
pub fn finish_cq(
    cq: Handle<ibv_cq>,
    context: *mut ibv_context,
    channel: Option<Handle<ibv_comp_channel>>,
    cq_context: *mut c_void,
) {
    let public = cq.as_ptr();
    // SAFETY: just made.
    unsafe {
        (*public).context = context;
        (*public).channel = channel.map_or(null_mut(), Handle::as_ptr);
        (*public).cq_context = cq_context;
        (*public).comp_events_completed = 0;
        (*public).async_events_completed = 0;
        (*public).mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        (*public).cond = libc::PTHREAD_COND_INITIALIZER;
    }
}

/// Fills in a plugin's shared receive queue before the kernel makes it: context, and what its destruction waits
/// by. Plugins since rdma-core 58 leave the protection domain to the library as well, and read it:
/// `names_pd` says that this is one.
///
/// # Safety
/// `srq` is a queue that its provider is making, `pd` is live.
pub unsafe fn begin_srq(srq: *mut ibv_srq, pd: *mut ibv_pd, names_pd: bool) {
    // SAFETY: by the contract.
    unsafe {
        if names_pd {
            (*srq).pd = pd;
        }
        (*srq).context = (*pd).context;
        (*srq).mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        (*srq).cond = libc::PTHREAD_COND_INITIALIZER;
    }
}

/// Fills in what the library keeps in a shared receive queue, but for the context.
pub fn finish_srq(srq: Handle<ibv_srq>, pd: *mut ibv_pd, srq_context: *mut c_void) {
    let public = srq.as_ptr();
    // SAFETY: just made.
    unsafe {
        (*public).srq_context = srq_context;
        (*public).pd = pd;
        (*public).events_completed = 0;
        (*public).mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        (*public).cond = libc::PTHREAD_COND_INITIALIZER;
    }
}

/// Fills in a queue pair but for context and objects. `handle` is its number between process and kernel,
/// `qp_num` that by which peers name it.
///
/// # Safety
/// `qp` is a queue pair that its provider is making.
pub unsafe fn begin_qp(
    qp: *mut ibv_qp,
    handle: u32,
    qp_num: u32,
    qp_type: ibv_qp_type_t,
    state: ibv_qp_state_t,
) {
    // SAFETY: by the contract.
    unsafe {
        (*qp).handle = handle;
        (*qp).qp_num = qp_num;
        (*qp).qp_type = qp_type;
        (*qp).state = state;
        (*qp).events_completed = 0;
        (*qp).mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        (*qp).cond = libc::PTHREAD_COND_INITIALIZER;
    }
}

/// A queue pair in state RESET, without context and objects: see [`begin_qp`].
pub fn of_qp(handle: u32, qp_num: u32, qp_type: ibv_qp_type_t) -> ibv_qp {
    let mut public = MaybeUninit::<ibv_qp>::zeroed();
    // SAFETY: plain C data of integers, pointers and pthread objects, which this initialises; all zeros is the
    // empty value of the rest.
    unsafe {
        begin_qp(public.as_mut_ptr(), handle, qp_num, qp_type, IBV_QPS_RESET as ibv_qp_state_t);
        public.assume_init()
    }
}

/// Names the context and the objects that a queue pair of `ibv_create_qp` is made of.
pub fn name_qp_parts(qp: Handle<ibv_qp>, pd: Handle<ibv_pd>, attr: &ibv_qp_init_attr) {
    let parts = Parts {
        qp_context: attr.qp_context,
        pd: pd.as_ptr(),
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
    };
    // SAFETY: just made; a live domain.
    unsafe {
        (*qp.as_ptr()).context = (*pd.as_ptr()).context;
        name(qp.as_ptr(), parts);
    }
}

/// Names the objects that a queue pair of `ibv_create_qp_ex` is made of.
///
/// # Safety
/// `qp` is a queue pair that its provider is making.
pub unsafe fn name_qp_ex_parts(qp: *mut ibv_qp, pd: *mut ibv_pd, attr: &ibv_qp_init_attr_ex) {
    let parts = Parts {
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
    };
    // SAFETY: by the contract.
    unsafe { name(qp, parts) }
}

/// Names the two contexts of a queue pair of `ibv_open_qp`; the objects that it is made of are unknown.
///
/// # Safety
/// `qp` is a queue pair that its provider is making.
pub unsafe fn name_opened_qp(qp: *mut ibv_qp, context: *mut ibv_context, qp_context: *mut c_void) {
    let parts =
        Parts { qp_context, pd: null_mut(), send_cq: null_mut(), recv_cq: null_mut(), srq: null_mut() };
    // SAFETY: by the contract.
    unsafe {
        (*qp).context = context;
        name(qp, parts);
    }
}

/// What a queue pair names besides its context.
struct Parts {
    qp_context: *mut c_void,
    pd: *mut ibv_pd,
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
}

/// # Safety
/// `qp` is a queue pair that its provider is making.
unsafe fn name(qp: *mut ibv_qp, parts: Parts) {
    // SAFETY: by the contract.
    unsafe {
        (*qp).qp_context = parts.qp_context;
        (*qp).pd = parts.pd;
        (*qp).send_cq = parts.send_cq;
        (*qp).recv_cq = parts.recv_cq;
        (*qp).srq = parts.srq;
    }
}

/// What a query answers of the objects that a queue pair is made of.
pub fn answer_qp_parts(qp: Handle<ibv_qp>, init_attr: &mut ibv_qp_init_attr) {
    // SAFETY: a live handle.
    let public = unsafe { &*qp.as_ptr() };
    init_attr.qp_context = public.qp_context;
    init_attr.send_cq = public.send_cq;
    init_attr.recv_cq = public.recv_cq;
    init_attr.srq = public.srq;
    init_attr.qp_type = public.qp_type;
}
