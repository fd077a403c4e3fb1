//! What the lock is made of: the standard library, or the model checker in its place (`cfg(loom)`).

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
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

/// A number of the calling thread that no other one has as long as it lives; 0 where none is known.
#[cfg(not(loom))]
#[inline(always)]
pub fn this_thread() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: by the ABI, the word at the thread pointer is the thread pointer, and stays so.
        unsafe {
            core::arch::asm!("mov {}, fs:[0]", out(reg) pointer,
                options(nostack, preserves_flags, pure, readonly));
        }
        pointer
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: reads a register, which has the thread pointer.
        unsafe {
            core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer,
                options(nostack, preserves_flags, pure, nomem));
        }
        pointer
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    0
}

/// Orders this thread's store before its load, for who uses [`fence_all`]: nothing between the two for a
/// processor.
#[cfg(not(loom))]
#[inline(always)]
pub fn fence_own() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// Has all threads of this process fence.
#[cfg(not(loom))]
pub fn fence_all() {
    ironverbs_os::barrier::everywhere();
}

/// Whether [`fence_all`] can be relied on.
#[cfg(not(loom))]
pub fn can_fence_all() -> bool {
    ironverbs_os::barrier::is_registered()
}

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize},
    thread::yield_now,
};
#[cfg(loom)]
pub use model::{
    can_fence_all, fence_all, fence_all as fence_own, one_thread, set_one_thread, sleep, this_thread,
};

#[cfg(loom)]
mod model {
    use std::hash::{DefaultHasher, Hash, Hasher};

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

    /// Both sides fence in a model.
    pub fn fence_all() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub fn can_fence_all() -> bool {
        true
    }

    /// Hashes of a few small numbers differ.
    pub fn this_thread() -> usize {
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        hasher.finish() as usize | 1
    }

    /// Time does not pass in a model.
    pub fn sleep() {
        loom::thread::yield_now();
    }
}
