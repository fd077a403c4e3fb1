//! Memory of the device, which is memory of the process that nobody but the device gives out.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ironverbs_os::fork::{ProcessGuard, ProcessMutex};
use ironverbs_os::growth::{TryFill, small_box, try_arc};
use softrdma::device::{self, DeviceMemory};

use super::convert::refused;
use super::{SoftContext, mr};
use crate::abi::driver::{mr_type, verbs_mr};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Dms;

/// The memory itself.
struct Memory {
    inner: DeviceMemory,
    /// Regions in it.
    regions: AtomicU32,
}

impl Memory {
    /// Checks a copy, as adapters do, and makes it.
    fn access(
        &self,
        offset: u64,
        length: usize,
        copy: impl FnOnce(&DeviceMemory) -> device::Result<()>,
    ) -> c_int {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.inner.length()) {
            return Errno::EFAULT.0;
        }
        if !(offset | length as u64).is_multiple_of(WORD) {
            return Errno::EINVAL.0;
        }
        copy(&self.inner).map_or(Errno::EFAULT.0, |()| 0)
    }
}

/// A region keeps the memory that it lies in busy.
pub struct Hold(Arc<Memory>);

impl Hold {
    fn new(memory: &Arc<Memory>) -> Self {
        memory.regions.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(memory))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.regions.fetch_sub(1, Ordering::Release);
    }
}

/// Device memory of this process, for contexts that import it.
static NUMBERED: ProcessMutex<Numbered> = ProcessMutex::new(Numbered { all: Vec::new() });

fn numbered() -> Result<ProcessGuard<'static, Numbered>> {
    NUMBERED.lock().map_err(|error| refused(error.into()))
}

#[derive(Default)]
struct Numbered {
    /// In the order of their numbers.
    all: Vec<(u32, Weak<Memory>)>,
}

impl Numbered {
    fn place(&self, number: u32) -> core::result::Result<usize, usize> {
        self.all.binary_search_by_key(&number, |(number, _)| *number)
    }

    /// Gives memory a number; ENOMEM without memory for it.
    fn add(&mut self, memory: &Arc<Memory>) -> Result<u32> {
        // Also a child's memory has other numbers than its parent's.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        self.all.try_reserve(1)?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            if let Err(place) = self.place(number) {
                self.all.insert_reserved(place, (number, Arc::downgrade(memory)));
                return Ok(number);
            }
        }
    }

    fn find(&self, number: u32) -> Option<Arc<Memory>> {
        self.all[self.place(number).ok()?].1.upgrade()
    }

    fn remove(&mut self, number: u32) {
        if let Ok(place) = self.place(number) {
            self.all.remove(place);
        }
    }
}

/// Device memory lies at the start of a page.
const LOG_ALIGNMENT: u32 = 12;
/// Programs reach it in words (bytes).
const WORD: u64 = 4;

/// Device memory.
#[repr(C)]
struct Dm {
    public: UnsafeCell<ibv_dm>,
    memory: Arc<Memory>,
    /// Made by another context.
    imported: bool,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Dm {
    type Public = ibv_dm;
}

impl Dms for SoftContext {
    /// Allocates device memory.
    fn alloc_dm(&self, attr: &mut ibv_alloc_dm_attr) -> Result<Handle<ibv_dm>> {
        if attr.comp_mask != 0 || attr.log_align_req > LOG_ALIGNMENT {
            return Err(Errno::EINVAL.also_set());
        }
        let inner = self.engine.alloc_memory(attr.length as u64).map_err(refused)?;
        let memory = try_arc(Memory { inner, regions: AtomicU32::new(0) })?;
        let number = numbered()?.add(&memory)?;
        // The context is the caller's to fill in.
        Ok(publish(core::ptr::null_mut(), number, memory, false))
    }

    /// Frees device memory; EBUSY while a region lies in it.
    fn free_dm(&self, dm: Handle<ibv_dm>) -> Result<()> {
        // SAFETY: device memory of this provider is published as Dm; a live handle.
        let (memory, number) = unsafe { (&dm.object::<Dm>().memory, (*dm.as_ptr()).handle) };
        if memory.regions.load(Ordering::Acquire) != 0 {
            return Err(Errno::EBUSY.also_set());
        }
        numbered()?.remove(number);
        // SAFETY: the program gives up the handle, which was published as a Dm.
        drop(unsafe { dm.reclaim::<Dm>() });
        Ok(())
    }

