//! What may be asked of the sockets, and how the kernel is.

use std::mem::size_of;
use std::os::fd::RawFd;

use ironverbs_os::error::{Error, Result};

/// What may be asked of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Send packets of one length to one place by one call, which the kernel or the adapter cuts apart
    /// (`UDP_SEGMENT`, GSO), where it can.
    pub trains: bool,
    /// Receive packets of one length from one place by one call, which the kernel puts together (`UDP_GRO`).
    /// Whoever makes the sockets decides it for all.
    pub coalesce: bool,
    /// Receive packets of this host, too. Any of its users may send them with any address of IPv6
    /// (`IPV6_FREEBIND`), so that nobody's word is good for where they are from. Whoever makes the sockets
    /// decides it for all.
    pub from_here: bool,
    /// Bytes of packets that may wait, those to be received and those to be sent, as the kernel counts them:
    /// with its own data beside each. It gives no more than `net.core.rmem_max` and `wmem_max` say.
    pub room: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { trains: true, coalesce: true, from_here: false, room: 4 << 20 }
    }
}

/// Sets an option of a socket that is an integer.
///
/// # Errors
/// Those of the system call.
pub(super) fn set(socket: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads an integer, for which the value is there.
    match unsafe { libc::setsockopt(socket, level, option, (&raw const value).cast(), length) } {
        0 => Ok(()),
        _ => Err(Error::last("setsockopt")),
    }
}

/// Reads an option of a socket that is an integer, not negative.
///
/// # Errors
/// Those of the system call.
pub(super) fn get(socket: RawFd, level: libc::c_int, option: libc::c_int) -> Result<u32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is writable for the length given.
    let done = unsafe { libc::getsockopt(socket, level, option, (&raw mut value).cast(), &raw mut length) };
    if done == 0 { Ok(value.max(0).cast_unsigned()) } else { Err(Error::last("getsockopt")) }
}
