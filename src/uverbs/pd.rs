//! Protection domains.

use super::Udata;
use super::command::execute_write;
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::errno::{Errno, Result};
use crate::uverbs::mr;

/// Makes a protection domain and returns its number.
///
/// Path: legacy command.
pub fn alloc(file: &DeviceFile, udata: Udata<'_>) -> Result<u32> {
    let mut answer = ib_uverbs_alloc_pd_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_ALLOC_PD, &ib_uverbs_alloc_pd::default(), &mut answer, udata)?;
    Ok(answer.pd_handle)
}

/// Frees a protection domain; EBUSY while something uses it.
///
/// Path: ioctl PD_DESTROY, else the legacy command.
pub fn dealloc(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::DeallocPd,
        object_id: UVERBS_OBJECT_PD,
        method_id: UVERBS_METHOD_PD_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_PD_HANDLE,
        command: IB_USER_VERBS_CMD_DEALLOC_PD,
    };
    destroy::plain(file, &KIND, handle)
}

/// Whether the context has a protection domain of this number: ENOENT if the number is free, EINVAL if
/// something else has it.
///
/// Path: ioctl ADVISE_MR only. Drivers alone can query protection domains, but the kernel looks up the one that
/// an advice is for before it refuses (EOPNOTSUPP) advice that no driver knows.
pub fn check(file: &DeviceFile, handle: u32) -> Result<()> {
    const UNKNOWN: u32 = i32::MAX as u32;
    match mr::advise(file, handle, UNKNOWN, 0, &[ib_uverbs_sge::default()]) {
        Err(Errno::EOPNOTSUPP) | Ok(()) => Ok(()),
        Err(errno) => Err(errno),
    }
}
