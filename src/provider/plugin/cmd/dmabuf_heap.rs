//! Memory from the kernel's heap of dma-bufs that confidential guests share with their host.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use super::live;
use crate::errno::{Errno, Result};
use crate::guard::guarded;

/// An open heap; what it is made of the provider does not know (`struct ibv_dmabuf_heap`).
pub struct Heap(OwnedFd);

/// `struct dma_heap_allocation_data` of the kernel.
#[repr(C)]
struct Allocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

/// `DMA_HEAP_IOCTL_ALLOC`: reads and writes an [`Allocation`].
const ALLOC: libc::Ioctl = 0xc018_4800_u32 as libc::Ioctl;

/// A pointer, or NULL with `errno`.
fn pointer<T>(body: impl FnOnce() -> Result<*mut T>) -> *mut T {
    guarded(body).unwrap_or_else(|errno| {
        errno.set();
        null_mut()
    })
}

/// The owner of a file that a system call has opened, or the error that it left.
fn opened(fd: c_int) -> Result<OwnedFd> {
    // SAFETY: just opened, if it is one.
    if fd < 0 { Err(Errno::last()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Opens the heap; NULL and `errno` where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dmabuf_heap_cc_shared_init() -> *mut Heap {
    const PATH: &core::ffi::CStr = c"/dev/dma_heap/system_cc_shared";
    pointer(|| {
        // SAFETY: a constant C string.
        let heap = opened(unsafe { libc::open(PATH.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })?;
        Ok(Box::into_raw(Box::new(Heap(heap))))
    })
}

/// Closes a heap. What was allocated from it stays.
///
/// # Safety
/// `heap` is one that [`ibv_dmabuf_heap_cc_shared_init`] has opened, given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dmabuf_heap_destroy(heap: *mut Heap) {
    let _ = guarded(|| {
        // SAFETY: by the contract.
        drop(unsafe { Box::from_raw(live(heap)?) });
        Ok(())
    });
}

/// Allocates and maps `size` bytes; NULL and `errno` on failure. `dmabuf_fd` gets the dma-buf.
///
/// # Safety
/// `heap` is open, and `dmabuf_fd` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dmabuf_heap_alloc(
    heap: *mut Heap,
    size: usize,
    dmabuf_fd: *mut c_int,
) -> *mut c_void {
    // SAFETY: by the contract; the kernel fills in the allocation, and the mapping is new.
    pointer(|| unsafe {
        let (heap, dmabuf_fd) = (&*live(heap)?, live(dmabuf_fd)?);
        let fd_flags = (libc::O_RDWR | libc::O_CLOEXEC) as u32;
        let mut allocation = Allocation { len: size as u64, fd: 0, fd_flags, heap_flags: 0 };
        if libc::ioctl(heap.0.as_raw_fd(), ALLOC, &raw mut allocation) < 0 {
            return Err(Errno::last());
        }
        let dmabuf = opened(allocation.fd as c_int)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(null_mut(), size, protection, libc::MAP_SHARED, dmabuf.as_raw_fd(), 0);
        if memory == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        *dmabuf_fd = dmabuf.into_raw_fd();
        Ok(memory)
    })
}

/// Gives back what [`ibv_dmabuf_heap_alloc`] has given.
///
/// # Safety
/// The three are those of one allocation, given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dmabuf_heap_free(buf: *mut c_void, size: usize, dmabuf_fd: c_int) {
    // SAFETY: by the contract.
    unsafe {
        libc::munmap(buf, size);
        libc::close(dmabuf_fd);
    }
}
