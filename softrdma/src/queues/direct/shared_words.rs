//! Memory of one ring that threads of a model share.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

use super::{MIN_SLOTS, ring_words};
use crate::queues::shared::{Memory, Object, Word};

/// The queue pair that has the ring.
pub(super) const QP: u32 = 0;

/// The words of a ring, and its doorbell behind them, all zero at first.
#[derive(Clone)]
pub(super) struct Words(pub(super) Arc<Vec<AtomicU64>>);

impl Words {
    pub(super) fn new() -> Self {
        Self(Arc::new((0..=ring_words(MIN_SLOTS)).map(|_| AtomicU64::new(0)).collect()))
    }

    pub(super) fn doorbell(&self) -> &AtomicU64 {
        &self.0[ring_words(MIN_SLOTS) as usize]
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        let Word::Direct { qp: QP, word } = word else { panic!("{word:?}") };
        &self.0[word as usize]
    }
}

impl Memory for Words {
    fn is_stepwise(&self) -> bool {
        false
    }
    fn load(&self, word: Word) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }
    fn store(&self, word: Word, value: u64) {
        self.word(word).store(value, Ordering::Release);
    }
    fn publish(&self, word: Word, value: u64) {
        self.word(word).swap(value, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn ring_doorbell(&self, _: u32) {
        self.doorbell().fetch_or(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
    fn store_all(&self, first: Word, values: &[u64]) {
        for (value, count) in values.iter().zip(0..) {
            self.word(first.after(count)).store(*value, Ordering::Relaxed);
        }
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
