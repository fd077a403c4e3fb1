//! Counters of completions.

use core::ffi::c_int;

use super::ioctl::prepared;
use super::{file, live, value};
use crate::abi::driver::{QP_ATTACH_COMP_CNTR_OPS, ibv_command_buffer};
use crate::abi::verbs::*;
use crate::errno::Errno;
use crate::uverbs::comp_cntr::{self, Change, Entry};

/// What the counters of the device can do. EINVAL for less room than rdma-core 65 has.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    caps_size: usize,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        if caps_size < size_of::<ibv_comp_cntr_caps>() {
            return Err(Errno::EINVAL);
        }
        let (caps, found) = (live(caps)?, comp_cntr::query_capabilities(file(context)?)?);
        (*caps).max_value = found.max_value;
        (*caps).max_counters = found.max_counters;
        (*caps).supported_qp_attach_ops = found.qp_operations & QP_ATTACH_COMP_CNTR_OPS;
        Ok(())
    })
}

/// Makes a counter; fills in context and handle. `link` is null or the provider's attributes.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_create_comp_cntr(
    context: *mut ibv_context,
    comp_cntr: *mut ibv_comp_cntr,
    link: *mut ibv_command_buffer,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let counter = live(comp_cntr)?;
        (*counter).context = context;
        (*counter).handle = comp_cntr::create(file(context)?, prepared(link)?)?;
        Ok(())
    })
}

/// Destroys a counter in the kernel.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_destroy_comp_cntr(comp_cntr: *mut ibv_comp_cntr) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let counter = live(comp_cntr)?;
        comp_cntr::destroy(file((*counter).context)?, (*counter).handle)
    })
}

macro_rules! changes {
    ($($name:ident: $entry:ident $change:ident;)+) => {$(
        /// Changes one of a counter's values.
        ///
        /// # Safety
        /// See [the module](super).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int {
            // SAFETY: see the module.
            value(|| unsafe {
                let counter = live(comp_cntr)?;
                let file = file((*counter).context)?;
                comp_cntr::modify(file, (*counter).handle, Entry::$entry, Change::$change, amount)
            })
        }
    )+};
}

changes! {
    ibv_cmd_set_comp_cntr: Completions Set;
    ibv_cmd_set_err_comp_cntr: Errors Set;
    ibv_cmd_inc_comp_cntr: Completions Add;
    ibv_cmd_inc_err_comp_cntr: Errors Add;
}

macro_rules! reads {
    ($($name:ident: $entry:ident;)+) => {$(
        /// One of a counter's values.
        ///
        /// # Safety
        /// See [the module](super).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(comp_cntr: *mut ibv_comp_cntr, result: *mut u64) -> c_int {
            // SAFETY: see the module.
            value(|| unsafe {
                let (counter, result) = (live(comp_cntr)?, live(result)?);
                *result = comp_cntr::read(file((*counter).context)?, (*counter).handle, Entry::$entry)?;
                Ok(())
            })
        }
    )+};
}

reads! {
    ibv_cmd_read_comp_cntr: Completions;
    ibv_cmd_read_err_comp_cntr: Errors;
}

/// Has a counter count operations of a queue pair.
///
/// # Safety
/// See [the module](super).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_cmd_qp_attach_comp_cntr(
    qp: *mut ibv_qp,
    comp_cntr: *mut ibv_comp_cntr,
    attr: *mut ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    // SAFETY: see the module.
    value(|| unsafe {
        let (qp, counter, attr) = (live(qp)?, live(comp_cntr)?, live(attr)?);
        let operations = (*attr).op_mask & QP_ATTACH_COMP_CNTR_OPS;
        comp_cntr::attach(file((*qp).context)?, (*qp).handle, (*counter).handle, operations)
    })
}
