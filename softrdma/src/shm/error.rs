//! What can go wrong below the rules, and the `errno` value that a C caller is told.

use std::collections::TryReserveError;
use std::fmt;

/// Result of a host operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    Os {
        /// The call, as its manual page is named.
        call: &'static str,
        /// The `errno` value it left.
        errno: i32,
    },
    /// The shared folder is not one that this process may trust; the text says why.
    Folder(&'static str),
    /// All slots of the folder are taken by living processes.
    NoSlot,
    /// The shared memory, an address range or a table is full, or the process has no memory left.
    NoMemory,
    /// An offset or length lies outside the memory, or is not aligned.
    OutOfBounds,
    /// A peer's segment says something that cannot be true.
    Corrupt(&'static str),
    /// The peer is gone: its process died, or it is not the one that was asked for.
    Gone,
    /// The object belongs to the process that forked this one.
    Forked,
}

impl Error {
    /// The failure of the system call `call`, from this thread's `errno`.
    pub(crate) fn last(call: &'static str) -> Self {
        Error::Os { call, errno: errno() }
    }

    /// The value of `errno` that says the same.
    pub fn errno(self) -> i32 {
        match self {
            Error::Os { errno, .. } => errno,
            Error::Folder(_) => libc::EACCES,
            Error::NoSlot => libc::EMFILE,
            Error::NoMemory => libc::ENOMEM,
            Error::OutOfBounds => libc::EINVAL,
            Error::Corrupt(_) => libc::EPROTO,
            Error::Gone => libc::ESRCH,
            Error::Forked => libc::EPERM,
        }
    }
}

/// This thread's `errno`.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

impl From<ironverbs_os::error::Error> for Error {
    fn from(error: ironverbs_os::error::Error) -> Self {
        Error::Os { call: error.call, errno: error.errno }
    }
}

impl From<TryReserveError> for Error {
    fn from(_: TryReserveError) -> Self {
        Error::NoMemory
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Os { call, errno } => write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno)),
            Error::Folder(why) => write!(f, "the shared folder cannot be used: {why}"),
            Error::NoSlot => f.write_str("every slot of the shared folder belongs to a living process"),
            Error::NoMemory => f.write_str("no memory left for shared queues"),
            Error::OutOfBounds => f.write_str("outside the shared memory"),
            Error::Corrupt(what) => write!(f, "a peer's memory is damaged: {what}"),
            Error::Gone => f.write_str("the peer process is gone"),
            Error::Forked => f.write_str("the object belongs to the parent process"),
        }
    }
}

impl std::error::Error for Error {}
