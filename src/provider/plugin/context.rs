//! The functions with which a plugin makes, fills and unmakes a context, and the library's side of such a
//! context.
//!
//! The C struct lies in the plugin's own, in the layout of the plugin's release. `ibv_context` is the end of
//! all of them, and what the library works with.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::{align_of, offset_of};
use core::ptr::NonNull;
use std::os::fd::{FromRawFd, OwnedFd};

use once_cell::race::OnceBox;

use super::dummy::DUMMY;
use super::elf;
use super::layout::{self, Generation, Layout};
use super::ops;
use super::qp_mask::QpMask;
use crate::abi::driver::{verbs_context_ops, verbs_device};
use crate::abi::verbs::{ibv_context, ibv_device, verbs_context};
use crate::errno::{Errno, Result};
use crate::log;
use crate::provider::context::{self, Private};
use crate::provider::device::DeviceRef;
use crate::provider::mlx5::{self, Mlx5};
use crate::provider::object::Handle;
use crate::uverbs::device_file::DeviceFile;

/// The library's side of a context that a plugin made: the way to the kernel, and the plugin's operations.
pub struct PluginContext {
    pub(super) file: DeviceFile,
    /// The plugin handed on no file, and `file` is a stand-in.
    pub(super) without_file: bool,
    pub(super) context: *mut ibv_context,
    pub(super) layout: &'static Layout,
    pub(super) qp_mask: QpMask,
    /// No slot is ever NULL. Written by the plugin's calls of [`verbs_set_ops`], which it makes while nobody
    /// else uses the context.
    table: UnsafeCell<verbs_context_ops>,
    /// libmlx5's context, where its queues are the library's.
    mlx5: OnceBox<Mlx5>,
}

// SAFETY: the pointer is that of the context that owns this, and the table is written as its comment says.
unsafe impl Send for PluginContext {}
// SAFETY: as above.
unsafe impl Sync for PluginContext {}

impl PluginContext {
    /// The plugin's operations, and dummies where it has none.
    pub fn operations(&self) -> &verbs_context_ops {
        // SAFETY: see the field.
        unsafe { &*self.table.get() }
    }

    /// Whether the plugin passes attributes of its own to `ibv_cmd_reg_dmabuf_mr`. Of those of generation 34,
    /// which may have been built before there was such an argument, only libmlx5's does, in the verb that it
    /// has for programs since.
    pub(super) fn registers_with_driver(&self) -> bool {
        // SAFETY: the device is counted by the context, and its operations are a plugin's static data.
        let ops = unsafe { (*(*self.context).device.cast::<verbs_device>()).ops };
        elf::exports(ops.cast(), c"mlx5dv_reg_dmabuf_mr")
    }

    /// What is kept of libmlx5's context, where its queues are the library's.
    pub fn mlx5(&self) -> Option<&Mlx5> {
        self.mlx5.get()
    }

    /// The context as programs know it.
    pub fn c_context(&self) -> *mut ibv_context {
        self.context
    }

    /// The plugin has opened the device: takes its queues over where the environment asks for that.
    pub(super) fn opened(&self) {
        // SAFETY: the device is counted by the context, and nobody else knows the context yet.
        unsafe {
            let ops = (*(*self.context).device.cast::<verbs_device>()).ops;
            let Some(mlx5) = NonNull::new(ops.cast_mut()).and_then(|ops| Mlx5::of(self, ops)) else { return };
            let slots = &mut (*self.context).ops;
            slots.poll_cq = Some(mlx5::cq::poll_cq);
            slots.req_notify_cq = Some(mlx5::cq::req_notify_cq);
            slots.post_send = Some(mlx5::qp::post_send);
            slots.post_recv = Some(mlx5::qp::post_recv);
            slots.post_srq_recv = Some(mlx5::qp::post_srq_recv);
            let _ = self.mlx5.set(mlx5);
        }
    }

    /// Where [`verbs_set_ops`] writes.
    pub(super) fn table(&self) -> NonNull<verbs_context_ops> {
        NonNull::from(&self.table).cast()
    }
}

