//! Shared receive queues (`man ibv_create_srq`, `man ibv_modify_srq`). Posting is the provider's own.

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::{attributes, call, names};
use crate::provider::object::Handle;
use crate::provider::{context, public_fields};

/// A shared receive queue; `srq_init_attr` gets the capacities really given. NULL and `errno` on failure.
///
/// # Safety
/// `pd` is null or live, `srq_init_attr` null or valid.
#[cfg_attr(not(test), unsafe(export_name = "ibv_create_srq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    entry::pointer(call!("ibv_create_srq", pd, srq_init_attr), || {
        // SAFETY: the caller passes a live protection domain, which names its context, and attributes of its
        // own.
        let (pd, context, attr) = unsafe {
            let pd = Handle::from_c(pd)?;
            (pd, (*pd.as_ptr()).context, srq_init_attr.as_mut().ok_or(Errno::EINVAL)?)
        };
        // SAFETY: the context of a live object is open.
        let srq = unsafe { context::provider(context) }?.create_srq(pd, attr)?;
        public_fields::finish_srq(srq, pd.as_ptr(), attr.srq_context);
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*srq.as_ptr()).context = context };
        Ok(srq)
    })
}

/// `ibv_create_srq_ex`: a shared receive queue of any type.
pub(super) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    entry::pointer(call!("ibv_create_srq_ex", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        let srq = provider.create_srq_ex(attr)?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*srq.as_ptr()).context = context };
        Ok(srq)
    })
}

/// `ibv_get_srq_num`: the number that peers name an XRC queue by; 0 or an errno value.
pub(super) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int {
    entry::value(call!("ibv_get_srq_num", srq, out srq_num), || {
        // SAFETY: the caller passes a live queue and a place to write.
        let ((srq, provider), srq_num) =
            unsafe { (context::of(srq)?, srq_num.as_mut().ok_or(Errno::EINVAL)?) };
        *srq_num = provider.get_srq_num(srq)?;
        Ok(())
    })
}

/// Resizes the queue (IBV_SRQ_MAX_WR) or arms its limit event (IBV_SRQ_LIMIT, 0 disarms); 0 or an errno value,
/// with which nothing has changed.
///
/// # Safety
/// `srq` is null or live, `srq_attr` null or valid.
#[cfg_attr(not(test), unsafe(export_name = "ibv_modify_srq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
) -> c_int {
    entry::value(
        call!(
            "ibv_modify_srq",
            srq,
            srq_attr = attributes::SrqAttr(srq_attr, srq_attr_mask),
            srq_attr_mask = attributes::bits(&names::SRQ_MASK, srq_attr_mask)
        ),
        || {
            // SAFETY: the caller passes a live queue and attributes of its own.
            let ((srq, provider), attr) =
                unsafe { (context::of(srq)?, srq_attr.as_mut().ok_or(Errno::EINVAL)?) };
            provider.modify_srq(srq, attr, srq_attr_mask)
        },
    )
}

/// Capacities and limit; 0 or an errno value.
///
/// # Safety
/// `srq` is null or live, `srq_attr` null or can be written.
#[cfg_attr(not(test), unsafe(export_name = "ibv_query_srq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int {
    entry::value(call!("ibv_query_srq", srq, out srq_attr), || {
        // SAFETY: the caller passes a live queue and a place to write.
        let ((srq, provider), attr) = unsafe { (context::of(srq)?, srq_attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.query_srq(srq, attr)
    })
}

/// Destroys the queue once its events are acknowledged; 0 or an errno value, EBUSY while a QP uses it.
///
/// # Safety
/// `srq` is null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_srq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    entry::value(call!("ibv_destroy_srq", srq), || {
        // SAFETY: handed on to the caller.
        let (srq, provider) = unsafe { context::of(srq) }?;
        provider.destroy_srq(srq)
    })
}
