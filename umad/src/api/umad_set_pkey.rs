//! `umad_set_pkey(3)`

use core::ffi::{c_int, c_void};

use super::umad_get_mad_addr::umad_get_mad_addr;
use crate::device_file;

/// Sets the partition key index, where headers have one. 0.
///
/// # Safety
/// `umad` is a buffer with a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_pkey(umad: *mut c_void, pkey_index: c_int) -> c_int {
    if device_file::has_pkey_index() {
        let addr = umad_get_mad_addr(umad);
        // SAFETY: by the contract; the buffer may lie anywhere.
        unsafe { (&raw mut (*addr).pkey_index).write_unaligned(pkey_index as u16) };
    }
    0
}
