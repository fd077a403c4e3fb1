//! The queues in a segment: where the words of [`crate::core::shared`] stand.
//!
//! Three tables, one per kind of object, each a directory of chunks of entries:
//!
//! | word of an entry | meaning |
//! |---|---|
//! | 0 | generation: odd while the object exists, and never the same twice in a row |
//! | 1 | offset of the ring, for a queue pair followed by the request it holds |
//! | 2 | capacity, and words of a receive request, or of a completion entry, in the high half |
//! | 3 | bell of the completion queue, and of asynchronous events in the high half; numbers plus one, 0 for none |
//! | 8 | lock |
//! | 9 to 15 | the shared words that are written behind the lock, in their order |
//! | 16 | the word that the owner writes without it, on a cache line of its own |
//! | 24 to 31 | attributes |
//!
//! An entry stays where it is for ever, so a peer that waits for the lock of an object that goes away meets no other use
//! of the memory. Once it has the lock it looks at the generation, and gives the lock back when the object is gone.
//!
//! A peer copies an entry once, checks it against the segment's size, and then uses its copy until the generation
//! changes. What it read may be wrong but never leads outside: each access is checked against the mapping again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use crate::core::completion::{ENTRY_WORDS, HEAD_WORDS};
use crate::core::receive::RECEIVE_WORDS;
use crate::core::shared::{ATTRIBUTES, Memory, Object, Word};
use crate::core::transport::{LockError, Locked, Transport};

use super::bell::Rope;
use super::error::{Error, Result};
use super::lock::{Acquired, Lock, Owner};
use super::memory::Memory as Mapping;
use super::segment::{Block, Peer, Segment};

/// Objects of one kind that a segment can have.
pub const MAX_OBJECTS: u32 = 1 << 16;
/// Queue pairs, and shared receive queues, that a segment can have: their numbers have 14 bits for the index, and three
/// that nobody has (0, 1 and the one with all bits set).
pub const MAX_NUMBERED: u32 = (1 << 14) - 3;
/// Largest number of entries in a ring.
pub const MAX_CAPACITY: u32 = 1 << 22;

const CHUNK: u32 = 256;
/// Indices that rest before one is used again.
const RESTING: usize = 128;
const ENTRY: u64 = 256;
const GENERATION: u64 = 0;
const RING: u64 = 8;
const SHAPE: u64 = 16;
const BELLS: u64 = 24;
const LOCK: u64 = 64;
const WORDS: u64 = 72;
const OWNERS: u64 = 128;
const ATTRIBUTES_AT: u64 = 192;
/// Words of a completion entry in a queue with so many entries that payload in each would take too much: a cache line.
const SMALL_ENTRY: u32 = 8;
/// Entries of a completion queue up to which each has room for payload.
const STAGING: u32 = 1 << 16;
const _: () = assert!(HEAD_WORDS < SMALL_ENTRY && SMALL_ENTRY < ENTRY_WORDS);

#[inline(always)]
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
    /// For receive requests see [`ring_capacity`](crate::core::receive::ring_capacity).
    pub capacity: u32,
    /// Words of a receive request (`2 + 2 × max_sge`); of an entry for a completion queue, 0 for what serves best.
    pub receive_words: u32,
    /// Number of the bell of a completion queue.
    pub bell: Option<u32>,
    /// Number of the bell of asynchronous events.
    pub alert: Option<u32>,
}

