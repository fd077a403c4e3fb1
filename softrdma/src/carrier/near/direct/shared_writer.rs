//! The initiator's side of a direct ring into a shared receive queue: messages that take a request there first.

use std::hint::spin_loop;

use crate::queues::direct::shared::{Board, Taker};
use crate::queues::direct::{Message, Sender};
use crate::queues::shared::{Memory, SrqWord, Word};
use crate::shm::objects::{DirectRing, Host, SharedWords};

use super::LOOKS;
use super::prepared::Prepared;

/// The shared receive queue that a ring leads into.
#[derive(Debug)]
pub(super) struct SharedWriter {
    words: SharedWords,
    taker: Taker,
    /// What the last message went by, for the next.
    pub(super) prepared: Option<Prepared>,
}

impl SharedWriter {
    /// The queue with this index, for the ring of the queue pair with that one. `view` has the words of the
    /// queue.
    #[cold]
    pub(super) fn find(host: &Host, view: &impl Memory, srq: u32, qp: u32) -> Option<Self> {
        let board = Board::unpack(view.load(Word::Srq(srq, SrqWord::Board)))?;
        let words = host.hold_shared(srq, board)?;
        let taker = Taker::new(&words, srq, qp, board.slots);
        Some(Self { words, taker, prepared: None })
    }

    /// Whether [`send_shared_prepared`](super::send_shared_prepared) is worth a try.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// Whether a message has room, and there is a request for it: the key of its memory.
    #[inline(always)]
    pub(super) fn has_room(
        &mut self,
        sender: &mut Sender,
        ring: &DirectRing<'_>,
        bytes: u32,
        imm: Option<u32>,
    ) -> Option<u32> {
        let has_room = Sender::has_place_beside(bytes, imm) && sender.has_slots(ring, bytes);
        // Whether the ring is open is looked at where the request is taken.
        if has_room { self.taker.key_for(&self.words, bytes) } else { None }
    }

    /// The same, after waiting for room in a ring that is full: see
    /// [`await_room`](super::writer).
    pub(super) fn await_room(
        &mut self,
        sender: &mut Sender,
        ring: &DirectRing<'_>,
        (bytes, imm): (u32, Option<u32>),
        in_vain: Option<&mut Option<u32>>,
    ) -> Option<u32> {
        let key = self.has_room(sender, ring, bytes, imm);
        let (None, Some(in_vain)) = (key, in_vain) else { return key };
        let taken = sender.taken();
        if sender.has_slots(ring, bytes) || *in_vain == Some(taken) {
            return None;
        }
        for _ in 0..LOOKS {
            spin_loop();
            if sender.has_slots(ring, bytes) {
                return self.has_room(sender, ring, bytes, imm);
            }
        }
        *in_vain = Some(taken);
        None
    }

    /// Sends a message that [has room](SharedWriter::has_room), as [`Sender::send_shared`] does.
    pub(super) fn send(
        &self,
        sender: &mut Sender,
        ring: &DirectRing<'_>,
        message: &Message<'_>,
    ) -> Option<bool> {
        let Message { bytes, imm } = *message;
        sender.send_shared_bytes(ring, bytes, imm, || self.take(ring))
    }

    /// Takes a request for a message that is to be written at once.
    #[inline(always)]
    pub(super) fn take(&self, ring: &DirectRing<'_>) -> Option<u32> {
        self.taker.take(&self.words, || ring.is_open())
    }
}
