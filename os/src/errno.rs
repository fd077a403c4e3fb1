//! Error numbers, and the one place that reads and writes the thread's `errno`.

use core::fmt;
use std::collections::TryReserveError;

/// A positive error number of `errno.h`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What every operation inside the library returns.
pub type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    /// Resource temporarily unavailable.
    pub const EAGAIN: Self = Self(libc::EAGAIN);
    /// Bad file descriptor.
    pub const EBADF: Self = Self(libc::EBADF);
    /// Device or resource busy.
    pub const EBUSY: Self = Self(libc::EBUSY);
    /// Bad address.
    pub const EFAULT: Self = Self(libc::EFAULT);
    /// No route to host.
    pub const EHOSTUNREACH: Self = Self(libc::EHOSTUNREACH);
    /// Invalid argument.
    pub const EINVAL: Self = Self(libc::EINVAL);
    /// Input/output error; for verbs: the device is gone.
    pub const EIO: Self = Self(libc::EIO);
    /// No data available.
    pub const ENODATA: Self = Self(libc::ENODATA);
    /// No such device.
    pub const ENODEV: Self = Self(libc::ENODEV);
    /// No such file or directory; for verbs: nothing to poll.
    pub const ENOENT: Self = Self(libc::ENOENT);
    /// Cannot allocate memory; for verbs also: the queue is full.
    pub const ENOMEM: Self = Self(libc::ENOMEM);
    /// No space left on device; for verbs: more than the work queue entry holds.
    pub const ENOSPC: Self = Self(libc::ENOSPC);
    /// Function not implemented.
    pub const ENOSYS: Self = Self(libc::ENOSYS);
    /// Not a typewriter: the file has no such ioctl.
    pub const ENOTTY: Self = Self(libc::ENOTTY);
    /// Operation not supported.
    pub const EOPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// Protocol not supported.
    pub const EPROTONOSUPPORT: Self = Self(libc::EPROTONOSUPPORT);

    /// The error that the last failed libc call of this thread left.
    #[must_use]
    pub fn last() -> Self {
        // SAFETY: __errno_location returns a valid pointer to this thread's errno for as long as the thread
        // lives.
        Self(unsafe { *libc::__errno_location() })
    }

    /// Makes this the thread's `errno`.
    pub fn set(self) {
        // SAFETY: as in `last`; nobody else can access another thread's errno.
        unsafe { *libc::__errno_location() = self.0 }
    }

    /// Sets `errno` as well and returns itself: for the error values that rdma-core also leaves in `errno`.
    #[must_use]
    pub fn also_set(self) -> Self {
        self.set();
        self
    }
}

/// A collection has no memory to grow.
impl From<TryReserveError> for Errno {
    fn from(_: TryReserveError) -> Self {
        Self::ENOMEM.also_set()
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "errno {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back() {
        Errno::EBUSY.set();
        assert_eq!(Errno::last(), Errno::EBUSY);
        assert_eq!(Errno::EINVAL.also_set(), Errno::last());
    }

    #[test]
    fn last_is_what_a_failed_call_left() {
        // SAFETY: closing an invalid descriptor has no effect but its error.
        assert_eq!(unsafe { libc::close(-1) }, -1);
        assert_eq!(Errno::last(), Errno::EBADF);
    }
}