impl Shape {
    /// With what serves best.
    fn settled(self, like: Object) -> Self {
        let words = if self.capacity <= STAGING { ENTRY_WORDS } else { SMALL_ENTRY };
        match like {
            Object::Cq(_) if self.receive_words == 0 => Shape { receive_words: words, ..self },
            _ => self,
        }
    }

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
struct Layout {
    generation: u64,
    entry: u64,
    ring: u64,
    shape: Shape,
}

/// What a [`Host`] knows of an object.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its entry, which stays where it is when the object goes away.
    entry: u64,
    layout: Option<Layout>,
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
#[inline(always)]
fn place(layout: &Layout, word: Word) -> u64 {
    let shape = &layout.shape;
    match word {
        Word::Qp(_, w) if w.is_owners() => layout.entry + OWNERS,
        Word::Srq(_, w) if w.is_owners() => layout.entry + OWNERS,
        Word::Cq(_, w) if w.is_owners() => layout.entry + OWNERS,
        Word::Qp(_, w) => layout.entry + WORDS + 8 * w as u64,
        Word::Srq(_, w) => layout.entry + WORDS + 8 * w as u64,
        Word::Cq(_, w) => layout.entry + WORDS + 8 * w as u64,
        Word::Receive { slot, word, .. } | Word::Entry { slot, word, .. } => {
            layout.ring + 8 * (u64::from(slot) * u64::from(shape.receive_words) + u64::from(word))
        }
        Word::Claimed { word, .. } => {
            layout.ring + 8 * (u64::from(shape.capacity) * u64::from(shape.receive_words) + u64::from(word))
        }
        Word::Attribute { word, .. } => layout.entry + ATTRIBUTES_AT + 8 * u64::from(word & (ATTRIBUTES - 1)),
    }
}

#[inline(always)]
fn object_of(word: Word) -> Object {
    match word {
        Word::Qp(i, _) | Word::Claimed { qp: i, .. } => Object::Qp(i),
        Word::Srq(i, _) => Object::Srq(i),
        Word::Cq(i, _) | Word::Entry { cq: i, .. } => Object::Cq(i),
        Word::Receive { queue, .. } => queue,
        Word::Attribute { object, .. } => object,
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
        if index.is_multiple_of(CHUNK) {
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

    /// Ends an object. The caller holds its lock, so no transaction is under way; peers find it gone afterwards.
    ///
    /// Errors: [`Error::OutOfBounds`] when there is none, [`Error::Forked`].
    pub fn destroy(&self, object: Object) -> Result<()> {
        if !self.segment.is_mine() {
            return Err(Error::Forked);
        }
        let (which, index) = kind(object);
        let mut table = self.kind(which);
        let chunk = *table.chunks.get((index / CHUNK) as usize).ok_or(Error::OutOfBounds)?;
        let slot = table.entries.get_mut(index as usize).ok_or(Error::OutOfBounds)?;
        let ring = slot.1.take().ok_or(Error::OutOfBounds)?;
        slot.0 += 1;
        let generation = slot.0;
        let entry = chunk + ENTRY * u64::from(index % CHUNK);
        self.segment.memory().u64(entry + GENERATION)?.store(generation, Ordering::Release);
        table.free.push_back(index);
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

/// Bells of one segment whose descriptors are kept open.
const ROPES: usize = 32;

/// One segment, own or a peer's, as the transactions of the protocol see it.
///
/// A lock that a living process keeps for longer than the limit (it was stopped, or its memory lies) is an error of the
/// operation that waits, and of no other. The caller takes it for a peer that does not answer.
#[derive(Debug)]
pub struct Host {
    limit: Duration,
    me: Arc<Segment>,
    target: Target,
    /// By kind and index.
    entries: [RwLock<Vec<Option<Known>>>; 3],
    ropes: Mutex<HashMap<u32, Rope>>,
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
        Host { limit: LOCK_LIMIT, me, target, entries: Default::default(), ropes: Mutex::default() }
    }

    /// Waits for locks at most this long.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Host { limit, ..self }
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
            && self.is_current(&known)
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
        let (kind, index) = kind(object);
        let mut entries = self.entries[kind].write().unwrap_or_else(|e| e.into_inner());
        let index = index as usize;
        match entries.get_mut(index) {
            // An entry that stands elsewhere than before is a lie.
            Some(Some(known)) => {
                known.layout = fresh.filter(|layout| layout.entry == known.entry);
                known.layout
            }
            _ => {
                let layout = fresh?;
                if entries.len() <= index {
                    // Below MAX_OBJECTS: it was found.
                    entries.resize(index + 1, None);
                }
                entries[index] = Some(Known { entry: layout.entry, layout: fresh });
                fresh
            }
        }
    }

    fn look(&self, object: Object) -> Option<Known> {
        let (kind, index) = kind(object);
        *self.entries[kind].read().unwrap_or_else(|e| e.into_inner()).get(index as usize)?
    }

    fn known(&self, object: Object) -> Option<Layout> {
        self.look(object)?.layout
    }

    /// The copy that [`Memory::exists`] made; made now for who did not ask.
    fn used(&self, object: Object) -> Option<Layout> {
        self.known(object).or_else(|| self.layout(object))
    }

    /// Where the object's entry is, also after the object went away.
    fn entry(&self, object: Object) -> Option<u64> {
        Some(self.look(object)?.entry)
    }

    /// The lock of an entry; none for a forked child, which must not sign with its parent's name.
    fn lock_at(&self, entry: u64) -> Option<&Lock> {
        if !self.me.is_mine() {
            return None;
        }
        self.memory().u64(entry + LOCK).ok().map(Lock::at)
    }

    /// Whether the entry has still this generation.
    fn is_current(&self, layout: &Layout) -> bool {
        self.memory()
            .u64(layout.entry + GENERATION)
            .is_ok_and(|g| g.load(Ordering::Acquire) == layout.generation)
    }

    /// Where a word stands in the segment: an owner's short cut to its own objects. It stays there as long as the object
    /// exists.
    pub fn offset(&self, word: Word) -> Option<u64> {
        self.layout(object_of(word)).map(|layout| place(&layout, word))
    }

    /// Looks up where these objects are; those that are not there are left out.
    pub fn find(&self, objects: [Option<Object>; 3]) -> Held {
        let mut held = Held::default();
        for object in objects.into_iter().flatten() {
            held.0[kind(object).0] = self.layout(object).map(|layout| (kind(object).1, layout));
        }
        held
    }

    /// The same segment for work on objects that were looked up before.
    #[inline]
    pub fn with<'a>(&'a self, held: &'a Held) -> View<'a> {
        View { host: self, memory: self.memory(), held, mine: self.me.is_mine() }
    }

    /// Rings; `false` when the bell is there and cannot be reached.
    fn ring_bell(&self, number: Option<u32>) -> bool {
        let Some(number) = number else { return true };
        let mut ropes = self.ropes.lock().unwrap_or_else(|e| e.into_inner());
        // One that is not found now is looked for again: descriptors may have run out.
        if !ropes.contains_key(&number)
            && let Ok(rope) = Rope::find(self.me.folder(), self.owner(), number)
        {
            // Bells come and go, and nobody tells: those that are still there are found again.
            if ropes.len() >= ROPES {
                ropes.clear();
            }
            ropes.insert(number, rope);
        }
        ropes.get(&number).is_some_and(|rope| {
            rope.ring();
            true
        })
    }
}

/// Where the objects of an operation are: a queue pair, a shared receive queue and a completion queue of one segment,
/// looked up once. They may go away: a lock of one that did is not had.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held([Option<(u32, Layout)>; 3]);

impl Held {
    #[inline(always)]
    fn get(&self, object: Object) -> Option<&Layout> {
        let (kind, index) = kind(object);
        self.0[kind].as_ref().filter(|held| held.0 == index).map(|held| &held.1)
    }

    /// Whether the object was found.
    #[must_use]
    pub fn has(&self, object: Object) -> bool {
        self.get(object).is_some()
    }

    /// The generation of the object, when it was found.
    #[must_use]
    pub fn generation(&self, object: Object) -> Option<u64> {
        self.get(object).map(|layout| layout.generation)
    }

    /// Also what the other has found.
    pub fn add(&mut self, other: &Held) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = theirs.or(*mine);
        }
    }
}

/// A [`Host`] with some objects at hand: no table is asked for them. For one operation: that the process is not a forked
/// child is looked at once.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    host: &'a Host,
    memory: &'a Mapping,
    held: &'a Held,
    mine: bool,
}

