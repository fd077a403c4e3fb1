//! Work queues: receive queues that several queue pairs share through an indirection table.

use super::Udata;
use super::command::{Command, Path, execute_write_ex};
use super::destroy::{self, Destroyed};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::{
    IBV_WQ_ATTR_FLAGS, IBV_WQ_ATTR_RESERVED, IBV_WQ_FLAGS_RESERVED, IBV_WQ_INIT_ATTR_FLAGS,
    IBV_WQ_INIT_ATTR_RESERVED, ibv_wq_attr,
};
use crate::errno::{Errno, Result};

/// A work queue to be made.
#[derive(Clone, Copy, Debug)]
pub struct CreateWq {
    /// What events name the queue by: the address of the program's `ibv_wq`.
    pub user_handle: u64,
    /// `IBV_WQ_INIT_ATTR_*`: whether `create_flags` count.
    pub comp_mask: u32,
    /// `IBV_WQT_*`.
    pub wq_type: u32,
    /// Number of the protection domain.
    pub pd: u32,
    /// Number of the completion queue.
    pub cq: u32,
    /// Entries asked for.
    pub max_wr: u32,
    /// Scatter/gather entries per receive.
    pub max_sge: u32,
    /// `IBV_WQ_FLAGS_*`.
    pub create_flags: u32,
}

/// A work queue just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WqCreated {
    /// Number of the queue, between this process and the kernel.
    pub handle: u32,
    /// Number by which the device names it.
    pub wq_num: u32,
    /// Entries given.
    pub max_wr: u32,
    /// Scatter/gather entries given.
    pub max_sge: u32,
}

/// EINVAL (`errno` set) for an unknown bit in `comp_mask`. To be asked before anything is done.
pub fn check(comp_mask: u32) -> Result<()> {
    if comp_mask >= IBV_WQ_INIT_ATTR_RESERVED as u32 { Err(Errno::EINVAL.also_set()) } else { Ok(()) }
}

/// Makes a work queue; EOPNOTSUPP (`errno` set) for an unknown flag.
///
/// Path: ioctl WQ_CREATE, else the legacy command, extended.
pub fn create(file: &DeviceFile, request: &CreateWq, udata: Udata<'_>) -> Result<WqCreated> {
    let Udata { input, output } = udata;
    let mut flags = 0;
    if request.comp_mask & IBV_WQ_INIT_ATTR_FLAGS as u32 != 0 {
        if request.create_flags >= IBV_WQ_FLAGS_RESERVED as u32 {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        flags = request.create_flags;
    }
    let (mut max_wr, mut max_sge, mut wq_num) = (0_u32, 0_u32, 0_u32);
    let mut cmd = Command::<14>::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE);
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_WQ_HANDLE);
    cmd.number(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, request.user_handle);
    cmd.object(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, request.pd);
    cmd.object(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, request.cq);
    cmd.number(UVERBS_ATTR_CREATE_WQ_TYPE, u64::from(request.wq_type));
    cmd.number32(UVERBS_ATTR_CREATE_WQ_MAX_WR, request.max_wr);
    cmd.number32(UVERBS_ATTR_CREATE_WQ_MAX_SGE, request.max_sge);
    cmd.file(UVERBS_ATTR_CREATE_WQ_EVENT_FD, file.async_fd());
    cmd.number32(UVERBS_ATTR_CREATE_WQ_FLAGS, flags);
    cmd.value_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, &mut max_wr);
    cmd.value_out(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, &mut max_sge);
    cmd.value_out(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, &mut wq_num);
    if file.is_imported() {
        cmd.require_ioctl();
    }
    cmd.driver(input, output);
    if let Path::Ioctl = cmd.execute_or_legacy(file, Method::CreateWq)? {
        let handle = cmd.created(handle);
        return Ok(WqCreated { handle, wq_num, max_wr, max_sge });
    }
    let legacy = ib_uverbs_ex_create_wq {
        wq_type: request.wq_type,
        user_handle: request.user_handle,
        pd_handle: request.pd,
        cq_handle: request.cq,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        create_flags: request.create_flags,
        ..Pod::zeroed()
    };
    let mut answer = ib_uverbs_ex_create_wq_resp::default();
    let udata = Udata { input, output };
    execute_write_ex(file, IB_USER_VERBS_EX_CMD_CREATE_WQ, &legacy, &mut answer, udata)?;
    Ok(WqCreated {
        handle: answer.wq_handle,
        wq_num: answer.wqn,
        max_wr: answer.max_wr,
        max_sge: answer.max_sge,
    })
}

/// Moves a work queue between its states, or changes flags. EINVAL for an unknown bit in `attr_mask`,
/// EOPNOTSUPP for an unknown flag; neither sets `errno`.
///
/// Path: legacy command, extended.
pub fn modify(file: &DeviceFile, handle: u32, attr: &ibv_wq_attr, udata: Udata<'_>) -> Result<()> {
    if attr.attr_mask >= IBV_WQ_ATTR_RESERVED as u32 {
        return Err(Errno::EINVAL);
    }
    let mut request = ib_uverbs_ex_modify_wq {
        attr_mask: attr.attr_mask,
        wq_handle: handle,
        wq_state: attr.wq_state,
        curr_wq_state: attr.curr_wq_state,
        ..Pod::zeroed()
    };
    if attr.attr_mask & IBV_WQ_ATTR_FLAGS as u32 != 0 {
        if attr.flags_mask >= IBV_WQ_FLAGS_RESERVED as u32 {
            return Err(Errno::EOPNOTSUPP);
        }
        request.flags = attr.flags;
        request.flags_mask = attr.flags_mask;
    }
    execute_write_ex(file, IB_USER_VERBS_EX_CMD_MODIFY_WQ, &request, &mut (), udata)
}

/// Destroys a work queue; EBUSY while a table names it. Reports how many events there were; the caller waits
/// until the program has acknowledged them.
///
/// Path: ioctl WQ_DESTROY, else the legacy command, extended.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<Destroyed<u32>> {
    let mut events = 0_u32;
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY);
    cmd.value_out(UVERBS_ATTR_DESTROY_WQ_RESP, &mut events);
    cmd.object(UVERBS_ATTR_DESTROY_WQ_HANDLE, handle);
    let done = match cmd.execute_or_legacy(file, Method::DestroyWq) {
        Ok(Path::Ioctl) => Ok(events),
        Ok(_) => {
            let request = ib_uverbs_ex_destroy_wq { comp_mask: 0, wq_handle: handle };
            let mut answer = ib_uverbs_ex_destroy_wq_resp::default();
            let command = IB_USER_VERBS_EX_CMD_DESTROY_WQ;
            execute_write_ex(file, command, &request, &mut answer, Udata::none())
                .map(|()| answer.events_reported)
        }
        Err(errno) => Err(errno),
    };
    destroy::reported(done)
}
