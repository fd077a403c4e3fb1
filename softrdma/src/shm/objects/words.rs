//! Words of a segment that are found once.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::host::{Host, HostSegment};

/// Words that follow one another in a segment: their bounds were checked against the mapping when they were
/// found, and are not looked at again. What they say is anybody's all the same.
#[derive(Debug, Clone)]
pub struct HeldWords {
    /// Keeps the mapping that the words are in.
    _of: HostSegment,
    words: NonNull<[AtomicU64]>,
}

// SAFETY: the words are in a mapping that belongs to the process, not to a thread; all access goes through
// atomics.
unsafe impl Send for HeldWords {}
// SAFETY: as above.
unsafe impl Sync for HeldWords {}

impl HeldWords {
    /// The words.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &[AtomicU64] {
        // SAFETY: `Host::hold` found the words in the mapping of `_of`, which is there as long as `self`, and
        // never becomes shorter.
        unsafe { self.words.as_ref() }
    }
}

/// A word of a segment that is found once, as [`HeldWords`].
#[derive(Debug, Clone)]
pub struct HeldWord {
    _of: HostSegment,
    word: NonNull<AtomicU64>,
}

// SAFETY: as `HeldWords`.
unsafe impl Send for HeldWord {}
// SAFETY: as above.
unsafe impl Sync for HeldWord {}

impl HeldWord {
    /// The word.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> &AtomicU64 {
        // SAFETY: as for `HeldWords::get`.
        unsafe { self.word.as_ref() }
    }
}

impl Host {
    /// The word at this offset of the segment, a multiple of 8; `None` when it is not in what is mapped of it.
    #[must_use]
    pub fn hold_word(&self, offset: u64) -> Option<HeldWord> {
        let of = self.target().clone();
        let word = of.memory().words(offset, 1).ok()?.first()?.into();
        Some(HeldWord { _of: of, word })
    }

    /// So many words from this offset of the segment on, a multiple of 8; `None` when they are not all in what
    /// is mapped of it.
    #[must_use]
    pub fn hold(&self, offset: u64, count: usize) -> Option<HeldWords> {
        let of = self.target().clone();
        let words = of.memory().words(offset, count).ok()?.into();
        Some(HeldWords { _of: of, words })
    }
}
