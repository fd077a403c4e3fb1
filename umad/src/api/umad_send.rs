//! `umad_send(3)`

use core::ffi::{c_int, c_void};

use ironverbs_os::errno::Errno;

use super::umad_dump::umad_dump;
use crate::abi::umad::ib_user_mad;
use crate::debug::{self, address, trace};
use crate::device_file;

unsafe extern "C-unwind" {
    /// A thread may be cancelled here: the stack unwinds through frames with nothing to drop.
    #[link_name = "write"]
    fn cancellable_write(fd: c_int, from: *const c_void, length: usize) -> isize;
}

/// Sends a datagram of `length` bytes. 0, or -EIO with the error in `errno`.
///
/// # Safety
/// `umad` is a buffer with a header and `length` bytes behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_send(
    portid: c_int,
    agentid: c_int,
    umad: *mut c_void,
    length: c_int,
    timeout_ms: c_int,
    retries: c_int,
) -> c_int {
    trace!("umad_send", "fd %d agentid %d umad %p timeout %u", portid, agentid, address(umad), timeout_ms,);
    Errno(0).set();
    let mad: *mut ib_user_mad = umad.cast();
    // SAFETY: by the contract; the buffer may lie anywhere.
    unsafe {
        (&raw mut (*mad).timeout_ms).write_unaligned(timeout_ms as u32);
        (&raw mut (*mad).retries).write_unaligned(retries as u32);
        (&raw mut (*mad).agent_id).write_unaligned(agentid as u32);
    }
    if debug::level() > 1 {
        // SAFETY: by the contract.
        unsafe { umad_dump(umad) };
    }

    // As C adds them: a length that makes no sense is the kernel's to refuse.
    let whole = device_file::header_size().wrapping_add(length as usize);
    // SAFETY: by the contract the buffer has so many bytes.
    let written = unsafe { cancellable_write(portid, umad, whole) } as c_int;
    if written as usize == whole {
        return 0;
    }
    trace!(
        "umad_send",
        "write returned %d != sizeof umad %zu + length %d (%m)",
        written,
        device_file::header_size(),
        length,
    );
    if Errno::last().0 == 0 {
        Errno::EIO.set();
    }
    -libc::EIO
}