/// The library's side of a context that a plugin made; none of a native one.
///
/// # Safety
/// A non-null `context` is live.
pub(super) unsafe fn of<'a>(context: *mut ibv_context) -> Option<&'a PluginContext> {
    // SAFETY: by the contract.
    unsafe { context::provider(context) }.ok()?.plugin()
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

/// Makes a context usable: the public fields, the library's side of it, and dummies in every slot.
///
/// # Safety
/// `verbs` is zeroed memory of a context of that layout, which the plugin makes for the live `device`.
unsafe fn initialise(
    verbs: NonNull<verbs_context>,
    layout: &'static Layout,
    device: Handle<ibv_device>,
    cmd_fd: c_int,
    driver_id: u32,
) -> Result<()> {
    const SIZE_BEFORE: usize = offset_of!(verbs_context, context) - offset_of!(verbs_context, sz);
    let file = DeviceFile::from_fd(command_file(cmd_fd)?);
    file.set_driver_id(driver_id);
    let device = DeviceRef::acquire(device);
    // SAFETY: by the contract nobody else knows the context yet.
    unsafe {
        let public = layout::public(verbs, layout.context_size);
        public.byte_sub(SIZE_BEFORE).cast::<usize>().write(layout.context_size);
        let context = &mut *public.as_ptr();
        context.device = device.as_c();
        context.cmd_fd = cmd_fd;
        context.async_fd = -1;
        context.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        context.abi_compat = usize::MAX as *mut c_void;
        ops::publish(public, layout.context_size, &DUMMY);
        let plugin = PluginContext {
            file,
            without_file: cmd_fd == -1,
            context: public.as_ptr(),
            layout,
            qp_mask: QpMask::new(layout.qp_masks, driver_id),
            table: UnsafeCell::new(DUMMY),
            mlx5: OnceBox::new(),
        };
        Private::new(Box::new(plugin), device).attach(public);
    }
    Ok(())
}

/// Allocates a plugin's context of `alloc_size` bytes with the `verbs_context` at the offset that the pointer
/// `context_offset` is, and makes it usable; NULL and `errno` on failure. Owns `cmd_fd` from here, also on
/// failure. EPROTONOSUPPORT where the plugin's release cannot be told, which a message says.
///
/// # Safety
/// `device` is live.
unsafe fn allocate(
    generation: u32,
    device: *mut ibv_device,
    cmd_fd: c_int,
    alloc_size: usize,
    context_offset: *mut verbs_context,
    driver_id: u32,
) -> *mut c_void {
    let refuse = |errno: Errno| {
        if cmd_fd >= 0 {
            // SAFETY: the caller gave the file away.
            drop(unsafe { OwnedFd::from_raw_fd(cmd_fd) });
        }
        errno.set();
        core::ptr::null_mut()
    };
    let layout = match layout::of_context(Generation(generation), driver_id, alloc_size) {
        Ok(layout) => layout,
        Err(found) => {
            log::warn(format_args!("{found}"));
            return refuse(Errno::EPROTONOSUPPORT);
        }
    };
    let offset = context_offset as usize;
    let fits = offset.is_multiple_of(align_of::<verbs_context>())
        && offset.checked_add(layout.context_size).is_some_and(|end| end <= alloc_size);
    // SAFETY: the caller passes a live device.
    let (Ok(device), true) = (unsafe { Handle::from_c(device) }, fits) else { return refuse(Errno::EINVAL) };
    // SAFETY: plain allocation; the plugin frees it with `free`.
    let Some(memory) = NonNull::new(unsafe { libc::calloc(1, alloc_size) }) else {
        return refuse(Errno::ENOMEM);
    };
    // SAFETY: `offset` and the context behind it lie inside the zeroed allocation.
    let done = unsafe { initialise(memory.byte_add(offset).cast(), layout, device, cmd_fd, driver_id) };
    if let Err(errno) = done {
        // SAFETY: allocated just above, and not given to anybody.
        unsafe { libc::free(memory.as_ptr()) };
        errno.set();
        return core::ptr::null_mut();
    }
    memory.as_ptr()
}

macro_rules! allocators {
    ($($name:ident: $generation:literal;)+) => {$(
        /// Makes a context for a plugin of this generation: see [`allocate`].
        ///
        /// # Safety
        /// `device` is live.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            device: *mut ibv_device,
            cmd_fd: c_int,
            alloc_size: usize,
            context_offset: *mut verbs_context,
            driver_id: u32,
        ) -> *mut c_void {
            // SAFETY: by the contract.
            unsafe { allocate($generation, device, cmd_fd, alloc_size, context_offset, driver_id) }
        }
    )+};
}

allocators! {
    verbs_init_and_alloc_context_33: 33;
    _verbs_init_and_alloc_context: 34;
    verbs_init_and_alloc_context_57: 57;
    verbs_init_and_alloc_context_59: 59;
    verbs_init_and_alloc_context_64: 64;
    verbs_init_and_alloc_context_65: 65;
}

/// Ends what [`allocate`] began, but for the memory, which the plugin frees: closes the files and lets go of
/// the device.
///
/// # Safety
/// `verbs` is such a context, and nobody uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_uninit_context(verbs: *mut verbs_context) {
    // SAFETY: by the contract.
    unsafe {
        let Some(context) = NonNull::new(verbs).and_then(|verbs| layout::of_any_size(verbs)) else { return };
        let (cmd_fd, async_fd) = ((*context.as_ptr()).cmd_fd, (*context.as_ptr()).async_fd);
        Private::detach(context).close(cmd_fd, async_fd);
    }
}

/// Sets the operations that the plugin has; NULL slots leave what was set before.
///
/// # Safety
/// `verbs` is a context in the making, `given` the plugin's table in the layout with which the context was
/// made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbs_set_ops(verbs: *mut verbs_context, given: *const c_void) {
    let (Some(verbs), Some(given)) = (NonNull::new(verbs), NonNull::new(given.cast_mut())) else { return };
    // SAFETY: by the contract; the table is the library's own, which nobody reads meanwhile.
    unsafe {
        let Some(context) = layout::of_any_size(verbs) else { return };
        let Some(plugin) = of(context.as_ptr()) else { return };
        let given = layout::newest(plugin.layout, given);
        ops::merge(plugin.table().as_mut(), &given);
        ops::publish(context, plugin.layout.context_size, &given);
    }
}

#[cfg(test)]
mod tests;
