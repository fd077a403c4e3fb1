//! The initiator's side of a direct ring into a shared receive queue: messages that take a request there first.

use std::hint::spin_loop;

use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::started::Sent;
use crate::carrier::wr::{PlainSend, Sge};
use crate::queues::direct::shared::{Board, Taker};
use crate::queues::direct::{Message, SHORT, SHORT_WORDS, Sender};
use crate::queues::shared::{Memory, SrqWord, Word};
use crate::rules::verbs::SendFlags;
use crate::shm::objects::{DirectRing, Host, SharedWords};

use super::prepared::Prepared;
use super::writer::{LOOKS, RingWriter};

/// The shared receive queue that a ring leads into.
#[derive(Debug)]
pub(super) struct SharedWriter {
    words: SharedWords,
    taker: Taker,
    /// What the last message went by, for the next.
    pub(super) prepared: Option<Prepared>,
}

impl SharedWriter {
    /// The queue with this index, for the ring of the queue pair with that one. `view` has the words of the queue.
    #[cold]
    pub(super) fn find(host: &Host, view: &impl Memory, srq: u32, qp: u32) -> Option<Self> {
        let board = Board::unpack(view.load(Word::Srq(srq, SrqWord::Board)))?;
        let words = host.hold_shared(srq, board)?;
        let taker = Taker::new(&words, srq, qp, board.slots);
        Some(Self { words, taker, prepared: None })
    }

    /// Whether [`send_shared_prepared`] is worth a try.
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

    /// Takes a request for a message that is to be written at once.
    #[inline(always)]
    fn take(&self, ring: &DirectRing<'_>) -> Option<u32> {
        self.taker.take(&self.words, || ring.is_open())
    }
}

/// As [`send_prepared`](super::send_prepared), which does not take them, into a shared receive queue.
#[inline(never)]
pub(crate) fn send_shared_prepared(
    writer: &mut RingWriter,
    endpoint: &Endpoint,
    pd: u32,
    send: &PlainSend,
) -> Sent {
    let RingWriter { ring, way, key_cache, shared, .. } = writer;
    let (Some(sender), Some(shared)) = (way.known_sender(), shared) else { return Sent::NotTaken };
    let (ring, Sge { addr, length, lkey }) = (DirectRing::of(ring), send.sge);
    let Some(key) = shared.has_room(sender, &ring, length, send.imm) else { return Sent::NotTaken };
    let solicited = send.flags.has(SendFlags::SOLICITED);
    let Some(prepared) = &shared.prepared else { return Sent::NotTaken };
    if !prepared.holds(key) || prepared.is_armed(solicited) {
        return Sent::NotTaken;
    }
    let (mut from, mut in_use) = (addr, None);
    if length > 0 && !send.flags.has(SendFlags::INLINE) {
        in_use = endpoint.keys.enter(lkey);
        let entry = key_cache.find(&endpoint.keys, pd, lkey, addr, length, false);
        let (Some(_), Some(entry)) = (&in_use, entry) else { return Sent::NotTaken };
        from = entry.translate(addr);
    }
    let sent = if length <= SHORT {
        let mut words = [0; SHORT_WORDS];
        bytes::gather_words(&mut words[1..], from, length);
        let request = shared.take(&ring);
        request.map(|request| sender.send_shared_short(&ring, &mut words, length, send.imm, request))
    } else {
        send_long(sender, shared, &ring, send, from)
    };
    drop(in_use);
    match sent {
        None => Sent::NotTaken,
        Some(true) => Sent::Done(prepared.is_armed(solicited)),
        Some(false) => Sent::Unclear,
    }
}

/// A message of several slots, whose bytes are there.
#[inline(never)]
fn send_long(
    sender: &mut Sender,
    shared: &SharedWriter,
    ring: &DirectRing<'_>,
    send: &PlainSend,
    from: u64,
) -> Option<bool> {
    let length = send.sge.length;
    let fill = |words: &mut [u64], at: u32| {
        let room = 8 * words.len() as u32;
        bytes::gather_words(words, from.wrapping_add(at.into()), length.saturating_sub(at).min(room));
        Some(())
    };
    sender.send_shared(ring, send.sge.length, send.imm, fill, || shared.take(ring))
}
