//! Memory regions.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

use super::super::context::{PluginContext, of};
use super::ioctl::prepared;
use super::{Request, answer, file, live, udata, value};
use crate::abi::driver::{ibv_command_buffer, mr_init_mask, mr_type, verbs_dmah, verbs_mr};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::uverbs;
use crate::uverbs::mr::{Memory, RegMr};

/// Registers memory; fills in handle, keys, context, kind and rights.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    hca_va: u64,
    access: c_int,
    vmr: *mut verbs_mr,
    cmd: *mut Request<ib_uverbs_reg_mr>,
    cmd_size: usize,
    resp: *mut ib_uverbs_reg_mr_resp,
    resp_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, vmr) = (live(pd)?, live(vmr)?);
        let context = (*pd).context;
        let region = RegMr { pd: (*pd).handle, start: addr as usize, length, iova: hca_va, access };
        let region = uverbs::mr::reg(file(context)?, &region, udata(cmd, cmd_size, resp, resp_size))?;
        let (mr_handle, lkey, rkey) = (region.handle, region.lkey, region.rkey);
        answer(resp, ib_uverbs_reg_mr_resp { mr_handle, lkey, rkey });
        (*vmr).ibv_mr.handle = mr_handle;
        (*vmr).ibv_mr.lkey = lkey;
        (*vmr).ibv_mr.rkey = rkey;
        (*vmr).ibv_mr.context = context;
        (*vmr).mr_type = mr_type::MR;
        (*vmr).access = access as c_uint;
        Ok(())
    })
}

/// Changes a registration; fills in the keys, and the context where the protection domain changes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_rereg_mr(
    vmr: *mut verbs_mr,
    flags: u32,
    addr: *mut c_void,
    length: usize,
    hca_va: u64,
    access: c_int,
    pd: *mut ibv_pd,
    cmd: *mut Request<ib_uverbs_rereg_mr>,
    cmd_sz: usize,
    resp: *mut ib_uverbs_rereg_mr_resp,
    resp_sz: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let vmr = live(vmr)?;
        let new_pd = if flags & IBV_REREG_MR_CHANGE_PD as u32 != 0 { Some(live(pd)?) } else { None };
        let change = RegMr {
            pd: new_pd.map_or(0, |pd| (*pd).handle),
            start: addr as usize,
            length,
            iova: hca_va,
            access,
        };
        let udata = udata(cmd, cmd_sz, resp, resp_sz);
        let file = file((*vmr).ibv_mr.context)?;
        let region = uverbs::mr::rereg(file, (*vmr).ibv_mr.handle, flags, &change, udata)?;
        answer(resp, ib_uverbs_rereg_mr_resp { lkey: region.lkey, rkey: region.rkey });
        (*vmr).ibv_mr.lkey = region.lkey;
        (*vmr).ibv_mr.rkey = region.rkey;
        if let Some(pd) = new_pd {
            (*vmr).ibv_mr.context = (*pd).context;
        }
        Ok(())
    })
}

/// Ends a registration in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_dereg_mr(vmr: *mut verbs_mr) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let vmr = live(vmr)?;
        uverbs::mr::dereg(file((*vmr).ibv_mr.context)?, (*vmr).ibv_mr.handle)
    })
}

/// Looks up the region of another process by its kernel handle; fills in all of the public part.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_mr(pd: *mut ibv_pd, vmr: *mut verbs_mr, mr_handle: u32) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, vmr) = (live(pd)?, live(vmr)?);
        let context = (*pd).context;
        let (region, length) = uverbs::mr::query(file(context)?, mr_handle)?;
        (*vmr).ibv_mr = ibv_mr {
            context,
            pd,
            addr: null_mut(),
            length: length as usize,
            handle: mr_handle,
            lkey: region.lkey,
            rkey: region.rkey,
        };
        (*vmr).mr_type = mr_type::IMPORTED_MR;
        Ok(())
    })
}

