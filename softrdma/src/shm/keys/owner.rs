//! The owner's side: keys are given, changed and taken back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use ironverbs_os::growth::{TryFill, TryPush, try_collect, try_filled};
use queue_lock::single_threaded;

use super::pin::{InUse, changes, count_change, enter, in_use};
use super::{
    CHUNK, CHUNKS, DIRECTORY, ENTRY, ENTRY_WORDS, Entry, GRACE, Lookup, MAX_KEYS, PATIENCE_WITH_PEERS, PINS,
    ROOT, Table, USERS, made_as, pack, publish, read,
};
use crate::shm::error::{Error, Result};
use crate::shm::lock::{Liveness, Owner, PATIENCE};
use crate::shm::numbering;
use crate::shm::sealed;
use crate::shm::segment::Segment;

/// Indices that rest before one is used again.
const RESTING: usize = 64;

/// What the owner knows of an index.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    key8: u8,
    sequence: u32,
    used: bool,
    /// Removed, but not known to be unused yet.
    pending: bool,
}

/// The owner's records of its keys.
#[derive(Debug)]
pub struct Keys {
    segment: Arc<Segment>,
    table: u64,
    /// How often entries changed.
    changes: AtomicU64,
    /// The entries once more, where no peer writes.
    private: Box<[OnceLock<Box<[AtomicU64]>>]>,
    records: Mutex<Records>,
}

/// Memory for the private copy of a chunk.
fn private_chunk() -> Result<Box<[AtomicU64]>> {
    Ok(try_filled(CHUNK as usize * ENTRY_WORDS, || AtomicU64::new(0))?)
}

#[derive(Debug, Default)]
pub(super) struct Records {
    /// Offsets of the chunks: the directory as the owner knows it, whatever a peer writes there.
    pub(super) chunks: Vec<u64>,
    /// By index as they were made; index 0 is there and never used.
    entries: Vec<Record>,
    /// Indices to use again, the longest unused first; where they are chosen at random, all that nobody has.
    pub(super) free: VecDeque<u32>,
}

impl Keys {
    /// Makes the table of a segment, once. Errors: [`Error::NoMemory`].
    pub fn new(segment: Arc<Segment>) -> Result<Self> {
        let table = segment.alloc(DIRECTORY + 8 * u64::from(CHUNKS), 64)?.offset;
        segment.root(ROOT)?.store(table, Ordering::Release);
        let records = Records { entries: try_collect([Record::default()])?, ..Records::default() };
        let private = try_filled(CHUNKS as usize, OnceLock::new)?;
        Ok(Keys { segment, table, changes: AtomicU64::new(0), private, records: Mutex::new(records) })
    }

    pub(super) fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// As which index a key was made, and the other way round.
    fn made_as(&self, index: u32) -> u32 {
        made_as(index, self.segment.first_chunk())
    }

