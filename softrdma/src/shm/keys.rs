//! The memory keys of a process, in its segment: any process that may map the segment can look one up.
//!
//! A key is 24 bits of index and 8 bits that change with each use of the index, so that a key kept too long
//! does not open what came after (IBA §10.6.3.1). Index 0 is never used, so 0 is no key. Where other hosts may
//! name keys all of this is random: the chunk, the index in it, and the 8 bits ([`Numbering`]). The table is a
//! directory of chunks of entries of one cache line:
//!
//! | word | meaning |
//! |---|---|
//! | 0 | sequence number, odd while the entry changes; the 8 bits, kind and validity in the high half |
//! | 1 | protection domain; queue pair of a window of type 2 in the high half |
//! | 2 | first address as users of the key name it |
//! | 3 | length in bytes |
//! | 4 | access rights |
//! | 5 | address in the owner's memory of the first byte |
//! | 6 | bit 32 and a sequence number: a peer invalidated the entry of that number ([`Table::invalidate`]) |
//! | 7 | in the private copy: threads of the owner that use the memory ([`InUse`]) |
//!
//! Only the owner is to write the words but for the last one, and every process that may open the segment can.
//! So the entries are there three times in the same form: in the segment, for peers whose copies the owner
//! carries out and checks; in the owner's sealed memory, for peers that copy directly ([`Table`]); and in
//! private memory, which is what the owner itself uses ([`Keys::local`]). A reader copies the entry between two
//! looks at the sequence number; when the owner died in between, the number stays odd and the reader gives up
//! with [`Lookup::Torn`] after a bounded time: a dead process's memory is gone anyway.
//!
//! Looking up is not enough to use the memory: the owner may deregister it meanwhile. A [`Pin`] says in the
//! owner's segment which key is in use, and [`Keys::remove`] waits for the pins of other living processes. The
//! pin is set before the entry is read and the entry is made invalid before the pins are read, so one side
//! always sees the other. The owner's own threads count themselves in the private copy ([`Keys::hold`]), and
//! are waited for in the same way: a pin with the owner's name is a forgery.
//!
//! A pin may be one that nobody takes back: its process was stopped, or another one wrote it. The owner does
//! not wait longer than [`PATIENCE_WITH_PEERS`] for it. It moves its identity page then ([`Keys::revoke`]), so
//! that the kernel refuses what was looked up before.

mod owner;
mod pin;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::rules::keys::{Key, Kind};
use crate::rules::verbs::Access;

use super::lock::{Liveness, Owner};
use super::memory::Memory;
#[cfg(doc)]
use super::numbering::Numbering;
use super::sealed;
use super::segment::{Peer, Segment};
use super::sync::Word;

use pin::{announce, pin_place, take_pin};

pub use owner::Keys;
pub(crate) use pin::PinPlace;
pub use pin::{InUse, Pin};

/// Root offset of the table in the segment's header.
pub const ROOT: usize = 3;
/// Keys that a process can have.
pub const MAX_KEYS: u32 = 1 << 24;

const CHUNK: u32 = 4096;
const CHUNKS: u32 = MAX_KEYS / CHUNK;
const ENTRY: u64 = 64;
const ENTRY_WORDS: usize = (ENTRY / 8) as usize;
/// The word of an entry that peers write.
const ENDED: usize = 6;
/// The word of a private entry that counts its users.
const USERS: usize = 7;
/// Operations that can use a process's memory at the same time.
const PINS: usize = 128;
/// Offsets from the start of the table: pins of two words, then the directory.
const DIRECTORY: u64 = 16 * PINS as u64;
/// How long other processes that use a key are waited for: longer than a copy of a gigabyte takes.
pub const PATIENCE_WITH_PEERS: Duration = Duration::from_secs(3);
/// How long copies are waited for that the kernel may be carrying out when the identity page was moved.
const GRACE: Duration = Duration::from_millis(100);
/// Looks at an entry that changes, before it counts as torn: far longer than a change takes.
const LOOKS: u32 = 10_000;

/// A key and where its memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What the rules check.
    pub key: Key,
    /// Address of the first byte in the owner's memory. Differs from `key.start` for zero-based regions and
    /// windows.
    pub base: u64,
}

impl Entry {
    /// Whether its memory is read and written in place: it was there when it was registered.
    #[inline]
    pub(crate) fn is_in_place(&self) -> bool {
        !self.key.access.has(Access::ON_DEMAND)
    }

    /// Where `addr`, as users of the key name it, is in the owner's memory.
    #[inline(always)]
    pub fn translate(&self, addr: u64) -> u64 {
        self.base.wrapping_add(addr.wrapping_sub(self.key.start))
    }
}

/// Why a lookup gave no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// There is no such key.
    NoKey,
    /// The entry was being changed all the time: its owner died over it, or was stopped. Try again while it
    /// lives.
    Torn,
    /// All pins are taken by living processes. Try again.
    Busy,
}

