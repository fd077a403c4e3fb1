//! Messages of a connection, sent as the last one was: by what that went by, while all of it is as it was.

use crate::carrier::initiator::Initiator;
use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::started::Sent;
use crate::carrier::wr::PlainSend;
use crate::queues::direct::{MAX_DIRECT, SHORT, Sender, Slot};
use crate::rules::verbs::SendFlags;
use crate::shm::objects::DirectRing;

use super::pooled::Pooled;
use super::writer::{RingWriter, write_pooled};

/// Sends eight bytes without immediate data by the direct ring, if all that the last message went by is as it
/// was. There [is room](RingWriter::has_quick_room).
#[inline(always)]
pub(crate) fn send_word(
    writer: &mut RingWriter,
    endpoint: &Endpoint,
    flags: SendFlags,
    addr: u64,
    lkey: u32,
) -> Sent {
    let RingWriter { ring, way, key_cache, prepared, .. } = writer;
    let (sender, Some(prepared)) = (way.quick_sender(), prepared) else { return Sent::NotTaken };
    if !prepared.is_unchanged() || prepared.sleeps(flags) {
        return Sent::NotTaken;
    }
    let Some(word) = bytes::known_word(endpoint, key_cache, flags, addr, lkey) else { return Sent::NotTaken };
    if !sender.send_word(&DirectRing::with(ring), word) {
        return Sent::Unclear;
    }
    prepared.is_sent(flags)
}

/// Looks for room for messages of one slot, this one and those that follow, to whose key the last one went;
/// whether there is some.
#[inline(never)]
pub(crate) fn find_room(writer: &mut RingWriter, bytes: u32) -> bool {
    let RingWriter { ring, way, prepared, .. } = writer;
    let (Some(prepared), Some(sender)) = (prepared, way.known_sender()) else { return false };
    let key = sender.look_for_room(&DirectRing::with(ring), bytes);
    let is_prepared = key == Some(prepared.key());
    if !is_prepared {
        sender.forget_room();
    }
    is_prepared
}

/// As [`send_word`], any message.
#[inline(never)]
pub(crate) fn send_prepared(
    writer: &mut RingWriter,
    endpoint: &Endpoint,
    from: &Initiator,
    send: &PlainSend,
) -> Sent {
    let (length, pd) = (send.sge.length, from.pd);
    if length > SHORT {
        return send_prepared_long(writer, endpoint, pd, send);
    }
    if !writer.way.has_quick_room(length) && !find_room(writer, length) {
        return Sent::NotTaken;
    }
    let RingWriter { ring, way, key_cache, prepared, .. } = writer;
    let (sender, Some(prepared)) = (way.quick_sender(), prepared) else { return Sent::NotTaken };
    if !prepared.is_unchanged() || prepared.sleeps(send.flags) {
        return Sent::NotTaken;
    }
    let mut slot = Slot::default();
    if length > 0 {
        let fill = |from| bytes::gather_words(&mut slot[2..], from, length);
        if bytes::with_source(endpoint, key_cache, pd, send, fill).is_none() {
            return Sent::NotTaken;
        }
    }
    if !sender.send_short(&DirectRing::with(ring), &mut slot, length, send.imm) {
        return Sent::Unclear;
    }
    prepared.is_sent(send.flags)
}

/// The same of one that does not stand in one slot.
#[inline(never)]
fn send_prepared_long(writer: &mut RingWriter, endpoint: &Endpoint, pd: u32, send: &PlainSend) -> Sent {
    let RingWriter { ring, way, key_cache, prepared, pool, .. } = writer;
    let (Some(prepared), Some(sender)) = (prepared, way.known_sender()) else { return Sent::NotTaken };
    let (ring, length) = (DirectRing::with(ring), send.sge.length);
    let Some(key) = sender.has_room(&ring, length) else { return Sent::NotTaken };
    let solicited = send.flags.has(SendFlags::SOLICITED);
    if !prepared.holds(key) || prepared.sleeps(send.flags) {
        return Sent::NotTaken;
    }
    let is_there = match pool {
        Some(pool) if length > MAX_DIRECT as u32 => {
            let source = bytes::source(endpoint, key_cache, pd, &send.sge, send.is_inline(), false);
            let Some((from, _in_use)) = source else { return Sent::NotTaken };
            let message = Pooled { bytes: length, imm: send.imm, solicited, waits: true };
            write_pooled(sender, &ring, pool, &message, |words| bytes::gather_many(words, from, length))
        }
        _ => write_long(sender, &ring, key_cache, endpoint, pd, send),
    };
    match is_there {
        Some(true) => Sent::Done(prepared.is_armed(send.flags)),
        Some(false) => Sent::Unclear,
        None => Sent::NotTaken,
    }
}

/// Writes a message of several slots, for which there is room; whether it is there for certain. `None` where
/// its memory may not be sent, or may not be there.
#[inline(never)]
fn write_long(
    sender: &mut Sender,
    ring: &DirectRing<'_>,
    key_cache: &mut KeyCache,
    endpoint: &Endpoint,
    pd: u32,
    send: &PlainSend,
) -> Option<bool> {
    let length = send.sge.length;
    let (from, _in_use) = bytes::source(endpoint, key_cache, pd, &send.sge, send.is_inline(), false)?;
    Some(sender.send_long(ring, length, send.imm, |words, at| {
        let room = 8 * words.len() as u32;
        bytes::gather_words(words, from.wrapping_add(at.into()), length.saturating_sub(at).min(room));
    }))
}
