//! System calls that several modules need, with their errors as values.

use std::os::fd::{BorrowedFd, RawFd};

use crate::errno::Errno;
use crate::error::{Error, Result};

// "C-unwind": with asynchronous cancellation a pending request acts when it is enabled again.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Runs `body`, which does not panic, with cancellation of the thread (`pthread_cancel`) disabled. For system
/// calls at which a thread may be cancelled, where posting and polling get to them: cancelling unwinds the
/// stack, on which Rust frames hold locks. It costs a few instructions.
pub fn uncancelled<R>(body: impl FnOnce() -> R) -> R {
    const DISABLE: libc::c_int = 1;
    let mut before = DISABLE;
    // SAFETY: changes a state of this thread and writes the old one, for which there is room.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = body();
    // SAFETY: as above, without a place for the old state.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    result
}

/// A descriptor by its number, to be asked at once: the program may close it at any time, and the kernel says
/// so.
///
/// # Errors
/// `EBADF` of a number that stands for none (-1).
pub fn borrowed<'a>(fd: RawFd) -> Result<BorrowedFd<'a>> {
    if fd < 0 {
        return Err(Error { call: "fcntl", errno: libc::EBADF });
    }
    // SAFETY: not negative. Nobody closes by a borrowed descriptor; what a number means that the program closed
    // or gave away is checked where it matters (`descriptor`), as with any system call that takes a number.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// `fstat`.
///
/// # Errors
/// Those of the system call.
pub fn stat(fd: RawFd) -> Result<libc::stat> {
    nix::sys::stat::fstat(borrowed(fd)?).map_err(|_| Error::last("fstat"))
}

/// Random bits from the kernel.
///
/// # Errors
/// Those of the system call.
pub fn random() -> Result<u64> {
    let mut word = [0u8; 8];
    loop {
        // SAFETY: `word` is writable for the length given.
        let n = unsafe { libc::getrandom(word.as_mut_ptr().cast(), word.len(), 0) };
        if n == 8 {
            return Ok(u64::from_ne_bytes(word));
        }
        if n < 0 && Errno::last().0 != libc::EINTR {
            return Err(Error::last("getrandom"));
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC_COARSE`: some milliseconds behind, for a few cycles.
#[inline(always)]
pub fn coarse_now() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time there. This clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
