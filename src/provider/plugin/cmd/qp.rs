//! Queue pairs.

use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr::null_mut;

use super::super::context::of;
use super::ioctl::prepared;
use super::{ExRequest, Request, answer, file, live, mlx5, only_told, udata, value};
use crate::abi::driver::{ibv_command_buffer, verbs_xrcd};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::mlx5::creation;
use crate::provider::object::Handle;
use crate::provider::{public_fields, wait};
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::device_file::DeviceFile;
use crate::uverbs::qp::{CreateQp, QpCreated};
use crate::uverbs::{self, Udata};

/// A queue pair with more behind the public part, which is the same in all releases.
///
/// What stands behind it (`comp_mask`, `xrcd`) has another place in many, so that nothing is written there:
/// rdma-core clears the mask, which is 0 in the zeroed memory of every provider, and sets an XRC domain that
/// nobody reads.
#[repr(transparent)]
#[allow(non_camel_case_types, reason = "the name of rdma-core's struct")]
pub struct verbs_qp(ibv_qp);

/// The public part of a queue pair that a provider makes as a [`verbs_qp`], which is noted.
///
/// # Safety
/// See [the module](super).
unsafe fn qp_of(context: *mut ibv_context, qp: *mut verbs_qp) -> Result<*mut ibv_qp> {
    // SAFETY: see the module.
    if let Some(plugin) = unsafe { of(context) } {
        plugin.qp_mask.note_extended();
    }
    live(qp.cast())
}

/// Makes a queue pair by a command of `uverbs` and fills it in.
///
/// # Safety
/// See [the module](super).
unsafe fn create(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_init_attr_ex,
    udata: Udata<'_>,
    command: impl FnOnce(&DeviceFile, &CreateQp, &mut ibv_qp_cap, Udata<'_>) -> Result<QpCreated>,
) -> Result<()> {
    // SAFETY: see the module. Mask and kind say which of the objects are there, and only those are looked at.
    unsafe {
        let file = file(context)?;
        let has = |bit: ibv_qp_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        let sends_need_no_cq = has(IBV_QP_INIT_ATTR_IND_TABLE) && attr.cap.max_send_wr == 0;
        let xrc_target = attr.qp_type == IBV_QPT_XRC_RECV as u32;
        let receives_unused =
            xrc_target || attr.qp_type == IBV_QPT_XRC_SEND as u32 || has(IBV_QP_INIT_ATTR_IND_TABLE);
        let number =
            |cq: *mut ibv_cq, unused: bool| (!cq.is_null()).then(|| if unused { 0 } else { (*cq).handle });
        let request = CreateQp {
            user_handle: qp.expose_provenance() as u64,
            comp_mask: attr.comp_mask,
            qp_type: attr.qp_type,
            pd: if has(IBV_QP_INIT_ATTR_PD) { attr.pd.as_ref().map(|pd| pd.handle) } else { None },
            xrcd: if has(IBV_QP_INIT_ATTR_XRCD) {
                attr.xrcd.cast::<verbs_xrcd>().as_ref().map(|xrcd| xrcd.handle)
            } else {
                None
            },
            send_cq: number(attr.send_cq, xrc_target || sends_need_no_cq),
            recv_cq: number(attr.recv_cq, receives_unused),
            srq: attr.srq.as_ref().map(|srq| srq.handle),
            rwq_ind_tbl: if has(IBV_QP_INIT_ATTR_IND_TABLE) {
                attr.rwq_ind_tbl.as_ref().map(|table| table.ind_tbl_handle as u32)
            } else {
                None
            },
            sq_sig_all: attr.sq_sig_all != 0,
            create_flags: if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) { attr.create_flags } else { 0 },
            source_qpn: if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) { attr.source_qpn } else { 0 },
        };
        (*qp).context = context;
        let (told, asked) = (udata.input, attr.cap);
        let created = command(file, &request, &mut attr.cap, udata)?;
        let state = IBV_QPS_RESET as ibv_qp_state_t;
        public_fields::begin_qp(qp, created.handle, created.qp_num, attr.qp_type, state);
        public_fields::name_qp_ex_parts(qp, attr.pd, attr);
        if let Some(mlx5) = mlx5(context).filter(|_| !has(IBV_QP_INIT_ATTR_RX_HASH) && !xrc_target)
            && let Some(made) = creation::qp_created(asked, told)
        {
            mlx5.note_qp(qp, &made);
        }
        Ok(())
    }
}

