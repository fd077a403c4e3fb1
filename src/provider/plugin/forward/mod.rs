//! The operations of a plugin's device, a file for each object: each method calls the plugin's operation.
//!
//! A plugin reports as C does. NULL means that the error is in `errno`; a value that is not 0 is what the verb
//! returns, as it is, even where it is negative.

mod ah;
mod buf;
mod comp_cntr;
mod counters;
mod cq;
mod device;
mod dm;
mod dmah;
mod event;
mod flow;
mod mcast;
mod mr;
mod mw;
mod pd;
mod port;
mod qp;
mod srq;
mod td;
mod wq;
mod xrcd;

use core::ffi::c_int;
use core::ptr::null_mut;
use std::os::fd::{AsRawFd, RawFd};

use super::context::PluginContext;
use super::dummy::DUMMY;
use crate::abi::driver::verbs_mr;
use crate::abi::verbs::ibv_mr;
use crate::errno::{Errno, Result};
use crate::provider::data_path::DataPath;
use crate::provider::object::Handle;
use crate::provider::verbs::{Channels, Gids};
use crate::provider::{CommandFile, Context};
use crate::uverbs::device_file::DeviceFile;

/// Calls an operation of the plugin's, or the dummy.
macro_rules! call {
    ($self:ident.$operation:ident($($argument:expr),* $(,)?)) => {{
        use $crate::provider::plugin::dummy::DUMMY;
        let operation = $self.operations().$operation.or(DUMMY.$operation).expect("dummies are complete");
        // SAFETY: the plugin's own function of that type. The handles are live and belong to this context,
        // which the plugin made; references are valid for the call.
        unsafe { operation($($argument),*) }
    }};
}
use call;

/// The handle of what an operation made, or the error that it left in `errno`.
fn made<T>(object: *mut T) -> Result<Handle<T>> {
    // SAFETY: null, or the object that the plugin has just made.
    unsafe { Handle::optional(object) }.ok_or_else(Errno::last)
}

/// The same for a region, which a plugin makes as a `verbs_mr` and shows as its first field.
fn region(mr: *mut ibv_mr) -> Result<Handle<verbs_mr>> {
    made(mr.cast())
}

/// 0 or the value that the verb returns.
fn done(value: c_int) -> Result<()> {
    if value == 0 { Ok(()) } else { Err(Errno(value)) }
}

fn pointer<T>(handle: Option<Handle<T>>) -> *mut T {
    handle.map_or(null_mut(), Handle::as_ptr)
}

impl CommandFile for PluginContext {
    fn file(&self) -> Option<&DeviceFile> {
        Some(&self.file)
    }

    fn cmd_fd(&self) -> RawFd {
        if self.without_file { -1 } else { self.file.as_raw_fd() }
    }
}

impl Context for PluginContext {
    fn data_path(&self) -> DataPath {
        macro_rules! functions {
            ($($name:ident)+) => {
                DataPath { $($name: self.operations().$name.or(DUMMY.$name).expect("dummies are complete")),+ }
            };
        }
        functions!(poll_cq req_notify_cq post_send post_recv post_srq_recv post_srq_ops)
    }

    fn plugin(&self) -> Option<&PluginContext> {
        Some(self)
    }
}

// The private provider ABI has no operations for these.
impl Channels for PluginContext {}
impl Gids for PluginContext {}
