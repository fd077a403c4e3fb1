//! `umad_set_addr_net(3)`

use core::ffi::{c_int, c_uint, c_void};

use super::umad_get_mad_addr::umad_get_mad_addr;
use crate::abi::{__be16, __be32};
use crate::debug::{address, trace};

/// Sets local identifier, queue pair, service level and Q_Key from network byte order. 0.
///
/// # Safety
/// `umad` is a buffer with a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_addr_net(
    umad: *mut c_void,
    dlid: __be16,
    dqp: __be32,
    sl: c_int,
    qkey: __be32,
) -> c_int {
    trace!(
        "umad_set_addr_net",
        "umad %p dlid %u dqp %d sl %d qkey %x",
        address(umad),
        c_uint::from(u16::from_be(dlid)),
        u32::from_be(dqp),
        sl,
        u32::from_be(qkey),
    );
    // SAFETY: by the contract.
    unsafe { set(umad, dlid, dqp, sl, qkey) };
    0
}

/// # Safety
/// `umad` is a buffer with a header.
pub(super) unsafe fn set(umad: *mut c_void, lid: __be16, qpn: __be32, sl: c_int, qkey: __be32) {
    let addr = umad_get_mad_addr(umad);
    // SAFETY: by the contract; the buffer may lie anywhere.
    unsafe {
        (&raw mut (*addr).qpn).write_unaligned(qpn);
        (&raw mut (*addr).lid).write_unaligned(lid);
        (&raw mut (*addr).qkey).write_unaligned(qkey);
        (&raw mut (*addr).sl).write(sl as u8);
    }
}
