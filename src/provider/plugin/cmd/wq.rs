//! Work queues and the tables that spread packets over them.

use core::ffi::c_int;

use super::{ExRequest, answer, file, heard, live, mlx5, only_told, udata, value};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::uapi::mlx5_abi::mlx5_ib_create_wq;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::provider::object::Handle;
use crate::provider::wait;
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::wq::CreateWq;
use crate::uverbs::{self, Udata};

/// Tables have no more entries than 2 to this power (`IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE`).
const MAX_LOG_IND_TBL_SIZE: u32 = 13;

/// Makes a work queue; fills in its objects, kind, handle and number, and the sizes given in `wq_init_attr`.
/// `cmd` and `resp` may be null. EINVAL for an unknown bit in the mask, EOPNOTSUPP for an unknown flag; both in
/// `errno`, too.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_wq(
    context: *mut ibv_context,
    wq_init_attr: *mut ibv_wq_init_attr,
    wq: *mut ibv_wq,
    cmd: *mut ExRequest<ib_uverbs_ex_create_wq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_wq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (attr, wq) = (&mut *live(wq_init_attr)?, live(wq)?);
        uverbs::wq::check(attr.comp_mask)?;
        let (pd, cq, file) = (live(attr.pd)?, live(attr.cq)?, file(context)?);
        (*wq).context = context;
        (*wq).cq = cq;
        (*wq).pd = pd;
        (*wq).wq_type = attr.wq_type;
        let request = CreateWq {
            user_handle: wq.expose_provenance() as u64,
            comp_mask: attr.comp_mask,
            wq_type: attr.wq_type,
            pd: (*pd).handle,
            cq: (*cq).handle,
            max_wr: attr.max_wr,
            max_sge: attr.max_sge,
            create_flags: attr.create_flags,
        };
        let udata = udata(cmd, cmd_size, resp, resp_size);
        let told = udata.input;
        let created = uverbs::wq::create(file, &request, udata)?;
        if let (Some(mlx5), Some(told)) = (mlx5(context), mlx5_ib_create_wq::read_from(told)) {
            mlx5.note_wq(wq, told.user_index);
        }
        (*wq).handle = created.handle;
        (*wq).wq_num = created.wq_num;
        attr.max_wr = created.max_wr;
        attr.max_sge = created.max_sge;
        Ok(())
    })
}

/// Moves a work queue, and remembers its state. EINVAL for an unknown bit in the mask, EOPNOTSUPP for an
/// unknown flag.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_modify_wq(
    wq: *mut ibv_wq,
    attr: *mut ibv_wq_attr,
    cmd: *mut ExRequest<ib_uverbs_ex_modify_wq>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (wq, attr) = (live(wq)?, &*live(attr)?);
        uverbs::wq::modify(file((*wq).context)?, (*wq).handle, attr, only_told(cmd, cmd_size))?;
        if attr.attr_mask & IBV_WQ_ATTR_STATE as u32 != 0 {
            (*wq).state = attr.wq_state;
        }
        Ok(())
    })
}

/// Destroys a work queue in the kernel, then waits until its events have been acknowledged.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_wq(wq: *mut ibv_wq) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let wq = Handle::from_c(wq)?;
        let (context, handle) = ((*wq.as_ptr()).context, (*wq.as_ptr()).handle);
        if let Destroyed::Reported(events) = uverbs::wq::destroy(file(context)?, handle)? {
            wait::for_wq_events(wq, events);
        }
        if let Some(mlx5) = mlx5(context) {
            mlx5.wq_gone(wq.as_ptr());
        }
        Ok(())
    })
}

/// Makes an indirection table; fills in handle, number and context. EINVAL for a bit in the mask, for a size
/// that no device has, and when the kernel answers too little.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_rwq_ind_table(
    context: *mut ibv_context,
    init_attr: *mut ibv_rwq_ind_table_init_attr,
    rwq_ind_table: *mut ibv_rwq_ind_table,
    resp: *mut ib_uverbs_ex_create_rwq_ind_table_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (attr, table) = (&*live(init_attr)?, live(rwq_ind_table)?);
        if attr.comp_mask >= IBV_CREATE_IND_TABLE_RESERVED as u32 {
            return Err(Errno::EINVAL);
        }
        let log_size = attr.log_ind_tbl_size;
        if log_size > MAX_LOG_IND_TBL_SIZE {
            return Err(Errno::EINVAL.also_set());
        }
        let entries = core::slice::from_raw_parts(live(attr.ind_tbl)?, 1 << log_size);
        let queues = entries.iter().map(|wq| (**wq).handle);
        let udata = Udata::answer(heard(resp, resp_size));
        let created = uverbs::rwq_ind_table::create(file(context)?, log_size, queues, udata)?;
        answer(resp, created);
        (*table).ind_tbl_handle = created.ind_tbl_handle as c_int;
        (*table).ind_tbl_num = created.ind_tbl_num as c_int;
        (*table).context = context;
        Ok(())
    })
}

/// Destroys an indirection table in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_rwq_ind_table(rwq_ind_table: *mut ibv_rwq_ind_table) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let table = live(rwq_ind_table)?;
        uverbs::rwq_ind_table::destroy(file((*table).context)?, (*table).ind_tbl_handle as u32)
    })
}
