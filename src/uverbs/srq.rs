//! Shared receive queues.

use super::Udata;
use super::command::{Command, Path, execute_write};
use super::destroy::{self, Destroyed, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::{IB_UVERBS_SRQT_BASIC, IB_UVERBS_SRQT_TM, IB_UVERBS_SRQT_XRC};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::{
    IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_RESERVED, IBV_SRQ_INIT_ATTR_TM,
    IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_INIT_ATTR_XRCD, ibv_srq_attr,
};
use crate::errno::{Errno, Result};

/// A shared receive queue to be made.
#[derive(Clone, Copy, Debug)]
pub struct CreateSrq {
    /// What events name the queue by: the address of the program's `ibv_srq`.
    pub user_handle: u64,
    /// Number of the protection domain.
    pub pd: u32,
    /// Entries asked for.
    pub max_wr: u32,
    /// Scatter/gather entries per receive.
    pub max_sge: u32,
    /// Fill level below which an event is due.
    pub srq_limit: u32,
}

/// What `ibv_srq_init_attr_ex` asks beside [`CreateSrq`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateSrqEx {
    /// `IBV_SRQ_INIT_ATTR_*`: which of the extensions count.
    pub comp_mask: u32,
    /// `IBV_SRQT_*`.
    pub srq_type: u32,
    /// Number of the XRC domain.
    pub xrcd: u32,
    /// Number of the completion queue of an XRC or tag-matching queue.
    pub cq: u32,
    /// Tags of a tag-matching queue.
    pub max_num_tags: u32,
}

impl CreateSrqEx {
    /// The type that counts: basic unless `comp_mask` says that there is another.
    #[must_use]
    pub fn effective_type(&self) -> u32 {
        if self.comp_mask & IBV_SRQ_INIT_ATTR_TYPE as u32 != 0 { self.srq_type } else { IB_UVERBS_SRQT_BASIC }
    }
}

/// A shared receive queue just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqCreated {
    /// Number of the queue, between this process and the kernel.
    pub handle: u32,
    /// Entries given.
    pub max_wr: u32,
    /// Scatter/gather entries given.
    pub max_sge: u32,
    /// Number by which XRC peers name the queue; 0 for other types.
    pub srq_num: u32,
}

/// Makes a basic shared receive queue.
///
/// Path: ioctl SRQ_CREATE, else the legacy command.
pub fn create(file: &DeviceFile, request: &CreateSrq, udata: Udata<'_>) -> Result<SrqCreated> {
    create_typed(file, request, &CreateSrqEx::default(), udata)
}

/// EOPNOTSUPP for an unknown bit in `comp_mask`, EINVAL without a protection domain; both set `errno`.
pub fn check_extensions(extensions: &CreateSrqEx) -> Result<()> {
    if extensions.comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED as u32 {
        return Err(Errno::EOPNOTSUPP.also_set());
    }
    if extensions.comp_mask & IBV_SRQ_INIT_ATTR_PD as u32 == 0 {
        return Err(Errno::EINVAL.also_set());
    }
    Ok(())
}

/// Makes a shared receive queue of any type.
///
/// EOPNOTSUPP for an unknown bit in `comp_mask`; EINVAL without a protection domain, or for a type whose
/// objects are missing. All of these set `errno`.
///
/// Path: ioctl SRQ_CREATE, else the legacy CREATE_SRQ (basic) or CREATE_XSRQ.
pub fn create_ex(
    file: &DeviceFile,
    request: &CreateSrq,
    extensions: &CreateSrqEx,
    udata: Udata<'_>,
) -> Result<SrqCreated> {
    check_extensions(extensions)?;
    create_typed(file, request, extensions, udata)
}

