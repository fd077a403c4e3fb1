//! Asynchronous events of one context.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::core::verbs::Event;

use super::{Device, Result};

/// The asynchronous events of a context, and the descriptor that tells of them (`async_fd`).
#[derive(Debug)]
pub struct EventQueue {}

impl EventQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// [`Error::Host`](super::Error::Host) without descriptors left.
    pub fn new(_device: &Arc<Device>) -> Result<Arc<Self>> {
        todo!()
    }

    /// The descriptor that is readable while an event waits. The queue closes it when it is dropped.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        todo!()
    }

    /// Takes the oldest event, with the cookie of the object it is about. Waits as the descriptor's flags say.
    ///
    /// # Errors
    /// That of `read` on the descriptor: `EAGAIN`, `EINTR`.
    pub fn next(&self) -> io::Result<(Event, usize)> {
        todo!()
    }
}
