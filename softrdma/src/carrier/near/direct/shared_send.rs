//! Messages into a shared receive queue, sent as the last one was.

use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::started::Sent;
use crate::carrier::wr::PlainSend;
use crate::queues::direct::{MAX_DIRECT, SHORT, Sender, Slot};
use crate::rules::verbs::SendFlags;
use crate::shm::objects::DirectRing;

use super::pooled::Pooled;
use super::shared_writer::SharedWriter;
use super::writer::RingWriter;

/// As [`send_prepared`](super::send_prepared), which does not take them, into a shared receive queue.
#[inline(never)]
pub(crate) fn send_shared_prepared(
    writer: &mut RingWriter,
    endpoint: &Endpoint,
    pd: u32,
    send: &PlainSend,
) -> Sent {
    let RingWriter { ring, way, key_cache, shared, pool, .. } = writer;
    let (Some(sender), Some(shared)) = (way.known_sender(), shared) else { return Sent::NotTaken };
    let (ring, length) = (DirectRing::with(ring), send.sge.length);
    let Some(key) = shared.has_room(sender, &ring, length, send.imm) else { return Sent::NotTaken };
    let solicited = send.flags.has(SendFlags::SOLICITED);
    let Some(prepared) = &shared.prepared else { return Sent::NotTaken };
    if !prepared.holds(key) || prepared.is_armed(send.flags) {
        return Sent::NotTaken;
    }
    let needs_no_key = length == 0 || send.is_inline();
    let source = bytes::source(endpoint, key_cache, pd, &send.sge, needs_no_key, false);
    let Some((from, in_use)) = source else { return Sent::NotTaken };
    let sent = if length > MAX_DIRECT as u32 {
        let Some(pool) = pool else { return Sent::NotTaken };
        let message = Pooled { bytes: length, imm: send.imm, solicited, waits: true };
        shared.send_pooled(sender, &ring, pool, &message, |words| bytes::gather_many(words, from, length))
    } else if length <= SHORT {
        let mut slot = Slot::default();
        bytes::gather_words(&mut slot[2..], from, length);
        let request = shared.take(&ring);
        request.map(|request| sender.send_shared_short(&ring, &mut slot, length, send.imm, request))
    } else {
        send_long(sender, shared, &ring, send, from)
    };
    drop(in_use);
    match sent {
        None => Sent::NotTaken,
        Some(true) => Sent::Done(prepared.is_armed(send.flags)),
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
    sender.send_shared(ring, length, send.imm, fill, || shared.take(ring))
}
