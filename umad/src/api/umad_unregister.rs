//! `umad_unregister(3)`

use core::ffi::c_int;

use crate::abi::user_mad::IB_USER_MAD_UNREGISTER_AGENT;
use crate::debug::trace;

/// Unregisters an agent. 0, or -1 with the error in `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn umad_unregister(portid: c_int, agentid: c_int) -> c_int {
    trace!("umad_unregister", "fd %d unregistering agent %d", portid, agentid);
    // SAFETY: the kernel reads the number.
    unsafe { libc::ioctl(portid, IB_USER_MAD_UNREGISTER_AGENT, &raw const agentid) }
}
