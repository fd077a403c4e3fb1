//! Memory regions.

use core::ffi::c_int;
use std::os::fd::RawFd;

use super::Udata;
use super::command::{Command, Path, Prepared, execute_write};
use super::destroy::{self, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::IB_UVERBS_ACCESS_ON_DEMAND;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::IBV_REREG_MR_CHANGE_PD;
use crate::errno::{Errno, Result};

/// A region to be registered: `length` bytes from `start`, which peers reach at addresses from `iova`.
#[derive(Clone, Copy, Debug)]
pub struct RegMr {
    /// Number of the protection domain.
    pub pd: u32,
    /// First byte, in this process.
    pub start: usize,
    /// Bytes.
    pub length: usize,
    /// Address of the first byte as work requests name it.
    pub iova: u64,
    /// `IB_UVERBS_ACCESS_*` bits.
    pub access: c_int,
}

/// The kernel's side of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Number of the region.
    pub handle: u32,
    /// Key for local use.
    pub lkey: u32,
    /// Key for peers.
    pub rkey: u32,
}

/// Registers memory.
///
/// On-demand access with a length of `usize::MAX` asks for the whole address space; with an address other than
/// 0 that is EINVAL (`errno` set).
///
/// Path: legacy command.
pub fn reg(file: &DeviceFile, region: &RegMr, udata: Udata<'_>) -> Result<Region> {
    let on_demand = region.access as u32 & IB_UVERBS_ACCESS_ON_DEMAND != 0;
    if on_demand && region.length == usize::MAX && region.start != 0 {
        return Err(Errno::EINVAL.also_set());
    }
    let request = ib_uverbs_reg_mr {
        start: region.start as u64,
        length: region.length as u64,
        hca_va: region.iova,
        pd_handle: region.pd,
        access_flags: region.access as u32,
        ..Pod::zeroed()
    };
    let mut answer = ib_uverbs_reg_mr_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_REG_MR, &request, &mut answer, udata)?;
    Ok(Region { handle: answer.mr_handle, lkey: answer.lkey, rkey: answer.rkey })
}

/// Registers `length` bytes at `offset` of the dma-buf `fd`. `prepared` are the driver's attributes.
///
/// Path: ioctl REG_DMABUF_MR only.
pub fn reg_dmabuf(
    file: &DeviceFile,
    pd: u32,
    offset: u64,
    length: u64,
    iova: u64,
    fd: RawFd,
    access: c_int,
    prepared: Prepared<'_>,
) -> Result<Region> {
    let (mut lkey, mut rkey) = (0_u32, 0_u32);
    let mut cmd = Command::<9>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
    let handle = cmd.object_out(UVERBS_ATTR_REG_DMABUF_MR_HANDLE);
    cmd.value_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mut lkey);
    cmd.value_out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mut rkey);
    cmd.object(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd);
    cmd.number(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset);
    cmd.number(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length);
    cmd.number(UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova);
    cmd.number32(UVERBS_ATTR_REG_DMABUF_MR_FD, fd as u32);
    cmd.number32(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access as u32);
    cmd.append(prepared);
    cmd.execute(file)?;
    let handle = cmd.created(handle);
    Ok(Region { handle, lkey, rkey })
}

/// What [`reg_ex`] registers.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// Memory of the process from this address on.
    Process(usize),
    /// A dma-buf from this offset on.
    Dmabuf(RawFd, u64),
}

