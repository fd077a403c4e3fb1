//! The owner's side of the tables: objects made, resized and ended.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ironverbs_os::growth::{TryFill, TryInsert, TryPush, try_room};

use super::host::Host;
use super::layout::*;
use crate::queues::direct::shared::Head;
use crate::queues::fence::{Cut, cut};
use crate::queues::shared::{ATTRIBUTES, CqWord, Memory as _, Object, QpWord, SrqWord, Word, held, slot};
use crate::shm::error::{Error, Result};
use crate::shm::lock::{Liveness, Lock, Owner};
use crate::shm::memory::Memory as Mapping;
use crate::shm::numbering::{self, Numbering};
use crate::shm::segment::{Block, Segment};

/// Indices that rest before one is used again.
pub(super) const RESTING: usize = 128;

/// Random indices that are tried, of which one is free where half of all are, but once in 2^64.
const GUESSES: u32 = 64;

/// The owner's records of its objects.
#[derive(Debug)]
pub struct Objects {
    segment: Arc<Segment>,
    kinds: [Mutex<Kind>; 3],
    places: Mutex<Places>,
    /// See [`Objects::moves`].
    moves: AtomicU64,
}

/// Places that a queue was moved away from.
#[derive(Debug, Default)]
struct Places {
    moved: Vec<Moved>,
    /// Bodies that nobody writes to any more.
    free: Vec<u64>,
}

/// Where a holder that was fenced off may still write.
#[derive(Debug)]
struct Moved {
    holder: Owner,
    body: u64,
    ring: Option<Block>,
}

/// Places that may wait for their holders: each is one more process that was stopped with a lock.
const MOVED: usize = 256;

/// Locks of queue pairs that a process may have at a time for a queue to be moved away from it: it has one for
/// each thread that sends.
const MOST_HELD: usize = 128;

#[derive(Debug, Default)]
struct Kind {
    directory: u64,
    /// Offsets of the chunks, 0 where there is none: the directory as the owner knows it, whatever a peer
    /// writes there.
    chunks: Vec<u64>,
    /// Per index the last generation and, as long as it is not given back, its ring.
    entries: Vec<(u64, Option<Block>)>,
    /// Bodies that are not the entry itself.
    bodies: HashMap<u32, u64>,
    /// Indices to use again, the longest unused first.
    free: VecDeque<u32>,
}

impl Kind {
    fn entry(&self, index: u32) -> Option<u64> {
        let chunk = self.chunks.get((index / CHUNK) as usize).filter(|chunk| **chunk != 0)?;
        Some(chunk + ENTRY * u64::from(index % CHUNK))
    }

    fn body(&self, index: u32) -> Option<u64> {
        self.bodies.get(&index).copied().or_else(|| self.entry(index))
    }
}

impl Objects {
    /// Root offsets of the three directories in the segment's header.
    pub const ROOTS: [usize; 3] = [0, 1, 2];

    /// Makes the tables of a segment, once. Errors: [`Error::NoMemory`].
    pub fn new(segment: Arc<Segment>) -> Result<Self> {
        let make = |root: usize| -> Result<Mutex<Kind>> {
            let directory = segment.alloc(8 * u64::from(MAX_OBJECTS / CHUNK), 64)?.offset;
            segment.root(root)?.store(directory, Ordering::Release);
            Ok(Mutex::new(Kind { directory, ..Kind::default() }))
        };
        let kinds = [make(Self::ROOTS[0])?, make(Self::ROOTS[1])?, make(Self::ROOTS[2])?];
        Ok(Objects { segment, kinds, places: Mutex::default(), moves: AtomicU64::new(0) })
    }

