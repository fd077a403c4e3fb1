//! Multicast groups of datagram queue pairs.

use super::ah::gid_bytes;
use super::command::execute_write;
use super::device_file::DeviceFile;
use super::{Udata, allow_disassociate_destroy};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::ibv_gid;
use crate::errno::{Errno, Result};

/// Joins queue pair `qp` to a group.
///
/// Path: legacy command.
pub fn attach(file: &DeviceFile, qp: u32, gid: &ibv_gid, lid: u16) -> Result<()> {
    let request = ib_uverbs_attach_mcast { gid: gid_bytes(gid), qp_handle: qp, mlid: lid, reserved: 0 };
    execute_write(file, IB_USER_VERBS_CMD_ATTACH_MCAST, &request, &mut (), Udata::none())
}

/// Takes queue pair `qp` out of a group; a device gone away counts as left, where the process allows that.
///
/// Path: legacy command.
pub fn detach(file: &DeviceFile, qp: u32, gid: &ibv_gid, lid: u16) -> Result<()> {
    let request = ib_uverbs_detach_mcast { gid: gid_bytes(gid), qp_handle: qp, mlid: lid, reserved: 0 };
    match execute_write(file, IB_USER_VERBS_CMD_DETACH_MCAST, &request, &mut (), Udata::none()) {
        Err(Errno::EIO) if allow_disassociate_destroy() => Ok(()),
        done => done,
    }
}
