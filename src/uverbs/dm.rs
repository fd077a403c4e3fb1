//! Device memory.

use std::os::fd::RawFd;

use super::command::{Command, Prepared};
use super::destroy;
use super::device_file::DeviceFile;
use super::mr::Region;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::IB_UVERBS_ACCESS_ZERO_BASED;
use crate::errno::{Errno, Result};

/// Takes `length` bytes of the device's memory, aligned to 2 to the power of `log_align`, and returns their
/// number.
///
/// Path: ioctl DM_ALLOC only.
pub fn alloc(file: &DeviceFile, length: u64, log_align: u32, prepared: Prepared<'_>) -> Result<u32> {
    let mut cmd = Command::<3>::new(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
    let handle = cmd.object_out(UVERBS_ATTR_ALLOC_DM_HANDLE);
    cmd.number(UVERBS_ATTR_ALLOC_DM_LENGTH, length);
    cmd.number32(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, log_align);
    cmd.append(prepared);
    cmd.execute(file)?;
    Ok(cmd.created(handle))
}

/// Gives device memory back; EBUSY while a region is registered in it.
///
/// Path: ioctl DM_FREE only.
pub fn free(file: &DeviceFile, handle: u32) -> Result<()> {
    destroy::by_ioctl(file, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, UVERBS_ATTR_FREE_DM_HANDLE, handle)
}

/// Registers `length` bytes from `offset` of device memory. The addresses of such a region start at 0, and
/// `access` must say so (EINVAL, `errno` set).
///
/// Path: ioctl DM_MR_REG only.
pub fn reg_mr(
    file: &DeviceFile,
    pd: u32,
    dm: u32,
    offset: u64,
    length: u64,
    access: u32,
    prepared: Prepared<'_>,
) -> Result<Region> {
    if access & IB_UVERBS_ACCESS_ZERO_BASED == 0 {
        return Err(Errno::EINVAL.also_set());
    }
    let (mut lkey, mut rkey) = (0_u32, 0_u32);
    let mut cmd = Command::<8>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
    let handle = cmd.object_out(UVERBS_ATTR_REG_DM_MR_HANDLE);
    cmd.value_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &mut lkey);
    cmd.value_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &mut rkey);
    cmd.object(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd);
    cmd.object(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm);
    cmd.number(UVERBS_ATTR_REG_DM_MR_OFFSET, offset);
    cmd.number(UVERBS_ATTR_REG_DM_MR_LENGTH, length);
    cmd.number32(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, access);
    cmd.append(prepared);
    cmd.execute(file)?;
    let handle = cmd.created(handle);
    Ok(Region { handle, lkey, rkey })
}

/// Opens the mapping of device memory at a page offset (bytes) of the device file as a dma-buf.
///
/// Path: ioctl DMABUF_ALLOC only.
pub fn export_dmabuf(file: &DeviceFile, page_offset: u64) -> Result<RawFd> {
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_DMABUF, UVERBS_METHOD_DMABUF_ALLOC);
    let opened = cmd.file_out(UVERBS_ATTR_ALLOC_DMABUF_HANDLE);
    cmd.number(UVERBS_ATTR_ALLOC_DMABUF_PGOFF, page_offset);
    cmd.execute(file)?;
    Ok(cmd.opened(opened))
}
