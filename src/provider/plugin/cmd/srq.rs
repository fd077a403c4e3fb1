//! Shared receive queues.

use core::ffi::c_int;

use super::super::context::of;
use super::super::layout::Generation;
use super::{Request, file, live, mlx5, only_told, udata, value};
use crate::abi::driver::{verbs_srq, verbs_xrcd};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::provider::mlx5::creation;
use crate::provider::object::Handle;
use crate::provider::{public_fields, wait};
use crate::uverbs;
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::srq::{CreateSrq, CreateSrqEx};

/// What is the same for every kind: the fields that are filled in before the command, and the request.
///
/// # Safety
/// See [the module](super).
unsafe fn begin(srq: *mut ibv_srq, pd: *mut ibv_pd, attr: &ibv_srq_attr) -> CreateSrq {
    // SAFETY: see the module.
    let pd_handle = unsafe {
        let names_pd = of((*pd).context).is_some_and(|plugin| plugin.layout.generation >= Generation(57));
        public_fields::begin_srq(srq, pd, names_pd);
        (*pd).handle
    };
    CreateSrq {
        user_handle: srq.expose_provenance() as u64,
        pd: pd_handle,
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        srq_limit: attr.srq_limit,
    }
}

/// Makes a basic queue; fills in context, handle and what destruction needs, and the sizes given in `attr`.
/// `cmd` and `resp` may be null.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_srq(
    pd: *mut ibv_pd,
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_init_attr,
    cmd: *mut Request<ib_uverbs_create_srq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_srq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, srq, attr) = (live(pd)?, live(srq)?, &mut *live(attr)?);
        let file = file((*pd).context)?;
        let request = begin(srq, pd, &attr.attr);
        let udata = udata(cmd, cmd_size, resp, resp_size);
        let told = udata.input;
        let created = uverbs::srq::create(file, &request, udata)?;
        if mlx5((*pd).context).is_some() {
            creation::srq_created(request.max_wr, told);
        }
        (*srq).handle = created.handle;
        attr.attr.max_wr = created.max_wr;
        attr.attr.max_sge = created.max_sge;
        Ok(())
    })
}

/// Makes a queue of any kind; fills in context, handle, kind and its objects, and the sizes given in `attr_ex`.
/// `cmd` and `resp` may be null. EOPNOTSUPP for an unknown bit in the mask, EINVAL for a missing object; both
/// in `errno`, too.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_srq_ex(
    _context: *mut ibv_context,
    srq: *mut verbs_srq,
    attr_ex: *mut ibv_srq_init_attr_ex,
    cmd: *mut Request<ib_uverbs_create_xsrq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_srq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module. The mask says which of the objects are there, and only the kinds that use them
    // look.
    value(|| unsafe {
        let (srq, attr) = (live(srq)?, &mut *live(attr_ex)?);
        let has = |bit: ibv_srq_init_attr_mask| attr.comp_mask & bit as u32 != 0;
        let mut extensions = CreateSrqEx { comp_mask: attr.comp_mask, ..CreateSrqEx::default() };
        uverbs::srq::check_extensions(&extensions)?;
        let pd = live(attr.pd)?;
        let file = file((*pd).context)?;
        let request = begin(&raw mut (*srq).srq, pd, &attr.attr);

        if has(IBV_SRQ_INIT_ATTR_TYPE) {
            extensions.srq_type = attr.srq_type;
        }
        let kind = extensions.effective_type();
        let xrc = kind == IBV_SRQT_XRC as u32;
        let tag_matching = kind == IBV_SRQT_TM as u32;
        if xrc && has(IBV_SRQ_INIT_ATTR_XRCD) {
            extensions.xrcd = (*live(attr.xrcd.cast::<verbs_xrcd>())?).handle;
        }
        if (xrc || tag_matching) && has(IBV_SRQ_INIT_ATTR_CQ) {
            extensions.cq = (*live(attr.cq)?).handle;
        }
        if has(IBV_SRQ_INIT_ATTR_TM) {
            extensions.max_num_tags = attr.tm_cap.max_num_tags;
        }
        let udata = udata(cmd, cmd_size, resp, resp_size);
        let told = udata.input;
        let created = uverbs::srq::create_ex(file, &request, &extensions, udata)?;
        if mlx5((*srq).srq.context).is_some() {
            creation::srq_created(request.max_wr, told);
        }
        (*srq).srq.handle = created.handle;
        (*srq).srq_type = kind;
        if xrc {
            (*srq).srq_num = created.srq_num;
            (*srq).xrcd = attr.xrcd.cast();
        }
        if has(IBV_SRQ_INIT_ATTR_CQ) {
            (*srq).cq = attr.cq;
        }
        attr.attr.max_wr = created.max_wr;
        attr.attr.max_sge = created.max_sge;
        Ok(())
    })
}

/// Resizes, or arms the limit event.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_modify_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
    cmd: *mut Request<ib_uverbs_modify_srq>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (srq, attr) = (live(srq)?, live(srq_attr)?);
        let (file, udata) = (file((*srq).context)?, only_told(cmd, cmd_size));
        uverbs::srq::modify(file, (*srq).handle, &*attr, srq_attr_mask as u32, udata)
    })
}

/// Capacities and limit.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    cmd: *mut Request<ib_uverbs_query_srq>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (srq, attr) = (live(srq)?, live(srq_attr)?);
        let (file, udata) = (file((*srq).context)?, only_told(cmd, cmd_size));
        *attr = uverbs::srq::query(file, (*srq).handle, udata)?;
        Ok(())
    })
}

/// Destroys a queue in the kernel, then waits until its events have been acknowledged.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let srq = Handle::from_c(srq)?;
        let (context, handle) = ((*srq.as_ptr()).context, (*srq.as_ptr()).handle);
        if let Destroyed::Reported(report) = uverbs::srq::destroy(file(context)?, handle)? {
            wait::for_srq_events(srq, report.events_reported);
        }
        if let Some(mlx5) = mlx5(context) {
            mlx5.srq_gone(srq.as_ptr());
        }
        Ok(())
    })
}
