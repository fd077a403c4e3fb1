//! A memory file in the place of a device file: the test is the driver.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use crate::abi::uapi::Pod;
use crate::uverbs::device_file::DeviceFile;

/// The driver's view of the memory of a queue.
pub struct Memory {
    /// What the library maps.
    pub device: DeviceFile,
    file: File,
}

impl Memory {
    /// A file of `length` bytes, all zero.
    pub fn new(length: usize) -> Self {
        // SAFETY: the name is a NUL-terminated string.
        let fd = unsafe { libc::memfd_create(c"queue".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: just opened, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let file = File::from(fd.try_clone().unwrap());
        file.set_len(length as u64).unwrap();
        Self { device: DeviceFile::from_fd(fd), file }
    }

    /// Writes a value at an offset.
    pub fn put<T: Pod>(&self, offset: usize, value: &T) {
        self.file.write_all_at(value.as_bytes(), offset as u64).unwrap();
    }

    /// Reads a value at an offset.
    pub fn get<T: Pod>(&self, offset: usize) -> T {
        let mut value = T::zeroed();
        self.file.read_exact_at(value.as_bytes_mut(), offset as u64).unwrap();
        value
    }
}