    fn kind(&self, which: usize) -> MutexGuard<'_, Kind> {
        self.kinds[which].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Makes an object; `like` tells its kind, its number is ignored.
    ///
    /// Errors: [`Error::NoMemory`], also at [`MAX_OBJECTS`]; [`Error::OutOfBounds`] for a shape that is not
    /// possible.
    pub fn create(&self, like: Object, shape: Shape) -> Result<Object> {
        let shape = shape.settled(like);
        let words = shape.words(like).ok_or(Error::OutOfBounds)?;
        let ring = self.segment.alloc(8 * words, 64)?;
        let mut table = self.kind(kind(like).0);
        let most = if matches!(like, Object::Cq(_)) { MAX_OBJECTS } else { MAX_NUMBERED };
        let picked = match (like, self.segment.numbering()) {
            (Object::Qp(_), Numbering::AtRandom) => self.pick_any(&mut table, most),
            _ => self.pick(&mut table, most),
        };
        let index = match picked {
            Ok(index) => index,
            Err(e) => {
                self.segment.free(ring);
                return Err(e);
            }
        };
        let entry = table.entry(index).ok_or(Error::OutOfBounds)?;
        let store = |word: u64, value: u64| -> Result<()> {
            self.segment.memory().u64(entry + word)?.store(value, Ordering::Release);
            Ok(())
        };
        let body = table.bodies.get(&index).copied();
        let at = body.unwrap_or(entry);
        for word in [STATE].into_iter().chain((WORDS..ENTRY).step_by(8)) {
            self.segment.memory().u64(at + word)?.store(0, Ordering::Release);
        }
        store(BODY, body.unwrap_or(0))?;
        store(RING, ring.offset)?;
        store(SHAPE, u64::from(shape.capacity) | u64::from(shape.receive_words) << 32)?;
        store(BELLS, bell_word(&shape))?;
        let slot = &mut table.entries[index as usize];
        *slot = (slot.0 + 1, Some(ring));
        store(GENERATION, slot.0)?;
        Ok(match like {
            Object::Qp(_) => Object::Qp(index),
            Object::Srq(_) => Object::Srq(index),
            Object::Cq(_) => Object::Cq(index),
        })
    }

    fn pick(&self, table: &mut Kind, most: u32) -> Result<u32> {
        let index = table.entries.len() as u32;
        // While there are fresh indices, used ones rest, so that an old number stays useless for longer.
        if table.free.len() >= RESTING || index >= most {
            return table.free.pop_front().ok_or(Error::NoMemory);
        }
        table.entries.try_reserve(1)?;
        // For the day when all are free.
        let used = table.entries.len() + 1 - table.free.len();
        table.free.try_reserve(used)?;
        self.make_chunk(table, index / CHUNK)?;
        table.entries.push_reserved((0, None));
        Ok(index)
    }

    /// Any index that nobody has or had lately.
    fn pick_any(&self, table: &mut Kind, most: u32) -> Result<u32> {
        table.entries.try_fill(most as usize, || (0, None))?;
        // For the day when all are free.
        table.free.try_reserve(most as usize - table.free.len())?;
        let is_free = |index: &u32| table.entries[*index as usize].1.is_none() && !table.free.contains(index);
        let first = numbering::below(most)?;
        // Where nearly all are taken, the next free one.
        let mut guesses = (0..GUESSES).filter_map(|_| numbering::below(most).ok());
        let found = guesses.find(is_free).or_else(|| (first..most).chain(0..first).find(is_free));
        let index = match found {
            Some(index) => index,
            None => table.free.pop_front().ok_or(Error::NoMemory)?,
        };
        self.make_chunk(table, index / CHUNK)?;
        if table.free.len() > RESTING {
            table.free.pop_front();
        }
        Ok(index)
    }

    /// Makes a chunk of entries, unless it is there.
    fn make_chunk(&self, table: &mut Kind, chunk: u32) -> Result<()> {
        table.chunks.try_fill(chunk as usize + 1, || 0)?;
        if table.chunks[chunk as usize] == 0 {
            let made = self.segment.alloc(ENTRY * u64::from(CHUNK), 128)?.offset;
            let at = table.directory + 8 * u64::from(chunk);
            self.segment.memory().u64(at)?.store(made, Ordering::Release);
            table.chunks[chunk as usize] = made;
        }
        Ok(())
    }

