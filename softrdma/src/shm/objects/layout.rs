//! Where an entry stands in its table and each word in its entry; what an object is made of.

use std::sync::atomic::Ordering;

use crate::queues::completion::{ENTRY_WORDS, HEAD_WORDS};
use crate::queues::receive::RECEIVE_WORDS;
use crate::queues::shared::{ATTRIBUTES, Object, QpWord, SrqWord, Word};
use crate::shm::error::{Error, Result};
use crate::shm::memory::Memory as Mapping;

/// Objects of one kind that a segment can have.
pub const MAX_OBJECTS: u32 = 1 << 16;
/// Queue pairs, and shared receive queues, that a segment can have: their numbers have 14 bits for the index,
/// and three that nobody has (0, 1 and the one with all bits set).
pub const MAX_NUMBERED: u32 = (1 << 14) - 3;
/// Largest number of entries in a ring.
pub const MAX_CAPACITY: u32 = 1 << 22;

pub(super) const CHUNK: u32 = 256;
pub(super) const ENTRY: u64 = 256;
pub(super) const GENERATION: u64 = 0;
/// In the word of the generation: the object is there, and its owner is giving it another place or another ring
/// just now.
pub(super) const MOVING: u64 = 1 << 63;
/// What a move or another ring adds to the generation. The half below stays, as it is the same object.
pub(super) const MOVE: u64 = 1 << 32;
pub(super) const RING: u64 = 8;
pub(super) const SHAPE: u64 = 16;
pub(super) const BELLS: u64 = 24;
pub(super) const STATE: u64 = 32;
pub(super) const BODY: u64 = 40;
pub(super) const LOCK: u64 = 64;
pub(super) const WORDS: u64 = 72;
pub(super) const OWNERS: u64 = 128;
pub(super) const ATTRIBUTES_AT: u64 = 192;
/// Words of a body.
pub(super) const BODY_WORDS: usize = (ENTRY / 8) as usize;
const _: () = assert!(WORDS + 8 * SrqWord::COUNT as u64 <= OWNERS);
const _: () = assert!(ATTRIBUTES_AT + 8 * ATTRIBUTES as u64 <= ENTRY);
/// Words of a completion entry in a queue with so many entries that payload in each would take too much: a
/// cache line.
const SMALL_ENTRY: u32 = 8;
/// Entries of a completion queue up to which each has room for payload.
const STAGING: u32 = 1 << 16;
const _: () = assert!(HEAD_WORDS < SMALL_ENTRY && SMALL_ENTRY < ENTRY_WORDS);

/// The generation after a move or another ring, which never says that one is under way, however many there
/// were.
pub(super) fn moved(generation: u64) -> u64 {
    generation.wrapping_add(MOVE) & !MOVING
}

#[inline(always)]
pub(super) fn kind(object: Object) -> (usize, u32) {
    match object {
        Object::Qp(i) => (0, i),
        Object::Srq(i) => (1, i),
        Object::Cq(i) => (2, i),
    }
}

/// What an object is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Entries of the ring: a power of two, at most [`MAX_CAPACITY`], or 0 for a queue pair without one.
    /// For receive requests see [`ring_capacity`](crate::queues::receive::ring_capacity).
    pub capacity: u32,
    /// Words of a receive request (`2 + 2 × max_sge`); of an entry for a completion queue, 0 for what serves
    /// best.
    pub receive_words: u32,
    /// Number of the bell of a completion queue.
    pub bell: Option<u32>,
    /// Number of the bell of asynchronous events.
    pub alert: Option<u32>,
}

impl Shape {
    /// With what serves best.
    pub(super) fn settled(self, like: Object) -> Self {
        let words = if self.capacity <= STAGING { ENTRY_WORDS } else { SMALL_ENTRY };
        match like {
            Object::Cq(_) if self.receive_words == 0 => Shape { receive_words: words, ..self },
            _ => self,
        }
    }

    /// Words of the ring and of what follows it; `None` when the shape is not possible.
    pub(super) fn words(&self, object: Object) -> Option<u64> {
        let ring = (self.capacity.is_power_of_two() && self.capacity <= MAX_CAPACITY) || self.capacity == 0;
        let receive = (2..=RECEIVE_WORDS).contains(&self.receive_words);
        let capacity = u64::from(self.capacity);
        match object {
            Object::Qp(_) if ring && receive => {
                Some(capacity * u64::from(self.receive_words) + u64::from(RECEIVE_WORDS))
            }
            Object::Srq(_) if ring && receive && capacity > 0 => {
                Some(capacity * u64::from(self.receive_words))
            }
            Object::Cq(_)
                if ring && capacity > 0 && (HEAD_WORDS..=ENTRY_WORDS).contains(&self.receive_words) =>
            {
                Some(capacity * u64::from(self.receive_words))
            }
            _ => None,
        }
    }
}

/// A checked copy of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) generation: u64,
    pub(super) entry: u64,
    /// Where its lock and its words are.
    pub(super) body: u64,
    pub(super) ring: u64,
    /// Words of the ring and of what follows it.
    pub(super) ring_words: usize,
    pub(super) shape: Shape,
}

pub(super) fn bell_word(shape: &Shape) -> u64 {
    let half = |n: Option<u32>| n.map_or(0, |n| u64::from(n.wrapping_add(1)));
    half(shape.bell) | half(shape.alert) << 32
}

