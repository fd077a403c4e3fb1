//! Memory that a driver shares with the process: mapped from the device file, unmapped when it is dropped.

use core::ptr::NonNull;
use std::os::fd::RawFd;

use crate::errno::{Errno, Result};

/// Shared memory of the driver, readable and writable.
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes from `offset` of the file; the error that mmap left in `errno`.
    pub fn new(fd: RawFd, offset: u64, length: usize) -> Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let base = NonNull::new(base.cast()).ok_or(Errno::EINVAL)?;
        Ok(Self { base, length })
    }

    /// Where it begins; page-aligned.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its size in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of a mapping that this value owns; what lies in it goes at the same
        // time.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}
