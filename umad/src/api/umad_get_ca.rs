//! `umad_get_ca(3)`

use core::ffi::{c_char, c_int};

use ironverbs_os::errno::Errno;

use super::entry;
use crate::abi::umad::umad_ca;
use crate::ca::{adapter, choice};
use crate::debug::trace;

/// Reads a CA, by default the first one with an active port. 0 or -errno.
///
/// # Safety
/// `ca_name` is null or NUL-terminated; `ca` is null or has room for a CA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_ca(ca_name: *const c_char, ca: *mut umad_ca) -> c_int {
    entry::zero_or_negative(|| {
        trace!("umad_get_ca", "ca_name %s", ca_name);
        // SAFETY: by the contract; every bit pattern is a value of the struct's integers and pointers.
        let (name, ca) = unsafe { (entry::string(ca_name), ca.as_mut()) };
        let ca = ca.ok_or(Errno::EINVAL)?;
        let chosen = choice::choose_ca_only(name)?;
        match chosen.ca {
            Some(read) => *ca = read.into_raw(),
            None => adapter::read(chosen.name.as_c_str(), ca)?,
        }
        trace!("umad_get_ca", "opened %s", chosen.name.as_c_str().as_ptr());
        Ok(())
    })
}

/// Frees the ports of a CA. 0, or -ENODEV without one.
///
/// # Safety
/// `ca` is null or was filled by [`umad_get_ca`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_release_ca(ca: *mut umad_ca) -> c_int {
    entry::zero_or_negative(|| {
        // SAFETY: by the contract.
        let ca = unsafe { ca.as_mut() }.ok_or(Errno::ENODEV)?;
        trace!("umad_release_ca", "ca_name %s", ca.ca_name.as_ptr());
        adapter::release(ca);
        trace!("umad_release_ca", "releasing %s", ca.ca_name.as_ptr());
        Ok(())
    })
}
