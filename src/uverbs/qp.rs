//! Queue pairs.

use core::ffi::{c_int, c_long};
use std::os::fd::RawFd;

use super::Udata;
use super::ah::gid_bytes;
use super::command::{Command, Path, Prepared, execute_write, execute_write_ex};
use super::destroy::{self, Destroyed, Kind};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::*;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};

/// A queue pair to be made. Objects are named by their numbers; `None` where the program gave a null pointer.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateQp {
    /// What events name the queue pair by: the address of the program's `ibv_qp`.
    pub user_handle: u64,
    /// `IBV_QP_INIT_ATTR_*`: which of the fields of the extended attributes count.
    pub comp_mask: u32,
    /// `IBV_QPT_*`.
    pub qp_type: u32,
    /// Protection domain.
    pub pd: Option<u32>,
    /// XRC domain.
    pub xrcd: Option<u32>,
    /// Completion queue of sends.
    pub send_cq: Option<u32>,
    /// Completion queue of receives.
    pub recv_cq: Option<u32>,
    /// Shared receive queue.
    pub srq: Option<u32>,
    /// Receive work queue indirection table.
    pub rwq_ind_tbl: Option<u32>,
    /// Whether every send makes a completion.
    pub sq_sig_all: bool,
    /// `IBV_QP_CREATE_*`.
    pub create_flags: u32,
    /// Source queue pair number that a UD queue pair pretends to have.
    pub source_qpn: u32,
}

/// A queue pair just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCreated {
    /// Number of the queue pair, between this process and the kernel.
    pub handle: u32,
    /// Number by which peers name it, 24 bits.
    pub qp_num: u32,
}

const KNOWN_CREATE_FLAGS: u32 = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB as u32
    | IBV_QP_CREATE_SCATTER_FCS as u32
    | IBV_QP_CREATE_CVLAN_STRIPPING as u32
    | IBV_QP_CREATE_SOURCE_QPN as u32
    | IBV_QP_CREATE_PCI_WRITE_END_PADDING as u32;

const EX_ATTRIBUTES: u32 =
    IBV_QP_INIT_ATTR_PD as u32 | IBV_QP_INIT_ATTR_XRCD as u32 | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS as u32;

const EX2_ATTRIBUTES: u32 = EX_ATTRIBUTES
    | IBV_QP_INIT_ATTR_CREATE_FLAGS as u32
    | IBV_QP_INIT_ATTR_MAX_TSO_HEADER as u32
    | IBV_QP_INIT_ATTR_IND_TABLE as u32
    | IBV_QP_INIT_ATTR_RX_HASH as u32;

/// The attributes from here on need the extended commands.
const BASIC_ATTRIBUTES: c_int = IBV_QP_RATE_LIMIT as c_int - 1;

/// Makes a queue pair of the basic kinds; `request.comp_mask` is ignored. `cap` gets the sizes given.
///
/// EINVAL (`errno` set) for a kind that takes other arguments, or without the objects that the kind needs.
///
/// Path: ioctl QP_CREATE, else the legacy command.
pub fn create(
    file: &DeviceFile,
    request: &CreateQp,
    cap: &mut ibv_qp_cap,
    udata: Udata<'_>,
) -> Result<QpCreated> {
    let request = CreateQp { comp_mask: IBV_QP_INIT_ATTR_PD as u32, ..*request };
    // A failure leaves the program's sizes alone.
    let mut given = *cap;
    let created = create_kind(file, &request, &mut given, udata, Prepared::none())?;
    *cap = given;
    Ok(created)
}

/// Makes a queue pair with protection domain or XRC domain; EINVAL (`errno` set) for any other bit in
/// `comp_mask`.
///
/// Otherwise as [`create_ex2`].
pub fn create_ex(
    file: &DeviceFile,
    request: &CreateQp,
    cap: &mut ibv_qp_cap,
    udata: Udata<'_>,
) -> Result<QpCreated> {
    check_comp_mask(request.comp_mask, EX_ATTRIBUTES)?;
    create_kind(file, request, cap, udata, Prepared::none())
}

