//! A system call that failed, by its name.

use std::fmt;

use crate::errno::Errno;

/// Result of what asks the system.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A system call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// The call, as its manual page is named.
    pub call: &'static str,
    /// The `errno` value it left.
    pub errno: i32,
}

impl Error {
    /// The failure of the system call `call`, from this thread's `errno`.
    #[must_use]
    pub fn last(call: &'static str) -> Self {
        Error { call, errno: Errno::last().0 }
    }

    /// The value of `errno` that says the same.
    #[must_use]
    pub fn errno(self) -> i32 {
        self.errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, std::io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Error {}
