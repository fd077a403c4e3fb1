//! Protection domains and memory windows.

use core::ffi::{c_int, c_uint};

use super::{Request, answer, file, live, udata, value};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::uverbs;

/// Makes a protection domain; fills in its kernel handle and context.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_alloc_pd(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cmd: *mut Request<ib_uverbs_alloc_pd>,
    cmd_size: usize,
    resp: *mut ib_uverbs_alloc_pd_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let pd = live(pd)?;
        let handle = uverbs::pd::alloc(file(context)?, udata(cmd, cmd_size, resp, resp_size))?;
        answer(resp, ib_uverbs_alloc_pd_resp { pd_handle: handle });
        (*pd).handle = handle;
        (*pd).context = context;
        Ok(())
    })
}

/// Frees a protection domain in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let pd = live(pd)?;
        uverbs::pd::dealloc(file((*pd).context)?, (*pd).handle)
    })
}

/// Makes a memory window; fills in all of it.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_alloc_mw(
    pd: *mut ibv_pd,
    mw_type: c_uint,
    mw: *mut ibv_mw,
    cmd: *mut Request<ib_uverbs_alloc_mw>,
    cmd_size: usize,
    resp: *mut ib_uverbs_alloc_mw_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, mw) = (live(pd)?, live(mw)?);
        let context = (*pd).context;
        let udata = udata(cmd, cmd_size, resp, resp_size);
        let window = uverbs::mw::alloc(file(context)?, (*pd).handle, mw_type as u8, udata)?;
        answer(resp, ib_uverbs_alloc_mw_resp { mw_handle: window.handle, rkey: window.rkey });
        *mw = ibv_mw { context, pd, rkey: window.rkey, handle: window.handle, type_: mw_type };
        Ok(())
    })
}

/// Frees a memory window in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let mw = live(mw)?;
        uverbs::mw::dealloc(file((*mw).context)?, (*mw).handle)
    })
}