impl View<'_> {
    /// Whether the object is the one that was found: one load, no look at a table.
    #[inline]
    #[must_use]
    pub fn is_current(&self, object: Object) -> bool {
        self.held.get(object).is_some_and(|layout| self.host.is_current(layout))
    }

    /// Does something with the object's layout.
    #[inline(always)]
    fn used<T>(&self, object: Object, act: impl FnOnce(&Layout) -> T) -> Option<T> {
        match self.held.get(object) {
            Some(layout) => Some(act(layout)),
            None => self.elsewhere(object).map(|layout| act(&layout)),
        }
    }

    /// An object that is not at hand.
    #[cold]
    #[inline(never)]
    fn elsewhere(&self, object: Object) -> Option<Layout> {
        self.host.used(object)
    }

    #[inline(always)]
    fn word(&self, word: Word) -> Option<&AtomicU64> {
        let offset = self.used(object_of(word), |layout| place(layout, word))?;
        self.memory.u64(offset).ok()
    }

    fn entry(&self, object: Object) -> Option<u64> {
        self.held.get(object).map(|layout| layout.entry).or_else(|| self.host.entry(object))
    }

    #[inline]
    fn lock_of(&self, entry: u64) -> Option<&Lock> {
        self.mine.then(|| self.memory.u64(entry + LOCK).ok().map(Lock::at))?
    }

    /// Whether the object is there, and still the one whose layout is at hand.
    #[cold]
    fn is_there(&self, object: Object) -> bool {
        let held = self.held.get(object).map(|held| held.generation);
        self.host.layout(object).is_some_and(|now| held.is_none_or(|held| held == now.generation))
    }

    #[inline]
    fn is_as_held(&self, object: Object) -> bool {
        self.is_current(object) || self.is_there(object)
    }
}

