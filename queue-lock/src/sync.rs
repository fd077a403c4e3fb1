//! What the lock is made of: the standard library, or the model checker in its place (`cfg(loom)`).

#[cfg(not(loom))]
pub use core::{hint::spin_loop, sync::atomic::AtomicBool};
#[cfg(not(loom))]
pub use std::thread::yield_now;

/// How long one sleep lasts.
#[cfg(not(loom))]
const SLEEP_NANOSECONDS: libc::c_long = 100_000;

/// By the bare system call: at the C library's the thread may be cancelled, which unwinds through its callers.
#[cfg(not(loom))]
#[cold]
pub fn sleep() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: SLEEP_NANOSECONDS };
    // SAFETY: nanosleep reads the time, and writes nothing without a second one.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, core::ptr::null_mut::<libc::timespec>()) };
}

#[cfg(loom)]
pub use loom::{hint::spin_loop, sync::atomic::AtomicBool, thread::yield_now};
#[cfg(loom)]
pub use model::{one_thread, set_one_thread, sleep};

#[cfg(loom)]
mod model {
    use loom::sync::atomic::{AtomicBool, Ordering};

    loom::lazy_static! {
        /// The C library's flag, in a model.
        static ref ONE_THREAD: AtomicBool = AtomicBool::new(false);
    }

    /// Whether the process has exactly one thread.
    pub fn one_thread() -> bool {
        ONE_THREAD.load(Ordering::Relaxed)
    }

    /// Says so; to be called by the thread that starts the second one, or has waited for its end.
    pub fn set_one_thread(one: bool) {
        ONE_THREAD.store(one, Ordering::Relaxed);
    }

    /// Time does not pass in a model.
    pub fn sleep() {
        loom::thread::yield_now();
    }
}
