//! Direct rings into a shared receive queue: which of its requests a message gets.
//!
//! The sender takes a request before it writes its message, by one exchange of [`SrqWord::Head`], and the
//! message says which. So a request is one message's whichever way that goes, and what counts requests - the
//! limit, a receiver that is not ready - counts them as ever. Who takes a request behind the queue's lock
//! ([`claim`](super::super::claim)) holds the others up meanwhile.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | [`SrqWord::Head`] | [`Head`] | whoever takes one |
//! | [`DirectWord::Credit`], [`DirectWord::Key`] of the [`Board`] | as those of a ring, for all | the owner |
//! | words behind them | [records](record) of who took a request | whoever takes the next one |
//!
//! **What was taken for nothing.** A sender may die, or find its ring closed, between its exchange and its
//! message. Who closes a ring changes [`SrqWord::Head`] first ([`touch`]): what is exchanged by this ring then
//! fails, since a sender looks at the ring's end after it has read that word. Then it looks who took what: the
//! last one by [`SrqWord::Head`] itself, others by their records. A sender records who took the request before
//! its own, unless that was the same ring, whose message is there since; who takes behind the lock records
//! itself. A record is exchanged, as a sender that was stopped may write an old one.

use super::{DirectWord, HEADER_WORDS, reached};
use crate::queues::shared::{Memory, SrqWord, Word, slot};

/// How often a word is tried to be changed that others change meanwhile.
const TRIES: u32 = if cfg!(loom) { 4 } else { 1000 };
/// Looks at a queue that somebody holds up: some microseconds.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 150 };

/// Who takes a request behind the queue's lock, in place of a ring.
pub const BEHIND_LOCK: u32 = 0;

/// How many requests of a shared receive queue are taken, and how more may be.
///
/// Bits: 63 a holder of the queue's lock holds rings up, 62 the queue is elsewhere now, 61 rings take requests,
/// 60 a limit is armed, 59..46 changes that left the rest as it was, 45..32 who took the last one, 31..0 how
/// many. Without bit 61 all others are 0 or say nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head(pub u64);

impl Head {
    const HELD: u64 = 1 << 63;
    const MOVED: u64 = 1 << 62;
    const OPEN: u64 = 1 << 61;
    const LIMIT: u64 = 1 << 60;
    const FLAGS: u64 = Self::HELD | Self::MOVED | Self::OPEN | Self::LIMIT;
    const CHANGE: u64 = 1 << 46;
    const CHANGES: u64 = (1 << 60) - Self::CHANGE;
    const BY: u64 = Self::CHANGE - (1 << 32);

    /// Requests taken.
    #[must_use]
    #[inline(always)]
    pub fn count(self) -> u32 {
        self.0 as u32
    }

    /// The ring whose sender took the last one, or [`BEHIND_LOCK`].
    #[must_use]
    #[inline(always)]
    pub fn by(self) -> u32 {
        ((self.0 & Self::BY) >> 32) as u32
    }

    /// Whether rings take requests here, unless something holds them up.
    #[must_use]
    pub fn is_open(self) -> bool {
        self.0 & (Self::OPEN | Self::MOVED) == Self::OPEN
    }

    /// From now on rings take requests, where so many are taken. `changes` is another number than in a queue
    /// that was in the same place.
    #[must_use]
    pub fn open(count: u32, changes: u32, limit: bool) -> Self {
        let limit = if limit { Self::LIMIT } else { 0 };
        Self(Self::OPEN | limit | (u64::from(changes) << 46 & Self::CHANGES) | u64::from(count))
    }

    /// From now on they do not.
    #[must_use]
    pub fn shut(self) -> Self {
        Self(self.0 & u64::from(u32::MAX))
    }

    /// What the old place says of a queue that has another.
    #[must_use]
    pub const fn moved() -> u64 {
        Self::MOVED
    }

    #[inline(always)]
    fn taken(self, by: u32) -> Self {
        let count = u64::from(self.count().wrapping_add(1));
        Self(self.0 & (Self::FLAGS | Self::CHANGES) | u64::from(by) << 32 | count)
    }

    fn changed(self) -> Self {
        Self(self.0 & !Self::CHANGES | self.0.wrapping_add(Self::CHANGE) & Self::CHANGES)
    }
}

/// Where the words of the owner and the records are: an offset in the segment in bytes, a multiple of 64, and
/// how many records, a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Board {
    /// The offset.
    pub at: u64,
    /// The records: as many as the queue's ring has entries.
    pub slots: u32,
}

