//! Rules that lead packets to queue pairs, and their actions (`man ibv_create_flow`, `man
//! ibv_flow_action_esp`). Programs come here through `verbs_context`.

use core::ffi::c_int;
use core::ptr::NonNull;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::call;
use crate::provider::context;

/// `ibv_create_flow`: NULL and `errno` on failure. The rule's specifications follow `attr` in memory.
pub(super) unsafe extern "C" fn create_flow(qp: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow {
    entry::pointer(call!("ibv_create_flow", qp, attr), || {
        // SAFETY: the caller passes a live queue pair.
        let (qp, provider) = unsafe { context::of(qp) }?;
        provider.create_flow(qp, NonNull::new(attr).ok_or(Errno::EINVAL)?)
    })
}

/// `ibv_destroy_flow`: 0 or an errno value.
pub(super) unsafe extern "C" fn destroy_flow(flow: *mut ibv_flow) -> c_int {
    entry::value(call!("ibv_destroy_flow", flow), || {
        // SAFETY: the caller passes a live rule.
        let (flow, provider) = unsafe { context::of(flow) }?;
        provider.destroy_flow(flow)
    })
}

/// `ibv_create_flow_action_esp`: NULL and `errno` on failure.
pub(super) unsafe extern "C" fn create_flow_action_esp(
    context: *mut ibv_context,
    attr: *mut ibv_flow_action_esp_attr,
) -> *mut ibv_flow_action {
    entry::pointer(call!("ibv_create_flow_action_esp", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.create_flow_action_esp(attr)
    })
}

/// `ibv_modify_flow_action_esp`: 0 or an errno value.
pub(super) unsafe extern "C" fn modify_flow_action_esp(
    action: *mut ibv_flow_action,
    attr: *mut ibv_flow_action_esp_attr,
) -> c_int {
    entry::value(call!("ibv_modify_flow_action_esp", action, attr), || {
        // SAFETY: the caller passes a live action and attributes of its own.
        let ((action, provider), attr) =
            unsafe { (context::of(action)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.modify_flow_action_esp(action, attr)
    })
}

/// `ibv_destroy_flow_action`: 0 or an errno value.
pub(super) unsafe extern "C" fn destroy_flow_action(action: *mut ibv_flow_action) -> c_int {
    entry::value(call!("ibv_destroy_flow_action", action), || {
        // SAFETY: the caller passes a live action.
        let (action, provider) = unsafe { context::of(action) }?;
        provider.destroy_flow_action(action)
    })
}
