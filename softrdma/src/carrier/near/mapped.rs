//! Places in the memory of a target that are looked up once, and kept with what keeps them mapped.

use std::mem::forget;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shm::lock::{Lock, Owner};

/// A place in a mapping that stays where it is, and never becomes shorter.
#[derive(Debug)]
pub(crate) struct Mapped<T>(NonNull<T>);

impl<T> Clone for Mapped<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Mapped<T> {}

// SAFETY: it is in a mapping that belongs to the process, not to a thread, and is reached by shared references
// alone.
unsafe impl<T: Sync> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// # Safety
    /// What keeps the mapping is kept as long as the value is used.
    #[inline(always)]
    pub(crate) unsafe fn new(place: &T) -> Self {
        Self(place.into())
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: by the contract of `new`.
        unsafe { self.0.as_ref() }
    }
}

/// A word, and what it said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched(Mapped<AtomicU64>, u64);

impl Watched {
    /// # Safety
    /// As for [`Mapped::new`].
    #[inline(always)]
    pub(crate) unsafe fn new(word: &AtomicU64, value: u64) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Mapped::new(word) }, value)
    }

    /// What it says.
    #[inline(always)]
    pub(crate) fn load(&self) -> u64 {
        self.0.get().load(Ordering::Acquire)
    }

    /// What it said.
    pub(crate) fn then(&self) -> u64 {
        self.1
    }

    /// Whether it says what it said.
    #[inline(always)]
    pub(crate) fn is_unchanged(&self) -> bool {
        self.load() == self.1
    }
}

/// The lock of a queue pair. One that is not given back is abandoned: who has it next repairs the
/// queue pair.
pub(crate) struct Locked<'a>(&'a Lock, Owner);

impl<'a> Locked<'a> {
    /// Takes it where nobody has it.
    #[inline(always)]
    pub(crate) fn take(lock: &'a Lock, me: Owner) -> Option<Self> {
        // Made behind the lock alone: one that is dropped lets go of what another thread of the process has.
        lock.try_lock(me).then(|| Self(lock, me))
    }

    /// Gives it back; `false` where it was taken away before.
    #[inline(always)]
    pub(crate) fn give_back(self) -> bool {
        let is_kept = self.0.unlock(self.1);
        forget(self);
        is_kept
    }
}

impl Drop for Locked<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.abandon(self.1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_another_thread_of_the_process_has_stays_its_own() {
        let (lock, me) = (Lock::default(), Owner::new(1, 7).unwrap());
        assert!(lock.try_lock(me));
        assert!(Locked::take(&lock, me).is_none());
        assert_eq!(lock.owner(), Some(me));
        assert!(Locked::take(&lock, Owner::new(2, 7).unwrap()).is_none());
        assert!(lock.unlock(me));
        let locked = Locked::take(&lock, me).unwrap();
        assert!(locked.give_back());
        assert_eq!(lock.owner(), None);
    }
}
