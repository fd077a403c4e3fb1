//! A discovered device as C programs and plugins know it, counted by the lists and contexts that name it.
//!
//! The C struct is `verbs_device`. For a native provider the library allocates it; for a plugin the plugin
//! does, with its own fields around it. What the library remembers hangs on its `sysfs` in both cases, and
//! nothing on a device that a plugin's own library made without it (`sysfs` is NULL).

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use ironverbs_os::growth::try_box;

use super::object::{Handle, Object};
use super::{Opening, Provider, plugin};
use crate::abi::driver::{VSYSFS_READ_NODE_GUID, verbs_device, verbs_device_ops, verbs_sysfs_dev};
use crate::abi::verbs::ibv_device;
use crate::errno::{Errno, Result};
use crate::uverbs::discovery::DeviceInfo;

/// A device that a provider drives.
#[repr(transparent)]
pub struct Device(UnsafeCell<verbs_device>);

// SAFETY: repr(transparent) over a struct that begins with an ibv_device.
unsafe impl Object for Device {
    type Public = ibv_device;
}

/// How the kernel shows a device: to plugins in their form, to the library in its own.
#[repr(C)]
pub struct Found {
    sysfs: UnsafeCell<verbs_sysfs_dev>,
    info: DeviceInfo,
    native: Option<&'static dyn Provider>,
}

impl Found {
    /// What discovery found, not claimed by anybody.
    pub fn new(info: DeviceInfo) -> Result<Box<Self>> {
        // SAFETY: plain C data: integers, characters and pointers; all zeros is its empty value.
        let mut sysfs: verbs_sysfs_dev = unsafe { core::mem::zeroed() };
        copy_text(&mut sysfs.sysfs_name, &info.sysfs_name);
        copy_text(&mut sysfs.ibdev_name, &info.ibdev_name);
        copy_text(&mut sysfs.ibdev_path, &info.ibdev_path);
        sysfs.sysfs_cdev = info.cdev;
        sysfs.driver_id = info.driver_id.unwrap_or(0);
        sysfs.node_type = info.node_type;
        sysfs.ibdev_idx = info.ibdev_idx;
        sysfs.num_ports = info.num_ports;
        sysfs.abi_ver = info.abi_ver;
        sysfs.time_created.tv_sec = info.time_created.0;
        sysfs.time_created.tv_nsec = info.time_created.1;
        if let Some(guid) = info.known_node_guid() {
            sysfs.node_guid = guid;
            sysfs.flags |= VSYSFS_READ_NODE_GUID;
        }
        Ok(try_box(Self { sysfs: UnsafeCell::new(sysfs), info, native: None })?)
    }

    /// The plugins' form.
    pub fn sysfs(&self) -> *mut verbs_sysfs_dev {
        self.sysfs.get()
    }

    /// What discovery found.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }
}

/// One counted reference to a device; the last one to go frees it.
pub struct DeviceRef(NonNull<Device>);

// SAFETY: what the library writes in a device after its creation is atomic, and it is only freed by its last
// reference.
unsafe impl Send for DeviceRef {}
// SAFETY: as above.
unsafe impl Sync for DeviceRef {}

impl DeviceRef {
    /// A device of a native provider with its first reference; ENOMEM without memory for it.
    pub fn native(mut found: Box<Found>, provider: &'static dyn Provider) -> Result<Self> {
        found.native = Some(provider);
        // SAFETY: plain C data: integers, characters and pointers; all zeros is its empty value.
        let device: Box<verbs_device> = try_box(unsafe { core::mem::zeroed() })?;
        // SAFETY: zeroed and live; without operations the drop below gives it back to the allocator it came
        // from.
        Ok(unsafe { Self::claimed(NonNull::from(Box::leak(device)), found, core::ptr::null()) })
    }

    /// A device that a provider has allocated, with its first reference.
    ///
    /// # Safety
    /// `device` is live, zeroed but for what its plugin keeps outside of the struct, and freed by
    /// `ops.uninit_device`; or `ops` is null and it is a leaked box.
    pub unsafe fn claimed(
        device: NonNull<verbs_device>,
        found: Box<Found>,
        ops: *const verbs_device_ops,
    ) -> Self {
        let info = &found.info;
        // SAFETY: by the contract, and nobody else knows the device yet.
        unsafe {
            let device = &mut *device.as_ptr();
            let public = &mut device.device;
            public.node_type = info.node_type;
            public.transport_type = info.transport_type();
            copy_text(&mut public.name, &info.ibdev_name);
            copy_text(&mut public.dev_name, &info.sysfs_name);
            copy_text(&mut public.dev_path, &info.verbs_path());
            copy_text(&mut public.ibdev_path, &info.ibdev_path);
            device.ops = ops;
            device.refcount.store(1, Ordering::Relaxed);
            device.sysfs = Box::into_raw(found).cast();
        }
        Self(device.cast())
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
        // SAFETY: a handle is not null. Every ibv_device is the first field of a verbs_device, and the pointer
        // is the one that its allocation gave, so it may free the whole.
        Self(unsafe { NonNull::new_unchecked(device.as_ptr().cast()) })
    }