/// Makes a queue pair of the basic kinds; fills in all of it, and the sizes given in `attr`. `cmd` and `resp`
/// may be null.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_qp(
    pd: *mut ibv_pd,
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_init_attr,
    cmd: *mut Request<ib_uverbs_create_qp>,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_qp_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module; the extended attributes are plain C data, and all zeros is their empty value.
    value(|| unsafe {
        let (pd, qp, attr) = (live(pd)?, live(qp)?, &mut *live(attr)?);
        let mut extended = ibv_qp_init_attr_ex {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
            comp_mask: IBV_QP_INIT_ATTR_PD as u32,
            pd,
            ..core::mem::zeroed()
        };
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create((*pd).context, qp, &mut extended, udata, uverbs::qp::create)?;
        attr.cap = extended.cap;
        Ok(())
    })
}

/// Makes a queue pair with protection domain or XRC domain; fills in all of it, and the sizes given in
/// `attr_ex`. `cmd` and `resp` may be null. EINVAL, also in `errno`, for another bit in the mask or a missing
/// object.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_qp_ex(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    attr_ex: *mut ibv_qp_init_attr_ex,
    cmd: *mut Request<ib_uverbs_create_qp>,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_qp_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, attr) = (qp_of(context, qp)?, &mut *live(attr_ex)?);
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create(context, qp, attr, udata, uverbs::qp::create_ex)
    })
}

/// As [`ibv_cmd_create_qp_ex`], with all extended attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_qp_ex2(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    qp_attr: *mut ibv_qp_init_attr_ex,
    cmd: *mut ExRequest<ib_uverbs_ex_create_qp>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_qp_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    unsafe { ibv_cmd_create_qp_ex2_64(context, qp, qp_attr, cmd, cmd_size, resp, resp_size, null_mut()) }
}

/// As [`ibv_cmd_create_qp_ex2`]; `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_qp_ex2_64(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    qp_attr: *mut ibv_qp_init_attr_ex,
    cmd: *mut ExRequest<ib_uverbs_ex_create_qp>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_qp_resp,
    resp_size: usize,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, attr) = (qp_of(context, qp)?, &mut *live(qp_attr)?);
        let (udata, driver) = (udata(cmd, cmd_size, resp, resp_size), prepared(driver)?);
        create(context, qp, attr, udata, |file, request, cap, udata| {
            uverbs::qp::create_ex2(file, request, cap, udata, driver)
        })
    })
}

/// Opens a shared XRC queue pair; fills in the public part.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_open_qp(
    context: *mut ibv_context,
    qp: *mut verbs_qp,
    _vqp_sz: c_int,
    attr: *mut ibv_qp_open_attr,
    cmd: *mut Request<ib_uverbs_open_qp>,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_qp_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, attr) = (qp_of(context, qp)?, &*live(attr)?);
        let xrcd = if attr.comp_mask & IBV_QP_OPEN_ATTR_XRCD as u32 != 0 {
            (*live(attr.xrcd.cast::<verbs_xrcd>())?).handle
        } else {
            0
        };
        let handle = uverbs::qp::open(
            file(context)?,
            attr.comp_mask,
            qp.expose_provenance() as u64,
            xrcd,
            attr.qp_num,
            attr.qp_type as u8,
            udata(cmd, cmd_size, resp, resp_size),
        )?;
        answer(resp, ib_uverbs_create_qp_resp { qp_handle: handle, qpn: attr.qp_num, ..Pod::zeroed() });
        let state = IBV_QPS_UNKNOWN as ibv_qp_state_t;
        public_fields::begin_qp(qp, handle, attr.qp_num, attr.qp_type, state);
        public_fields::name_opened_qp(qp, context, attr.qp_context);
        Ok(())
    })
}