/// Makes a queue pair with all extended attributes. `cap` gets the sizes given; the receive sizes of an XRC
/// sender become 0 even if the command fails.
///
/// EINVAL (`errno` set) for an unknown bit in `comp_mask` or `create_flags`, for an unknown kind, or without
/// the objects that the kind needs. `prepared` are the driver's attributes.
///
/// Path: ioctl QP_CREATE, else the legacy command, the extended one for an indirection table or create flags.
pub fn create_ex2(
    file: &DeviceFile,
    request: &CreateQp,
    cap: &mut ibv_qp_cap,
    udata: Udata<'_>,
    prepared: Prepared<'_>,
) -> Result<QpCreated> {
    check_comp_mask(request.comp_mask, EX2_ATTRIBUTES)?;
    create_kind(file, request, cap, udata, prepared)
}

fn check_comp_mask(comp_mask: u32, known: u32) -> Result<()> {
    if comp_mask & !known != 0 { Err(Errno::EINVAL.also_set()) } else { Ok(()) }
}

/// The numbers of the objects that a queue pair is made of, as its kind demands.
#[derive(Default)]
struct Parts {
    pd: u32,
    send_cq: Option<u32>,
    recv_cq: Option<u32>,
}

fn create_kind(
    file: &DeviceFile,
    request: &CreateQp,
    cap: &mut ibv_qp_cap,
    udata: Udata<'_>,
    prepared: Prepared<'_>,
) -> Result<QpCreated> {
    let Udata { input, output } = udata;
    let has = |bit: u32| request.comp_mask & bit != 0;
    let need = |object: Option<u32>| object.ok_or_else(|| Errno::EINVAL.also_set());
    let mut parts = Parts::default();
    let mut create_flags = 0;
    let mut given = ib_uverbs_qp_cap::default();
    let mut qp_num = 0_u32;

    let mut cmd = Command::<17>::new(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
    match request.qp_type {
        IB_UVERBS_QPT_XRC_TGT => {
            if !has(IBV_QP_INIT_ATTR_XRCD as u32) {
                return Err(Errno::EINVAL.also_set());
            }
            parts.pd = need(request.xrcd)?;
            cmd.object(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, parts.pd);
        }
        IB_UVERBS_QPT_RC
        | IB_UVERBS_QPT_UD
        | IB_UVERBS_QPT_UC
        | IB_UVERBS_QPT_RAW_PACKET
        | IB_UVERBS_QPT_XRC_INI
        | IB_UVERBS_QPT_DRIVER => {
            if !has(IBV_QP_INIT_ATTR_PD as u32) {
                return Err(Errno::EINVAL.also_set());
            }
            parts.pd = need(request.pd)?;
            cmd.object(UVERBS_ATTR_CREATE_QP_PD_HANDLE, parts.pd);
            if has(IBV_QP_INIT_ATTR_IND_TABLE as u32) {
                if cap.max_recv_wr != 0
                    || cap.max_recv_sge != 0
                    || request.recv_cq.is_some()
                    || request.srq.is_some()
                {
                    return Err(Errno::EINVAL.also_set());
                }
                cmd.require_ex();
                cmd.object(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, need(request.rwq_ind_tbl)?);
                if cap.max_send_wr != 0 {
                    parts.send_cq = Some(need(request.send_cq)?);
                }
            } else {
                parts.send_cq = Some(need(request.send_cq)?);
                if request.qp_type != IB_UVERBS_QPT_XRC_INI {
                    parts.recv_cq = Some(need(request.recv_cq)?);
                }
            }
            if let Some(send_cq) = parts.send_cq {
                cmd.object(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, send_cq);
            }
            if let Some(recv_cq) = parts.recv_cq {
                cmd.object(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, recv_cq);
            }
            if request.qp_type == IB_UVERBS_QPT_XRC_INI {
                cap.max_recv_wr = 0;
                cap.max_recv_sge = 0;
            }
        }
        _ => return Err(Errno::EINVAL.also_set()),
    }

    let wanted = ib_uverbs_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    };
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_QP_HANDLE);
    cmd.number(UVERBS_ATTR_CREATE_QP_TYPE, u64::from(request.qp_type));
    cmd.number(UVERBS_ATTR_CREATE_QP_USER_HANDLE, request.user_handle);
    cmd.value(UVERBS_ATTR_CREATE_QP_CAP, &wanted);
    cmd.file(UVERBS_ATTR_CREATE_QP_EVENT_FD, file.async_fd());
    if file.is_imported() {
        cmd.require_ioctl();
    }
    if request.sq_sig_all {
        create_flags |= IB_UVERBS_QP_CREATE_SQ_SIG_ALL;
    }
    if has(IBV_QP_INIT_ATTR_CREATE_FLAGS as u32) {
        if request.create_flags & !KNOWN_CREATE_FLAGS != 0 {
            return Err(Errno::EINVAL.also_set());
        }
        cmd.require_ex();
        create_flags |= request.create_flags;
        if request.create_flags & IBV_QP_CREATE_SOURCE_QPN as u32 != 0 {
            // The presence of the attribute is the flag.
            cmd.number32(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, request.source_qpn);
            create_flags &= !(IBV_QP_CREATE_SOURCE_QPN as u32);
        }
    }
    if create_flags != 0 {
        cmd.number32(UVERBS_ATTR_CREATE_QP_FLAGS, create_flags);
    }
    if let Some(srq) = request.srq {
        cmd.object(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq);
    }
    cmd.value_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &mut given);
    cmd.value_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &mut qp_num);
    cmd.driver(input, output);
    cmd.append(prepared);
    match cmd.execute_or_legacy(file, Method::CreateQp)? {
        Path::Ioctl => {
            let handle = cmd.created(handle);
            *cap = ibv_qp_cap {
                max_send_wr: given.max_send_wr,
                max_recv_wr: given.max_recv_wr,
                max_send_sge: given.max_send_sge,
                max_recv_sge: given.max_recv_sge,
                max_inline_data: given.max_inline_data,
            };
            Ok(QpCreated { handle, qp_num })
        }
        Path::Write => {
            let legacy = legacy_request(request, &parts, &wanted);
            let mut answer = ib_uverbs_create_qp_resp::default();
            let udata = Udata { input, output };
            execute_write(file, IB_USER_VERBS_CMD_CREATE_QP, &legacy, &mut answer, udata)?;
            Ok(legacy_answer(&answer, cap))
        }
        Path::WriteEx => {
            let legacy = legacy_request_ex(request, &parts, &wanted);
            let mut answer = ib_uverbs_ex_create_qp_resp::default();
            let udata = Udata { input, output };
            execute_write_ex(file, IB_USER_VERBS_EX_CMD_CREATE_QP, &legacy, &mut answer, udata)?;
            Ok(legacy_answer(&answer.base, cap))
        }
    }
}

