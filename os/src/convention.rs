//! The conventions by which C functions report failure.

use core::ffi::c_int;

use crate::errno::Result;

/// 0, or the error as a positive number; `errno` stays as the failed operation left it.
pub fn value(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// 0, or -1 with the error in `errno`.
pub fn minus_one(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            errno.set();
            -1
        }
    }
}

/// A number that is not negative, or the error as a negative one; `errno` stays as the failed operation left
/// it.
pub fn negative(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|errno| -errno.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;

    #[test]
    fn each_convention_reports_as_it_says() {
        Errno(0).set();
        assert_eq!((value(Ok(())), value(Err(Errno::EBUSY))), (0, libc::EBUSY));
        assert_eq!((negative(Ok(7)), negative(Err(Errno::EBUSY))), (7, -libc::EBUSY));
        assert_eq!(Errno::last(), Errno(0));
        assert_eq!((minus_one(Ok(())), minus_one(Err(Errno::EINVAL))), (0, -1));
        assert_eq!(Errno::last(), Errno::EINVAL);
    }
}
