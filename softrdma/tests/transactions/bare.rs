//! A transport without other processes.

use std::cell::Cell;

use softrdma::core::shared::{Memory, Object, Word};
use softrdma::core::transport::{LockError, Locked, Transport};
use softrdma_testing::segment::Segment;

/// A segment whose locks are always free; every other one was somebody's who died.
pub struct Bare {
    pub segment: Segment,
    pub steps: Cell<u32>,
    pub recovered: Cell<bool>,
}

impl Memory for Bare {
    fn load(&self, word: Word) -> u64 {
        self.steps.set(self.steps.get() + 1);
        assert!(self.steps.get() < 100_000, "a transaction does not end");
        self.segment.load(word)
    }

    fn store(&self, word: Word, value: u64) {
        self.segment.store(word, value);
    }

    fn exists(&self, object: Object) -> bool {
        self.segment.exists(object)
    }

    fn capacity(&self, object: Object) -> u32 {
        self.segment.capacity(object)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.segment.receive_words(queue)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.segment.entry_words(cq)
    }
}

impl Transport for Bare {
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        assert!(self.exists(object));
        Ok(if self.recovered.replace(!self.recovered.get()) { Locked::Recovered } else { Locked::Clean })
    }

    fn unlock(&self, _: Object) -> bool {
        true
    }

    fn abandon(&self, _: Object) {}

    fn bell(&self, _: u32) -> bool {
        true
    }

    fn alert(&self, _: Object) {}
}
