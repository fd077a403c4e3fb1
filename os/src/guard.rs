//! What lies between a C caller and Rust: no panic passes, and no cancellation acts.
//!
//! Cancelling a thread (`pthread_cancel`) unwinds its stack, which must not meet a Rust frame that stops
//! unwinding or has something to drop. Nearly every system call is a place where it would begin. So
//! cancellation is disabled while Rust code runs for a caller; a request that comes meanwhile stays pending,
//! and acts at the thread's next cancellation point.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::errno::{Errno, Result};

/// What a call gets when something inside the library broke: it fails as if the device had.
const BROKEN: Errno = Errno::EIO;

/// `PTHREAD_CANCEL_DISABLE`
const DISABLE: c_int = 1;

// "C-unwind": with asynchronous cancellation a pending request acts when it is enabled again.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs `body` for a C caller.
pub fn guarded<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    guarded_nested(|_| body())
}

/// As [`guarded`], with the word whether it may be within another guarded call of this thread. It is not where
/// the thread could be cancelled until now.
#[inline]
pub fn guarded_nested<R>(body: impl FnOnce(bool) -> Result<R>) -> Result<R> {
    while_disabled(|before| {
        let run = AssertUnwindSafe(|| body(before == DISABLE));
        catch_unwind(run).unwrap_or_else(|_| Err(BROKEN.also_set()))
    })
}

/// Runs `body`, which does not panic, with cancellation of the thread disabled: for what runs without
/// [`guarded`], on the data path. It costs a few instructions and no system call.
#[inline]
pub fn uncancelled<R>(body: impl FnOnce() -> R) -> R {
    while_disabled(|_| body())
}

/// Runs `body` with cancellation disabled, and the state that it had before.
#[inline]
fn while_disabled<R>(body: impl FnOnce(c_int) -> R) -> R {
    let mut before: c_int = DISABLE;
    // SAFETY: changes a state of this thread and writes the old one, for which there is room.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = body(before);
    // SAFETY: as above, without a place for the old state.
    unsafe { pthread_setcancelstate(before, core::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> c_int {
        let mut before = -1;
        // SAFETY: there is room for the old state; the second call puts it back.
        unsafe {
            pthread_setcancelstate(DISABLE, &raw mut before);
            pthread_setcancelstate(before, core::ptr::null_mut());
        }
        before
    }

    #[test]
    fn cancellation_is_as_before_after_each_call() {
        let before = state();
        assert_ne!(before, DISABLE);
        assert_eq!(guarded(|| Ok(state())), Ok(DISABLE));
        assert_eq!(guarded(|| guarded(|| Ok(())).map(|()| state())), Ok(DISABLE));
        assert_eq!(guarded_nested(|nested| guarded_nested(|inner| Ok((nested, inner)))), Ok((false, true)));
        assert_eq!(guarded(|| -> Result<()> { panic!("inside") }), Err(Errno::EIO));
        assert_eq!(state(), before);
        assert_eq!(uncancelled(|| uncancelled(state)), DISABLE);
        assert_eq!(state(), before);
    }
}
