//! The bytes of a small message, taken from the sender's memory before its target is held.

use std::sync::atomic::AtomicU64;

use queue_lock::single_threaded;

use crate::queues::completion::MAX_STAGED;
use crate::rules::keys::check_local;
use crate::rules::receive::Sge;
use crate::rules::verbs::SendFlags;

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::wr::{Data, PlainSend, Wr};
use crate::shm::keys::InUse;

/// The sender's bytes, copied.
#[derive(Debug)]
pub struct Gathered<'a> {
    bytes: &'a mut [u8; MAX_STAGED],
    len: usize,
}

impl<'a> Gathered<'a> {
    /// Nothing yet.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a mut [u8; MAX_STAGED]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Takes the sender's bytes, a datagram's header in front; `None` when they are too many, or may not be
    /// there, or a key is gone, or, where nobody has looked yet, is not one of this protection domain's for
    /// these bytes.
    #[inline]
    pub(crate) fn fill(
        mut self,
        endpoint: &Endpoint,
        wr: &Wr<'_>,
        length: u64,
        unchecked: Option<u32>,
    ) -> Option<&'a [u8]> {
        let header = wr.datagram.map_or(&[][..], |datagram| datagram.grh);
        if length > (MAX_STAGED - header.len()) as u64 {
            return None;
        }
        let all = &mut self;
        all.take(header);
        match wr.data {
            Data::Inline(bytes) => all.take(bytes),
            Data::InlineSges(sges) => {
                for sge in sges {
                    all.take_from(sge.addr, sge.length)?;
                }
            }
            Data::Sges(sges) => {
                for sge in sges.iter().filter(|sge| sge.length > 0) {
                    all.take_registered(endpoint, sge, unchecked)?;
                }
            }
        }
        Some(&self.bytes[..self.len])
    }

    /// Takes the bytes of one piece of memory, as [`Gathered::fill`] does where nobody has looked yet, for who
    /// asks for the same key again and again: `key_cache` is what it found the last time.
    #[inline(always)]
    pub(crate) fn fill_again(
        mut self,
        endpoint: &Endpoint,
        key_cache: &mut KeyCache,
        pd: u32,
        sge: &Sge,
    ) -> Option<&'a [u8]> {
        let _in_use = endpoint.keys.enter(sge.lkey)?;
        let entry = key_cache.find(&endpoint.keys, pd, sge.lkey, sge.addr, sge.length, false)?;
        self.take_from(entry.translate(sge.addr), sge.length)?;
        self.bytes.get(..self.len)
    }

    fn take(&mut self, bytes: &[u8]) {
        let end = (self.len + bytes.len()).min(MAX_STAGED);
        let room = &mut self.bytes[self.len..end];
        room.copy_from_slice(&bytes[..room.len()]);
        self.len = end;
    }

    #[inline(always)]
    fn take_registered(&mut self, endpoint: &Endpoint, sge: &Sge, unchecked: Option<u32>) -> Option<()> {
        let (from, _in_use) = registered(endpoint, sge, unchecked)?;
        self.take_from(from, sge.length)
    }

    #[inline]
    fn take_from(&mut self, addr: u64, length: u32) -> Option<()> {
        let length = length as usize;
        let room = self.bytes.get_mut(self.len..)?.get_mut(..length)?;
        // SAFETY: the program named these bytes as what it sends: memory that was there when it was registered
        // and is in use by us, which counts as mapped, or data to be taken when posting. Only bytes are read,
        // by a copy that Rust cannot reason about otherwise.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::with_exposed_provenance::<u8>(addr as usize),
                room.as_mut_ptr(),
                length,
            );
        }
        self.len += length;
        Some(())
    }
}

/// Where a piece of registered memory is that is sent, in use while the second lives; `None` as
/// [`Gathered::fill`].
#[inline(always)]
fn registered<'a>(endpoint: &'a Endpoint, sge: &Sge, unchecked: Option<u32>) -> Option<(u64, InUse<'a>)> {
    let (entry, in_use) = endpoint.keys.hold(sge.lkey)?;
    let pd = unchecked.unwrap_or(entry.key.pd);
    check_local(Some(&entry.key), pd, sge.addr, sge.length, false).ok()?;
    entry.is_in_place().then(|| (entry.translate(sge.addr), in_use))
}

/// Where a piece of own memory is, in use while the second lives; `None` where its key does not allow what is
/// done with it, or it may not be there. Memory that is `inline` needs no key. `write`: if the device writes
/// there, which is the same at each call with one `key_cache`.
#[inline(always)]
pub(crate) fn source<'a>(
    endpoint: &'a Endpoint,
    key_cache: &mut KeyCache,
    pd: u32,
    sge: &Sge,
    inline: bool,
    write: bool,
) -> Option<(u64, Option<InUse<'a>>)> {
    if inline {
        return Some((sge.addr, None));
    }
    let in_use = endpoint.keys.enter(sge.lkey)?;
    let entry = key_cache.find(&endpoint.keys, pd, sge.lkey, sge.addr, sge.length, write)?;
    Some((entry.translate(sge.addr), Some(in_use)))
}

