//! `umad_get_mad(3)`

use core::ffi::c_void;

use crate::device_file;

/// The datagram in a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_mad(umad: *mut c_void) -> *mut c_void {
    umad.wrapping_byte_add(device_file::header_size())
}
