//! A discovered device as the C program knows it, counted by the lists and contexts that name it.

use core::ffi::c_char;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Provider;
use super::object::{Handle, Object};
use crate::abi::verbs::ibv_device;
use crate::uverbs::discovery::DeviceInfo;

/// A device that a provider drives.
#[repr(C)]
pub struct Device {
    public: ibv_device,
    references: AtomicU32,
    core_support: AtomicU64,
    info: DeviceInfo,
    provider: &'static dyn Provider,
}

// SAFETY: repr(C) with the public struct first.
unsafe impl Object for Device {
    type Public = ibv_device;
}

/// One counted reference to a device; the last one to go frees it.
pub struct DeviceRef(NonNull<Device>);

// SAFETY: a Device is immutable but for its atomics and is only freed by its last reference.
unsafe impl Send for DeviceRef {}
// SAFETY: as above.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// A new device with its first reference.
    pub fn new(info: DeviceInfo, provider: &'static dyn Provider) -> Self {
        // SAFETY: ibv_device is plain C data (integers, pointers, character arrays); all zeros is its empty value.
        let mut public: ibv_device = unsafe { core::mem::zeroed() };
        public.node_type = info.node_type;
        public.transport_type = info.transport_type();
        copy_text(&mut public.name, &info.ibdev_name);
        copy_text(&mut public.dev_name, &info.sysfs_name);
        copy_text(&mut public.dev_path, &info.verbs_path());
        copy_text(&mut public.ibdev_path, &info.ibdev_path);
        let device =
            Device { public, references: AtomicU32::new(1), core_support: AtomicU64::new(0), info, provider };
        Self(NonNull::from(Box::leak(Box::new(device))))
    }

    /// The reference that a C pointer stands for, as an additional one.
    pub fn acquire(device: Handle<ibv_device>) -> Self {
        let device = Self::from_c(device);
        core::mem::forget(device.clone());
        device
    }

    /// Gives the reference to the C program, as one element of a device list.
    pub fn into_c(self) -> *mut ibv_device {
        let pointer = self.0.as_ptr().cast();
        core::mem::forget(self);
        pointer
    }

    /// Takes back a reference that [`DeviceRef::into_c`] gave away.
    pub fn from_c(device: Handle<ibv_device>) -> Self {
        // SAFETY: a handle is not null. Every ibv_device that we give out is the first field of a Device, and the pointer
        // is the one that `new` made, so it may free the whole.
        Self(unsafe { NonNull::new_unchecked(device.as_ptr().cast()) })
    }

    /// The pointer that the C program knows.
    pub fn as_c(&self) -> *mut ibv_device {
        self.0.as_ptr().cast()
    }
}

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        self.references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl core::ops::Deref for DeviceRef {
    type Target = Device;
    fn deref(&self) -> &Device {
        // SAFETY: this reference is counted, so the device is alive.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the pointer came from Box::leak in `new`, and this was the last reference.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl Device {
    /// What discovery found.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Who drives the device.
    pub fn provider(&self) -> &'static dyn Provider {
        self.provider
    }

    /// `IB_UVERBS_CORE_SUPPORT_*` bits, known since the device was opened first.
    pub fn core_support(&self) -> u64 {
        self.core_support.load(Ordering::Relaxed)
    }

    /// Keeps what the kernel said at opening.
    pub fn set_core_support(&self, bits: u64) {
        self.core_support.store(bits, Ordering::Relaxed);
    }
}

/// Copies as much of `text` as fits, always ending with a NUL.
fn copy_text(target: &mut [c_char], text: &str) {
    let room = target.len() - 1;
    for (to, from) in target[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}
