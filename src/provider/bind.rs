//! The binding of a memory window of type 1, which is a send request of the window's device.

use core::ffi::c_int;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;

/// The key of the next binding: the low byte counts, the rest is the window's.
fn next_rkey(rkey: u32) -> u32 {
    (rkey & 0xffff_ff00) | (rkey.wrapping_add(1) & 0xff)
}

/// Posts the binding of a type 1 window, and gives it its new key at once; a program whose binding completes
/// with an error must set the old one again. Every error is left in `errno`.
///
/// # Safety
/// `post_send` posts to queue pairs of the handle's provider.
pub unsafe fn post(
    post_send: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
    qp: Handle<ibv_qp>,
    mw: Handle<ibv_mw>,
    bind: &ibv_mw_bind,
) -> Result<()> {
    if bind.bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED as u32 != 0 {
        return Err(Errno::EINVAL.also_set());
    }
    // SAFETY: a live handle.
    let rkey = next_rkey(unsafe { (*mw.as_ptr()).rkey });
    // SAFETY: plain C data of pointers and integers; all zeros is its empty value.
    let mut wr: ibv_send_wr = unsafe { core::mem::zeroed() };
    wr.opcode = IBV_WR_BIND_MW as u32;
    wr.wr_id = bind.wr_id;
    wr.send_flags = bind.send_flags;
    wr.anon2.bind_mw = ibv_send_wr_anon2_bind_mw { mw: mw.as_ptr(), rkey, bind_info: bind.bind_info };
    let mut bad_wr = core::ptr::null_mut();
    // SAFETY: a live queue pair that the function knows, and a list of one valid request.
    match unsafe { post_send(qp.as_ptr(), &raw mut wr, &raw mut bad_wr) } {
        0 => {
            // SAFETY: a live handle, whose key the program lets the library change here.
            unsafe { (*mw.as_ptr()).rkey = rkey };
            Ok(())
        }
        error => Err(Errno(error).also_set()),
    }
}

#[cfg(test)]
mod tests {
    use super::next_rkey;

    #[test]
    fn only_the_low_byte_of_a_key_counts_up() {
        assert_eq!(next_rkey(0x1234_5601), 0x1234_5602);
        assert_eq!(next_rkey(0x1234_56ff), 0x1234_5600);
        assert_eq!(next_rkey(u32::MAX), 0xffff_ff00);
    }
}
