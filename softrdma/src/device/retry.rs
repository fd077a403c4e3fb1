//! Requests that had to wait: tried again from later calls, and from a thread when their time comes.
//!
//! A queue pair whose send queue is not empty stands in a list. Every poll tries some of the list again, so
//! that a program that polls waits no longer than it must. For programs that sleep there is one thread: it
//! starts with the first request that had to wait, and sleeps until the earliest time that one of them waits
//! for. While something waits, and for a moment after, it also looks every now and then, so that a request that
//! waits a little need not wake it. It sees to datagrams, too, that wait in a direct ring of a program that
//! sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use ironverbs_os::fork::in_time;
use ironverbs_os::growth::{TryPush, small_arc};

use crate::carrier::near::direct::Settled;
use crate::rules::requester::Work;

use super::qp::sides::LOOKS;
use super::qp::{NOT_LISTED, due};
use super::stuck::BRIEFLY;
use super::{Device, QueuePair};

/// Queue pairs that one poll tries.
const BATCH: usize = 8;
/// Queue pairs whose time one poll looks at.
const LOOKS_AT: usize = 64;
/// How late the thread may be, in nanoseconds: it looks that often at first.
const TICK: u64 = 1_000_000;
/// The longest that it sleeps while something waits; it doubles its sleep as long as nobody comes.
const LONG_TICK: u64 = 16 * TICK;
/// It sleeps until it is woken when it has slept that long and nothing waits.
const LINGER: u64 = 128 * TICK;

/// How long to wait for the end of the thread. It may look for the locks of several queue pairs that a thread
/// keeps which waits for a processor, or wait for one itself.
const PATIENCE: Duration = LOOKS.saturating_mul(10);
/// How long once that was in vain.
const AGAIN: Duration = LOOKS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Retries {
    shared: Arc<Shared>,
    device: Weak<Device>,
}

#[derive(Debug)]
struct Shared {
    /// Queue pairs whose send queue is not empty.
    waiting: Mutex<Vec<Arc<QueuePair>>>,
    /// Those that are connected to other hosts and have sent something: their time comes, and nothing is gained
    /// before.
    timed: Mutex<Vec<Arc<QueuePair>>>,
    /// Where the next poll looks for those whose time has come.
    next_timed: AtomicUsize,
    /// Queue pairs with datagrams in rings that nobody polls.
    datagrams: Mutex<Vec<Arc<QueuePair>>>,
    count: AtomicUsize,
    next: AtomicUsize,
    /// When the thread looks next at the latest; never, while nothing waits.
    wakes: AtomicU64,
    /// Somebody who waits relies on that time, and woke nobody.
    is_relied_on: AtomicBool,
    thread: Mutex<Thread>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Thread {
    runs: bool,
    ends: bool,
    rung: bool,
}

/// What the thread has found.
struct Outlook {
    /// When something is to be looked at.
    next: u64,
    waits: bool,
}

impl Outlook {
    fn note(&mut self, work: Work) {
        self.waits |= work != Work::Nothing;
        match work {
            Work::Nothing | Work::Wait(None) => {}
            Work::Execute => self.next = 0,
            Work::Wait(Some(until)) => self.next = self.next.min(until),
        }
    }
}

impl Retries {
    pub(super) fn new(device: Weak<Device>) -> Self {
        let shared = Shared {
            waiting: Mutex::default(),
            timed: Mutex::default(),
            next_timed: 0.into(),
            datagrams: Mutex::default(),
            count: 0.into(),
            next: 0.into(),
            wakes: u64::MAX.into(),
            is_relied_on: false.into(),
            thread: Mutex::default(),
            bell: Condvar::new(),
        };
        Self { shared: small_arc(shared), device }
    }

    /// Tries some of the requests that wait, and tells whether there were any.
    #[inline]
    pub(super) fn try_some(&self, device: &Device) -> bool {
        device.endpoint.help_if_wanted();
        let waits = self.shared.count.load(Ordering::Relaxed) > 0 && device.is_mine();
        if waits {
            self.shared.try_some();
        }
        waits
    }

    /// Memory for the list when the queue pair with this index, and all below, wait at once.
    ///
    /// # Errors
    /// [`Error::NoMemory`](super::Error::NoMemory).
    pub(super) fn make_room(&self, index: u32) -> super::Result<()> {
        let mut waiting = self.shared.waiting();
        let most = index as usize + 1;
        let more = most.saturating_sub(waiting.len());
        waiting.try_reserve(more)?;
        let mut timed = self.shared.timed();
        let more = most.saturating_sub(timed.len());
        timed.try_reserve(more)?;
        let mut datagrams = self.shared.datagrams();
        let more = most.saturating_sub(datagrams.len());
        Ok(datagrams.try_reserve(more)?)
    }

