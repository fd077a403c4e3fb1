//! Direct rings: small messages between two connected queue pairs without a lock.
//!
//! A ring lies in the target's memory. The one queue pair that the target is connected to writes messages
//! there, and the target's owner takes them when it polls: only then a message meets its receive request.
//! As nobody else uses up requests of a connected queue pair, message and request have the same number,
//! counted from the queue pair's first. A message that does not go this way, and uses up a request, goes as
//! all others do ([`respond`](super::respond), [`burst`](super::burst)) with the next number at the head of
//! the queue pair: the sender stores its count there first, behind the lock ([`Way::enter`]). So who polls can
//! put both kinds in order ([`Receiver::turn`], [`Receiver::before`]).
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | [`DirectWord::Writer`] | the process that writes here, 0 when none does | the sender |
//! | [`DirectWord::End`] | [`End`] | the owner |
//! | [`DirectWord::Pool`] | where the [pool](crate::shm::pool) is for longer messages; 0 for none | the owner |
//! | [`DirectWord::Doorbell`] | where the [`Doorbell`] is; 0 for none | the owner |
//! | [`DirectWord::Credit`] | requests posted; bytes that each which waits takes in the high half | the owner |
//! | [`DirectWord::Key`] | the key of the memory of all that wait; 0 for several | the owner |
//! | [`DirectWord::Taken`] | slots taken, now and then | the owner |
//! | slots | below | the sender |
//!
//! Of a ring into a shared receive queue, `Credit` and `Key` are not used, and the count of a message's request
//! stands in place of its immediate data, which are in the last word of its only slot ([`shared`]).
//!
//! Word 0 of a slot: its count in bits 31..0, bytes of the message 47..32, flags from 48 on. Word 1: number
//! of the message, immediate data in the high half. Then payload, which goes on behind word 0 of the slots
//! that follow; or, of a message that is too long for that, the index of the buffer of the pool where it is.
//!
//! A message is there when word 0 of its first slot is, which is stored last. Nothing else is, so a sender
//! that dies leaves nothing to repair: the message is there or not.
//!
//! **The end.** The owner closes a ring behind the queue pair's lock ([`Close`]): it says so, and then looks
//! how far the messages go. The sender stores its message and then looks whether the ring was closed. One
//! sees the other: each has a fence between the two, or the owner has one [for both](End::OPEN_LIGHT). Where
//! the sender sees it, the end that is stored there tells, behind the lock, whether the message came before it
//! ([`Sender::was_delivered`]).
//!
//! **Who polls looks** at the rings by which messages come. At others it does not: it tells their senders so
//! ([`Receiver::unwatch`]) as it tells them of the end, and looks at the ring once more. A sender that finds
//! this where it looks for the end sets its bit in a word that all rings of a completion queue share, the
//! doorbell, after which that ring is looked at with each poll again.
//!
//! **What the owner promises** in [`DirectWord::Credit`] is all that the sender looks at: a request that is
//! posted, and so many bytes in its first piece of memory by the key in [`DirectWord::Key`], which the
//! sender looks up. Whatever that does not promise goes the other way, which finds the errors.
//!
//! | file | what |
//! |---|---|
//! | this | the words of a ring, and the messages that are there |
//! | `sender`, `way` | the sender, and what it knows of how many requests are taken |
//! | `receiver`, `credit` | the owner, and what it promises |
//! | `doorbell` | where a sender says that a message is there, if nobody looks |
//! | [`shared`] | rings whose messages get requests of a shared receive queue |
//! | [`datagram`] | rings of datagrams, which get their requests when they are taken |

mod credit;
pub(crate) mod datagram;
mod doorbell;
mod end;
mod receiver;
mod sender;
pub mod shared;
mod way;

use super::shared::{Memory, Word, slot};

pub use credit::Credit;
pub use doorbell::Doorbell;
pub use end::End;
pub use receiver::{Close, Receiver};
pub use sender::{Message, Send, Sender};
pub use way::Way;

