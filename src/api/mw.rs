//! Memory windows (`man ibv_alloc_mw`, `man ibv_bind_mw`). Programs come here through `ibv_context.ops`.

use core::ffi::{c_int, c_uint};

use super::entry;
use crate::abi::verbs::{ibv_mw, ibv_mw_bind, ibv_pd, ibv_qp};
use crate::errno::Errno;
use crate::observe::names::Named;
use crate::observe::{call, names};
use crate::provider::context;
use crate::provider::object::Handle;

/// `ibv_alloc_mw`: a window of type 1 or 2; NULL and `errno` on failure.
pub(super) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, mw_type: c_uint) -> *mut ibv_mw {
    entry::pointer(call!("ibv_alloc_mw", pd, mw_type = Named(&names::MW_TYPE, mw_type.into())), || {
        // SAFETY: the caller passes a live protection domain.
        let (pd, provider) = unsafe { context::of(pd) }?;
        provider.alloc_mw(pd, mw_type)
    })
}

/// `ibv_dealloc_mw`: 0 or an errno value.
pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    entry::value(call!("ibv_dealloc_mw", mw), || {
        // SAFETY: the caller passes a live window.
        let (mw, provider) = unsafe { context::of(mw) }?;
        provider.dealloc_mw(mw)
    })
}

/// `ibv_bind_mw`: posts the binding of a type 1 window; 0 or an errno value. The inline function has checked
/// that type, protection domain and rights fit.
pub(super) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    entry::value(call!("ibv_bind_mw", qp, mw, bind), || {
        // SAFETY: the caller passes live objects, and a struct that it does not change meanwhile.
        let ((qp, provider), mw, bind) =
            unsafe { (context::of(qp)?, Handle::from_c(mw)?, bind.as_ref().ok_or(Errno::EINVAL)?) };
        provider.bind_mw(qp, mw, bind)
    })
}
