//! `umad_get_pkey(3)`

use core::ffi::{c_int, c_void};

use super::umad_get_mad_addr::umad_get_mad_addr;
use crate::device_file;

/// The partition key index, or 0 where headers have none.
///
/// # Safety
/// `umad` is a buffer with a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_get_pkey(umad: *mut c_void) -> c_int {
    if !device_file::has_pkey_index() {
        return 0;
    }
    let addr = umad_get_mad_addr(umad);
    // SAFETY: by the contract; the buffer may lie anywhere.
    unsafe { (&raw const (*addr).pkey_index).read_unaligned().into() }
}
