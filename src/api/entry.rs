//! The conventions by which verbs report failure. Every C entry point names its own by the function it calls here, and
//! no panic passes these functions.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::errno::{Errno, Result};
use crate::provider::object::Handle;

/// What a call gets when something inside the library broke: the verb fails as if the device had.
const BROKEN: Errno = Errno::EIO;

fn guarded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(BROKEN.also_set()))
}

/// A pointer, or NULL with the error in `errno`.
pub fn pointer<T>(body: impl FnOnce() -> Result<Handle<T>>) -> *mut T {
    match guarded(body) {
        Ok(handle) => handle.as_ptr(),
        Err(errno) => {
            errno.set();
            core::ptr::null_mut()
        }
    }
}

/// 0, or the error as a positive number; `errno` stays as the failed operation left it.
pub fn value(body: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(body) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// 0, or -1 with the error in `errno`.
pub fn minus_one(body: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(body) {
        Ok(()) => 0,
        Err(errno) => {
            errno.set();
            -1
        }
    }
}

/// A number of its own kind (a count, an index, an enumerator), or `otherwise` of the error.
pub fn number<R>(body: impl FnOnce() -> Result<R>, otherwise: impl FnOnce(Errno) -> R) -> R {
    guarded(body).unwrap_or_else(otherwise)
}

/// Nothing to report: a failure has no way to the program.
pub fn nothing(body: impl FnOnce() -> Result<()>) {
    let _ = guarded(body);
}

/// An array of the program's as a slice; null counts as empty.
///
/// # Safety
/// A non-null `first` is followed by `count` elements that nobody else touches during the call.
pub unsafe fn array<'a, T>(first: *mut T, count: usize) -> &'a mut [T] {
    if first.is_null() {
        return &mut [];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts_mut(first, count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_convention_reports_as_it_says() {
        Errno(0).set();
        assert_eq!(value(|| Err(Errno::EBUSY)), libc::EBUSY);
        assert_eq!(Errno::last(), Errno(0));
        assert_eq!(minus_one(|| Err(Errno::EINVAL)), -1);
        assert_eq!(Errno::last(), Errno::EINVAL);
        assert!(pointer::<u32>(|| Err(Errno::ENOMEM)).is_null());
        assert_eq!(Errno::last(), Errno::ENOMEM);
        assert_eq!(number(|| Err(Errno::EINVAL), |errno| -errno.0), -libc::EINVAL);
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(value(|| panic!("inside")), libc::EIO);
    }
}
