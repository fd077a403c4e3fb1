//! Device memory.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

use super::ioctl::prepared;
use super::{file, live, value};
use crate::abi::driver::{ibv_command_buffer, mr_type, verbs_dm, verbs_mr};
use crate::abi::verbs::*;
use crate::uverbs;

/// Takes device memory; fills in handles, mask and context. `link` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_alloc_dm(
    ctx: *mut ibv_context,
    dm_attr: *const ibv_alloc_dm_attr,
    dm: *mut verbs_dm,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (attr, dm) = (live(dm_attr.cast_mut())?, live(dm)?);
        let file = file(ctx)?;
        let handle = uverbs::dm::alloc(file, (*attr).length as u64, (*attr).log_align_req, prepared(link)?)?;
        (*dm).handle = handle;
        (*dm).dm.handle = handle;
        (*dm).dm.comp_mask = IBV_DM_MASK_HANDLE as u32;
        (*dm).dm.context = ctx;
        Ok(())
    })
}

/// Gives device memory back to the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_free_dm(dm: *mut verbs_dm) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let dm = live(dm)?;
        uverbs::dm::free(file((*dm).dm.context)?, (*dm).handle)
    })
}

/// Registers device memory; fills in all but the rights. `link` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut verbs_dm,
    offset: u64,
    length: usize,
    access: c_uint,
    vmr: *mut verbs_mr,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (pd, dm, vmr) = (live(pd)?, live(dm)?, live(vmr)?);
        let context = (*pd).context;
        let (file, length64) = (file(context)?, length as u64);
        let prepared = prepared(link)?;
        let region =
            uverbs::dm::reg_mr(file, (*pd).handle, (*dm).handle, offset, length64, access, prepared)?;
        (*vmr).ibv_mr = ibv_mr {
            context,
            pd,
            addr: null_mut(),
            length,
            handle: region.handle,
            lkey: region.lkey,
            rkey: region.rkey,
        };
        (*vmr).mr_type = mr_type::MR;
        Ok(())
    })
}

/// Opens the mapping of device memory at a page offset (bytes) of the device file as a dma-buf: the file, or -1
/// and `errno`.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_export_dmabuf_fd(ctx: *mut ibv_context, pg_off: libc::off_t) -> c_int {
    let mut opened = -1;
    // SAFETY: see the module.
    let _ = value(|| unsafe {
        opened = uverbs::dm::export_dmabuf(file(ctx)?, pg_off as u64)?;
        Ok(())
    });
    opened
}
