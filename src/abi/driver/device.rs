//! Devices and drivers as the library and a provider share them. These layouts have been the same since
//! rdma-core 35.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::{offset_of, size_of};
use core::sync::atomic::AtomicI32;

use crate::abi::verbs::*;

/// Room for the name of a device.
pub const IBV_SYSFS_NAME_MAX: usize = 64;
/// Room for a path in sysfs.
pub const IBV_SYSFS_PATH_MAX: usize = 256;

/// Kinds of [`verbs_match_ent`].
pub mod match_kind {
    /// The end of a table.
    pub const SENTINEL: u8 = 0;
    /// The PCI function with this vendor and device number.
    pub const PCI: u8 = 1;
    /// A device whose modalias, or whose name in the form `rdma_device:N<name>`, fits the pattern.
    pub const MODALIAS: u8 = 2;
    /// A device whose kernel driver has this number (`enum rdma_driver_id`).
    pub const DRIVER_ID: u8 = 3;
}

/// `VSYSFS_READ_MODALIAS`: the field `modalias` of a [`verbs_sysfs_dev`] has been looked up.
pub const VSYSFS_READ_MODALIAS: c_uint = 1 << 0;
/// `VSYSFS_READ_NODE_GUID`: the field `node_guid` of a [`verbs_sysfs_dev`] has been looked up.
pub const VSYSFS_READ_NODE_GUID: c_uint = 1 << 1;

/// A link of the lists that C keeps.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct list_node {
    /// Following link.
    pub next: *mut list_node,
    /// Link before.
    pub prev: *mut list_node,
}

/// What a line of a match table compares.
#[repr(C)]
#[derive(Clone, Copy)]
pub union verbs_match_ent_u {
    /// A pattern of `fnmatch`.
    pub modalias: *const c_char,
    /// `enum rdma_driver_id`.
    pub driver_id: u64,
}

/// A line of the table by which a driver knows its devices.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_match_ent {
    /// For the driver.
    pub driver_data: *mut c_void,
    /// The pattern or the number.
    pub u: verbs_match_ent_u,
    /// PCI vendor.
    pub vendor: u16,
    /// PCI device.
    pub device: u16,
    /// One of [`match_kind`].
    pub kind: u8,
}

/// A device as the kernel shows it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_sysfs_dev {
    /// Unused here.
    pub entry: list_node,
    /// For the driver.
    pub provider_data: *mut c_void,
    /// The line of the driver's table that fits.
    pub match_: *const verbs_match_ent,
    /// `VSYSFS_READ_*`.
    pub flags: c_uint,
    /// Name of the device file, as "uverbs0".
    pub sysfs_name: [c_char; IBV_SYSFS_NAME_MAX],
    /// Number of the device file.
    pub sysfs_cdev: libc::dev_t,
    /// Name, as "mlx5_0".
    pub ibdev_name: [c_char; IBV_SYSFS_NAME_MAX],
    /// Folder in /sys/class/infiniband.
    pub ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
    /// Bus address in the form that module aliases match.
    pub modalias: [c_char; 512],
    /// Node GUID in host byte order.
    pub node_guid: u64,
    /// `enum rdma_driver_id`, 0 if unknown.
    pub driver_id: u32,
    /// `enum ibv_node_type`.
    pub node_type: ibv_node_type_t,
    /// The kernel's index, -1 if unknown.
    pub ibdev_idx: c_int,
    /// Ports, 0 if unknown.
    pub num_ports: u32,
    /// The driver's version of its commands.
    pub abi_ver: u32,
    /// When the folder appeared.
    pub time_created: libc::timespec,
}

/// What a driver registers: how to know its devices and how to open them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct verbs_device_ops {
    /// Name of the driver.
    pub name: *const c_char,
    /// Lowest `abi_ver` that it speaks.
    pub match_min_abi_version: u32,
    /// Highest `abi_ver` that it speaks.
    pub match_max_abi_version: u32,
    /// Table that ends with [`match_kind::SENTINEL`], or NULL.
    pub match_table: *const verbs_match_ent,
    /// For static linking.
    pub static_providers: *mut *const verbs_device_ops,
    /// Decides whether the driver takes the device; without it the table does.
    pub match_device: Option<unsafe extern "C" fn(sysfs_dev: *mut verbs_sysfs_dev) -> bool>,
    /// Opens the device. Owns `cmd_fd` from here, also on failure, which is NULL and errno.
    pub alloc_context: Option<
        unsafe extern "C" fn(
            device: *mut ibv_device,
            cmd_fd: c_int,
            private_data: *mut c_void,
        ) -> *mut verbs_context,
    >,
    /// As `alloc_context`, over the command file of another process.
    pub import_context:
        Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut verbs_context>,
    /// Allocates the device with the driver's own fields around it, zeroed.
    pub alloc_device: Option<unsafe extern "C" fn(sysfs_dev: *mut verbs_sysfs_dev) -> *mut verbs_device>,
    /// Frees it.
    pub uninit_device: Option<unsafe extern "C" fn(device: *mut verbs_device)>,
}

/// A device with what the library remembers of it.
#[repr(C)]
pub struct verbs_device {
    /// What programs see.
    pub device: ibv_device,
    /// The driver.
    pub ops: *const verbs_device_ops,
    /// Lists and contexts that name the device.
    pub refcount: AtomicI32,
    /// Unused here.
    pub entry: list_node,
    /// How the kernel shows it; NULL for a device that does not come from the kernel's list.
    pub sysfs: *mut verbs_sysfs_dev,
    /// `IB_UVERBS_CORE_SUPPORT_*`, known since the device was opened first.
    pub core_support: u64,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<verbs_match_ent>() == 24);
    assert!(offset_of!(verbs_match_ent, u) == 8);
    assert!(offset_of!(verbs_match_ent, kind) == 20);
    assert!(size_of::<verbs_device_ops>() == 72);
    assert!(offset_of!(verbs_device_ops, match_table) == 16);
    assert!(offset_of!(verbs_device_ops, alloc_context) == 40);
    assert!(offset_of!(verbs_device_ops, uninit_device) == 64);
    assert!(size_of::<verbs_sysfs_dev>() == 992);
    assert!(offset_of!(verbs_sysfs_dev, match_) == 24);
    assert!(offset_of!(verbs_sysfs_dev, num_ports) == 964);
    assert!(offset_of!(verbs_sysfs_dev, abi_ver) == 968);
    assert!(size_of::<verbs_device>() == 712);
    assert!(offset_of!(verbs_device, ops) == 664);
    assert!(offset_of!(verbs_device, refcount) == 672);
    assert!(offset_of!(verbs_device, sysfs) == 696);
    assert!(offset_of!(verbs_device, core_support) == 704);
};
