//! The lock of the data path: it costs plain stores while the process has one thread, or one thread alone takes
//! it.

mod bias;
mod sync;

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use bias::{Bias, Uses};
use sync::{AtomicBool, sleep, spin_loop, yield_now};

/// Spins this often before it lets another thread run: the holder may be off the processor.
const SPINS_BEFORE_YIELD: u32 = 128;
/// Lets others run this often before it sleeps: the holder may move a gigabyte.
const YIELDS_BEFORE_SLEEP: u32 = 64;

/// Mutual exclusion of the threads that use one queue.
///
/// The lock word always tells the truth. What a process with one thread saves is the locked read-modify-write:
/// nobody else can look at the word, so a plain load and store do. A second thread that starts while the lock
/// is held sees it held, because creating a thread publishes everything before it.
///
/// In a process with several threads, a lock that one of them takes many times in a row is that one's: it takes
/// it by plain stores as well, until another one asks for it, which then waits some microseconds more.
///
/// It has cache lines of its own: threads that send and threads that receive on one queue pair do not slow each
/// other.
///
/// # Examples
///
/// ```
/// use queue_lock::QueueLock;
///
/// let posted = QueueLock::new(0);
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| (0..1000).for_each(|_| *posted.lock() += 1));
///     }
/// });
/// assert_eq!(*posted.lock(), 2000);
/// ```
#[repr(C, align(64))]
pub struct QueueLock<T> {
    /// Held by who is not its owner.
    held: AtomicBool,
    /// The program promised that one thread at a time uses the queue, so plain stores do here as well.
    one_thread: bool,
    /// Whether its owner holds what was [left held](QueueGuard::leave_held).
    left: AtomicBool,
    /// The thread whose lock it is.
    bias: Bias,
    inner: UnsafeCell<T>,
    uses: Uses,
}

// SAFETY: the lock hands out access to `inner` to one thread at a time, so sending T is all that sharing needs.
unsafe impl<T: Send> Sync for QueueLock<T> {}

impl<T: fmt::Debug> fmt::Debug for QueueLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(queue) => f.debug_tuple("QueueLock").field(&*queue).finish(),
            None => f.write_str("QueueLock(held)"),
        }
    }
}

/// Proof that the lock is held; gives the queue, and releases on drop.
pub struct QueueGuard<'a, T> {
    lock: &'a QueueLock<T>,
    holding: Holding,
}

/// By what a thread holds a lock that was [left held](QueueGuard::leave_held_by).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Holding {
    /// By its word.
    Word,
    /// As its owner.
    Owner,
    /// It was held before, and stays so.
    Before,
}

impl<T> QueueLock<T> {
    /// An unheld lock around `inner`.
    pub fn new(inner: T) -> Self {
        Self::of_domain(inner, false)
    }

    /// As [`QueueLock::new`]; `one_thread` says that the queue belongs to a thread domain: the program promises
    /// that no two threads use it at the same time.
    pub fn of_domain(inner: T, one_thread: bool) -> Self {
        prepare();
        let (held, inner) = (AtomicBool::new(false), UnsafeCell::new(inner));
        let left = AtomicBool::new(false);
        Self { held, one_thread, left, bias: Bias::new(), inner, uses: Uses::new() }
    }

