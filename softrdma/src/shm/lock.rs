//! A lock in shared memory that survives the death of its owner: one atomic word.
//!
//! | bits | meaning |
//! |---|---|
//! | all zero | free |
//! | 0 | somebody may be waiting: whoever unlocks wakes |
//! | 1 to 10 | slot of the owning process |
//! | 11 to 63 | epoch of its claim of that slot, random, never zero |
//!
//! Locking is one compare-and-swap, unlocking another, plus a futex wake when bit 0 is set. A process that
//! waits longer than [`PATIENCE`] asks whether the owner lives, and takes the lock over from a dead one. It
//! gets [`Acquired::Recovered`]: what the lock protects may be half changed and must be repaired first. A new
//! owner that dies before it has repaired leaves the word with its own name, so the next one gets the same
//! answer. An owner that must unlock without having finished stores a word that no process has as its name
//! ([`Lock::abandon`]), from which the lock is taken over without asking.
//!
//! A living owner that does not go on can be fenced off by the owner of the memory. That process takes the word
//! over ([`Lock::take_from`]), moves what the lock protects elsewhere, and stores a word with which nobody can
//! lock ([`Lock::close`]). Waiting processes learn by it that the object is not here any more, and the old
//! owner that its unlocking came too late: what it wrote meanwhile reached memory that nobody reads.
//!
//! Every wait is bounded, so a death between unlocking and waking, or of a waiter that was woken, costs no more
//! than one [`PATIENCE`]. pthread's robust mutexes are no alternative: their list pointers would stand
//! in memory that a hostile peer can write.
//!
//! The word names processes, not threads: it excludes threads of one process from each other, and cannot notice
//! that a thread locks twice.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::sync::lock::{AtomicU64, Instant, SPINS, futex_wait, futex_wake, spin_loop};

/// Number of slots, and so of processes that can share a folder.
pub const SLOTS: u16 = 1024;

/// How long a waiter sleeps before it asks whether the owner lives.
pub const PATIENCE: Duration = Duration::from_millis(10);

const CONTENDED: u64 = 1;
/// An epoch of zero: nobody's signature.
const ABANDONED: u64 = 2;
/// What the lock protected was moved elsewhere, for ever.
const MOVED: u64 = 4;
/// The same, and the process that held the lock then does not write here any more.
const LEFT: u64 = 6;
const EPOCH_SHIFT: u32 = 11;
const SLOT_MASK: u64 = 0x3ff;

/// One process's claim of one slot: the name it signs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// Number of bits of an epoch.
    pub const EPOCH_BITS: u32 = 64 - EPOCH_SHIFT;

    /// The claim of `slot` with `epoch`, of which [`Owner::EPOCH_BITS`] bits count; they must not be zero.
    pub fn new(slot: u16, epoch: u64) -> Option<Self> {
        let epoch = epoch & ((1 << Self::EPOCH_BITS) - 1);
        (slot < SLOTS && epoch != 0).then_some(Owner(epoch << EPOCH_SHIFT | u64::from(slot) << 1))
    }

    /// What a word in shared memory says; `None` for zero and for words that nobody can have signed.
    pub fn from_word(word: u64) -> Option<Self> {
        Self::new((word >> 1 & SLOT_MASK) as u16, word >> EPOCH_SHIFT)
    }

    /// The claimed slot.
    pub fn slot(self) -> u16 {
        (self.0 >> 1 & SLOT_MASK) as u16
    }

    /// The claim's number.
    pub fn epoch(self) -> u64 {
        self.0 >> EPOCH_SHIFT
    }

    /// As a word in shared memory, never zero, bit 0 clear.
    pub fn word(self) -> u64 {
        self.0
    }
}

/// Answers whether a claim is still held by a living process.
pub trait Liveness {
    /// `false` only when the process is dead for certain.
    fn lives(&self, owner: Owner) -> bool;
}

/// How the lock was acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// It was free.
    Clean,
    /// Its owner died: repair what it protects.
    Recovered,
}

/// A lock word in shared memory. All zero is an unlocked lock.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Lock(AtomicU64);

