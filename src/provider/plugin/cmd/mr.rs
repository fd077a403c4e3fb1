//! Memory regions.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

use super::{Request, answer, file, live, udata, value};
use crate::abi::driver::{mr_type, verbs_mr};
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::*;
use crate::uverbs;
use crate::uverbs::mr::RegMr;

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

/// Registers part of a dma-buf; fills in all but the rights.
///
/// Releases from 54 on pass an eighth argument, NULL from every provider but mlx5's own registration verb; it
/// stays unread here.
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
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, vmr) = (live(pd)?, live(vmr)?);
        let context = (*pd).context;
        let file = file(context)?;
        let region = uverbs::mr::reg_dmabuf(file, (*pd).handle, offset, length as u64, iova, fd, access)?;
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
