//! A pool of buffers in the segment of their receiver: payload that is too long for the slots of a direct ring.
//!
//! One process writes there, whichever of its queue pairs sends. A word for each buffer says whose it is:
//!
//! | state | the buffer is |
//! |---|---|
//! | free | that of whoever of the sending process [takes](claim) it first |
//! | waits | its message's |
//! | taken | the owner's, who moves the payload to its receive request |
//! | moving | the sender's, who does that itself, since a younger message is not to be there before |
//! | moved | the owner's, for whom nothing is left to move |
//!
//! The rest of the word is the tag of the message, so that nobody takes one for another. Which side moves a
//! payload is decided by who changes the word first: the owner's slow copy never meets the sender's.

use std::sync::atomic::{AtomicU64, Ordering};

use super::fetch;
use super::objects::{HeldWords, Host};
use super::sync::Word;
use crate::queues::direct::MAX_POOLED;

/// Buffers of a pool.
pub const BUFFERS: u32 = 64;
/// Words of a cache line: from one buffer's state to the next one's.
const LINE_WORDS: usize = 8;
/// Words of a buffer.
const PAYLOAD_WORDS: usize = MAX_POOLED as usize / 8;
/// Words of a pool.
const WORDS: usize = BUFFERS as usize * (LINE_WORDS + PAYLOAD_WORDS);
/// Bytes of a pool.
pub const POOL_BYTES: u64 = 8 * WORDS as u64;

/// Bytes of a payload that are fetched ahead: a processor goes on from there by itself.
const MOST_FETCHED: u32 = 4096;

const FREE: u64 = 0;
const WAITS: u64 = 1;
const TAKEN: u64 = 2;
const MOVING: u64 = 3;
const MOVED: u64 = 4;
/// Bits of the state, below the tag.
const STATE_BITS: u32 = 3;

/// Which message a buffer is of: that of the queue pair with this index whose receive request has this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    /// The index is below 2²⁴.
    #[inline(always)]
    #[must_use]
    pub fn new(qp: u32, number: u32) -> Self {
        Self(u64::from(qp & 0xff_ffff) << 32 | u64::from(number))
    }

    #[inline(always)]
    fn with(self, state: u64) -> u64 {
        self.0 << STATE_BITS | state
    }
}

/// Takes a buffer for a message, for the sender; whether it was free.
#[inline(always)]
pub fn claim(word: &impl Word, tag: Tag) -> bool {
    word.load(Ordering::Relaxed) == FREE && word.exchange_if(FREE, tag.with(WAITS))
}

/// Gives a buffer back whose message nobody was told of, for the sender.
pub fn give_back(word: &impl Word, tag: Tag) {
    word.exchange_if(tag.with(WAITS), FREE);
}

/// Whether a message waits no more, and its owner will move nothing for it either, as the sender sees it.
#[inline(always)]
pub fn is_over(word: &impl Word, tag: Tag) -> bool {
    let now = word.load(Ordering::Acquire);
    now != tag.with(WAITS) && now != tag.with(TAKEN) && now != tag.with(MOVING)
}

/// What the sender finds that is about to move a payload itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It is its sender's to move, until [`end`].
    Mine,
    /// Its owner moves it just now.
    Owners,
    /// It is over.
    Over,
}

/// Begins to move the payload of a message that waits, for the sender.
pub fn begin(word: &impl Word, tag: Tag) -> Begun {
    if word.exchange_if(tag.with(WAITS), tag.with(MOVING)) {
        Begun::Mine
    } else if word.load(Ordering::Acquire) == tag.with(TAKEN) {
        Begun::Owners
    } else {
        Begun::Over
    }
}

/// Ends what [`begin`] began: the payload is moved, or is left to the owner, who finds out what is wrong.
pub fn end(word: &impl Word, tag: Tag, is_moved: bool) {
    // An owner that did not wait for it has the buffer already.
    word.exchange_if(tag.with(MOVING), tag.with(if is_moved { MOVED } else { WAITS }));
}

