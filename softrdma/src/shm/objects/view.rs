//! A segment for one operation, with the objects at hand that it visits.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::host::{Host, HostSegment, exchange, get, give_back, locked, put};
use super::layout::*;
use crate::queues::fence::Resolve;
use crate::queues::repair::Repair;
use crate::queues::shared::{
    Claim, CqJournal, CqWord, Fence, Memory, Object, QpJournal, QpWord, SrqJournal, SrqWord, Word,
};
use crate::queues::transaction::Machine;
use crate::queues::transaction::{LockError, Locked};
use crate::queues::transport::{Operation, Transport};
use crate::shm::lock::{Acquired, Lock, Owner};

/// How often queues are looked up that were moved or resized just then.
const TRIES: u32 = 3;

/// Where the objects of an operation are: a queue pair, a shared receive queue and a completion queue of one
/// segment, looked up once. They may go away: a lock of one that did is not had.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// Keeps the mapping that the places are in.
    of: Option<HostSegment>,
    all: [Option<Place>; 3],
}

/// An object, and where it is in the mapping that the [`Held`] with it keeps.
#[derive(Debug, Clone, Copy)]
struct Place {
    index: u32,
    layout: Layout,
    generation: NonNull<AtomicU64>,
    body: NonNull<[AtomicU64; BODY_WORDS]>,
    ring: NonNull<[AtomicU64]>,
}

// SAFETY: the places are words of a mapping that belongs to the process, not to a thread; all access goes
// through atomics.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    #[inline(always)]
    fn get(&self, object: Object) -> Option<Near<'_>> {
        let (kind, index) = kind(object);
        let place = self.all[kind].as_ref().filter(|place| place.index == index)?;
        // SAFETY: `set` found the words in the mapping of `of`, which is there as long as `self`, and never
        // becomes shorter.
        let (generation, body, ring) =
            unsafe { (place.generation.as_ref(), place.body.as_ref(), place.ring.as_ref()) };
        Some(Near { layout: &place.layout, generation, body, ring })
    }

    /// None yet, of this segment.
    pub(super) fn of(target: &HostSegment) -> Self {
        Self { of: Some(target.clone()), all: [None; 3] }
    }

    /// Notes where the object is, or that it is not there.
    pub(super) fn set(&mut self, object: Object, layout: Option<Layout>) {
        let (kind, index) = kind(object);
        let memory = self.of.as_ref().map(HostSegment::memory);
        self.all[kind] = memory.zip(layout).and_then(|(memory, layout)| {
            let body: &[AtomicU64; BODY_WORDS] =
                memory.words(layout.body, BODY_WORDS).ok()?.try_into().ok()?;
            Some(Place {
                index,
                layout,
                generation: memory.u64(layout.entry + GENERATION).ok()?.into(),
                body: body.into(),
                ring: memory.words(layout.ring, layout.ring_words).ok()?.into(),
            })
        });
    }

    /// Whether the object was found.
    #[must_use]
    pub fn has(&self, object: Object) -> bool {
        self.get(object).is_some()
    }

    /// The generation of the object, when it was found.
    #[must_use]
    pub fn generation(&self, object: Object) -> Option<u64> {
        self.get(object).map(|near| near.layout.generation)
    }

    /// Also what the other has found, in the same segment.
    pub fn add(&mut self, other: &Held) {
        let mapping = |held: &Held| held.of.as_ref().map(|of| std::ptr::from_ref(of.memory()));
        if mapping(self) != mapping(other) {
            debug_assert!(false, "of another segment");
            return;
        }
        for (mine, theirs) in self.all.iter_mut().zip(&other.all) {
            *mine = theirs.or(*mine);
        }
    }
}

/// An object at hand, and its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Near<'a> {
    pub(super) layout: &'a Layout,
    generation: &'a AtomicU64,
    body: &'a [AtomicU64; BODY_WORDS],
    ring: &'a [AtomicU64],
}

