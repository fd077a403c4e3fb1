//! A segment for one operation, with the objects at hand that it visits.

use std::sync::atomic::{AtomicU64, Ordering};

use super::host::{Host, get, give_back, locked, put};
use super::layout::*;
use crate::core::fence::Resolve;
use crate::core::repair::Repair;
use crate::core::shared::{
    Claim, CqJournal, CqWord, Fence, Memory, Object, QpJournal, QpWord, SrqJournal, SrqWord, Word,
};
use crate::core::transport::{LockError, Locked, Machine, Operation, Transport};
use crate::host::lock::{Acquired, Lock};
use crate::host::memory::Memory as Mapping;

/// How often queues are looked up that were moved or resized just then.
const TRIES: u32 = 3;

/// Where the objects of an operation are: a queue pair, a shared receive queue and a completion queue of one
/// segment, looked up once. They may go away: a lock of one that did is not had.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held([Option<(u32, Layout)>; 3]);

impl Held {
    #[inline(always)]
    fn get(&self, object: Object) -> Option<&Layout> {
        let (kind, index) = kind(object);
        self.0[kind].as_ref().filter(|held| held.0 == index).map(|held| &held.1)
    }

    /// Notes where the object is, or that it is not there.
    pub(super) fn set(&mut self, object: Object, layout: Option<Layout>) {
        let (kind, index) = kind(object);
        self.0[kind] = layout.map(|layout| (index, layout));
    }

    /// Whether the object was found.
    #[must_use]
    pub fn has(&self, object: Object) -> bool {
        self.get(object).is_some()
    }

    /// The generation of the object, when it was found.
    #[must_use]
    pub fn generation(&self, object: Object) -> Option<u64> {
        self.get(object).map(|layout| layout.generation)
    }

    /// Also what the other has found.
    pub fn add(&mut self, other: &Held) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = theirs.or(*mine);
        }
    }
}

/// A [`Host`] with some objects at hand: no table is asked for them. For one operation: that the process is not
/// a forked child is looked at once.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    host: &'a Host,
    memory: &'a Mapping,
    held: &'a Held,
    mine: bool,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn new(host: &'a Host, held: &'a Held) -> Self {
        View { host, memory: host.memory(), held, mine: host.me.is_mine() }
    }
}

