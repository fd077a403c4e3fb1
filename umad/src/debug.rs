//! What goes to the standard error, in the form that rdma-core's library gives it.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

use ironverbs_os::guard::uncancelled;

static LEVEL: AtomicI32 = AtomicI32::new(0);

/// 0: warnings only; 1: what is done; 2: also what is sent.
#[inline]
#[must_use]
pub fn level() -> c_int {
    LEVEL.load(Ordering::Relaxed)
}

/// Sets the level.
pub fn set_level(level: c_int) {
    LEVEL.store(level, Ordering::Relaxed);
}

unsafe extern "C" {
    static stderr: *mut libc::FILE;
}

/// Has `write` write a line to the C library's stream, which the program may have put elsewhere. A thread is
/// not cancelled meanwhile.
pub fn line(write: impl FnOnce(*mut libc::FILE)) {
    // SAFETY: the C library keeps a stream there.
    uncancelled(|| write(unsafe { stderr }));
}

/// A pointer as `%p` takes it.
pub fn address<T>(pointer: *const T) -> *const c_void {
    pointer.cast()
}

/// Writes a line that begins with the process and the function. The arguments are those of `printf`, for the
/// format that follows the function.
macro_rules! warning {
    ($function:literal, $format:literal $(, $argument:expr)* $(,)?) => {
        $crate::debug::line(|stream| {
            // SAFETY: the format is NUL-terminated, and each call gives the arguments that its format asks for:
            // integers of C's types and NUL-terminated strings or null.
            unsafe {
                libc::fprintf(
                    stream,
                    concat!("ibwarn: [%d] %s: ", $format, "\n\0").as_ptr().cast(),
                    libc::getpid(),
                    concat!($function, "\0").as_ptr()
                    $(, $argument)*
                );
            }
        })
    };
}

/// [`warning!`] from level 1 on.
macro_rules! trace {
    ($($argument:tt)*) => {
        if $crate::debug::level() != 0 {
            $crate::debug::warning!($($argument)*);
        }
    };
}

pub(crate) use {trace, warning};