    /// Gives a queue another ring of `capacity` entries of `words` words. `fill` copies what is to stay into
    /// the new ring, whose offset it is told. The caller holds the queue's lock; others find the new ring when
    /// they lock it.
    ///
    /// Errors: [`Error::NoMemory`]; [`Error::OutOfBounds`] when there is no such object or capacity,
    /// [`Error::Forked`]. Nothing has changed then.
    pub fn resize(
        &self,
        object: Object,
        capacity: u32,
        words: u32,
        fill: impl FnOnce(&Mapping, u64),
    ) -> Result<()> {
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let (memory, entry) = (self.segment.memory(), table.entry(index).ok_or(Error::OutOfBounds)?);
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        let before = slot.1.ok_or(Error::OutOfBounds)?;
        let word = |at: u64| memory.u64(entry + at);
        let shape = Shape { capacity, receive_words: words, bell: None, alert: None };
        let ring = self.segment.alloc(8 * shape.words(object).ok_or(Error::OutOfBounds)?, 64)?;
        fill(memory, ring.offset);
        let packed = u64::from(capacity) | u64::from(words) << 32;
        // Peers that look without the lock wait until it is done.
        word(GENERATION)?.store(slot.0 | MOVING, Ordering::Release);
        word(RING)?.store(ring.offset, Ordering::Release);
        word(SHAPE)?.store(packed, Ordering::Release);
        *slot = (moved(slot.0), Some(ring));
        word(GENERATION)?.store(slot.0, Ordering::Release);
        self.segment.free(before);
        Ok(())
    }