impl Memory for View<'_> {
    #[inline(always)]
    fn load(&self, word: Word) -> u64 {
        self.word(word).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn store(&self, word: Word, value: u64) {
        if let Some(word) = self.word(word).filter(|_| self.mine) {
            word.store(value, Ordering::Release);
        }
    }

    fn exists(&self, object: Object) -> bool {
        self.is_there(object)
    }

    #[inline(always)]
    fn capacity(&self, object: Object) -> u32 {
        self.used(object, |layout| layout.shape.capacity).unwrap_or(0)
    }

    #[inline(always)]
    fn receive_words(&self, queue: Object) -> u32 {
        self.used(queue, |layout| layout.shape.receive_words).unwrap_or(0)
    }

    #[inline(always)]
    fn entry_words(&self, cq: u32) -> u32 {
        self.used(Object::Cq(cq), |layout| layout.shape.receive_words).unwrap_or(0)
    }
}

impl Memory for Host {
    fn load(&self, word: Word) -> u64 {
        let Some(layout) = self.used(object_of(word)) else { return 0 };
        self.memory().u64(place(&layout, word)).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, word: Word, value: u64) {
        let Some(layout) = self.used(object_of(word)).filter(|_| self.me.is_mine()) else { return };
        if let Ok(word) = self.memory().u64(place(&layout, word)) {
            word.store(value, Ordering::Release);
        }
    }

    fn exists(&self, object: Object) -> bool {
        self.layout(object).is_some()
    }

    fn capacity(&self, object: Object) -> u32 {
        self.used(object).map_or(0, |layout| layout.shape.capacity)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.used(queue).map_or(0, |layout| layout.shape.receive_words)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.used(Object::Cq(cq)).map_or(0, |layout| layout.shape.receive_words)
    }
}

