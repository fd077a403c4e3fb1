//! Why the port is not to be had, in words for the user; why a packet did not leave.

use std::fmt;

use ironverbs_os::error::Error;

use super::holder::Holder;
use super::number::{VARIABLE, udp_port};
use super::set::COMMON;

/// Why a process does not get the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortError {
    /// The environment asks for a port that there is not.
    NotAPort,
    /// The process has a slot of the folder that has no place at the port.
    NoPlace {
        /// The slot.
        slot: u16,
    },
    /// A process of another folder, in the same network namespace, has the place.
    PlaceTaken {
        /// The place.
        place: u16,
        /// That process, 0 where this one's PID namespace does not have it.
        pid: libc::pid_t,
        /// Its user.
        uid: libc::uid_t,
    },
    /// The port belongs to somebody who does not share it.
    Held(Holder),
    /// Another user listens where processes of this one meet.
    NameTaken {
        /// That user.
        uid: libc::uid_t,
    },
    /// The processes that have the port do not answer: they are stopped, or what is left of them is a child
    /// that never ran the library.
    NoAnswer {
        /// The process that made the sockets, 0 where it is not to be seen.
        pid: libc::pid_t,
    },
    /// The processes that have the port share it in another way: another version of the library.
    OtherVersion,
    /// A system call failed.
    Os(Error),
}

impl PortError {
    /// The value of `errno` that says the same.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            PortError::NotAPort => libc::EINVAL,
            PortError::NoPlace { .. } => libc::EMFILE,
            PortError::PlaceTaken { .. } | PortError::Held(_) | PortError::NameTaken { .. } => {
                libc::EADDRINUSE
            }
            PortError::NoAnswer { .. } => libc::ETIMEDOUT,
            PortError::OtherVersion => libc::EPROTO,
            PortError::Os(error) => error.errno(),
        }
    }
}

impl From<Error> for PortError {
    fn from(error: Error) -> Self {
        PortError::Os(error)
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = udp_port();
        match *self {
            PortError::NotAPort => write!(f, "{VARIABLE} names no UDP port (1 to 65535)"),
            PortError::NoPlace { slot } => write!(
                f,
                "UDP port {port} has places for {COMMON} processes, and this one is number {} in its folder",
                slot + 1
            ),
            PortError::PlaceTaken { place, pid, uid } => write!(
                f,
                "place {place} at UDP port {port} belongs to process {pid} of user {uid}, which uses another \
                 folder in this network namespace: let both use one (IRONVERBS_SOFT_DIR)"
            ),
            PortError::Held(holder) => holder.fmt(f),
            PortError::NameTaken { uid } => write!(
                f,
                "user {uid} listens at the address where this user's processes share UDP port {port}"
            ),
            PortError::NoAnswer { pid } => write!(
                f,
                "the processes that share UDP port {port} do not answer: are they stopped? \
                 Process {pid} was the first"
            ),
            PortError::OtherVersion => write!(
                f,
                "UDP port {port} is shared by processes of another version of this library: end them first"
            ),
            PortError::Os(error) => write!(f, "UDP port {port}: {error}"),
        }
    }
}

impl std::error::Error for PortError {}

/// Why a packet did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// Longer than the interface, or what the path is known to take (`EMSGSIZE`).
    TooLong,
    /// There is no way there, or nobody (`ENETUNREACH`, `EHOSTUNREACH`, `ECONNREFUSED` and their like).
    Unreachable {
        /// Which of them.
        errno: i32,
    },
    /// No room now: later there is (`EAGAIN`, `ENOBUFS`, `ENOMEM`).
    Full,
    /// The host forbids it: a firewall's rule, or a route that prohibits (`EPERM`, `EACCES`).
    Forbidden,
    /// The source is no address of this host, or the two do not go together (`EINVAL`, `EADDRNOTAVAIL`). Of
    /// IPv4 newer kernels say [`Unreachable`](Self::Unreachable) instead.
    Address,
    /// Memory that a piece names is not there (`EFAULT`).
    Fault,
    /// A packet of more pieces than [`PIECES`](super::send::PIECES), or more bytes than a datagram has.
    Shape,
    /// The program has closed the socket (`EBADF`).
    Closed,
    /// Anything else.
    Other {
        /// The `errno` value.
        errno: i32,
    },
}

impl SendError {
    /// What an `errno` of `sendmsg` means.
    pub(super) fn of(errno: i32) -> Self {
        match errno {
            libc::EMSGSIZE => SendError::TooLong,
            libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::ENODEV
            | libc::ENXIO
            | libc::ENOPROTOOPT
            | libc::EPROTO => SendError::Unreachable { errno },
            libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => SendError::Full,
            libc::EPERM | libc::EACCES => SendError::Forbidden,
            libc::EINVAL | libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT => SendError::Address,
            libc::EFAULT => SendError::Fault,
            libc::EBADF | libc::ENOTSOCK => SendError::Closed,
            errno => SendError::Other { errno },
        }
    }
}
