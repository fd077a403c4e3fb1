//! Buffers of the kind that suits the device (`man ibv_alloc_buf`).

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use ironverbs_os::file::borrowed;
use nix::fcntl::{FcntlArg, fcntl};

use super::{entry, mr};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::observe::{attributes, call};
use crate::provider::object::Handle;
use crate::provider::{buffer, context};

/// A buffer of `size` bytes at a page's start; `*buf` gets its handle. NULL and `errno` on failure.
///
/// # Safety
/// `pd` is null or live, `buf` null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(pd: *mut ibv_pd, size: usize, buf: *mut *mut ibv_buf) -> *mut c_void {
    let alloc = || {
        // SAFETY: handed on to the caller.
        let ((pd, provider), place) = unsafe { (context::of(pd)?, buf.as_mut().ok_or(Errno::EINVAL)?) };
        provider.alloc_buf(pd, size, place)
    };
    entry::number(call!("ibv_alloc_buf", pd, size, out buf), alloc, |errno| {
        errno.set();
        null_mut()
    })
}

/// A new descriptor of the dma-buf behind a buffer, closed at `exec`; -1 and `errno`, ENODATA where there is
/// none.
///
/// # Safety
/// `buf` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int {
    let export = || {
        // SAFETY: handed on to the caller.
        let fd = buffer::of(unsafe { Handle::from_c(buf) }?).dmabuf_fd;
        if fd < 0 {
            return Err(Errno(libc::ENODATA));
        }
        fcntl(borrowed(fd)?, FcntlArg::F_DUPFD_CLOEXEC(0)).map_err(|_| Errno::last())
    };
    entry::number(call!("ibv_export_buf_dmabuf_fd", buf), export, |errno| {
        errno.set();
        -1
    })
}

/// Frees a buffer, which no region lies in any more.
///
/// # Safety
/// `buf` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buf: *mut ibv_buf) {
    entry::nothing(call!("ibv_free_buf", buf), || {
        // SAFETY: handed on to the caller; a live buffer names the domain that it was allocated for.
        unsafe {
            let buf = Handle::from_c(buf)?;
            let (_, provider) = context::of(buffer::of(buf).pd)?;
            provider.free_buf(buf);
        }
        Ok(())
    });
}

/// Registers `length` bytes at `addr` within a buffer; NULL and `errno` on failure, EINVAL for a range outside
/// of it or another protection domain.
///
/// # Safety
/// `pd` and `buf` are null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let comp_mask = IBV_REG_MR_MASK_BUF as u64 | IBV_REG_MR_MASK_ADDR as u64;
    // SAFETY: plain C data; all zeros is its empty value.
    let empty: ibv_mr_init_attr = unsafe { core::mem::zeroed() };
    let mut attr = ibv_mr_init_attr { length, access, comp_mask, addr, buf, ..empty };
    let call = call!("ibv_reg_buf_mr", pd, buf, addr, length, access = attributes::access(access));
    // SAFETY: handed on to the caller.
    unsafe { mr::register_described(call, pd, &raw mut attr) }
}
