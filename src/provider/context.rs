//! The C side of an opened device: `struct verbs_context`, whose tables programs call through, with the
//! provider behind.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

use core::mem::offset_of;
use core::ptr::NonNull;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use ironverbs_os::growth::small_box;

use super::device::DeviceRef;
use super::object::Handle;
use super::{Context, Opened};
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::*;
use crate::errno::Result;

/// What `verbs_context.priv` points to: ours alone, programs never look inside.
pub struct Private {
    context: Box<dyn Context>,
    // Its number stands in `ibv_context.async_fd`.
    async_fd: OnceLock<OwnedFd>,
    device: DeviceRef,
}

impl Private {
    /// Our side of a context that is being made.
    pub fn new(context: Box<dyn Context>, device: DeviceRef) -> Box<Self> {
        small_box(Self { context, async_fd: OnceLock::new(), device })
    }

    /// Hangs our side on its context.
    ///
    /// # Safety
    /// The context is live and has none yet.
    pub unsafe fn attach(self: Box<Self>, context: NonNull<ibv_context>) {
        // SAFETY: by the contract.
        unsafe { private_slot(context).write(Box::into_raw(self)) };
    }

    /// Takes our side back from a context that is being unmade.
    ///
    /// # Safety
    /// [`Private::attach`] was called for the context, and nobody uses our side any more.
    pub unsafe fn detach(context: NonNull<ibv_context>) -> Box<Self> {
        // SAFETY: by the contract.
        unsafe { Box::from_raw(private_slot(context).read()) }
    }

    /// Has the file of asynchronous events closed with this, after the command file.
    fn own_async_fd(&self, async_fd: OwnedFd) {
        let _ = self.async_fd.set(async_fd);
    }

    /// Lets go of the device and closes the files that the public fields `cmd_fd` and `async_fd` name (-1 for
    /// none). As with rdma-core the fields count, also where the program wrote them: a file that they no longer
    /// name stays open.
    ///
    /// # Safety
    /// Both belong to the context, which is being unmade.
    pub unsafe fn close(mut self, cmd_fd: RawFd, async_fd: RawFd) {
        if let Some(file) = self.context.file() {
            if cmd_fd != self.context.cmd_fd() && self.context.cmd_fd() != -1 {
                file.disown();
            }
            // Where opening failed, nobody has claimed what a legacy GET_CONTEXT opened; the field names it.
            if let Some(unclaimed) = file.claim_async_fd() {
                let _ = unclaimed.into_raw_fd();
            }
        }
        if let Some(opened) = self.async_fd.take() {
            let _ = opened.into_raw_fd();
        }
        let other_file = (cmd_fd != self.context.cmd_fd()).then_some(cmd_fd);
        let Self { context, device, .. } = self;
        drop(context);
        for fd in other_file.into_iter().chain([async_fd]).filter(|fd| *fd != -1) {
            // SAFETY: by the contract; a number that is not open fails with EBADF, as with rdma-core.
            unsafe { libc::close(fd) };
        }
        drop(device);
    }
}

/// Where our side hangs. A plugin's `verbs_context` may be shorter than ours, which differ at their start.
///
/// # Safety
/// The context is live and the end of a `verbs_context`.
unsafe fn private_slot(context: NonNull<ibv_context>) -> NonNull<*mut Private> {
    const BEFORE: usize = offset_of!(verbs_context, context) - offset_of!(verbs_context, priv_);
    // SAFETY: by the contract; every layout has the slot at this distance from its end.
    unsafe { context.byte_sub(BEFORE).cast() }
}

/// Gives an open context its file of asynchronous events.
pub fn set_async_fd(context: Handle<ibv_context>, async_fd: OwnedFd) {
    // SAFETY: the context was just made and nobody else knows it yet.
    unsafe { (*context.as_ptr()).async_fd = async_fd.as_raw_fd() };
    private(context).own_async_fd(async_fd);
}

/// Makes the C context of a device just opened. Tables that the caller fills are empty but for the data path.
pub fn create(device: DeviceRef, opened: Opened, async_fd: OwnedFd) -> Handle<ibv_context> {
    let data_path = opened.context.data_path();
    // SAFETY: verbs_context is plain C data: integers, pointers, optional functions and a mutex that is
    // initialised below; all zeros is its empty value.
    let mut verbs: Box<verbs_context> = small_box(unsafe { core::mem::zeroed() });
    verbs.sz = size_of::<verbs_context>();
    verbs.context.device = device.as_c();
    verbs.context.cmd_fd = opened.context.cmd_fd();
    verbs.context.async_fd = async_fd.as_raw_fd();
    verbs.context.num_comp_vectors = opened.num_comp_vectors as i32;
    verbs.context.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    // The mark by which the inline functions of verbs.h know that a verbs_context surrounds the ibv_context.
    verbs.context.abi_compat = usize::MAX as *mut _;
    verbs.context.ops.poll_cq = Some(data_path.poll_cq);
    verbs.context.ops.req_notify_cq = Some(data_path.req_notify_cq);
    verbs.context.ops.post_send = Some(data_path.post_send);
    verbs.context.ops.post_recv = Some(data_path.post_recv);
    verbs.context.ops.post_srq_recv = Some(data_path.post_srq_recv);
    verbs.post_srq_ops = Some(data_path.post_srq_ops);
    device.set_core_support(opened.core_support);
    let private = Private::new(opened.context, device);
    let _ = private.async_fd.set(async_fd);
    let verbs = Box::into_raw(verbs);
    // SAFETY: `verbs` is the live allocation just made, so the address of its field is non-null and live.
    let context =
        unsafe { Handle::from_c(&raw mut (*verbs).context) }.expect("the address of a field is not null");
    // SAFETY: the context made above.
    unsafe { private.attach(context.as_non_null()) };
    context
}

