//! Asynchronous events, and what events of either kind are read from.

use std::os::fd::{OwnedFd, RawFd};

use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::CommandFile;
use crate::uverbs;

/// What `ibv_get_async_event` takes from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// `IBV_EVENT_*`.
    pub event_type: ibv_event_type_t,
    /// The address of the queue or queue pair that it is about, or the number of the port.
    pub element: u64,
}

/// Where the next event of a channel or a context is waited for: one record of `record` bytes is read from
/// `fd`, as its flags say. The reading is done above the provider, where the thread may be cancelled.
#[derive(Clone, Copy, Debug)]
pub struct EventSource {
    /// The descriptor that is readable while an event waits.
    pub fd: RawFd,
    /// Bytes of one record, at most [`EventSource::MOST`]; 0 where nothing is read, and the descriptor is only
    /// waited for.
    pub record: usize,
}

impl EventSource {
    /// The longest record: the kernel's of an asynchronous event.
    pub const MOST: usize = 16;
}

/// Asynchronous events.
#[allow(unused_variables)]
pub trait Events: CommandFile {
    /// Opens the file that becomes readable with each asynchronous event. Called once, before anybody knows the
    /// context.
    fn open_async_events(&self) -> Result<OwnedFd> {
        uverbs::event::open_async(self.kernel()?)
    }

    /// What an asynchronous event is read from; `async_fd` is the file that [`Events::open_async_events`]
    /// opened.
    fn async_event_source(&self, async_fd: RawFd) -> EventSource {
        EventSource { fd: async_fd, record: uverbs::event::ASYNC_RECORD }
    }

    /// The event that a record read from there tells of; None if there is none behind it, and another one is to
    /// be read. A program that found the file readable and comes to take what is there, as `at_once` says that
    /// it may be, is better given something than made to wait.
    fn next_async_event(&self, record: &[u8], _at_once: bool) -> Result<Option<AsyncEvent>> {
        // The kernel gives back the address that the object was created with.
        let described = uverbs::event::async_event(record)?;
        let event_type = described.event_type as ibv_event_type_t;
        Ok(Some(AsyncEvent { event_type, element: described.element }))
    }

    /// Told of each event that `ibv_get_async_event` takes.
    fn async_event(&self, event: &mut ibv_async_event) {}
}
