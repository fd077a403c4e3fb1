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
    is_open(memory, qp)
}

/// Whether the ring is not closed.
#[inline(always)]
pub(super) fn is_open(memory: &impl Memory, qp: u32) -> bool {
    End::is_open(memory.load(at(qp, DirectWord::End)))
}

/// Tells the sender of a ring that is open that it needs no fence.
pub(super) fn lighten(memory: &impl Memory, qp: u32) {
    memory.store(at(qp, DirectWord::End), End::OPEN_LIGHT);
}

/// Tells it that it does from now on, unless the ring was closed; whether it has not known that. Other
/// processors are to fence then.
pub(super) fn fence(memory: &impl Memory, qp: u32) -> bool {
    let end = at(qp, DirectWord::End);
    let is_light = memory.load(end) == End::OPEN_LIGHT;
    if is_light {
        memory.store(end, End::Open.pack());
    }
    is_light
}

/// Tells it that the ring takes no more. What it stored before, and was not told so, is seen from now on.
pub(super) fn close(memory: &impl Memory, qp: u32) {
    let end = at(qp, DirectWord::End);
    let is_light = memory.load(end) == End::OPEN_LIGHT;
    memory.publish(end, End::Closing.pack());
    if is_light {
        memory.fence_everywhere();
    }
}
