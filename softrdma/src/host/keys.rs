//! The memory keys of a process, in its segment: any process that may map the segment can look one up.
//!
//! A key is 24 bits of index and 8 bits that change with each use of the index, so that a key kept too long
//! does not open what came after (IBA §10.6.3.1). Index 0 is never used, so 0 is no key. The table is a
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
//! | 6 | bit 32 and a sequence number: the entry of that number was invalidated by a peer ([`invalidate`]) |
//! | 7 | in the private copy: threads of the owner that use the memory ([`InUse`]) |
//!
//! Only the owner is to write, but for the last word, and every process that may open the segment can. So the
//! entries are there three times in the same form: in the segment, for peers who send by way of the owner's
//! help and are checked by it; in the owner's sealed memory, for peers who reach its memory directly
//! ([`Table`]); and in private memory, which is what the owner itself goes by ([`Keys::local`]). A reader
//! copies the entry between two looks at the sequence number; when the owner died in between, the number stays
//! odd and the reader gives up with [`Lookup::Torn`] after a bounded time: a dead process's memory is gone
//! anyway.
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

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use queue_lock::single_threaded;

use crate::core::keys::{Key, Kind};
use crate::core::verbs::Access;

use super::error::{Error, Result};
use super::lock::{Liveness, Owner, PATIENCE};
use super::memory::Memory;
use super::sealed;
use super::segment::{Peer, Segment};
use super::sync::Word;

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
/// How long the users of a key are waited for who are other processes: longer than a copy of a gigabyte takes.
pub const PATIENCE_WITH_PEERS: Duration = Duration::from_secs(3);
/// How long those are waited for that the kernel may be at work for when the identity page was moved.
const GRACE: Duration = Duration::from_millis(100);
/// Looks at an entry that changes, before it counts as torn: far longer than a change takes.
const LOOKS: u32 = 10_000;

/// A key and where its memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What the protocol checks.
    pub key: Key,
    /// Address of the first byte in the owner's memory. Differs from `key.start` for zero-based regions and
    /// windows.
    pub base: u64,
}

impl Entry {
    /// Where `addr`, as users of the key name it, is in the owner's memory.
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
            Some(sealed) => sealed.words(sealed_at(key)?, ENTRY_WORDS),
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

    /// Looks a key up, for who asks later whether it [is unchanged](Table::is_unchanged).
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

/// Where a key's entry is in sealed memory.
fn sealed_at(key: u32) -> Option<u64> {
    let index = key >> 8;
    (index != 0).then(|| sealed::KEYS + ENTRY * u64::from(index))
}

/// An entry in use by this process: the owner waits for it before it lets the memory go.
#[derive(Debug)]
pub struct Pin<'a> {
    words: &'a [AtomicU64; 2],
    me: Owner,
}

/// Takes one of the owner's pins.
fn take_pin<'a>(
    memory: &'a Memory,
    table: u64,
    me: Owner,
    liveness: &impl Liveness,
) -> std::result::Result<&'a [AtomicU64; 2], Lookup> {
    let pins =
        (table != 0).then(|| memory.words(table, 2 * PINS)).and_then(Result::ok).ok_or(Lookup::NoKey)?;
    // Processes start at different places; threads of one find the next one free.
    let start = usize::from(me.slot()) % PINS;
    for patient in [false, true] {
        for i in 0..PINS {
            let Some(words) = pins[2 * ((start + i) % PINS)..].first_chunk() else { continue };
            let words: &[AtomicU64; 2] = words;
            let seen = words[0].load(Ordering::Relaxed);
            let free = seen == 0 || (patient && Owner::from_word(seen).is_none_or(|o| !liveness.lives(o)));
            if free
                && words[0].compare_exchange(seen, me.word(), Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Ok(words);
            }
        }
    }
    Err(Lookup::Busy)
}

/// Says in a pin which key is in use, before the key is looked up.
#[inline]
fn announce<W: Word>(pin: &[W], key: u32) {
    pin[1].swap(u64::from(key), Ordering::SeqCst);
    W::fence_after_exchange();
}