fn pack(entry: &Entry, key8: u8) -> [u64; 6] {
    let (kind, qp) = match entry.key.kind {
        Kind::Region => (0, 0),
        Kind::Window1 => (1, 0),
        Kind::Window2 { qp_num } => (2, qp_num),
    };
    let tag = 1 << 31 | u64::from(entry.key.valid) << 10 | kind << 8 | u64::from(key8);
    [
        tag << 32,
        u64::from(entry.key.pd) | u64::from(qp) << 32,
        entry.key.start,
        entry.key.length,
        u64::from(entry.key.access.0),
        entry.base,
    ]
}

#[inline(always)]
fn unpack(words: &[u64; 6], key8: u8) -> Option<Entry> {
    let tag = words[0] >> 32;
    if tag >> 31 == 0 || tag as u8 != key8 {
        return None;
    }
    let kind = match tag >> 8 & 3 {
        0 => Kind::Region,
        1 => Kind::Window1,
        2 => Kind::Window2 { qp_num: (words[1] >> 32) as u32 },
        _ => return None,
    };
    let key = Key {
        kind,
        valid: tag >> 10 & 1 == 1,
        pd: words[1] as u32,
        start: words[2],
        length: words[3],
        access: Access(words[4] as u32),
    };
    Some(Entry { key, base: words[5] })
}

/// The words of a key's entry, whatever they say.
fn place(memory: &Memory, table: u64, key: u32) -> Option<&[AtomicU64]> {
    let index = key >> 8;
    if index == 0 || table == 0 {
        return None;
    }
    let slot = table.checked_add(DIRECTORY + 8 * u64::from(index / CHUNK))?;
    let chunk = memory.u64(slot).ok()?.load(Ordering::Acquire);
    let entry = (chunk != 0).then(|| chunk.checked_add(ENTRY * u64::from(index % CHUNK)))??;
    memory.words(entry, ENTRY_WORDS).ok()
}

/// Copies an entry.
// Inlined up to who uses it, as all lookups are: an entry returned through memory is copied in wider pieces
// than it was stored in, and the processor waits for each of them.
#[inline(always)]
fn read<W: Word>(words: &[W], key: u32) -> std::result::Result<Entry, Lookup> {
    let words: &[W; ENTRY_WORDS] = words.first_chunk().ok_or(Lookup::NoKey)?;
    for _ in 0..LOOKS {
        let first = words[0].load(Ordering::Acquire);
        if first & 1 == 0 {
            let word = |n: usize| words[n].load(Ordering::Relaxed);
            let copy = [first, word(1), word(2), word(3), word(4), word(5)];
            let ended = words[ENDED].load(Ordering::Relaxed);
            W::fence(Ordering::Acquire);
            if words[0].load(Ordering::Relaxed) == first {
                let mut entry = unpack(&copy, key as u8).ok_or(Lookup::NoKey)?;
                entry.key.valid &= ended != end_of(first);
                return Ok(entry);
            }
        }
        W::pause();
    }
    Err(Lookup::Torn)
}

/// Writes an entry with its sequence number, so that [`read`] sees all of it or none.
fn publish<W: Word>(entry: &[W], content: [u64; 6], sequence: u32) {
    let tag = content[0] >> 32 << 32;
    entry[0].store(tag | u64::from(sequence.wrapping_sub(1)), Ordering::Relaxed);
    W::fence(Ordering::Release);
    for (to, from) in entry.iter().zip(content).skip(1) {
        to.store(from, Ordering::Relaxed);
    }
    entry[0].store(tag | u64::from(sequence), Ordering::Release);
}

/// What the last word of an entry with this first word says when a peer invalidated it.
fn end_of(first: u64) -> u64 {
    1 << 32 | u64::from(first as u32)
}

/// The keys of a process, as a peer sees them.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    memory: &'a Memory,
    at: u64,
    sealed: Option<&'a sealed::View>,
}

impl<'a> Table<'a> {
    /// Those of a peer. Where its sealed memory can be read, what stands in its segment gives no rights.
    #[inline]
    pub fn of(peer: &'a Peer) -> Self {
        let at = peer.root(ROOT).unwrap_or(0);
        Table { memory: peer.memory(), at, sealed: peer.sealed() }
    }

    /// Those that stand in this segment.
    pub fn shared(segment: &'a Segment) -> Self {
        let at = segment.root(ROOT).map_or(0, |root| root.load(Ordering::Acquire));
        Table { memory: segment.memory(), at, sealed: None }
    }