/// The `verbs_context` around a context. Of a plugin's only the end may be there, as its `sz` says.
pub fn verbs(context: Handle<ibv_context>) -> NonNull<verbs_context> {
    let outer = context.as_ptr().wrapping_byte_sub(offset_of!(verbs_context, context));
    // SAFETY: every ibv_context that we give out is the last field of a verbs_context; none lies at the start
    // of the address space.
    unsafe { NonNull::new_unchecked(outer.cast()) }
}

/// Our side of a context.
pub fn private<'a>(context: Handle<ibv_context>) -> &'a Private {
    // SAFETY: `priv_` was set to a live Private in `create` and stays so until `destroy`, which ends the
    // handle's life.
    unsafe { &*private_slot(context.as_non_null()).read() }
}

/// The provider behind the context pointer that a C object carries.
///
/// # Safety
/// A non-null `context` is live, as [`Handle`] says.
pub unsafe fn provider<'a>(context: *mut ibv_context) -> Result<&'a dyn Context> {
    // SAFETY: handed on to the caller.
    let context = unsafe { Handle::from_c(context) }?;
    Ok(private(context).context())
}

/// A C struct that names the context it belongs to.
///
/// # Safety
/// `context_of` reads the struct's `context` field and nothing else.
pub unsafe trait InContext: Sized {
    /// The context that a live object belongs to.
    ///
    /// # Safety
    /// `object` is live.
    unsafe fn context_of(object: *const Self) -> *mut ibv_context;
}

macro_rules! in_context {
    ($($object:ident: $($path:ident).+;)+) => {$(
        // SAFETY: reads the context field and nothing else.
        unsafe impl InContext for $object {
            unsafe fn context_of(object: *const Self) -> *mut ibv_context {
                // SAFETY: by the contract.
                unsafe { (*object).$($path).+ }
            }
        }
    )+};
}

in_context! {
    ibv_pd: context;
    verbs_mr: ibv_mr.context;
    ibv_mr: context;
    ibv_mw: context;
    ibv_dm: context;
    ibv_comp_channel: context;
    ibv_cq: context;
    ibv_srq: context;
    ibv_qp: context;
    ibv_ah: context;
    ibv_td: context;
    ibv_xrcd: context;
    ibv_wq: context;
    ibv_rwq_ind_table: context;
    ibv_flow: context;
    ibv_flow_action: context;
    ibv_counters: context;
    ibv_dmah: context;
    ibv_comp_cntr: context;
}

/// A handle for an object of the program, and the provider that its context leads to; EINVAL for NULL.
///
/// # Safety
/// A non-null `object` is live, as [`Handle`] says.
pub unsafe fn of<'a, T: InContext>(object: *mut T) -> Result<(Handle<T>, &'a dyn Context)> {
    // SAFETY: by the contract; a live object belongs to an open context.
    unsafe { Ok((Handle::from_c(object)?, provider(T::context_of(object))?)) }
}

/// Frees the context, closes its files and lets go of the device.
pub fn destroy(context: Handle<ibv_context>) {
    if let Some(plugin) = private(context).context().plugin() {
        let free_context = plugin.operations().free_context;
        // SAFETY: the plugin made the context and frees it, the library's side and all.
        unsafe {
            if let Some(free_context) = free_context {
                free_context(context.as_ptr());
            }
        }
        return;
    }
    let verbs = verbs(context).as_ptr();
    // SAFETY: both allocations were made in `create`, and the program gives up the handle by closing the
    // device.
    unsafe {
        let (cmd_fd, async_fd) = ((*verbs).context.cmd_fd, (*verbs).context.async_fd);
        Private::detach(context.as_non_null()).close(cmd_fd, async_fd);
        drop(Box::from_raw(verbs));
    }
}

impl Private {
    /// The provider's side.
    pub fn context(&self) -> &dyn Context {
        &*self.context
    }

    /// The device that was opened.
    pub fn device(&self) -> &DeviceRef {
        &self.device
    }
}

/// Runs `body` with the context's mutex, which guards the reference counts of its completion channels.
pub fn with_mutex<R>(context: Handle<ibv_context>, body: impl FnOnce() -> R) -> R {
    // SAFETY: the mutex was initialised in `create` and lives as long as the handle; it is locked and unlocked
    // by this thread, in this order.
    unsafe {
        let mutex = &raw mut (*context.as_ptr()).mutex;
        libc::pthread_mutex_lock(mutex);
        let result = body();
        libc::pthread_mutex_unlock(mutex);
        result
    }
}
