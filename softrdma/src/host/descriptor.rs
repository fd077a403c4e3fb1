//! Descriptors of the library's own that a program may close behind its back (`closefrom`, `close_range`),
//! and give away again to files of its own.

use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::error::Result;
use super::sys;

/// A descriptor, and the file that it was opened for. Closed with the value, unless it means another file by
/// then, which is the program's.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    file: (u64, u64),
}

impl Descriptor {
    /// Takes over a descriptor that was just opened.
    pub(crate) fn new(fd: OwnedFd) -> Result<Self> {
        let stat = sys::stat(fd.as_raw_fd())?;
        Ok(Descriptor { fd: ManuallyDrop::new(fd), file: (stat.st_dev, stat.st_ino) })
    }

    /// The number, whatever it means now: for the program.
    pub(crate) fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The number as long as it means the file, else -1, which every system call answers with `EBADF`. One
    /// `fstat`.
    pub(crate) fn raw(&self) -> RawFd {
        if self.is_whole() { self.number() } else { -1 }
    }

    /// Whether both were opened for one file.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
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