    /// Waits until the lock is free and takes it.
    #[inline(always)]
    pub fn lock(&self) -> QueueGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| {
            self.acquire_contended();
            QueueGuard { lock: self, holding: Holding::Word }
        })
    }

    /// Takes the lock if it is free. A caller that leaves waiting to another function keeps its own free of
    /// calls, and so of registers to save.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<QueueGuard<'_, T>> {
        self.try_lock_alone().or_else(|| self.try_lock_shared())
    }

    /// As [`QueueLock::try_lock`], where that costs no locked instruction; otherwise nothing, and
    /// [`QueueLock::try_lock_shared`] is what remains.
    #[inline(always)]
    pub fn try_lock_alone(&self) -> Option<QueueGuard<'_, T>> {
        if single_threaded() || self.one_thread {
            if self.held.load(Ordering::Relaxed) || self.bias.is_taken() {
                return None;
            }
            self.held.store(true, Ordering::Relaxed);
            return Some(QueueGuard { lock: self, holding: Holding::Word });
        }
        self.bias.take(&self.held).then(|| QueueGuard { lock: self, holding: Holding::Owner })
    }

    /// As [`QueueLock::try_lock`], by a locked instruction in any case.
    #[inline(always)]
    pub fn try_lock_shared(&self) -> Option<QueueGuard<'_, T>> {
        let taken = self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        (taken.is_ok() && self.settle()).then(|| QueueGuard { lock: self, holding: Holding::Word })
    }

    /// The calling thread has the word: whether it has the lock. Otherwise it has the word no more.
    #[inline(always)]
    fn settle(&self) -> bool {
        let is_mine = self.one_thread || self.bias.settle(&self.uses);
        if !is_mine {
            self.held.store(false, Ordering::Release);
        }
        is_mine
    }

    #[cold]
    #[inline(never)]
    fn acquire_contended(&self) {
        let (mut spins, mut yields) = (0, 0);
        loop {
            while self.held.load(Ordering::Relaxed) || self.bias.is_taken() {
                spins += 1;
                if spins < SPINS_BEFORE_YIELD {
                    spin_loop();
                } else if yields < YIELDS_BEFORE_SLEEP {
                    yield_now();
                    (spins, yields) = (0, yields + 1);
                } else {
                    sleep();
                }
            }
            let taken = self.held.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() && self.settle() {
                return;
            }
        }
    }

    /// The queue, for code between two C calls of which the first left the lock held (`start_poll` …
    /// `end_poll`, `wr_start` … `wr_complete`).
    ///
    /// # Safety
    /// The calling thread holds the lock through [`QueueGuard::leave_held`], and no other reference to the
    /// queue lives.
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
        let holding = if self.left.load(Ordering::Relaxed) { Holding::Owner } else { Holding::Word };
        // SAFETY: by the contract.
        unsafe { self.release_by(holding) };
    }

    /// Releases a lock that [`QueueGuard::leave_held_by`] left held.
    ///
    /// # Safety
    /// The calling thread holds the lock that way, `holding` is what it got for that, and no reference to the
    /// queue is alive.
    #[inline(always)]
    pub unsafe fn release_by(&self, holding: Holding) {
        match holding {
            Holding::Word => self.held.store(false, Ordering::Release),
            Holding::Owner => self.bias.release(),
            Holding::Before => {}
        }
    }

    /// The queue without locking, for an owner that nobody shares with.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T> QueueGuard<'_, T> {
    /// Leaves the lock held beyond this scope; [`QueueLock::release`] ends it.
    ///
    /// # Examples
    ///
    /// ```
    /// use queue_lock::QueueLock;
    ///
    /// let batch = QueueLock::new(Vec::new());
    /// batch.lock().leave_held(); // as `wr_start` does
    /// assert!(batch.try_lock().is_none());
    /// // SAFETY: this thread left the lock held, and the reference ends with the statement.
    /// unsafe { batch.held_mut() }.push(1);
    /// // SAFETY: as above; `wr_complete` is the last call.
    /// unsafe { batch.release() };
    /// assert_eq!(*batch.lock(), [1]);
    /// ```
    #[inline(always)]
    pub fn leave_held(self) {
        self.lock.left.store(self.holding == Holding::Owner, Ordering::Relaxed);
        core::mem::forget(self);
    }

    /// As [`QueueGuard::leave_held`], where [`QueueLock::release_by`] is told what this answers: so it need not
    /// be written down.
    #[inline(always)]
    #[must_use]
    pub fn leave_held_by(self) -> Holding {
        let holding = self.holding;
        core::mem::forget(self);
        holding
    }
}

impl<T: fmt::Debug> fmt::Debug for QueueGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
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
        // SAFETY: the guard is the proof that the lock is held so, and ends here.
        unsafe { self.lock.release_by(self.holding) };
    }
}

static MANY_THREADS: AtomicU8 = AtomicU8::new(0);

/// glibc's own flag of this meaning (since 2.32). Until the first lock is made, and for good with a C library
/// that has none, it is ours, which says that there are many threads.
static FLAG: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const MANY_THREADS).cast_mut());

/// Before the first lock.
fn prepare() {
    // Several threads may look at the same time and find the same. A lock here could stay locked in a forked
    // child.
    static LOOKED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
    if LOOKED.load(Ordering::Relaxed) {
        return;
    }
    find_flag();
    // Without it, locks have no owners.
    let _ = ironverbs_os::barrier::register();
    LOOKED.store(true, Ordering::Relaxed);
}

/// Does what the first lock asks of the kernel, where the process has one thread yet: with several, that one
/// would wait some ten milliseconds. For who is loaded with the program.
pub fn prepare_while_alone() {
    find_flag();
    if single_threaded() {
        prepare();
    }
}

fn find_flag() {
    // SAFETY: the name is a NUL-terminated string; dlsym with RTLD_DEFAULT only looks it up.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !symbol.is_null() {
        FLAG.store(symbol.cast(), Ordering::Relaxed);
    }
}

