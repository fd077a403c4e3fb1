//! The queues in a segment: where the words of [`crate::core::shared`] stand.
//!
//! Three tables, one per kind of object, each a directory of chunks of entries:
//!
//! | word of an entry | meaning |
//! |---|---|
//! | 0 | generation: odd while the object exists, and never the same twice in a row |
//! | 1 | offset of the ring, for a queue pair followed by the request it holds |
//! | 2 | capacity, and words of a receive request in the high half |
//! | 3 | bell of the completion queue, and of asynchronous events in the high half; numbers plus one, 0 for none |
//! | 8 | lock |
//! | 9 to 14 | the shared words, in their order |
//!
//! A lock stays where it is for ever, so a peer that waits for the lock of an object that goes away meets no other use of
//! the memory: it must look at [`Memory::exists`] once it has the lock.
//!
//! A peer copies an entry once, checks it against the segment's size, and then uses its copy until the generation
//! changes. What it read may be wrong but never leads outside: each access is checked against the mapping again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use crate::core::completion::ENTRY_WORDS;
use crate::core::receive::RECEIVE_WORDS;
use crate::core::shared::{Memory, Object, Word};
use crate::core::transport::{Locked, Transport};

use super::bell::Rope;
use super::error::{Error, Result};
use super::lock::{Acquired, Lock, Owner};
use super::memory::Memory as Mapping;
use super::segment::{Block, Peer, Segment};

/// Objects of one kind that a segment can have.
pub const MAX_OBJECTS: u32 = 1 << 16;
/// Largest number of entries in a ring.
pub const MAX_CAPACITY: u32 = 1 << 22;

const CHUNK: u32 = 256;
const ENTRY: u64 = 128;
const GENERATION: u64 = 0;
const RING: u64 = 8;
const SHAPE: u64 = 16;
const BELLS: u64 = 24;
const LOCK: u64 = 64;
const WORDS: u64 = 72;
/// Words from one completion entry to the next: a cache line.
const ENTRY_STRIDE: u64 = 8;
const _: () = assert!(ENTRY_WORDS as u64 <= ENTRY_STRIDE);

fn kind(object: Object) -> (usize, u32) {
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
    pub capacity: u32,
    /// Words of a receive request (`2 + 2 × max_sge`); 0 for a completion queue.
    pub receive_words: u32,
    /// Number of the bell of a completion queue.
    pub bell: Option<u32>,
    /// Number of the bell of asynchronous events.
    pub alert: Option<u32>,
}

impl Shape {
    /// Words of the ring and of what follows it; `None` when the shape is not possible.
    fn words(&self, object: Object) -> Option<u64> {
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
            Object::Cq(_) if ring && capacity > 0 => Some(capacity * ENTRY_STRIDE),
            _ => None,
        }
    }
}

/// A checked copy of an entry.
#[derive(Debug, Clone, Copy)]
struct Layout {
    generation: u64,
    entry: u64,
    ring: u64,
    shape: Shape,
}

