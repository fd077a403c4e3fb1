//! The memory that a ring lies in: mapped from the device file, unmapped with the ring.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::os::fd::AsRawFd;

use super::ring::{CompletionRing, Malformed, WorkRing};
use crate::abi::uapi::rdma_user_rxe::mminfo;
use crate::errno::{Errno, Result};
use crate::log::trace;
use crate::provider::mapping::Mapping;
use crate::uverbs::device_file::DeviceFile;

/// A ring with the memory that it lies in.
pub struct Mapped<R> {
    ring: R,
    _mapping: Mapping,
}

impl<R> Mapped<R> {
    fn new(
        file: &DeviceFile,
        place: &mminfo,
        over: impl FnOnce(NonNull<u8>, usize) -> core::result::Result<R, Malformed>,
    ) -> Result<Self> {
        let mapping = Mapping::new(file.as_raw_fd(), place.offset, place.size as usize)?;
        let ring = over(mapping.base(), mapping.length()).map_err(|Malformed| {
            trace!(
                Error,
                "rxe: the ring at offset {:#x} does not fit its {} bytes", place.offset, place.size
            );
            Errno::EINVAL.also_set()
        })?;
        Ok(Self { ring, _mapping: mapping })
    }
}

impl Mapped<CompletionRing> {
    /// Maps the ring of a completion queue. EINVAL (`errno` set) if its head does not fit the memory.
    pub fn completions(file: &DeviceFile, place: &mminfo) -> Result<Self> {
        // SAFETY: the mapping is readable and writable, and lives as long as the ring, which is all that knows
        // it.
        Self::new(file, place, |base, length| unsafe { CompletionRing::over(base, length) })
    }
}

impl Mapped<WorkRing> {
    /// Maps the ring of a work queue with entries of at least `entry` bytes. EINVAL (`errno` set) if its head
    /// does not fit the memory.
    pub fn work(file: &DeviceFile, place: &mminfo, entry: usize) -> Result<Self> {
        // SAFETY: as for completions.
        Self::new(file, place, |base, length| unsafe { WorkRing::over(base, length, entry) })
    }
}

impl<R> Deref for Mapped<R> {
    type Target = R;
    #[inline(always)]
    fn deref(&self) -> &R {
        &self.ring
    }
}

impl<R> DerefMut for Mapped<R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut R {
        &mut self.ring
    }
}
