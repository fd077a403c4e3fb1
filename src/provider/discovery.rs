//! Which devices there are, and which provider drives each.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::RawFd;

use ironverbs_os::growth::{TryPush, try_collect};

use super::device::{DeviceRef, Found};
use super::{Provider, plugin, rxe, siw, soft};
use crate::errno::Result;
use crate::uverbs;
use crate::uverbs::discovery::DeviceInfo;

/// The providers written in Rust, in the order they are asked.
static NATIVE: &[&dyn Provider] = &[&soft::Soft, &rxe::Rxe, &siw::Siw];

/// The devices that there are: software devices that the environment asks for, and behind them the kernel's.
/// With a software device the kernel need not know anything of RDMA.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let of_the_kernel = uverbs::discovery::devices();
    let mut devices = soft::identity::devices(of_the_kernel.as_deref().unwrap_or_default());
    if devices.is_empty() {
        return of_the_kernel;
    }
    devices.try_extend(of_the_kernel.unwrap_or_default())?;
    Ok(devices)
}

/// Whether the library itself plays every device that there is.
pub fn are_all_software() -> bool {
    devices().is_ok_and(|devices| !devices.is_empty() && devices.iter().all(|device| device.software))
}

/// The devices as their providers drive them, and those that nobody takes.
///
/// Drivers that the program itself brought along come first, then native providers, unless the environment
/// prefers plugins. A software device is a native provider's alone. Plugins are loaded when nobody else takes a
/// device. The order of the devices and of what is said about them is rdma-core's, which tries them from the
/// last to the first, and in the first list shows what needed no loading behind the rest.
pub fn claim(found: Vec<Box<Found>>) -> Result<(Vec<DeviceRef>, Vec<Box<Found>>)> {
    /// Whether a device was ever left after the program's own drivers: then rdma-core loads all others.
    static SEARCHED: AtomicBool = AtomicBool::new(false);

    let (all, linked) = (plugin::registry::drivers(), plugin::registry::linked_drivers());
    let (mut claimed, mut waiting) = (Vec::new(), Vec::new());
    for (place, found) in found.into_iter().enumerate().rev() {
        let native = NATIVE.iter().copied().find(|provider| provider.takes(found.info()));
        if let Some(native) = native.filter(|_| found.info().software) {
            claimed.try_push((false, place, DeviceRef::native(found, native)?))?;
            continue;
        }
        let wants_plugin = native.is_none_or(|native| plugin::preferred(native.name()));
        match plugin::matching::claim(if wants_plugin { &all } else { &linked }, found) {
            Ok(device) => claimed.try_push((true, place, device))?,
            Err(found) => waiting.try_push((place, found, native, wants_plugin))?,
        }
    }
    let first_search = !waiting.is_empty() && !SEARCHED.swap(true, Ordering::Relaxed);
    let loaded = waiting.iter().any(|(.., wants_plugin)| *wants_plugin) && plugin::loader::load_once();
    let all = if loaded { plugin::registry::drivers() } else { Vec::new() };
    let mut left = Vec::new();
    for (place, found, native, wants_plugin) in waiting {
        let drivers: &[_] = if wants_plugin { &all } else { &[] };
        match (plugin::matching::claim(drivers, found), native) {
            (Ok(device), _) => claimed.try_push((false, place, device))?,
            (Err(found), Some(native)) => {
                claimed.try_push((false, place, DeviceRef::native(found, native)?))?;
            }
            (Err(found), None) => left.try_push(found)?,
        }
    }
    claimed.sort_unstable_by_key(|(linked, place, _)| (first_search && *linked, *place));
    Ok((try_collect(claimed.into_iter().map(|(.., device)| device))?, left))
}

/// The device whose command file this is, where that is no character device of the kernel.
pub fn device_of(cmd_fd: RawFd) -> Option<String> {
    NATIVE.iter().find_map(|provider| provider.device_of(cmd_fd))
}
