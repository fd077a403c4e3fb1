//! XRC domains, and queue pairs that others opened.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::{Device, EventQueue, Result};

/// An XRC domain (`struct ibv_xrcd`). Those opened with a descriptor of the same file are one domain.
#[derive(Debug)]
pub struct XrcDomain {}

impl XrcDomain {
    /// Opens a domain: that of the file behind `fd`, or a private one without. `create` and `exclusive` are
    /// `O_CREAT` and `O_EXCL`.
    ///
    /// # Errors
    /// [`Error::NotFound`](super::Error::NotFound) when the file has none and `create` is not given,
    /// [`Error::Exists`](super::Error::Exists) when it has one and `exclusive` is,
    /// [`Error::Invalid`](super::Error::Invalid) without `fd` and `create`.
    pub fn open(
        _device: &Arc<Device>,
        _fd: Option<RawFd>,
        _create: bool,
        _exclusive: bool,
    ) -> Result<Arc<Self>> {
        todo!()
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error::Busy) while a queue pair or shared receive queue was made with this handle.
    pub fn close(&self) -> Result<()> {
        todo!()
    }
}

/// An XRC target queue pair opened once more (`ibv_open_qp`), with events of its own.
#[derive(Debug)]
pub struct OpenedQp {}

impl OpenedQp {
    /// Opens the XRC target queue pair with this number in the domain.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) when there is none.
    pub fn open(
        _domain: &Arc<XrcDomain>,
        _qp_num: u32,
        _events: &Arc<EventQueue>,
        _cookie: usize,
    ) -> Result<Arc<Self>> {
        todo!()
    }

    /// The queue pair: modify and query go through it.
    #[must_use]
    pub fn queue_pair(&self) -> &Arc<super::QueuePair> {
        todo!()
    }

    /// Closes this handle; the queue pair goes with the last one.
    ///
    /// # Errors
    /// As those of [`QueuePair::destroy`](super::QueuePair::destroy).
    pub fn close(&self) -> Result<()> {
        todo!()
    }
}
