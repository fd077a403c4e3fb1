//! Requests that had to wait: tried again from later calls, and from a thread when their time comes.
//!
//! A queue pair whose send queue is not empty stands in a list. Every poll tries some of the list again, so that a program
//! that polls waits no longer than it must. For programs that sleep there is one thread: it starts with the first request
//! that had to wait, and sleeps until the earliest time that one of them waits for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::core::requester::Work;

use super::{Device, QueuePair};

/// Queue pairs that one poll tries.
const BATCH: usize = 8;
/// How often the thread looks at requests that wait for nothing in particular, in nanoseconds.
const TICK: u64 = 10_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
    device: Weak<Device>,
}

#[derive(Debug)]
struct Shared {
    /// Queue pairs whose send queue is not empty.
    waiting: Mutex<Vec<Arc<QueuePair>>>,
    count: AtomicUsize,
    next: AtomicUsize,
    /// When the thread looks next; never, while nothing waits.
    wakes: AtomicU64,
    thread: Mutex<Thread>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Thread {
    runs: bool,
    ends: bool,
    rung: bool,
}

impl Progress {
    pub(super) fn new(device: Weak<Device>) -> Self {
        let shared = Shared {
            waiting: Mutex::default(),
            count: 0.into(),
            next: 0.into(),
            wakes: u64::MAX.into(),
            thread: Mutex::default(),
            bell: Condvar::new(),
        };
        Self { shared: Arc::new(shared), device }
    }

    /// Tries some of the requests that wait, if there are any.
    #[inline]
    pub(super) fn make(&self, device: &Device) {
        if self.shared.count.load(Ordering::Relaxed) > 0 && device.is_mine() {
            self.shared.make();
        }
    }

    /// A queue pair's send queue is no longer empty. Its time is when it is to be tried at the latest.
    pub(super) fn add(&self, qp: &Arc<QueuePair>) {
        let mut waiting = self.shared.waiting();
        waiting.push(qp.clone());
        self.shared.count.store(waiting.len(), Ordering::Relaxed);
    }

    /// A queue pair's send queue is empty again, or the queue pair is gone.
    pub(super) fn remove(&self, qp: &QueuePair) {
        let mut waiting = self.shared.waiting();
        if let Some(place) = waiting.iter().position(|other| std::ptr::eq(&**other, qp)) {
            let last = waiting.swap_remove(place);
            self.shared.count.store(waiting.len(), Ordering::Relaxed);
            drop(waiting);
            // Perhaps the last that knows it.
            drop(last);
        }
    }

    /// Makes sure that the thread looks at this time; without one, every now and then.
    pub(super) fn wake_at(&self, device: &Device, time: Option<u64>) {
        let time = time.unwrap_or_else(|| device.now() + TICK);
        if self.shared.wakes.load(Ordering::Acquire) <= time {
            return;
        }
        let mut thread = self.shared.thread();
        thread.rung = true;
        if thread.runs {
            self.shared.bell.notify_one();
        } else if !thread.ends {
            let (shared, device) = (self.shared.clone(), self.device.clone());
            let builder = std::thread::Builder::new().name("ironverbs".into()).stack_size(256 << 10);
            // Without a thread, requests go on whenever the program polls.
            thread.runs = without_signals(|| builder.spawn(move || shared.run(&device)).is_ok());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.thread().ends = true;
        self.shared.bell.notify_one();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Arc<QueuePair>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, place: usize) -> Option<Arc<QueuePair>> {
        self.waiting().get(place).cloned()
    }

    #[cold]
    fn make(&self) {
        let count = self.count.load(Ordering::Relaxed);
        let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
        for n in 0..count.min(BATCH) {
            if let Some(qp) = self.at(first.wrapping_add(n) % count) {
                qp.try_early();
            }
        }
    }

    /// The thread: until the device is gone.
    fn run(&self, device: &Weak<Device>) {
        loop {
            let now = {
                let Some(device) = device.upgrade() else { return };
                device.now()
            };
            // Whoever comes while it looks rings, so that it looks again.
            self.wakes.store(u64::MAX, Ordering::Release);
            self.thread().rung = false;
            // From the end: a queue pair that leaves the list is replaced by the last, which was looked at already.
            let mut next = u64::MAX;
            let count = self.waiting().len();
            for place in (0..count).rev() {
                let Some(qp) = self.at(place) else { continue };
                match qp.try_in_time() {
                    Work::Nothing => {}
                    Work::Attempt => next = next.min(now),
                    Work::Wait(until) => next = next.min(until.unwrap_or(u64::MAX).min(now + TICK)),
                }
            }
            let Some(now) = device.upgrade().map(|device| device.now()) else { return };
            let mut thread = self.thread();
            self.wakes.store(next, Ordering::Release);
            while !thread.rung && !thread.ends {
                if next == u64::MAX {
                    thread = self.bell.wait(thread).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                let time = Duration::from_nanos(next.saturating_sub(now));
                thread = self.bell.wait_timeout(thread, time).unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            if thread.ends {
                thread.runs = false;
                return;
            }
        }
    }
}

/// Runs this with all signals blocked, so that a thread made in it gets none of the program's.
fn without_signals<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: a signal set is plain memory; sigfillset and pthread_sigmask write only to what they are given.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = run();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}
