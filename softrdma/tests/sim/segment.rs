//! The shared memory of one simulated process.

use std::cell::{Cell, RefCell};

use softrdma::core::receive::RECEIVE_WORDS;
use softrdma::core::shared::{ATTRIBUTES, CqWord, Memory, Object, QpWord, SrqWord, Word, held, slot};

/// Words of one receive request here: up to two pieces of memory.
pub const RECEIVE: u32 = 6;

/// Words of one completion entry: room for some payload, not for the longest.
pub const ENTRY_WORDS: u32 = 19;

struct Queue {
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
    qps: Vec<Queue>,
    claimed: Vec<Vec<Cell<u64>>>,
    srqs: Vec<Queue>,
    cqs: Vec<Queue>,
}

impl Segment {
    pub fn add_qp(&mut self, capacity: u32) -> u32 {
        self.qps.push(Queue::new(QpWord::COUNT, capacity, RECEIVE));
        self.claimed.push(zeroed(RECEIVE_WORDS));
        self.qps.len() as u32 - 1
    }

    pub fn add_srq(&mut self, capacity: u32) -> u32 {
        self.srqs.push(Queue::new(SrqWord::COUNT, capacity, RECEIVE));
        self.srqs.len() as u32 - 1
    }

    pub fn add_cq(&mut self, capacity: u32) -> u32 {
        self.cqs.push(Queue::new(CqWord::COUNT, capacity, ENTRY_WORDS));
        self.cqs.len() as u32 - 1
    }

    pub fn objects(&self) -> Vec<Object> {
        let qps = (0..self.qps.len() as u32).map(Object::Qp);
        let srqs = (0..self.srqs.len() as u32).map(Object::Srq);
        qps.chain(srqs).chain((0..self.cqs.len() as u32).map(Object::Cq)).collect()
    }

    /// Gives a shared receive queue or completion queue another ring, unless more waits in it. By the owner, behind its
    /// lock.
    #[allow(dead_code, reason = "only the simulator's processes do")]
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
    #[allow(dead_code, reason = "only the simulator's processes resize")]
    pub fn generation(&self, object: Object) -> u32 {
        self.queue(object).generation.get()
    }

    /// Overwrites every word with these, over and over.
    #[allow(dead_code, reason = "the simulator's processes do not lie")]
    pub fn fill(&self, lies: &[u64]) {
        let queues = self.qps.iter().chain(&self.srqs).chain(&self.cqs);
        let mut lies = lies.iter().cycle();
        let mut lie =
            |words: &[Cell<u64>]| words.iter().zip(&mut lies).for_each(|(word, lie)| word.set(*lie));
        for queue in queues {
            lie(&queue.words);
            lie(&queue.ring.borrow());
        }
        self.claimed.iter().for_each(|words| lie(words));
    }

    fn queue(&self, object: Object) -> &Queue {
        match object {
            Object::Qp(qp) => &self.qps[qp as usize],
            Object::Srq(srq) => &self.srqs[srq as usize],
            Object::Cq(cq) => &self.cqs[cq as usize],
        }
    }

    fn with<T>(&self, word: Word, act: impl FnOnce(&Cell<u64>) -> T) -> T {
        let (object, slot, word) = match word {
            Word::Qp(qp, word) => return act(&self.qps[qp as usize].words[word as usize]),
            Word::Srq(srq, word) => return act(&self.srqs[srq as usize].words[word as usize]),
            Word::Cq(cq, word) => return act(&self.cqs[cq as usize].words[word as usize]),
            Word::Claimed { qp, word } => return act(&self.claimed[qp as usize][word as usize]),
            Word::Attribute { object, word } => return act(&self.queue(object).attributes[word as usize]),
            Word::Receive { queue, slot, word } => (queue, slot, word),
            Word::Entry { cq, slot, word } => (Object::Cq(cq), slot, word),
        };
        let queue = self.queue(object);
        act(&queue.ring.borrow()[(slot * queue.stride + word) as usize])
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