fn legacy_request(request: &CreateQp, parts: &Parts, cap: &ib_uverbs_qp_cap) -> ib_uverbs_create_qp {
    ib_uverbs_create_qp {
        user_handle: request.user_handle,
        pd_handle: parts.pd,
        send_cq_handle: parts.send_cq.unwrap_or(0),
        recv_cq_handle: parts.recv_cq.unwrap_or(0),
        srq_handle: request.srq.unwrap_or(0),
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
        sq_sig_all: u8::from(request.sq_sig_all),
        qp_type: request.qp_type as u8,
        is_srq: u8::from(request.srq.is_some()),
        ..Pod::zeroed()
    }
}

fn legacy_request_ex(request: &CreateQp, parts: &Parts, cap: &ib_uverbs_qp_cap) -> ib_uverbs_ex_create_qp {
    let mut legacy = ib_uverbs_ex_create_qp {
        user_handle: request.user_handle,
        pd_handle: parts.pd,
        send_cq_handle: parts.send_cq.unwrap_or(0),
        recv_cq_handle: parts.recv_cq.unwrap_or(0),
        srq_handle: request.srq.unwrap_or(0),
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
        sq_sig_all: u8::from(request.sq_sig_all),
        qp_type: request.qp_type as u8,
        is_srq: u8::from(request.srq.is_some()),
        ..Pod::zeroed()
    };
    if request.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS as u32 != 0 {
        legacy.create_flags = request.create_flags;
        if request.create_flags & IBV_QP_CREATE_SOURCE_QPN as u32 != 0 {
            legacy.source_qpn = request.source_qpn;
        }
    }
    if request.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE as u32 != 0 {
        legacy.rwq_ind_tbl_handle = request.rwq_ind_tbl.unwrap_or(0);
        legacy.comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
    }
    legacy
}

