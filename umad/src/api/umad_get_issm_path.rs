//! `umad_get_issm_path(3)`

use core::ffi::{c_char, c_int};

use ironverbs_os::errno::Errno;

use super::entry;
use crate::ca::choice;
use crate::debug::trace;
use crate::device_file;

/// Writes the path of the file that says of a port that a subnet manager is there, while the file is open. 0 or
/// -errno.
///
/// # Safety
/// `ca_name` is null or NUL-terminated; `path` has room for `max` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_issm_path(
    ca_name: *const c_char,
    portnum: c_int,
    path: *mut c_char,
    max: c_int,
) -> c_int {
    entry::zero_or_negative(|| {
        trace!("umad_get_issm_path", "ca %s port %d", ca_name, portnum);
        // SAFETY: by the contract.
        let chosen = choice::choose(unsafe { entry::string(ca_name) }, portnum, false)?;
        let number = device_file::number(chosen.name.as_c_str(), chosen.portnum).ok_or(Errno::EINVAL)?;
        if max > 0 && !path.is_null() {
            let text = device_file::path(b"issm", number);
            let text = text.as_c_str().to_bytes();
            let length = text.len().min(max as usize - 1);
            // SAFETY: there is room for `max` bytes, which are more than `length`.
            unsafe {
                core::ptr::copy_nonoverlapping(text.as_ptr(), path.cast(), length);
                *path.add(length) = 0;
            }
        }
        Ok(())
    })
}
