//! `umad_get_port(3)`

use core::ffi::{c_char, c_int};

use ironverbs_os::errno::Errno;
use ironverbs_os::file::Leftovers;

use super::entry;
use crate::abi::umad::umad_port;
use crate::ca::folder::{Folder, For};
use crate::ca::path::{Decimal, Path};
use crate::ca::{CLASS, choice, port as ports};
use crate::debug::trace;

/// Reads a port, by default the first active one. 0 or -errno.
///
/// # Safety
/// `ca_name` is null or NUL-terminated; `port` is null or has room for a port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_port(
    ca_name: *const c_char,
    portnum: c_int,
    port: *mut umad_port,
) -> c_int {
    entry::zero_or_negative(|| {
        trace!("umad_get_port", "ca_name %s portnum %d", ca_name, portnum);
        // SAFETY: by the contract; every bit pattern is a value of the struct's integers and pointers.
        let (name, port) = unsafe { (entry::string(ca_name), port.as_mut()) };
        let port = port.ok_or(Errno::EINVAL)?;
        let mut chosen = choice::choose(name, portnum, false)?;
        // To choose it, the port was read.
        if let Some(read) = chosen.ca.as_mut().and_then(|ca| ca.take_port(chosen.portnum)) {
            *port = read;
            return Ok(());
        }
        let name = chosen.name.as_c_str();
        let number = Decimal::of(chosen.portnum);
        let path = Path::of(&[CLASS.to_bytes(), name.to_bytes(), b"ports", number.as_bytes()]);
        let leftovers = Leftovers::default();
        let folder = Folder::open(path.as_c_str(), For::Entries, &leftovers);
        ports::read(name, name, folder, chosen.portnum, port)
    })
}

/// Frees the partition keys of a port. 0, or -ENODEV without one.
///
/// # Safety
/// `port` is null or was filled by [`umad_get_port`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_release_port(port: *mut umad_port) -> c_int {
    entry::zero_or_negative(|| {
        // SAFETY: by the contract.
        let port = unsafe { port.as_mut() }.ok_or(Errno::ENODEV)?;
        trace!("umad_release_port", "port %s:%d", port.ca_name.as_ptr(), port.portnum);
        ports::release(port);
        trace!("umad_release_port", "releasing %s:%d", port.ca_name.as_ptr(), port.portnum);
        Ok(())
    })
}