/// Words in front of the slots: a cache line that hardly changes, one that the owner writes with each request,
/// and one that it writes now and then, at which a sender looks all the time that waits for room.
pub const HEADER_WORDS: u32 = 24;
/// Words of a slot: a cache line.
pub const SLOT_WORDS: u32 = 8;
/// Most bytes of a message whose payload is in the ring, in one [that is long enough](most_bytes): as many as
/// travel in a completion entry.
pub const MAX_DIRECT: usize = super::completion::MAX_STAGED;
/// Most bytes of a message whose payload is in a pool: 8 KiB, and a header of up to a cache line. Programs send
/// what is long in pieces of that many bytes, each behind a header.
pub const MAX_POOLED: u32 = 8192 + 64;
/// Fewest slots of a ring, by powers of two.
pub const MIN_SLOTS: u32 = 8;
/// Words of payload in a message's first slot, and in each that follows.
const FIRST: u32 = SLOT_WORDS - 2;
const MORE: u32 = SLOT_WORDS - 1;
/// Most bytes of a message that has one slot.
pub const SHORT: u32 = 8 * FIRST;
/// The words of a slot.
pub type Slot = [u64; SLOT_WORDS as usize];

/// Flags of a slot.
const IMM: u64 = 1 << 48;
/// It goes on with the message of a slot before it.
const MIDST: u64 = 1 << 49;
/// A message begins there.
const START: u64 = 1 << 50;
/// Its payload is in a pool.
const POOLED: u64 = 1 << 51;

/// A word in front of the slots.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DirectWord {
    /// Who writes messages: a process as it signs locks.
    Writer = 0,
    /// [`End`].
    End = 1,
    /// Offset of the pool.
    Pool = 2,
    /// [`Doorbell`].
    Doorbell = 3,
    /// Requests posted, and bytes that each takes.
    Credit = 8,
    /// The key of their memory.
    Key = 9,
    /// Slots taken.
    Taken = 16,
}

/// The slot so far behind the one that is written now, or behind the next one to be read, is fetched into the
/// cache: a line that another processor used last takes as long to come as some messages take. Of messages of
/// several slots, those of the second one behind.
const WRITE_AHEAD: u32 = 4;
const READ_AHEAD: u32 = 2;
const _: () = assert!(WRITE_AHEAD < MIN_SLOTS && READ_AHEAD < MIN_SLOTS);

/// Words of a ring of so many slots.
#[must_use]
pub const fn ring_words(slots: u32) -> u32 {
    HEADER_WORDS + SLOT_WORDS * slots
}

/// Slots of a message of so many bytes, at most [`MAX_DIRECT`]. Comparisons are quicker than a division.
#[inline(always)]
const fn slots_of(bytes: u32) -> u32 {
    const ONE: u32 = SHORT;
    const TWO: u32 = ONE + 8 * MORE;
    const THREE: u32 = TWO + 8 * MORE;
    const { assert!(MAX_DIRECT as u32 <= THREE + 8 * MORE) };
    1 + (bytes > ONE) as u32 + (bytes > TWO) as u32 + (bytes > THREE) as u32
}

/// Most bytes of a message in a ring of so many slots. It takes half of them at most: what is written of one
/// message leaves the one before it whole, from which the next sender learns how many there were
/// ([`Sender::attach`]).
#[must_use]
pub const fn most_bytes(slots: u32) -> u32 {
    let most = 8 * (FIRST + MORE * (slots / 2 - 1));
    if most < MAX_DIRECT as u32 { most } else { MAX_DIRECT as u32 }
}

fn at(qp: u32, word: DirectWord) -> Word {
    Word::Direct { qp, word: word as u32 }
}

/// Word of the slot with this count.
#[inline(always)]
fn slot_word(qp: u32, slots: u32, count: u32, word: u32) -> Word {
    Word::Direct { qp, word: HEADER_WORDS + SLOT_WORDS * slot(count, slots) + word }
}

