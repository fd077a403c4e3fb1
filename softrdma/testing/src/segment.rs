//! The shared memory of one simulated process.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use softrdma::queues::direct::{MIN_SLOTS, ring_words};
use softrdma::queues::fence::Cut;
use softrdma::queues::receive::RECEIVE_WORDS;
use softrdma::queues::shared::{ATTRIBUTES, CqWord, Memory, Object, QpWord, SrqWord, Word, held, slot};

/// Words of one receive request here: up to two pieces of memory.
pub const RECEIVE: u32 = 6;

/// Words of one completion entry: room for some payload, not for the longest.
pub const ENTRY_WORDS: u32 = 19;

/// Slots of the direct ring of a queue pair: as few as are possible.
pub const DIRECT_SLOTS: u32 = MIN_SLOTS;

/// A direct ring: whatever queue pair a word is of, it is of this ring's.
pub struct Ring(Vec<Cell<u64>>);

impl Ring {
    fn word(&self, word: Word) -> &Cell<u64> {
        let Word::Direct { word, .. } = word else { panic!("{word:?} is not in a direct ring") };
        &self.0[word as usize]
    }

    /// All zero again.
    pub fn clear(&self) {
        self.0.iter().for_each(|word| word.set(0));
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self(zeroed(ring_words(DIRECT_SLOTS)))
    }
}

impl Memory for Ring {
    fn load(&self, word: Word) -> u64 {
        self.word(word).get()
    }

    fn store(&self, word: Word, value: u64) {
        self.word(word).set(value);
    }

    fn exists(&self, _: Object) -> bool {
        true
    }

    fn capacity(&self, _: Object) -> u32 {
        0
    }

    fn receive_words(&self, _: Object) -> u32 {
        0
    }

    fn entry_words(&self, _: u32) -> u32 {
        0
    }
}

/// One place of a queue.
pub struct Queue {
    words: Vec<Cell<u64>>,
    ring: RefCell<Vec<Cell<u64>>>,
    stride: u32,
    capacity: Cell<u32>,
    /// How often it was resized.
    generation: Cell<u32>,
    attributes: Vec<Cell<u64>>,
}

impl Queue {
    fn new(words: u32, capacity: u32, stride: u32) -> Self {
        Self {
            words: zeroed(words),
            ring: zeroed(capacity * stride).into(),
            stride,
            capacity: capacity.into(),
            generation: 0.into(),
            attributes: zeroed(ATTRIBUTES),
        }
    }
}

fn zeroed(count: u32) -> Vec<Cell<u64>> {
    (0..count).map(|_| Cell::new(0)).collect()
}

/// Queue pairs, shared receive queues and completion queues, each with its ring.
#[derive(Default)]
pub struct Segment {
    qps: Vec<Rc<Queue>>,
    claimed: Vec<Vec<Cell<u64>>>,
    direct: Vec<RefCell<Option<Rc<Ring>>>>,
    srqs: Vec<RefCell<Rc<Queue>>>,
    cqs: Vec<RefCell<Rc<Queue>>>,
}

impl Segment {
    pub fn add_qp(&mut self, capacity: u32) -> u32 {
        self.qps.push(Queue::new(QpWord::COUNT, capacity, RECEIVE).into());
        self.claimed.push(zeroed(RECEIVE_WORDS));
        self.direct.push(RefCell::new(Some(Rc::default())));
        self.qps.len() as u32 - 1
    }

    pub fn add_srq(&mut self, capacity: u32) -> u32 {
        self.srqs.push(Rc::new(Queue::new(SrqWord::COUNT, capacity, RECEIVE)).into());
        self.srqs.len() as u32 - 1
    }

    pub fn add_cq(&mut self, capacity: u32) -> u32 {
        self.cqs.push(Rc::new(Queue::new(CqWord::COUNT, capacity, ENTRY_WORDS)).into());
        self.cqs.len() as u32 - 1
    }

    pub fn objects(&self) -> Vec<Object> {
        let qps = (0..self.qps.len() as u32).map(Object::Qp);
        let srqs = (0..self.srqs.len() as u32).map(Object::Srq);
        qps.chain(srqs).chain((0..self.cqs.len() as u32).map(Object::Cq)).collect()
    }

