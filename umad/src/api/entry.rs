//! The conventions by which the functions report failure, and what they take from C.

use core::ffi::{CStr, c_char, c_int};

use ironverbs_os::convention;
use ironverbs_os::errno::{Errno, Result};
use ironverbs_os::guard::guarded;

/// A number, or -errno; `errno` itself stays as the failed system call left it.
pub fn negative(body: impl FnOnce() -> Result<c_int>) -> c_int {
    convention::negative(guarded(body))
}

/// 0, or -errno likewise.
pub fn zero_or_negative(body: impl FnOnce() -> Result<()>) -> c_int {
    negative(|| body().map(|()| 0))
}

/// 0, or an errno value; `errno` likewise.
pub fn value(body: impl FnOnce() -> Result<()>) -> c_int {
    convention::value(guarded(body))
}

/// A pointer or null; `errno` is what `body` left.
pub fn pointer<T>(body: impl FnOnce() -> Result<*mut T>) -> *mut T {
    guarded(body).unwrap_or(core::ptr::null_mut())
}

/// Nothing to report.
pub fn nothing(body: impl FnOnce()) {
    let _ = guarded(|| {
        body();
        Ok(())
    });
}

/// A string of the program's, if there is one.
///
/// # Safety
/// `text` is null or NUL-terminated and stays as it is during the call.
pub unsafe fn string<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: by the contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// What is reported as -1 without saying why.
pub const FAILED: Errno = Errno(1);