    /// Writes the entry of an index as it was made.
    fn write(&self, records: &mut Records, index: u32, content: [u64; 6]) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let chunk = *records.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let words = ENTRY_WORDS;
        let shared = self.segment.memory().words(chunk + ENTRY * u64::from(index % CHUNK), words)?;
        // Made when its first entry was added.
        let private = self.private_place(index / CHUNK).get().ok_or(Error::OutOfBounds)?;
        let private = &private[(index % CHUNK) as usize * words..][..words];
        let sequence = &mut records.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?.sequence;
        *sequence = sequence.wrapping_add(2);
        let sealed = match self.segment.sealed() {
            Some(sealed) => Some(sealed.memory().words(sealed::KEYS + ENTRY * u64::from(index), words)?),
            None => None,
        };
        for entry in [Some(private), sealed, Some(shared)].into_iter().flatten() {
            publish(entry, content, *sequence);
        }
        count_change(&self.changes);
        Ok(())
    }

    /// The private copy of a key's entry, whatever it says.
    #[inline]
    fn own(&self, key: u32) -> Option<&[AtomicU64]> {
        let words = self.private.get(((key >> 8) / CHUNK) as usize)?.get()?;
        Some(&words[((key >> 8) % CHUNK) as usize * ENTRY_WORDS..][..ENTRY_WORDS])
    }

    /// A number that is another one after each change of a key: what was looked up before still holds while it
    /// is the same.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        changes(&self.changes)
    }

    /// The entry of an own key, by the owner's own records: without a lock, and whatever peers write.
    #[inline(always)]
    pub fn local(&self, key: u32) -> Option<Entry> {
        self.quiet(self.own(key)?, key)
    }

    /// As [`Keys::local`], for use of the memory: it stays registered as long as the second value lives.
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

    /// Counts a user of an own key as [`Keys::hold`] does, for who knows its entry from before: if
    /// [`Keys::changes`] afterwards is what it was then, the memory stays registered as long as the value
    /// lives. `None` where there never was such a key.
    #[inline(always)]
    pub fn enter(&self, key: u32) -> Option<InUse<'_>> {
        if single_threaded() {
            return Some(InUse(None));
        }
        let words = self.own(key)?;
        enter(words);
        Some(InUse(Some(&words[USERS])))
    }

    #[inline(always)]
    fn quiet(&self, words: &[AtomicU64], key: u32) -> Option<Entry> {
        match read(words, key) {
            Err(Lookup::Torn) => {
                // A thread of this process changes it, and was put to sleep.
                let _quiet = self.records();
                read(words, key).ok()
            }
            other => other.ok(),
        }
    }

    /// As [`Keys::local`], for a window: also peers may have invalidated it.
    pub fn window(&self, key: u32) -> Option<Entry> {
        let mut entry = self.local(key)?;
        let _quiet = self.records();
        entry.key.valid &= Table::shared(&self.segment).lookup(key).is_ok_and(|entry| entry.key.valid);
        Some(entry)
    }

    /// The private copy of a chunk as it was made.
    fn private_place(&self, chunk: u32) -> &OnceLock<Box<[AtomicU64]>> {
        &self.private[(self.made_as(chunk * CHUNK) / CHUNK) as usize]
    }

    /// Makes the chunk behind the last one.
    fn make_chunk(&self, records: &mut Records) -> Result<()> {
        let chunk = records.chunks.len() as u32;
        if chunk == CHUNKS {
            return Err(Error::NoMemory);
        }
        records.chunks.try_reserve(1)?;
        let private = self.private_place(chunk);
        if private.get().is_none() {
            let _ = private.set(private_chunk()?);
        }
        if let Some(sealed) = self.segment.sealed() {
            sealed.grow(sealed::KEYS + ENTRY * u64::from((chunk + 1) * CHUNK))?;
        }
        let offset = self.segment.alloc(ENTRY * u64::from(CHUNK), 64)?.offset;
        let at = self.table + DIRECTORY + 8 * u64::from(self.made_as(chunk * CHUNK) / CHUNK);
        self.segment.memory().u64(at)?.store(offset, Ordering::Release);
        records.chunks.push_reserved(offset);
        Ok(())
    }

    /// The index behind the last one, or the one that nobody had for longest.
    fn next(&self, records: &mut Records) -> Result<u32> {
        // While there are fresh indices, used ones rest, so that an old key stays useless for longer.
        if records.free.len() >= RESTING || records.entries.len() as u32 >= MAX_KEYS {
            return records.free.pop_front().ok_or(Error::NoMemory);
        }
        let index = records.entries.len() as u32;
        records.entries.try_reserve(1)?;
        // For the day when all are free.
        let used = records.entries.len() + 1 - records.free.len();
        records.free.try_reserve(used)?;
        if (index / CHUNK) as usize == records.chunks.len() {
            self.make_chunk(records)?;
        }
        records.entries.push_reserved(Record::default());
        Ok(index)
    }

    /// A random one of those that nobody had for long.
    fn any(&self, records: &mut Records) -> Result<u32> {
        if records.free.len() <= RESTING && records.chunks.len() < CHUNKS as usize {
            let first = records.chunks.len() as u32 * CHUNK;
            let (most, resting) = ((first + CHUNK) as usize, records.free.len());
            records.entries.try_fill(most, Record::default)?;
            records.free.try_reserve(most - resting)?;
            self.make_chunk(records)?;
            (first..first + CHUNK)
                .filter(|index| *index != 0 && ![0, MAX_KEYS - 1].contains(&self.made_as(*index)))
                .for_each(|index| records.free.push_reserved(index));
            // Those of before rest behind them.
            records.free.rotate_left(resting);
        }
        let rested = records.free.len().saturating_sub(RESTING).max(1);
        let chosen = numbering::below(rested as u32)?;
        records.free.swap_remove_front(chosen as usize).ok_or(Error::NoMemory)
    }

    /// Adds an entry; answers its key. Errors: [`Error::NoMemory`]; [`Error::Os`] where the system has no
    /// random numbers.
    pub fn add(&self, entry: &Entry) -> Result<u32> {
        let mut records = self.records();
        let is_random = self.segment.numbering().is_random();
        // Another one than the last.
        let step = if is_random { 1 + numbering::below(0xff)? as u8 } else { 1 };
        let index = if is_random { self.any(&mut records)? } else { self.next(&mut records)? };
        let record = &mut records.entries[index as usize];
        *record = Record { key8: record.key8.wrapping_add(step), used: true, ..*record };
        let key8 = record.key8;
        self.write(&mut records, index, pack(entry, key8))?;
        Ok(self.made_as(index) << 8 | u32::from(key8))
    }

    /// Changes the entry of `key`, which from now on has the 8 bits `key8`: binding and invalidating a window.
    /// Users that had looked up the old entry may still go by it: see [`Keys::wait_unused`]. Errors:
    /// [`Error::OutOfBounds`] when there is no such key.
    pub fn change(&self, key: u32, key8: u8, entry: &Entry) -> Result<u32> {
        let mut records = self.records();
        let index = self.check(&records, key)?;
        records.entries[index as usize].key8 = key8;
        self.write(&mut records, index, pack(entry, key8))?;
        Ok(key & !0xff | u32::from(key8))
    }

    /// As which index a key was made, if there is such a key.
    fn check(&self, records: &Records, key: u32) -> Result<u32> {
        let index = self.made_as(key >> 8);
        let known = records.entries.get(index as usize).is_some_and(|b| b.used && b.key8 == key as u8);
        if known { Ok(index) } else { Err(Error::OutOfBounds) }
    }

    /// Removes a key and waits until no thread of this process and no living other one uses it any more, at
    /// most `limit`. `Ok(false)` when that passed: the key is gone, but its memory may still be accessed, and
    /// its index is not used again before [`Keys::wait_unused`] says so. Errors: [`Error::OutOfBounds`] when
    /// there is no such key.
    pub fn remove(&self, key: u32, liveness: &impl Liveness, limit: Duration) -> Result<bool> {
        let mut records = self.records();
        let index = self.check(&records, key)?;
        self.write(&mut records, index, [0; 6])?;
        let record = &mut records.entries[index as usize];
        *record = Record { used: false, pending: true, ..*record };
        drop(records);
        self.wait_unused(key, liveness, limit)
    }

    /// Waits until no living process uses a key any more that was removed or changed, at most `limit`;
    /// `Ok(false)` when that passed.
    pub fn wait_unused(&self, key: u32, liveness: &impl Liveness, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        if !self.wait_for_threads(key, start, limit) || !self.wait_for_peers(key, liveness, start, limit)? {
            return Ok(false);
        }
        self.retire(key);
        Ok(true)
    }

    /// As [`Keys::wait_unused`], for [`PATIENCE_WITH_PEERS`]. A peer that still uses the key then cannot reach
    /// its memory any more, now or later. Own threads are waited for as long as they take.
    pub fn end_use(&self, key: u32, liveness: &impl Liveness) -> Result<()> {
        let start = Instant::now();
        let unused = self.wait_for_peers(key, liveness, start, PATIENCE_WITH_PEERS)?;
        if !unused {
            self.revoke(key, liveness)?;
        }
        while !self.wait_for_threads(key, Instant::now(), PATIENCE_WITH_PEERS) {}
        self.retire(key);
        Ok(())
    }

    /// Keeps peers that looked a key up before from this process's memory: the kernel refuses the copies that
    /// they have not begun. A peer that still has the right looks the key up again.
    #[cold]
    fn revoke(&self, key: u32, liveness: &impl Liveness) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        // Without sealed memory peers reach nothing directly, and the owner's service goes by private records.
        if let Some(sealed) = self.segment.sealed() {
            sealed.revoke();
            // For whom the kernel is at work.
            self.wait_for_peers(key, liveness, Instant::now(), GRACE)?;
        }
        Ok(())
    }

    /// The index of a removed key may be used again.
    fn retire(&self, key: u32) {
        let mut records = self.records();
        let index = self.made_as(key >> 8);
        if let Some(record) = records.entries.get_mut(index as usize)
            && record.pending
            && record.key8 == key as u8
        {
            record.pending = false;
            records.free.push_reserved(index);
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
