//! Memory on the device (`man ibv_alloc_dm`). Programs come here through `verbs_context`; copying is the
//! provider's own, through `ibv_dm`.

use core::ffi::{c_int, c_uint};

use super::{entry, mr};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::{self, attributes, call};
use crate::provider::context;
use crate::provider::object::Handle;

/// `ibv_alloc_dm`: NULL and `errno` on failure.
pub(super) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    entry::pointer(call!("ibv_alloc_dm", context, attr), || {
        // SAFETY: the caller passes an open context and attributes of its own.
        let (provider, attr) = unsafe { (context::provider(context)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        let dm = provider.alloc_dm(attr)?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe {
            let dm = dm.as_ptr();
            (*dm).context = context;
            if observe::may_be_seen() {
                observe::data::context::observe_dm(&mut (*dm).memcpy_to_dm, &mut (*dm).memcpy_from_dm);
            }
        }
        Ok(dm)
    })
}

/// `ibv_free_dm`: 0 or an errno value.
pub(super) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    entry::value(call!("ibv_free_dm", dm), || {
        // SAFETY: the caller passes live device memory.
        let (dm, provider) = unsafe { context::of(dm) }?;
        provider.free_dm(dm)
    })
}

/// A new descriptor of a dma-buf over device memory; -1 and `errno` on failure.
///
/// # Safety
/// `dm` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dm_export_dmabuf_fd(dm: *mut ibv_dm) -> c_int {
    let export = || {
        // SAFETY: handed on to the caller.
        let (dm, provider) = unsafe { context::of(dm) }?;
        provider.dm_export_dmabuf_fd(dm)
    };
    entry::number(call!("ibv_dm_export_dmabuf_fd", dm), export, |errno| {
        errno.set();
        -1
    })
}

/// `ibv_reg_dm_mr`: a region of `length` bytes from `dm_offset`; NULL and `errno` on failure.
pub(super) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    entry::region(
        call!("ibv_reg_dm_mr", pd, dm, dm_offset, length, access = attributes::access(access)),
        || {
            // SAFETY: the caller passes a live protection domain and live device memory.
            let ((pd, provider), dm) = unsafe { (context::of(pd)?, Handle::from_c(dm)?) };
            provider.reg_dm_mr(pd, dm, dm_offset, length, access).map(mr::public)
        },
    )
}
