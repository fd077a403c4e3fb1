//! `umad_get_mad_addr(3)`

use core::ffi::c_void;
use core::mem::offset_of;

use crate::abi::umad::{ib_mad_addr, ib_user_mad};

/// The address in a buffer.
#[unsafe(no_mangle)]
pub extern "C" fn umad_get_mad_addr(umad: *mut c_void) -> *mut ib_mad_addr {
    umad.wrapping_byte_add(offset_of!(ib_user_mad, addr)).cast()
}
