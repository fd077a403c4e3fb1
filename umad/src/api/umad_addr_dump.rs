//! `umad_addr_dump(3)`

use core::ffi::{c_int, c_uint};

use crate::abi::umad::ib_mad_addr;
use crate::debug::warning;

/// Writes an address to the standard error.
///
/// # Safety
/// `addr` is null or an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_addr_dump(addr: *mut ib_mad_addr) {
    if addr.is_null() {
        return;
    }
    // SAFETY: by the contract; it may lie anywhere.
    let addr = unsafe { addr.read_unaligned() };
    // SAFETY: every bit pattern is one of bytes.
    let gid = unsafe { addr.anon0.gid };
    let mut text = [0u8; 33];
    for (byte, digits) in gid.iter().zip(text.chunks_exact_mut(2)) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 0xf)];
    }
    warning!(
        "umad_addr_dump",
        "qpn %d qkey 0x%x lid %u sl %d\ngrh_present %d gid_index %d hop_limit %d traffic_class %d \
         flow_label 0x%x pkey_index 0x%x\nGid 0x%s",
        u32::from_be(addr.qpn),
        u32::from_be(addr.qkey),
        c_uint::from(u16::from_be(addr.lid)),
        c_int::from(addr.sl),
        c_int::from(addr.grh_present),
        c_int::from(addr.gid_index),
        c_int::from(addr.hop_limit),
        c_int::from(addr.traffic_class),
        addr.flow_label,
        c_uint::from(addr.pkey_index),
        text.as_ptr(),
    );
}