    /// Registers part of device memory, whose addresses start at 0, as `access` must say.
    fn reg_dm_mr(
        &self,
        pd: Handle<ibv_pd>,
        dm: Handle<ibv_dm>,
        offset: u64,
        length: usize,
        access: c_uint,
    ) -> Result<Handle<verbs_mr>> {
        // SAFETY: device memory of this provider is published as Dm.
        let memory = unsafe { &dm.object::<Dm>().memory };
        let inside = offset.checked_add(length as u64).is_some_and(|end| end <= memory.inner.length());
        if access & IBV_ACCESS_ZERO_BASED as u32 == 0 || !inside {
            return Err(Errno::EINVAL.also_set());
        }
        let rights = mr::access(access)?;
        // SAFETY: a live handle.
        let (context, number) = unsafe { ((*pd.as_ptr()).context, (*pd.as_ptr()).handle) };
        let start = memory.inner.address() + offset;
        let region = self.engine.register(number, start, length as u64, 0, rights).map_err(refused)?;
        // Not of the kind of regions that lie in memory of the program, so that no call looks for it there.
        let mr = mr::publish(region, access, mr_type::NULL_MR, Some(mr::Memory::Device(Hold::new(memory))));
        // SAFETY: just made, and nobody else knows it yet.
        unsafe {
            let public = &raw mut (*mr.as_ptr()).ibv_mr;
            (*public).context = context;
            (*public).pd = pd.as_ptr();
            (*public).length = length;
        }
        Ok(mr)
    }

    /// The device memory of this number that another context of the process allocated; ENOENT if there is none.
    fn import_dm(&self, context: Handle<ibv_context>, number: u32) -> Result<Handle<ibv_dm>> {
        let found = numbered()?.find(number);
        let memory = found.ok_or_else(|| Errno::ENOENT.also_set())?;
        Ok(publish(context.as_ptr(), number, memory, true))
    }

    /// Forgets imported device memory. What was not imported stays as it is.
    fn unimport_dm(&self, dm: Handle<ibv_dm>) {
        // SAFETY: device memory of this provider is published as Dm; the program gives up the handle.
        unsafe {
            if dm.object::<Dm>().imported {
                drop(dm.reclaim::<Dm>());
            }
        }
    }
}

fn publish(context: *mut ibv_context, number: u32, memory: Arc<Memory>, imported: bool) -> Handle<ibv_dm> {
    let public = ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: IBV_DM_MASK_HANDLE as u32,
        handle: number,
    };
    Handle::publish(small_box(Dm { public: UnsafeCell::new(public), memory, imported }))
}

/// Copies into device memory; 0, EFAULT outside of it, or EINVAL for what is not made of its words.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the program passes live device memory of this provider, and `length` readable bytes.
    let (dm, from) = unsafe {
        let Ok(dm) = Handle::from_c(dm) else { return Errno::EINVAL.0 };
        (dm.object::<Dm>(), bytes(host_addr, length))
    };
    dm.memory.access(dm_offset, length, |memory| memory.write(dm_offset, from))
}

/// Copies out of device memory; 0, EFAULT outside of it, or EINVAL for what is not made of its words.
unsafe extern "C" fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    // SAFETY: the program passes live device memory of this provider, and `length` writable bytes.
    let (dm, to) = unsafe {
        let Ok(dm) = Handle::from_c(dm) else { return Errno::EINVAL.0 };
        (dm.object::<Dm>(), bytes_mut(host_addr, length))
    };
    dm.memory.access(dm_offset, length, |memory| memory.read(dm_offset, to))
}

/// # Safety
/// `length` bytes are readable at `start`, unless it is null.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts(start.cast(), length) }
}

/// # Safety
/// `length` bytes are writable at `start`, unless it is null, and nobody else uses them.
unsafe fn bytes_mut<'a>(start: *mut c_void, length: usize) -> &'a mut [u8] {
    if start.is_null() {
        return &mut [];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts_mut(start.cast(), length) }
}
