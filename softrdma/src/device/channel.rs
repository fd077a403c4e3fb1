//! Completion channels: what a program sleeps on until a completion queue has something for it.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::{Device, Result};

/// A completion channel (`struct ibv_comp_channel`).
///
/// Its descriptor carries one byte for each event, so blocking, `O_NONBLOCK`, signals and `poll` act on it as on a
/// kernel's channel.
#[derive(Debug)]
pub struct Channel {}

impl Channel {
    /// A new channel.
    ///
    /// # Errors
    /// [`Error::Host`](super::Error::Host) without descriptors left.
    pub fn new(_device: &Arc<Device>) -> Result<Arc<Self>> {
        todo!()
    }

    /// The descriptor that is readable while an event waits. The channel closes it when it is dropped.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        todo!()
    }

    /// Takes the oldest event: the cookie of its completion queue. Waits as the descriptor's flags say.
    ///
    /// # Errors
    /// That of `read` on the descriptor: `EAGAIN`, `EINTR`.
    pub fn next(&self) -> io::Result<usize> {
        todo!()
    }
}
