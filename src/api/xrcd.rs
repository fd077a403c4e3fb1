//! Extended connection domains (`man ibv_open_xrcd`). Programs come here through `verbs_context`.

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::call;
use crate::provider::context;

/// `ibv_open_xrcd`: NULL and `errno` on failure.
pub(super) unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    entry::pointer(call!("ibv_open_xrcd", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        let xrcd = provider.open_xrcd(attr)?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*xrcd.as_ptr()).context = context };
        Ok(xrcd)
    })
}

/// `ibv_close_xrcd`: 0 or an errno value.
pub(super) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    entry::value(call!("ibv_close_xrcd", xrcd), || {
        // SAFETY: the caller passes a live domain.
        let (xrcd, provider) = unsafe { context::of(xrcd) }?;
        provider.close_xrcd(xrcd)
    })
}