impl Board {
    /// The word for it.
    #[must_use]
    pub fn pack(self) -> u64 {
        self.at >> 6 | u64::from(self.slots.trailing_zeros() + 1) << 58
    }

    /// What stands in the word, if that can be.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        let bits = (word >> 58) as u32;
        let at = (word & ((1 << 58) - 1)) << 6;
        (1..=31).contains(&bits).then(|| Self { at, slots: 1 << (bits - 1) })
    }
}

/// Words of a board with so many records.
#[must_use]
pub const fn board_words(slots: u32) -> u32 {
    HEADER_WORDS + slots
}

#[inline(always)]
fn at(srq: u32, word: DirectWord) -> Word {
    Word::Shared { srq, word: word as u32 }
}

fn record_at(srq: u32, slots: u32, count: u32) -> Word {
    Word::Shared { srq, word: HEADER_WORDS + slot(count, slots) }
}

/// A record: bit 63, who took a request, and which.
fn packed(count: u32, by: u32) -> u64 {
    1 << 63 | u64::from(by) << 32 | u64::from(count)
}

/// Records who took a request, unless that or a later one is recorded in its place.
#[inline(never)]
fn record(memory: &impl Memory, srq: u32, slots: u32, count: u32, by: u32) {
    let word = record_at(srq, slots, count);
    for _ in 0..TRIES {
        let before = memory.load(word);
        let is_there = before >> 63 == 1 && reached(before as u32, count);
        if is_there || memory.compare_exchange(word, before, packed(count, by)) {
            return;
        }
    }
}

/// Who took a request, where `head` was read before: `None` where that is not recorded, as another message of
/// the same ring was behind it.
#[must_use]
pub fn taker(memory: &impl Memory, srq: u32, slots: u32, head: Head, count: u32) -> Option<u32> {
    if head.count() == count.wrapping_add(1) {
        return Some(head.by());
    }
    let record = memory.load(record_at(srq, slots, count));
    (record >> 63 == 1 && record as u32 == count).then_some((record >> 32) as u32 & 0x3fff)
}

/// Which of these requests the sender of this queue pair's closed ring took, and sent nothing for, as `is_sent`
/// says; at most one. `head` is what the queue was [touched](touch) to.
pub fn unsent(
    memory: &impl Memory,
    srq: u32,
    slots: u32,
    head: Head,
    mut counts: impl Iterator<Item = u32>,
    qp: u32,
    is_sent: impl Fn(u32) -> bool,
) -> Option<u32> {
    let me = signature(qp);
    counts.find(|count| taker(memory, srq, slots, head, *count) == Some(me) && !is_sent(*count))
}

/// Changes the head of a queue whose rings take requests; as it was and as it is. `None` where they do not.
fn change(memory: &impl Memory, srq: u32, to: impl Fn(Head) -> Head) -> Option<(Head, Head)> {
    let word = Word::Srq(srq, SrqWord::Head);
    for _ in 0..TRIES {
        let before = Head(memory.load(word));
        if !before.is_open() {
            return None;
        }
        let now = to(before);
        if now == before || memory.compare_exchange(word, before.0, now.0) {
            return Some((before, now));
        }
    }
    None
}

/// Holds rings up, behind the queue's lock.
pub fn hold(memory: &impl Memory, srq: u32) {
    let _ = change(memory, srq, |head| Head(head.0 | Head::HELD));
}

/// Lets rings go on, where no limit is armed. Behind the queue's lock, or when it was taken over from who had
/// held them up.
pub fn release(memory: &impl Memory, srq: u32) {
    let limit = memory.load(Word::Srq(srq, SrqWord::Limit)) != 0;
    let flag = if limit { Head::LIMIT } else { 0 };
    let _ = change(memory, srq, |head| Head(head.0 & !(Head::HELD | Head::LIMIT) | flag));
}

/// No more requests are taken by rings; the head as it was. `None` where they did not take any. Who has the
/// queue's lock goes on.
pub fn shut(memory: &impl Memory, srq: u32) -> Option<Head> {
    change(memory, srq, Head::shut).map(|(before, _)| before)
}

/// Whatever a sender is about to take by what it read before, it does not get; the head as it is from then on.
pub fn touch(memory: &impl Memory, srq: u32) -> Head {
    let now = change(memory, srq, Head::changed).map(|(_, now)| now);
    now.unwrap_or_else(|| Head(memory.load(Word::Srq(srq, SrqWord::Head))))
}

