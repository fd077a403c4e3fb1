//! The initiator's side of a direct ring into a shared receive queue: messages that take a request there first.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::queues::direct::shared::{Board, Taker};
use crate::queues::direct::{Message, Sender};
use crate::queues::shared::{Memory, Object, SrqWord, Word, slot};
use crate::rules::receive::Sge;
use crate::shm::objects::{DirectRing, HeldWords, Host, SharedWords};

use super::LOOKS;
use super::pooled::{PoolWriter, Pooled};
use super::prepared::Prepared;

/// The shared receive queue that a ring leads into.
#[derive(Debug)]
pub(super) struct SharedWriter {
    words: SharedWords,
    taker: Taker,
    /// The ring of requests: words of each, entries.
    requests: (HeldWords, usize, u32),
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
        let queue = Object::Srq(srq);
        let (stride, capacity) = (view.receive_words(queue) as usize, view.capacity(queue));
        let requests = host.hold(
            host.offset(Word::Receive { queue, slot: 0, word: 0 })?,
            stride.checked_mul(capacity as usize)?,
        )?;
        Some(Self { words, taker, requests: (requests, stride, capacity), prepared: None })
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

    /// The same, after waiting for room in a ring that is full, as rings of other queue pairs do.
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

    /// Writes a message whose payload `fill` puts into the pool if it can, as [`SharedWriter::send`] one that
    /// stands in the ring; `None` also where there is no room in the pool, or `fill` could not.
    #[inline(never)]
    pub(super) fn send_pooled(
        &self,
        sender: &mut Sender,
        ring: &DirectRing<'_>,
        pool: &mut PoolWriter,
        message: &Pooled,
        fill: impl FnOnce(&[AtomicU64]) -> bool,
    ) -> Option<bool> {
        let (number, Pooled { bytes, imm, .. }) = (sender.number(), *message);
        let buffer = pool.put(number, message, fill)?;
        let mut to = Sge::default();
        // Before it is taken: its place may be another's at any time then.
        let look = |count| to = self.request(count).map_or(Sge::default(), first_piece);
        let sent = sender.send_shared_pooled(ring, buffer, bytes, imm, || {
            self.taker.take(&self.words, || ring.is_open(), look)
        });
        match sent {
            Some(_) => {
                pool.goes_to(to);
                pool.fetch_next(bytes);
            }
            None => pool.untake(number),
        }
        sent
    }

    /// The words of a request.
    #[inline(always)]
    fn request(&self, count: u32) -> Option<&[AtomicU64]> {
        let (requests, words, capacity) = &self.requests;
        requests.get().get(words * slot(count, *capacity) as usize..)?.get(..*words)
    }

    /// Takes a request for a message that is to be written at once.
    #[inline(always)]
    pub(super) fn take(&self, ring: &DirectRing<'_>) -> Option<u32> {
        self.taker.take(&self.words, || ring.is_open(), |_| ())
    }
}

/// The first piece of memory of a request with these words.
#[inline(always)]
fn first_piece(words: &[AtomicU64]) -> Sge {
    let word = |n: usize| words.get(n).map_or(0, |word| word.load(Ordering::Relaxed));
    let length_key = if word(1) > 0 { word(3) } else { 0 };
    Sge { addr: word(2), length: length_key as u32, lkey: (length_key >> 32) as u32 }
}
