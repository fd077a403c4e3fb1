//! Multicast groups of datagram queue pairs.

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::CommandFile;
use crate::provider::object::Handle;

/// Multicast groups of datagram queue pairs.
#[allow(unused_variables)]
pub trait Mcasts: CommandFile {
    /// Joins a UD queue pair to a multicast group.
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Leaves a multicast group.
    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
