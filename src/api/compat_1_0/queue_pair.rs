//! Queue pairs. Today's carry the structs of 1.0 as their contexts.

use core::ffi::c_int;
use core::ptr::null_mut;

use super::super::{entry, mcast, qp};
use super::layout::*;
use super::{made, publish, release, with};
use crate::abi::verbs::*;
use crate::errno::Errno;

#[cfg_attr(not(test), unsafe(export_name = "ibv_create_qp@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd_1_0, attr: *mut ibv_qp_init_attr_1_0) -> *mut ibv_qp_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes a live domain, and attributes of its own that name live objects; what is
        // made is live, and nobody else knows it yet.
        unsafe {
            let domain = pd.as_ref().ok_or(Errno::EINVAL)?;
            let attr = attr.as_mut().ok_or(Errno::EINVAL)?;
            let mut real_attr = ibv_qp_init_attr {
                qp_context: attr.qp_context,
                send_cq: attr.send_cq.as_ref().map_or(null_mut(), |cq| cq.real_cq),
                recv_cq: attr.recv_cq.as_ref().map_or(null_mut(), |cq| cq.real_cq),
                srq: attr.srq.as_ref().map_or(null_mut(), |srq| srq.real_srq),
                cap: attr.cap,
                qp_type: attr.qp_type,
                sq_sig_all: attr.sq_sig_all,
            };
            let real_qp = made(qp::ibv_create_qp(domain.real_pd, &raw mut real_attr))?.as_ptr();
            attr.cap = real_attr.cap;
            let qp = publish(ibv_qp_1_0 {
                context: domain.context,
                qp_context: attr.qp_context,
                pd,
                send_cq: attr.send_cq,
                recv_cq: attr.recv_cq,
                srq: attr.srq,
                handle: 0,
                qp_num: (*real_qp).qp_num,
                state: 0,
                qp_type: attr.qp_type,
                mutex: libc::PTHREAD_MUTEX_INITIALIZER,
                cond: libc::PTHREAD_COND_INITIALIZER,
                events_completed: 0,
                real_qp,
            })?;
            (*real_qp).qp_context = qp.as_ptr().cast();
            Ok(qp)
        }
    })
}

/// A queue pair without a shared receive queue is said to have none, where rdma-core's function follows the
/// NULL.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_qp@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp_1_0,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr_1_0,
) -> c_int {
    // SAFETY: the caller passes a live queue pair and places to write; the objects that a live queue pair names
    // are live, and carry their structs of 1.0 as contexts.
    unsafe {
        with(qp, |qp| {
            let Some(init_attr) = init_attr.as_mut() else { return Errno::EINVAL.0 };
            // Plain C data; all zeros is its empty value.
            let mut real: ibv_qp_init_attr = core::mem::zeroed();
            let answer = qp::ibv_query_qp(qp.real_qp, attr, attr_mask, &raw mut real);
            if answer == 0 {
                init_attr.qp_context = qp.qp_context;
                init_attr.send_cq = real.send_cq.as_ref().map_or(null_mut(), |cq| cq.cq_context.cast());
                init_attr.recv_cq = real.recv_cq.as_ref().map_or(null_mut(), |cq| cq.cq_context.cast());
                init_attr.srq = real.srq.as_ref().map_or(null_mut(), |srq| srq.srq_context.cast());
                init_attr.qp_type = real.qp_type;
                init_attr.cap = real.cap;
                init_attr.sq_sig_all = real.sq_sig_all;
            }
            answer
        })
    }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_modify_qp@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp_1_0, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int {
    // SAFETY: the caller passes a live queue pair and attributes of its own.
    unsafe { with(qp, |qp| qp::ibv_modify_qp(qp.real_qp, attr, attr_mask)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_qp@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp_1_0) -> c_int {
    // SAFETY: the caller gives up a live queue pair.
    unsafe { release(qp, |qp| qp::ibv_destroy_qp(qp.real_qp)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_attach_mcast@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp_1_0, gid: *mut ibv_gid, lid: u16) -> c_int {
    // SAFETY: the caller passes a live queue pair and a group.
    unsafe { with(qp, |qp| mcast::ibv_attach_mcast(qp.real_qp, gid, lid)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_detach_mcast@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_detach_mcast(qp: *mut ibv_qp_1_0, gid: *mut ibv_gid, lid: u16) -> c_int {
    // SAFETY: the caller passes a live queue pair and a group.
    unsafe { with(qp, |qp| mcast::ibv_detach_mcast(qp.real_qp, gid, lid)) }
}
