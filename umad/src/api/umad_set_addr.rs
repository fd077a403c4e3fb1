//! `umad_set_addr(3)`

use core::ffi::{c_int, c_void};

use super::umad_set_addr_net::set;
use crate::debug::{address, trace};

/// Sets local identifier, queue pair, service level and Q_Key from host byte order. 0.
///
/// # Safety
/// `umad` is a buffer with a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_set_addr(
    umad: *mut c_void,
    dlid: c_int,
    dqp: c_int,
    sl: c_int,
    qkey: c_int,
) -> c_int {
    trace!("umad_set_addr", "umad %p dlid %u dqp %d sl %d, qkey %x", address(umad), dlid, dqp, sl, qkey,);
    // SAFETY: by the contract.
    unsafe { set(umad, (dlid as u16).to_be(), (dqp as u32).to_be(), sl, (qkey as u32).to_be()) };
    0
}
