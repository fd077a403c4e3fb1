//! The tables in an open context through which the inline functions of `verbs.h` call. Every slot is filled; a
//! device that lacks a feature answers as rdma-core's does.

use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr::NonNull;

use super::{buf, counters, cq, device, dm, dmah, flow, mr, mw, old_slots, port, qp, srq, td, wq, xrcd};
use crate::abi::verbs::{ibv_flow, ibv_flow_attr, ibv_qp, verbs_context};
use crate::observe::data::context::observe_context;

/// Fills the control slots of a context just opened; the data path is the provider's.
pub(super) fn fill(context: NonNull<verbs_context>) {
    // SAFETY: the context was just made and nobody else knows it yet.
    let verbs = unsafe { &mut *context.as_ptr() };

    let ops = &mut verbs.context.ops;
    ops.alloc_mw = Some(mw::alloc_mw);
    ops.dealloc_mw = Some(mw::dealloc_mw);
    ops.bind_mw = Some(mw::bind_mw);
    old_slots::fill(ops);

    verbs.free_buf = Some(buf::ibv_free_buf);
    verbs.alloc_buf = Some(buf::ibv_alloc_buf);
    verbs.dm_export_dmabuf_fd = Some(dm::ibv_dm_export_dmabuf_fd);
    verbs.reg_mr_ex = Some(mr::ibv_reg_mr_ex);
    verbs.dealloc_dmah = Some(dmah::ibv_dealloc_dmah);
    verbs.alloc_dmah = Some(dmah::ibv_alloc_dmah);
    // SAFETY: a whole context.
    unsafe { put_inline(context, size_of::<verbs_context>()) };

    library(context);
}

macro_rules! inline_slots {
    ($($slot:ident = $function:expr;)+) => {
        /// Fills the slots that only inline functions of `verbs.h` call, of those that a context of `size`
        /// bytes has.
        ///
        /// # Safety
        /// `context` is the place of a context, of which its last `size` bytes are there.
        unsafe fn put_inline(context: NonNull<verbs_context>, size: usize) {
            $(
                if size_of::<verbs_context>() - offset_of!(verbs_context, $slot) <= size {
                    // SAFETY: by the contract the slot is there.
                    unsafe { (*context.as_ptr()).$slot = Some($function) };
                }
            )+
        }
    };
}

inline_slots! {
    query_device_ex = device::query_device_ex;
    query_rt_values = device::query_rt_values;
    create_srq_ex = srq::create_srq_ex;
    get_srq_num = srq::get_srq_num;
    create_qp_ex = qp::create_qp_ex;
    advise_mr = mr::advise_mr;
    alloc_null_mr = mr::alloc_null_mr;
    read_counters = counters::read_counters;
    attach_counters_point_flow = counters::attach_counters_point_flow;
    create_counters = counters::create_counters;
    destroy_counters = counters::destroy_counters;
    reg_dm_mr = dm::reg_dm_mr;
    alloc_dm = dm::alloc_dm;
    free_dm = dm::free_dm;
    modify_flow_action_esp = flow::modify_flow_action_esp;
    destroy_flow_action = flow::destroy_flow_action;
    create_flow_action_esp = flow::create_flow_action_esp;
    modify_qp_rate_limit = qp::modify_qp_rate_limit;
    alloc_parent_domain = td::alloc_parent_domain;
    dealloc_td = td::dealloc_td;
    alloc_td = td::alloc_td;
    modify_cq = cq::modify_cq;
    destroy_rwq_ind_table = wq::destroy_rwq_ind_table;
    create_rwq_ind_table = wq::create_rwq_ind_table;
    destroy_wq = wq::destroy_wq;
    modify_wq = wq::modify_wq;
    create_wq = wq::create_wq;
    open_qp = qp::open_qp;
    open_xrcd = xrcd::open_xrcd;
    close_xrcd = xrcd::close_xrcd;
    ibv_destroy_flow = flow::destroy_flow;
    ibv_create_flow = flow::create_flow;
}

/// Has the data calls of a native provider's context observed.
pub(super) fn observe(context: NonNull<verbs_context>) {
    // SAFETY: the context was just made and nobody else knows it yet.
    let verbs = unsafe { &mut *context.as_ptr() };
    observe_context(&mut verbs.context.ops, Some(&mut verbs.post_srq_ops));
}

/// Has a plugin's context observed: besides the data calls also the plugin's functions that inline functions of
/// `verbs.h` call, which then go by way of the C entry points here.
pub(super) fn observe_plugin(context: NonNull<verbs_context>) {
    const BEFORE: usize = size_of::<verbs_context>() - offset_of!(verbs_context, post_srq_ops);
    let verbs = context.as_ptr();
    // SAFETY: as for `library`; `sz` says how much is there.
    unsafe {
        let size = (*verbs).sz;
        put_inline(context, size);
        let post_srq_ops = (BEFORE <= size).then(|| &mut (*verbs).post_srq_ops);
        let ops = &mut (*verbs).context.ops;
        observe_context(ops, post_srq_ops);
        ops.alloc_mw = Some(mw::alloc_mw);
        ops.dealloc_mw = Some(mw::dealloc_mw);
        ops.bind_mw = Some(mw::bind_mw);
    }
    library(context);
}

/// Fills the slots that are the library's own also in a context that a plugin made.
pub(super) fn library(context: NonNull<verbs_context>) {
    // The context was just made and nobody else knows it yet. No reference to the whole: of a plugin's
    // context only the end may be there, which has these in every release.
    let verbs = context.as_ptr();
    // SAFETY: as the comment above says.
    unsafe {
        (*verbs).context.ops._compat_query_device = Some(device::ibv_query_device);
        (*verbs).context.ops._compat_query_port = Some(port::ibv_query_port);
        (*verbs).query_port = Some(port::query_port);
        (*verbs).create_cq_ex = Some(cq::create_cq_ex);
    }
    // Programs of 2013 look for the flow functions here.
    type Placeholder = Option<unsafe extern "C" fn()>;
    type CreateFlow = Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow>;
    type DestroyFlow = Option<unsafe extern "C" fn(*mut ibv_flow) -> c_int>;
    // SAFETY: as above; a function pointer keeps its value, and those programs call it through its real type.
    unsafe {
        (*verbs).ABI_placeholder1 = core::mem::transmute::<CreateFlow, Placeholder>((*verbs).ibv_create_flow);
        (*verbs).ABI_placeholder2 =
            core::mem::transmute::<DestroyFlow, Placeholder>((*verbs).ibv_destroy_flow);
    }
}
