//! A lock that one thread alone takes, again and again, becomes its own: that thread takes it by plain stores,
//! until another one asks for it.
//!
//! The owner says that it has the lock, and looks then whether it still owns it; who asks for the lock takes
//! the ownership away, has all processors fence, and looks then whether the owner has it. One sees the other.
//! The fence costs who asks some microseconds, and the owner nothing; so ownership is given again only after
//! more and more uses by one thread.
//!
//! All but the owner take the lock by its word first, and change nothing here without it.

use core::sync::atomic::Ordering;

use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, can_fence_all, fence_all, fence_own, this_thread};

/// Nobody: no thread has this number.
const NOBODY: usize = 0;
/// Uses in a row after which a thread owns the lock, the first time: a power of two.
#[cfg(not(loom))]
const USES: u32 = 1024;
#[cfg(loom)]
const USES: u32 = 1;
/// By so many powers of two more uses each time that the ownership was taken away, ...
#[cfg(not(loom))]
const DEARER: u32 = 3;
#[cfg(loom)]
const DEARER: u32 = 0;
/// ... as often as this at most.
const TIMES: u32 = 8;

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Bias {
    /// The owner has the lock; also one whose ownership was taken away meanwhile.
    taken: AtomicBool,
    /// The thread that owns the lock, or [`NOBODY`].
    owner: AtomicUsize,
}

/// By what ownership is given, behind the word.
#[derive(Debug)]
pub(crate) struct Uses {
    /// Who took the lock last by its word, and how often in a row.
    last: AtomicUsize,
    count: AtomicU32,
    /// How often the ownership was taken away.
    ended: AtomicU32,
    /// The first owner, and the only one ever: another might be about to take the lock as its owner when it
    /// loses that, and would then give back what its successor has.
    only: AtomicUsize,
}

impl Uses {
    pub(crate) fn new() -> Self {
        let [last, only] = [(); 2].map(|()| AtomicUsize::new(NOBODY));
        Self { last, count: AtomicU32::new(0), ended: AtomicU32::new(0), only }
    }
}

impl Bias {
    pub(crate) fn new() -> Self {
        Self { taken: AtomicBool::new(false), owner: AtomicUsize::new(NOBODY) }
    }

    /// Takes the lock for the owner, if that is the calling thread, and nobody has it or asks for it by its
    /// word.
    #[inline(always)]
    pub(crate) fn take(&self, word: &AtomicBool) -> bool {
        let me = this_thread();
        // Acquire: of who had it by its word while the process had one thread, and took nobody's ownership
        // away.
        if self.owner.load(Ordering::Relaxed) != me || self.is_taken() || word.load(Ordering::Acquire) {
            return false;
        }
        self.taken.store(true, Ordering::Relaxed);
        fence_own();
        if self.owner.load(Ordering::Relaxed) != me {
            self.taken.store(false, Ordering::Release);
            return false;
        }
        true
    }

    /// Whether an owner has the lock. Who finds that it has not sees all that it did.
    #[inline(always)]
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Who [took](Bias::take) the lock as its owner gives it back.
    #[inline(always)]
    pub(crate) fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// The calling thread has the word: whether it has the lock with it. It has not if the owner has; that one
    /// does not own it any more then.
    #[inline(always)]
    pub(crate) fn settle(&self, uses: &Uses) -> bool {
        let me = this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY && owner != me {
            self.end(uses);
        }
        if self.is_taken() {
            return false;
        }
        if uses.last.load(Ordering::Relaxed) == me {
            let count = uses.count.load(Ordering::Relaxed).wrapping_add(1);
            uses.count.store(count, Ordering::Relaxed);
            // Not each time, as one may be refused for good. All numbers that are enough are powers of two.
            if count >= USES && count.is_power_of_two() {
                self.consider(me, uses, count);
            }
        } else {
            uses.last.store(me, Ordering::Relaxed);
            uses.count.store(0, Ordering::Relaxed);
        }
        true
    }

    /// Takes the ownership away.
    #[cold]
    #[inline(never)]
    fn end(&self, uses: &Uses) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        uses.ended.store(uses.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        fence_all();
    }

    /// Gives the ownership to who took the lock so often in a row, if that is often enough.
    #[cold]
    #[inline(never)]
    fn consider(&self, me: usize, uses: &Uses, count: u32) {
        let (ended, only) = (uses.ended.load(Ordering::Relaxed), uses.only.load(Ordering::Relaxed));
        let is_often = ended < TIMES && count >= USES << (DEARER * ended);
        if is_often && me != NOBODY && (only == NOBODY || only == me) && can_fence_all() {
            uses.only.store(me, Ordering::Relaxed);
            self.owner.store(me, Ordering::Relaxed);
            uses.count.store(0, Ordering::Relaxed);
        }
    }
}