fn bell_word(shape: &Shape) -> u64 {
    let half = |n: Option<u32>| n.map_or(0, |n| u64::from(n.wrapping_add(1)));
    half(shape.bell) | half(shape.alert) << 32
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

/// Copies an entry and checks it; `None` when there is no such object, or its entry cannot be true.
fn copy(memory: &Mapping, directory: u64, object: Object) -> Option<Layout> {
    let entry = find(memory, directory, kind(object).1).ok()?;
    let load = |word| memory.u64(entry + word).ok().map(|w| w.load(Ordering::Acquire));
    let generation = load(GENERATION)?;
    let (ring, shape, bells) = (load(RING)?, load(SHAPE)?, load(BELLS)?);
    let number = |n: u64| (n as u32).checked_sub(1);
    let shape = Shape {
        capacity: shape as u32,
        receive_words: (shape >> 32) as u32,
        bell: number(bells),
        alert: number(bells >> 32),
    };
    let words = usize::try_from(shape.words(object)?).ok()?;
    let whole = generation & 1 == 1 && memory.words(ring, words).is_ok();
    (whole && load(GENERATION)? == generation).then_some(Layout { generation, entry, ring, shape })
}

/// The address of a word, by a layout. Whoever uses it checks it against the mapping.
fn place(layout: &Layout, word: Word) -> u64 {
    let shape = &layout.shape;
    match word {
        Word::Qp(_, w) => layout.entry + WORDS + 8 * w as u64,
        Word::Srq(_, w) => layout.entry + WORDS + 8 * w as u64,
        Word::Cq(_, w) => layout.entry + WORDS + 8 * w as u64,
        Word::Receive { slot, word, .. } => {
            layout.ring + 8 * (u64::from(slot) * u64::from(shape.receive_words) + u64::from(word))
        }
        Word::Claimed { word, .. } => {
            layout.ring + 8 * (u64::from(shape.capacity) * u64::from(shape.receive_words) + u64::from(word))
        }
        Word::Entry { slot, word, .. } => {
            layout.ring + 8 * (u64::from(slot) * ENTRY_STRIDE + u64::from(word))
        }
    }
}

fn object_of(word: Word) -> Object {
    match word {
        Word::Qp(i, _) | Word::Claimed { qp: i, .. } => Object::Qp(i),
        Word::Srq(i, _) => Object::Srq(i),
        Word::Cq(i, _) | Word::Entry { cq: i, .. } => Object::Cq(i),
        Word::Receive { queue, .. } => queue,
    }
}

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
    /// Per index the last generation and, while the object exists, its ring.
    entries: Vec<(u64, Option<Block>)>,
    free: Vec<u32>,
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
        let words = shape.words(like).ok_or(Error::OutOfBounds)?;
        let ring = self.segment.alloc(8 * words, 64)?;
        let mut table = self.kind(kind(like).0);
        let index = match self.pick(&mut table) {
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

    fn pick(&self, table: &mut Kind) -> Result<u32> {
        if let Some(index) = table.free.pop() {
            return Ok(index);
        }
        let index = table.entries.len() as u32;
        if index >= MAX_OBJECTS {
            return Err(Error::NoMemory);
        }
        if index.is_multiple_of(CHUNK) {
            let chunk = self.segment.alloc(ENTRY * u64::from(CHUNK), 128)?.offset;
            let at = table.directory + 8 * u64::from(index / CHUNK);
            self.segment.memory().u64(at)?.store(chunk, Ordering::Release);
            table.chunks.push(chunk);
        }
        table.entries.push((0, None));
        Ok(index)
    }

    /// Ends an object. The caller holds its lock, so no transaction is under way; peers find it gone afterwards.
    pub fn destroy(&self, object: Object) -> Result<()> {
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let chunk = *table.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        let ring = slot.1.take().ok_or(Error::OutOfBounds)?;
        slot.0 += 1;
        let generation = slot.0;
        let entry = chunk + ENTRY * u64::from(index % CHUNK);
        self.segment.memory().u64(entry + GENERATION)?.store(generation, Ordering::Release);
        table.free.push(index);
        self.segment.free(ring);
        Ok(())
    }
}

/// Whose segment a [`Host`] works on.
#[derive(Debug)]
enum Target {
    Own,
    Peer(Arc<Peer>),
}

/// How long a lock is waited for while its owner lives, unless [`Host::with_limit`] says otherwise.
pub const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// One segment, own or a peer's, as the transactions of the protocol see it.
///
/// A lock that a living process keeps for longer than the limit (it was stopped, or its memory lies) makes the segment
/// [given up](Host::is_given_up): from then on it has no objects, reads as zero and is not written, so a transaction under
/// way ends and changes nothing more. The caller looks at this after each transaction, and takes it for a peer that does
/// not answer.
#[derive(Debug)]
pub struct Host {
    limit: Duration,
    given_up: AtomicBool,
    me: Arc<Segment>,
    target: Target,
    layouts: RwLock<HashMap<Object, Layout>>,
    ropes: Mutex<HashMap<u32, Option<Rope>>>,
}

impl Host {
    /// This process's own segment.
    pub fn own(me: Arc<Segment>) -> Self {
        Self::of(me, Target::Own)
    }

    /// A peer's segment.
    pub fn of_peer(me: Arc<Segment>, peer: Arc<Peer>) -> Self {
        Self::of(me, Target::Peer(peer))
    }

    fn of(me: Arc<Segment>, target: Target) -> Self {
        Host {
            limit: LOCK_LIMIT,
            given_up: AtomicBool::new(false),
            me,
            target,
            layouts: RwLock::default(),
            ropes: Mutex::default(),
        }
    }

    /// Waits for locks at most this long.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Host { limit, ..self }
    }

    /// Whether a lock could not be had in time. Stays so.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    fn memory(&self) -> &Mapping {
        match &self.target {
            Target::Own => self.me.memory(),
            Target::Peer(peer) => peer.memory(),
        }
    }

    fn owner(&self) -> Owner {
        match &self.target {
            Target::Own => self.me.owner(),
            Target::Peer(peer) => peer.owner(),
        }
    }

    fn directory(&self, object: Object) -> Option<u64> {
        let root = Objects::ROOTS[kind(object).0];
        match &self.target {
            Target::Own => self.me.root(root).ok().map(|r| r.load(Ordering::Acquire)),
            Target::Peer(peer) => peer.root(root).ok(),
        }
    }

    /// The checked copy of the object's entry, made anew when its generation is another.
    fn layout(&self, object: Object) -> Option<Layout> {
        if let Some(known) = self.known(object)
            && self.memory().u64(known.entry).is_ok_and(|g| g.load(Ordering::Acquire) == known.generation)
        {
            return Some(known);
        }
        let directory = self.directory(object)?;
        let mut fresh = copy(self.memory(), directory, object);
        if fresh.is_none()
            && let Target::Peer(peer) = &self.target
        {
            // The segment may have grown since it was mapped.
            let before = self.memory().len();
            if peer.refresh().is_ok_and(|now| now > before) {
                fresh = copy(self.memory(), directory, object);
            }
        }
        let mut layouts = self.layouts.write().unwrap_or_else(|e| e.into_inner());
        match fresh {
            Some(layout) => layouts.insert(object, layout),
            None => layouts.remove(&object),
        };
        fresh
    }

    fn known(&self, object: Object) -> Option<Layout> {
        self.layouts.read().unwrap_or_else(|e| e.into_inner()).get(&object).copied()
    }

    /// The copy that [`Memory::exists`] made; made now for who did not ask.
    fn used(&self, object: Object) -> Option<Layout> {
        if self.is_given_up() {
            return None;
        }
        self.known(object).or_else(|| self.layout(object))
    }

    fn ring_bell(&self, number: Option<u32>) {
        let Some(number) = number else { return };
        let mut ropes = self.ropes.lock().unwrap_or_else(|e| e.into_inner());
        let rope =
            ropes.entry(number).or_insert_with(|| Rope::find(self.me.folder(), self.owner(), number).ok());
        if let Some(rope) = rope {
            rope.ring();
        }
    }
}

