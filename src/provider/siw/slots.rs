//! A queue of the driver: a power of two of slots, each of which belongs to one side. The flag VALID in a slot
//! passes it from the producer to the consumer and, cleared, back; there are no shared indices.

use core::ptr::NonNull;
use std::os::fd::AsRawFd;

use crate::abi::uapi::Pod;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::mapping::Mapping;
use crate::uverbs::device_file::DeviceFile;

/// Slots of a queue, with the memory that they lie in. Their contents are shared with the driver, so they are
/// reached by pointers alone.
pub struct Slots<T> {
    first: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
}

// SAFETY: the memory belongs to the process and moves between threads with the queue.
unsafe impl<T> Send for Slots<T> {}

impl<T: Pod> Slots<T> {
    /// Maps `count` slots at the place `key` of the device file, with `behind` more bytes after them. An error
    /// is in `errno` as well: mmap's, or EINVAL for a count that is no power of two.
    pub fn map(file: &DeviceFile, key: u64, count: u32, behind: usize) -> Result<Self> {
        let length = count as usize * size_of::<T>() + behind;
        let mapping = Mapping::new(file.as_raw_fd(), key, length)?;
        if !count.is_power_of_two() {
            trace!(Error, "siw: the driver gave a queue of {count} entries");
            return Err(Errno::EINVAL.also_set());
        }
        Ok(Self { first: mapping.base().cast(), mask: count - 1, _mapping: mapping })
    }

    /// Number of slots.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        // The count fits 32 bits, so the mask is below their maximum.
        self.mask + 1
    }

    /// The slot that a counter stands at: readable, writable and aligned as a `T` as long as this value lives.
    #[inline(always)]
    pub fn at(&self, counter: u32) -> NonNull<T> {
        // SAFETY: masked, the counter is below the number of slots mapped.
        unsafe { self.first.add((counter & self.mask) as usize) }
    }

    /// What follows the slots: the bytes asked for as `behind`.
    pub fn behind(&self) -> NonNull<u8> {
        // SAFETY: the mapping reaches at least to the end of the slots.
        unsafe { self.first.add(self.count() as usize).cast() }
    }
}
