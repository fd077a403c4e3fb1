//! Shared receive queues.

use std::sync::Arc;

use crate::core::receive::Sge;

use super::{CompletionQueue, Device, EventQueue, Rejected, Result, XrcDomain};

/// Kind of a shared receive queue (`enum ibv_srq_type`).
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SrqType {
    /// For queue pairs that were made with it.
    Basic = 0,
    /// For XRC targets, by number.
    Xrc = 1,
}

/// What a shared receive queue is made of (`struct ibv_srq_init_attr_ex`).
#[derive(Debug, Clone)]
pub struct SrqInit {
    /// Protection domain of its requests.
    pub pd: u32,
    /// Kind.
    pub srq_type: SrqType,
    /// Requests that it holds.
    pub max_wr: u32,
    /// Elements of a request.
    pub max_sge: u32,
    /// XRC: the domain.
    pub xrcd: Option<Arc<XrcDomain>>,
    /// XRC: where its completions go.
    pub cq: Option<Arc<CompletionQueue>>,
    /// Where its asynchronous events go.
    pub events: Arc<EventQueue>,
    /// Comes back with its events.
    pub cookie: usize,
}

/// A shared receive queue (`struct ibv_srq`).
#[derive(Debug)]
pub struct SharedReceiveQueue {}

impl SharedReceiveQueue {
    /// A new queue.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for sizes out of range or an XRC queue without domain or completion
    /// queue, [`Error::NoMemory`](super::Error::NoMemory).
    pub fn new(_device: &Arc<Device>, _init: &SrqInit) -> Result<Arc<Self>> {
        todo!()
    }

    /// Its number (`ibv_get_srq_num`).
    #[must_use]
    pub fn number(&self) -> u32 {
        todo!()
    }

    /// Requests that it holds: at least as many as were asked for.
    #[must_use]
    pub fn max_wr(&self) -> u32 {
        todo!()
    }

    /// Elements of a request: at least as many as were asked for.
    #[must_use]
    pub fn max_sge(&self) -> u32 {
        todo!()
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// [`Rejected::Full`], [`Rejected::TooManySges`].
    pub fn post(&self, _wr_id: u64, _sges: &[Sge]) -> std::result::Result<(), Rejected> {
        todo!()
    }

    /// Arms the limit event (`IBV_SRQ_LIMIT`), changes the size (`IBV_SRQ_MAX_WR`), or both.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for a limit above the size, or a size out of range or below what is
    /// posted; [`Error::NoMemory`](super::Error::NoMemory).
    pub fn modify(&self, _limit: Option<u32>, _max_wr: Option<u32>) -> Result<()> {
        todo!()
    }

    /// The limit as it stands: 0 once its event was raised.
    #[must_use]
    pub fn limit(&self) -> u32 {
        todo!()
    }

    /// Ends the queue.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error::Busy) while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        todo!()
    }
}
