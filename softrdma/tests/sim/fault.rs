//! Faults that the simulator must find: memory that forgets, or tells too early or too late.

use std::cell::RefCell;

use softrdma::queues::direct::{DirectWord, HEADER_WORDS};
use softrdma::queues::shared::{Memory, Object, QpWord, Word};

use crate::world::World;

/// What is wrong with the direct rings of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The owner does not say that it closes a ring.
    NoEnd,
    /// The sender does not see it.
    NoLook,
    /// A message that was sent while the ring was closed is always taken for one that came before.
    NoThrough,
    /// The sender does not say how many requests were taken before it goes the other way.
    NoCount,
    /// Who goes on in a ring does not look how far the one before it came.
    NoPast,
    /// Messages of a ring and those that went the other way are not put in order.
    NoOrder,
    /// One request more than were posted is promised.
    EarlyCredit,
    /// More slots are given back than were taken.
    EarlyTaken,
    /// The payload is written after its message was published.
    LatePayload,
    /// A receiver that sleeps is not woken.
    NoBell,
}

impl Fault {
    pub const ALL: [Self; 10] = [
        Self::NoEnd,
        Self::NoLook,
        Self::NoThrough,
        Self::NoCount,
        Self::NoPast,
        Self::NoOrder,
        Self::EarlyCredit,
        Self::EarlyTaken,
        Self::LatePayload,
        Self::NoBell,
    ];
}

/// Memory with the fault of this run, where it has one.
pub struct Flawed<'a, M> {
    world: &'a World,
    memory: &'a M,
    /// What is stored later.
    late: RefCell<Vec<(Word, u64)>>,
}

impl<'a, M: Memory> Flawed<'a, M> {
    pub fn new(world: &'a World, memory: &'a M) -> Self {
        Self { world, memory, late: RefCell::default() }
    }
}

const END: u32 = DirectWord::End as u32;
const CREDIT: u32 = DirectWord::Credit as u32;
const TAKEN: u32 = DirectWord::Taken as u32;

impl<M: Memory> Memory for Flawed<'_, M> {
    fn load(&self, word: Word) -> u64 {
        for (word, value) in self.late.take() {
            self.memory.store(word, value);
        }
        match (self.world.fault, word) {
            (Some(Fault::NoLook), Word::Direct { word: END, .. }) => 0,
            (Some(Fault::NoPast), Word::Direct { word: HEADER_WORDS.., .. }) => 0,
            _ => self.memory.load(word),
        }
    }

    fn store(&self, word: Word, value: u64) {
        let value = match (self.world.fault, word) {
            (Some(Fault::NoEnd), Word::Direct { word: END, .. }) => return,
            (Some(Fault::NoCount), Word::Qp(_, QpWord::Head)) => return,
            (Some(Fault::EarlyCredit), Word::Direct { word: CREDIT, .. }) => value + 1,
            (Some(Fault::EarlyTaken), Word::Direct { word: TAKEN, .. }) => value + 6,
            _ => value,
        };
        self.memory.store(word, value);
    }

    fn store_all(&self, first: Word, values: &[u64]) {
        if self.world.has(Fault::LatePayload) {
            self.late.borrow_mut().extend((0..).map(|count| first.after(count)).zip(values.iter().copied()));
            return;
        }
        self.memory.store_all(first, values);
    }

    fn exists(&self, object: Object) -> bool {
        self.memory.exists(object)
    }

    fn capacity(&self, object: Object) -> u32 {
        self.memory.capacity(object)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.memory.receive_words(queue)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.memory.entry_words(cq)
    }
}