/// What the owner finds when it is a message's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Its payload is to be moved, and the buffer [freed](free) then.
    Whole,
    /// Its payload is where it belongs, and the buffer is to be freed.
    Moved,
    /// Its sender moves it just now.
    NotYet,
    /// No message has the buffer that the ring says it has.
    Nothing,
}

/// Takes the payload of a message, for the owner. Where the sender moves it just now and is not `awaited`,
/// since it died or the ring is closed, the owner moves it as well.
#[inline(always)]
pub fn take(word: &impl Word, tag: Tag, awaited: impl FnOnce() -> bool) -> Taken {
    if word.exchange_if(tag.with(WAITS), tag.with(TAKEN)) {
        return Taken::Whole;
    }
    take_moved(word, tag, awaited)
}

#[cold]
fn take_moved(word: &impl Word, tag: Tag, awaited: impl FnOnce() -> bool) -> Taken {
    let now = word.load(Ordering::Acquire);
    if now == tag.with(MOVED) {
        Taken::Moved
    } else if now == tag.with(WAITS) {
        // It was left to the owner just now.
        Taken::NotYet
    } else if now != tag.with(MOVING) {
        Taken::Nothing
    } else if !awaited() && word.exchange_if(tag.with(MOVING), tag.with(TAKEN)) {
        Taken::Whole
    } else {
        Taken::NotYet
    }
}

/// Frees a buffer, for the owner that took it.
#[inline(always)]
pub fn free(word: &impl Word) {
    word.store(FREE, Ordering::Release);
}

/// Frees the buffer of a message that nobody takes any more, for the owner.
pub fn forget(word: &impl Word, tag: Tag) {
    if take(word, tag, || false) != Taken::Nothing {
        free(word);
    }
}

/// The words of a pool.
#[derive(Debug)]
pub struct PoolWords(HeldWords);

impl PoolWords {
    /// The pool at this offset of a segment; `None` when it is not all in what is mapped of it.
    pub fn hold(host: &Host, offset: u64) -> Option<Self> {
        host.hold(offset, WORDS).map(Self)
    }

    /// The state of a buffer; `None` where there is none with this index.
    #[inline(always)]
    pub fn state(&self, buffer: u32) -> Option<&AtomicU64> {
        if buffer >= BUFFERS {
            return None;
        }
        self.0.get().get(buffer as usize * LINE_WORDS)
    }

    /// Has the processor fetch the state of a buffer, which changes soon.
    #[inline(always)]
    pub fn fetch_state(&self, buffer: u32) {
        if let Some(word) = self.state(buffer) {
            fetch::to_write(std::ptr::from_ref(word).addr());
        }
    }

    /// The same of so many bytes of its payload, as far as [`MOST_FETCHED`], that are written soon.
    #[inline(always)]
    pub fn fetch_to_write(&self, buffer: u32, bytes: u32) {
        self.each_line(buffer, bytes, fetch::to_write);
    }

    /// The same of a buffer that is taken soon, of so many bytes of payload that are read then.
    #[inline(always)]
    pub fn fetch_to_take(&self, buffer: u32, bytes: u32) {
        self.fetch_state(buffer);
        self.each_line(buffer, bytes, fetch::to_read);
    }

    #[inline(always)]
    fn each_line(&self, buffer: u32, bytes: u32, fetch: impl Fn(usize)) {
        let Some(payload) = self.payload(buffer) else { return };
        let first = payload.as_ptr().addr();
        (0..bytes.min(MOST_FETCHED) as usize).step_by(8 * LINE_WORDS).for_each(|at| fetch(first + at));
    }

    /// The memory of a buffer; `None` where there is none with this index.
    #[inline(always)]
    pub fn payload(&self, buffer: u32) -> Option<&[AtomicU64]> {
        let first = BUFFERS as usize * LINE_WORDS + buffer as usize * PAYLOAD_WORDS;
        self.0.get().get(first..)?.get(..PAYLOAD_WORDS)
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
