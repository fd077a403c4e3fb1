//! Hints for direct memory access (`man ibv_alloc_dmah`).

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::call;
use crate::provider::context;

/// Hints that registrations may share; NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or open, `attr` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_dmah(
    context: *mut ibv_context,
    attr: *mut ibv_dmah_init_attr,
) -> *mut ibv_dmah {
    entry::pointer(call!("ibv_alloc_dmah", context, attr), || {
        // SAFETY: handed on to the caller.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.alloc_dmah(attr)
    })
}

/// Frees hints; 0 or an errno value.
///
/// # Safety
/// `dmah` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_dmah(dmah: *mut ibv_dmah) -> c_int {
    entry::value(call!("ibv_dealloc_dmah", dmah), || {
        // SAFETY: handed on to the caller.
        let (dmah, provider) = unsafe { context::of(dmah) }?;
        provider.dealloc_dmah(dmah)
    })
}
