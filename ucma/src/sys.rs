//! System calls with Rust's results: an errno value where they fail.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::time::ClockId;

/// Errno value of the call that just failed.
pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// What a call returned, unless it failed.
pub fn checked(returned: i32) -> Result<i32, i32> {
    if returned < 0 { Err(errno()) } else { Ok(returned) }
}

/// A descriptor that a call just made.
pub fn made(returned: i32) -> Result<OwnedFd, i32> {
    let fd = checked(returned)?;
    // SAFETY: the caller got it from a call that makes descriptors, and hands it on.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `socket(2)` as a system call. librspreload would make an rsocket of one of the Internet, and come back for a
/// connection of its own.
///
/// # Errors
/// Those of the system.
pub fn socket(family: libc::c_int, kind: libc::c_int) -> Result<OwnedFd, i32> {
    // SAFETY: the call takes no pointer.
    made(unsafe { libc::syscall(libc::SYS_socket, family, kind, 0) as libc::c_int })
}

/// Time since some moment, that of `CLOCK_MONOTONIC`.
pub fn now() -> Duration {
    // This clock exists on every Linux.
    ClockId::CLOCK_MONOTONIC.now().map_or(Duration::ZERO, Duration::from)
}

/// A number that nobody can guess.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is writable for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == 8 {
        return u64::from_ne_bytes(bytes);
    }
    // Without the call, a number that differs at least: of the hasher, which has the same source or another
    // one.
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(now())
}

/// The same, twice as long.
pub fn secret() -> u128 {
    u128::from(random()) << 64 | u128::from(random())
}

/// Whether a descriptor is open.
pub fn is_open(fd: RawFd) -> bool {
    // SAFETY: asks for a flag.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Whether this thread may take ports below 1024 (`CAP_NET_BIND_SERVICE`). Asked by a call that needs no
/// descriptor: the program may have none left.
pub fn may_bind_low_ports() -> bool {
    const BIND_SERVICE: u32 = 10;
    /// `_LINUX_CAPABILITY_VERSION_3`, and 0 for the calling thread.
    const THIS_THREAD: [u32; 2] = [0x2008_0522, 0];
    // Effective, permitted and inheritable ones; twice, as there are more than 32.
    let mut sets = [[0_u32; 3]; 2];
    let mut header = THIS_THREAD;
    // SAFETY: both are writable, and as large as the kernel takes them for by the version.
    let got = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
    got == 0 && sets[0][0] >> BIND_SERVICE & 1 != 0
}
