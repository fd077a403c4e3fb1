//! Multicast groups of datagram queue pairs.

use crate::abi::verbs::{ibv_gid, ibv_qp};
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::uverbs;
use crate::uverbs::device_file::DeviceFile;

/// Joins a group.
pub fn attach(file: &DeviceFile, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::mcast::attach(file, unsafe { (*qp.as_ptr()).handle }, gid, lid)
}

/// Leaves a group.
pub fn detach(file: &DeviceFile, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
    // SAFETY: a live handle.
    uverbs::mcast::detach(file, unsafe { (*qp.as_ptr()).handle }, gid, lid)
}
