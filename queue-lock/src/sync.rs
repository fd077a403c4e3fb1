//! What the lock is made of: the standard library, or the model checker in its place (`cfg(loom)`).

#[cfg(not(loom))]
pub use core::{hint::spin_loop, sync::atomic::AtomicBool};
#[cfg(not(loom))]
pub use std::thread::{sleep, yield_now};

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
    pub fn sleep(_: std::time::Duration) {
        loom::thread::yield_now();
    }
}
