//! Completion queues.

use core::ffi::c_int;
use core::ptr::null_mut;

use super::ioctl::prepared;
use super::{ExRequest, Request, answer, file, live, mlx5, only_told, udata, value};
use crate::abi::driver::{
    CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX, CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF, CREATE_CQ_CMD_FLAGS_WITH_MEM_VA,
    ibv_command_buffer, verbs_cq,
};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::mlx5::creation;
use crate::provider::mlx5::taking::cq_gone;
use crate::provider::object::Handle;
use crate::provider::{public_fields, wait};
use crate::uverbs::cq::{CqMemory, CreateCq, CreateCqEx};
use crate::uverbs::destroy::Destroyed;
use crate::uverbs::{self, Udata};

/// # Safety
/// See [the module](super).
unsafe fn channel_fd(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: see the module.
    unsafe { channel.as_ref() }.map_or(-1, |channel| channel.fd)
}

/// Makes a completion queue; fills in context, handle and size. `cmd` and `resp` may be null.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
    cq: *mut ibv_cq,
    cmd: *mut Request<ib_uverbs_create_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_create_cq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let cq = live(cq)?;
        let file = file(context)?;
        public_fields::begin_cq(cq, context);
        let request = CreateCq {
            user_handle: cq.expose_provenance() as u64,
            cqe: cqe as u32,
            comp_channel: channel_fd(channel),
            comp_vector: comp_vector as u32,
        };
        let created = uverbs::cq::create(file, &request, udata(cmd, cmd_size, resp, resp_size))?;
        public_fields::answer_cq(cq, created);
        Ok(())
    })
}

/// Where a provider wants the entries to lie (`struct verbs_create_cq_prov_attr`).
#[repr(C)]
pub struct verbs_create_cq_prov_attr {
    /// Bytes.
    length: u64,
    memory: ProvidersMemory,
}

/// Which of the two it is the flags say.
#[repr(C)]
#[derive(Clone, Copy)]
union ProvidersMemory {
    address: *mut u8,
    dmabuf: ProvidersDmabuf,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ProvidersDmabuf {
    offset: u64,
    fd: c_int,
}

const _: () = assert!(size_of::<verbs_create_cq_prov_attr>() == 24);

/// # Safety
/// See [the module](super).
unsafe fn memory(prov_attr: *mut verbs_create_cq_prov_attr, cmd_flags: u32) -> Result<CqMemory> {
    if cmd_flags & (CREATE_CQ_CMD_FLAGS_WITH_MEM_VA | CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF) == 0 {
        return Ok(CqMemory::Drivers);
    }
    // SAFETY: see the module; the flags say which member of the union the provider has set.
    unsafe {
        let given = prov_attr.as_ref().ok_or(Errno::EINVAL)?;
        Ok(if cmd_flags & CREATE_CQ_CMD_FLAGS_WITH_MEM_VA != 0 {
            CqMemory::Process {
                address: given.memory.address.expose_provenance() as u64,
                length: given.length,
            }
        } else {
            let ProvidersDmabuf { offset, fd } = given.memory.dmabuf;
            CqMemory::Dmabuf { fd, offset, length: given.length }
        })
    }
}

/// Makes a completion queue with extensions; fills in context, handle and size. EOPNOTSUPP for an unknown bit
/// in the mask.
///
/// # Safety
/// See [the module](super).
unsafe fn create_ex(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    prov_attr: *mut verbs_create_cq_prov_attr,
    cq: *mut verbs_cq,
    udata: Udata<'_>,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> Result<()> {
    // SAFETY: see the module; a verbs_cq starts with the ibv_cq.
    unsafe {
        let (attr, cq) = (live(cq_attr.cast_mut())?, live(cq.cast::<ibv_cq>())?);
        let file = file(context)?;
        let request = CreateCq {
            user_handle: cq.expose_provenance() as u64,
            cqe: (*attr).cqe,
            comp_channel: channel_fd((*attr).channel),
            comp_vector: (*attr).comp_vector,
        };
        let mut extensions = CreateCqEx {
            comp_mask: (*attr).comp_mask,
            wc_flags: (*attr).wc_flags,
            flags: (*attr).flags,
            timestamp_implied: cmd_flags & CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX != 0,
            memory: CqMemory::Drivers,
        };
        uverbs::cq::check_extensions(&extensions)?;
        public_fields::begin_cq(cq, context);
        extensions.memory = memory(prov_attr, cmd_flags)?;
        let changed = match extensions.memory {
            CqMemory::Drivers if mlx5(context).is_some() => creation::create_cq(&*attr, udata.input),
            _ => None,
        };
        let udata = match &changed {
            Some(changed) => Udata { input: changed.bytes(), output: udata.output },
            None => udata,
        };
        let created = uverbs::cq::create_ex(file, &request, &extensions, udata, prepared(driver)?)?;
        public_fields::answer_cq(cq, created);
        Ok(())
    }
}

/// See [`create_ex`]. `cmd` and `resp` may be null, as for those below.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex_33(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    cq: *mut verbs_cq,
    cmd: *mut ExRequest<ib_uverbs_ex_create_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create_ex(context, cq_attr, null_mut(), cq, udata, 0, null_mut())
    })
}

/// As [`ibv_cmd_create_cq_ex_33`]; `cmd_flags` are `CREATE_CQ_CMD_FLAGS_*`.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    cq: *mut verbs_cq,
    cmd: *mut ExRequest<ib_uverbs_ex_create_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create_ex(context, cq_attr, null_mut(), cq, udata, cmd_flags, null_mut())
    })
}

