//! `umad_open_smi_port(3)`

use core::ffi::{c_char, c_int};

use super::{entry, umad_open_port};
use crate::debug::trace;
use crate::device_file::Kernel;

/// Opens a port, by default the first active one that takes subnet management datagrams. A descriptor or
/// -errno.
///
/// # Safety
/// `ca_name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_open_smi_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    entry::negative(|| {
        let kernel = Kernel::find();
        trace!("umad_open_smi_port", "ca %s port %d", ca_name, portnum);
        // SAFETY: by the contract.
        unsafe { umad_open_port::open(kernel?, ca_name, portnum, true) }
    })
}