/// A request with this count was taken behind the queue's lock, with rings [held up](hold): records who took
/// it, and the one before.
pub(in crate::queues) fn record_taken(memory: &impl Memory, srq: u32, count: u32) {
    let head = Head(memory.load(Word::Srq(srq, SrqWord::Head)));
    let Some(board) = Board::unpack(memory.load(Word::Srq(srq, SrqWord::Board))) else { return };
    if !head.is_open() {
        return;
    }
    if head.count() == count && head.by() != BEHIND_LOCK {
        record(memory, srq, board.slots, count.wrapping_sub(1), head.by());
    }
    record(memory, srq, board.slots, count, BEHIND_LOCK);
}

/// Moves the head behind the request with this count, which was taken behind the queue's lock. Doing it again
/// changes nothing.
pub(in crate::queues) fn take_behind_lock(memory: &impl Memory, srq: u32, count: u32) {
    let word = Word::Srq(srq, SrqWord::Head);
    for _ in 0..TRIES {
        let head = Head(memory.load(word));
        if !head.is_open() {
            if head.0 & Head::MOVED == 0 {
                memory.store(word, u64::from(count.wrapping_add(1)));
            }
            return;
        }
        let is_to_move = head.count() == count;
        if !is_to_move || memory.compare_exchange(word, head.0, head.taken(BEHIND_LOCK).0) {
            return;
        }
    }
}

/// What a sender knows of the shared receive queue of its target. `memory` has the words of that queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taker {
    srq: u32,
    /// The ring: what it signs with.
    me: u32,
    slots: u32,
    /// [`DirectWord::Credit`] and [`DirectWord::Key`], as far as was seen when it mattered.
    credit: u64,
    key: u32,
}

impl Taker {
    /// That of the ring of the queue pair with this index, into a queue with so many records.
    #[must_use]
    pub fn new(memory: &impl Memory, srq: u32, qp: u32, slots: u32) -> Self {
        let count = memory.load(Word::Srq(srq, SrqWord::Head)) as u32;
        Self { srq, me: signature(qp), slots, credit: count.into(), key: 0 }
    }

    /// Whether there is a request for so many bytes: the key of its memory.
    #[inline(always)]
    pub fn key_for(&mut self, memory: &impl Memory, bytes: u32) -> Option<u32> {
        let count = memory.load(Word::Srq(self.srq, SrqWord::Head)) as u32;
        if !self.is_promised(count, bytes) {
            self.credit = memory.load(at(self.srq, DirectWord::Credit));
            self.key = memory.load(at(self.srq, DirectWord::Key)) as u32;
            if !self.is_promised(count, bytes) {
                return None;
            }
        }
        Some(self.key)
    }

    #[inline(always)]
    fn is_promised(&self, count: u32, bytes: u32) -> bool {
        let (tail, least) = (self.credit as u32, (self.credit >> 32) as u32);
        !reached(count, tail) && bytes <= least
    }

    /// Takes a request as [that](Taker::key_for) was found: its count. The message is to follow at once. `None`
    /// where there is none any more, or it is to be taken the other way. `is_open`: the ring is, now. `look`
    /// looks at a request with this count: at the one that was taken, last.
    #[inline(always)]
    pub fn take(
        &self,
        memory: &impl Memory,
        is_open: impl Fn() -> bool,
        mut look: impl FnMut(u32),
    ) -> Option<u32> {
        let word = Word::Srq(self.srq, SrqWord::Head);
        let mut looks = LOOKS;
        loop {
            let head = Head(memory.load(word));
            let count = head.count();
            if head.0 & Head::FLAGS == Head::OPEN {
                // After the head was read: see the module.
                if reached(count, self.credit as u32) || !is_open() {
                    return None;
                }
                if head.by() != self.me && head.by() != BEHIND_LOCK {
                    record(memory, self.srq, self.slots, count.wrapping_sub(1), head.by());
                }
                look(count);
                if memory.compare_exchange(word, head.0, head.taken(self.me).0) {
                    return Some(count);
                }
            } else if head.0 & Head::FLAGS != Head::OPEN | Head::HELD {
                return None;
            } else {
                core::hint::spin_loop();
            }
            looks = looks.checked_sub(1)?;
        }
    }
}

/// What the sender of this queue pair's ring signs with.
#[must_use]
pub fn signature(qp: u32) -> u32 {
    qp + 1
}

#[cfg(all(test, loom))]
mod model;
