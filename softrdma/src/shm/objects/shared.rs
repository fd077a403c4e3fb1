//! The words that direct rings into a shared receive queue go by.

use std::sync::atomic::AtomicU64;

use super::host::{Host, exchange, get, put};
use super::words::HeldWords;
use crate::queues::direct::shared::{Board, board_words};
use crate::queues::shared::{Memory, Object, SrqWord, Word};

/// The head of a shared receive queue and its [`Board`], found once: whichever queue a word is of, it is of
/// this one. Where it is elsewhere by now, its head says so.
#[derive(Debug, Clone)]
pub struct SharedWords {
    head: HeldWords,
    board: HeldWords,
}

impl Host {
    /// The words of this queue, whose board is there; `None` when they are not all in what is mapped.
    #[must_use]
    pub fn hold_shared(&self, srq: u32, board: Board) -> Option<SharedWords> {
        let head = self.hold(self.offset(Word::Srq(srq, SrqWord::Head))?, 1)?;
        let hold = || self.hold(board.at, board_words(board.slots) as usize);
        let board = hold().or_else(|| {
            self.refresh();
            hold()
        })?;
        Some(SharedWords { head, board })
    }

    /// A word of the board that the word of a queue tells of.
    pub(super) fn board_word(&self, board: u64, word: u32) -> Option<&AtomicU64> {
        let board = Board::unpack(board).filter(|board| word < board_words(board.slots))?;
        let at = board.at.checked_add(8 * u64::from(word))?;
        let find = || self.memory().u64(at).ok();
        find().or_else(|| {
            self.refresh();
            find()
        })
    }

    pub(super) fn shared_word(&self, srq: u32, word: u32) -> Option<&AtomicU64> {
        self.board_word(self.load(Word::Srq(srq, SrqWord::Board)), word)
    }
}

impl SharedWords {
    #[inline(always)]
    fn word(&self, word: Word) -> Option<&AtomicU64> {
        match word {
            Word::Srq(_, SrqWord::Head) => self.head.get().first(),
            // What the owner tells of stands where it does in a ring.
            Word::Shared { word, .. } | Word::Direct { word, .. } => self.board.get().get(word as usize),
            _ => None,
        }
    }
}

impl Memory for SharedWords {
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