impl Transport for View<'_> {
    /// Waits as long as the owner lives, but not longer than the limit.
    #[inline]
    fn lock(&self, object: Object) -> std::result::Result<Locked, LockError> {
        let entry = self.used(object, |layout| layout.entry).ok_or(LockError::Gone)?;
        let lock = self.lock_of(entry).ok_or(LockError::Gone)?;
        let (me, host) = (self.host.me.owner(), self.host);
        let acquired = lock.lock(me, &*host.me, host.limit).ok_or(LockError::Busy)?;
        // The object cannot go away from now on: its owner needs the lock for that.
        if self.is_as_held(object) { Ok(locked(acquired)) } else { Err(give_back(lock, me, acquired)) }
    }

    /// Also when the object is gone.
    #[inline]
    fn unlock(&self, object: Object) {
        if let Some(lock) = self.entry(object).and_then(|entry| self.lock_of(entry)) {
            lock.unlock(self.host.me.owner());
        }
    }

    fn abandon(&self, object: Object) {
        if let Some(lock) = self.entry(object).and_then(|entry| self.lock_of(entry)) {
            lock.abandon(self.host.me.owner());
        }
    }

    fn bell(&self, cq: u32) -> bool {
        self.host.ring_bell(self.used(Object::Cq(cq), |layout| layout.shape.bell).flatten())
    }

    fn alert(&self, object: Object) {
        self.host.ring_bell(self.used(object, |layout| layout.shape.alert).flatten());
    }
}

fn locked(acquired: Acquired) -> Locked {
    match acquired {
        Acquired::Clean => Locked::Clean,
        Acquired::Recovered => Locked::Recovered,
    }
}

/// Lets go of the lock of an object that went away.
#[cold]
fn give_back(lock: &Lock, me: Owner, acquired: Acquired) -> LockError {
    match acquired {
        Acquired::Clean => lock.unlock(me),
        Acquired::Recovered => lock.abandon(me),
    };
    LockError::Gone
}

impl Transport for Host {
    /// Waits as long as the owner lives, but not longer than the limit.
    fn lock(&self, object: Object) -> std::result::Result<Locked, LockError> {
        let layout = self.used(object).ok_or(LockError::Gone)?;
        let lock = self.lock_at(layout.entry).ok_or(LockError::Gone)?;
        let me = self.me.owner();
        let acquired = lock.lock(me, &*self.me, self.limit).ok_or(LockError::Busy)?;
        // The object cannot go away from now on: its owner needs the lock for that.
        if self.is_current(&layout) || self.layout(object).is_some() {
            Ok(locked(acquired))
        } else {
            Err(give_back(lock, me, acquired))
        }
    }

    /// Also when the object is gone.
    fn unlock(&self, object: Object) {
        if let Some(lock) = self.entry(object).and_then(|entry| self.lock_at(entry)) {
            lock.unlock(self.me.owner());
        }
    }

    fn abandon(&self, object: Object) {
        if let Some(lock) = self.entry(object).and_then(|entry| self.lock_at(entry)) {
            lock.abandon(self.me.owner());
        }
    }

    fn bell(&self, cq: u32) -> bool {
        self.ring_bell(self.used(Object::Cq(cq)).and_then(|layout| layout.shape.bell))
    }

    fn alert(&self, object: Object) {
        self.ring_bell(self.used(object).and_then(|layout| layout.shape.alert));
    }
}

#[cfg(test)]
mod tests {
    use super::super::bell::Bell;
    use super::super::testing::{TestDir, in_child};
    use super::*;
    use crate::core::completion::{Armed, Completion};
    use crate::core::deliver::{Deliver, Delivered};
    use crate::core::shared::{CqWord, QpJournal, QpWord, SrqWord, Take};
    use crate::core::transport::{acquire, run};
    use crate::core::verbs::WcOpcode;

    const SHAPE: Shape = Shape { capacity: 8, receive_words: 8, bell: None, alert: None };

