//! Completion counters (`man ibv_create_comp_cntr`, `man ibv_qp_attach_comp_cntr`).

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::observe::{Call, call};
use crate::provider::object::Handle;
use crate::provider::{Context, context};

/// What the device's completion counters can do, into the first `caps_size` bytes of `caps`; 0 or an errno
/// value, EINVAL for less room than the structure has.
///
/// # Safety
/// `context` is null or open, `caps` null or can be written for `caps_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    caps_size: usize,
) -> c_int {
    entry::value(call!("ibv_query_comp_cntr_caps", context, out caps, caps_size), || {
        // SAFETY: handed on to the caller.
        let provider = unsafe { context::provider(context) }?;
        if caps.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller has room for `caps_size` bytes.
        let caps = unsafe {
            caps.cast::<u8>().write_bytes(0, caps_size);
            core::slice::from_raw_parts_mut(caps.cast::<u8>(), caps_size)
        };
        provider.query_comp_cntr_caps(caps)
    })
}

/// A completion counter that counts nothing yet; NULL and `errno` on failure.
///
/// # Safety
/// `context` is null or open, `cc_attr` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_cntr(
    context: *mut ibv_context,
    cc_attr: *mut ibv_comp_cntr_init_attr,
) -> *mut ibv_comp_cntr {
    entry::pointer(call!("ibv_create_comp_cntr", context, cc_attr), || {
        // SAFETY: handed on to the caller.
        let (provider, attr) =
            unsafe { (context::provider(context)?, cc_attr.as_mut().ok_or(Errno::EINVAL)?) };
        let counter = provider.create_comp_cntr(attr)?;
        // SAFETY: just made, and nobody else knows it yet.
        unsafe { (*counter.as_ptr()).context = context };
        Ok(counter)
    })
}

/// Frees a completion counter; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_cntr(comp_cntr: *mut ibv_comp_cntr) -> c_int {
    entry::value(call!("ibv_destroy_comp_cntr", comp_cntr), || {
        // SAFETY: handed on to the caller.
        let (counter, provider) = unsafe { context::of(comp_cntr) }?;
        provider.destroy_comp_cntr(counter)
    })
}

/// # Safety
/// `counter` is null or live.
unsafe fn change(
    call: Call<'_>,
    counter: *mut ibv_comp_cntr,
    with: impl FnOnce(&dyn Context, Handle<ibv_comp_cntr>) -> Result<()>,
) -> c_int {
    entry::value(call, || {
        // SAFETY: handed on to the caller.
        let (counter, provider) = unsafe { context::of(counter) }?;
        with(provider, counter)
    })
}

/// # Safety
/// `counter` is null or live, `value` null or can be written.
unsafe fn read(
    call: Call<'_>,
    counter: *mut ibv_comp_cntr,
    value: *mut u64,
    with: impl FnOnce(&dyn Context, Handle<ibv_comp_cntr>, &mut u64) -> Result<()>,
) -> c_int {
    entry::value(call, || {
        // SAFETY: handed on to the caller.
        let ((counter, provider), value) =
            unsafe { (context::of(counter)?, value.as_mut().ok_or(Errno::EINVAL)?) };
        with(provider, counter, value)
    })
}

/// Sets the number of completions; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int {
    // SAFETY: handed on to the caller.
    unsafe {
        let call = call!("ibv_set_comp_cntr", comp_cntr, value);
        change(call, comp_cntr, |provider, counter| provider.set_comp_cntr(counter, value))
    }
}

/// Sets the number of failures; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: u64) -> c_int {
    // SAFETY: handed on to the caller.
    unsafe {
        let call = call!("ibv_set_err_comp_cntr", comp_cntr, value);
        change(call, comp_cntr, |provider, counter| provider.set_err_comp_cntr(counter, value))
    }
}

/// Adds to the number of completions; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_inc_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int {
    // SAFETY: handed on to the caller.
    unsafe {
        let call = call!("ibv_inc_comp_cntr", comp_cntr, amount);
        change(call, comp_cntr, |provider, counter| provider.inc_comp_cntr(counter, amount))
    }
}

/// Adds to the number of failures; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_inc_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, amount: u64) -> c_int {
    // SAFETY: handed on to the caller.
    unsafe {
        let call = call!("ibv_inc_err_comp_cntr", comp_cntr, amount);
        change(call, comp_cntr, |provider, counter| provider.inc_err_comp_cntr(counter, amount))
    }
}

/// The number of completions; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live, `value` null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int {
    // SAFETY: handed on to the caller.
    unsafe {
        let call = call!("ibv_read_comp_cntr", comp_cntr, out value);
        read(call, comp_cntr, value, |provider, counter, value| provider.read_comp_cntr(counter, value))
    }
}

/// The number of failures; 0 or an errno value.
///
/// # Safety
/// `comp_cntr` is null or live, `value` null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_err_comp_cntr(comp_cntr: *mut ibv_comp_cntr, value: *mut u64) -> c_int {
    // SAFETY: handed on to the caller.
    unsafe {
        let call = call!("ibv_read_err_comp_cntr", comp_cntr, out value);
        read(call, comp_cntr, value, |provider, counter, value| provider.read_err_comp_cntr(counter, value))
    }
}

/// Has a counter count the operations of a queue pair that `attr` names; 0 or an errno value.
///
/// # Safety
/// `qp` and `comp_cntr` are null or live, `attr` null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_attach_comp_cntr(
    qp: *mut ibv_qp,
    comp_cntr: *mut ibv_comp_cntr,
    attr: *mut ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    entry::value(call!("ibv_qp_attach_comp_cntr", qp, comp_cntr, attr), || {
        // SAFETY: handed on to the caller.
        let ((qp, provider), counter, attr) =
            unsafe { (context::of(qp)?, Handle::from_c(comp_cntr)?, attr.as_mut().ok_or(Errno::EINVAL)?) };
        provider.qp_attach_comp_cntr(qp, counter, attr)
    })
}