fn create_typed(
    file: &DeviceFile,
    request: &CreateSrq,
    extensions: &CreateSrqEx,
    udata: Udata<'_>,
) -> Result<SrqCreated> {
    let Udata { input, output } = udata;
    let has = |bit: u32| extensions.comp_mask & bit != 0;
    let srq_type = extensions.effective_type();
    let (mut max_wr, mut max_sge, mut srq_num) = (0_u32, 0_u32, 0_u32);
    let mut cmd = Command::<15>::new(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE);
    match srq_type {
        IB_UVERBS_SRQT_XRC => {
            if !has(IBV_SRQ_INIT_ATTR_XRCD as u32) || !has(IBV_SRQ_INIT_ATTR_CQ as u32) {
                return Err(Errno::EINVAL.also_set());
            }
            cmd.object(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, extensions.xrcd);
            cmd.object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, extensions.cq);
            cmd.value_out(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &mut srq_num);
        }
        IB_UVERBS_SRQT_TM => {
            if !has(IBV_SRQ_INIT_ATTR_CQ as u32)
                || !has(IBV_SRQ_INIT_ATTR_TM as u32)
                || extensions.max_num_tags == 0
            {
                return Err(Errno::EINVAL.also_set());
            }
            cmd.object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, extensions.cq);
            cmd.number32(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, extensions.max_num_tags);
        }
        _ => {}
    }
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_SRQ_HANDLE);
    cmd.number(UVERBS_ATTR_CREATE_SRQ_TYPE, u64::from(srq_type));
    cmd.number(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, request.user_handle);
    cmd.object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, request.pd);
    cmd.number32(UVERBS_ATTR_CREATE_SRQ_MAX_WR, request.max_wr);
    cmd.number32(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, request.max_sge);
    cmd.number32(UVERBS_ATTR_CREATE_SRQ_LIMIT, request.srq_limit);
    cmd.file(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, file.async_fd());
    cmd.value_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &mut max_wr);
    cmd.value_out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &mut max_sge);
    if file.is_imported() {
        cmd.require_ioctl();
    }
    cmd.driver(input, output);
    if let Path::Ioctl = cmd.execute_or_legacy(file, Method::CreateSrq)? {
        let handle = cmd.created(handle);
        return Ok(SrqCreated { handle, max_wr, max_sge, srq_num });
    }

    let udata = Udata { input, output };
    let mut answer = ib_uverbs_create_srq_resp::default();
    if srq_type == IB_UVERBS_SRQT_BASIC {
        let legacy = ib_uverbs_create_srq {
            user_handle: request.user_handle,
            pd_handle: request.pd,
            max_wr: request.max_wr,
            max_sge: request.max_sge,
            srq_limit: request.srq_limit,
            ..Pod::zeroed()
        };
        execute_write(file, IB_USER_VERBS_CMD_CREATE_SRQ, &legacy, &mut answer, udata)?;
        answer.srqn = 0;
    } else {
        let tag_matching = srq_type == IB_UVERBS_SRQT_TM;
        let legacy = ib_uverbs_create_xsrq {
            user_handle: request.user_handle,
            srq_type,
            pd_handle: request.pd,
            max_wr: request.max_wr,
            max_sge: request.max_sge,
            srq_limit: request.srq_limit,
            max_num_tags: if tag_matching { extensions.max_num_tags } else { 0 },
            xrcd_handle: if tag_matching { 0 } else { extensions.xrcd },
            cq_handle: extensions.cq,
            ..Pod::zeroed()
        };
        execute_write(file, IB_USER_VERBS_CMD_CREATE_XSRQ, &legacy, &mut answer, udata)?;
    }
    Ok(SrqCreated {
        handle: answer.srq_handle,
        max_wr: answer.max_wr,
        max_sge: answer.max_sge,
        srq_num: answer.srqn,
    })
}

/// Resizes (`IBV_SRQ_MAX_WR`) or arms the limit event (`IBV_SRQ_LIMIT`).
///
/// Path: legacy command.
pub fn modify(
    file: &DeviceFile,
    handle: u32,
    attr: &ibv_srq_attr,
    attr_mask: u32,
    udata: Udata<'_>,
) -> Result<()> {
    let request = ib_uverbs_modify_srq {
        srq_handle: handle,
        attr_mask,
        max_wr: attr.max_wr,
        srq_limit: attr.srq_limit,
    };
    execute_write(file, IB_USER_VERBS_CMD_MODIFY_SRQ, &request, &mut (), udata)
}

/// Capacities and limit.
///
/// Path: legacy command.
pub fn query(file: &DeviceFile, handle: u32, udata: Udata<'_>) -> Result<ibv_srq_attr> {
    let request = ib_uverbs_query_srq { srq_handle: handle, ..Pod::zeroed() };
    let mut answer = ib_uverbs_query_srq_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_QUERY_SRQ, &request, &mut answer, udata)?;
    Ok(ibv_srq_attr { max_wr: answer.max_wr, max_sge: answer.max_sge, srq_limit: answer.srq_limit })
}

/// Destroys a shared receive queue; EBUSY while a queue pair uses it. The caller waits until the program has
/// acknowledged the reported events.
///
/// Path: ioctl SRQ_DESTROY, else the legacy command.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<Destroyed<ib_uverbs_destroy_srq_resp>> {
    const KIND: Kind = Kind {
        method: Method::DestroySrq,
        object_id: UVERBS_OBJECT_SRQ,
        method_id: UVERBS_METHOD_SRQ_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_SRQ_HANDLE,
        command: IB_USER_VERBS_CMD_DESTROY_SRQ,
    };
    destroy::reporting(file, &KIND, UVERBS_ATTR_DESTROY_SRQ_RESP, handle)
}
