//! Memory that the device reads and writes: whole pages of the process, which its driver pins.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use crate::errno::{Errno, Result};

unsafe extern "C" {
    // The library's own, as plugins call them: they count per page what children must not have.
    fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int;
    fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int;
}

/// Zeroed pages, kept out of children where the program asked for that (`ibv_fork_init`).
pub struct Pages {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the pages belong to the process, not to the thread that mapped them.
unsafe impl Send for Pages {}

impl Pages {
    /// At least `length` bytes; ENOMEM.
    pub fn new(length: usize) -> Result<Self> {
        // SAFETY: a plain question.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let length = length.checked_next_multiple_of(page).ok_or(Errno::ENOMEM)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let base = NonNull::new(base.cast()).ok_or(Errno::ENOMEM)?;
        let pages = Self { base, length };
        // SAFETY: the pages just mapped. Where this fails they are dropped, and dropping tells so of them.
        if unsafe { ibv_dontfork_range(base.as_ptr().cast(), length) } != 0 {
            return Err(Errno::last());
        }
        Ok(pages)
    }

    /// Where they begin.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Where they begin, as the driver is told.
    pub fn address(&self) -> u64 {
        self.base.as_ptr().expose_provenance() as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: base and length are those of a mapping that this value owns; what lies in it goes at the
        // same time.
        unsafe {
            ibv_dofork_range(self.base.as_ptr().cast(), self.length);
            libc::munmap(self.base.as_ptr().cast(), self.length);
        }
    }
}
