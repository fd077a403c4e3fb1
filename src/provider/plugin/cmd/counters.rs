//! Counters of flows.

use core::ffi::c_int;

use super::ioctl::prepared;
use super::{file, live, value};
use crate::abi::driver::{ibv_command_buffer, verbs_counters};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::uverbs;

/// Makes a set of counters; fills in context and handle. EOPNOTSUPP for a bit in the mask. `link` is null or
/// the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_counters(
    context: *mut ibv_context,
    init_attr: *mut ibv_counters_init_attr,
    vcounters: *mut verbs_counters,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (attr, counters) = (live(init_attr)?, live(vcounters)?);
        if (*attr).comp_mask != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let handle = uverbs::counters::create(file(context)?, prepared(link)?)?;
        (*counters).counters.context = context;
        (*counters).handle = handle;
        Ok(())
    })
}

/// Destroys a set of counters in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_counters(vcounters: *mut verbs_counters) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let counters = live(vcounters)?;
        uverbs::counters::destroy(file((*counters).counters.context)?, (*counters).handle)
    })
}

/// Reads `ncounters` counters. `link` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_read_counters(
    vcounters: *mut verbs_counters,
    counters_value: *mut u64,
    ncounters: u32,
    flags: u32,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let counters = live(vcounters)?;
        let values: &mut [u8] = if ncounters == 0 {
            &mut []
        } else {
            core::slice::from_raw_parts_mut(live(counters_value)?.cast(), ncounters as usize * 8)
        };
        let file = file((*counters).counters.context)?;
        uverbs::counters::read(file, (*counters).handle, values, flags, prepared(link)?)
    })
}
