//! Numbers that follow from a seed.

use std::cell::Cell;

/// See the module.
#[derive(Debug, Default)]
pub struct Random(Cell<u64>);

impl Random {
    /// Those of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let random = Self::default();
        random.set(seed);
        random
    }

    /// Begins anew.
    pub fn set(&self, seed: u64) {
        self.0.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        for _ in 0..4 {
            self.next();
        }
    }

    /// The next number (SplitMix64).
    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// `true` once in so many times.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}