/// Attributes and creation attributes. EOPNOTSUPP for a bit in the mask from `IBV_QP_RATE_LIMIT` on.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
    cmd: *mut Request<ib_uverbs_query_qp>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, attr, init_attr) = (Handle::from_c(live(qp)?)?, &mut *live(attr)?, &mut *live(init_attr)?);
        let (context, handle) = ((*qp.as_ptr()).context, (*qp.as_ptr()).handle);
        let queried = uverbs::qp::query(file(context)?, handle, attr, attr_mask, only_told(cmd, cmd_size))?;
        public_fields::answer_qp_parts(qp, init_attr);
        init_attr.cap = queried.cap;
        init_attr.sq_sig_all = queried.sq_sig_all;
        Ok(())
    })
}

/// Sets attributes and moves the queue pair. EOPNOTSUPP for a bit in the mask from `IBV_QP_RATE_LIMIT` on.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    cmd: *mut Request<ib_uverbs_modify_qp>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, attr) = (live(qp)?, live(attr)?);
        let (file, udata) = (file((*qp).context)?, only_told(cmd, cmd_size));
        uverbs::qp::modify(file, (*qp).handle, &*attr, attr_mask, udata)?;
        modified(qp, &*attr, attr_mask);
        Ok(())
    })
}

/// As [`ibv_cmd_modify_qp`], for all attributes. EINVAL for a rate limit that `cmd` of `cmd_size` bytes has no
/// room for.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_modify_qp_ex(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    cmd: *mut ExRequest<ib_uverbs_ex_modify_qp>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_modify_qp_resp,
    resp_size: usize,
) -> c_int {
    const WITH_RATE_LIMIT: usize = offset_of!(ExRequest<ib_uverbs_ex_modify_qp>, core)
        + offset_of!(ib_uverbs_ex_modify_qp, rate_limit)
        + size_of::<u32>();
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, attr) = (live(qp)?, live(attr)?);
        if attr_mask & IBV_QP_RATE_LIMIT as c_int != 0 && cmd_size < WITH_RATE_LIMIT {
            return Err(Errno::EINVAL);
        }
        let (file, udata) = (file((*qp).context)?, udata(cmd, cmd_size, resp, resp_size));
        let report = uverbs::qp::modify_ex(file, (*qp).handle, &*attr, attr_mask, udata)?;
        answer(resp, report);
        modified(qp, &*attr, attr_mask);
        Ok(())
    })
}

/// The kernel has moved a queue pair: where it is reset, what its completion queues hold of it goes.
///
/// # Safety
/// See [the module](super).
unsafe fn modified(qp: *mut ibv_qp, attr: &ibv_qp_attr, attr_mask: c_int) {
    let reset = attr_mask & IBV_QP_STATE as c_int != 0 && attr.qp_state == IBV_QPS_RESET as ibv_qp_state_t;
    // SAFETY: see the module.
    unsafe {
        if reset && let Some(mlx5) = mlx5((*qp).context) {
            mlx5.purge_qp(qp);
        }
    }
}

/// Destroys a queue pair in the kernel, then waits until its events have been acknowledged.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let qp = Handle::from_c(qp)?;
        let (context, handle) = ((*qp.as_ptr()).context, (*qp.as_ptr()).handle);
        if let Destroyed::Reported(report) = uverbs::qp::destroy(file(context)?, handle)? {
            wait::for_qp_events(qp, report.events_reported);
        }
        if let Some(mlx5) = mlx5(context) {
            mlx5.qp_gone(qp.as_ptr());
        }
        Ok(())
    })
}