    /// Datagrams wait in rings of a queue pair, and who polls may sleep.
    #[cold]
    pub(super) fn add_datagrams(&self, device: &Device, qp: &Arc<QueuePair>) {
        self.shared.add_datagrams(qp.clone());
        self.wake_at(device, None);
    }

    /// A queue pair has no rings of datagrams any more.
    pub(super) fn remove_datagrams(&self, qp: &QueuePair) {
        let removed = self.shared.take_datagrams(|other| std::ptr::eq(other, qp));
        // Perhaps the last that knows it.
        drop(removed);
    }

    /// A queue pair's send queue is no longer empty. Its time is when it is to be tried at the latest.
    pub(super) fn add(&self, qp: &Arc<QueuePair>) {
        if qp.is_far() {
            let mut timed = self.shared.timed();
            qp.timed_at.store(timed.len(), Ordering::Relaxed);
            return timed.push_reserved(qp.clone());
        }
        let mut waiting = self.shared.waiting();
        waiting.push_reserved(qp.clone());
        self.shared.count.store(waiting.len(), Ordering::Relaxed);
    }

    /// A queue pair's send queue is empty again, or the queue pair is gone.
    pub(super) fn remove(&self, qp: &QueuePair) {
        if qp.timed_at.load(Ordering::Relaxed) != NOT_LISTED {
            return self.remove_timed(qp);
        }
        let mut waiting = self.shared.waiting();
        if let Some(place) = waiting.iter().position(|other| std::ptr::eq(&**other, qp)) {
            let last = waiting.swap_remove(place);
            self.shared.count.store(waiting.len(), Ordering::Relaxed);
            drop(waiting);
            // Perhaps the last that knows it.
            drop(last);
        }
    }

    /// There may be many: none is looked for.
    fn remove_timed(&self, qp: &QueuePair) {
        let mut timed = self.shared.timed();
        let place = qp.timed_at.swap(NOT_LISTED, Ordering::Relaxed);
        qp.due_at.store(due::NEVER, Ordering::Relaxed);
        if timed.get(place).is_none_or(|listed| !std::ptr::eq(&**listed, qp)) {
            return;
        }
        let last = timed.swap_remove(place);
        if let Some(moved) = timed.get(place) {
            moved.timed_at.store(place, Ordering::Relaxed);
        }
        drop(timed);
        drop(last);
    }

    /// Tries one of those whose time has come, if one is among the next few, for who polls.
    pub(super) fn try_due(&self, now: u64) {
        // Who has the list sees to it.
        let Ok(timed) = self.shared.timed.try_lock() else { return };
        let first = self.shared.next_timed.load(Ordering::Relaxed);
        let end = if first < timed.len() { timed.len().min(first + LOOKS_AT) } else { 0 };
        self.shared.next_timed.store(end, Ordering::Relaxed);
        let due = timed[first.min(end)..end].iter().find(|qp| qp.is_due(now, false).0).cloned();
        drop(timed);
        if let Some(qp) = due {
            qp.try_due(now);
        }
    }

    /// Makes sure that the thread looks at this time; without one, every now and then.
    pub(super) fn wake_at(&self, device: &Device, time: Option<u64>) {
        if !device.is_mine() {
            return;
        }
        // First this, then the look at the time; the thread does it the other way round.
        self.shared.is_relied_on.store(true, Ordering::SeqCst);
        let wakes = self.shared.wakes.load(Ordering::SeqCst);
        if time.is_some_and(|time| wakes <= time) || wakes <= device.now() + TICK {
            return;
        }
        let mut thread = self.shared.thread();
        thread.rung = true;
        // Others need not ring as well.
        self.shared.wakes.store(0, Ordering::SeqCst);
        if thread.runs {
            self.shared.bell.notify_one();
        } else if !thread.ends {
            let (shared, device) = (self.shared.clone(), self.device.clone());
            // Without a thread, requests go on whenever the program polls.
            thread.runs = ironverbs_os::thread::start(c"ironverbs", move || shared.run(&device)).is_ok();
            if !thread.runs {
                self.shared.wakes.store(u64::MAX, Ordering::SeqCst);
            }
        }
    }

