//! `umad_size(3)`

use crate::device_file;

/// Bytes in front of the datagram.
#[unsafe(no_mangle)]
pub extern "C" fn umad_size() -> libc::size_t {
    device_file::header_size()
}