fn legacy_answer(answer: &ib_uverbs_create_qp_resp, cap: &mut ibv_qp_cap) -> QpCreated {
    *cap = ibv_qp_cap {
        max_send_wr: answer.max_send_wr,
        max_recv_wr: answer.max_recv_wr,
        max_send_sge: answer.max_send_sge,
        max_recv_sge: answer.max_recv_sge,
        max_inline_data: answer.max_inline_data,
    };
    QpCreated { handle: answer.qp_handle, qp_num: answer.qpn }
}

/// Opens a shareable XRC receive queue pair by its number and returns the number of our side of it.
///
/// EOPNOTSUPP for an unknown bit in `comp_mask`, EINVAL when domain, number or type is missing; neither sets
/// `errno`.
///
/// Path: legacy command.
pub fn open(
    file: &DeviceFile,
    comp_mask: u32,
    user_handle: u64,
    xrcd: u32,
    qp_num: u32,
    qp_type: u8,
    udata: Udata<'_>,
) -> Result<u32> {
    if comp_mask >= IBV_QP_OPEN_ATTR_RESERVED as u32 {
        return Err(Errno::EOPNOTSUPP);
    }
    let needed = IBV_QP_OPEN_ATTR_XRCD as u32 | IBV_QP_OPEN_ATTR_NUM as u32 | IBV_QP_OPEN_ATTR_TYPE as u32;
    if comp_mask & needed != needed {
        return Err(Errno::EINVAL);
    }
    let request = ib_uverbs_open_qp { user_handle, pd_handle: xrcd, qpn: qp_num, qp_type, ..Pod::zeroed() };
    let mut answer = ib_uverbs_create_qp_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_OPEN_QP, &request, &mut answer, udata)?;
    Ok(answer.qp_handle)
}

/// What a queue pair was made with, beside its attributes.
#[derive(Clone, Copy)]
pub struct QpQueried {
    /// Sizes.
    pub cap: ibv_qp_cap,
    /// Whether every send makes a completion: 0 or 1.
    pub sq_sig_all: c_int,
}

/// Reads the attributes of a queue pair into `attr`. The kernel gives all of them, whatever `attr_mask` says; a
/// bit from `IBV_QP_RATE_LIMIT` up is EOPNOTSUPP (without `errno`).
///
/// Path: legacy command.
pub fn query(
    file: &DeviceFile,
    handle: u32,
    attr: &mut ibv_qp_attr,
    attr_mask: c_int,
    udata: Udata<'_>,
) -> Result<QpQueried> {
    if attr_mask & !BASIC_ATTRIBUTES != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let request = ib_uverbs_query_qp { qp_handle: handle, attr_mask: attr_mask as u32, ..Pod::zeroed() };
    let mut answer = ib_uverbs_query_qp_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_QUERY_QP, &request, &mut answer, udata)?;

    attr.qkey = answer.qkey;
    attr.rq_psn = answer.rq_psn;
    attr.sq_psn = answer.sq_psn;
    attr.dest_qp_num = answer.dest_qp_num;
    attr.qp_access_flags = answer.qp_access_flags;
    attr.pkey_index = answer.pkey_index;
    attr.alt_pkey_index = answer.alt_pkey_index;
    attr.qp_state = answer.qp_state.into();
    attr.cur_qp_state = answer.cur_qp_state.into();
    attr.path_mtu = answer.path_mtu.into();
    attr.path_mig_state = answer.path_mig_state.into();
    attr.sq_draining = answer.sq_draining;
    attr.max_rd_atomic = answer.max_rd_atomic;
    attr.max_dest_rd_atomic = answer.max_dest_rd_atomic;
    attr.min_rnr_timer = answer.min_rnr_timer;
    attr.port_num = answer.port_num;
    attr.timeout = answer.timeout;
    attr.retry_cnt = answer.retry_cnt;
    attr.rnr_retry = answer.rnr_retry;
    attr.alt_port_num = answer.alt_port_num;
    attr.alt_timeout = answer.alt_timeout;
    let cap = ibv_qp_cap {
        max_send_wr: answer.max_send_wr,
        max_recv_wr: answer.max_recv_wr,
        max_send_sge: answer.max_send_sge,
        max_recv_sge: answer.max_recv_sge,
        max_inline_data: answer.max_inline_data,
    };
    attr.cap = cap;
    path_from_kernel(&mut attr.ah_attr, &answer.dest);
    path_from_kernel(&mut attr.alt_ah_attr, &answer.alt_dest);
    Ok(QpQueried { cap, sq_sig_all: answer.sq_sig_all.into() })
}

