//! Thread domains and parent domains (`man ibv_alloc_td`, `man ibv_alloc_parent_domain`). Programs come here
//! through `verbs_context`.

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::call;
use crate::provider::context;

/// `ibv_alloc_td`: NULL and `errno` on failure.
pub(super) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    entry::pointer(call!("ibv_alloc_td", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        let td = provider.alloc_td(attr)?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*td.as_ptr()).context = context };
        Ok(td)
    })
}

/// `ibv_dealloc_td`: 0 or an errno value, EBUSY while a parent domain names it.
pub(super) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    entry::value(call!("ibv_dealloc_td", td), || {
        // SAFETY: the caller passes a live thread domain.
        let (td, provider) = unsafe { context::of(td) }?;
        provider.dealloc_td(td)
    })
}

/// `ibv_alloc_parent_domain`: NULL and `errno` on failure. `ibv_dealloc_pd` frees what it gives.
pub(super) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    entry::pointer(call!("ibv_alloc_parent_domain", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.alloc_parent_domain(attr)
    })
}
