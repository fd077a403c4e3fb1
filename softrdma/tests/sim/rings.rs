//! What happened in direct rings.

use std::cell::RefCell;

/// Counts, each of which must not stay 0.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Messages by a ring, and those that were taken from one.
    pub sent: u64,
    pub received: u64,
    /// Those that were taken out before their turn.
    pub early: u64,
    /// Those that came before a completion of their queue pair by their numbers.
    pub before: u64,
    /// Receivers that slept.
    pub woken: u64,
    /// Senders that found a ring, and those that began anew.
    pub attached: u64,
    pub anew: u64,
    /// Messages sent while the ring was closed, those that came before, and those of which nobody knows.
    pub unclear: u64,
    pub came: u64,
    pub unknown: u64,
    /// Messages that went with the reset of their queue pair.
    pub forgotten: u64,
    /// Rings that served again, resets, and queue pairs that were destroyed.
    pub reused: u64,
    pub reset: u64,
    pub destroyed: u64,
}

impl Counts {
    /// Adds those of a run.
    pub fn add(&mut self, other: &Self) {
        self.all_mut().into_iter().zip(other.clone().all_mut()).for_each(|(sum, more)| *sum += *more);
    }

    /// All of them.
    pub fn all_mut(&mut self) -> [&mut u64; 14] {
        let Self { sent, received, early, before, woken, attached, anew, unclear, .. } = self;
        let Self { came, unknown, forgotten, reused, reset, destroyed, .. } = self;
        [
            sent, received, early, before, woken, attached, anew, unclear, came, unknown, forgotten, reused,
            reset, destroyed,
        ]
    }
}

/// Those of one run.
#[derive(Default)]
pub struct Rings(RefCell<Counts>);

impl Rings {
    pub fn add(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.0.borrow_mut());
    }

    pub fn counts(&self) -> Counts {
        *self.0.borrow()
    }
}
