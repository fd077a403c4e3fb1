//! CAs and ports as sysfs has them, and which of them is the default.
//!
//! What is read, in which order, and what a missing file means is rdma-core's library's choice, because the
//! error and the fields that were already written tell a program of it.

use core::ffi::{CStr, c_char};

pub mod adapter;
pub mod choice;
pub mod folder;
pub mod list;
pub mod pairs;
pub mod path;
pub mod port;

/// The folder of the CAs.
pub const CLASS: &CStr = c"/sys/class/infiniband";

/// Bytes of a field that holds a name or a text.
pub(crate) fn bytes_of(field: &mut [c_char]) -> &mut [u8] {
    // SAFETY: c_char and u8 have the same size and take every value.
    unsafe { core::slice::from_raw_parts_mut(field.as_mut_ptr().cast(), field.len()) }
}

/// The text of a field up to its NUL, or all of it.
pub(crate) fn text_of(field: &[c_char]) -> &[u8] {
    // SAFETY: as in `bytes_of`.
    let bytes: &[u8] = unsafe { core::slice::from_raw_parts(field.as_ptr().cast(), field.len()) };
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Writes a name as strncpy does for all bytes of the field but the last, which becomes a NUL where the name
/// would run into it.
pub(crate) fn set_name(field: &mut [c_char], name: &CStr) {
    let field = bytes_of(field);
    let room = field.len() - 1;
    let name = name.to_bytes();
    let length = name.len().min(room);
    field[..length].copy_from_slice(&name[..length]);
    field[length..room].fill(0);
    if length == room {
        field[room] = 0;
    }
}
