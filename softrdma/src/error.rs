//! Why a control operation fails.

use std::collections::TryReserveError;
use std::fmt;

use crate::queues::transaction::LockError;
use crate::shm;

/// Why a control operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// An argument is out of range, or does not go with the others (`EINVAL`).
    Invalid(&'static str),
    /// A change of a queue pair that its state does not allow (`EINVAL`).
    Modify(crate::rules::qp::Refused),
    /// No room for another object (`ENOMEM`).
    NoMemory,
    /// Something still uses the object (`EBUSY`).
    Busy,
    /// The device has no such feature (`EOPNOTSUPP`).
    Unsupported,
    /// The memory to register is not there, or not with the rights asked for (`EFAULT`).
    Fault,
    /// It exists already (`EEXIST`): an XRC domain opened with `O_EXCL`.
    Exists,
    /// It does not exist (`ENOENT`): an XRC domain opened without `O_CREAT`.
    NotFound,
    /// The transport failed.
    Host(shm::Error),
}

impl Error {
    /// The value of `errno` that says the same.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Error::Invalid(_) | Error::Modify(_) => libc::EINVAL,
            Error::NoMemory => libc::ENOMEM,
            Error::Busy => libc::EBUSY,
            Error::Unsupported => libc::EOPNOTSUPP,
            Error::Fault => libc::EFAULT,
            Error::Exists => libc::EEXIST,
            Error::NotFound => libc::ENOENT,
            Error::Host(e) => e.errno(),
        }
    }
}

impl From<shm::Error> for Error {
    fn from(e: shm::Error) -> Self {
        match e {
            shm::Error::NoMemory => Error::NoMemory,
            e => Error::Host(e),
        }
    }
}

impl From<ironverbs_os::error::Error> for Error {
    fn from(e: ironverbs_os::error::Error) -> Self {
        Error::Host(e.into())
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
            Error::Invalid(what) => f.write_str(what),
            Error::Modify(refused) => write!(f, "change of a queue pair refused: {refused:?}"),
            Error::NoMemory => f.write_str("no room for another object"),
            Error::Busy => f.write_str("still in use"),
            Error::Unsupported => f.write_str("the device has no such feature"),
            Error::Fault => f.write_str("memory is not there"),
            Error::Exists => f.write_str("exists already"),
            Error::NotFound => f.write_str("does not exist"),
            Error::Host(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// Result of a control operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A lock in shared memory could not be had.
pub(crate) fn busy(e: LockError) -> Error {
    match e {
        LockError::Busy | LockError::Held | LockError::Unclear => Error::Busy,
        LockError::Gone => Error::Host(shm::Error::Gone),
    }
}
