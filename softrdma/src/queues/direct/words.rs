//! Memory of one ring, for tests.

use std::cell::Cell;

use super::ring_words;
use crate::queues::shared::{Memory, Object, Word};

/// The queue pair that has the ring, and its slots.
pub(super) const QP: u32 = 3;
pub(super) const SLOTS: u32 = 8;

/// The words of a ring, all zero at first.
#[derive(Debug)]
pub(super) struct Words(pub(super) Vec<Cell<u64>>);

impl Words {
    pub(super) fn new() -> Self {
        Self((0..ring_words(SLOTS)).map(|_| Cell::new(0)).collect())
    }

    pub(super) fn word(&self, word: Word) -> &Cell<u64> {
        let Word::Direct { qp: QP, word } = word else { panic!("{word:?}") };
        &self.0[word as usize]
    }
}

impl Memory for Words {
    fn load(&self, word: Word) -> u64 {
        self.word(word).get()
    }
    fn store(&self, word: Word, value: u64) {
        self.word(word).set(value);
    }
    fn is_stepwise(&self) -> bool {
        false
    }
    fn exists(&self, _: Object) -> bool {
        true
    }
    fn capacity(&self, _: Object) -> u32 {
        0
    }
    fn receive_words(&self, _: Object) -> u32 {
        0
    }
    fn entry_words(&self, _: u32) -> u32 {
        0
    }
}
