//! Completion queues.

use std::os::fd::RawFd;

use super::Udata;
use super::command::{Command, Path, Prepared, execute_legacy, execute_write, execute_write_ex};
use super::destroy::{self, Destroyed, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
};
use crate::errno::{Errno, Result};

/// A completion queue to be made.
#[derive(Clone, Copy, Debug)]
pub struct CreateCq {
    /// What events name the queue by: the address of the program's `ibv_cq`.
    pub user_handle: u64,
    /// Entries asked for.
    pub cqe: u32,
    /// Completion channel, or -1.
    pub comp_channel: RawFd,
    /// Completion vector.
    pub comp_vector: u32,
}

/// What `ibv_cq_init_attr_ex` asks beside [`CreateCq`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateCqEx {
    /// `IBV_CQ_INIT_ATTR_MASK_*`: which of the extensions count.
    pub comp_mask: u32,
    /// `IBV_WC_EX_WITH_*`: what polling is to tell.
    pub wc_flags: u64,
    /// `IBV_CREATE_CQ_ATTR_*`.
    pub flags: u32,
    /// The driver gives timestamps without being asked, so that a kernel without the ioctl method need not be
    /// asked through the extended command.
    pub timestamp_implied: bool,
    /// Memory for the entries that the provider brings; the driver's own else. No legacy command can say so.
    pub memory: CqMemory,
}

