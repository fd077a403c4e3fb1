//! The shared memory of one simulated process.

use std::cell::Cell;

use softrdma::core::receive::RECEIVE_WORDS;
use softrdma::core::shared::{ATTRIBUTES, CqWord, Memory, Object, QpWord, SrqWord, Word};

/// Words of one receive request here: up to two pieces of memory.
pub const RECEIVE: u32 = 6;

/// Words of one completion entry: room for some payload, not for the longest.
pub const ENTRY_WORDS: u32 = 19;

struct Queue {
    words: Vec<Cell<u64>>,
    ring: Vec<Cell<u64>>,
    capacity: u32,
    attributes: Vec<Cell<u64>>,
}

impl Queue {
    fn new(words: u32, capacity: u32, stride: u32) -> Self {
        let zeroed = |count: u32| (0..count).map(|_| Cell::new(0)).collect();
        Self {
            words: zeroed(words),
            ring: zeroed(capacity * stride),
            capacity,
            attributes: zeroed(ATTRIBUTES),
        }
    }
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
        self.claimed.push((0..RECEIVE_WORDS).map(|_| Cell::new(0)).collect());
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

    /// Overwrites every word with these, over and over.
    #[allow(dead_code, reason = "the simulator's processes do not lie")]
    pub fn fill(&self, lies: &[u64]) {
        let queues = self.qps.iter().chain(&self.srqs).chain(&self.cqs);
        let words = queues.flat_map(|queue| queue.words.iter().chain(&queue.ring));
        for (word, lie) in words.chain(self.claimed.iter().flatten()).zip(lies.iter().cycle()) {
            word.set(*lie);
        }
    }

    fn queue(&self, object: Object) -> &Queue {
        match object {
            Object::Qp(qp) => &self.qps[qp as usize],
            Object::Srq(srq) => &self.srqs[srq as usize],
            Object::Cq(cq) => &self.cqs[cq as usize],
        }
    }

    fn cell(&self, word: Word) -> &Cell<u64> {
        match word {
            Word::Qp(qp, word) => &self.qps[qp as usize].words[word as usize],
            Word::Srq(srq, word) => &self.srqs[srq as usize].words[word as usize],
            Word::Cq(cq, word) => &self.cqs[cq as usize].words[word as usize],
            Word::Receive { queue, slot, word } => &self.queue(queue).ring[(slot * RECEIVE + word) as usize],
            Word::Claimed { qp, word } => &self.claimed[qp as usize][word as usize],
            Word::Attribute { object, word } => &self.queue(object).attributes[word as usize],
            Word::Entry { cq, slot, word } => {
                &self.cqs[cq as usize].ring[(slot * ENTRY_WORDS + word) as usize]
            }
        }
    }
}

impl Memory for Segment {
    fn load(&self, word: Word) -> u64 {
        self.cell(word).get()
    }

    fn store(&self, word: Word, value: u64) {
        self.cell(word).set(value);
    }

    fn exists(&self, object: Object) -> bool {
        match object {
            Object::Qp(qp) => (qp as usize) < self.qps.len(),
            Object::Srq(srq) => (srq as usize) < self.srqs.len(),
            Object::Cq(cq) => (cq as usize) < self.cqs.len(),
        }
    }

    fn capacity(&self, object: Object) -> u32 {
        self.queue(object).capacity
    }

    fn receive_words(&self, _: Object) -> u32 {
        RECEIVE
    }

    fn entry_words(&self, _: u32) -> u32 {
        ENTRY_WORDS
    }
}