impl Memory for Host {
    fn load(&self, word: Word) -> u64 {
        let Some(layout) = self.used(object_of(word)) else { return 0 };
        self.memory().u64(place(&layout, word)).map_or(0, |w| w.load(Ordering::Acquire))
    }

    fn store(&self, word: Word, value: u64) {
        let Some(layout) = self.used(object_of(word)) else { return };
        if let Ok(w) = self.memory().u64(place(&layout, word)) {
            w.store(value, Ordering::Release);
        }
    }

    fn exists(&self, object: Object) -> bool {
        !self.is_given_up() && self.layout(object).is_some()
    }

    fn capacity(&self, object: Object) -> u32 {
        self.used(object).map_or(0, |l| l.shape.capacity)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.used(queue).map_or(0, |l| l.shape.receive_words)
    }
}

impl Transport for Host {
    /// Waits as long as the owner lives, but not longer than the limit. An object that is not there counts as locked: nothing of it can be changed.
    fn lock(&self, object: Object) -> Locked {
        let Some(layout) = self.used(object) else { return Locked::Clean };
        let Ok(word) = self.memory().u64(layout.entry + LOCK) else { return Locked::Clean };
        match Lock::at(word).lock(self.me.owner(), &*self.me, self.limit) {
            Some(Acquired::Clean) => Locked::Clean,
            Some(Acquired::Recovered) => Locked::Recovered,
            None => {
                self.given_up.store(true, Ordering::Relaxed);
                Locked::Clean
            }
        }
    }

    /// Also after the segment was given up: what was locked before must not stay so.
    fn unlock(&self, object: Object) {
        if let Some(layout) = self.known(object)
            && let Ok(word) = self.memory().u64(layout.entry + LOCK)
        {
            Lock::at(word).unlock(self.me.owner());
        }
    }

    fn bell(&self, cq: u32) {
        self.ring_bell(self.used(Object::Cq(cq)).and_then(|l| l.shape.bell));
    }

    fn alert(&self, object: Object) {
        self.ring_bell(self.used(object).and_then(|l| l.shape.alert));
    }
}
