//! Extended reliable connection domains.

use core::ffi::c_int;
use std::os::fd::RawFd;

use super::Udata;
use super::command::execute_write;
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::{IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, IBV_XRCD_INIT_ATTR_RESERVED};
use crate::errno::{Errno, Result};

/// Opens the domain that belongs to the inode of `fd` (-1: one of our own), or makes it, as `oflags` say;
/// returns its number.
///
/// EOPNOTSUPP for an unknown bit in `comp_mask`, EINVAL when file or flags are missing; neither sets `errno`.
///
/// Path: legacy command.
pub fn open(file: &DeviceFile, comp_mask: u32, fd: RawFd, oflags: c_int, udata: Udata<'_>) -> Result<u32> {
    if comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED as u32 {
        return Err(Errno::EOPNOTSUPP);
    }
    let needed = IBV_XRCD_INIT_ATTR_FD as u32 | IBV_XRCD_INIT_ATTR_OFLAGS as u32;
    if comp_mask & needed != needed {
        return Err(Errno::EINVAL);
    }
    let request = ib_uverbs_open_xrcd { fd: fd as u32, oflags: oflags as u32, ..Pod::zeroed() };
    let mut answer = ib_uverbs_open_xrcd_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_OPEN_XRCD, &request, &mut answer, udata)?;
    Ok(answer.xrcd_handle)
}

/// Closes a domain; EBUSY while something uses it.
///
/// Path: ioctl XRCD_DESTROY, else the legacy command.
pub fn close(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::CloseXrcd,
        object_id: UVERBS_OBJECT_XRCD,
        method_id: UVERBS_METHOD_XRCD_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_XRCD_HANDLE,
        command: IB_USER_VERBS_CMD_CLOSE_XRCD,
    };
    destroy::plain(file, &KIND, handle)
}
