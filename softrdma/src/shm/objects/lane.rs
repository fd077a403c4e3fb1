//! One queue pair with its completion queue and its shared receive queue, for small messages: whichever of them
//! a word is of, it is of that one.

use std::sync::atomic::{AtomicU64, Ordering};

use super::host::{exchange, get, put};
use super::layout::object_of;
use super::view::{Near, View};
use crate::queues::shared::{Fence, Memory, Object, Word};
use crate::queues::transaction::{LockError, Locked};
use crate::queues::transport::Transport;

/// A [`View`] of the objects that were found to be at hand, so that their words need not be looked for.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    view: &'a View<'a>,
    qp: Near<'a>,
    srq: Option<Near<'a>>,
    cq: Near<'a>,
}

impl<'a> Lane<'a> {
    /// Without a shared receive queue. `None` when one of them is not at hand, and in a forked child.
    #[inline(always)]
    pub fn new(view: &'a View<'a>, qp: u32, cq: u32) -> Option<Self> {
        let (qp, cq) = (view.near(Object::Qp(qp))?, view.near(Object::Cq(cq))?);
        view.is_mine().then_some(Lane { view, qp, srq: None, cq })
    }

    /// With one. `None` as above.
    #[inline(always)]
    pub fn shared(view: &'a View<'a>, qp: u32, srq: u32, cq: u32) -> Option<Self> {
        let srq = view.near(Object::Srq(srq))?;
        Some(Lane { srq: Some(srq), ..Lane::new(view, qp, cq)? })
    }

    /// A completion queue alone, where no word of a queue pair is needed. `None` as above.
    #[inline(always)]
    pub fn alone(view: &'a View<'a>, cq: u32) -> Option<Self> {
        let cq = view.near(Object::Cq(cq))?;
        view.is_mine().then_some(Lane { view, qp: cq, srq: None, cq })
    }

    /// As [`View::is_current`].
    #[inline(always)]
    #[must_use]
    pub fn is_current(&self, object: Object) -> bool {
        self.near(object).is_current()
    }

    /// Takes the completion queue's lock when nobody has it; whether it was had.
    #[must_use]
    pub fn try_lock_cq(&self) -> bool {
        let lock = self.cq.lock();
        let is_had = lock.try_lock(self.view.me());
        if is_had && !self.cq.is_current() {
            lock.unlock(self.view.me());
            return false;
        }
        is_had
    }

    #[inline(always)]
    fn near(&self, object: Object) -> &Near<'a> {
        match object {
            Object::Cq(_) => &self.cq,
            Object::Qp(_) => &self.qp,
            // Where there is none it has no business here: its words are not there.
            Object::Srq(_) => self.srq.as_ref().unwrap_or(&self.qp),
        }
    }

    #[inline(always)]
    fn word(&self, word: Word) -> Option<&'a AtomicU64> {
        if let Word::Shared { srq, word } = word {
            return self.view.shared_word(srq, word);
        }
        debug_assert!(
            self.srq.is_some() || !matches!(object_of(word), Object::Srq(_)),
            "a word of another object"
        );
        self.near(object_of(word)).word(word)
    }
}

impl Memory for Lane<'_> {
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
        if let Some(to) = self.word(word) {
            put(to, word, value);
        }
    }

    #[inline(always)]
    fn compare_exchange(&self, word: Word, before: u64, now: u64) -> bool {
        self.word(word).is_some_and(|to| exchange(to, before, now))
    }

    #[inline(always)]
    fn load_all(&self, first: Word, values: &mut [u64]) {
        let words = self.near(object_of(first)).words(first, values.len()).unwrap_or(&[]);
        for (value, count) in values.iter_mut().zip(0..) {
            *value = words.get(count).map_or(0, get);
        }
    }

    #[inline(always)]
    fn store_all(&self, first: Word, values: &[u64]) {
        let words = self.near(object_of(first)).words(first, values.len()).unwrap_or(&[]);
        for (word, value) in words.iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    fn exists(&self, object: Object) -> bool {
        self.view.exists(object)
    }

    #[inline(always)]
    fn capacity(&self, object: Object) -> u32 {
        self.near(object).layout.shape.capacity
    }

    #[inline(always)]
    fn receive_words(&self, queue: Object) -> u32 {
        self.near(queue).layout.shape.receive_words
    }

    #[inline(always)]
    fn entry_words(&self, _cq: u32) -> u32 {
        self.cq.layout.shape.receive_words
    }
}

impl Transport for Lane<'_> {
    #[inline(always)]
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        let near = self.near(object);
        if !near.lock().try_lock(self.view.me()) {
            return self.view.lock_of_other(object);
        }
        // The object cannot go away from now on: its owner needs the lock for that.
        if near.is_current() { Ok(Locked::Clean) } else { self.view.as_held(object, near.lock()) }
    }

    #[inline(always)]
    fn unlock(&self, object: Object) -> bool {
        self.near(object).lock().unlock(self.view.me())
    }

    fn abandon(&self, object: Object) {
        self.view.abandon(object);
    }

    fn repair(&self, object: Object) -> Result<(), LockError> {
        self.view.repair(object)
    }

    fn resolve(&self, qp: u32, object: Object) -> Result<Option<Fence>, LockError> {
        self.view.resolve(qp, object)
    }

    fn bell(&self, cq: u32) -> bool {
        self.view.bell(cq)
    }

    fn alert(&self, object: Object) {
        self.view.alert(object);
    }
}