/// Where the entries of a completion queue lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CqMemory {
    /// Where the driver says.
    #[default]
    Drivers,
    /// `length` bytes at `address` of the process.
    Process {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// `length` bytes at `offset` of a dma-buf.
    Dmabuf {
        /// The dma-buf.
        fd: RawFd,
        /// First byte in it.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// A completion queue just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqCreated {
    /// Number of the queue.
    pub handle: u32,
    /// Entries given.
    pub cqe: u32,
}

/// Makes a completion queue.
///
/// Path: ioctl CQ_CREATE, else the legacy command.
pub fn create(file: &DeviceFile, request: &CreateCq, udata: Udata<'_>) -> Result<CqCreated> {
    create_with_flags(file, request, 0, &CreateCqEx::default(), udata, Prepared::none())
}

/// EOPNOTSUPP (without `errno`) for an unknown bit in `comp_mask`.
pub fn check_extensions(extensions: &CreateCqEx) -> Result<()> {
    let known = IBV_CQ_INIT_ATTR_MASK_FLAGS as u32 | IBV_CQ_INIT_ATTR_MASK_PD as u32;
    if extensions.comp_mask & !known != 0 { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// Makes a completion queue with extensions; EOPNOTSUPP (without `errno`) for an unknown bit in `comp_mask`.
/// `prepared` are the driver's attributes.
///
/// Path: ioctl CQ_CREATE, else the legacy command, the extended one where flags need it.
pub fn create_ex(
    file: &DeviceFile,
    request: &CreateCq,
    extensions: &CreateCqEx,
    udata: Udata<'_>,
    prepared: Prepared<'_>,
) -> Result<CqCreated> {
    check_extensions(extensions)?;
    let timestamps =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as u64 | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64;
    let mut flags = 0;
    if extensions.wc_flags & timestamps != 0 {
        flags |= IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
    }
    if extensions.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS as u32 != 0
        && extensions.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN as u32 != 0
    {
        flags |= IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
    }
    create_with_flags(file, request, flags, extensions, udata, prepared)
}

fn create_with_flags(
    file: &DeviceFile,
    request: &CreateCq,
    flags: u32,
    extensions: &CreateCqEx,
    udata: Udata<'_>,
    prepared: Prepared<'_>,
) -> Result<CqCreated> {
    let Udata { input, output } = udata;
    let mut cqe = 0_u32;
    let mut cmd = Command::<13>::new(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_CQ_HANDLE);
    cmd.value_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &mut cqe);
    cmd.number32(UVERBS_ATTR_CREATE_CQ_CQE, request.cqe);
    cmd.number(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, request.user_handle);
    cmd.file(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, request.comp_channel);
    cmd.number32(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, request.comp_vector);
    if file.is_imported() {
        cmd.file(UVERBS_ATTR_CREATE_CQ_EVENT_FD, file.async_fd());
        cmd.require_ioctl();
    } else {
        // A kernel that does not know this attribute sends the events to the file's own event file anyway.
        cmd.optional_file(UVERBS_ATTR_CREATE_CQ_EVENT_FD, file.async_fd());
    }
    match extensions.memory {
        CqMemory::Drivers => {}
        CqMemory::Process { address, length } => {
            cmd.number(UVERBS_ATTR_CREATE_CQ_BUFFER_VA, address);
            cmd.number(UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, length);
            cmd.require_ioctl();
        }
        CqMemory::Dmabuf { fd, offset, length } => {
            cmd.file(UVERBS_ATTR_CREATE_CQ_BUFFER_FD, fd);
            cmd.number(UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, offset);
            cmd.number(UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, length);
            cmd.require_ioctl();
        }
    }
    if flags != 0 {
        if flags & !IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION != 0 || !extensions.timestamp_implied {
            cmd.require_ex();
        }
        cmd.number32(UVERBS_ATTR_CREATE_CQ_FLAGS, flags);
    }
    cmd.driver(input, output);
    cmd.append(prepared);
    match cmd.execute_or_legacy(file, Method::CreateCq)? {
        Path::Ioctl => {
            let handle = cmd.created(handle);
            Ok(CqCreated { handle, cqe })
        }
        Path::Write => {
            let legacy = ib_uverbs_create_cq {
                user_handle: request.user_handle,
                cqe: request.cqe,
                comp_vector: request.comp_vector,
                comp_channel: request.comp_channel,
                ..Pod::zeroed()
            };
            let mut answer = ib_uverbs_create_cq_resp::default();
            let udata = Udata { input, output };
            execute_write(file, IB_USER_VERBS_CMD_CREATE_CQ, &legacy, &mut answer, udata)?;
            Ok(CqCreated { handle: answer.cq_handle, cqe: answer.cqe })
        }
        Path::WriteEx => {
            let legacy = ib_uverbs_ex_create_cq {
                user_handle: request.user_handle,
                cqe: request.cqe,
                comp_vector: request.comp_vector,
                comp_channel: request.comp_channel,
                flags,
                ..Pod::zeroed()
            };
            let mut answer = ib_uverbs_ex_create_cq_resp::default();
            let udata = Udata { input, output };
            execute_write_ex(file, IB_USER_VERBS_EX_CMD_CREATE_CQ, &legacy, &mut answer, udata)?;
            Ok(CqCreated { handle: answer.base.cq_handle, cqe: answer.base.cqe })
        }
    }
}

/// Changes the number of entries and returns how many there are now; EOPNOTSUPP where the driver cannot.
///
/// Path: legacy command.
pub fn resize(file: &DeviceFile, handle: u32, cqe: u32, udata: Udata<'_>) -> Result<u32> {
    let request = ib_uverbs_resize_cq { cq_handle: handle, cqe, ..Pod::zeroed() };
    let mut answer = ib_uverbs_resize_cq_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_RESIZE_CQ, &request, &mut answer, udata)?;
    Ok(answer.cqe)
}

/// Takes up to `max` completions from the kernel, for drivers whose queues are not mapped, and gives each to
/// `take`; returns how many there were. A failure leaves its error in `errno`.
///
/// Path: legacy command.
pub fn poll(
    file: &DeviceFile,
    handle: u32,
    max: usize,
    mut take: impl FnMut(usize, &ib_uverbs_wc),
) -> Result<usize> {
    const HEADER: usize = size_of::<ib_uverbs_poll_cq_resp>();
    const ENTRY: usize = size_of::<ib_uverbs_wc>();
    let size = max.checked_mul(ENTRY).and_then(|size| size.checked_add(HEADER));
    let size = size.ok_or_else(|| Errno::ENOMEM.also_set())?;
    let mut answer = Vec::<u8>::new();
    answer.try_reserve_exact(size).map_err(|_| Errno::ENOMEM.also_set())?;
    answer.resize(size, 0);
    let request = ib_uverbs_poll_cq { cq_handle: handle, ne: max as u32, ..Pod::zeroed() };
    execute_legacy(file, IB_USER_VERBS_CMD_POLL_CQ, request.as_bytes(), &mut answer, Udata::none())?;
    let (header, entries) = answer.split_at(HEADER);
    let count = ib_uverbs_poll_cq_resp::read_from(header).map_or(0, |header| header.count as usize).min(max);
    for (at, entry) in entries.chunks_exact(ENTRY).take(count).enumerate() {
        if let Some(entry) = ib_uverbs_wc::read_from(entry) {
            take(at, &entry);
        }
    }
    Ok(count)
}

/// Asks for an event in the completion channel at the next completion, or the next solicited one.
///
/// Path: legacy command.
pub fn req_notify(file: &DeviceFile, handle: u32, solicited_only: bool) -> Result<()> {
    let request = ib_uverbs_req_notify_cq { cq_handle: handle, solicited_only: u32::from(solicited_only) };
    execute_write(file, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &request, &mut (), Udata::none())
}

/// Sets completion moderation: an event after `cq_count` completions or `cq_period` microseconds.
///
/// Path: legacy command, extended.
pub fn modify(
    file: &DeviceFile,
    handle: u32,
    attr_mask: u32,
    cq_count: u16,
    cq_period: u16,
    udata: Udata<'_>,
) -> Result<()> {
    let request = ib_uverbs_ex_modify_cq {
        cq_handle: handle,
        attr_mask,
        attr: ib_uverbs_cq_moderation { cq_count, cq_period },
        ..Pod::zeroed()
    };
    execute_write_ex(file, IB_USER_VERBS_EX_CMD_MODIFY_CQ, &request, &mut (), udata)
}

/// Destroys a completion queue; EBUSY while a queue pair uses it. The caller waits until the program has
/// acknowledged the reported events.
///
/// Path: ioctl CQ_DESTROY, else the legacy command.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<Destroyed<ib_uverbs_destroy_cq_resp>> {
    const KIND: Kind = Kind {
        method: Method::DestroyCq,
        object_id: UVERBS_OBJECT_CQ,
        method_id: UVERBS_METHOD_CQ_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_CQ_HANDLE,
        command: IB_USER_VERBS_CMD_DESTROY_CQ,
    };
    destroy::reporting(file, &KIND, UVERBS_ATTR_DESTROY_CQ_RESP, handle)
}