    /// Moves a completion queue or shared receive queue away from a living holder of its lock that does not go
    /// on ([`cut`]). `host` is this segment; `count` what the owner alone knows: entries taken, or requests
    /// posted. Whether it was moved: not when the holder has let go, or does what nobody could finish for it.
    /// The owner does nothing else with the queue meanwhile, and looks afterwards where it is.
    ///
    /// Errors: [`Error::NoMemory`]; [`Error::OutOfBounds`] when there is no such queue, [`Error::Forked`].
    /// Nothing has changed then.
    pub fn relocate(&self, host: &Host, object: Object, holder: Owner, count: u32) -> Result<bool> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        self.settle_moved();
        let old = host.layout(object).ok_or(Error::OutOfBounds)?;
        let mut held = try_room(MOST_HELD)?;
        if matches!(object, Object::Qp(_)) || self.cut(host, object, holder, &mut held).is_none() {
            return Ok(false);
        }
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let slot = table.entries.get(index as usize).copied().filter(|slot| slot.0 == old.generation);
        // Where it stands by the owner's own table, whatever others wrote there.
        let slot = slot.filter(|_| table.body(index) == Some(old.body));
        let (memory, before) = (self.segment.memory(), slot.and_then(|s| s.1).ok_or(Error::OutOfBounds)?);
        table.bodies.try_reserve(1)?;
        {
            let Places { moved, free } = &mut *self.places();
            moved.try_reserve(1)?;
            // For the day when nobody writes to any of them, nor to the one that is taken now.
            free.try_reserve(moved.len() + 2)?;
        }
        let body = match self.places().free.pop() {
            Some(body) => body,
            None => self.segment.alloc(ENTRY, 128)?.offset,
        };
        // A holder that goes on reads what was posted, and writes nothing there.
        let ring = if let Object::Cq(_) = object { Some(self.segment.alloc(before.len, 64)) } else { None };
        let ring = ring.transpose();
        let lock = Lock::at(memory.u64(old.body + LOCK)?);
        // One queue at a time, and nothing can fail once the lock was taken.
        let mut places = self.places();
        let is_in_reach = |at: u64, bytes: u64| memory.words(at, (bytes / 8) as usize).is_ok();
        let is_possible = places.moved.len() < MOVED
            && is_in_reach(old.entry, ENTRY)
            && is_in_reach(body, ENTRY)
            && ring.as_ref().is_ok_and(|ring| ring.is_none_or(|ring| is_in_reach(ring.offset, ring.len)));
        self.moves.fetch_add(1, Ordering::SeqCst);
        let is_taken = is_possible && lock.take_from(holder, self.segment.owner());
        if let (true, Object::Srq(srq)) = (is_taken, object) {
            // Direct rings take no more requests from there.
            let head = place(&old, Word::Srq(srq, SrqWord::Head));
            if let Ok(head) = memory.u64(head) {
                head.fetch_or(Head::moved(), Ordering::AcqRel);
            }
        }
        let whole = if is_taken { self.cut(host, object, holder, &mut held) } else { None };
        for (qp, fence) in whole.iter().flat_map(|cut| &cut.fences) {
            host.store(Word::Qp(*qp, QpWord::Fence), fence.pack());
        }
        self.moves.fetch_add(1, Ordering::SeqCst);
        if !is_taken {
            places.free.push_reserved(body);
            ring?.into_iter().for_each(|ring| self.segment.free(ring));
            return Ok(false);
        }
        let ring = ring.unwrap_or_default();
        let now = Layout { body, ring: ring.map_or(old.ring, |ring| ring.offset), ..old };
        self.furnish(object, [&old, &now], count, whole.as_ref());
        // Peers that look without the lock wait until it is done.
        self.put(old.entry + GENERATION, old.generation | MOVING);
        self.put(old.entry + RING, now.ring);
        self.put(old.entry + BODY, body);
        table.entries[index as usize] = (moved(old.generation), ring.or(Some(before)));
        table.bodies.set_reserved(index, body);
        self.put(old.entry + GENERATION, moved(old.generation));
        places.moved.push_reserved(Moved { holder, body: old.body, ring: ring.map(|_| before) });
        lock.close();
        Ok(true)
    }

    /// How often queues began and ended to be taken from their holders: odd while a
    /// [`Fence`](crate::queues::shared::Fence) is about to be set.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// Stores a word of the own segment, which is there.
    fn put(&self, at: u64, value: u64) {
        if let Ok(word) = self.segment.memory().u64(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Fills the new place of a queue. Without a [`Cut`] it is as a holder that died leaves it: the first to
    /// lock it repairs it.
    fn furnish(&self, object: Object, [old, now]: [&Layout; 2], count: u32, whole: Option<&Cut>) {
        let memory = self.segment.memory();
        let load = |word: Word| memory.u64(place(old, word)).map_or(0, |word| word.load(Ordering::Acquire));
        let put = |word: Word, value: u64| self.put(place(now, word), value);
        let words: [Option<Word>; 5] = match object {
            Object::Cq(cq) => [CqWord::Journal, CqWord::Tail, CqWord::Armed, CqWord::Events, CqWord::Seen]
                .map(|word| Some(Word::Cq(cq, word))),
            Object::Srq(srq) => {
                [SrqWord::Journal, SrqWord::Head, SrqWord::Limit, SrqWord::Events, SrqWord::Seen]
                    .map(|word| Some(Word::Srq(srq, word)))
            }
            Object::Qp(_) => [None; 5],
        };
        for (place, word) in words.iter().flatten().enumerate() {
            let value = whole.map_or_else(|| load(*word), |cut| cut.words[place]);
            let is_head = matches!(word, Word::Srq(_, SrqWord::Head));
            put(*word, if is_head { Head(value).shut().0 } else { value });
        }
        for word in 0..ATTRIBUTES {
            let word = Word::Attribute { object, word };
            put(word, load(word));
        }
        let mut is_whole = whole.is_some();
        match object {
            Object::Cq(cq) => {
                put(Word::Cq(cq, CqWord::Head), u64::from(count));
                let capacity = old.shape.capacity;
                let tail = whole.map(|cut| cut.words[1]);
                // What is not counted was published afterwards, and by nobody.
                let entries =
                    tail.map_or(capacity, |tail| held(u64::from(count), tail, capacity).unwrap_or(0));
                for slot in 0..capacity {
                    put(Word::Entry { cq, slot, word: 0 }, u64::from(slot.wrapping_sub(capacity)));
                }
                for count in (0..entries).map(|n| count.wrapping_add(n)) {
                    let slot = slot(count, capacity);
                    for word in (0..old.shape.receive_words).rev() {
                        let word = Word::Entry { cq, slot, word };
                        put(word, load(word));
                    }
                }
            }
            Object::Srq(srq) => {
                put(Word::Srq(srq, SrqWord::Tail), u64::from(count));
                // A claim that happened is not followed by everything yet.
                is_whole &= whole.is_some_and(|cut| cut.words[0] == 0);
            }
            Object::Qp(_) => {}
        }
        if let Ok(lock) = memory.u64(now.body + LOCK) {
            lock.store(0, Ordering::Release);
            if !is_whole {
                let (lock, me) = (Lock::at(lock), self.segment.owner());
                let _ = lock.try_lock(me) && lock.abandon(me);
            }
        }
    }

    /// As [`cut`], for a queue whose lock this process has, with room for the queue pairs whose locks it has,
    /// too. `None` also for more of them than there is room.
    fn cut(&self, host: &Host, object: Object, holder: Owner, room: &mut Vec<u32>) -> Option<Cut> {
        let table = self.kind(kind(Object::Qp(0)).0);
        let has = |index: &u32| {
            let exists = table.entries.get(*index as usize).is_some_and(|entry| entry.0 & 1 == 1);
            let body = table.body(*index).filter(|_| exists);
            let lock = body.and_then(|body| self.segment.memory().u64(body + LOCK).ok()).map(Lock::at);
            lock.is_some_and(|lock| lock.owner() == Some(holder))
        };
        room.clear();
        for qp in (0..table.entries.len() as u32).filter(has) {
            if room.len() == room.capacity() {
                return None;
            }
            room.push_reserved(qp);
        }
        drop(table);
        cut(host, object, room)
    }

    /// Gives back places whose holders went on or died.
    pub fn settle_moved(&self) {
        if !self.segment.is_mine() {
            return;
        }
        let mut places = self.places();
        let Places { moved, free } = &mut *places;
        moved.retain(|place| {
            let lock = self.segment.memory().u64(place.body + LOCK).map(Lock::at);
            let is_over = lock.is_ok_and(Lock::was_left) || !self.segment.lives(place.holder);
            if is_over {
                free.push_reserved(place.body);
                place.ring.into_iter().for_each(|ring| self.segment.free(ring));
            }
            !is_over
        });
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Changes the bell of asynchronous events. A process that holds the object's lock meanwhile may still ring
    /// the old one.
    ///
    /// Errors: [`Error::OutOfBounds`] when there is no such object.
    pub fn set_alert(&self, object: Object, alert: u32) -> Result<()> {
        let (which, index) = kind(object);
        let table = self.kind(which);
        let entry = table.entry(index).ok_or(Error::OutOfBounds)?;
        let known = table.entries.get(index as usize).is_some_and(|entry| entry.0 & 1 == 1);
        let word = self.segment.memory().u64(entry + BELLS)?;
        if !known {
            return Err(Error::OutOfBounds);
        }
        let bells = Shape { capacity: 0, receive_words: 0, bell: None, alert: Some(alert) };
        word.store(word.load(Ordering::Acquire) & u64::from(u32::MAX) | bell_word(&bells), Ordering::Release);
        Ok(())
    }

    /// Ends an object. The caller holds its lock, so no transaction is under way; peers find it gone
    /// afterwards.
    ///
    /// Errors: [`Error::OutOfBounds`] when there is none, [`Error::Forked`].
    pub fn destroy(&self, object: Object) -> Result<()> {
        self.retire(object)?;
        self.free(object)
    }

    /// Ends an object, also while a process has its lock: peers find it gone afterwards, but its memory and its
    /// index are kept until [`Objects::free`] or [`Objects::try_free`].
    ///
    /// Errors: as those of [`Objects::destroy`].
    pub fn retire(&self, object: Object) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let entry = table.entry(index).ok_or(Error::OutOfBounds)?;
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        if slot.0 & 1 == 0 {
            return Err(Error::OutOfBounds);
        }
        slot.0 += 1;
        self.segment.memory().u64(entry + GENERATION)?.store(slot.0, Ordering::Release);
        Ok(())
    }

    /// Gives back what a retired object had. Nobody has its lock, or the caller has had it since: a process
    /// that gets it later finds the object gone.
    ///
    /// Errors: as those of [`Objects::destroy`].
    pub fn free(&self, object: Object) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        let ring = slot.1.take_if(|_| slot.0 & 1 == 0).ok_or(Error::OutOfBounds)?;
        table.free.push_reserved(index);
        self.segment.free(ring);
        Ok(())
    }

    /// As [`Objects::free`], once nobody has the object's lock any more; whether that was so.
    ///
    /// Errors: as those of [`Objects::destroy`].
    pub fn try_free(&self, object: Object) -> Result<bool> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let (which, index) = kind(object);
        let body = self.kind(which).body(index).ok_or(Error::OutOfBounds)?;
        // The place that it had last: if that is closed, the word was forged.
        let lock = Lock::of_what_stays(self.segment.memory().u64(body + LOCK)?);
        let me = self.segment.owner();
        // What was left half done went with the object.
        if lock.lock(me, &*self.segment, Duration::ZERO).is_none() {
            return Ok(false);
        }
        lock.unlock(me);
        self.free(object).map(|()| true)
    }
}
