//! Completion queues (`man ibv_create_cq`, `man ibv_create_cq_ex`). Polling is the provider's own.

use core::ffi::{c_int, c_void};

use super::{channel, entry};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::{self, UNNAMED, call};
use crate::provider::object::Handle;
use crate::provider::{context, public_fields};

/// Fills in what the library keeps in a CQ just made, and counts it on its channel.
fn finish(
    cq: Handle<ibv_cq>,
    context: *mut ibv_context,
    channel: Option<Handle<ibv_comp_channel>>,
    cq_context: *mut c_void,
) {
    public_fields::finish_cq(cq, context, channel, cq_context);
    if let Some(channel) = channel {
        channel::hold(channel);
    }
}

/// [`finish`], for a plugin that makes a CQ by a way of its own.
///
/// # Safety
/// `cq` is null or just made, `context` open, `channel` null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_init_cq(
    cq: *mut ibv_cq,
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq_context: *mut c_void,
) {
    entry::nothing(UNNAMED, || {
        // SAFETY: by the contract.
        let (cq, channel) = unsafe { (Handle::from_c(cq)?, Handle::optional(channel)) };
        finish(cq, context, channel, cq_context);
        Ok(())
    });
}

/// A CQ of at least `cqe` entries, with `channel` (or NULL) for its events; NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or open, `channel` null or live.
#[cfg_attr(not(test), unsafe(export_name = "ibv_create_cq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    entry::pointer(call!("ibv_create_cq", context, cqe, cq_context, channel, comp_vector), || {
        // SAFETY: the caller passes an open context and a live channel or null.
        let (provider, channel) = unsafe { (context::provider(context)?, Handle::optional(channel)) };
        let cq = provider.create_cq(cqe, channel, comp_vector)?;
        finish(cq, context, channel, cq_context);
        Ok(cq)
    })
}

/// `ibv_create_cq_ex`: a CQ with polling functions for what `wc_flags` ask for.
pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    init_attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    entry::pointer(call!("ibv_create_cq_ex", context, init_attr), || {
        // SAFETY: the caller passes an open context and attributes that it does not change meanwhile.
        let (provider, attr) =
            unsafe { (context::provider(context)?, init_attr.as_ref().ok_or(Errno::EINVAL)?) };
        if attr.wc_flags & !(IBV_CREATE_CQ_SUP_WC_FLAGS as u64) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let cq = provider.create_cq_ex(attr)?;
        if observe::may_be_seen() {
            // SAFETY: just made, and nobody else knows it yet.
            observe::data::walk::observe_cq(unsafe { &mut *cq.as_ptr() });
        }
        // SAFETY: a live channel or null; an ibv_cq_ex starts as an ibv_cq does.
        let (channel, base) =
            unsafe { (Handle::optional(attr.channel), Handle::from_c(cq.as_ptr().cast())?) };
        finish(base, context, channel, attr.cq_context);
        Ok(cq)
    })
}

/// Changes the capacity to at least `cqe` entries; 0 or an errno value, EINVAL for fewer than are waiting.
///
/// # Safety
/// `cq` is null or a live CQ.
#[cfg_attr(not(test), unsafe(export_name = "ibv_resize_cq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    entry::value(call!("ibv_resize_cq", cq, cqe), || {
        // SAFETY: handed on to the caller.
        let (cq, provider) = unsafe { context::of(cq) }?;
        provider.resize_cq(cq, cqe)
    })
}

/// `ibv_modify_cq`: changes the moderation of events; 0 or an errno value.
pub(super) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    entry::value(call!("ibv_modify_cq", cq, attr), || {
        // SAFETY: the caller passes a live queue and attributes of its own.
        let ((cq, provider), attr) = unsafe { (context::of(cq)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.modify_cq(cq, attr)
    })
}

/// Destroys a CQ once all its events are acknowledged; 0 or an errno value, EBUSY while a QP uses it.
///
/// # Safety
/// `cq` is null or a live CQ.
#[cfg_attr(not(test), unsafe(export_name = "ibv_destroy_cq@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    entry::value(call!("ibv_destroy_cq", cq), || {
        // SAFETY: handed on to the caller; the channel of a live CQ is live, and outlives it.
        let ((cq, provider), channel) = unsafe { (context::of(cq)?, Handle::optional((*cq).channel)) };
        provider.destroy_cq(cq)?;
        if let Some(channel) = channel {
            channel::release(channel);
        }
        Ok(())
    })
}