/// Advises the kernel about the use of regions.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_advise_mr(
    pd: *mut ibv_pd,
    advice: c_uint,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sge: u32,
) -> c_int {
    const _: () = assert!(size_of::<ibv_sge>() == size_of::<ib_uverbs_sge>());
    // SAFETY: see the module; the two entries have one layout, as kernel and program share them.
    value(|| unsafe {
        let pd = live(pd)?;
        let entries: &[ib_uverbs_sge] = if num_sge == 0 {
            &[]
        } else {
            core::slice::from_raw_parts(live(sg_list)?.cast(), num_sge as usize)
        };
        uverbs::mr::advise(file((*pd).context)?, (*pd).handle, advice, flags, entries)
    })
}

/// Registers part of a dma-buf; fills in all but the rights. `driver` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_reg_dmabuf_mr_57(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vmr: *mut verbs_mr,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, vmr) = (live(pd)?, live(vmr)?);
        let context = (*pd).context;
        let (file, pd_handle, driver) = (file(context)?, (*pd).handle, prepared(driver)?);
        let region =
            uverbs::mr::reg_dmabuf(file, pd_handle, offset, length as u64, iova, fd, access, driver)?;
        (*vmr).ibv_mr = ibv_mr {
            context,
            pd,
            addr: offset as *mut c_void,
            length,
            handle: region.handle,
            lkey: region.lkey,
            rkey: region.rkey,
        };
        (*vmr).mr_type = mr_type::DMABUF_MR;
        Ok(())
    })
}

/// As [`ibv_cmd_reg_dmabuf_mr_57`]. Plugins built before rdma-core 54 leave out the last argument, which is not
/// looked at unless the plugin is one that may have passed it.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
    vmr: *mut verbs_mr,
    driver: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    unsafe {
        let plugin = pd.as_ref().and_then(|pd| of(pd.context));
        let driver =
            if plugin.is_some_and(PluginContext::registers_with_driver) { driver } else { null_mut() };
        ibv_cmd_reg_dmabuf_mr_57(pd, offset, length, iova, fd, access, vmr, driver)
    }
}

/// Registers memory or a dma-buf with all options; fills in handle, keys, context, kind and rights. EINVAL,
/// also in `errno`, where the mask does not name one of the two.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_reg_mr_ex(
    pd: *mut ibv_pd,
    vmr: *mut verbs_mr,
    mr_init_attr: *mut ibv_mr_init_attr,
) -> c_int {
    // SAFETY: see the module; the mask says whether there are hints, which are a verbs_dmah.
    value(|| unsafe {
        let (pd, vmr, attr) = (live(pd)?, live(vmr)?, &*live(mr_init_attr)?);
        let has = |bit: u64| attr.comp_mask & bit != 0;
        let is_file = has(mr_init_mask::FD);
        // A dma-buf needs its offset and the address that peers use, memory the address.
        let wanted = [has(mr_init_mask::FD_OFFSET), !has(mr_init_mask::ADDR)];
        if wanted != [is_file; 2] || (is_file && !has(mr_init_mask::IOVA)) {
            return Err(Errno::EINVAL.also_set());
        }
        let start = if is_file { 0 } else { attr.addr as usize };
        let memory = if is_file { Memory::Dmabuf(attr.fd, attr.fd_offset) } else { Memory::Process(start) };
        let region = RegMr {
            pd: (*pd).handle,
            start,
            length: attr.length,
            iova: if has(mr_init_mask::IOVA) { attr.iova } else { start as u64 },
            access: attr.access,
        };
        let dmah = match has(mr_init_mask::DMAH) {
            true => Some((*live(attr.dmah.cast::<verbs_dmah>())?).handle),
            false => None,
        };
        let context = (*pd).context;
        let given = uverbs::mr::reg_ex(file(context)?, &region, memory, dmah)?;
        (*vmr).ibv_mr.handle = given.handle;
        (*vmr).ibv_mr.lkey = given.lkey;
        (*vmr).ibv_mr.rkey = given.rkey;
        (*vmr).ibv_mr.context = context;
        (*vmr).mr_type = if is_file { mr_type::DMABUF_MR } else { mr_type::MR };
        (*vmr).access = attr.access as c_uint;
        Ok(())
    })
}
