//! Descriptors of the library's own that a program may close behind its back (`closefrom`, `close_range`),
//! and give away again to files of its own.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::sys;

/// How long a descriptor is believed to mean what it meant, where that is asked all the time: nanoseconds.
const BELIEVED: u64 = 100_000_000;

/// A descriptor, and the file that it was opened for. Closed with the value, unless it means another file by
/// then, which is the program's.
#[derive(Debug)]
pub struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    file: (u64, u64),
    confirmed: AtomicU64,
}

impl Descriptor {
    /// Takes over a descriptor that was just opened.
    ///
    /// # Errors
    /// Those of `fstat`.
    pub fn new(fd: OwnedFd) -> Result<Self> {
        let stat = sys::stat(fd.as_raw_fd())?;
        let (fd, file) = (ManuallyDrop::new(fd), (stat.st_dev, stat.st_ino));
        Ok(Descriptor { fd, file, confirmed: AtomicU64::new(0) })
    }

    /// The number, whatever it means now: for the program.
    pub fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The number as long as it means the file, else -1, which every system call answers with `EBADF`. One
    /// `fstat`.
    pub fn raw(&self) -> RawFd {
        if self.is_whole() { self.number() } else { -1 }
    }

    /// As [`Descriptor::raw`], by a look within the last 100 ms: to read, and where the look would cost as
    /// much.
    pub fn raw_lately(&self) -> RawFd {
        let now = sys::coarse_now();
        if now.wrapping_sub(self.confirmed.load(Ordering::Relaxed)) >= BELIEVED {
            if !self.is_whole() {
                return -1;
            }
            self.confirmed.store(now, Ordering::Relaxed);
        }
        self.number()
    }

    /// Whether both were opened for one file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.file == other.file
    }

    fn is_whole(&self) -> bool {
        sys::stat(self.number()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.is_whole() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}