    #[test]
    fn every_word_has_its_own_place() {
        let dir = TestDir::new("objects");
        let me = Arc::new(Segment::create(dir.folder()).unwrap());
        let objects = Objects::new(me.clone()).unwrap();
        let mut words = Vec::new();
        for _ in 0..2 {
            for like in [Object::Qp(0), Object::Srq(0), Object::Cq(0)] {
                let cq = Shape { receive_words: 0, ..SHAPE };
                let shape = if like == Object::Cq(0) { cq } else { SHAPE };
                let object = objects.create(like, shape).unwrap();
                words.extend((0..ATTRIBUTES).map(|word| Word::Attribute { object, word }));
                match object {
                    qp @ Object::Qp(i) => {
                        use QpWord::*;
                        words.extend(
                            [State, Journal, Head, Tail, Claim, Events, Seen].map(|w| Word::Qp(i, w)),
                        );
                        words.extend((0..RECEIVE_WORDS).map(|word| Word::Claimed { qp: i, word }));
                        words.extend((0..64).map(|n| Word::Receive { queue: qp, slot: n / 8, word: n % 8 }));
                    }
                    srq @ Object::Srq(i) => {
                        use SrqWord::*;
                        words.extend([Journal, Head, Tail, Limit, Events, Seen].map(|w| Word::Srq(i, w)));
                        words.extend((0..64).map(|n| Word::Receive { queue: srq, slot: n / 8, word: n % 8 }));
                    }
                    Object::Cq(i) => {
                        use CqWord::*;
                        words.extend([Journal, Head, Tail, Armed, Events, Seen].map(|w| Word::Cq(i, w)));
                        words.extend((0..8 * ENTRY_WORDS).map(|n| Word::Entry {
                            cq: i,
                            slot: n / ENTRY_WORDS,
                            word: n % ENTRY_WORDS,
                        }));
                    }
                }
            }
        }
        let own = Host::own(me.clone());
        let peer = Host::of_peer(me.clone(), Arc::new(Peer::open(me.folder(), 0).unwrap()));
        let held = peer.find([Some(Object::Qp(1)), Some(Object::Srq(0)), Some(Object::Cq(1))]);
        let view = peer.with(&held);
        for (n, word) in words.iter().enumerate() {
            assert_eq!(own.load(*word), 0);
            own.store(*word, n as u64 + 1);
        }
        for (n, word) in words.iter().enumerate() {
            assert_eq!((peer.load(*word), view.load(*word)), (n as u64 + 1, n as u64 + 1), "{word:?}");
        }
        // The locks are none of these words.
        for object in [Object::Qp(0), Object::Srq(1), Object::Cq(0)] {
            assert_eq!(view.lock(object), Ok(Locked::Clean));
            view.unlock(object);
        }
        for (n, word) in words.iter().enumerate() {
            assert_eq!(view.load(*word), n as u64 + 1, "{word:?}");
        }
    }

    #[test]
    fn shapes_that_are_not_possible() {
        let dir = TestDir::new("objects");
        let me = Arc::new(Segment::create(dir.folder()).unwrap());
        let objects = Objects::new(me).unwrap();
        for shape in [
            Shape { capacity: 3, ..SHAPE },
            Shape { capacity: MAX_CAPACITY * 2, ..SHAPE },
            Shape { receive_words: 1, ..SHAPE },
            Shape { receive_words: RECEIVE_WORDS + 1, ..SHAPE },
        ] {
            assert_eq!(objects.create(Object::Qp(0), shape), Err(Error::OutOfBounds), "{shape:?}");
        }
        let none = Shape { capacity: 0, ..SHAPE };
        assert_eq!(objects.create(Object::Qp(0), none), Ok(Object::Qp(0)));
        assert_eq!(objects.create(Object::Srq(0), none), Err(Error::OutOfBounds));
        assert_eq!(objects.create(Object::Cq(0), none), Err(Error::OutOfBounds));
        assert_eq!(objects.destroy(Object::Cq(0)), Err(Error::OutOfBounds));
        assert_eq!(objects.destroy(Object::Qp(0)), Ok(()));
        assert_eq!(objects.destroy(Object::Qp(0)), Err(Error::OutOfBounds));
    }

