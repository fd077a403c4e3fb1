//! Objects of another process, by their numbers in the kernel (`man ibv_import_device`, `man ibv_import_pd`,
//! `man ibv_import_mr`, `man ibv_import_dm`).

use core::ffi::c_int;

use ironverbs_os::file::borrowed;

use super::{device, entry};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::observe::call;
use crate::provider::object::Handle;
use crate::provider::{context, discovery};
use crate::uverbs::discovery::DeviceInfo;

/// The number of the character device that `fd` is; EINVAL for anything else.
fn character_device(fd: c_int) -> Result<libc::dev_t> {
    let stat = nix::sys::stat::fstat(borrowed(fd).map_err(|_| Errno::EINVAL)?).map_err(|_| Errno::EINVAL)?;
    if stat.st_mode & libc::S_IFMT == libc::S_IFCHR { Ok(stat.st_rdev) } else { Err(Errno::EINVAL) }
}

/// A context over the command file of another process; NULL and `errno` on failure: EINVAL where `cmd_fd` is no
/// character device or has no context to share, ENODEV where it is no RDMA device, EOPNOTSUPP where the
/// provider cannot share contexts. The file is closed with the context, and when the provider that could share
/// it fails.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    entry::pointer(call!("ibv_import_device", cmd_fd), || {
        let named = discovery::device_of(cmd_fd);
        let cdev = if named.is_some() { 0 } else { character_device(cmd_fd)? };
        let wanted = |info: &DeviceInfo| match &named {
            Some(name) => info.sysfs_name == *name,
            None => info.cdev == cdev,
        };
        let devices = device::list().map_err(|_| Errno::ENODEV)?;
        let device = devices
            .into_iter()
            .find(|device| device.found().is_some_and(|found| wanted(found.info())))
            .ok_or(Errno::ENODEV)?;
        // SAFETY: open, as seen above; the program gives it up, as the manual has it.
        let opened = unsafe { device.import(cmd_fd) }?;
        device::finish_open(device, opened)
    })
}

/// The protection domain with that number; NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(context: *mut ibv_context, pd_handle: u32) -> *mut ibv_pd {
    entry::pointer(call!("ibv_import_pd", context, pd_handle), || {
        // SAFETY: handed on to the caller.
        let context = unsafe { Handle::from_c(context) }?;
        context::private(context).context().import_pd(context, pd_handle)
    })
}

/// Forgets an imported protection domain; the exporting process keeps it.
///
/// # Safety
/// `pd` is null or imported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(pd: *mut ibv_pd) {
    entry::nothing(call!("ibv_unimport_pd", pd), || {
        // SAFETY: handed on to the caller.
        let (pd, provider) = unsafe { context::of(pd) }?;
        provider.unimport_pd(pd);
        Ok(())
    });
}

/// The memory region with that number, in an imported protection domain; NULL and `errno` on failure.
///
/// # Safety
/// `pd` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr {
    entry::pointer(call!("ibv_import_mr", pd, mr_handle), || {
        // SAFETY: handed on to the caller.
        let (pd, provider) = unsafe { context::of(pd) }?;
        provider.import_mr(pd, mr_handle)
    })
}

/// Forgets an imported memory region.
///
/// # Safety
/// `mr` is null or imported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(mr: *mut ibv_mr) {
    entry::nothing(call!("ibv_unimport_mr", mr), || {
        // SAFETY: handed on to the caller.
        let (mr, provider) = unsafe { context::of(mr) }?;
        provider.unimport_mr(mr);
        Ok(())
    });
}

/// The device memory with that number; NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm {
    entry::pointer(call!("ibv_import_dm", context, dm_handle), || {
        // SAFETY: handed on to the caller.
        let context = unsafe { Handle::from_c(context) }?;
        context::private(context).context().import_dm(context, dm_handle)
    })
}

/// Forgets imported device memory.
///
/// # Safety
/// `dm` is null or imported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(dm: *mut ibv_dm) {
    entry::nothing(call!("ibv_unimport_dm", dm), || {
        // SAFETY: handed on to the caller.
        let (dm, provider) = unsafe { context::of(dm) }?;
        provider.unimport_dm(dm);
        Ok(())
    });
}