    /// The pointer that the C program knows.
    pub fn as_c(&self) -> *mut ibv_device {
        self.0.as_ptr().cast()
    }

    /// Opens the device.
    ///
    /// # Safety
    /// `private_data` is what the device's plugin expects from its own library, or null.
    pub unsafe fn open(&self, private_data: *mut c_void) -> Result<Opening> {
        match self.provider() {
            Some(provider) => Ok(Opening::Native(provider.open(self.info()?)?)),
            // SAFETY: handed on to the caller.
            None => unsafe { plugin::open(self, private_data) }.map(Opening::Plugin),
        }
    }

    /// Opens a context over the command file `cmd_fd` of another process, which it owns from here; EOPNOTSUPP,
    /// with the file left to the caller, where contexts cannot be shared.
    ///
    /// # Safety
    /// `cmd_fd` is an open file that nobody else closes.
    pub unsafe fn import(&self, cmd_fd: RawFd) -> Result<Opening> {
        match self.provider() {
            Some(provider) => {
                // SAFETY: handed on to the caller.
                let file = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
                provider.import(self.info()?, file).map(Opening::Native)
            }
            None => plugin::import(self, cmd_fd).map(Opening::Plugin),
        }
    }
}

impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        // SAFETY: this reference is counted, so the device is alive.
        unsafe { (*self.raw()).refcount.fetch_add(1, Ordering::Relaxed) };
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
        let device = self.raw();
        // SAFETY: this reference is counted, so the device is alive until the count falls to 0. Then nobody
        // else has it: its `sysfs` is the box that `claimed` leaked or NULL, and the struct goes where it came
        // from.
        unsafe {
            if (*device).refcount.fetch_sub(1, Ordering::AcqRel) != 1 {
                return;
            }
            let (found, ops) = ((*device).sysfs.cast::<Found>(), (*device).ops);
            if !found.is_null() {
                drop(Box::from_raw(found));
            }
            match ops.as_ref() {
                None => drop(Box::from_raw(device)),
                Some(ops) => {
                    if let Some(uninit_device) = ops.uninit_device {
                        uninit_device(device);
                    }
                }
            }
        }
    }
}

impl Device {
    fn raw(&self) -> *mut verbs_device {
        self.0.get()
    }

    /// What the library remembers; nothing of a device that does not come from the kernel's list.
    pub fn found(&self) -> Option<&Found> {
        // SAFETY: a live device; `sysfs` is null or the start of a Found, and is not changed after its
        // creation.
        unsafe { (*self.raw()).sysfs.cast::<Found>().as_ref() }
    }

    /// What discovery found; EINVAL, in `errno` too, for a device that does not come from the kernel's list.
    pub fn info(&self) -> Result<&DeviceInfo> {
        self.found().map(Found::info).ok_or_else(|| Errno::EINVAL.also_set())
    }

    /// The native provider that drives the device; None if a plugin does.
    pub fn provider(&self) -> Option<&'static dyn Provider> {
        self.found().and_then(|found| found.native)
    }

    /// The operations of the plugin that drives the device; None for a native provider.
    pub fn ops(&self) -> Option<&verbs_device_ops> {
        // SAFETY: a live device; a plugin's operations are static and plugins are never unloaded.
        unsafe { (*self.raw()).ops.as_ref() }
    }

    /// The name of the provider or plugin that drives the device.
    pub fn provider_name(&self) -> String {
        match (self.provider(), self.ops()) {
            (Some(provider), _) => provider.name().to_owned(),
            (None, Some(ops)) => plugin::registry::name_of(ops),
            (None, None) => String::new(),
        }
    }

    /// `IB_UVERBS_CORE_SUPPORT_*` bits, known since the device was opened first.
    pub fn core_support(&self) -> u64 {
        self.core_support_bits().load(Ordering::Relaxed)
    }

    /// Keeps what the kernel said at opening.
    pub fn set_core_support(&self, bits: u64) {
        self.core_support_bits().store(bits, Ordering::Relaxed);
    }

    fn core_support_bits(&self) -> &AtomicU64 {
        // SAFETY: a live and aligned field, which only these two functions access after the device's creation.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.raw()).core_support) }
    }
}

/// Copies as much of `text` as fits, always ending with a NUL.
fn copy_text(target: &mut [c_char], text: &str) {
    let end = text.len().min(target.len() - 1);
    for (to, from) in target.iter_mut().zip(text.bytes().take(end)) {
        *to = from as c_char;
    }
    target[end] = 0;
}

const _: () = {
    assert!(core::mem::offset_of!(Found, sysfs) == 0);
    assert!(size_of::<Device>() == size_of::<verbs_device>());
};