impl Lock {
    /// The word of a segment as a lock.
    pub fn at(word: &std::sync::atomic::AtomicU64) -> &Lock {
        // SAFETY: Lock is a transparent wrapper of AtomicU64.
        unsafe { &*std::ptr::from_ref(word).cast::<Lock>() }
    }

    /// As [`Lock::at`], of something that is never moved. A lock that is closed all the same was forged; it is
    /// opened again, and repaired as after a death.
    #[inline]
    pub fn of_what_stays(word: &std::sync::atomic::AtomicU64) -> &Lock {
        let lock = Lock::at(word);
        if lock.is_closed() {
            lock.reopen();
        }
        lock
    }

    /// Locks, when nobody has it.
    #[inline]
    pub fn try_lock(&self, me: Owner) -> bool {
        self.0.compare_exchange(0, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Locks, waiting as long as the owner lives, at most `limit`; `None` when that passed, or at once when the
    /// lock [was closed](Lock::is_closed).
    #[inline]
    pub fn lock(&self, me: Owner, liveness: &impl Liveness, limit: Duration) -> Option<Acquired> {
        if self.try_lock(me) { Some(Acquired::Clean) } else { self.lock_slow(me, liveness, limit) }
    }

    #[cold]
    fn lock_slow(&self, me: Owner, liveness: &impl Liveness, limit: Duration) -> Option<Acquired> {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == 0 && self.try_lock(me) {
                return Some(Acquired::Clean);
            }
            spin_loop();
        }
        let start = Instant::now();
        // A waiter that slept cannot know whether others still sleep, so it keeps the bit and wakes them later.
        let mine = me.0 | CONTENDED;
        // The word that is waited for, and since when it stands there: signals cut sleeps short.
        let (mut word, mut since) = (0, start);
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            if seen == 0 {
                if self.0.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(Acquired::Clean);
                }
                continue;
            }
            if matches!(seen, MOVED | LEFT) {
                return None;
            }
            if seen & CONTENDED == 0 {
                let _ = self.0.compare_exchange(seen, seen | CONTENDED, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            // A word that nobody can have signed was abandoned, or not written by this lock; it counts as a
            // dead owner's.
            let now = Instant::now();
            if seen != word {
                (word, since) = (seen, now);
            }
            let left = limit.saturating_sub(now - start);
            let ask = now - since >= PATIENCE || left.is_zero();
            if Owner::from_word(seen).is_none_or(|owner| ask && !liveness.lives(owner)) {
                if self.0.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(Acquired::Recovered);
                }
                continue;
            }
            if left.is_zero() {
                return None;
            }
            if ask {
                since = now;
            }
            self.sleep(seen, left.min(PATIENCE.saturating_sub(now - since)));
        }
    }

    /// Unlocks; `false` when the lock was no longer this process's, so what it protects may have changed
    /// meanwhile.
    #[inline]
    pub fn unlock(&self, me: Owner) -> bool {
        if self.0.compare_exchange(me.0, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return true;
        }
        self.let_go(me, 0)
    }