    /// Ends the thread, and with it everything that is not tried again from calls of the program; whether it
    /// has ended. Waits for nothing for ever: a signal handler that ends the process may have interrupted what
    /// has a lock.
    pub(super) fn stop(&self) -> bool {
        let Some(mut thread) = in_time(|| self.shared.thread_now()) else { return false };
        let patience = if std::mem::replace(&mut thread.ends, true) { AGAIN } else { PATIENCE };
        self.shared.bell.notify_all();
        let (thread, _) = self
            .shared
            .bell
            .wait_timeout_while(thread, patience, |thread| thread.runs)
            .unwrap_or_else(PoisonError::into_inner);
        !thread.runs
    }
}

impl Drop for Retries {
    fn drop(&mut self) {
        self.shared.thread().ends = true;
        self.shared.bell.notify_all();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Arc<QueuePair>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timed(&self) -> MutexGuard<'_, Vec<Arc<QueuePair>>> {
        self.timed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn datagrams(&self) -> MutexGuard<'_, Vec<Arc<QueuePair>>> {
        self.datagrams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_datagrams(&self, qp: Arc<QueuePair>) {
        let mut list = self.datagrams();
        // One that has ended meanwhile was looked for here before.
        if qp.has_datagrams() && !list.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            list.push_reserved(qp);
        }
    }

    fn take_datagrams(&self, is_it: impl Fn(&QueuePair) -> bool) -> Option<Arc<QueuePair>> {
        let mut list = self.datagrams();
        let place = list.iter().position(|qp| is_it(qp))?;
        Some(list.remove(place))
    }

    /// Has datagrams come that nobody polls; whether some wait still.
    fn settle_datagrams(&self) -> bool {
        let (count, mut waits) = (self.datagrams().len(), false);
        for _ in 0..count {
            // Who finds others afterwards puts it there again.
            let Some(qp) = self.take_datagrams(|_| true) else { break };
            if qp.settle_datagrams(BRIEFLY) == Settled::Left {
                waits = true;
                self.add_datagrams(qp);
            }
        }
        waits
    }

    fn thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same where it need not wait.
    fn thread_now(&self) -> Option<MutexGuard<'_, Thread>> {
        match self.thread.try_lock() {
            Ok(thread) => Some(thread),
            Err(TryLockError::Poisoned(thread)) => Some(thread.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn at(&self, place: usize) -> Option<Arc<QueuePair>> {
        self.waiting().get(place).cloned()
    }

    /// The next queue pair before this place of those connected to other hosts whose time has come, and its
    /// place; what the others wait for.
    fn due_before(&self, place: &mut usize, now: u64, outlook: &mut Outlook) -> Option<Arc<QueuePair>> {
        let timed = self.timed();
        let before = timed.get(..*place).unwrap_or(&timed);
        for (at, qp) in before.iter().enumerate().rev() {
            *place = at;
            match qp.is_due(now, true) {
                (true, _) => return Some(qp.clone()),
                (false, due::NEVER) => {}
                (false, due_at) => outlook.note(Work::Wait(Some(due_at))),
            }
        }
        None
    }

    #[cold]
    fn try_some(&self) {
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
        let mut tick = TICK;
        loop {
            let Some(now) = device.upgrade().map(|device| device.now()) else { return };
            // Whoever comes while it looks need not ring: it looks again that soon.
            self.wakes.store(now + TICK, Ordering::SeqCst);
            self.is_relied_on.store(false, Ordering::SeqCst);
            if std::mem::take(&mut self.thread().rung) {
                tick = TICK;
            }
            // From the end: a queue pair that leaves the list is replaced by the last, which was looked at
            // already.
            let (count, mut place) = (self.waiting().len(), self.timed().len());
            let mut outlook = Outlook { next: u64::MAX, waits: self.settle_datagrams() };
            for qp in (0..count).rev().filter_map(|place| self.at(place)) {
                outlook.note(qp.try_in_time());
            }
            while let Some(qp) = self.due_before(&mut place, now, &mut outlook) {
                outlook.note(qp.try_in_time());
            }
            let Outlook { mut next, waits } = outlook;
            let Some(now) = device.upgrade().map(|device| device.now()) else { return };
            let longest = if waits { LONG_TICK } else { LINGER };
            let mut sleeps = waits || tick < LINGER;
            if sleeps {
                next = next.min(now + tick.min(longest));
            }
            tick = tick.saturating_mul(2).min(LINGER);
            let mut thread = self.thread();
            self.wakes.store(next, Ordering::SeqCst);
            if self.is_relied_on.load(Ordering::SeqCst) {
                sleeps = true;
                next = next.min(now + TICK);
                self.wakes.store(next, Ordering::SeqCst);
            }
            if !sleeps {
                while !thread.rung && !thread.ends {
                    thread = self.bell.wait(thread).unwrap_or_else(PoisonError::into_inner);
                }
            } else if !thread.rung && !thread.ends {
                let time = Duration::from_nanos(next.saturating_sub(now));
                thread = self.bell.wait_timeout(thread, time).unwrap_or_else(PoisonError::into_inner).0;
            }
            if thread.ends {
                thread.runs = false;
                self.bell.notify_all();
                return;
            }
        }
    }
}
