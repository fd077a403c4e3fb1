//! System calls that several rooms of the transport need, with their errors as values.

use std::os::fd::RawFd;

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

/// `fstat`.
pub(crate) fn stat(fd: RawFd) -> Result<libc::stat> {
    // SAFETY: stat is a struct of integers, for which all zeroes is a value.
    let mut st: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `st` is writable and as large as the kernel's answer.
    if unsafe { libc::fstat(fd, &mut st) } != 0 {
        return Err(Error::last("fstat"));
    }
    Ok(st)
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
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is writable; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// How long a file may be that this process writes. At a longer one the kernel sends SIGXFSZ besides the error.
pub(crate) fn file_limit() -> u64 {
    // SAFETY: rlimit is two integers, for which zero is a value.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: `limit` is writable.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0 { limit.rlim_cur } else { u64::MAX }
}

/// Extends the file with allocated pages, so that no later access finds the file system full.
pub(crate) fn allocate(fd: RawFd, from: u64, len: u64) -> Result<()> {
    if from.checked_add(len).is_none_or(|end| end > file_limit()) {
        return Err(Error::NoMemory);
    }
    loop {
        // SAFETY: plain system call.
        if uncancelled(|| unsafe { libc::fallocate(fd, 0, from as libc::off_t, len as libc::off_t) }) == 0 {
            return Ok(());
        }
        match super::error::errno() {
            libc::EINTR => {}
            libc::ENOSPC | libc::ENOMEM | libc::EFBIG | libc::EDQUOT => return Err(Error::NoMemory),
            _ => return Err(Error::last("fallocate")),
        }
    }
}