impl<'a> Near<'a> {
    /// So many words that follow one another; `None` when they are not all there.
    #[inline(always)]
    pub(super) fn words(&self, first: Word, count: usize) -> Option<&'a [AtomicU64]> {
        match spot(&self.layout.shape, first) {
            Spot::Body(at) => self.body.get(at..)?.get(..count),
            Spot::Ring(at) => self.ring.get(at..)?.get(..count),
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, word: Word) -> Option<&'a AtomicU64> {
        match spot(&self.layout.shape, word) {
            Spot::Body(at) => self.body.get(at),
            Spot::Ring(at) => self.ring.get(at),
        }
    }

    /// Its lock.
    #[inline(always)]
    pub(super) fn lock(&self) -> &'a Lock {
        Lock::at(&self.body[(LOCK / 8) as usize])
    }

    /// Whether it is where it was found.
    #[inline(always)]
    pub(super) fn is_current(&self) -> bool {
        self.generation.load(Ordering::Acquire) == self.layout.generation
    }
}

/// A [`Host`] with some objects at hand: no table is asked for them, and their memory was checked against the
/// mapping when they were found. For one operation: that the process is not a forked child is looked at once.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    host: &'a Host,
    held: &'a Held,
    mine: bool,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn new(host: &'a Host, held: &'a Held) -> Self {
        View { host, held, mine: host.me.is_mine() }
    }
}

