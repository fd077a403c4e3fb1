//! Counters of what rules see (`man ibv_create_counters`, `man ibv_read_counters`). Programs come here through
//! `verbs_context`.

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::{attributes, call};
use crate::provider::context;
use crate::provider::object::Handle;

/// `ibv_create_counters`: NULL and `errno` on failure.
pub(super) unsafe extern "C" fn create_counters(
    context: *mut ibv_context,
    attr: *mut ibv_counters_init_attr,
) -> *mut ibv_counters {
    entry::pointer(call!("ibv_create_counters", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.create_counters(attr)
    })
}

/// `ibv_destroy_counters`: 0 or an errno value.
pub(super) unsafe extern "C" fn destroy_counters(counters: *mut ibv_counters) -> c_int {
    entry::value(call!("ibv_destroy_counters", counters), || {
        // SAFETY: the caller passes live counters.
        let (counters, provider) = unsafe { context::of(counters) }?;
        provider.destroy_counters(counters)
    })
}

/// `ibv_attach_counters_point_flow`: 0 or an errno value.
pub(super) unsafe extern "C" fn attach_counters_point_flow(
    counters: *mut ibv_counters,
    attr: *mut ibv_counter_attach_attr,
    flow: *mut ibv_flow,
) -> c_int {
    entry::value(call!("ibv_attach_counters_point_flow", counters, attr, flow), || {
        // SAFETY: the caller passes live counters, attributes of its own, and a live rule or null.
        let ((counters, provider), attr, flow) =
            unsafe { (context::of(counters)?, attr.as_mut().ok_or(Errno::EINVAL)?, Handle::optional(flow)) };
        provider.attach_counters_point_flow(counters, attr, flow)
    })
}

/// `ibv_read_counters`: the first `ncounters` values; 0 or an errno value.
pub(super) unsafe extern "C" fn read_counters(
    counters: *mut ibv_counters,
    values: *mut u64,
    ncounters: u32,
    flags: u32,
) -> c_int {
    entry::value(
        call!(
            "ibv_read_counters",
            counters,
            out values = attributes::list(values, ncounters as usize),
            ncounters,
            flags
        ),
        || {
            // SAFETY: the caller passes live counters, and room for as many values as it says.
            let ((counters, provider), values) =
                unsafe { (context::of(counters)?, entry::array(values, ncounters as usize)) };
            provider.read_counters(counters, values, flags)
        },
    )
}