/// Whether the process has exactly one thread.
#[inline(always)]
pub fn single_threaded() -> bool {
    #[cfg(loom)]
    return sync::one_thread();
    #[cfg(not(loom))]
    says_single()
}

#[cfg_attr(loom, allow(dead_code, reason = "a model has a flag of its own"))]
#[inline(always)]
fn says_single() -> bool {
    let flag = FLAG.load(Ordering::Relaxed);
    // SAFETY: `flag` is one of two statics, of libc or of ours, initialised before the process started and
    // alive as long as it; whichever is seen, the answer is right or on the safe side. libc writes the byte as
    // a plain store of its own thread before any second thread exists, so this relaxed read cannot tear.
    unsafe { (*flag).load(Ordering::Relaxed) != 0 }
}

/// What the C library does when a process gets its second thread, or loses all but one.
#[cfg(loom)]
pub use sync::set_one_thread;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    /// Under Miri every step takes long, and each run is another interleaving.
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };

    #[test]
    fn two_threads_never_hold_it_together() {
        let lock = Arc::new(QueueLock::new(0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = Arc::clone(&lock);
                std::thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        *lock.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.lock(), 4 * ROUNDS);
    }

    #[test]
    fn an_owner_and_who_asks_now_and_then_never_hold_it_together() {
        let lock = Arc::new(QueueLock::new([0u64; 2]));
        let done = Arc::new(core::sync::atomic::AtomicBool::new(false));
        let owner = {
            let (lock, done) = (Arc::clone(&lock), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut uses = 0;
                while !done.load(Ordering::Relaxed) {
                    let mut queue = lock.lock();
                    // Two places, so that who comes between sees it.
                    queue[0] += 1;
                    queue[1] += 1;
                    uses += 1;
                }
                uses
            })
        };
        for round in 0..ROUNDS / 100 {
            let mut queue = lock.lock();
            assert_eq!(queue[0], queue[1]);
            queue[0] += 1;
            queue[1] += 1;
            drop(queue);
            if round % 2 == 0 {
                // As long as it may take to own the lock.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        done.store(true, Ordering::Relaxed);
        let uses = owner.join().unwrap();
        assert_eq!(*lock.lock(), [uses + ROUNDS / 100; 2]);
    }

    #[test]
    fn a_thread_that_takes_it_again_and_again_comes_to_own_it() {
        let lock = QueueLock::new(0u32);
        std::thread::scope(|scope| {
            // Several threads, from here on.
            scope.spawn(|| *lock.lock() += 1).join().unwrap();
            if !sync::can_fence_all() || sync::this_thread() == 0 {
                return;
            }
            (0..2000).for_each(|_| *lock.lock() += 1);
            assert!(lock.lock().lock.bias.is_taken());
            scope.spawn(|| *lock.lock() += 1).join().unwrap();
            assert!(!lock.lock().lock.bias.is_taken());
        });
    }

    #[test]
    fn a_lock_of_a_thread_domain_passes_from_thread_to_thread() {
        let lock = Arc::new(QueueLock::of_domain(0u64, true));
        for round in 1..=4 {
            let lock = Arc::clone(&lock);
            let seen = std::thread::spawn(move || {
                let mut queue = lock.lock();
                *queue += 1;
                *queue
            });
            assert_eq!(seen.join().unwrap(), round);
        }
        assert!(lock.try_lock().is_some_and(|queue| *queue == 4));
        lock.lock().leave_held();
        assert!(lock.try_lock().is_none());
    }

    #[test]
    fn a_held_lock_is_not_taken_either_way() {
        let lock = QueueLock::of_domain(0u32, true);
        let held = lock.try_lock_alone().expect("a domain's lock needs no locked instruction");
        assert!(lock.try_lock_alone().is_none() && lock.try_lock_shared().is_none());
        drop(held);
        let held = lock.try_lock_shared().expect("free again");
        assert!(lock.try_lock_alone().is_none() && lock.try_lock_shared().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_lock_left_held_keeps_others_out_until_released() {
        let lock = Arc::new(QueueLock::new(1u32));
        lock.lock().leave_held();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || {
                // SAFETY: answers a number.
                tell.send(unsafe { libc::gettid() }).unwrap();
                *lock.lock()
            })
        };
        // The waiter has given up spinning, and sleeps.
        let stat = format!("/proc/self/task/{}/stat", told.recv().unwrap());
        while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::sleep(Duration::from_micros(100));
        }
        assert!(!waiter.is_finished());
        // SAFETY: this thread left the lock held just above, and drops the reference before releasing.
        unsafe {
            *lock.held_mut() = 2;
            lock.release();
        }
        assert_eq!(waiter.join().unwrap(), 2);
    }
}
