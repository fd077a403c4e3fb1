//! Completion channels.

use core::cell::UnsafeCell;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use crate::abi::verbs::{ibv_comp_channel, ibv_cq};
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::uverbs;
use crate::uverbs::device_file::DeviceFile;

#[repr(C)]
struct Channel {
    public: UnsafeCell<ibv_comp_channel>,
}

// SAFETY: repr(C) with the public struct first.
unsafe impl Object for Channel {
    type Public = ibv_comp_channel;
}

/// Opens a channel.
pub fn create(file: &DeviceFile) -> Result<Handle<ibv_comp_channel>> {
    let fd = uverbs::channel::create(file)?;
    let public = ibv_comp_channel { context: core::ptr::null_mut(), fd: fd.into_raw_fd(), refcnt: 0 };
    Ok(Handle::publish(Box::new(Channel { public: UnsafeCell::new(public) })))
}

/// Closes a channel that [`create`] opened.
pub fn destroy(channel: Handle<ibv_comp_channel>) -> Result<()> {
    // SAFETY: published as a Channel; no queue knows it any more and the program gives it up.
    let channel = unsafe { channel.reclaim::<Channel>() };
    // SAFETY: the descriptor is the channel's own since its creation.
    drop(unsafe { OwnedFd::from_raw_fd(channel.public.into_inner().fd) });
    Ok(())
}

/// Which queue the event is for that this record tells of.
pub fn event(record: &[u8]) -> Result<Handle<ibv_cq>> {
    let handle = uverbs::event::completion(record)?;
    // SAFETY: the kernel gives back the address that the queue was created with; a queue with unread events is
    // alive, because the kernel drops its events when it is destroyed.
    unsafe { Handle::from_c(handle as usize as *mut ibv_cq) }
}
