//! The lock of the data path: it costs two plain stores while the process has one thread.

use core::cell::UnsafeCell;
use core::hint;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::OnceLock;

/// Spins this often before it lets another thread run: the holder may be off the processor.
const SPINS_BEFORE_YIELD: u32 = 128;

/// A short-held mutual exclusion of one queue.
///
/// The lock word always tells the truth. What a process with one thread saves is the locked read-modify-write: nobody
/// else can look at the word, so a plain load and store do. A second thread that starts while the lock is held sees it
/// held, because creating a thread publishes everything before it.
pub struct QueueLock<T> {
    held: AtomicBool,
    inner: UnsafeCell<T>,
}

// SAFETY: the lock hands out access to `inner` to one thread at a time, so sending T is all that sharing needs.
unsafe impl<T: Send> Sync for QueueLock<T> {}

/// Proof that the lock is held; gives the queue, and releases on drop.
pub struct QueueGuard<'a, T> {
    lock: &'a QueueLock<T>,
}

impl<T> QueueLock<T> {
    /// An unheld lock around `inner`.
    pub const fn new(inner: T) -> Self {
        Self { held: AtomicBool::new(false), inner: UnsafeCell::new(inner) }
    }

    /// Waits until the lock is free and takes it.
    #[inline(always)]
    pub fn lock(&self) -> QueueGuard<'_, T> {
        self.acquire();
        QueueGuard { lock: self }
    }

    #[inline(always)]
    fn acquire(&self) {
        if single_threaded() && !self.held.load(Ordering::Relaxed) {
            self.held.store(true, Ordering::Relaxed);
            return;
        }
        if self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_contended();
        }
    }

    #[cold]
    #[inline(never)]
    fn acquire_contended(&self) {
        let mut spins = 0;
        loop {
            while self.held.load(Ordering::Relaxed) {
                spins += 1;
                if spins < SPINS_BEFORE_YIELD {
                    hint::spin_loop();
                } else {
                    std::thread::yield_now();
                    spins = 0;
                }
            }
            if self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// The queue, for code between two C calls of which the first left the lock held (`start_poll` … `end_poll`,
    /// `wr_start` … `wr_complete`).
    ///
    /// # Safety
    /// The calling thread holds the lock through [`QueueGuard::leave_held`], and no other reference to the queue lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn held_mut(&self) -> &mut T {
        // SAFETY: by the contract this thread alone may touch `inner` now.
        unsafe { &mut *self.inner.get() }
    }

    /// Releases a lock that [`QueueGuard::leave_held`] left held.
    ///
    /// # Safety
    /// The calling thread holds the lock that way and no reference to the queue is alive.
    #[inline(always)]
    pub unsafe fn release(&self) {
        self.held.store(false, Ordering::Release);
    }

    /// The queue without locking, for an owner that nobody shares with.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T> QueueGuard<'_, T> {
    /// Leaves the lock held beyond this scope; [`QueueLock::release`] ends it.
    #[inline(always)]
    pub fn leave_held(self) {
        core::mem::forget(self);
    }
}

impl<T> Deref for QueueGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.lock.inner.get() }
    }
}

impl<T> DerefMut for QueueGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for deref, and the guard is borrowed mutably, so no other reference comes from it.
        unsafe { &mut *self.lock.inner.get() }
    }
}

impl<T> Drop for QueueGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
    }
}

static MANY_THREADS: AtomicU8 = AtomicU8::new(0);

/// glibc's own flag of this meaning (since 2.32), looked up once: a C library without it counts as many-threaded.
struct SingleThreadedFlag(*const AtomicU8);
// SAFETY: the pointer is to a static of libc or of ours, both of which live as long as the process and are atomics.
unsafe impl Send for SingleThreadedFlag {}
// SAFETY: as above; the pointer itself never changes.
unsafe impl Sync for SingleThreadedFlag {}

static FLAG: OnceLock<SingleThreadedFlag> = OnceLock::new();

/// Whether the process has exactly one thread.
#[inline(always)]
pub fn single_threaded() -> bool {
    let flag = FLAG.get_or_init(|| {
        // SAFETY: the name is a NUL-terminated string; dlsym with RTLD_DEFAULT only looks it up.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
        SingleThreadedFlag(if symbol.is_null() { &raw const MANY_THREADS } else { symbol.cast() })
    });
    // SAFETY: non-null and valid for the life of the process; libc writes the one-byte flag as a plain store of its own
    // thread before any second thread exists, so this relaxed read of a byte cannot tear.
    unsafe { (*flag.0).load(Ordering::Relaxed) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn two_threads_never_hold_it_together() {
        let lock = Arc::new(QueueLock::new(0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        *lock.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.lock(), 80_000);
    }

    #[test]
    fn a_lock_left_held_keeps_others_out_until_released() {
        let lock = Arc::new(QueueLock::new(1u32));
        lock.lock().leave_held();
        let waiter = {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || *lock.lock())
        };
        // SAFETY: this thread left the lock held just above, and drops the reference before releasing.
        unsafe {
            *lock.held_mut() = 2;
            lock.release();
        }
        assert_eq!(waiter.join().unwrap(), 2);
    }
}
