//! `umad_init(3)`

use core::ffi::c_int;

use crate::debug::trace;

/// Has no effect. 0.
#[unsafe(no_mangle)]
pub extern "C" fn umad_init() -> c_int {
    trace!("umad_init", "umad_init");
    0
}

/// Has no effect. 0.
#[unsafe(no_mangle)]
pub extern "C" fn umad_done() -> c_int {
    trace!("umad_done", "umad_done");
    0
}
