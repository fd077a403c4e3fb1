//! Hints for direct memory access.

use core::ffi::c_int;

use super::{file, live, value};
use crate::abi::driver::verbs_dmah;
use crate::abi::verbs::*;
use crate::uverbs::dmah::{self, Hints};

/// Makes a handle of hints; fills in all of it.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_alloc_dmah(
    ctx: *mut ibv_context,
    dmah: *mut verbs_dmah,
    attr: *mut ibv_dmah_init_attr,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (dmah, attr) = (live(dmah)?, &*live(attr)?);
        let has = |bit: u32| attr.comp_mask & bit != 0;
        let hints = Hints {
            cpu_id: has(IBV_DMAH_INIT_ATTR_MASK_CPU_ID as u32).then_some(attr.cpu_id),
            mem_type: has(IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE as u32).then_some(attr.tph_mem_type),
            processing: has(IBV_DMAH_INIT_ATTR_MASK_PH as u32).then_some([attr.ph]),
        };
        (*dmah).handle = dmah::alloc(file(ctx)?, &hints)?;
        (*dmah).dmah.context = ctx;
        Ok(())
    })
}

/// Gives a handle of hints back to the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_free_dmah(dmah: *mut verbs_dmah) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let dmah = live(dmah)?;
        dmah::free(file((*dmah).dmah.context)?, (*dmah).handle)
    })
}
