//! The slots of `ibv_context_ops` that programs of long ago may call: rdma-core 44 still keeps each provider's
//! operation there, so programs find the verb of the same kind.

use core::ffi::{c_int, c_void};

use super::{ah, cq, entry, mcast, mr, pd, qp, srq};
use crate::abi::driver::ops::op;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::UNNAMED;
use crate::provider::context;
use crate::provider::object::Handle;

type Slot = Option<unsafe extern "C" fn() -> *mut c_void>;
type DeregMr = unsafe extern "C" fn(*mut ibv_mr) -> c_int;
type ReregMr = unsafe extern "C" fn(*mut ibv_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int;

/// A function in the form of a slot. `F` is the type that those programs call it through.
fn slot<F: Copy>(function: F) -> Slot {
    const { assert!(size_of::<F>() == size_of::<Slot>()) };
    // SAFETY: the callers below pass function pointers, which keep their value; nobody calls them through the
    // slot's type.
    unsafe { core::mem::transmute_copy(&function) }
}

/// Fills the slots of a native provider's context.
pub(super) fn fill(ops: &mut ibv_context_ops) {
    ops._compat_alloc_pd = slot::<op::alloc_pd>(pd::ibv_alloc_pd);
    ops._compat_dealloc_pd = slot::<op::dealloc_pd>(pd::ibv_dealloc_pd);
    ops._compat_reg_mr = slot::<op::reg_mr>(mr::ibv_reg_mr_iova);
    // A region is the first field of what the provider's operation takes.
    ops._compat_rereg_mr = slot::<ReregMr>(mr::ibv_rereg_mr);
    ops._compat_dereg_mr = slot::<DeregMr>(mr::ibv_dereg_mr);
    ops._compat_create_cq = slot::<op::create_cq>(create_cq);
    ops._compat_cq_event = slot::<op::cq_event>(cq_event);
    ops._compat_resize_cq = slot::<op::resize_cq>(cq::ibv_resize_cq);
    ops._compat_destroy_cq = slot::<op::destroy_cq>(cq::ibv_destroy_cq);
    ops._compat_create_srq = slot::<op::create_srq>(srq::ibv_create_srq);
    ops._compat_modify_srq = slot::<op::modify_srq>(srq::ibv_modify_srq);
    ops._compat_query_srq = slot::<op::query_srq>(srq::ibv_query_srq);
    ops._compat_destroy_srq = slot::<op::destroy_srq>(srq::ibv_destroy_srq);
    ops._compat_create_qp = slot::<op::create_qp>(qp::ibv_create_qp);
    ops._compat_query_qp = slot::<op::query_qp>(qp::ibv_query_qp);
    ops._compat_modify_qp = slot::<op::modify_qp>(qp::ibv_modify_qp);
    ops._compat_destroy_qp = slot::<op::destroy_qp>(qp::ibv_destroy_qp);
    ops._compat_create_ah = slot::<op::create_ah>(ah::ibv_create_ah);
    ops._compat_destroy_ah = slot::<op::destroy_ah>(ah::ibv_destroy_ah);
    ops._compat_attach_mcast = slot::<op::attach_mcast>(mcast::ibv_attach_mcast);
    ops._compat_detach_mcast = slot::<op::detach_mcast>(mcast::ibv_detach_mcast);
    ops._compat_async_event = slot::<op::async_event>(async_event);
}

/// A queue without a context of the program's.
unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: handed on to the caller.
    unsafe { cq::ibv_create_cq(context, cqe, core::ptr::null_mut(), channel, comp_vector) }
}

unsafe extern "C" fn cq_event(cq: *mut ibv_cq) {
    entry::nothing(UNNAMED, || {
        // SAFETY: handed on to the caller.
        let (cq, provider) = unsafe { context::of(cq) }?;
        provider.cq_event(cq);
        Ok(())
    });
}

unsafe extern "C" fn async_event(context: *mut ibv_context, event: *mut ibv_async_event) {
    entry::nothing(UNNAMED, || {
        // SAFETY: the caller passes an open context and an event that it got of it and has not acknowledged.
        let (context, event) = unsafe { (Handle::from_c(context)?, event.as_mut().ok_or(Errno::EINVAL)?) };
        context::private(context).context().async_event(event);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_filled() {
        // SAFETY: numbers and nullable functions; all zeros is the empty table.
        let mut ops: ibv_context_ops = unsafe { core::mem::zeroed() };
        fill(&mut ops);
        // What today's programs call, and the two that the library fills in every context.
        let others = [
            ops._compat_query_device.is_some(),
            ops._compat_query_port.is_some(),
            ops.alloc_mw.is_some(),
            ops.bind_mw.is_some(),
            ops.dealloc_mw.is_some(),
            ops.poll_cq.is_some(),
            ops.req_notify_cq.is_some(),
            ops.post_srq_recv.is_some(),
            ops.post_send.is_some(),
            ops.post_recv.is_some(),
        ];
        assert!(!others.contains(&true));
        // SAFETY: a table of words, initialised and borrowed meanwhile.
        let words: &[usize; size_of::<ibv_context_ops>() / size_of::<usize>()] =
            unsafe { &*(&raw const ops).cast() };
        assert_eq!(words.iter().filter(|word| **word == 0).count(), others.len());
    }
}
