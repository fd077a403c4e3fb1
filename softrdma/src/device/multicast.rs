//! Multicast groups: which queue pairs are in which, in a table that senders read.

use super::{Device, QueuePair, Result};

impl Device {
    /// Puts a datagram queue pair into a group (`ibv_attach_mcast`). Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) for another kind of queue pair or an address that is no group's;
    /// [`Error::NoMemory`](super::Error::NoMemory) at the limits.
    pub fn attach_multicast(&self, _qp: &QueuePair, _gid: &[u8; 16]) -> Result<()> {
        todo!()
    }

    /// Takes a queue pair out of a group.
    ///
    /// # Errors
    /// [`Error::Invalid`](super::Error::Invalid) when it is not in it.
    pub fn detach_multicast(&self, _qp: &QueuePair, _gid: &[u8; 16]) -> Result<()> {
        todo!()
    }
}