    /// Makes objects until one has this place again.
    fn create_again(objects: &Objects, object: Object, shape: Shape) {
        for _ in 0..=RESTING {
            let fresh = objects.create(object, shape).unwrap();
            if fresh == object {
                return;
            }
            objects.destroy(fresh).unwrap();
        }
        panic!("the index is not used again");
    }

    #[test]
    fn an_index_that_is_used_again_is_another_object() {
        let dir = TestDir::new("objects");
        let me = Arc::new(Segment::create(dir.folder()).unwrap());
        let objects = Objects::new(me.clone()).unwrap();
        let peer = Host::of_peer(me.clone(), Arc::new(Peer::open(me.folder(), 0).unwrap()));
        assert!(!peer.exists(Object::Cq(0)) && !peer.exists(Object::Cq(u32::MAX)));
        // More than one chunk, and more than the segment had when it was mapped.
        let all: Vec<Object> = (0..600).map(|_| objects.create(Object::Cq(0), SHAPE).unwrap()).collect();
        let cq = all[599];
        assert_eq!(cq, Object::Cq(599));
        let held = peer.find([Some(cq), None, None]);
        let view = peer.with(&held);
        assert!(peer.exists(cq) && view.exists(cq));
        assert_eq!(view.capacity(cq), 8);
        objects.destroy(cq).unwrap();
        assert!(!peer.exists(cq) && !view.exists(cq));
        create_again(&objects, cq, Shape { capacity: 16, ..SHAPE });
        assert!(peer.exists(cq) && !view.exists(cq));
        assert_eq!(peer.capacity(cq), 16);
    }

    /// A segment with a queue pair and a completion queue, and how another process of the folder sees it.
    fn pair(dir: &TestDir) -> (Objects, Host, Host, Object, Object) {
        let me = Arc::new(Segment::create(dir.folder()).unwrap());
        let other = Arc::new(Segment::create(dir.folder()).unwrap());
        let objects = Objects::new(me.clone()).unwrap();
        let qp = objects.create(Object::Qp(0), SHAPE).unwrap();
        let cq = objects.create(Object::Cq(0), SHAPE).unwrap();
        let peer = Arc::new(Peer::open(me.folder(), me.owner().slot()).unwrap());
        (objects, Host::own(me), Host::of_peer(other, peer), qp, cq)
    }

    #[test]
    fn a_lock_that_is_kept_fails_one_operation_and_no_other() {
        let dir = TestDir::new("objects");
        let (_objects, own, peer, qp, cq) = pair(&dir);
        let waiter = peer.with_limit(Duration::from_millis(30));
        assert_eq!(own.lock(cq), Ok(Locked::Clean));
        // Another operation of the waiting process, half done.
        assert_eq!(waiter.lock(qp), Ok(Locked::Clean));
        assert_eq!(waiter.lock(cq), Err(LockError::Busy));
        waiter.store(Word::Qp(0, QpWord::Head), 5);
        assert_eq!((waiter.exists(cq), own.load(Word::Qp(0, QpWord::Head))), (true, 5));
        waiter.unlock(qp);
        // What is not had is not given back, neither in the own segment nor in another's.
        own.unlock(cq);
        assert_eq!(own.lock(cq), Ok(Locked::Clean));
        own.unlock(cq);
        assert_eq!(waiter.lock(cq), Ok(Locked::Clean));
        waiter.unlock(cq);
    }

    #[test]
    fn a_repair_that_cannot_go_on_leaves_the_news_to_the_next() {
        let dir = TestDir::new("objects");
        let (_objects, own, peer, qp, cq) = pair(&dir);
        let waiter = peer.with_limit(Duration::from_millis(30));
        let journal = QpJournal { published: true, cq: 0, take: Take::Head(1), breaks: false };
        own.store(Word::Qp(0, QpWord::Tail), 1);
        own.store(Word::Qp(0, QpWord::Journal), journal.pack());
        assert_eq!(own.lock(qp), Ok(Locked::Clean));
        own.abandon(qp);
        assert_eq!(own.lock(cq), Ok(Locked::Clean));
        assert_eq!(acquire(&waiter, qp), Err(LockError::Busy));
        assert_eq!(own.load(Word::Qp(0, QpWord::Journal)), journal.pack());
        own.unlock(cq);
        assert_eq!(acquire(&waiter, qp), Ok(()));
        let after = (own.load(Word::Qp(0, QpWord::Journal)), own.load(Word::Qp(0, QpWord::Head)));
        assert_eq!(after, (0, 1));
        waiter.unlock(qp);
        assert_eq!(own.lock(qp), Ok(Locked::Clean));
    }

