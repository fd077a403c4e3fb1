//! Memory regions, memory windows and memory of the device.

use crate::core::verbs::Access;

use super::{Device, Result};

/// A registered memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The key for one's own requests.
    pub lkey: u32,
    /// The key for peers. The same number.
    pub rkey: u32,
}

/// Kind of a memory window (`enum ibv_mw_type`).
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowType {
    /// Bound by a verb.
    One = 1,
    /// Bound by a work request, to a queue pair.
    Two = 2,
}

impl Device {
    /// Registers `length` bytes at `addr`, known to users of the key by addresses from `iova`.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for rights that need `LOCAL_WRITE` without it or a range that wraps,
    /// [`Error::Fault`](super::Error::Fault) for memory that is not there, [`Error::NoMemory`](super::Error::NoMemory).
    pub fn register(
        &self,
        _pd: u32,
        _addr: u64,
        _length: u64,
        _iova: u64,
        _access: Access,
    ) -> Result<Region> {
        todo!()
    }

    /// Changes a region: what is `None` stays. `translation` is address, length and iova.
    ///
    /// # Errors
    /// As those of [`Device::register`]; the region stays as it was. [`Error::Busy`](super::Error::Busy) while a window
    /// is bound to it.
    pub fn reregister(
        &self,
        _lkey: u32,
        _pd: Option<u32>,
        _translation: Option<(u64, u64, u64)>,
        _access: Option<Access>,
    ) -> Result<Region> {
        todo!()
    }

    /// Ends a region, and waits until no peer uses it any more.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error::Busy) while a window is bound to it; [`Error::Invalid`](super::Error::Invalid) when
    /// there is none.
    pub fn deregister(&self, _lkey: u32) -> Result<()> {
        todo!()
    }

    /// A new window, not bound; its key.
    ///
    /// # Errors
    /// [`Error::NoMemory`](super::Error::NoMemory).
    pub fn alloc_window(&self, _pd: u32, _kind: WindowType) -> Result<u32> {
        todo!()
    }

    /// Ends a window. Its key is the present one: the index counts and the 8 bits that change do not.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) when there is none.
    pub fn free_window(&self, _rkey: u32) -> Result<()> {
        todo!()
    }

    /// Memory of the device.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for nothing or more than
    /// [`Limits::max_dm_size`](super::Limits::max_dm_size), [`Error::NoMemory`](super::Error::NoMemory).
    pub fn alloc_memory(&self, _length: u64) -> Result<DeviceMemory> {
        todo!()
    }
}

/// Memory of the device (`struct ibv_dm`): registered by its address, with [`Device::register`].
#[derive(Debug)]
pub struct DeviceMemory {}

impl DeviceMemory {
    /// Its address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        todo!()
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        todo!()
    }

    /// Copies bytes in, at `offset`.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) outside of the memory.
    pub fn write(&self, _offset: u64, _from: &[u8]) -> Result<()> {
        todo!()
    }

    /// Copies bytes out, from `offset`.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) outside of the memory.
    pub fn read(&self, _offset: u64, _to: &mut [u8]) -> Result<()> {
        todo!()
    }
}
