//! The word that says whether a ring is open, as its owner and its sender use it: of rings for messages and of
//! those for datagrams alike.

use super::{DirectWord, at};
use crate::queues::shared::Memory;

/// Whether the ring takes messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It does.
    Open,
    /// Not any more, and its owner looks just now how far they go.
    Closing,
    /// Those up to this slot are there, the slot itself not among them.
    At(u32),
}

impl End {
    pub(super) fn pack(self) -> u64 {
        match self {
            Self::Open => 0,
            Self::Closing => 1 << 63,
            Self::At(count) => 3 << 62 | u64::from(count),
        }
    }

    pub(super) fn unpack(word: u64) -> Self {
        match word >> 62 {
            0 => Self::Open,
            3 => Self::At(word as u32),
            _ => Self::Closing,
        }
    }

    /// The word of a ring whose sender needs no fence: its owner has other processors fence wherever it stores
    /// what the sender looks at afterwards, and tells senders so no more before it arms the completion queue.
    pub(super) const OPEN_LIGHT: u64 = 1 << 61;

    /// A bit of the word of an open ring that its owner does not look at with each poll: who wrote a message
    /// rings the [doorbell](super::Doorbell).
    const UNWATCHED: u64 = 1 << 60;

    /// Whether the word says that the ring takes messages.
    #[inline(always)]
    #[must_use]
    pub fn is_open(word: u64) -> bool {
        word >> 62 == 0
    }

    /// That of this queue pair's ring.
    pub(super) fn of(memory: &impl Memory, qp: u32) -> Self {
        Self::unpack(memory.load(at(qp, DirectWord::End)))
    }
}

/// Whether a message that was just stored came before the end of the ring, for certain; `light`: the word of
/// one where that needs no fence. What is looked at afterwards is no older than what its owner saw that did not
/// see the message.
#[inline(always)]
pub(super) fn is_before(memory: &impl Memory, qp: u32, light: u64) -> bool {
    memory.load(at(qp, DirectWord::End)) == light || is_open_behind_fence(memory, qp)
}

#[inline(always)]
fn is_open_behind_fence(memory: &impl Memory, qp: u32) -> bool {
    memory.fence();
    let word = memory.load(at(qp, DirectWord::End));
    word == End::Open.pack() || is_open_where_seldom_watched(memory, qp, word)
}

#[cold]
fn is_open_where_seldom_watched(memory: &impl Memory, qp: u32, word: u64) -> bool {
    let is_open = End::is_open(word);
    if is_open && word & End::UNWATCHED != 0 {
        memory.ring_doorbell(qp);
    }
    is_open
}

/// Whether the ring is not closed.
#[inline(always)]
pub(super) fn is_open(memory: &impl Memory, qp: u32) -> bool {
    End::is_open(memory.load(at(qp, DirectWord::End)))
}

/// Tells the sender of a ring that is open that it needs no fence.
pub(super) fn lighten(memory: &impl Memory, qp: u32) {
    let end = at(qp, DirectWord::End);
    memory.store(end, memory.load(end) | End::OPEN_LIGHT);
}

/// Tells it that it does from now on, unless the ring was closed; whether it has not known that. Other
/// processors are to fence then.
pub(super) fn fence(memory: &impl Memory, qp: u32) -> bool {
    let end = at(qp, DirectWord::End);
    let word = memory.load(end);
    if is_light(word) {
        memory.store(end, word & !End::OPEN_LIGHT);
    }
    is_light(word)
}

/// Tells it to ring the doorbell from now on, unless the ring was closed. What it wrote before, and did not
/// ring for, is seen from now on; where this says so, once other processors have
/// [fenced](Memory::fence_everywhere).
pub(super) fn unwatch(memory: &impl Memory, qp: u32) -> bool {
    let end = at(qp, DirectWord::End);
    let word = memory.load(end);
    if End::is_open(word) {
        memory.publish(end, word | End::UNWATCHED);
    }
    is_light(word)
}

/// Tells it that it need not do so any more.
pub(super) fn watch(memory: &impl Memory, qp: u32) {
    let end = at(qp, DirectWord::End);
    let word = memory.load(end);
    if End::is_open(word) {
        memory.store(end, word & !End::UNWATCHED);
    }
}

fn is_light(word: u64) -> bool {
    End::is_open(word) && word & End::OPEN_LIGHT != 0
}

/// Tells it that the ring takes no more. What it stored before, and was not told so, is seen from now on.
pub(super) fn close(memory: &impl Memory, qp: u32) {
    let end = at(qp, DirectWord::End);
    let word = memory.load(end);
    memory.publish(end, End::Closing.pack());
    if is_light(word) {
        memory.fence_everywhere();
    }
}
