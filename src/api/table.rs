//! The tables in an open context through which the inline functions of `verbs.h` call. Every slot is filled; a
//! device that lacks a feature answers as rdma-core's does.

use core::ffi::c_int;
use core::ptr::NonNull;

use super::{buf, counters, cq, device, dm, dmah, flow, mr, mw, old_slots, port, qp, srq, td, wq, xrcd};
use crate::abi::verbs::{ibv_flow, ibv_flow_attr, ibv_qp, verbs_context};

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
    verbs.query_device_ex = Some(device::query_device_ex);
    verbs.query_rt_values = Some(device::query_rt_values);
    verbs.create_srq_ex = Some(srq::create_srq_ex);
    verbs.get_srq_num = Some(srq::get_srq_num);
    verbs.create_qp_ex = Some(qp::create_qp_ex);

    verbs.advise_mr = Some(mr::advise_mr);
    verbs.alloc_null_mr = Some(mr::alloc_null_mr);
    verbs.read_counters = Some(counters::read_counters);
    verbs.attach_counters_point_flow = Some(counters::attach_counters_point_flow);
    verbs.create_counters = Some(counters::create_counters);
    verbs.destroy_counters = Some(counters::destroy_counters);
    verbs.reg_dm_mr = Some(dm::reg_dm_mr);
    verbs.alloc_dm = Some(dm::alloc_dm);
    verbs.free_dm = Some(dm::free_dm);
    verbs.modify_flow_action_esp = Some(flow::modify_flow_action_esp);
    verbs.destroy_flow_action = Some(flow::destroy_flow_action);
    verbs.create_flow_action_esp = Some(flow::create_flow_action_esp);
    verbs.modify_qp_rate_limit = Some(qp::modify_qp_rate_limit);
    verbs.alloc_parent_domain = Some(td::alloc_parent_domain);
    verbs.dealloc_td = Some(td::dealloc_td);
    verbs.alloc_td = Some(td::alloc_td);
    verbs.modify_cq = Some(cq::modify_cq);
    verbs.destroy_rwq_ind_table = Some(wq::destroy_rwq_ind_table);
    verbs.create_rwq_ind_table = Some(wq::create_rwq_ind_table);
    verbs.destroy_wq = Some(wq::destroy_wq);
    verbs.modify_wq = Some(wq::modify_wq);
    verbs.create_wq = Some(wq::create_wq);
    verbs.open_qp = Some(qp::open_qp);
    verbs.open_xrcd = Some(xrcd::open_xrcd);
    verbs.close_xrcd = Some(xrcd::close_xrcd);
    verbs.ibv_destroy_flow = Some(flow::destroy_flow);
    verbs.ibv_create_flow = Some(flow::create_flow);

    library(context);
}

/// Fills the slots by which programs would make queues at a plugin without the library, which drives them.
pub(super) fn queues(context: NonNull<verbs_context>) {
    let verbs = context.as_ptr();
    // SAFETY: as in `library`: the context was just made, and has these slots in every release.
    unsafe {
        (*verbs).context.ops.bind_mw = Some(mw::bind_mw);
        (*verbs).create_srq_ex = Some(srq::create_srq_ex);
        (*verbs).create_qp_ex = Some(qp::create_qp_ex);
        (*verbs).alloc_null_mr = Some(mr::alloc_null_mr);
    }
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
