//! Completion queues and shared receive queues. Today's objects carry the structs of 1.0 as their contexts.

use core::ffi::{c_int, c_void};

use super::super::{cq, entry, srq};
use super::layout::*;
use super::{made, publish, release, with};
use crate::abi::verbs::*;
use crate::errno::Errno;

#[cfg_attr(not(test), unsafe(export_name = "ibv_create_cq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context_1_0,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes an open context, and a live channel or null; what is made is live, and
        // nobody else knows it yet.
        unsafe {
            let real_context = context.as_ref().ok_or(Errno::EINVAL)?.real_context;
            let real = cq::ibv_create_cq(real_context, cqe, cq_context, channel, comp_vector);
            let real_cq = made(real)?.as_ptr();
            let cq = publish(ibv_cq_1_0 {
                context,
                cq_context,
                handle: 0,
                cqe,
                mutex: libc::PTHREAD_MUTEX_INITIALIZER,
                cond: libc::PTHREAD_COND_INITIALIZER,
                comp_events_completed: 0,
                async_events_completed: 0,
                real_cq,
            })?;
            (*real_cq).cq_context = cq.as_ptr().cast();
            Ok(cq)
        }
    })
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_resize_cq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq_1_0, cqe: c_int) -> c_int {
    // SAFETY: the caller passes a live queue.
    unsafe { with(cq, |cq| cq::ibv_resize_cq(cq.real_cq, cqe)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_cq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq_1_0) -> c_int {
    // SAFETY: the caller gives up a live queue.
    unsafe { release(cq, |cq| cq::ibv_destroy_cq(cq.real_cq)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_create_srq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd_1_0, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq_1_0 {
    entry::unseen(|| {
        // SAFETY: the caller passes a live domain and attributes of its own; what is made is live, and nobody
        // else knows it yet.
        unsafe {
            let domain = pd.as_ref().ok_or(Errno::EINVAL)?;
            let real_srq = made(srq::ibv_create_srq(domain.real_pd, attr))?.as_ptr();
            let srq = publish(ibv_srq_1_0 {
                context: domain.context,
                srq_context: (*attr).srq_context,
                pd,
                handle: 0,
                mutex: libc::PTHREAD_MUTEX_INITIALIZER,
                cond: libc::PTHREAD_COND_INITIALIZER,
                events_completed: 0,
                real_srq,
            })?;
            (*real_srq).srq_context = srq.as_ptr().cast();
            Ok(srq)
        }
    })
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_modify_srq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq_1_0,
    attr: *mut ibv_srq_attr,
    attr_mask: c_int,
) -> c_int {
    // SAFETY: the caller passes a live queue and attributes of its own.
    unsafe { with(srq, |srq| srq::ibv_modify_srq(srq.real_srq, attr, attr_mask)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_query_srq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq_1_0, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: the caller passes a live queue and a place to write.
    unsafe { with(srq, |srq| srq::ibv_query_srq(srq.real_srq, attr)) }
}

#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_srq@IBVERBS_1.0"))]
unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq_1_0) -> c_int {
    // SAFETY: the caller gives up a live queue.
    unsafe { release(srq, |srq| srq::ibv_destroy_srq(srq.real_srq)) }
}
