//! Completion queues.

use std::sync::Arc;

use crate::core::completion::Completion;

use super::{Channel, Device, EventQueue, Result};

/// Flags of a completion queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CqFlags {
    /// An overrun is no error: the queue goes on without what had no room (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    pub ignore_overrun: bool,
}

/// A completion queue (`struct ibv_cq`).
#[derive(Debug)]
pub struct CompletionQueue {}

impl CompletionQueue {
    /// A queue of at least `cqe` entries. `cookie` comes back with the events of `channel` and of `events`.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for no entries or more than
    /// [`Limits::max_cqe`](super::Limits::max_cqe), [`Error::NoMemory`](super::Error::NoMemory).
    pub fn new(
        _device: &Arc<Device>,
        _cqe: u32,
        _channel: Option<&Arc<Channel>>,
        _events: &Arc<EventQueue>,
        _cookie: usize,
        _flags: CqFlags,
    ) -> Result<Arc<Self>> {
        todo!()
    }

    /// Entries that it holds, at least as many as were asked for.
    #[must_use]
    pub fn cqe(&self) -> u32 {
        todo!()
    }

    /// Hands out up to `max` completions, oldest first, and tells how many. Requests that wait are tried again.
    pub fn poll(&self, _max: u32, _take: &mut impl FnMut(&Completion)) -> u32 {
        todo!()
    }

    /// Asks for an event when the next completion comes, or the next that is solicited or an error.
    ///
    /// # Errors
    /// [`Error::Host`](super::Error::Host) when the queue's lock cannot be had.
    pub fn arm(&self, _solicited_only: bool) -> Result<()> {
        todo!()
    }

    /// Changes the number of entries to at least `cqe`; the number it then has.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) when `cqe` is out of range or less than what waits to be polled,
    /// [`Error::NoMemory`](super::Error::NoMemory).
    pub fn resize(&self, _cqe: u32) -> Result<u32> {
        todo!()
    }

    /// Ends the queue. Events of it that nobody has taken are gone.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error::Busy) while a queue pair or shared receive queue uses it.
    pub fn destroy(&self) -> Result<()> {
        todo!()
    }
}
