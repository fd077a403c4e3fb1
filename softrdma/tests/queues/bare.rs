//! A transport without other processes.

use std::cell::Cell;

use softrdma::queues::shared::{Memory, Object, Word};
use softrdma::queues::transaction::{LockError, Locked};
use softrdma::queues::transport::Transport;
use softrdma_testing::pass_on;
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

    pass_on!(segment: store shape);
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