/// Registers memory or a dma-buf with hints for direct memory access (a handle's number) by the method that
/// knows of them. EINVAL (`errno` set) for on-demand access as in [`reg`].
///
/// Path: ioctl REG_MR, else the legacy command for memory without hints, and EOPNOTSUPP (`errno` set).
pub fn reg_ex(file: &DeviceFile, region: &RegMr, memory: Memory, dmah: Option<u32>) -> Result<Region> {
    let mut length = region.length as u64;
    let (mut lkey, mut rkey) = (0_u32, 0_u32);
    let mut cmd = Command::<11>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_MR);
    match memory {
        Memory::Dmabuf(fd, offset) => {
            cmd.number(UVERBS_ATTR_REG_MR_FD_OFFSET, offset);
            cmd.file(UVERBS_ATTR_REG_MR_FD, fd);
        }
        Memory::Process(start) => {
            cmd.number(UVERBS_ATTR_REG_MR_ADDR, start as u64);
            if region.access as u32 & IB_UVERBS_ACCESS_ON_DEMAND != 0 && region.length == usize::MAX {
                if start != 0 {
                    return Err(Errno::EINVAL.also_set());
                }
                length = u64::MAX;
            }
        }
    }
    cmd.number(UVERBS_ATTR_REG_MR_IOVA, region.iova);
    let handle = cmd.object_out(UVERBS_ATTR_REG_MR_HANDLE);
    cmd.value_out(UVERBS_ATTR_REG_MR_RESP_LKEY, &mut lkey);
    cmd.value_out(UVERBS_ATTR_REG_MR_RESP_RKEY, &mut rkey);
    cmd.object(UVERBS_ATTR_REG_MR_PD_HANDLE, region.pd);
    cmd.number(UVERBS_ATTR_REG_MR_LENGTH, length);
    cmd.number32(UVERBS_ATTR_REG_MR_ACCESS_FLAGS, region.access as u32);
    if let Some(dmah) = dmah {
        cmd.object(UVERBS_ATTR_REG_MR_DMA_HANDLE, dmah);
    }
    match cmd.execute_or_legacy(file, Method::RegMr)? {
        Path::Ioctl => {
            let handle = cmd.created(handle);
            Ok(Region { handle, lkey, rkey })
        }
        Path::Write | Path::WriteEx => match (memory, dmah) {
            (Memory::Process(_), None) => reg(file, region, Udata::none()),
            _ => Err(Errno::EOPNOTSUPP.also_set()),
        },
    }
}

/// Changes translation, protection domain or rights, as `flags` (`IBV_REREG_MR_*`) say; the keys may change.
///
/// Path: legacy command.
pub fn rereg(file: &DeviceFile, handle: u32, flags: u32, change: &RegMr, udata: Udata<'_>) -> Result<Region> {
    let request = ib_uverbs_rereg_mr {
        mr_handle: handle,
        flags,
        start: change.start as u64,
        length: change.length as u64,
        hca_va: change.iova,
        pd_handle: if flags & IBV_REREG_MR_CHANGE_PD as u32 != 0 { change.pd } else { 0 },
        access_flags: change.access as u32,
        ..Pod::zeroed()
    };
    let mut answer = ib_uverbs_rereg_mr_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_REREG_MR, &request, &mut answer, udata)?;
    Ok(Region { handle, lkey: answer.lkey, rkey: answer.rkey })
}

/// Ends a registration; EBUSY while a memory window is bound to it.
///
/// Path: ioctl MR_DESTROY, else the legacy command.
pub fn dereg(file: &DeviceFile, handle: u32) -> Result<()> {
    const KIND: Kind = Kind {
        method: Method::DeregMr,
        object_id: UVERBS_OBJECT_MR,
        method_id: UVERBS_METHOD_MR_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_MR_HANDLE,
        command: IB_USER_VERBS_CMD_DEREG_MR,
    };
    destroy::plain(file, &KIND, handle)
}

/// Advises the kernel about the use of on-demand regions; `advice` is `IB_UVERBS_ADVISE_MR_ADVICE_*`.
///
/// Path: ioctl ADVISE_MR only.
pub fn advise(file: &DeviceFile, pd: u32, advice: u32, flags: u32, sg_list: &[ib_uverbs_sge]) -> Result<()> {
    // SAFETY: the entries have no padding, so all their bytes are initialised.
    let bytes = unsafe { core::slice::from_raw_parts(sg_list.as_ptr().cast::<u8>(), size_of_val(sg_list)) };
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
    cmd.object(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd);
    cmd.number(UVERBS_ATTR_ADVISE_MR_ADVICE, u64::from(advice));
    cmd.number32(UVERBS_ATTR_ADVISE_MR_FLAGS, flags);
    let _ = cmd.bytes(UVERBS_ATTR_ADVISE_MR_SGE_LIST, bytes);
    cmd.execute(file)
}

/// Keys and length (bytes) of a region that another process registered through the same file.
///
/// Path: ioctl QUERY_MR only.
pub fn query(file: &DeviceFile, handle: u32) -> Result<(Region, u64)> {
    let (mut lkey, mut rkey, mut length) = (0_u32, 0_u32, 0_u64);
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
    cmd.object(UVERBS_ATTR_QUERY_MR_HANDLE, handle);
    cmd.value_out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mut lkey);
    cmd.value_out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mut rkey);
    cmd.value_out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mut length);
    cmd.execute(file)?;
    Ok((Region { handle, lkey, rkey }, length))
}
