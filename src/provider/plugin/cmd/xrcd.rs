//! Extended reliable connection domains.

use core::ffi::c_int;
use core::mem::offset_of;

use super::{Request, answer, file, live, udata, value};
use crate::abi::driver::{VERBS_XRCD_HANDLE, verbs_xrcd};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::uverbs;

/// Opens a domain; fills in context and, where the provider's structure of `vxrcd_size` bytes has it, the
/// kernel handle.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_open_xrcd(
    context: *mut ibv_context,
    xrcd: *mut verbs_xrcd,
    vxrcd_size: c_int,
    attr: *mut ibv_xrcd_init_attr,
    cmd: *mut Request<ib_uverbs_open_xrcd>,
    cmd_size: usize,
    resp: *mut ib_uverbs_open_xrcd_resp,
    resp_size: usize,
) -> c_int {
    const WITH_HANDLE: usize = offset_of!(verbs_xrcd, handle) + size_of::<u32>();
    // SAFETY: see the module.
    value(|| unsafe {
        let (xrcd, attr) = (live(xrcd)?, live(attr)?);
        let udata = udata(cmd, cmd_size, resp, resp_size);
        let handle =
            uverbs::xrcd::open(file(context)?, (*attr).comp_mask, (*attr).fd, (*attr).oflags, udata)?;
        answer(resp, ib_uverbs_open_xrcd_resp { xrcd_handle: handle });
        (*xrcd).xrcd.context = context;
        (*xrcd).comp_mask = 0;
        if usize::try_from(vxrcd_size).is_ok_and(|size| size >= WITH_HANDLE) {
            (*xrcd).comp_mask = VERBS_XRCD_HANDLE;
            (*xrcd).handle = handle;
        }
        Ok(())
    })
}

/// Closes a domain in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_close_xrcd(xrcd: *mut verbs_xrcd) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let xrcd = live(xrcd)?;
        uverbs::xrcd::close(file((*xrcd).xrcd.context)?, (*xrcd).handle)
    })
}
