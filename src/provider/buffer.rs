//! Buffers whose kind the provider chooses (`man ibv_alloc_buf`): what stands behind the handle, which
//! providers and the library share, and the buffer of a device that has no wishes.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use super::object::Handle;
use crate::abi::verbs::{ibv_buf, ibv_pd};
use crate::errno::{Errno, Result};

/// A buffer, in the layout of rdma-core 64 and later.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// First byte.
    pub addr: *mut c_void,
    /// Length in bytes.
    pub size: usize,
    /// The domain that it was allocated for.
    pub pd: *mut ibv_pd,
    /// The dma-buf that it lies in, or -1.
    pub dmabuf_fd: c_int,
}

const _: () = assert!(cfg!(target_pointer_width = "32") || size_of::<Buffer>() == 32);

/// What stands behind the handle.
pub fn of(buf: Handle<ibv_buf>) -> Buffer {
    // SAFETY: a live handle, which this library or a plugin made of such a structure.
    unsafe { buf.as_ptr().cast::<Buffer>().read() }
}

/// Ordinary memory at a page's start. Both pieces are `malloc`'s, as with rdma-core.
pub fn allocate(pd: Handle<ibv_pd>, size: usize, buf: &mut *mut ibv_buf) -> Result<*mut c_void> {
    // SAFETY: plain calls; the pieces are checked before they are used.
    unsafe {
        let buffer = libc::calloc(1, size_of::<Buffer>()).cast::<Buffer>();
        if buffer.is_null() {
            return Err(Errno::ENOMEM.also_set());
        }
        let mut addr = null_mut();
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        let failed = libc::posix_memalign(&raw mut addr, page, size);
        if failed != 0 {
            libc::free(buffer.cast());
            return Err(Errno(failed).also_set());
        }
        buffer.write(Buffer { addr, size, pd: pd.as_ptr(), dmabuf_fd: -1 });
        *buf = buffer.cast();
        Ok(addr)
    }
}

/// Frees what [`allocate`] made.
pub fn free(buf: Handle<ibv_buf>) {
    let Buffer { addr, .. } = of(buf);
    // SAFETY: both pieces are `malloc`'s, and the program gives up the handle.
    unsafe {
        libc::free(addr);
        libc::free(buf.as_ptr().cast());
    }
}
