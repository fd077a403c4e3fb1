//! `umad_debug(3)`

use core::ffi::c_int;

use crate::debug;

/// Sets what goes to the standard error, unless `level` is negative; the level.
#[unsafe(no_mangle)]
pub extern "C" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        debug::set_level(level);
    }
    debug::level()
}