    /// Gives a shared receive queue or completion queue another ring, unless more waits in it. By the owner,
    /// behind its lock.
    pub fn resize(&self, object: Object, capacity: u32) -> bool {
        let (head, tail) = match object {
            Object::Qp(_) => return false,
            Object::Srq(srq) => (Word::Srq(srq, SrqWord::Head), Word::Srq(srq, SrqWord::Tail)),
            Object::Cq(cq) => (Word::Cq(cq, CqWord::Head), Word::Cq(cq, CqWord::Tail)),
        };
        let (head, tail) = (self.load(head), self.load(tail));
        let queue = self.queue(object);
        let Some(waiting) = held(head, tail, queue.capacity.get().min(capacity)) else { return false };
        let ring = zeroed(capacity * queue.stride);
        for count in (0..waiting).map(|n| (head as u32).wrapping_add(n)) {
            for word in 0..queue.stride {
                let at = |capacity| (slot(count, capacity) * queue.stride + word) as usize;
                ring[at(capacity)].set(queue.ring.borrow()[at(queue.capacity.get())].get());
            }
        }
        *queue.ring.borrow_mut() = ring;
        queue.capacity.set(capacity);
        queue.generation.set(queue.generation.get() + 1);
        true
    }

    /// Changes with each resize.
    pub fn generation(&self, object: Object) -> u32 {
        self.queue(object).generation.get()
    }

    /// Overwrites every word with these, over and over.
    pub fn fill(&self, lies: &[u64]) {
        let shared = self.srqs.iter().chain(&self.cqs).map(|queue| queue.borrow().clone());
        let queues: Vec<_> = self.qps.iter().cloned().chain(shared).collect();
        let mut lies = lies.iter().cycle();
        let mut lie =
            |words: &[Cell<u64>]| words.iter().zip(&mut lies).for_each(|(word, lie)| word.set(*lie));
        for queue in queues {
            lie(&queue.words);
            lie(&queue.ring.borrow());
        }
        self.claimed.iter().for_each(|words| lie(words));
        self.direct.iter().flat_map(|ring| ring.borrow().clone()).for_each(|ring| lie(&ring.0));
    }

    /// The direct ring of a queue pair, which its owner changes behind the lock.
    pub fn ring(&self, qp: u32) -> Option<Rc<Ring>> {
        self.direct[qp as usize].borrow().clone()
    }

    /// The queue pair has this ring from now on, or none.
    pub fn set_ring(&self, qp: u32, ring: Option<Rc<Ring>>) {
        *self.direct[qp as usize].borrow_mut() = ring;
    }

    /// Where a queue is now.
    pub fn queue(&self, object: Object) -> Rc<Queue> {
        match object {
            Object::Qp(qp) => self.qps[qp as usize].clone(),
            Object::Srq(srq) => self.srqs[srq as usize].borrow().clone(),
            Object::Cq(cq) => self.cqs[cq as usize].borrow().clone(),
        }
    }

    /// Moves a completion queue or shared receive queue away from a holder of its lock that is stopped, as it
    /// was when it was looked at.
    pub fn relocate(&self, object: Object, cut: Option<&Cut>) {
        let old = self.queue(object);
        let now = Queue::new(old.words.len() as u32, old.capacity.get(), old.stride);
        let copy = |to: &[Cell<u64>], from: &[Cell<u64>]| {
            to.iter().zip(from).for_each(|(to, from)| to.set(from.get()));
        };
        copy(&now.words, &old.words);
        copy(&now.attributes, &old.attributes);
        for (word, value) in now.words.iter().zip(cut.iter().flat_map(|cut| &cut.words)) {
            word.set(*value);
        }
        copy(&now.ring.borrow(), &old.ring.borrow());
        if let (Object::Cq(_), Some(_)) = (object, cut) {
            // What is not counted was published by nobody.
            let word = |word: CqWord| now.words[word as usize].get() as u32;
            let (head, tail) = (word(CqWord::Head), word(CqWord::Tail));
            let capacity = now.capacity.get();
            for count in (0..capacity - tail.wrapping_sub(head)).map(|n| tail.wrapping_add(n)) {
                now.ring.borrow()[(slot(count, capacity) * now.stride) as usize].set(0);
            }
        }
        now.generation.set(old.generation.get() + 1);
        match object {
            Object::Srq(srq) => *self.srqs[srq as usize].borrow_mut() = now.into(),
            Object::Cq(cq) => *self.cqs[cq as usize].borrow_mut() = now.into(),
            Object::Qp(_) => {}
        }
    }

