//! The owner's side of the tables: objects made, resized and ended.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::layout::*;
use crate::core::shared::Object;
use crate::host::error::{Error, Result};
use crate::host::lock::Lock;
use crate::host::memory::Memory as Mapping;
use crate::host::segment::{Block, Segment};

/// Indices that rest before one is used again.
pub(super) const RESTING: usize = 128;

/// The owner's books of its objects.
#[derive(Debug)]
pub struct Objects {
    segment: Arc<Segment>,
    kinds: [Mutex<Kind>; 3],
}

#[derive(Debug, Default)]
struct Kind {
    directory: u64,
    /// Offsets of the chunks: the directory as the owner knows it, whatever a peer writes there.
    chunks: Vec<u64>,
    /// Per index the last generation and, as long as it is not given back, its ring.
    entries: Vec<(u64, Option<Block>)>,
    /// Indices to use again, the longest unused first.
    free: VecDeque<u32>,
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
        Ok(Objects { segment, kinds })
    }

    fn kind(&self, which: usize) -> MutexGuard<'_, Kind> {
        self.kinds[which].lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Makes an object; `like` tells its kind, its number is ignored.
    ///
    /// Errors: [`Error::NoMemory`], also at [`MAX_OBJECTS`]; [`Error::OutOfBounds`] for a shape that is not possible.
    pub fn create(&self, like: Object, shape: Shape) -> Result<Object> {
        let shape = shape.settled(like);
        let words = shape.words(like).ok_or(Error::OutOfBounds)?;
        let ring = self.segment.alloc(8 * words, 64)?;
        let mut table = self.kind(kind(like).0);
        let most = if matches!(like, Object::Cq(_)) { MAX_OBJECTS } else { MAX_NUMBERED };
        let index = match self.pick(&mut table, most) {
            Ok(index) => index,
            Err(e) => {
                self.segment.free(ring);
                return Err(e);
            }
        };
        let entry = table.chunks[(index / CHUNK) as usize] + ENTRY * u64::from(index % CHUNK);
        let store = |word: u64, value: u64| -> Result<()> {
            self.segment.memory().u64(entry + word)?.store(value, Ordering::Release);
            Ok(())
        };
        store(STATE, 0)?;
        for word in 0..(ENTRY - WORDS) / 8 {
            store(WORDS + 8 * word, 0)?;
        }
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
        if index.is_multiple_of(CHUNK) {
            table.chunks.try_reserve(1)?;
            let chunk = self.segment.alloc(ENTRY * u64::from(CHUNK), 128)?.offset;
            let at = table.directory + 8 * u64::from(index / CHUNK);
            self.segment.memory().u64(at)?.store(chunk, Ordering::Release);
            table.chunks.push(chunk);
        }
        table.entries.push((0, None));
        Ok(index)
    }

    /// Gives a queue another ring of `capacity` entries of `words` words. `fill` copies what is to stay into the new ring, whose offset it is
    /// told. The caller holds the queue's lock; others find the new ring when they lock it.
    ///
    /// Errors: [`Error::NoMemory`]; [`Error::OutOfBounds`] when there is no such object or capacity, [`Error::Forked`].
    /// Nothing has changed then.
    pub fn resize(
        &self,
        object: Object,
        capacity: u32,
        words: u32,
        fill: impl FnOnce(&Mapping, u64),
    ) -> Result<()> {
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let chunk = *table.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        let before = slot.1.ok_or(Error::OutOfBounds)?;
        let (memory, entry) = (self.segment.memory(), chunk + ENTRY * u64::from(index % CHUNK));
        let word = |at: u64| memory.u64(entry + at);
        let shape = Shape { capacity, receive_words: words, bell: None, alert: None };
        let ring = self.segment.alloc(8 * shape.words(object).ok_or(Error::OutOfBounds)?, 64)?;
        fill(memory, ring.offset);
        let packed = u64::from(capacity) | u64::from(words) << 32;
        // Between two generations there is no such object for whoever looks without the lock.
        word(GENERATION)?.store(slot.0 + 1, Ordering::Release);
        word(RING)?.store(ring.offset, Ordering::Release);
        word(SHAPE)?.store(packed, Ordering::Release);
        *slot = (slot.0 + 2, Some(ring));
        word(GENERATION)?.store(slot.0, Ordering::Release);
        self.segment.free(before);
        Ok(())
    }

    /// Changes the bell of asynchronous events. Who holds the object's lock meanwhile may still ring the one before.
    ///
    /// Errors: [`Error::OutOfBounds`] when there is no such object.
    pub fn set_alert(&self, object: Object, alert: u32) -> Result<()> {
        let (which, index) = kind(object);
        let table = self.kind(which);
        let chunk = *table.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let known = table.entries.get(index as usize).is_some_and(|entry| entry.0 & 1 == 1);
        let word = self.segment.memory().u64(chunk + ENTRY * u64::from(index % CHUNK) + BELLS)?;
        if !known {
            return Err(Error::OutOfBounds);
        }
        let bells = Shape { capacity: 0, receive_words: 0, bell: None, alert: Some(alert) };
        word.store(word.load(Ordering::Acquire) & u64::from(u32::MAX) | bell_word(&bells), Ordering::Release);
        Ok(())
    }

    /// Ends an object. The caller holds its lock, so no transaction is under way; peers find it gone afterwards.
    ///
    /// Errors: [`Error::OutOfBounds`] when there is none, [`Error::Forked`].
    pub fn destroy(&self, object: Object) -> Result<()> {
        self.retire(object)?;
        self.free(object)
    }

    /// Ends an object, whoever has its lock: peers find it gone afterwards, but its memory and its index are kept until
    /// [`Objects::free`] or [`Objects::try_free`].
    ///
    /// Errors: as those of [`Objects::destroy`].
    pub fn retire(&self, object: Object) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let chunk = *table.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        if slot.0 & 1 == 0 {
            return Err(Error::OutOfBounds);
        }
        slot.0 += 1;
        let entry = chunk + ENTRY * u64::from(index % CHUNK);
        self.segment.memory().u64(entry + GENERATION)?.store(slot.0, Ordering::Release);
        Ok(())
    }

    /// Gives back what an object had that was retired. Nobody has its lock, or it was had since: whoever got it later has found
    /// the object gone.
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
        table.free.push_back(index);
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
        let chunk = self.kind(which).chunks.get((index / CHUNK) as usize).copied();
        let entry = chunk.ok_or(Error::OutOfBounds)? + ENTRY * u64::from(index % CHUNK);
        let lock = Lock::at(self.segment.memory().u64(entry + LOCK)?);
        let me = self.segment.owner();
        // What was left half done went with the object.
        if lock.lock(me, &*self.segment, Duration::ZERO).is_none() {
            return Ok(false);
        }
        lock.unlock(me);
        self.free(object).map(|()| true)
    }
}
