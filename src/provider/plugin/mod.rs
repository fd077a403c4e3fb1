//! Providers that are rdma-core's shared objects: found, loaded and driven through the private provider ABI.
//!
//! | file | what it does |
//! |---|---|
//! | [`registry`] | the drivers that plugins have registered |
//! | [`loader`] [`places`] [`elf`] | finding and loading plugins; whether one is all there |
//! | [`matching`] | which driver takes a device |
//! | [`layout`] [`qp_mask`] [`release`] | what differs between releases, and how it is told |
//! | [`ops`] | a plugin's table of operations into ours and the public ones |
//! | [`dummy`] | the answers where a plugin's table has none |
//! | [`cmd`] | the functions with which a plugin gives commands to the kernel |
//! | [`context`] | the functions with which a plugin makes and unmakes a context |
//! | [`forward`] | the operations of a device, each a call of the plugin's, a file for each object |
//! | [`log`] | the trace of plugins |
//!
//! A plugin is loaded only for a device that no native provider takes, or when `IRONVERBS_PLUGINS` asks. One
//! that the program brings along is loaded already, and comes before native providers, since the program may
//! call it directly.

pub mod cmd;
pub mod context;
pub mod dummy;
pub(super) mod elf;
pub mod forward;
pub mod layout;
pub mod loader;
pub mod log;
pub mod matching;
pub mod ops;
pub mod places;
mod qp_mask;
pub mod registry;
mod release;

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use super::device::DeviceRef;
use super::object::Handle;
use crate::abi::driver::verbs_device_ops;
use crate::abi::verbs::{ibv_context, verbs_context};
use crate::environment;
use crate::errno::{Errno, Result};
use crate::uverbs::device_file::DeviceFile;
use std::os::fd::IntoRawFd;

/// Whether `IRONVERBS_PLUGINS` asks for a plugin where the native provider of that name would do: `1` asks
/// everywhere, a list of names with commas there.
pub fn preferred(provider: &str) -> bool {
    let Some(wanted) = environment::trusted("IRONVERBS_PLUGINS") else { return false };
    wanted
        .to_str()
        .is_some_and(|wanted| wanted == "1" || wanted.split(',').any(|name| name.trim() == provider))
}

fn operations(device: &DeviceRef) -> Result<&verbs_device_ops> {
    device.ops().ok_or_else(|| Errno::EOPNOTSUPP.also_set())
}

/// The `ibv_context` in a context that a plugin has made; the plugin has left the error in `errno` if there is
/// none.
fn made(verbs: *mut verbs_context) -> Result<Handle<ibv_context>> {
    let Some(verbs) = NonNull::new(verbs) else { return Err(Errno::last()) };
    // SAFETY: the context that the plugin has just made, as only this library can.
    unsafe {
        let context = layout::of_any_size(verbs).ok_or_else(|| Errno::EPROTONOSUPPORT.also_set())?;
        Handle::from_c(context.as_ptr())
    }
}

/// Has the plugin open its device. One that the kernel's list does not name is opened without a command file.
///
/// # Safety
/// `private_data` is what the plugin expects from its own library, or null.
pub unsafe fn open(device: &DeviceRef, private_data: *mut c_void) -> Result<Handle<ibv_context>> {
    let alloc_context = operations(device)?.alloc_context.ok_or_else(|| Errno::EOPNOTSUPP.also_set())?;
    let cmd_fd = match device.found() {
        Some(found) => DeviceFile::open_fd(found.info())?.into_raw_fd(),
        None => -1,
    };
    // SAFETY: the plugin's own device, which is counted; the plugin owns the command file from here.
    let context = made(unsafe { alloc_context(device.as_c(), cmd_fd, private_data) })?;
    if let Some(plugin) = super::context::private(context).context().plugin() {
        plugin.opened();
    }
    Ok(context)
}

/// Has the plugin open its device over the command file of another process, which it owns from here.
pub fn import(device: &DeviceRef, cmd_fd: c_int) -> Result<Handle<ibv_context>> {
    let import_context = operations(device)?.import_context.ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: as above.
    let context = made(unsafe { import_context(device.as_c(), cmd_fd) })?;
    super::context::private(context).context().kernel()?.set_imported();
    Ok(context)
}