    /// The words to go by.
    #[inline]
    fn words(&self, key: u32) -> Option<&'a [AtomicU64]> {
        match self.sealed {
            Some(sealed) => sealed.words(sealed_at(key, sealed.first_chunk())?, ENTRY_WORDS),
            None => place(self.memory, self.at, key),
        }
    }

    /// Looks a key up.
    #[inline(always)]
    pub fn lookup(&self, key: u32) -> std::result::Result<Entry, Lookup> {
        let words = self.words(key).ok_or(Lookup::NoKey)?;
        let mut entry = read(words, key)?;
        if self.sealed.is_some()
            && let Kind::Window2 { .. } = entry.key.kind
        {
            // Where peers say that they invalidated it.
            let shared = place(self.memory, self.at, key).ok_or(Lookup::NoKey)?;
            let ended = shared[ENDED].load(Ordering::Relaxed);
            entry.key.valid &= ended != end_of(words[0].load(Ordering::Relaxed));
        }
        Ok(entry)
    }

    /// Looks a key up, so that it can be asked later whether it [is unchanged](Table::is_unchanged).
    pub fn look(&self, key: u32) -> std::result::Result<Seen, Lookup> {
        // What changes in between is looked up anew the next time, too.
        let first = self.words(key).ok_or(Lookup::NoKey)?[0].load(Ordering::Acquire);
        self.lookup(key).map(|entry| Seen { key, first, entry })
    }

    /// Whether this key is a region's that was looked up, and a look would find the same.
    #[inline]
    pub fn is_unchanged(&self, seen: &Seen, key: u32) -> bool {
        let same = |words: &[AtomicU64]| {
            words[0].load(Ordering::Acquire) == seen.first
                && words[ENDED].load(Ordering::Relaxed) != end_of(seen.first)
        };
        seen.key == key && seen.entry.key.kind == Kind::Region && self.words(key).is_some_and(same)
    }

    /// The words that [`Table::is_unchanged`] goes by, and what they say as long as it is so; `None` where it
    /// is not so now.
    pub(crate) fn watched(&self, seen: &Seen, key: u32) -> Option<[(&'a AtomicU64, u64); 2]> {
        let words = self.words(key)?;
        let ended = words[ENDED].load(Ordering::Relaxed);
        self.is_unchanged(seen, key).then_some([(&words[0], seen.first), (&words[ENDED], ended)])
    }

    /// One of the pins, for who tries the same one each time: others use others, if they ask by other numbers.
    pub(crate) fn pin_place(&self, number: u32) -> Option<&'a PinPlace> {
        pin_place(self.memory, self.at, number as usize % PINS)
    }

    /// Invalidates a window of type 2, as a peer's send asked for (IBA §9.4.1.1.3): nobody finds the key valid
    /// from then on, until its owner binds the window anew. `false` when there is no such window.
    pub fn invalidate(&self, key: u32) -> bool {
        let (Some(words), Some(shared)) = (self.words(key), place(self.memory, self.at, key)) else {
            return false;
        };
        let first = words[0].load(Ordering::Acquire);
        let is_window =
            matches!(read(words, key), Ok(Entry { key: Key { kind: Kind::Window2 { .. }, .. }, .. }));
        // When the entry changed in between, this ends nothing.
        if is_window {
            shared[ENDED].store(end_of(first), Ordering::Release);
        }
        is_window
    }

    /// Tells all keys with their entries, until `tell` says that it has enough. What changes just then is left
    /// out. The peer decides how many there are, up to [`MAX_KEYS`]; no more than `looks` places are looked at.
    pub fn each(&self, looks: u32, mut tell: impl FnMut(u32, Entry) -> bool) {
        let (mut index, mut left) = (0, looks);
        while index < MAX_KEYS && left > 0 {
            // Of sealed memory, places in the order in which they were made: there are no holes.
            let place = self.sealed.map_or(index, |sealed| made_as(index, sealed.first_chunk()));
            index += 1;
            if place == 0 {
                // No key has it.
                continue;
            }
            let Some(words) = self.words(place << 8) else {
                if self.sealed.is_some() {
                    return;
                }
                index = index.next_multiple_of(CHUNK);
                continue;
            };
            left -= 1;
            let first = words[0].load(Ordering::Acquire);
            let key = place << 8 | (first >> 32) as u32 & 0xff;
            let is_whole = first >> 63 == 1 && first & 1 == 0;
            if is_whole
                && let Ok(entry) = self.lookup(key)
                && !tell(key, entry)
            {
                return;
            }
        }
    }

    /// Pins a key's entry: the entry as it is then, and what keeps it in use.
    #[inline(always)]
    pub fn pin(
        &self,
        key: u32,
        me: Owner,
        liveness: &impl Liveness,
    ) -> std::result::Result<(Entry, Pin<'a>), Lookup> {
        let words = take_pin(self.memory, self.at, me, liveness)?;
        let pin = Pin { words, me };
        announce(words, key);
        self.lookup(key).map(|entry| (entry, pin))
    }
}

/// Where a key's entry is in sealed memory, in which there are no holes: its chunks stand there as they were
/// made, the one with this number first.
fn sealed_at(key: u32, first_chunk: u32) -> Option<u64> {
    let index = key >> 8;
    (index != 0).then(|| sealed::KEYS + ENTRY * u64::from(made_as(index, first_chunk)))
}

/// As which an index was made that has this place in the directory, and the other way round: chunks are made
/// from 0 on, and have the number with some bits flipped.
fn made_as(index: u32, first_chunk: u32) -> u32 {
    index ^ (first_chunk % CHUNKS * CHUNK)
}

/// The entry of a key as it was looked up, to be used repeatedly.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    key: u32,
    /// The first word, which every change of the entry changes.
    first: u64,
    /// What it said.
    pub entry: Entry,
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests;
