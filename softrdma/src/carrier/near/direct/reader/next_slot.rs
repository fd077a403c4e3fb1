//! Where the next message of a ring is seen: found once for each message, and looked at with each poll.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::carrier::near::mapped::Mapped;
use crate::queues::direct::{Receiver, SLOT_WORDS};
use crate::shm::objects::HeldWords;

type Words = [AtomicU64; SLOT_WORDS as usize];

/// No ring is so short that it has no such slot.
static NOWHERE: Words = [const { AtomicU64::new(0) }; SLOT_WORDS as usize];

/// A slot, and what the lower half of its first word says once a message is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextSlot(Mapped<Words>, u32);

impl NextSlot {
    /// # Safety
    /// The ring is kept as long as the value is used.
    #[inline(always)]
    pub(super) unsafe fn of(ring: &HeldWords, receiver: &Receiver) -> Self {
        let (first, says) = receiver.watched();
        let slot = ring.get().get(first as usize..).and_then(|words| words.first_chunk());
        // SAFETY: the caller's promise.
        Self(unsafe { Mapped::new(slot.unwrap_or(&NOWHERE)) }, says)
    }

    /// Whether there may be a message.
    #[inline(always)]
    pub(super) fn is_written(&self) -> bool {
        self.words()[0].load(Ordering::Relaxed) as u32 == self.1
    }

    #[inline(always)]
    pub(super) fn words(&self) -> &Words {
        self.0.get()
    }
}
