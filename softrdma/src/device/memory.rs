//! Memory regions, memory windows and memory of the device.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use ironverbs_os::growth::{TryInsert, try_collect};

use crate::faults::{self, Faults};
use crate::rules::keys::{Key, Kind};
use crate::rules::request::BindWindow;
use crate::rules::verbs::Access;
use crate::shm::keys::Entry;
use crate::shm::pages::{self, Missing};

use super::{Device, Error, LIMITS, Result};

/// A registered memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The key for one's own requests.
    pub lkey: u32,
    /// The key for peers. The same number.
    pub rkey: u32,
}

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueriedRegion {
    /// Protection domain.
    pub pd: u32,
    /// First byte in this process.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Address of the first byte for users of the key.
    pub iova: u64,
    /// Rights.
    pub access: Access,
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

/// The windows of a process, by the index of their keys.
#[derive(Debug, Default)]
pub(super) struct Windows(HashMap<u32, Window>);

#[derive(Debug, Clone, Copy)]
struct Window {
    /// The key as it is now.
    rkey: u32,
    pd: u32,
    /// The key of the region it was last bound to.
    region: Option<u32>,
}

impl Device {
    /// Registers `length` bytes at `addr`, known to users of the key by addresses from `iova`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for rights that need `LOCAL_WRITE` without it or a range that wraps, [`Error::Fault`]
    /// for memory of which a page is not there or, where anybody may write, not writable; [`Error::NoMemory`].
    pub fn register(&self, pd: u32, addr: u64, length: u64, iova: u64, access: Access) -> Result<Region> {
        let entry = region(pd, (addr, length, iova), access)?;
        check_mapped(&entry)?;
        if faults::active().is_some_and(Faults::registration) {
            return Err(Error::NoMemory);
        }
        self.add_region(&entry)
    }

    /// As [`Device::register`], for memory that need not be there before it is used: requests fail that meet a
    /// hole. The region has the right [`Access::ON_DEMAND`], which keeps this crate from reading and writing
    /// there in place.
    ///
    /// # Errors
    /// As those of [`Device::register`], but for [`Error::Fault`].
    pub fn register_on_demand(
        &self,
        pd: u32,
        addr: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<Region> {
        self.add_region(&region(pd, (addr, length, iova), access.union(Access::ON_DEMAND))?)
    }

    /// As [`Device::register`], for memory that the kernel reaches for no other process: frames of a device
    /// that are mapped. It is there as long as the region. Payload for it goes through shared memory, with this
    /// process's help, which a thread of the device gives from now on. The region has the right
    /// [`Access::UNPINNABLE`].
    ///
    /// # Errors
    /// As those of [`Device::register`], but for [`Error::Fault`].
    pub fn register_unpinnable(
        &self,
        pd: u32,
        addr: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<Region> {
        let entry = region(pd, (addr, length, iova), access.union(Access::UNPINNABLE))?;
        self.endpoint.help_from_now_on();
        self.add_region(&entry)
    }

    fn add_region(&self, entry: &Entry) -> Result<Region> {
        let pd = entry.key.pd;
        self.hold_pd(pd)?;
        self.endpoint.help_if_likely();
        match self.endpoint.keys.add(entry) {
            Ok(key) => Ok(Region { lkey: key, rkey: key }),
            Err(e) => {
                self.release_pd(pd);
                Err(e.into())
            }
        }
    }

    /// Changes a region: what is `None` stays. `translation` is address, length and iova. The keys stay.
    ///
    /// # Errors
    /// As those of [`Device::register`]; the region stays as it was. [`Error::Busy`] while a window is bound to
    /// it.
    pub fn reregister(
        &self,
        lkey: u32,
        pd: Option<u32>,
        translation: Option<(u64, u64, u64)>,
        access: Option<Access>,
    ) -> Result<Region> {
        let before = self.region(lkey)?;
        let Key { start, length, access: had, .. } = before.key;
        // What kind of memory it is does not change with the rights.
        let kept = if translation.is_none() { Access(had.0 & Access::UNPINNABLE.0) } else { Access::NONE };
        let after = region(
            pd.unwrap_or(before.key.pd),
            translation.unwrap_or((before.base, length, start)),
            access.unwrap_or(Access(had.0 & !Access::UNPINNABLE.0)).union(kept),
        )?;
        if self.is_bound(lkey) {
            return Err(Error::Busy);
        }
        if translation.is_some() || access.is_some() {
            check_mapped(&after)?;
        }
        self.hold_pd(after.key.pd)?;
        let changed = self.endpoint.keys.change(lkey, lkey as u8, &after);
        self.release_pd(if changed.is_ok() { before.key.pd } else { after.key.pd });
        let key = changed?;
        self.end_use(lkey)?;
        self.wait_for_windows(lkey)?;
        Ok(Region { lkey: key, rkey: key })
    }

    /// Ends a region, and waits until no peer uses it any more: at most some seconds, after which those who do
    /// are kept out.
    ///
    /// # Errors
    /// [`Error::Busy`] while a window is bound to it; [`Error::Invalid`] when there is none.
    pub fn deregister(&self, lkey: u32) -> Result<()> {
        let entry = self.region(lkey)?;
        if self.is_bound(lkey) {
            return Err(Error::Busy);
        }
        self.end_key(lkey)?;
        self.wait_for_windows(lkey)?;
        self.release_pd(entry.key.pd);
        Ok(())
    }

    /// What a region is; `None` where there is none with this key.
    #[must_use]
    pub fn query_region(&self, lkey: u32) -> Option<QueriedRegion> {
        let Entry { key, base } = self.region(lkey).ok()?;
        Some(QueriedRegion {
            pd: key.pd,
            addr: base,
            length: key.length,
            iova: key.start,
            access: key.access,
        })
    }

    fn region(&self, lkey: u32) -> Result<Entry> {
        let entry = self.endpoint.keys.local(lkey).filter(|entry| entry.key.kind == Kind::Region);
        entry.ok_or(Error::Invalid("no such region"))
    }

    fn end_key(&self, key: u32) -> Result<()> {
        if !self.endpoint.keys.remove(key, &*self.endpoint.segment, Duration::ZERO)? {
            self.end_use(key)?;
        }
        Ok(())
    }

    /// Waits until nobody uses a key any more that was removed or changed, or can use it any more.
    fn end_use(&self, key: u32) -> Result<()> {
        Ok(self.endpoint.keys.end_use(key, &*self.endpoint.segment)?)
    }

    /// Waits for those who still use a region by windows that were bound to it: a window that a peer
    /// invalidated, or whose users did not come to an end in time.
    fn wait_for_windows(&self, lkey: u32) -> Result<()> {
        let on_region = |window: &&Window| window.region == Some(lkey);
        let keys = try_collect(self.windows().0.values().filter(on_region).map(|window| window.rkey))?;
        keys.into_iter().try_for_each(|key| self.end_use(key))
    }

    /// A new window, not bound; its key.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn alloc_window(&self, pd: u32, kind: WindowType) -> Result<u32> {
        self.hold_pd(pd)?;
        let kind = match kind {
            WindowType::One => Kind::Window1,
            WindowType::Two => Kind::Window2 { qp_num: 0 },
        };
        let key = Key { kind, valid: false, pd, start: 0, length: 0, access: Access::NONE };
        let mut windows = self.windows();
        let room = windows.0.try_reserve(1).map_err(Error::from);
        let added = room.and_then(|()| Ok(self.endpoint.keys.add(&Entry { key, base: 0 })?));
        let rkey = added.inspect_err(|_| self.release_pd(pd))?;
        windows.0.set_reserved(rkey >> 8, Window { rkey, pd, region: None });
        Ok(rkey)
    }

    /// Ends a window, bound or not. Of its key the index counts, not the 8 bits that change.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub fn free_window(&self, rkey: u32) -> Result<()> {
        let none = Error::Invalid("no such window");
        let (rkey, pd) =
            self.windows().0.get(&(rkey >> 8)).map(|window| (window.rkey, window.pd)).ok_or(none)?;
        // First the key: where that cannot be ended, the window is still there to be freed later.
        self.end_key(rkey)?;
        self.windows().0.remove(&(rkey >> 8)).ok_or(none)?;
        self.release_pd(pd);
        Ok(())
    }

    /// Remembers what a window was bound to.
    pub(super) fn bound(&self, bind: &BindWindow) {
        if let Some(window) = self.windows().0.get_mut(&(bind.window >> 8)) {
            window.rkey = bind.window & !0xff | u32::from(bind.key8);
            window.region = (bind.bind.length > 0).then_some(bind.region);
        }
    }

    /// Whether a window is bound to a region and was not invalidated since.
    fn is_bound(&self, lkey: u32) -> bool {
        let windows = self.windows();
        let mut on_region = windows.0.values().filter(|window| window.region == Some(lkey));
        on_region.any(|window| self.endpoint.keys.window(window.rkey).is_some_and(|entry| entry.key.valid))
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of the device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for nothing or more than [`Limits::max_dm_size`](super::Limits::max_dm_size),
    /// [`Error::NoMemory`].
    pub fn alloc_memory(&self, length: u64) -> Result<DeviceMemory> {
        if length == 0 || length > LIMITS.max_dm_size {
            return Err(Error::Invalid("length of device memory"));
        }
        DeviceMemory::new(length)
    }
}

/// The entry of a region.
fn region(pd: u32, (addr, length, iova): (u64, u64, u64), access: Access) -> Result<Entry> {
    let writes = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);
    if access.any(writes) && !access.has(Access::LOCAL_WRITE) {
        return Err(Error::Invalid("remote writes without local ones"));
    }
    if length > LIMITS.max_mr_size || addr.checked_add(length).is_none() || iova.checked_add(length).is_none()
    {
        return Err(Error::Invalid("range"));
    }
    let key = Key { kind: Kind::Region, valid: true, pd, start: iova, length, access };
    Ok(Entry { key, base: addr })
}

/// Looks at the memory as a kernel does that pins it: every page, for writing where anybody may write.
fn check_mapped(entry: &Entry) -> Result<()> {
    let Entry { key, base } = entry;
    let writes = Access::LOCAL_WRITE.union(Access::MW_BIND);
    let check = if key.access.has(Access::UNPINNABLE) { pages::check_own } else { pages::check };
    check(*base, key.length, key.access.any(writes)).map_err(|missing| match missing {
        Missing::Range => Error::Invalid("range"),
        Missing::Fault => Error::Fault,
        Missing::NoMemory => Error::NoMemory,
    })
}

/// Memory of the device (`struct ibv_dm`): registered by its address, with [`Device::register`].
#[derive(Debug)]
pub struct DeviceMemory {
    base: NonNull<u8>,
    length: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread; copies in and out are the program's to order.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    fn new(length: u64) -> Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(at) if base != libc::MAP_FAILED => Ok(Self { base: at, length }),
            _ => Err(Error::NoMemory),
        }
    }

    /// Its address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    fn at(&self, offset: u64, length: usize) -> Result<*mut u8> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.length);
        end.ok_or(Error::Invalid("outside of the device memory"))?;
        // SAFETY: the offset is within the mapping, or at its end.
        Ok(unsafe { self.base.as_ptr().add(offset as usize) })
    }

    /// Copies bytes in, at `offset`.
    ///
    /// # Errors
    /// [`Error::Invalid`] outside of the memory.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: `at` checked the range; no Rust reference to the mapping exists.
        unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Copies bytes out, from `offset`.
    ///
    /// # Errors
    /// [`Error::Invalid`] outside of the memory.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let from = self.at(offset, to.len())?;
        // SAFETY: as above.
        unsafe { std::ptr::copy(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `new` made.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length as usize) };
    }
}