impl View<'_> {
    /// Whether the object is the one that was found: one load, no look at a table.
    #[inline(always)]
    #[must_use]
    pub fn is_current(&self, object: Object) -> bool {
        self.near(object).is_some_and(|near| near.is_current())
    }

    #[inline(always)]
    pub(super) fn near(&self, object: Object) -> Option<Near<'_>> {
        self.held.get(object)
    }

    /// A word of an object at hand.
    pub(crate) fn word_at(&self, word: Word) -> Option<&AtomicU64> {
        self.near(object_of(word))?.word(word)
    }

    /// The lock of an object at hand.
    pub(crate) fn lock_word(&self, object: Object) -> Option<&Lock> {
        self.near(object).map(|near| near.lock())
    }

    /// The word of an object at hand that says where it is, and what it said when the object was found.
    pub(crate) fn generation_of(&self, object: Object) -> Option<(&AtomicU64, u64)> {
        self.near(object).map(|near| (near.generation, near.layout.generation))
    }

    /// Whether this is the process that the segment was opened by, not a child forked later.
    #[inline(always)]
    pub(super) fn is_mine(&self) -> bool {
        self.mine
    }

    /// The name that this process signs with.
    #[inline(always)]
    pub(super) fn me(&self) -> Owner {
        self.host.me.owner()
    }

    /// Takes the lock of an object at hand that another has.
    ///
    /// # Errors
    /// As those of [`Transport::lock`].
    #[cold]
    #[inline(never)]
    pub(super) fn lock_of_other(&self, object: Object) -> std::result::Result<Locked, LockError> {
        let lock = self.lock_at(object).ok_or(LockError::Gone)?;
        let acquired = self.wait(object, lock)?;
        if self.is_as_held(object) { Ok(locked(acquired)) } else { Err(give_back(lock, self.me(), acquired)) }
    }

    /// After the lock of an object was taken that is not where it was: whether it is the same nevertheless.
    ///
    /// # Errors
    /// It is another, or gone. The lock is given back.
    #[cold]
    #[inline(never)]
    pub(super) fn as_held(&self, object: Object, lock: &Lock) -> std::result::Result<Locked, LockError> {
        if self.is_the_same(object) {
            Ok(Locked::Clean)
        } else {
            Err(give_back(lock, self.me(), Acquired::Clean))
        }
    }

    /// Does something with the object's layout.
    #[inline(always)]
    fn used<T>(&self, object: Object, act: impl FnOnce(&Layout) -> T) -> Option<T> {
        match self.near(object) {
            Some(near) => Some(act(near.layout)),
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
        if let Word::Shared { srq, word } = word {
            return self.shared_word(srq, word);
        }
        match self.near(object_of(word)) {
            Some(near) => near.word(word),
            None => self.words_elsewhere(word, 1)?.first(),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn shared_word(&self, srq: u32, word: u32) -> Option<&AtomicU64> {
        self.host.board_word(self.load(Word::Srq(srq, SrqWord::Board)), word)
    }

    /// So many words that follow one another; none when they are not all there.
    #[inline(always)]
    fn words(&self, first: Word, count: usize) -> &[AtomicU64] {
        match self.near(object_of(first)) {
            Some(near) => near.words(first, count),
            None => self.words_elsewhere(first, count),
        }
        .unwrap_or(&[])
    }

    /// Words of an object that is not at hand.
    #[cold]
    #[inline(never)]
    fn words_elsewhere(&self, first: Word, count: usize) -> Option<&[AtomicU64]> {
        let layout = self.host.used(object_of(first))?;
        self.host.memory().words(place(&layout, first), count).ok()
    }

    /// The lock of an object at hand, or of one that may have gone away.
    #[inline(always)]
    fn lock_at(&self, object: Object) -> Option<&Lock> {
        match self.near(object).filter(|_| self.mine) {
            Some(near) => Some(near.lock()),
            None => self.lock_elsewhere(object),
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_elsewhere(&self, object: Object) -> Option<&Lock> {
        self.body(object).and_then(|body| self.lock_of(body))
    }

    fn body(&self, object: Object) -> Option<u64> {
        self.near(object).map(|near| near.layout.body).or_else(|| self.host.body(object))
    }

    #[inline]
    fn lock_of(&self, body: u64) -> Option<&Lock> {
        self.mine.then(|| self.host.memory().u64(body + LOCK).ok().map(Lock::at))?
    }

    /// Whether this process still has a lock that it took.
    #[cold]
    fn holds(&self, object: Object) -> bool {
        self.lock_at(object).is_some_and(|lock| lock.owner() == Some(self.host.me.owner()))
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
            if let Some(near) = self.near(object) {
                held.set(object, Some(*near.layout));
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
        let held = self.held.generation(object);
        self.host.layout(object).is_some_and(|now| held.is_none_or(|held| held == now.generation))
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, object: Object, lock: &Lock) -> std::result::Result<Acquired, LockError> {
        let layout = self.used(object, |layout| *layout).ok_or(LockError::Gone)?;
        self.host.take(object, &layout, lock)
    }

    #[inline(always)]
    fn is_as_held(&self, object: Object) -> bool {
        self.is_current(object) || self.is_the_same(object)
    }
}

impl Memory for View<'_> {
    #[inline(always)]
    fn is_stepwise(&self) -> bool {
        false
    }

    #[cold]
    fn fence_everywhere(&self) {
        self.host.fence_everywhere();
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
    fn compare_exchange(&self, word: Word, before: u64, now: u64) -> bool {
        self.word(word).filter(|_| self.mine).is_some_and(|to| exchange(to, before, now))
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

    /// True also for an object that was moved since this view was made; locking it tells so.
    fn exists(&self, object: Object) -> bool {
        self.host.is_there(object, self.near(object).map(|near| near.layout))
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
    #[inline(always)]
    fn lock(&self, object: Object) -> std::result::Result<Locked, LockError> {
        let me = self.host.me.owner();
        let lock = match self.near(object) {
            Some(_) => self.lock_at(object),
            None => self.elsewhere(object).and_then(|layout| self.lock_of(layout.body)),
        };
        let lock = lock.ok_or(LockError::Gone)?;
        let acquired = if lock.try_lock(me) { Acquired::Clean } else { self.wait(object, lock)? };
        // The object cannot go away from now on: its owner needs the lock for that.
        if self.is_as_held(object) { Ok(locked(acquired)) } else { Err(give_back(lock, me, acquired)) }
    }

    /// Also when the object is gone.
    #[inline(always)]
    fn unlock(&self, object: Object) -> bool {
        self.lock_at(object).is_some_and(|lock| lock.unlock(self.host.me.owner()))
    }

    fn abandon(&self, object: Object) {
        if let Some(lock) = self.lock_at(object) {
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
        if let Some(lock) = self.lock_at(object) {
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
