//! The words of queues, as one process's segment has them, in memory of their own.

use std::cell::Cell;

use softrdma::queues::direct::shared::board_words;
use softrdma::queues::direct::{MIN_SLOTS, ring_words};
use softrdma::queues::receive::RECEIVE_WORDS;
use softrdma::queues::shared::{ATTRIBUTES, CqWord, Memory, Object, QpWord, SrqWord, Word};

/// Words of one receive request here: up to two pieces of memory.
pub const RECEIVE: u32 = 6;

/// Words of one completion entry: room for some payload, not for the longest.
pub const ENTRY_WORDS: u32 = 19;

/// A queue with its ring.
struct Queue {
    words: Vec<Cell<u64>>,
    ring: Vec<Cell<u64>>,
    stride: u32,
    capacity: u32,
    attributes: Vec<Cell<u64>>,
}

impl Queue {
    fn new(words: u32, capacity: u32, stride: u32) -> Self {
        let (ring, attributes) = (zeroed(capacity * stride), zeroed(ATTRIBUTES));
        Self { words: zeroed(words), ring, stride, capacity, attributes }
    }
}

fn zeroed(count: u32) -> Vec<Cell<u64>> {
    (0..count).map(|_| Cell::new(0)).collect()
}

/// Queue pairs, shared receive queues and completion queues, each with its ring; queue pairs with a direct
/// ring, too, of as few slots as are possible.
#[derive(Default)]
pub struct Segment {
    qps: Vec<Queue>,
    claimed: Vec<Vec<Cell<u64>>>,
    direct: Vec<Vec<Cell<u64>>>,
    srqs: Vec<Queue>,
    shared: Vec<Vec<Cell<u64>>>,
    cqs: Vec<Queue>,
}

impl Segment {
    pub fn add_qp(&mut self, capacity: u32) -> u32 {
        self.qps.push(Queue::new(QpWord::COUNT, capacity, RECEIVE));
        self.claimed.push(zeroed(RECEIVE_WORDS));
        self.direct.push(zeroed(ring_words(MIN_SLOTS)));
        self.qps.len() as u32 - 1
    }

    pub fn add_srq(&mut self, capacity: u32) -> u32 {
        self.srqs.push(Queue::new(SrqWord::COUNT, capacity, RECEIVE));
        self.shared.push(zeroed(board_words(capacity)));
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
    pub fn fill(&self, lies: &[u64]) {
        let queues = self.qps.iter().chain(&self.srqs).chain(&self.cqs);
        let words = queues.flat_map(|queue| [&queue.words, &queue.ring]);
        let words = words.chain(&self.claimed).chain(&self.direct).chain(&self.shared).flatten();
        words.zip(lies.iter().cycle()).for_each(|(word, lie)| word.set(*lie));
    }

    fn queue(&self, object: Object) -> &Queue {
        match object {
            Object::Qp(qp) => &self.qps[qp as usize],
            Object::Srq(srq) => &self.srqs[srq as usize],
            Object::Cq(cq) => &self.cqs[cq as usize],
        }
    }

    fn word(&self, word: Word) -> &Cell<u64> {
        let (queue, slot, word) = match word {
            Word::Qp(qp, word) => return &self.qps[qp as usize].words[word as usize],
            Word::Srq(srq, word) => return &self.srqs[srq as usize].words[word as usize],
            Word::Cq(cq, word) => return &self.cqs[cq as usize].words[word as usize],
            Word::Claimed { qp, word } => return &self.claimed[qp as usize][word as usize],
            Word::Direct { qp, word } => return &self.direct[qp as usize][word as usize],
            Word::Shared { srq, word } => {
                let board = &self.shared[srq as usize];
                return &board[word as usize % board.len()];
            }
            Word::Attribute { object, word } => return &self.queue(object).attributes[word as usize],
            Word::Receive { queue, slot, word } => (self.queue(queue), slot, word),
            Word::Entry { cq, slot, word } => (self.queue(Object::Cq(cq)), slot, word),
        };
        &queue.ring[(slot * queue.stride + word) as usize]
    }
}

impl Memory for Segment {
    fn load(&self, word: Word) -> u64 {
        self.word(word).get()
    }

    fn store(&self, word: Word, value: u64) {
        self.word(word).set(value);
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