/// The word of the process that has this key in use, by this pin.
#[inline]
fn in_use<W: Word>(pin: &[W], key: u32) -> Option<u64> {
    let owner = pin[0].load(Ordering::Acquire);
    (owner != 0 && pin[1].load(Ordering::Acquire) == u64::from(key)).then_some(owner)
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.words[1].store(0, Ordering::Release);
        let _ = self.words[0].compare_exchange(self.me.word(), 0, Ordering::Release, Ordering::Relaxed);
    }
}

/// An own key in use by a thread of this process: it is waited for as [`Pin`]s are. Not counted where there is
/// one thread, which ends no key while it uses it.
#[derive(Debug)]
pub struct InUse<'a>(Option<&'a AtomicU64>);

impl Drop for InUse<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(users) = self.0 {
            users.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The entry of a key as it was looked up, for who uses it again and again.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    key: u32,
    /// The first word, which every change of the entry changes.
    first: u64,
    /// What it said.
    pub entry: Entry,
}

/// Counts a user of an entry. First the count, then the look: who ends the key does it the other way round.
#[inline]
fn enter<W: Word>(words: &[W]) {
    words[USERS].fetch_add(1, Ordering::SeqCst);
    W::fence_after_exchange();
}

/// What the owner knows of an index.
#[derive(Debug, Clone, Copy, Default)]
struct Book {
    key8: u8,
    sequence: u32,
    used: bool,
    /// Removed, but not known to be unused yet.
    pending: bool,
}

/// The owner's books of its keys.
#[derive(Debug)]
pub struct Keys {
    segment: Arc<Segment>,
    table: u64,
    /// The entries once more, where no peer writes.
    private: Box<[OnceLock<Box<[AtomicU64]>>]>,
    books: Mutex<Books>,
}

/// Memory for the private copy of a chunk.
fn private_chunk() -> Result<Box<[AtomicU64]>> {
    let words = CHUNK as usize * ENTRY_WORDS;
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(words)?;
    chunk.resize_with(words, || AtomicU64::new(0));
    Ok(chunk.into_boxed_slice())
}

#[derive(Debug, Default)]
struct Books {
    /// Offsets of the chunks: the directory as the owner knows it, whatever a peer writes there.
    chunks: Vec<u64>,
    /// By index; index 0 is there and never used.
    entries: Vec<Book>,
    /// Indices to use again, the longest unused first.
    free: VecDeque<u32>,
}