/// Where a word of payload stands: slots behind the first, and word of that slot.
#[inline(always)]
fn payload_at(word: u32) -> (u32, u32) {
    if word < FIRST { (0, 2 + word) } else { (1 + (word - FIRST) / MORE, 1 + (word - FIRST) % MORE) }
}

/// Whether count `a` is not behind count `b`.
#[inline(always)]
fn reached(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) >= 0
}

/// A message that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its number, and that of its receive request.
    pub number: u32,
    /// Bytes of payload, at most [`MAX_DIRECT`], or [`MAX_POOLED`].
    pub bytes: u32,
    /// The buffer of the pool where its payload is.
    pub pooled: Option<u32>,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Its first slot.
    count: u32,
}

impl Arrived {
    /// Slots that it takes.
    #[inline(always)]
    fn slots(&self) -> u32 {
        if self.pooled.is_some() { 1 } else { slots_of(self.bytes) }
    }
}

/// The messages of a ring from one slot on.
#[derive(Clone, Copy, Debug)]
struct Messages {
    qp: u32,
    slots: u32,
    /// [`most_bytes`] of so many slots.
    most: u32,
    count: u32,
}

impl Messages {
    /// Those from the slot with this count on.
    fn new(qp: u32, slots: u32, count: u32) -> Self {
        Self { qp, slots, most: most_bytes(slots), count }
    }

    /// The next one; `None` also where the slot cannot be true.
    #[inline(always)]
    fn peek(&self, memory: &impl Memory) -> Option<Arrived> {
        let word = |word| memory.load(slot_word(self.qp, self.slots, self.count, word));
        self.read(word(0), word)
    }

    /// The same, where its payload is in the ring, from the first two words of its slot.
    #[inline(always)]
    fn whole(&self, first: u64, second: impl FnOnce() -> u64) -> Option<Arrived> {
        let bytes = (first >> 32) as u32 & 0xffff;
        let is_whole = first as u32 == self.count.wrapping_add(1)
            && first & (START | MIDST | POOLED) == START
            && bytes <= self.most;
        is_whole.then(|| {
            let second = second();
            let imm = (first & IMM != 0).then_some((second >> 32) as u32);
            Arrived { number: second as u32, bytes, pooled: None, imm, count: self.count }
        })
    }

    /// The same, from the first word of the slot and others with their index.
    #[inline(always)]
    fn read(&self, first: u64, other: impl Fn(u32) -> u64) -> Option<Arrived> {
        if first as u32 != self.count.wrapping_add(1) {
            return None;
        }
        let bytes = (first >> 32) as u32 & 0xffff;
        let is_pooled = first & POOLED != 0;
        if first & (START | MIDST) != START || bytes > if is_pooled { MAX_POOLED } else { self.most } {
            return None;
        }
        let second = other(1);
        let imm = (first & IMM != 0).then_some((second >> 32) as u32);
        let pooled = is_pooled.then(|| other(2) as u32);
        Some(Arrived { number: second as u32, bytes, pooled, imm, count: self.count })
    }

    fn next(&mut self, memory: &impl Memory) -> Option<Arrived> {
        let found = self.peek(memory)?;
        self.count = self.count.wrapping_add(found.slots());
        Some(found)
    }
}

/// How many messages were written to a ring of so many slots, from `word`, which reads a word of it; `None` of
/// one without any. For who looks at it from outside: what is written just then may or may not count.
pub(crate) fn written(slots: u32, word: impl Fn(u32) -> u64) -> Option<u32> {
    let starts = (0..slots).filter_map(|slot| {
        let at = HEADER_WORDS + SLOT_WORDS * slot;
        let first = word(at);
        // Counts begin at 1.
        (first & (START | MIDST) == START).then(|| (first as u32, word(at + 1) as u32))
    });
    let newest = starts.reduce(|a, b| if reached(b.0, a.0) { b } else { a });
    newest.map(|(_, number)| number.wrapping_add(1))
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, loom))]
mod shared_words;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, not(loom)))]
mod words;