/// As [`ibv_cmd_create_cq_ex`], in memory that the provider brings where the flags say so.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex_59(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    prov_attr: *mut verbs_create_cq_prov_attr,
    cq: *mut verbs_cq,
    cmd: *mut ExRequest<ib_uverbs_ex_create_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create_ex(context, cq_attr, prov_attr, cq, udata, cmd_flags, null_mut())
    })
}

/// As [`ibv_cmd_create_cq_ex`]; `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex2(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    cq: *mut verbs_cq,
    cmd: *mut ExRequest<ib_uverbs_ex_create_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create_ex(context, cq_attr, null_mut(), cq, udata, cmd_flags, driver)
    })
}

/// As [`ibv_cmd_create_cq_ex_59`]; `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_cq_ex2_59(
    context: *mut ibv_context,
    cq_attr: *const ibv_cq_init_attr_ex,
    prov_attr: *mut verbs_create_cq_prov_attr,
    cq: *mut verbs_cq,
    cmd: *mut ExRequest<ib_uverbs_ex_create_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_ex_create_cq_resp,
    resp_size: usize,
    cmd_flags: u32,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let udata = udata(cmd, cmd_size, resp, resp_size);
        create_ex(context, cq_attr, prov_attr, cq, udata, cmd_flags, driver)
    })
}

/// Takes completions from the kernel: how many, or -1 with `errno`.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_poll_cq(ibcq: *mut ibv_cq, ne: c_int, wc: *mut ibv_wc) -> c_int {
    let mut count = -1;
    // SAFETY: see the module.
    let _ = value(|| unsafe {
        let cq = live(ibcq)?;
        let max = usize::try_from(ne).map_err(|_| Errno::ENOMEM.also_set())?;
        let given = uverbs::cq::poll(file((*cq).context)?, (*cq).handle, max, |at, entry| {
            completion(wc.add(at), entry);
        })?;
        count = given as c_int;
        Ok(())
    });
    count
}

/// # Safety
/// See [the module](super).
unsafe fn completion(wc: *mut ibv_wc, entry: &ib_uverbs_wc) {
    // SAFETY: see the module.
    unsafe {
        (*wc).wr_id = entry.wr_id;
        (*wc).status = entry.status;
        (*wc).opcode = entry.opcode;
        (*wc).vendor_err = entry.vendor_err;
        (*wc).byte_len = entry.byte_len;
        (*wc).anon1.imm_data = entry.imm_data;
        (*wc).qp_num = entry.qp_num;
        (*wc).src_qp = entry.src_qp;
        (*wc).wc_flags = entry.wc_flags;
        (*wc).pkey_index = entry.pkey_index;
        (*wc).slid = entry.slid;
        (*wc).sl = entry.sl;
        (*wc).dlid_path_bits = entry.dlid_path_bits;
    }
}

/// Asks the kernel for an event at the next completion.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_req_notify_cq(ibcq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let cq = live(ibcq)?;
        uverbs::cq::req_notify(file((*cq).context)?, (*cq).handle, solicited_only != 0)
    })
}

/// Changes the size; fills in the size given.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_resize_cq(
    cq: *mut ibv_cq,
    cqe: c_int,
    cmd: *mut Request<ib_uverbs_resize_cq>,
    cmd_size: usize,
    resp: *mut ib_uverbs_resize_cq_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let cq = live(cq)?;
        let udata = udata(cmd, cmd_size, resp, resp_size);
        let changed = match mlx5((*cq).context) {
            Some(_) => creation::resize_cq(cqe as u32, udata.input),
            None => None,
        };
        let udata = match &changed {
            Some(changed) => Udata { input: changed.bytes(), output: udata.output },
            None => udata,
        };
        let cqe = uverbs::cq::resize(file((*cq).context)?, (*cq).handle, cqe as u32, udata)?;
        answer(resp, ib_uverbs_resize_cq_resp { cqe, ..Pod::zeroed() });
        (*cq).cqe = cqe as c_int;
        Ok(())
    })
}

/// Sets the moderation of events. EINVAL for an unknown bit in the mask.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_modify_cq(
    cq: *mut ibv_cq,
    attr: *mut ibv_modify_cq_attr,
    cmd: *mut ExRequest<ib_uverbs_ex_modify_cq>,
    cmd_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (cq, attr) = (live(cq)?, &*live(attr)?);
        if attr.attr_mask >= IBV_CQ_ATTR_RESERVED as u32 {
            return Err(Errno::EINVAL);
        }
        let ibv_moderate_cq { cq_count, cq_period } = attr.moderate;
        let udata = only_told(cmd, cmd_size);
        uverbs::cq::modify(file((*cq).context)?, (*cq).handle, attr.attr_mask, cq_count, cq_period, udata)
    })
}

/// Destroys a completion queue in the kernel, then waits until its events have been acknowledged.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let cq = Handle::from_c(cq)?;
        let (context, handle) = ((*cq.as_ptr()).context, (*cq.as_ptr()).handle);
        if let Destroyed::Reported(report) = uverbs::cq::destroy(file(context)?, handle)? {
            wait::for_cq_events(cq, report.comp_events_reported, report.async_events_reported);
        }
        if mlx5(context).is_some() {
            cq_gone(cq.as_ptr());
        }
        Ok(())
    })
}