impl Keys {
    /// Makes the table of a segment, once. Errors: [`Error::NoMemory`].
    pub fn new(segment: Arc<Segment>) -> Result<Self> {
        let table = segment.alloc(DIRECTORY + 8 * u64::from(CHUNKS), 64)?.offset;
        segment.root(ROOT)?.store(table, Ordering::Release);
        let books = Books { entries: vec![Book::default()], ..Books::default() };
        let mut private = Vec::new();
        private.try_reserve_exact(CHUNKS as usize)?;
        private.resize_with(CHUNKS as usize, OnceLock::new);
        Ok(Keys { segment, table, private: private.into_boxed_slice(), books: Mutex::new(books) })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self, books: &mut Books, index: u32, content: [u64; 6]) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let chunk = *books.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let words = ENTRY_WORDS;
        let shared = self.segment.memory().words(chunk + ENTRY * u64::from(index % CHUNK), words)?;
        // Made when its first entry was added.
        let private = self.private[(index / CHUNK) as usize].get().ok_or(Error::OutOfBounds)?;
        let private = &private[(index % CHUNK) as usize * words..][..words];
        let sequence = &mut books.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?.sequence;
        *sequence = sequence.wrapping_add(2);
        let sealed = match self.segment.sealed() {
            Some(sealed) => Some(sealed.memory().words(sealed::KEYS + ENTRY * u64::from(index), words)?),
            None => None,
        };
        for entry in [Some(private), sealed, Some(shared)].into_iter().flatten() {
            publish(entry, content, *sequence);
        }
        Ok(())
    }

    /// The private copy of a key's entry, whatever it says.
    #[inline]
    fn own(&self, key: u32) -> Option<&[AtomicU64]> {
        let words = self.private.get(((key >> 8) / CHUNK) as usize)?.get()?;
        Some(&words[((key >> 8) % CHUNK) as usize * ENTRY_WORDS..][..ENTRY_WORDS])
    }

    /// The entry of an own key, by the owner's own books: without a lock, and whatever peers write.
    #[inline(always)]
    pub fn local(&self, key: u32) -> Option<Entry> {
        self.quiet(self.own(key)?, key)
    }

    /// As [`Keys::local`], for who is going to use the memory: it stays in place as long as the second answer
    /// lives.
    #[inline(always)]
    pub fn hold(&self, key: u32) -> Option<(Entry, InUse<'_>)> {
        let words = self.own(key)?;
        // A thread that ends keys would have been created by this one, which is busy here.
        let in_use = if single_threaded() {
            InUse(None)
        } else {
            enter(words);
            InUse(Some(&words[USERS]))
        };
        Some((self.quiet(words, key)?, in_use))
    }

    #[inline(always)]
    fn quiet(&self, words: &[AtomicU64], key: u32) -> Option<Entry> {
        match read(words, key) {
            Err(Lookup::Torn) => {
                // A thread of this process changes it, and was put to sleep.
                let _quiet = self.books();
                read(words, key).ok()
            }
            other => other.ok(),
        }
    }

    /// As [`Keys::local`], for a window: also peers may have invalidated it.
    pub fn window(&self, key: u32) -> Option<Entry> {
        let mut entry = self.local(key)?;
        let _quiet = self.books();
        entry.key.valid &= Table::shared(&self.segment).lookup(key).is_ok_and(|entry| entry.key.valid);
        Some(entry)
    }

    /// Adds an entry; answers its key. Errors: [`Error::NoMemory`].
    pub fn add(&self, entry: &Entry) -> Result<u32> {
        let mut books = self.books();
        // While there are fresh indices, used ones rest, so that an old key stays useless for longer.
        let index = match books.free.len() {
            0..64 if (books.entries.len() as u32) < MAX_KEYS => {
                let index = books.entries.len() as u32;
                let chunk = index / CHUNK;
                books.entries.try_reserve(1)?;
                // For the day when all are free.
                let used = books.entries.len() + 1 - books.free.len();
                books.free.try_reserve(used)?;
                if chunk as usize == books.chunks.len() {
                    books.chunks.try_reserve(1)?;
                    let private = &self.private[chunk as usize];
                    if private.get().is_none() {
                        let _ = private.set(private_chunk()?);
                    }
                    if let Some(sealed) = self.segment.sealed() {
                        sealed.grow(sealed::KEYS + ENTRY * u64::from((chunk + 1) * CHUNK))?;
                    }
                    let offset = self.segment.alloc(ENTRY * u64::from(CHUNK), 64)?.offset;
                    let at = self.table + DIRECTORY + 8 * u64::from(chunk);
                    self.segment.memory().u64(at)?.store(offset, Ordering::Release);
                    books.chunks.push(offset);
                }
                books.entries.push(Book::default());
                index
            }
            _ => books.free.pop_front().ok_or(Error::NoMemory)?,
        };
        let book = &mut books.entries[index as usize];
        *book = Book { key8: book.key8.wrapping_add(1), used: true, ..*book };
        let key8 = book.key8;
        self.write(&mut books, index, pack(entry, key8))?;
        Ok(index << 8 | u32::from(key8))
    }

    /// Changes the entry of `key`, which from now on has the 8 bits `key8`: binding and invalidating a window.
    /// Who had looked up the old entry may still use it: see [`Keys::wait_unused`]. Errors:
    /// [`Error::OutOfBounds`] when there is no such key.
    pub fn change(&self, key: u32, key8: u8, entry: &Entry) -> Result<u32> {
        let mut books = self.books();
        Self::check(&books, key)?;
        books.entries[(key >> 8) as usize].key8 = key8;
        self.write(&mut books, key >> 8, pack(entry, key8))?;
        Ok(key & !0xff | u32::from(key8))
    }

    fn check(books: &Books, key: u32) -> Result<()> {
        let known = books.entries.get((key >> 8) as usize).is_some_and(|b| b.used && b.key8 == key as u8);
        if known { Ok(()) } else { Err(Error::OutOfBounds) }
    }

    /// Removes a key and waits until no thread of this process and no living other one uses it any more, at
    /// most `limit`. `Ok(false)` when that passed: the key is gone, but its memory may still be accessed, and
    /// its index is not used again before [`Keys::wait_unused`] says so. Errors: [`Error::OutOfBounds`] when
    /// there is no such key.
    pub fn remove(&self, key: u32, liveness: &impl Liveness, limit: Duration) -> Result<bool> {
        let mut books = self.books();
        Self::check(&books, key)?;
        self.write(&mut books, key >> 8, [0; 6])?;
        let book = &mut books.entries[(key >> 8) as usize];
        *book = Book { used: false, pending: true, ..*book };
        drop(books);
        self.wait_unused(key, liveness, limit)
    }

    /// Waits until no living process uses a key any more that was removed or changed, at most `limit`;
    /// `Ok(false)` when that passed.
    pub fn wait_unused(&self, key: u32, liveness: &impl Liveness, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        if !self.wait_for_threads(key, start, limit) || !self.wait_for_peers(key, liveness, start, limit)? {
            return Ok(false);
        }
        self.rest(key);
        Ok(true)
    }

    /// As [`Keys::wait_unused`], for [`PATIENCE_WITH_PEERS`]; whoever uses the key then still does not reach
    /// its memory any more, now or later. Only own threads are waited for as long as they take.
    pub fn end_use(&self, key: u32, liveness: &impl Liveness) -> Result<()> {
        let start = Instant::now();
        let unused = self.wait_for_peers(key, liveness, start, PATIENCE_WITH_PEERS)?;
        if !unused {
            self.revoke(key, liveness)?;
        }
        while !self.wait_for_threads(key, Instant::now(), PATIENCE_WITH_PEERS) {}
        self.rest(key);
        Ok(())
    }

    /// Keeps all from this process's memory who looked a key up before: what they have not begun to copy the
    /// kernel refuses. They look again where they still may.
    #[cold]
    fn revoke(&self, key: u32, liveness: &impl Liveness) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        // Without sealed memory peers reach nothing directly, and the owner's service goes by private books.
        if let Some(sealed) = self.segment.sealed() {
            sealed.revoke();
            // For whom the kernel is at work.
            self.wait_for_peers(key, liveness, Instant::now(), GRACE)?;
        }
        Ok(())
    }

    /// The index of a removed key may be used again.
    fn rest(&self, key: u32) {
        let mut books = self.books();
        if let Some(book) = books.entries.get_mut((key >> 8) as usize)
            && book.pending
            && book.key8 == key as u8
        {
            book.pending = false;
            books.free.push_back(key >> 8);
        }
    }

    /// Whether this process has one of the keys in use.
    pub fn is_user(&self, peer: Owner) -> bool {
        let pins = self.segment.memory().words(self.table, 2 * PINS).unwrap_or(&[]);
        pins.chunks_exact(2).any(|pin| pin[0].load(Ordering::Acquire) == peer.word())
    }

    fn wait_for_threads(&self, key: u32, start: Instant, limit: Duration) -> bool {
        fence(Ordering::SeqCst);
        while self.own(key).is_some_and(|words| words[USERS].load(Ordering::Acquire) > 0) {
            if start.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }

    fn wait_for_peers(
        &self,
        key: u32,
        liveness: &impl Liveness,
        start: Instant,
        limit: Duration,
    ) -> Result<bool> {
        fence(Ordering::SeqCst);
        for pin in self.segment.memory().words(self.table, 2 * PINS)?.chunks_exact(2) {
            let mut asked = start;
            // Own threads count elsewhere, so a pin with the own name is not theirs.
            let foreign = || in_use(pin, key).filter(|owner| *owner != self.segment.owner().word());
            while let Some(owner) = foreign() {
                if asked.elapsed() >= PATIENCE {
                    if Owner::from_word(owner).is_none_or(|o| !liveness.lives(o)) {
                        let _ = pin[0].compare_exchange(owner, 0, Ordering::Relaxed, Ordering::Relaxed);
                        break;
                    }
                    asked = Instant::now();
                }
                if start.elapsed() >= limit {
                    return Ok(false);
                }
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        Ok(true)
    }
}

/// Every interleaving of one owner and one user (`scripts/models`).
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64};
    use loom::thread;

    fn words<const N: usize>() -> Arc<[AtomicU64; N]> {
        Arc::new(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// An entry of whose words each gives the others away.
    fn entry(n: u64) -> [u64; 6] {
        let key =
            Key { kind: Kind::Region, valid: true, pd: 0, start: n, length: n, access: Access(n as u32) };
        pack(&Entry { key, base: n }, 0)
    }

    fn whole(seen: std::result::Result<Entry, Lookup>) -> Option<u64> {
        let Ok(Entry { key, base }) = seen else { return None };
        assert!(key.start == base && key.length == base && u64::from(key.access.0) == base, "{key:?} {base}");
        Some(base)
    }

    #[test]
    fn a_reader_sees_all_of_an_entry_or_none() {
        loom::model(|| {
            let words = words::<8>();
            publish(&words[..], entry(1), 2);
            let owner = {
                let words = words.clone();
                thread::spawn(move || publish(&words[..], entry(2), 4))
            };
            assert!(matches!(whole(read(&words[..], 0)), None | Some(1 | 2)));
            owner.join().unwrap();
            assert_eq!(whole(read(&words[..], 0)), Some(2));
        });
    }

    /// A key is removed while somebody begins to use it: who got the entry is waited for.
    fn removed_or_waited_for(
        begin: impl Fn(&[AtomicU64]) + Send + Sync + Copy + 'static,
        used: impl Fn(&[AtomicU64]) -> bool + Send + Sync + Copy + 'static,
        end: impl Fn(&[AtomicU64]) + Send + Sync + Copy + 'static,
    ) {
        loom::model(move || {
            // The entry, and a pin.
            let words = words::<10>();
            let memory = Arc::new(AtomicBool::new(true));
            publish(&words[..8], entry(1), 2);
            let user = {
                let (words, memory) = (words.clone(), memory.clone());
                thread::spawn(move || {
                    begin(&words[..]);
                    if whole(read(&words[..8], 0)).is_some() {
                        assert!(memory.load(Ordering::Relaxed), "memory in use was let go");
                    }
                    end(&words[..]);
                })
            };
            publish(&words[..8], [0; 6], 4);
            AtomicU64::fence(Ordering::SeqCst);
            if !used(&words[..]) {
                memory.store(false, Ordering::Relaxed);
            }
            user.join().unwrap();
            assert!(!used(&words[..]));
        });
    }

    #[test]
    fn a_pin_that_found_the_entry_is_waited_for() {
        let begin = |words: &[AtomicU64]| {
            words[8].store(2, Ordering::Relaxed);
            announce(&words[8..], 5);
        };
        let end = |words: &[AtomicU64]| {
            words[9].store(0, Ordering::Release);
            words[8].store(0, Ordering::Release);
        };
        removed_or_waited_for(begin, |words| in_use(&words[8..], 5).is_some(), end);
    }

    #[test]
    fn a_thread_that_holds_the_entry_is_waited_for() {
        let end = |words: &[AtomicU64]| {
            words[USERS].fetch_sub(1, Ordering::Release);
        };
        removed_or_waited_for(
            |words| enter(&words[..8]),
            |words| words[USERS].load(Ordering::Acquire) > 0,
            end,
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::testing::{TestDir, in_child};
    use super::*;
    use std::sync::atomic::AtomicBool;

    const NOW: Duration = Duration::ZERO;

    fn entry(n: u64) -> Entry {
        let kind = match n % 3 {
            0 => Kind::Region,
            1 => Kind::Window1,
            _ => Kind::Window2 { qp_num: n as u32 },
        };
        let key = Key {
            kind,
            valid: !n.is_multiple_of(5),
            pd: n as u32,
            start: n,
            length: n << 8,
            access: Access(n as u32),
        };
        Entry { key, base: !n }
    }

    fn keys(dir: &TestDir) -> (Arc<Segment>, Keys) {
        let segment = Arc::new(Segment::create(dir.folder()).unwrap());
        let keys = Keys::new(segment.clone()).unwrap();
        (segment, keys)
    }

    #[test]
    fn the_owner_goes_by_its_own_books() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let table = me.root(ROOT).unwrap().load(Ordering::Relaxed);
        let all: Vec<u32> = (0..5000).map(|n| keys.add(&entry(n)).unwrap()).collect();
        for (n, key) in (0..).zip(&all) {
            assert_eq!(keys.local(*key), Some(entry(n)));
            assert_eq!(keys.local(key ^ 1), None);
        }
        assert_eq!((keys.local(0), keys.local(u32::MAX)), (None, None));
        let chunk = me.memory().u64(table + DIRECTORY).unwrap().load(Ordering::Relaxed);
        me.memory().write(chunk, &[0; 4096 * ENTRY as usize]).unwrap();
        assert_eq!(Table::shared(&me).lookup(all[1]), Err(Lookup::NoKey));
        assert_eq!(keys.local(all[1]), Some(entry(1)));
        keys.remove(all[1], &*me, NOW).unwrap();
        assert_eq!(keys.local(all[1]), None);
    }

    #[test]
    fn a_window_that_a_peer_invalidated_is_valid_again_once_bound() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let peer = Peer::open(me.folder(), 0).unwrap();
        let valid = |key| {
            [
                Table::shared(&me).lookup(key).unwrap(),
                Table::of(&peer).lookup(key).unwrap(),
                keys.window(key).unwrap(),
            ]
            .map(|e| e.key.valid)
        };
        let (window, region) = (entry(2), entry(3));
        let (key, other) = (keys.add(&window).unwrap(), keys.add(&region).unwrap());
        assert_eq!(valid(key), [true; 3]);
        assert!(Table::of(&peer).invalidate(key));
        assert_eq!(valid(key), [false; 3]);
        assert!(!Table::of(&peer).invalidate(key ^ 1) && !Table::of(&peer).invalidate(other));
        assert_eq!(valid(other), [true; 3]);
        let key = keys.change(key, 77, &window).unwrap();
        assert_eq!(valid(key), [true; 3]);
    }

    #[test]
    fn a_key_that_was_seen_is_known_to_be_another() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let peer = Peer::open(me.folder(), 0).unwrap();
        for table in [Table::shared(&me), Table::of(&peer)] {
            let add = |n| {
                let Entry { key, base } = entry(n);
                keys.add(&Entry { key: Key { kind: Kind::Region, ..key }, base }).unwrap()
            };
            let (key, other) = (add(3), add(4));
            let seen = table.look(key).unwrap();
            assert_eq!(Ok(seen.entry), table.lookup(key));
            assert!(table.is_unchanged(&seen, key));
            assert!(!table.is_unchanged(&seen, other) && !table.is_unchanged(&seen, key ^ 1));
            // The same once more is another entry.
            let again = keys.change(key, key as u8, &seen.entry).unwrap();
            assert_eq!(again, key);
            assert!(!table.is_unchanged(&seen, key));
            let seen = table.look(key).unwrap();
            assert!(table.is_unchanged(&seen, key));
            keys.remove(key, &*me, NOW).unwrap();
            assert!(!table.is_unchanged(&seen, key));
            assert_eq!(table.look(key).err(), Some(Lookup::NoKey));
            // Peers may end a window at any time.
            let Entry { key, base } = entry(5);
            let window = Entry { key: Key { kind: Kind::Window2 { qp_num: 1 }, ..key }, base };
            let window = keys.add(&window).unwrap();
            let seen = table.look(window).unwrap();
            assert!(!table.is_unchanged(&seen, window));
        }
    }

    #[test]
    fn a_key_in_use_can_be_waited_for_again() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let other = Segment::create(me.folder().clone()).unwrap();
        let wait = |key| keys.wait_unused(key, &*me, NOW);
        let first = keys.add(&entry(3)).unwrap();
        let pinned = Table::shared(&me).pin(first, other.owner(), &*me).unwrap();
        let second = keys.change(first, 99, &entry(4)).unwrap();
        assert_eq!((wait(first), wait(second)), (Ok(false), Ok(true)));
        drop(pinned);
        assert_eq!(wait(first), Ok(true));
        let pinned = Table::shared(&me).pin(second, other.owner(), &*me).unwrap();
        assert_eq!(keys.remove(second, &*me, NOW), Ok(false));
        assert_eq!(wait(second), Ok(false));
        assert!(keys.books().free.is_empty());
        drop(pinned);
        assert_eq!((wait(second), wait(second), wait(first)), (Ok(true), Ok(true), Ok(true)));
        assert_eq!(keys.books().free, [second >> 8]);
    }

    #[test]
    fn a_forked_child_changes_no_key() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let key = keys.add(&entry(3)).unwrap();
        let status = in_child(|| {
            keys.remove(key, &*me, NOW) == Err(Error::Forked)
                && keys.change(key, 9, &entry(4)) == Err(Error::Forked)
                && keys.add(&entry(5)) == Err(Error::Forked)
        });
        assert_eq!(status, 0);
        assert_eq!(Table::shared(&me).lookup(key), Ok(entry(3)));
    }

    #[test]
    fn a_key_opens_its_entry_and_nothing_else() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let peer = Peer::open(me.folder(), 0).unwrap();
        let found = |key| {
            peer.refresh().unwrap();
            let found = Table::of(&peer).lookup(key);
            assert_eq!(found, Table { sealed: None, ..Table::of(&peer) }.lookup(key));
            found
        };
        let all: Vec<u32> = (0..10_000).map(|n| keys.add(&entry(n)).unwrap()).collect();
        for (n, key) in all.iter().enumerate() {
            assert_eq!(found(*key), Ok(entry(n as u64)));
            assert_eq!(found(key ^ 1), Err(Lookup::NoKey));
        }
        assert_eq!(found(0), Err(Lookup::NoKey));
        assert_eq!(found(u32::MAX), Err(Lookup::NoKey));
        assert_eq!(keys.remove(all[7], &*me, NOW), Ok(true));
        assert_eq!(found(all[7]), Err(Lookup::NoKey));
        assert_eq!(keys.remove(all[7], &*me, NOW), Err(Error::OutOfBounds));
        assert_eq!(keys.remove(0, &*me, NOW), Err(Error::OutOfBounds));
        let bound = keys.change(all[8], 200, &entry(3)).unwrap();
        assert_eq!((bound >> 8, bound & 0xff), (all[8] >> 8, 200));
        assert_eq!(found(bound), Ok(entry(3)));
        assert_eq!(found(all[8]), Err(Lookup::NoKey));
        assert_eq!(keys.change(all[8], 1, &entry(3)), Err(Error::OutOfBounds));
        // An index that is used again has another key.
        for _ in 0..200 {
            let key = keys.add(&entry(1)).unwrap();
            assert!(!all.contains(&key));
            keys.remove(key, &*me, NOW).unwrap();
        }
        assert_eq!(
            Entry { key: Key { start: 0x1000, ..entry(0).key }, base: 0x7000 }.translate(0x1010),
            0x7010
        );
    }

    #[test]
    fn readers_see_whole_entries() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let key = keys.add(&entry(0)).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                for n in 0..50_000 {
                    keys.change(key, key as u8, &entry(n)).unwrap();
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                match Table::shared(&me).lookup(key) {
                    Ok(seen) => assert_eq!(seen, entry(seen.key.start)),
                    Err(e) => assert_eq!(e, Lookup::Torn),
                }
            }
        });
    }

    #[test]
    fn an_entry_whose_writer_died_is_torn() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let key = keys.add(&entry(1)).unwrap();
        let at = keys.books().chunks[0] + ENTRY * u64::from(key >> 8);
        me.memory().u64(at).unwrap().fetch_or(1, Ordering::Relaxed);
        assert_eq!(Table::shared(&me).lookup(key), Err(Lookup::Torn));
    }

    #[test]
    fn removal_waits_for_the_living_and_not_for_the_dead() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let other = Segment::create(me.folder().clone()).unwrap();
        let key = keys.add(&entry(1)).unwrap();
        let held = Table::shared(&me).pin(key, other.owner(), &*me).unwrap();
        let (seen, held) = held;
        assert_eq!(seen, entry(1));
        assert_eq!(keys.remove(key, &*me, Duration::from_millis(30)), Ok(false));
        assert!(matches!(Table::shared(&me).pin(key, other.owner(), &*me), Err(Lookup::NoKey)));
        drop(held);
        let key = keys.add(&entry(2)).unwrap();
        let folder = me.folder().clone();
        let status = in_child(|| {
            let own = Segment::create(folder.clone()).unwrap();
            let peer = Peer::open(&folder, 0).unwrap();
            // More than there are: those of the dead are used again, those of the living are not.
            for _ in 0..PINS {
                std::mem::forget(Table::of(&peer).pin(key, own.owner(), &own).unwrap());
            }
            let full = Table::of(&peer).pin(key, own.owner(), &own);
            std::mem::forget(own);
            matches!(full, Err(Lookup::Busy))
        });
        assert_eq!(status, 0);
        drop(Table::shared(&me).pin(key, other.owner(), &*me).unwrap());
        let start = Instant::now();
        assert_eq!(keys.remove(key, &*me, Duration::from_secs(20)), Ok(true));
        assert!(start.elapsed() < Duration::from_secs(15));
        assert_eq!(keys.wait_unused(key, &*me, NOW), Ok(true));
    }

    #[test]
    fn removal_waits_for_the_own_threads() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let (key, other) = (keys.add(&entry(1)).unwrap(), keys.add(&entry(2)).unwrap());
        let (seen, held) = keys.hold(key).unwrap();
        assert_eq!(seen, entry(1));
        assert!(keys.hold(key ^ 1).is_none());
        assert_eq!(keys.wait_unused(key, &*me, NOW), Ok(false));
        assert_eq!(keys.remove(other, &*me, NOW), Ok(true));
        assert_eq!(keys.remove(key, &*me, NOW), Ok(false));
        assert!(keys.hold(key).is_none());
        drop(held);
        assert_eq!(keys.wait_unused(key, &*me, NOW), Ok(true));
    }

    #[test]
    fn nobody_uses_what_was_removed() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let (used, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        for n in 0..100 {
            let key = keys.add(&entry(n)).unwrap();
            used.store(false, Ordering::SeqCst);
            gone.store(false, Ordering::SeqCst);
            std::thread::scope(|s| {
                s.spawn(|| {
                    while let Some((_, _held)) = keys.hold(key) {
                        used.store(true, Ordering::SeqCst);
                        (0..100).for_each(|_| std::hint::spin_loop());
                        assert!(!gone.load(Ordering::SeqCst));
                    }
                });
                while !used.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                assert_eq!(keys.remove(key, &*me, Duration::from_secs(20)), Ok(true));
                gone.store(true, Ordering::SeqCst);
            });
        }
    }

    #[test]
    fn removal_ends_when_the_pin_does() {
        let dir = TestDir::new("keys");
        let (me, keys) = keys(&dir);
        let other = Segment::create(me.folder().clone()).unwrap();
        let key = keys.add(&entry(1)).unwrap();
        let held = Table::shared(&me).pin(key, other.owner(), &*me).unwrap();
        let gone = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                assert_eq!(keys.remove(key, &*me, Duration::from_secs(20)), Ok(true));
                gone.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!gone.load(Ordering::SeqCst));
            drop(held);
        });
        assert!(gone.load(Ordering::SeqCst));
    }
}
