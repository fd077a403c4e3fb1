//! `umad_status(3)`

use core::ffi::{c_int, c_void};

use crate::abi::umad::ib_user_mad;

/// 0, or the errno value with which a request ended.
///
/// # Safety
/// `umad` is a buffer with a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_status(umad: *mut c_void) -> c_int {
    let umad: *mut ib_user_mad = umad.cast();
    // SAFETY: by the contract; the buffer may lie anywhere.
    unsafe { (&raw const (*umad).status).read_unaligned() as c_int }
}