fn path_from_kernel(path: &mut ibv_ah_attr, dest: &ib_uverbs_qp_dest) {
    path.grh.dgid = ibv_gid { raw: dest.dgid };
    path.grh.flow_label = dest.flow_label;
    path.grh.sgid_index = dest.sgid_index;
    path.grh.hop_limit = dest.hop_limit;
    path.grh.traffic_class = dest.traffic_class;
    path.dlid = dest.dlid;
    path.sl = dest.sl;
    path.src_path_bits = dest.src_path_bits;
    path.static_rate = dest.static_rate;
    path.is_global = dest.is_global;
    path.port_num = dest.port_num;
}

fn path_to_kernel(path: &ibv_ah_attr) -> ib_uverbs_qp_dest {
    ib_uverbs_qp_dest {
        dgid: gid_bytes(&path.grh.dgid),
        flow_label: path.grh.flow_label,
        dlid: path.dlid,
        reserved: 0,
        sgid_index: path.grh.sgid_index,
        hop_limit: path.grh.hop_limit,
        traffic_class: path.grh.traffic_class,
        sl: path.sl,
        src_path_bits: path.src_path_bits,
        static_rate: path.static_rate,
        is_global: path.is_global,
        port_num: path.port_num,
    }
}

/// The attributes that `attr_mask` names, for MODIFY_QP; the others are 0.
fn modify_request(handle: u32, attr: &ibv_qp_attr, attr_mask: c_int) -> ib_uverbs_modify_qp {
    macro_rules! masked {
        ($bit:ident, $value:expr) => {
            if attr_mask & $bit as c_int != 0 { $value } else { Pod::zeroed() }
        };
    }
    ib_uverbs_modify_qp {
        dest: masked!(IBV_QP_AV, path_to_kernel(&attr.ah_attr)),
        alt_dest: masked!(IBV_QP_ALT_PATH, path_to_kernel(&attr.alt_ah_attr)),
        qp_handle: handle,
        attr_mask: attr_mask as u32,
        qkey: masked!(IBV_QP_QKEY, attr.qkey),
        rq_psn: masked!(IBV_QP_RQ_PSN, attr.rq_psn),
        sq_psn: masked!(IBV_QP_SQ_PSN, attr.sq_psn),
        dest_qp_num: masked!(IBV_QP_DEST_QPN, attr.dest_qp_num),
        qp_access_flags: masked!(IBV_QP_ACCESS_FLAGS, attr.qp_access_flags),
        pkey_index: masked!(IBV_QP_PKEY_INDEX, attr.pkey_index),
        alt_pkey_index: masked!(IBV_QP_ALT_PATH, attr.alt_pkey_index),
        qp_state: masked!(IBV_QP_STATE, attr.qp_state as u8),
        cur_qp_state: masked!(IBV_QP_CUR_STATE, attr.cur_qp_state as u8),
        path_mtu: masked!(IBV_QP_PATH_MTU, attr.path_mtu as u8),
        path_mig_state: masked!(IBV_QP_PATH_MIG_STATE, attr.path_mig_state as u8),
        en_sqd_async_notify: masked!(IBV_QP_EN_SQD_ASYNC_NOTIFY, attr.en_sqd_async_notify),
        max_rd_atomic: masked!(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic),
        max_dest_rd_atomic: masked!(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic),
        min_rnr_timer: masked!(IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer),
        port_num: masked!(IBV_QP_PORT, attr.port_num),
        timeout: masked!(IBV_QP_TIMEOUT, attr.timeout),
        retry_cnt: masked!(IBV_QP_RETRY_CNT, attr.retry_cnt),
        rnr_retry: masked!(IBV_QP_RNR_RETRY, attr.rnr_retry),
        alt_port_num: masked!(IBV_QP_ALT_PATH, attr.alt_port_num),
        alt_timeout: masked!(IBV_QP_ALT_PATH, attr.alt_timeout),
        reserved: [0; 2],
    }
}

/// Sets attributes and moves the queue pair through its states; a bit from `IBV_QP_RATE_LIMIT` up is EOPNOTSUPP
/// (without `errno`).
///
/// Path: legacy command.
pub fn modify(
    file: &DeviceFile,
    handle: u32,
    attr: &ibv_qp_attr,
    attr_mask: c_int,
    udata: Udata<'_>,
) -> Result<()> {
    if attr_mask & !BASIC_ATTRIBUTES != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let request = modify_request(handle, attr, attr_mask);
    execute_write(file, IB_USER_VERBS_CMD_MODIFY_QP, &request, &mut (), udata)
}