/// What `read` finds in the memory of a send, which is in use meanwhile; `None` as for [`source`].
#[inline(always)]
pub(crate) fn with_source<T>(
    endpoint: &Endpoint,
    key_cache: &mut KeyCache,
    pd: u32,
    send: &PlainSend,
    read: impl FnOnce(u64) -> T,
) -> Option<T> {
    if send.is_inline() {
        return Some(read(send.sge.addr));
    }
    let Sge { addr, length, lkey } = send.sge;
    let keys = &endpoint.keys;
    // While the process has one thread, nobody ends a key meanwhile.
    if single_threaded() {
        return Some(read(key_cache.find(keys, pd, lkey, addr, length, false)?.translate(addr)));
    }
    let _in_use = keys.enter(lkey)?;
    Some(read(key_cache.find(keys, pd, lkey, addr, length, false)?.translate(addr)))
}

/// Eight bytes of a send, taken now; `None` where the key is another than the last time, or not as it was, or
/// not one for these bytes.
#[inline(always)]
pub(crate) fn known_word(
    endpoint: &Endpoint,
    key_cache: &KeyCache,
    flags: SendFlags,
    addr: u64,
    lkey: u32,
) -> Option<u64> {
    let keys = &endpoint.keys;
    if flags.has(SendFlags::INLINE) {
        return Some(gather_word(addr));
    }
    // While the process has one thread, nobody ends a key meanwhile.
    if single_threaded() {
        return Some(gather_word(key_cache.known(keys, lkey, addr, 8)?.translate(addr)));
    }
    let _in_use = keys.enter(lkey)?;
    Some(gather_word(key_cache.known(keys, lkey, addr, 8)?.translate(addr)))
}

#[inline(always)]
fn gather_word(addr: u64) -> u64 {
    let from = std::ptr::with_exposed_provenance::<u64>(addr as usize);
    // SAFETY: as in `Gathered::take_from`: these are the bytes.
    unsafe { from.read_unaligned() }
}

/// Copies so many bytes of the program's, as many as there are words for at most: the first into `words`, whole
/// words at a time. The caller uses the memory, as [`Gathered`] does, or they are data to be taken when
/// posting.
#[inline(always)]
pub(crate) fn gather_words(words: &mut [u64], addr: u64, length: u32) {
    let from = std::ptr::with_exposed_provenance::<u8>(addr as usize);
    if length as usize == size_of_val(words) {
        // SAFETY: as in `Gathered::take_from`; there are as many bytes as the words have.
        unsafe { std::ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast(), size_of_val(words)) };
        return;
    }
    let (whole, rest) = (length as usize / 8, length as usize % 8);
    let mut n = 0;
    while n < whole
        && let Some(word) = words.get_mut(n)
    {
        // SAFETY: as in `Gathered::take_from`; there are `length` bytes, and `whole` words within them.
        *word = unsafe { from.add(8 * n).cast::<u64>().read_unaligned() };
        n += 1;
    }
    if rest > 0
        && let Some(word) = words.get_mut(whole)
    {
        let mut bytes = [0; 8];
        // SAFETY: as above: `rest` bytes follow the whole words.
        unsafe { std::ptr::copy_nonoverlapping(from.add(8 * whole), bytes.as_mut_ptr(), rest) };
        *word = u64::from_ne_bytes(bytes);
    }
}

/// The same of many bytes, at once; whether there are words for them.
#[inline(always)]
pub(crate) fn gather_many(words: &[AtomicU64], addr: u64, length: u32) -> bool {
    gather_at(words, 0, addr, length)
}

/// The bytes of a request of this protection domain in as many pieces as it has, one behind the other; `false`
/// as [`Gathered::fill`] has none.
#[inline(never)]
pub(crate) fn gather_pieces(words: &[AtomicU64], endpoint: &Endpoint, data: Data<'_>, pd: u32) -> bool {
    let mut end = 0;
    let mut take = |addr: u64, length: u32| {
        let is_there = gather_at(words, end, addr, length);
        end = end.saturating_add(length as usize);
        is_there
    };
    match data {
        Data::Inline(bytes) => take(bytes.as_ptr().expose_provenance() as u64, bytes.len() as u32),
        Data::InlineSges(sges) => sges.iter().all(|sge| take(sge.addr, sge.length)),
        Data::Sges(sges) => sges.iter().filter(|sge| sge.length > 0).all(|sge| {
            registered(endpoint, sge, Some(pd)).is_some_and(|(from, _in_use)| take(from, sge.length))
        }),
    }
}

/// Copies so many bytes of the program's as [`gather_words`], behind the first `at` bytes of the words; whether
/// there is room for them.
#[inline(always)]
fn gather_at(words: &[AtomicU64], at: usize, addr: u64, length: u32) -> bool {
    let (length, room) = (length as usize, size_of_val(words));
    if at > room || length > room - at {
        return false;
    }
    // SAFETY: as in `Gathered::take_from`, and there is room behind `at`. The words are in a mapping that is
    // shared with their reader, who looks at them after it was told that they are there: only a hostile process
    // does so meanwhile, or writes there, and bytes are all that it sees and changes.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::with_exposed_provenance::<u8>(addr as usize),
            words.as_ptr().cast::<u8>().cast_mut().add(at),
            length,
        );
    }
    true
}
