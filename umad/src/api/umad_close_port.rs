//! `umad_close_port(3)`

use core::ffi::c_int;

use super::entry;
use crate::debug::trace;

/// Closes a port, which ends its agents. 0, also where there is none, which `errno` says.
#[unsafe(no_mangle)]
pub extern "C" fn umad_close_port(portid: c_int) -> c_int {
    entry::nothing(|| {
        let _ = nix::unistd::close(portid);
        trace!("umad_close_port", "closed fd %d", portid);
    });
    0
}