impl View<'_> {
    /// Whether the object is the one that was found: one load, no look at a table.
    #[inline]
    #[must_use]
    pub fn is_current(&self, object: Object) -> bool {
        self.held.get(object).is_some_and(|layout| self.host.is_current(layout))
    }

    /// Does something with the object's layout.
    #[inline(always)]
    fn used<T>(&self, object: Object, act: impl FnOnce(&Layout) -> T) -> Option<T> {
        match self.held.get(object) {
            Some(layout) => Some(act(layout)),
            None => self.elsewhere(object).map(|layout| act(&layout)),
        }
    }

    /// An object that is not at hand.
    #[cold]
    #[inline(never)]
    fn elsewhere(&self, object: Object) -> Option<Layout> {
        self.host.used(object)
    }

    #[inline(always)]
    fn word(&self, word: Word) -> Option<&AtomicU64> {
        let offset = self.used(object_of(word), |layout| place(layout, word))?;
        self.memory.u64(offset).ok()
    }

    /// So many words that follow one another; none when they are not all there.
    #[inline(always)]
    fn words(&self, first: Word, count: usize) -> &[AtomicU64] {
        let offset = self.used(object_of(first), |layout| place(layout, first));
        offset.and_then(|offset| self.memory.words(offset, count).ok()).unwrap_or(&[])
    }

    fn body(&self, object: Object) -> Option<u64> {
        self.held.get(object).map(|layout| layout.body).or_else(|| self.host.body(object))
    }

    #[inline]
    fn lock_of(&self, body: u64) -> Option<&Lock> {
        self.mine.then(|| self.memory.u64(body + LOCK).ok().map(Lock::at))?
    }

    /// Whether this process still has a lock that it took.
    #[cold]
    fn holds(&self, object: Object) -> bool {
        let lock = self.body(object).and_then(|body| self.lock_of(body));
        lock.is_some_and(|lock| lock.owner() == Some(self.host.me.owner()))
    }

    /// Runs a machine for `object`, whose lock the caller holds here, on the queues as they are now; once more
    /// when one of them was moved just then.
    #[cold]
    fn anew<M: Machine>(
        &self,
        object: Object,
        of: Option<Object>,
        others: impl Fn() -> [Option<Object>; 3],
        machine: impl Fn() -> M,
    ) -> std::result::Result<M::Outcome, LockError> {
        let mut tries = 0;
        loop {
            let mut held = self.host.find(others());
            if let Some(layout) = self.held.get(object) {
                held.set(object, Some(*layout));
            }
            let view = self.host.with(&held);
            let mut operation =
                of.map_or_else(|| Operation::new(&view), |of| Operation::on_behalf(&view, of));
            match operation.run(machine()) {
                Err(LockError::Gone) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// The objects that repairing this one visits.
    fn visited(&self, object: Object) -> [Option<Object>; 3] {
        let qp = |qp: Option<u32>| qp.map(Object::Qp);
        match object {
            Object::Qp(index) => {
                let claim = Claim::unpack(self.load(Word::Qp(index, QpWord::Claim)));
                let journal = QpJournal::unpack(self.load(Word::Qp(index, QpWord::Journal)));
                [
                    None,
                    claim.map(|claim| Object::Srq(claim.srq)),
                    journal.map(|journal| Object::Cq(journal.cq)),
                ]
            }
            Object::Srq(index) => {
                let journal = SrqJournal::unpack(self.load(Word::Srq(index, SrqWord::Journal)));
                [qp(journal.map(|journal| journal.qp)), None, None]
            }
            Object::Cq(index) => {
                let journal = CqJournal::unpack(self.load(Word::Cq(index, CqWord::Journal)));
                [qp(journal.map(|journal| journal.qp)), None, None]
            }
        }
    }

    /// Whether the object is still the one whose layout is at hand, if one is.
    #[cold]
    fn is_the_same(&self, object: Object) -> bool {
        let held = self.held.get(object).map(|held| held.generation);
        self.host.layout(object).is_some_and(|now| held.is_none_or(|held| held == now.generation))
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, object: Object, lock: &Lock) -> std::result::Result<Acquired, LockError> {
        let layout = self.used(object, |layout| *layout).ok_or(LockError::Gone)?;
        self.host.take(object, &layout, lock)
    }

    #[inline]
    fn is_as_held(&self, object: Object) -> bool {
        self.is_current(object) || self.is_the_same(object)
    }
}

impl Memory for View<'_> {
    #[inline(always)]
    fn is_stepwise(&self) -> bool {
        false
    }

    #[inline(always)]
    fn load(&self, word: Word) -> u64 {
        self.word(word).map_or(0, get)
    }

    #[inline(always)]
    fn store(&self, word: Word, value: u64) {
        if let Some(to) = self.word(word).filter(|_| self.mine) {
            put(to, word, value);
        }
    }

    #[inline(always)]
    fn load_all(&self, first: Word, values: &mut [u64]) {
        let words = self.words(first, values.len());
        for (value, count) in values.iter_mut().zip(0..) {
            *value = words.get(count).map_or(0, get);
        }
    }

    #[inline(always)]
    fn store_all(&self, first: Word, values: &[u64]) {
        if self.mine {
            for (word, value) in self.words(first, values.len()).iter().zip(values) {
                word.store(*value, Ordering::Relaxed);
            }
        }
    }

    /// Also where it is elsewhere than at hand by now, as whoever locks it is told.
    fn exists(&self, object: Object) -> bool {
        self.host.is_there(object, self.held.get(object))
    }

    #[inline(always)]
    fn capacity(&self, object: Object) -> u32 {
        self.used(object, |layout| layout.shape.capacity).unwrap_or(0)
    }

    #[inline(always)]
    fn receive_words(&self, queue: Object) -> u32 {
        self.used(queue, |layout| layout.shape.receive_words).unwrap_or(0)
    }

    #[inline(always)]
    fn entry_words(&self, cq: u32) -> u32 {
        self.used(Object::Cq(cq), |layout| layout.shape.receive_words).unwrap_or(0)
    }
}

impl Transport for View<'_> {
    /// Waits as long as the owner lives, but not longer than the limit.
    #[inline]
    fn lock(&self, object: Object) -> std::result::Result<Locked, LockError> {
        let me = self.host.me.owner();
        let body = self.used(object, |layout| layout.body).ok_or(LockError::Gone)?;
        let lock = self.lock_of(body).ok_or(LockError::Gone)?;
        let acquired = if lock.try_lock(me) { Acquired::Clean } else { self.wait(object, lock)? };
        // The object cannot go away from now on: its owner needs the lock for that.
        if self.is_as_held(object) { Ok(locked(acquired)) } else { Err(give_back(lock, me, acquired)) }
    }

    /// Also when the object is gone.
    #[inline]
    fn unlock(&self, object: Object) -> bool {
        let lock = self.body(object).and_then(|body| self.lock_of(body));
        lock.is_some_and(|lock| lock.unlock(self.host.me.owner()))
    }

    fn abandon(&self, object: Object) {
        if let Some(lock) = self.body(object).and_then(|body| self.lock_of(body)) {
            lock.abandon(self.host.me.owner());
        }
    }

    /// By the queues as they are now: those at hand may have been resized.
    #[cold]
    fn repair(&self, object: Object) -> std::result::Result<(), LockError> {
        self.anew(object, Some(object), || self.visited(object), || Repair::new(object))
    }

    /// The queue is looked for where it is now.
    #[cold]
    fn resolve(&self, qp: u32, object: Object) -> std::result::Result<Option<Fence>, LockError> {
        let places = || match object {
            Object::Cq(_) => [None, None, Some(object)],
            other => [None, Some(other), None],
        };
        // When that lock is taken away too, what was found is so nevertheless.
        let found = if self.holds(Object::Qp(qp)) {
            self.anew(Object::Qp(qp), None, places, || Resolve::new(qp, object))
        } else {
            // What stands in the queue pair by now is not about this process.
            Err(LockError::Unclear)
        };
        if let Some(lock) = self.body(object).and_then(|body| self.lock_of(body)) {
            // Nothing of this process writes there any more.
            lock.leave();
        }
        found
    }

    fn bell(&self, cq: u32) -> bool {
        self.host.ring_bell(self.used(Object::Cq(cq), |layout| layout.shape.bell).flatten())
    }

    fn alert(&self, object: Object) {
        self.host.ring_alert(self.used(object, |layout| layout.entry));
    }
}
