//! `umad_set_grh(3)`

use core::ffi::{c_int, c_void};

use super::umad_get_mad_addr::umad_get_mad_addr;
use crate::abi::umad::ib_mad_addr;

/// Takes GID, flow label (in host byte order), hop limit and traffic class of an address, or none of them. 0.
///
/// # Safety
/// `umad` is a buffer with a header, `mad_addr` null or an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_grh(umad: *mut c_void, mad_addr: *mut c_void) -> c_int {
    let (to, from): (_, *const ib_mad_addr) = (umad_get_mad_addr(umad), mad_addr.cast());
    // SAFETY: by the contract; both may lie anywhere.
    unsafe {
        (&raw mut (*to).grh_present).write(u8::from(!from.is_null()));
        if !from.is_null() {
            let from = from.read_unaligned();
            (&raw mut (*to).anon0).write_unaligned(from.anon0);
            (&raw mut (*to).flow_label).write_unaligned(from.flow_label.to_be());
            (&raw mut (*to).hop_limit).write(from.hop_limit);
            (&raw mut (*to).traffic_class).write(from.traffic_class);
        }
    }
    0
}