    #[test]
    fn a_bell_that_cannot_be_rung_stays_asked_for() {
        let dir = TestDir::new("objects");
        let folder = dir.folder();
        let status = in_child(|| {
            let me = Arc::new(Segment::create(folder.clone()).unwrap());
            let bell = Bell::new(&me).unwrap();
            let objects = Objects::new(me.clone()).unwrap();
            let shape = Shape { bell: Some(bell.number()), ..SHAPE };
            assert_eq!(objects.create(Object::Cq(0), shape), Ok(Object::Cq(0)));
            let host = Host::own(me);
            host.store(Word::Cq(0, CqWord::Armed), Armed::Next as u64);
            let descriptors = |n| {
                let limit = libc::rlimit { rlim_cur: n, rlim_max: 1000 };
                // SAFETY: reads the struct given.
                assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
                let entry = Completion::flushed(1, WcOpcode::Send, 1);
                assert_eq!(run(&host, Deliver::append(0, &entry)), Ok(Delivered::Published));
                host.load(Word::Cq(0, CqWord::Armed))
            };
            descriptors(0) == Armed::Next as u64 && descriptors(1000) == Armed::No as u64
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn a_forked_child_changes_nothing() {
        let dir = TestDir::new("objects");
        let (objects, own, peer, qp, cq) = pair(&dir);
        own.store(Word::Qp(0, QpWord::Head), 1);
        assert_eq!(own.lock(qp), Ok(Locked::Clean));
        let status = in_child(|| {
            for host in [&own, &peer] {
                assert_eq!(host.lock(cq), Err(LockError::Gone));
                host.store(Word::Qp(0, QpWord::Head), 2);
                assert_eq!(host.load(Word::Qp(0, QpWord::Head)), 1);
                host.unlock(qp);
            }
            objects.destroy(qp) == Err(Error::Forked)
        });
        assert_eq!(status, 0);
        let waiter = peer.with_limit(Duration::from_millis(1));
        assert_eq!(waiter.lock(qp), Err(LockError::Busy));
        assert!(own.exists(qp));
        own.unlock(qp);
        assert_eq!(own.lock(cq), Ok(Locked::Clean));
    }

    #[test]
    fn an_object_that_went_away_leaves_no_lock_behind() {
        let dir = TestDir::new("objects");
        let (objects, own, peer, qp, _) = pair(&dir);
        for views in [false, true] {
            assert!(peer.exists(qp));
            let held = peer.find([Some(qp), None, None]);
            let view = peer.with(&held);
            assert_eq!(own.lock(qp), Ok(Locked::Clean));
            std::thread::scope(|s| {
                let waiter = s.spawn(|| if views { view.lock(qp) } else { peer.lock(qp) });
                std::thread::sleep(Duration::from_millis(30));
                objects.destroy(qp).unwrap();
                own.unlock(qp);
                assert_eq!(waiter.join().unwrap(), Err(LockError::Gone));
            });
            create_again(&objects, qp, SHAPE);
            assert_eq!(own.lock(qp), Ok(Locked::Clean), "born locked");
            // Who looks whether it is still there can give it back all the same.
            objects.destroy(qp).unwrap();
            assert!(!own.exists(qp));
            own.unlock(qp);
            create_again(&objects, qp, SHAPE);
            assert_eq!(own.lock(qp), Ok(Locked::Clean), "born locked");
            own.unlock(qp);
        }
    }
}
