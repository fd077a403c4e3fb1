//! `umad_poll(3)`

use core::ffi::c_int;

use crate::debug::trace;

unsafe extern "C-unwind" {
    /// A thread may be cancelled here: the stack unwinds through frames with nothing to drop.
    #[link_name = "poll"]
    fn cancellable_poll(places: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int;
}

/// Waits up to `timeout_ms`, for ever if that is negative. 0, -ETIMEDOUT, or -EIO with the error in `errno`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn umad_poll(portid: c_int, timeout_ms: c_int) -> c_int {
    trace!("umad_poll", "fd %d timeout %u", portid, timeout_ms);
    wait(portid, timeout_ms)
}

pub(super) fn wait(fd: c_int, timeout_ms: c_int) -> c_int {
    let mut place = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one place, exclusively held.
    match unsafe { cancellable_poll(&raw mut place, 1, timeout_ms) } {
        1 => 0,
        0 => -libc::ETIMEDOUT,
        _ => -libc::EIO,
    }
}
