//! Payload that came in a completion entry, moved to the buffer that it is for when the entry is taken.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::queues::completion::MAX_STAGED;
use crate::rules::keys::check_local;
use crate::shm::copy::Span;
use crate::shm::fetch;
use crate::shm::keys::Entry;

use super::transfer::{write, write_from};
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;

/// Moves a payload that came in a completion entry to the buffer that it is for, by this process's own table of
/// keys. `pd` is the protection domain of the receive request. `None` when there is no such buffer any more, or
/// no memory behind it, or not so many bytes came.
#[inline]
pub fn place(
    endpoint: &Endpoint,
    pd: u32,
    addr: u64,
    lkey: u32,
    payload: &[AtomicU64],
    bytes: usize,
) -> Option<()> {
    let (entry, _in_use) = endpoint.keys.hold(lkey)?;
    check_local(Some(&entry.key), pd, addr, u32::try_from(bytes).ok()?, true).ok()?;
    let payload = payload.get(..bytes.div_ceil(8))?;
    if !entry.is_in_place() {
        return place_anywhere(endpoint, &entry, addr, payload, bytes);
    }
    // SAFETY: as in `write`, and there are so many words.
    unsafe { copy(entry.translate(addr), payload, bytes) };
    Some(())
}

/// As [`place`], for who asks for the same key again and again: `key_cache` is what it found the last time.
#[inline(always)]
pub(crate) fn place_again(
    endpoint: &Endpoint,
    key_cache: &mut KeyCache,
    pd: u32,
    (addr, lkey): (u64, u32),
    payload: &[AtomicU64],
    bytes: usize,
) -> Option<()> {
    let _in_use = endpoint.keys.enter(lkey)?;
    let Some(entry) = key_cache.find(&endpoint.keys, pd, lkey, addr, u32::try_from(bytes).ok()?, true) else {
        return place(endpoint, pd, addr, lkey, payload, bytes);
    };
    let payload = payload.get(..bytes.div_ceil(8))?;
    // SAFETY: as in `write`, and there are so many words.
    unsafe { copy(entry.translate(addr), payload, bytes) };
    Some(())
}

/// As [`place_again`], of a payload in pieces that follow one another, of which all but the last are full.
pub(crate) fn place_pieces<'a>(
    endpoint: &Endpoint,
    key_cache: &mut KeyCache,
    pd: u32,
    (addr, lkey): (u64, u32),
    pieces: impl Iterator<Item = &'a [AtomicU64]>,
    bytes: u32,
) -> Option<()> {
    let _in_use = endpoint.keys.enter(lkey)?;
    let to = key_cache.find(&endpoint.keys, pd, lkey, addr, bytes, true).map(|entry| entry.translate(addr));
    let (mut done, bytes) = (0, bytes as usize);
    for piece in pieces {
        let count = (bytes - done).min(8 * piece.len());
        match to {
            // SAFETY: as in `write`: `bytes` from there on are in place, and `count` of them are left.
            Some(to) => unsafe { copy(to + done as u64, piece, count) },
            None => place(endpoint, pd, addr.wrapping_add(done as u64), lkey, piece, count)?,
        }
        done += count;
    }
    (done == bytes).then_some(())
}

/// As [`place_again`], of many bytes.
pub(crate) fn place_many(
    endpoint: &Endpoint,
    key_cache: &mut KeyCache,
    pd: u32,
    (addr, lkey): (u64, u32),
    payload: &[AtomicU64],
    bytes: u32,
) -> Option<()> {
    let _in_use = endpoint.keys.enter(lkey)?;
    let payload = payload.get(..bytes.div_ceil(8) as usize)?;
    let from = Span { addr: payload.as_ptr().expose_provenance() as u64, len: bytes.into() };
    let known = key_cache.find(&endpoint.keys, pd, lkey, addr, bytes, true);
    let entry = match known {
        Some(entry) => *entry,
        None => {
            let (entry, _) = endpoint.keys.hold(lkey)?;
            check_local(Some(&entry.key), pd, addr, bytes, true).ok()?;
            entry
        }
    };
    // SAFETY: there are so many words.
    unsafe { write_from(endpoint, &entry, addr, from) }.ok()
}

/// Copies so many bytes, as many as there are words for at most, to memory of the program's: registered memory
/// that the device may write, in use by the caller, as [`source`](super::source) finds it.
#[inline(always)]
pub(crate) fn put_words(addr: u64, words: &[u64], length: u32) {
    let length = (length as usize).min(size_of_val(words));
    if let ([a, b, c, d, e, f], 48) = (words, length) {
        let to = std::ptr::with_exposed_provenance_mut::<[u8; 48]>(addr as usize);
        // SAFETY: as below.
        unsafe { to.cast::<[u64; 6]>().write_unaligned([*a, *b, *c, *d, *e, *f]) };
        return;
    }
    let to = std::ptr::with_exposed_provenance_mut::<u8>(addr as usize);
    // SAFETY: as in `write`: so many bytes are there to be written, and as many stand in the words.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), to, length) };
}

/// Bytes of a cache line.
const LINE: u32 = 64;

/// Has the processor fetch memory into its cache that is about to be written. It need not be there: nothing is
/// read, and nothing can fail.
#[inline]
pub(crate) fn fetch_many(addr: u64, bytes: u32) {
    for at in (0..bytes).step_by(LINE as usize) {
        fetch::to_write(addr.wrapping_add(at.into()) as usize);
    }
}

/// Copies so many bytes.
///
/// # Safety
/// There are so many words of payload; the address is that of as many bytes of registered memory, in use by the
/// caller, that the device may write.
#[inline(always)]
unsafe fn copy(to: u64, payload: &[AtomicU64], bytes: usize) {
    let mut to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
    if let (8, [word]) = (bytes, payload) {
        // SAFETY: by what the caller promises.
        unsafe { to.cast::<[u8; 8]>().write(word.load(Ordering::Relaxed).to_ne_bytes()) };
        return;
    }
    let (whole, rest) = payload.split_at((bytes / 8).min(payload.len()));
    for word in whole {
        // SAFETY: `to` is where the next bytes go, of which there are eight, by what the caller promises.
        unsafe {
            to.cast::<[u8; 8]>().write(word.load(Ordering::Relaxed).to_ne_bytes());
            to = to.add(8);
        }
    }
    if let ([word, ..], rest @ 1..) = (rest, bytes % 8) {
        let word = word.load(Ordering::Relaxed).to_ne_bytes();
        // SAFETY: as above; so many bytes are left.
        unsafe { std::ptr::copy_nonoverlapping(word.as_ptr(), to, rest) };
    }
}

/// As [`place`], where the memory may not be there.
#[cold]
fn place_anywhere(
    endpoint: &Endpoint,
    entry: &Entry,
    addr: u64,
    payload: &[AtomicU64],
    bytes: usize,
) -> Option<()> {
    let mut copy = [0; MAX_STAGED];
    for (to, from) in copy.chunks_exact_mut(8).zip(payload) {
        to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
    write(endpoint, entry, addr, copy.get(..bytes)?).ok()
}
