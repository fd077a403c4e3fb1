//! Protection domains (`man ibv_alloc_pd`).

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::{ibv_context, ibv_pd};
use crate::observe::call;
use crate::provider::context;

/// A new protection domain; NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or an open context.
#[cfg_attr(not(test), unsafe(export_name = "ibv_alloc_pd@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    entry::pointer(call!("ibv_alloc_pd", context), || {
        // SAFETY: the caller passes an open context.
        let pd = unsafe { context::provider(context) }?.alloc_pd()?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*pd.as_ptr()).context = context };
        Ok(pd)
    })
}

/// Frees a protection domain; 0 or an errno value, EBUSY while a region, queue or address handle uses it.
///
/// # Safety
/// `pd` is null or a live protection domain.
#[cfg_attr(not(test), unsafe(export_name = "ibv_dealloc_pd@@IBVERBS_1.1"))]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    entry::value(call!("ibv_dealloc_pd", pd), || {
        // SAFETY: the caller passes a live protection domain.
        let (pd, provider) = unsafe { context::of(pd) }?;
        provider.dealloc_pd(pd)
    })
}
