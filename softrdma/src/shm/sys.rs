//! System calls that several modules of the transport need, with their errors as values.

use std::os::fd::{BorrowedFd, RawFd};

use nix::fcntl::FallocateFlags;
use nix::sys::resource::Resource;
use nix::time::ClockId;

use super::error::{Error, Result};

// "C-unwind": with asynchronous cancellation a pending request acts when it is enabled again.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Runs `body`, which does not panic, with cancellation of the thread (`pthread_cancel`) disabled. For system
/// calls at which a thread may be cancelled, where posting and polling get to them: cancelling unwinds the
/// stack, on which Rust frames hold locks. It costs a few instructions.
pub(crate) fn uncancelled<R>(body: impl FnOnce() -> R) -> R {
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
/// Errors: `EBADF` of a number that stands for none (-1).
pub(crate) fn borrowed<'a>(fd: RawFd) -> Result<BorrowedFd<'a>> {
    if fd < 0 {
        return Err(Error::Os { call: "fcntl", errno: libc::EBADF });
    }
    // SAFETY: not negative. Nobody closes by a borrowed descriptor; what a number means that the program closed
    // or gave away is checked where it matters (`descriptor`), as with any system call that takes a number.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// `fstat`.
pub(crate) fn stat(fd: RawFd) -> Result<libc::stat> {
    nix::sys::stat::fstat(borrowed(fd)?).map_err(|_| Error::last("fstat"))
}

/// Random bits from the kernel.
pub(crate) fn random() -> Result<u64> {
    let mut word = [0u8; 8];
    loop {
        // SAFETY: `word` is writable for the length given.
        let n = unsafe { libc::getrandom(word.as_mut_ptr().cast(), word.len(), 0) };
        if n == 8 {
            return Ok(u64::from_ne_bytes(word));
        }
        if n < 0 && super::error::errno() != libc::EINTR {
            return Err(Error::last("getrandom"));
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC_COARSE`: some milliseconds behind, for a few cycles.
pub(crate) fn coarse_now() -> u64 {
    // This clock exists on every Linux.
    ClockId::CLOCK_MONOTONIC_COARSE
        .now()
        .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// How long a file may be that this process writes. At a longer one the kernel sends SIGXFSZ besides the error.
pub(crate) fn file_limit() -> u64 {
    nix::sys::resource::getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Extends the file with allocated pages, so that no later access finds the file system full.
pub(crate) fn allocate(fd: RawFd, from: u64, len: u64) -> Result<()> {
    if from.checked_add(len).is_none_or(|end| end > file_limit()) {
        return Err(Error::NoMemory);
    }
    let (fd, from, len) = (borrowed(fd)?, from as libc::off_t, len as libc::off_t);
    loop {
        if uncancelled(|| nix::fcntl::fallocate(fd, FallocateFlags::empty(), from, len)).is_ok() {
            return Ok(());
        }
        match super::error::errno() {
            libc::EINTR => {}
            libc::ENOSPC | libc::ENOMEM | libc::EFBIG | libc::EDQUOT => return Err(Error::NoMemory),
            _ => return Err(Error::last("fallocate")),
        }
    }
}
