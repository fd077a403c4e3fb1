//! `umad_open_port(3)`

use core::ffi::{c_char, c_int};

use ironverbs_os::errno::{Errno, Result};

use super::entry;
use crate::ca::choice;
use crate::debug::trace;
use crate::device_file::{self, Kernel};

/// Opens a port, by default the first active one. A descriptor or -errno.
///
/// # Safety
/// `ca_name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_open_port(ca_name: *const c_char, portnum: c_int) -> c_int {
    entry::negative(|| {
        let kernel = Kernel::find();
        trace!("umad_open_port", "ca %s port %d", ca_name, portnum);
        // SAFETY: by the contract.
        unsafe { open(kernel?, ca_name, portnum, false) }
    })
}

/// Opens a port; `smi_only` by default only one that takes subnet management datagrams.
///
/// # Safety
/// `ca_name` is null or NUL-terminated.
pub(super) unsafe fn open(
    kernel: Kernel,
    ca_name: *const c_char,
    portnum: c_int,
    smi_only: bool,
) -> Result<c_int> {
    // SAFETY: by the contract.
    let chosen = choice::choose(unsafe { entry::string(ca_name) }, portnum, smi_only)?;
    let (name, portnum) = (chosen.name.as_c_str(), chosen.portnum);
    trace!("umad_open_port", "opening %s port %d", name.as_ptr(), portnum);
    let number = device_file::number(name, portnum).ok_or(Errno::EINVAL)?;
    let path = device_file::path(b"umad", number);
    let path = path.as_c_str();
    let fd = kernel.open(path).map_err(|errno| {
        // SAFETY: the text of an error lives until the thread asks for another.
        let why = unsafe { libc::strerror(errno.0) };
        trace!("umad_open_port", "open %s failed: %s", path.as_ptr(), why);
        Errno::EIO
    })?;
    trace!("umad_open_port", "opened %s fd %d portid %d", path.as_ptr(), fd, number);
    Ok(fd)
}