    fn with<T>(&self, word: Word, act: impl FnOnce(&Cell<u64>) -> T) -> T {
        let queue = self.queue(object_of(word));
        self.at(&queue, word, act)
    }

    fn at<T>(&self, queue: &Queue, word: Word, act: impl FnOnce(&Cell<u64>) -> T) -> T {
        let (slot, word) = match word {
            Word::Qp(_, word) => return act(&queue.words[word as usize]),
            Word::Srq(_, word) => return act(&queue.words[word as usize]),
            Word::Cq(_, word) => return act(&queue.words[word as usize]),
            Word::Claimed { qp, word } => return act(&self.claimed[qp as usize][word as usize]),
            Word::Direct { qp, .. } => {
                let ring = self.ring(qp).expect("a direct ring");
                return act(ring.word(word));
            }
            Word::Attribute { word, .. } => return act(&queue.attributes[word as usize]),
            Word::Receive { slot, word, .. } | Word::Entry { slot, word, .. } => (slot, word),
        };
        act(&queue.ring.borrow()[(slot * queue.stride + word) as usize])
    }
}

fn object_of(word: Word) -> Object {
    match word {
        Word::Qp(qp, _) | Word::Claimed { qp, .. } | Word::Direct { qp, .. } => Object::Qp(qp),
        Word::Srq(srq, _) => Object::Srq(srq),
        Word::Cq(cq, _) | Word::Entry { cq, .. } => Object::Cq(cq),
        Word::Attribute { object, .. } | Word::Receive { queue: object, .. } => object,
    }
}

/// A segment with queues where they were when somebody took their locks.
pub struct Seen<'a> {
    pub segment: &'a Segment,
    pub places: Vec<(Object, Rc<Queue>)>,
}

impl Seen<'_> {
    fn queue(&self, object: Object) -> Option<&Rc<Queue>> {
        self.places.iter().find(|place| place.0 == object).map(|place| &place.1)
    }
}

impl Memory for Seen<'_> {
    fn load(&self, word: Word) -> u64 {
        match self.queue(object_of(word)) {
            Some(queue) => self.segment.at(queue, word, Cell::get),
            None => self.segment.load(word),
        }
    }

    fn store(&self, word: Word, value: u64) {
        match self.queue(object_of(word)) {
            Some(queue) => self.segment.at(queue, word, |cell| cell.set(value)),
            None => self.segment.store(word, value),
        }
    }

    fn exists(&self, object: Object) -> bool {
        self.segment.exists(object)
    }

    fn capacity(&self, object: Object) -> u32 {
        self.queue(object).map_or_else(|| self.segment.capacity(object), |queue| queue.capacity.get())
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.segment.receive_words(queue)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.segment.entry_words(cq)
    }
}

impl Memory for Segment {
    fn load(&self, word: Word) -> u64 {
        self.with(word, Cell::get)
    }

    fn store(&self, word: Word, value: u64) {
        self.with(word, |cell| cell.set(value));
    }

    fn exists(&self, object: Object) -> bool {
        match object {
            Object::Qp(qp) => (qp as usize) < self.qps.len(),
            Object::Srq(srq) => (srq as usize) < self.srqs.len(),
            Object::Cq(cq) => (cq as usize) < self.cqs.len(),
        }
    }

    fn capacity(&self, object: Object) -> u32 {
        self.queue(object).capacity.get()
    }

    fn receive_words(&self, _: Object) -> u32 {
        RECEIVE
    }

    fn entry_words(&self, _: u32) -> u32 {
        ENTRY_WORDS
    }
}
