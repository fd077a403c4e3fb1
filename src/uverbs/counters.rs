//! Counters of flows.

use super::command::{Command, Prepared};
use super::destroy;
use super::device_file::DeviceFile;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::errno::Result;

/// Makes a set of counters and returns its number.
///
/// Path: ioctl COUNTERS_CREATE only.
pub fn create(file: &DeviceFile, prepared: Prepared<'_>) -> Result<u32> {
    let mut cmd = Command::<1>::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE);
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
    cmd.append(prepared);
    cmd.execute(file)?;
    Ok(cmd.created(handle))
}

/// Reads the counters into `values`, eight bytes each; `flags` are `IB_UVERBS_READ_COUNTERS_*`.
///
/// Path: ioctl COUNTERS_READ only.
pub fn read(
    file: &DeviceFile,
    handle: u32,
    values: &mut [u8],
    flags: u32,
    prepared: Prepared<'_>,
) -> Result<()> {
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ);
    cmd.object(UVERBS_ATTR_READ_COUNTERS_HANDLE, handle);
    cmd.bytes_out(UVERBS_ATTR_READ_COUNTERS_BUFF, values);
    cmd.number32(UVERBS_ATTR_READ_COUNTERS_FLAGS, flags);
    cmd.append(prepared);
    cmd.execute(file)
}

/// Destroys a set of counters; EBUSY while a flow uses it.
///
/// Path: ioctl COUNTERS_DESTROY only.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<()> {
    let attr = UVERBS_ATTR_DESTROY_COUNTERS_HANDLE;
    destroy::by_ioctl(file, UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, attr, handle)
}
