//! `umad_dump(3)`

use core::ffi::c_void;

use super::umad_addr_dump::umad_addr_dump;
use super::umad_get_mad_addr::umad_get_mad_addr;
use crate::abi::umad::ib_user_mad;
use crate::debug::warning;

/// Writes the header of a datagram to the standard error.
///
/// # Safety
/// `umad` is null or a buffer with a header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_dump(umad: *mut c_void) {
    if umad.is_null() {
        return;
    }
    let mad: *const ib_user_mad = umad.cast();
    // SAFETY: by the contract; the buffer may lie anywhere.
    let (agent, status, timeout) = unsafe {
        (
            (&raw const (*mad).agent_id).read_unaligned(),
            (&raw const (*mad).status).read_unaligned(),
            (&raw const (*mad).timeout_ms).read_unaligned(),
        )
    };
    warning!("umad_dump", "agent id %d status %x timeout %d", agent, status, timeout);
    // SAFETY: the address lies in the header.
    unsafe { umad_addr_dump(umad_get_mad_addr(umad)) };
}