/// As [`modify`], for all attributes.
///
/// Path: legacy command, extended.
pub fn modify_ex(
    file: &DeviceFile,
    handle: u32,
    attr: &ibv_qp_attr,
    attr_mask: c_int,
    udata: Udata<'_>,
) -> Result<ib_uverbs_ex_modify_qp_resp> {
    let rate_limited = attr_mask & IBV_QP_RATE_LIMIT as c_int != 0;
    let request = ib_uverbs_ex_modify_qp {
        base: modify_request(handle, attr, attr_mask),
        rate_limit: if rate_limited { attr.rate_limit } else { 0 },
        reserved: 0,
    };
    let mut answer = ib_uverbs_ex_modify_qp_resp::default();
    execute_write_ex(file, IB_USER_VERBS_EX_CMD_MODIFY_QP, &request, &mut answer, udata)?;
    Ok(answer)
}

/// Destroys a queue pair. The caller waits until the program has acknowledged the reported events.
///
/// Path: ioctl QP_DESTROY, else the legacy command.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<Destroyed<ib_uverbs_destroy_qp_resp>> {
    const KIND: Kind = Kind {
        method: Method::DestroyQp,
        object_id: UVERBS_OBJECT_QP,
        method_id: UVERBS_METHOD_QP_DESTROY,
        handle_attr: UVERBS_ATTR_DESTROY_QP_HANDLE,
        command: IB_USER_VERBS_CMD_DESTROY_QP,
    };
    destroy::reporting(file, &KIND, UVERBS_ATTR_DESTROY_QP_RESP, handle)
}

/// As [`post_send_doorbell`], for a file that another process opened: the kernel takes no `write` from this one
/// then.
///
/// Path: legacy command.
#[cold]
pub fn post_send_doorbell_imported(file: &DeviceFile, handle: u32) -> Result<()> {
    let mut answer = ib_uverbs_post_send_resp::default();
    execute_write(file, IB_USER_VERBS_CMD_POST_SEND, &doorbell_request(handle), &mut answer, Udata::none())
}

/// POST_SEND without requests; where the answer goes is open.
const fn doorbell_request(handle: u32) -> ib_uverbs_post_send {
    ib_uverbs_post_send {
        response: 0,
        qp_handle: handle,
        wr_count: 0,
        sge_count: 0,
        wqe_size: size_of::<ibv_send_wr>() as u32,
    }
}

/// Tells a software driver that work requests are in the ring: POST_SEND without requests.
///
/// Path: `write`, the shortest way through the kernel for it.
#[inline]
pub fn post_send_doorbell(cmd_fd: RawFd, handle: u32) -> Result<()> {
    #[repr(C)]
    struct Doorbell {
        header: ib_uverbs_cmd_hdr,
        request: ib_uverbs_post_send,
    }
    const SIZE: usize = size_of::<Doorbell>();
    const _: () = assert!(SIZE == size_of::<ib_uverbs_cmd_hdr>() + size_of::<ib_uverbs_post_send>());

    let mut answer = ib_uverbs_post_send_resp { bad_wr: 0 };
    let doorbell = Doorbell {
        header: ib_uverbs_cmd_hdr {
            command: IB_USER_VERBS_CMD_POST_SEND,
            in_words: (SIZE / 4) as u16,
            out_words: (size_of::<ib_uverbs_post_send_resp>() / 4) as u16,
        },
        request: ib_uverbs_post_send {
            response: (&raw mut answer).expose_provenance() as u64,
            ..doorbell_request(handle)
        },
    };
    // `write` itself is a place where the thread may be cancelled, and to forbid that for its time costs two
    // locked instructions. SAFETY: the doorbell is SIZE bytes without padding; the kernel writes at most the
    // announced four bytes of answer, which lives until the call returns.
    let written = unsafe { libc::syscall(libc::SYS_write, cmd_fd, &raw const doorbell, SIZE) };
    if written == SIZE as c_long { Ok(()) } else { Err(Errno::last()) }
}

#[cfg(test)]
mod tests;
