//! The functions under version `IBVERBS_1.0`, for programs linked before 2007.
//!
//! Their objects are structs of that time ([`layout`]), each around one of today's. A program of that time
//! finds the struct of 1.0 wherever today's object carries the program's own pointer: in completions of
//! channels and in asynchronous events.
//!
//! The functions report as today's do, because they hand on what those answer.

#![cfg_attr(test, allow(dead_code, reason = "a test executable exports nothing"))]

mod device;
mod event;
mod layout;
mod memory;
mod post;
mod queue;
mod queue_pair;

use core::ffi::c_int;

use ironverbs_os::growth::small_box;

use super::entry;
use crate::errno::{Errno, Result};
use crate::observe::UNNAMED;
use crate::provider::object::Handle;

/// Gives a struct of 1.0 to the program.
fn publish<T>(object: T) -> Result<Handle<T>> {
    // SAFETY: the pointer is that of the box just made.
    unsafe { Handle::from_c(Box::into_raw(small_box(object))) }
}

/// What a function of today gave: a live object, or NULL with the reason in `errno`.
///
/// # Safety
/// A non-null `object` is live.
unsafe fn made<T>(object: *mut T) -> Result<Handle<T>> {
    // SAFETY: by the contract.
    unsafe { Handle::from_c(object) }.map_err(|_| Errno::last())
}

/// Calls today's function with the object inside, and frees the struct around it when that has answered 0.
///
/// # Safety
/// `object` is null or a live struct of [`publish`], which the program gives up.
unsafe fn release<T>(object: *mut T, destroy: impl FnOnce(&T) -> c_int) -> c_int {
    entry::number(
        UNNAMED,
        || {
            // SAFETY: by the contract.
            let answer = destroy(unsafe { object.as_ref() }.ok_or(Errno::EINVAL)?);
            if answer == 0 {
                // SAFETY: by the contract, and no borrow is left.
                drop(unsafe { Box::from_raw(object) });
            }
            Ok(answer)
        },
        |errno| errno.0,
    )
}

/// Today's answer for the object inside.
///
/// # Safety
/// `object` is null or live.
unsafe fn with<T>(object: *mut T, verb: impl FnOnce(&T) -> c_int) -> c_int {
    // SAFETY: by the contract.
    entry::number(UNNAMED, || Ok(verb(unsafe { object.as_ref() }.ok_or(Errno::EINVAL)?)), |errno| errno.0)
}

/// Does nothing. Libraries of providers called it before rdma-core 13, and old ones still do.
#[cfg_attr(not(test), unsafe(export_name = "ibv_register_driver@IBVERBS_1.1"))]
pub extern "C" fn ibv_register_driver(
    _name: *const core::ffi::c_char,
    _init: Option<unsafe extern "C" fn(*const core::ffi::c_char, c_int) -> *mut core::ffi::c_void>,
) {
}
