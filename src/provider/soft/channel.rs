//! Completion channels.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use ironverbs_os::growth::small_box;
use softrdma::device;

use super::SoftContext;
use super::convert::{interrupted, refused};
use super::cq::Cq;
use crate::abi::verbs::{ibv_comp_channel, ibv_cq};
use crate::errno::Result;
use crate::provider::object::{Handle, Object};
use crate::provider::verbs::Channels;
use crate::provider::verbs::EventSource;

/// A completion channel.
#[repr(C)]
pub struct Channel {
    public: UnsafeCell<ibv_comp_channel>,
    /// The engine's, which closes the descriptor.
    pub inner: Arc<device::Channel>,
}

// SAFETY: repr(C) with the public struct first.
unsafe impl Object for Channel {
    type Public = ibv_comp_channel;
}

impl Channels for SoftContext {
    /// Opens a channel.
    fn create_comp_channel(&self) -> Result<Handle<ibv_comp_channel>> {
        let inner = device::Channel::new(&self.engine).map_err(refused)?;
        let public = ibv_comp_channel { context: core::ptr::null_mut(), fd: inner.fd(), refcnt: 0 };
        Ok(Handle::publish(small_box(Channel { public: UnsafeCell::new(public), inner })))
    }

    /// Closes a channel that no queue uses.
    fn destroy_comp_channel(&self, channel: Handle<ibv_comp_channel>) -> Result<()> {
        // SAFETY: published as a Channel, and the program gives it up.
        drop(unsafe { channel.reclaim::<Channel>() });
        Ok(())
    }

    /// What is to be read before an event is taken.
    fn cq_event_source(&self, channel: Handle<ibv_comp_channel>) -> EventSource {
        // SAFETY: channels of this provider are published as Channel.
        EventSource { fd: unsafe { channel.object::<Channel>() }.inner.fd(), record: RING }
    }

    /// Takes the event that a byte was read for, and says which queue it is for; None if there is none any
    /// more.
    fn next_cq_event(
        &self,
        channel: Handle<ibv_comp_channel>,
        _record: &[u8],
    ) -> Result<Option<Handle<ibv_cq>>> {
        // SAFETY: channels of this provider are published as Channel.
        let inner = unsafe { &channel.object::<Channel>().inner };
        let count = |cookie| {
            // SAFETY: the cookie is the address that the queue was made with; a queue with an event that nobody
            // took is alive, because it drops them when it is destroyed. Queues of this provider are published
            // as Cq.
            unsafe {
                if let Ok(cq) = Handle::from_c(cookie as *mut ibv_cq) {
                    cq.object::<Cq>().events.count_completion();
                }
            }
        };
        let Some(cookie) = inner.rung(count).map_err(interrupted)? else { return Ok(None) };
        // SAFETY: the queue of an event that is not acknowledged yet is alive.
        unsafe { Handle::from_c(cookie as *mut ibv_cq) }.map(Some)
    }
}

/// Bytes of a channel's or a context's descriptor that stand for one event.
pub const RING: usize = 1;

/// How many events the program got of an object. The engine orders counting and destruction.
#[derive(Default)]
pub struct Reported {
    completion: AtomicU32,
    asynchronous: AtomicU32,
}

impl Reported {
    /// One more completion event.
    pub fn count_completion(&self) {
        self.completion.fetch_add(1, Ordering::Relaxed);
    }

    /// One more asynchronous event.
    pub fn count_asynchronous(&self) {
        self.asynchronous.fetch_add(1, Ordering::Relaxed);
    }

    /// Completion events so far.
    pub fn completion(&self) -> u32 {
        self.completion.load(Ordering::Relaxed)
    }

    /// Asynchronous events so far.
    pub fn asynchronous(&self) -> u32 {
        self.asynchronous.load(Ordering::Relaxed)
    }
}
