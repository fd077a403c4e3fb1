//! `umad_get_fd(3)`

use core::ffi::c_int;

use crate::debug::trace;

/// The descriptor of a port, which is what the program has.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_fd(portid: c_int) -> c_int {
    trace!("umad_get_fd", "fd %d", portid);
    portid
}
