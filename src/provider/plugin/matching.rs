//! Which driver takes a device: by the number of the kernel's driver, by name, by bus address, or as the driver
//! says.

use core::ptr::NonNull;
use std::ffi::{CStr, CString};

use super::layout::Generation;
use super::registry::{Driver, name_of};
use super::release;
use crate::abi::driver::{VSYSFS_READ_MODALIAS, match_kind, verbs_device_ops, verbs_match_ent};
use crate::log;
use crate::provider::device::{DeviceRef, Found};

/// The device as the first driver that takes it has allocated it; or back what was found.
///
/// Drivers that name the number of the device's kernel driver are asked first, then all in order.
pub fn claim(drivers: &[Driver], found: Box<Found>) -> Result<DeviceRef, Box<Found>> {
    let by_number = drivers.iter().filter(|driver| match_driver_id(driver.ops(), &found).is_some());
    let candidates: Vec<Driver> = by_number.chain(drivers).copied().collect();
    for driver in candidates {
        if let Some(device) = try_driver(driver, &found) {
            // SAFETY: the plugin has just allocated the device with its operations.
            return Ok(unsafe { DeviceRef::claimed(device, found, driver.as_ptr()) });
        }
    }
    Err(found)
}

fn try_driver(driver: Driver, found: &Found) -> Option<NonNull<crate::abi::driver::verbs_device>> {
    let ops = driver.ops();
    shape(driver.generation(), found);
    if !takes(ops, found) {
        return None;
    }
    if let Some(reason) = release::refusal(driver) {
        log::warn(format_args!("{reason}"));
        return None;
    }
    // SAFETY: the plugin gets what it may read and keep until its device goes.
    let device =
        ops.alloc_device.and_then(|alloc_device| NonNull::new(unsafe { alloc_device(found.sysfs()) }));
    if device.is_none() {
        log::say(format_args!("Fatal: couldn't allocate device for {}", found.info().ibdev_path));
    }
    device
}

/// Shows the device as drivers of that generation know it: rdma-core 33 had `abi_ver` where later releases have
/// the number of ports, which no driver reads.
fn shape(generation: Generation, found: &Found) {
    let info = found.info();
    let word = if generation == Generation(33) { info.abi_ver } else { info.num_ports };
    // SAFETY: nobody else has the struct while its device is looked for.
    unsafe { (*found.sysfs()).num_ports = word };
}

/// Whether the driver takes the device. The line of its table that fits stays in `sysfs.match` for it.
fn takes(ops: &verbs_device_ops, found: &Found) -> bool {
    let sysfs = found.sysfs();
    // SAFETY: nobody else has the struct while its device is looked for, and no reference to it is held across
    // the call of the plugin's function.
    unsafe {
        if !ops.match_table.is_null() {
            let fits = match_driver_id(ops, found)
                .or_else(|| match_name(ops, found))
                .or_else(|| match_modalias(ops, found));
            (*sysfs).match_ = fits.map_or(core::ptr::null(), |line| line);
        }
        let fits = match ops.match_device {
            Some(match_device) => match_device(sysfs),
            None => !(*sysfs).match_.is_null(),
        };
        if !fits {
            return false;
        }
    }
    let (lowest, highest) = (ops.match_min_abi_version, ops.match_max_abi_version);
    let version = found.info().abi_ver;
    if (lowest..=highest).contains(&version) {
        return true;
    }
    log::warn(format_args!(
        "Driver {} does not support the kernel ABI of {version} (supports {lowest} to {highest}) for device {}",
        name_of(ops),
        found.info().ibdev_path
    ));
    false
}

/// The lines of a driver's table.
fn lines(ops: &verbs_device_ops) -> impl Iterator<Item = &'static verbs_match_ent> {
    let mut line = ops.match_table;
    core::iter::from_fn(move || {
        // SAFETY: null, or constant data of the plugin in which every line before the sentinel has a successor.
        let here = unsafe { line.as_ref() }.filter(|here| here.kind != match_kind::SENTINEL)?;
        // SAFETY: as above.
        line = unsafe { line.add(1) };
        Some(here)
    })
}

fn match_driver_id(ops: &verbs_device_ops, found: &Found) -> Option<&'static verbs_match_ent> {
    // 0 is RDMA_DRIVER_UNKNOWN.
    let driver_id = found.info().driver_id.filter(|&driver_id| driver_id != 0)?;
    // SAFETY: the kind says which member of the union the plugin has set.
    lines(ops).find(|line| unsafe {
        line.kind == match_kind::DRIVER_ID && line.u.driver_id == u64::from(driver_id)
    })
}

/// By a pattern for the text `rdma_device:N` and the device's name.
fn match_name(ops: &verbs_device_ops, found: &Found) -> Option<&'static verbs_match_ent> {
    match_text(ops, &CString::new(format!("rdma_device:N{}", found.info().ibdev_name)).ok()?)
}

/// By the device's identity on its bus.
fn match_modalias(ops: &verbs_device_ops, found: &Found) -> Option<&'static verbs_match_ent> {
    let modalias = found.info().modalias();
    let sysfs = found.sysfs();
    // SAFETY: nobody else has the struct while its device is looked for.
    let fresh = unsafe {
        let fresh = (*sysfs).flags & VSYSFS_READ_MODALIAS == 0;
        (*sysfs).flags |= VSYSFS_READ_MODALIAS;
        if fresh {
            let target = &mut (*sysfs).modalias;
            for (to, from) in target[..511].iter_mut().zip(modalias.bytes()) {
                *to = from as _;
            }
        }
        fresh
    };
    // As rdma-core: a device without identity fits nothing when its identity is asked for first.
    if fresh && modalias.is_empty() {
        return None;
    }
    match_text(ops, &CString::new(modalias).ok()?)
}

fn match_text(ops: &verbs_device_ops, text: &CStr) -> Option<&'static verbs_match_ent> {
    lines(ops).find(|line| fits(line, text))
}

fn fits(line: &verbs_match_ent, text: &CStr) -> bool {
    let matches = |pattern: *const core::ffi::c_char| {
        // SAFETY: both are C strings.
        unsafe { libc::fnmatch(pattern, text.as_ptr(), 0) == 0 }
    };
    match line.kind {
        // SAFETY: the kind says which member of the union the plugin has set.
        match_kind::MODALIAS => unsafe { !line.u.modalias.is_null() && matches(line.u.modalias) },
        match_kind::PCI => CString::new(format!("pci:v{:08X}d{:08X}sv*", line.vendor, line.device))
            .is_ok_and(|pattern| matches(pattern.as_ptr())),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