/// The number in the low half of a word of bells.
pub(super) fn bell_number(half: u64) -> Option<u32> {
    (half as u32).checked_sub(1)
}

/// Finds an entry by the tables as they stand in memory.
fn find(memory: &Mapping, directory: u64, index: u32) -> Result<u64> {
    if index >= MAX_OBJECTS || directory == 0 {
        return Err(Error::OutOfBounds);
    }
    let slot = directory.checked_add(8 * u64::from(index / CHUNK)).ok_or(Error::OutOfBounds)?;
    let chunk = memory.u64(slot)?.load(Ordering::Acquire);
    if chunk == 0 {
        return Err(Error::OutOfBounds);
    }
    let entry = chunk.checked_add(ENTRY * u64::from(index % CHUNK)).ok_or(Error::OutOfBounds)?;
    memory.words(entry, (ENTRY / 8) as usize)?;
    Ok(entry)
}

/// The word of an object's generation; `None` where the tables have no such entry.
pub(super) fn generation(memory: &Mapping, directory: u64, object: Object) -> Option<u64> {
    let entry = find(memory, directory, kind(object).1).ok()?;
    Some(memory.u64(entry + GENERATION).ok()?.load(Ordering::Acquire))
}

/// Copies an entry and checks it; `None` when there is no such object, or its entry cannot be true, and while
/// it is moved or resized.
pub(super) fn copy(memory: &Mapping, directory: u64, object: Object) -> Option<Layout> {
    let entry = find(memory, directory, kind(object).1).ok()?;
    let load = |word| memory.u64(entry + word).ok().map(|w| w.load(Ordering::Acquire));
    let generation = load(GENERATION)?;
    let (ring, shape, bells) = (load(RING)?, load(SHAPE)?, load(BELLS)?);
    let body = Some(load(BODY)?).filter(|body| *body != 0).unwrap_or(entry);
    memory.words(body, (ENTRY / 8) as usize).ok()?;
    let number = bell_number;
    let shape = Shape {
        capacity: shape as u32,
        receive_words: (shape >> 32) as u32,
        bell: number(bells),
        alert: number(bells >> 32),
    };
    let ring_words = usize::try_from(shape.words(object)?).ok()?;
    let whole = generation & (MOVING | 1) == 1 && memory.words(ring, ring_words).is_ok();
    let layout = Layout { generation, entry, body, ring, ring_words, shape };
    (whole && load(GENERATION)? == generation).then_some(layout)
}

impl Layout {
    /// Whether it is the same object, though it may have been moved or resized.
    pub(super) fn is_same(&self, other: &Layout) -> bool {
        self.generation as u32 == other.generation as u32
    }
}

/// Where a word stands, counted in words.
#[derive(Debug, Clone, Copy)]
pub(super) enum Spot {
    /// In the body, below [`BODY_WORDS`].
    Body(usize),
    /// In the ring or in what follows it.
    Ring(usize),
}

/// Where a word of an object of this shape stands.
#[inline(always)]
pub(super) fn spot(shape: &Shape, word: Word) -> Spot {
    const fn body(bytes: u64) -> Spot {
        Spot::Body((bytes / 8) as usize)
    }
    let ring = |slot: u32, word: u32| {
        Spot::Ring((u64::from(slot) * u64::from(shape.receive_words) + u64::from(word)) as usize)
    };
    match word {
        Word::Qp(_, w) if w.is_owners() => body(OWNERS),
        Word::Srq(_, w) if w.is_owners() => body(OWNERS),
        Word::Cq(_, w) if w.is_owners() => body(OWNERS),
        Word::Qp(_, QpWord::State) => body(STATE),
        // In the place that the owner's word does not use.
        Word::Qp(_, QpWord::Fence) => body(WORDS + 8 * QpWord::Tail as u64),
        Word::Qp(_, w) => body(WORDS + 8 * w as u64),
        Word::Srq(_, w) => body(WORDS + 8 * w as u64),
        Word::Cq(_, w) => body(WORDS + 8 * w as u64),
        Word::Receive { slot, word, .. } | Word::Entry { slot, word, .. } => ring(slot, word),
        Word::Claimed { word, .. } => ring(shape.capacity, word),
        // Elsewhere: nothing is found there.
        Word::Direct { .. } | Word::Shared { .. } => Spot::Ring(usize::MAX >> 4),
        Word::Attribute { word, .. } => body(ATTRIBUTES_AT + 8 * u64::from(word & (ATTRIBUTES - 1))),
    }
}

/// The offset of a word in the segment, by a layout. The caller checks it against the mapping.
#[inline(always)]
pub(super) fn place(layout: &Layout, word: Word) -> u64 {
    match spot(&layout.shape, word) {
        Spot::Body(word) => layout.body + 8 * word as u64,
        Spot::Ring(word) => layout.ring + 8 * word as u64,
    }
}

#[inline(always)]
pub(super) fn object_of(word: Word) -> Object {
    match word {
        Word::Qp(i, _) | Word::Claimed { qp: i, .. } | Word::Direct { qp: i, .. } => Object::Qp(i),
        Word::Srq(i, _) | Word::Shared { srq: i, .. } => Object::Srq(i),
        Word::Cq(i, _) | Word::Entry { cq: i, .. } => Object::Cq(i),
        Word::Receive { queue, .. } => queue,
        Word::Attribute { object, .. } => object,
    }
}