    #[cold]
    fn let_go(&self, me: Owner, word: u64) -> bool {
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            if seen & !CONTENDED != me.0 {
                return false;
            }
            if self.0.compare_exchange(seen, word, Ordering::Release, Ordering::Relaxed).is_ok() {
                if seen & CONTENDED != 0 {
                    self.wake(1);
                }
                return true;
            }
        }
    }

    /// Lets go of a lock as death would: the next to lock it is told [`Acquired::Recovered`]. `false` when it
    /// was no longer this process's.
    #[cold]
    pub fn abandon(&self, me: Owner) -> bool {
        self.let_go(me, ABANDONED)
    }

    /// Takes the lock from a living process that does not go on, for the owner of the memory; `false` when that
    /// process does not have it any more. Others wait for the new owner, and the old one finds out when it
    /// unlocks. What it still writes goes where it went: that memory must serve nobody else from here on, and
    /// this lock is to be [closed](Lock::close).
    #[cold]
    #[must_use]
    pub fn take_from(&self, holder: Owner, me: Owner) -> bool {
        let mine = me.0 | CONTENDED;
        [holder.0, holder.0 | CONTENDED]
            .into_iter()
            .any(|word| self.0.compare_exchange(word, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Takes the lock from a process that is said to have it and does not, for the owner of the memory; `false`
    /// when another word stands there by now. The next to lock it repairs.
    #[cold]
    pub fn revoke(&self, holder: Owner) -> bool {
        let revoked = [holder.0, holder.0 | CONTENDED].into_iter().any(|word| {
            self.0.compare_exchange(word, ABANDONED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        if revoked {
            self.wake(1);
        }
        revoked
    }

    /// Closes a lock that was [taken](Lock::take_from): what it protected is elsewhere. Wakes all that wait.
    #[cold]
    pub fn close(&self) {
        self.0.store(MOVED, Ordering::Release);
        self.wake(i32::MAX);
    }

    /// Whether what the lock protected was moved elsewhere.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), MOVED | LEFT)
    }

    /// Says that the process which held the lock when it was taken writes here no more: by that process itself.
    #[cold]
    pub fn leave(&self) {
        let _ = self.0.compare_exchange(MOVED, LEFT, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether [`Lock::leave`] was said.
    #[must_use]
    pub fn was_left(&self) -> bool {
        self.0.load(Ordering::Acquire) == LEFT
    }

    /// Opens a closed lock whose object was never moved, so that the word was forged; the next to lock it
    /// repairs.
    #[cold]
    pub fn reopen(&self) {
        for word in [MOVED, LEFT] {
            let _ = self.0.compare_exchange(word, ABANDONED, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// The process that has the lock.
    pub fn owner(&self) -> Option<Owner> {
        Owner::from_word(self.0.load(Ordering::Relaxed))
    }

    /// The half of the word that carries bit 0, which is what the futex compares.
    fn futex(&self) -> *const AtomicU32 {
        let low = if cfg!(target_endian = "little") { 0 } else { 1 };
        // SAFETY: both halves are within the 8 bytes of the word.
        unsafe { std::ptr::from_ref(&self.0).cast::<AtomicU32>().add(low) }
    }

    /// Sleeps while the word is `seen`, at most this long; a signal may end it earlier.
    fn sleep(&self, seen: u64, time: Duration) {
        // SAFETY: the futex word is alive with `self`.
        unsafe { futex_wait(self.futex(), seen as u32, time) };
    }

    fn wake(&self, most: i32) {
        // SAFETY: the futex word is alive with `self`.
        unsafe { futex_wake(self.futex(), most) };
    }
}

/// Every interleaving of few processes (`scripts/models`).
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Whether the process in slot 1 lives; all others do.
    #[derive(Clone, Copy)]
    struct First(bool);
    impl Liveness for First {
        fn lives(&self, owner: Owner) -> bool {
            self.0 || owner.slot() != 1
        }
    }

    const LIMIT: Duration = Duration::from_secs(1000);

    fn owner(slot: u16) -> Owner {
        Owner::new(slot, 7).unwrap()
    }

    /// A lock and what it protects.
    type Shared = Arc<(Lock, UnsafeCell<u32>)>;

    fn shared() -> Shared {
        Arc::new((Lock::default(), UnsafeCell::new(0)))
    }

    fn count(shared: &Shared, me: Owner, alive: First) -> (Acquired, u32) {
        let got = shared.0.lock(me, &alive, LIMIT).unwrap();
        // SAFETY: the lock is held; loom ends the test where another access is not ordered with this one.
        let now = shared.1.with_mut(|n| unsafe {
            *n += 1;
            *n
        });
        assert!(shared.0.unlock(me));
        (got, now)
    }

    fn with_other(mine: impl Fn(&Shared) + Sync + Send + 'static, other: fn(&Shared)) {
        let mine = std::sync::Arc::new(mine);
        loom::model(move || {
            let shared = shared();
            let theirs = {
                let shared = shared.clone();
                thread::spawn(move || other(&shared))
            };
            mine(&shared);
            theirs.join().unwrap();
        });
    }

    #[test]
    fn two_processes_never_hold_it_together() {
        with_other(
            |shared| assert_eq!(count(shared, owner(2), First(true)).0, Acquired::Clean),
            |shared| assert_eq!(count(shared, owner(3), First(true)).0, Acquired::Clean),
        );
    }

    #[test]
    fn one_of_two_takes_it_over_from_a_dead_owner() {
        loom::model(|| {
            let shared = shared();
            assert!(shared.0.try_lock(owner(1)));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || count(&shared, owner(2), First(false)))
            };
            let mine = count(&shared, owner(3), First(false));
            let both = [mine, other.join().unwrap()];
            assert_eq!(both.iter().filter(|(got, _)| *got == Acquired::Recovered).count(), 1);
        });
    }

    #[test]
    fn an_abandoned_lock_brings_the_news_and_all_that_was_done() {
        with_other(
            |shared| {
                if shared.0.lock(owner(2), &First(true), LIMIT).is_some() {
                    // SAFETY: as in `count`.
                    shared.1.with_mut(|n| unsafe { *n += 1 });
                    assert!(shared.0.abandon(owner(2)));
                }
            },
            |shared| {
                let (got, now) = count(shared, owner(3), First(true));
                let expected = if now == 2 { Acquired::Recovered } else { Acquired::Clean };
                assert_eq!(got, expected);
            },
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::testing::in_child;
    use super::*;
    use softrdma_testing::thread::asleep;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Longer than anybody waits who is not to wait for ever.
    const LIMIT: Duration = Duration::from_secs(300);

    struct Alive(bool);
    impl Liveness for Alive {
        fn lives(&self, _: Owner) -> bool {
            self.0
        }
    }

    fn owner(slot: u16) -> Owner {
        Owner::new(slot, 0x1_2345_6789_abcd + u64::from(slot)).unwrap()
    }

    #[test]
    fn names() {
        let o = Owner::new(1023, u64::MAX).unwrap();
        assert_eq!((o.slot(), o.epoch()), (1023, (1 << Owner::EPOCH_BITS) - 1));
        assert_eq!(Owner::from_word(o.word()), Some(o));
        assert_eq!(Owner::from_word(o.word() | CONTENDED), Some(o));
        assert_eq!(Owner::new(1024, 1), None);
        assert_eq!(Owner::new(0, 0), None);
        assert_eq!(Owner::new(0, 1 << Owner::EPOCH_BITS), None);
        assert_eq!(Owner::from_word(0), None);
        assert_eq!(Owner::from_word(1), None);
    }

    #[test]
    fn a_living_owner_is_waited_for() {
        let lock = Lock::default();
        assert_eq!(lock.lock(owner(1), &Alive(true), Duration::ZERO), Some(Acquired::Clean));
        let start = Instant::now();
        assert_eq!(lock.lock(owner(2), &Alive(true), Duration::from_millis(35)), None);
        assert!(start.elapsed() >= Duration::from_millis(35));
        assert_eq!(lock.owner(), Some(owner(1)));
        assert!(!lock.unlock(owner(2)));
        assert!(lock.unlock(owner(1)));
        assert!(!lock.unlock(owner(1)));
        assert_eq!(lock.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_dead_owner_is_replaced_and_each_successor_is_told() {
        let lock = Lock::default();
        assert!(lock.try_lock(owner(1)));
        assert_eq!(lock.lock(owner(2), &Alive(false), LIMIT), Some(Acquired::Recovered));
        assert_eq!(lock.lock(owner(3), &Alive(false), LIMIT), Some(Acquired::Recovered));
        assert!(lock.unlock(owner(3)));
        assert_eq!(lock.lock(owner(4), &Alive(false), LIMIT), Some(Acquired::Clean));
    }

    #[test]
    fn signals_do_not_put_off_the_takeover() {
        static SIGNALS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        extern "C" fn count(_: libc::c_int) {
            SIGNALS.fetch_add(1, Ordering::Relaxed);
        }
        let status = in_child(|| {
            // SAFETY: the handler only counts; the thread signalled is the child's first, which outlives the
            // other.
            let me = unsafe {
                libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t);
                libc::pthread_self()
            };
            std::thread::spawn(move || {
                loop {
                    // SAFETY: as above.
                    unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            // A busy machine may send none while one waits.
            (0..1000).any(|_| {
                let lock = Lock::default();
                assert!(lock.try_lock(owner(1)));
                let (start, before) = (Instant::now(), SIGNALS.load(Ordering::Relaxed));
                assert_eq!(lock.lock(owner(2), &Alive(false), LIMIT), Some(Acquired::Recovered));
                assert!(start.elapsed() < LIMIT / 2);
                SIGNALS.load(Ordering::Relaxed) >= before + 3
            })
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn an_abandoned_lock_is_taken_over_at_once_and_with_the_news() {
        let lock = Lock::default();
        assert!(lock.try_lock(owner(1)));
        assert!(!lock.abandon(owner(2)));
        let waiter =
            |slot| assert_eq!(lock.lock(owner(slot), &Alive(true), LIMIT), Some(Acquired::Recovered));
        std::thread::scope(|s| {
            asleep(s, || waiter(2));
            assert!(lock.abandon(owner(1)));
        });
        assert!(lock.abandon(owner(2)));
        waiter(3);
        assert!(lock.unlock(owner(3)));
        assert_eq!(lock.lock(owner(1), &Alive(true), LIMIT), Some(Acquired::Clean));
    }

    #[test]
    fn a_holder_that_was_fenced_off_finds_out_and_waiters_learn_that_nothing_is_here() {
        let lock = Lock::default();
        assert!(lock.try_lock(owner(1)));
        assert!(!lock.take_from(owner(2), owner(3)));
        std::thread::scope(|s| {
            let waiters = [4, 5].map(|slot| {
                let lock = &lock;
                asleep(s, move || lock.lock(owner(slot), &Alive(true), LIMIT)).0
            });
            assert!(lock.take_from(owner(1), owner(3)));
            assert!(!lock.unlock(owner(1)) && !lock.is_closed());
            lock.leave();
            lock.close();
            assert!(lock.is_closed() && !lock.was_left());
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), None);
            }
        });
        assert!(!lock.abandon(owner(1)) && !lock.try_lock(owner(1)));
        lock.leave();
        assert!(lock.was_left() && lock.is_closed());
        lock.reopen();
        assert_eq!(lock.lock(owner(6), &Alive(true), LIMIT), Some(Acquired::Recovered));
    }

    #[test]
    fn what_stays_is_not_closed_by_anybody() {
        for word in [MOVED, LEFT] {
            let word = std::sync::atomic::AtomicU64::new(word);
            assert_eq!(Lock::at(&word).lock(owner(2), &Alive(true), LIMIT), None);
            let lock = Lock::of_what_stays(&word);
            assert_eq!(lock.lock(owner(2), &Alive(true), LIMIT), Some(Acquired::Recovered));
        }
    }

    #[test]
    fn garbage_is_taken_over() {
        for word in [1, 2, 0x7ff, 0x7fe] {
            let lock = Lock(AtomicU64::new(word));
            assert_eq!(lock.lock(owner(2), &Alive(true), LIMIT), Some(Acquired::Recovered));
        }
    }

    #[test]
    fn excludes_threads() {
        let lock = Arc::new(Lock::default());
        let inside = Arc::new(AtomicBool::new(false));
        let counter = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..4)
            .map(|slot| {
                let (lock, inside, counter) = (lock.clone(), inside.clone(), counter.clone());
                std::thread::spawn(move || {
                    // Two threads share each name, as threads of one process do.
                    let me = owner(slot / 2);
                    for i in 0..20_000 {
                        let got = lock.lock(me, &Alive(true), LIMIT);
                        assert_eq!(got, Some(Acquired::Clean));
                        assert!(!inside.swap(true, Ordering::Relaxed));
                        let n = counter.load(Ordering::Relaxed);
                        if i % 64 == 0 {
                            std::thread::yield_now();
                        }
                        counter.store(n + 1, Ordering::Relaxed);
                        assert!(inside.swap(false, Ordering::Relaxed));
                        assert!(lock.unlock(me));
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(counter.load(Ordering::Relaxed), 80_000);
        assert_eq!(lock.0.load(Ordering::Relaxed), 0);
    }
}
