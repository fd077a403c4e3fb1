//! The functions with which a plugin makes, fills and unmakes a context, and the library's side of such a
//! context.
//!
//! The C struct lies in the plugin's own, in the layout of rdma-core 44, which is the public one of this
//! library.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::{align_of, size_of};
use core::ptr::NonNull;
use std::os::fd::{FromRawFd, OwnedFd};

use super::dummy::DUMMY;
use super::ops;
use crate::abi::driver::{v44, verbs_context_ops};
use crate::abi::verbs::{ibv_context, ibv_device, verbs_context};
use crate::errno::{Errno, Result};
use crate::provider::context::{self, Private};
use crate::provider::device::DeviceRef;
use crate::provider::object::Handle;
use crate::uverbs::device_file::DeviceFile;

/// The library's side of a context that a plugin made: the way to the kernel, and the plugin's operations.
pub struct PluginContext {
    pub(super) file: DeviceFile,
    /// The plugin handed on no file, and `file` is a stand-in.
    pub(super) without_file: bool,
    pub(super) context: *mut ibv_context,
    /// No slot is ever NULL. Written by the plugin's calls of [`verbs_set_ops`], which it makes while nobody
    /// else uses the context.
    table: UnsafeCell<verbs_context_ops>,
}

// SAFETY: the pointer is that of the context that owns this, and the table is written as its comment says.
unsafe impl Send for PluginContext {}
// SAFETY: as above.
unsafe impl Sync for PluginContext {}

impl PluginContext {
    /// The plugin's operations, and dummies where it has none.
    pub(super) fn operations(&self) -> &verbs_context_ops {
        // SAFETY: see the field.
        unsafe { &*self.table.get() }
    }

    /// Where [`verbs_set_ops`] writes.
    pub(super) fn table(&self) -> NonNull<verbs_context_ops> {
        NonNull::from(&self.table).cast()
    }
}

/// The owner of a command file that a plugin hands on. A context without one (-1) gets a file on which every
/// command fails with EBADF, as it would on -1.
fn command_file(cmd_fd: c_int) -> Result<OwnedFd> {
    let fd = match cmd_fd {
        // SAFETY: a constant C string.
        -1 => unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) },
        fd => fd,
    };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: opened just above, or given to this function to own.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a `verbs_context` usable: the public fields, the library's side of it, and dummies in every slot.
///
/// # Safety
/// `verbs` is zeroed memory of a context that the plugin makes for the live `device`.
unsafe fn initialise(
    verbs: NonNull<verbs_context>,
    device: Handle<ibv_device>,
    cmd_fd: c_int,
    driver_id: u32,
) -> Result<()> {
    let file = DeviceFile::from_fd(command_file(cmd_fd)?);
    file.set_driver_id(driver_id);
    let device = DeviceRef::acquire(device);
    // SAFETY: by the contract nobody else knows the context yet.
    unsafe {
        let verbs = &mut *verbs.as_ptr();
        let inner = &mut verbs.context;
        inner.device = device.as_c();
        inner.cmd_fd = cmd_fd;
        inner.async_fd = -1;
        inner.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        inner.abi_compat = usize::MAX as *mut c_void;
        verbs.sz = size_of::<verbs_context>();
        ops::publish(verbs, &DUMMY);
        let plugin = PluginContext {
            file,
            without_file: cmd_fd == -1,
            context: &raw mut verbs.context,
            table: UnsafeCell::new(DUMMY),
        };
        Private::new(Box::new(plugin), device).attach(NonNull::from(verbs));
    }
    Ok(())
}

/// Allocates a plugin's context of `alloc_size` bytes with the `verbs_context` at the offset that the pointer
/// `context_offset` is, and makes it usable; NULL and `errno` on failure. Owns `cmd_fd` from here, also on
/// failure.
///
/// # Safety
/// `device` is live; the layout is that of a plugin built for rdma-core 36 to 56.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _verbs_init_and_alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    context_offset: *mut verbs_context,
    driver_id: u32,
) -> *mut c_void {
    let close = || {
        if cmd_fd >= 0 {
            // SAFETY: the caller gave the file away.
            drop(unsafe { OwnedFd::from_raw_fd(cmd_fd) });
        }
    };
    let offset = context_offset as usize;
    let fits = offset.is_multiple_of(align_of::<verbs_context>())
        && offset.checked_add(size_of::<verbs_context>()).is_some_and(|end| end <= alloc_size);
    // SAFETY: the caller passes a live device.
    let Ok(device) = (unsafe { Handle::from_c(device) }) else {
        close();
        Errno::EINVAL.set();
        return core::ptr::null_mut();
    };
    // SAFETY: plain allocation; the plugin frees it with `free`.
    let memory = if fits { unsafe { libc::calloc(1, alloc_size) } } else { core::ptr::null_mut() };
    let Some(allocated) = NonNull::new(memory) else {
        close();
        if fits { Errno::ENOMEM } else { Errno::EINVAL }.set();
        return core::ptr::null_mut();
    };
    // SAFETY: `offset` and the struct behind it lie inside the zeroed allocation.
    let done = unsafe { initialise(allocated.byte_add(offset).cast(), device, cmd_fd, driver_id) };
    if let Err(errno) = done {
        // SAFETY: allocated just above, and not given to anybody.
        unsafe { libc::free(memory) };
        errno.set();
        return core::ptr::null_mut();
    }
    memory
}

/// Ends what [`_verbs_init_and_alloc_context`] began, but for the memory, which the plugin frees: closes the
/// files and lets go of the device.
///
/// # Safety
/// `verbs` is such a context, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_uninit_context(verbs: *mut verbs_context) {
    let Some(verbs) = NonNull::new(verbs) else { return };
    // SAFETY: by the contract.
    unsafe {
        let public = &(*verbs.as_ptr()).context;
        let (cmd_fd, async_fd) = (public.cmd_fd, public.async_fd);
        Private::detach(verbs).close(cmd_fd, async_fd);
    }
}

/// Sets the operations that the plugin has; NULL slots leave what was set before.
///
/// # Safety
/// `verbs` is a context in the making, `given` the plugin's table in the layout of rdma-core 36 to 56.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_set_ops(verbs: *mut verbs_context, given: *const v44::verbs_context_ops) {
    let (Some(verbs), false) = (NonNull::new(verbs), given.is_null()) else { return };
    // SAFETY: by the contract; the table is the library's own, which nobody reads meanwhile.
    unsafe {
        let given = ops::newest(&*given);
        let inner = Handle::from_c(&raw mut (*verbs.as_ptr()).context);
        let Some(mut table) =
            inner.ok().and_then(|inner| context::private(inner).context().plugin_operations())
        else {
            return;
        };
        ops::merge(table.as_mut(), &given);
        ops::publish(&mut *verbs.as_ptr(), &given);
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
