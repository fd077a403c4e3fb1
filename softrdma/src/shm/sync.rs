//! What the lock and the keys are made of: the standard library, or the model checker in its place
//! (`cfg(loom)`).

use std::sync::atomic::{AtomicU64, Ordering};

use super::memory;

/// A word that threads and processes share. Algorithms over it run in shared memory, and in models of them.
pub trait Word {
    /// As those of [`AtomicU64`].
    fn load(&self, order: Ordering) -> u64;
    /// As those of [`AtomicU64`].
    fn store(&self, value: u64, order: Ordering);
    /// As those of [`AtomicU64`].
    fn swap(&self, value: u64, order: Ordering) -> u64;
    /// As those of [`AtomicU64`].
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    /// Stores a value where another stood, as [`AtomicU64::compare_exchange`] with [`Ordering::AcqRel`];
    /// whether it did.
    fn exchange_if(&self, was: u64, value: u64) -> bool;
    /// Orders what comes before with what comes after.
    fn fence(order: Ordering);
    /// Orders a read-modify-write operation with [`Ordering::SeqCst`] before the loads that follow.
    fn fence_after_exchange();
    /// Lets others go on.
    fn pause();
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
    #[inline(always)]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }
    #[inline(always)]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }
    #[inline(always)]
    fn exchange_if(&self, was: u64, value: u64) -> bool {
        self.compare_exchange(was, value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    #[inline(always)]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
    #[inline(always)]
    fn fence_after_exchange() {
        memory::fence_after_exchange();
    }
    #[inline(always)]
    fn pause() {
        std::hint::spin_loop();
    }
}

/// What [`super::lock`] is made of.
#[cfg(not(loom))]
pub(super) mod lock {
    pub use std::hint::spin_loop;
    use std::sync::atomic::AtomicU32;
    pub use std::sync::atomic::AtomicU64;
    use std::time::Duration;
    pub use std::time::Instant;

    /// Attempts before the first sleep: about the time of a short critical section.
    pub const SPINS: u32 = 200;

    /// Sleeps while the word is `seen`, at most this long; a signal may end it earlier.
    ///
    /// # Safety
    /// The word is alive across the call.
    pub unsafe fn futex_wait(word: *const AtomicU32, seen: u32, time: Duration) {
        let time = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the word by the contract, and `time` lives across the call. The kernel only compares the
        // word.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &raw const time) };
    }

    /// Wakes so many sleepers at most.
    ///
    /// # Safety
    /// The word is alive.
    pub unsafe fn futex_wake(word: *const AtomicU32, most: i32) {
        // SAFETY: by the contract; waking reads nothing.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, most) };
    }
}

/// What [`super::lock`] is made of in a model: who sleeps may wake at any time, as it may by a signal.
#[cfg(loom)]
pub(super) mod lock {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::AtomicU64;

    pub const SPINS: u32 = 1;

    loom::thread_local! {
        static TIME: std::cell::Cell<u32> = std::cell::Cell::new(0);
    }

    /// A clock that every look moves on, by more than any patience.
    #[derive(Clone, Copy)]
    pub struct Instant(Duration);

    impl Instant {
        /// The time now.
        pub fn now() -> Self {
            TIME.with(|time| {
                time.set(time.get() + 1);
                Self(Duration::from_secs(time.get().into()))
            })
        }
    }

    impl std::ops::Sub for Instant {
        type Output = Duration;
        fn sub(self, earlier: Self) -> Duration {
            self.0 - earlier.0
        }
    }

    pub unsafe fn futex_wait(_: *const AtomicU32, _: u32, _: Duration) {
        loom::thread::yield_now();
    }

    pub unsafe fn futex_wake(_: *const AtomicU32, _: i32) {}
}

#[cfg(loom)]
impl Word for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        self.swap(value, order)
    }
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.fetch_add(value, order)
    }
    fn exchange_if(&self, was: u64, value: u64) -> bool {
        self.compare_exchange(was, value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
    fn fence_after_exchange() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
    fn pause() {
        loom::thread::yield_now();
    }
}
