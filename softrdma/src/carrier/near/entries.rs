//! The entries of an own completion queue, as its owner reads them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::queues::shared::{held, slot};
use crate::rules::completion::Completion;
use crate::rules::verbs::{Status, WcFlags};
use crate::shm::objects::HeldWords;

/// The entries of a queue, found once.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) ring: HeldWords,
    /// Words of an entry.
    pub(crate) words: usize,
    pub(crate) capacity: u32,
    /// Entries written so far, as others say.
    pub(crate) tail: HeldWords,
}

impl Entries {
    /// The first word of the entry with this count, which says whether it is there.
    #[inline(always)]
    pub(crate) fn word(&self, count: u32) -> Option<&AtomicU64> {
        self.ring.get().get(self.words * slot(count, self.capacity) as usize)
    }

    /// What that word says.
    #[inline(always)]
    pub(crate) fn first(&self, count: u32) -> u64 {
        self.word(count).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The words of the entry with this count.
    #[inline(always)]
    pub(crate) fn at(&self, count: u32) -> Option<&[AtomicU64]> {
        let first = self.words * slot(count, self.capacity) as usize;
        self.ring.get().get(first..)?.get(..self.words)
    }

    /// Entries that wait behind so many that were taken; `None` when the count cannot be true.
    pub(crate) fn waiting(&self, head: u32) -> Option<u32> {
        let tail = self.tail.get().first().map_or(0, |tail| tail.load(Ordering::Acquire));
        held(u64::from(head), tail, self.capacity)
    }
}

/// The completion of a payload whose buffer is not there any more.
pub(crate) fn not_placed(completion: &Completion) -> Completion {
    Completion { status: Status::LocProtErr, byte_len: 0, flags: WcFlags::NONE, ..*completion }
}
