//! Running transactions: what a transport offers, and the loop that carries a step machine through.

use super::repair::Repair;
use super::shared::{Memory, Object};

/// What a step machine asks for next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<T> {
    /// Another step.
    Continue,
    /// This lock, repaired if its owner died; then another step.
    Lock(Object),
    /// This lock back; then another step.
    Unlock(Object),
    /// A bell for whoever sleeps on this completion queue; then another step.
    ///
    /// The bell comes before the entry is published and behind the lock: a death in between costs one bell for nothing
    /// and never a lost one. Who is woken must take and give back the queue's lock once before it looks.
    Bell(u32),
    /// A bell for whoever waits for asynchronous events of this object; then another step. As above: it comes before
    /// the event is there, behind the object's lock.
    Alert(Object),
    /// Finished.
    Done(T),
}

impl<T> Progress<T> {
    /// The same with another outcome.
    pub fn map<U>(self, outcome: impl FnOnce(T) -> U) -> Progress<U> {
        match self {
            Self::Continue => Progress::Continue,
            Self::Lock(object) => Progress::Lock(object),
            Self::Unlock(object) => Progress::Unlock(object),
            Self::Bell(cq) => Progress::Bell(cq),
            Self::Alert(object) => Progress::Alert(object),
            Self::Done(done) => Progress::Done(outcome(done)),
        }
    }
}

/// A transaction: each step changes at most one shared word, so that death between any two steps is a state that
/// [`Repair`] knows.
pub trait Machine {
    /// What came of it.
    type Outcome;
    /// Does the next step. Not called again after [`Progress::Done`].
    fn step(&mut self, memory: &impl Memory) -> Progress<Self::Outcome>;
}

/// How a lock was got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// Free, or given back by its owner.
    Clean,
    /// Taken over from an owner that died: what it protects must be repaired before use.
    Recovered,
}

/// Shared memory with locks and bells.
pub trait Transport: Memory {
    /// Takes the lock of an object that exists. Locks do not nest within one object.
    fn lock(&self, object: Object) -> Locked;
    /// Gives it back.
    fn unlock(&self, object: Object);
    /// Wakes who sleeps on the completion queue.
    fn bell(&self, cq: u32);
    /// Wakes who waits for asynchronous events of the object.
    fn alert(&self, object: Object);
}

/// Takes the lock of an object, and repairs the object when the last owner died.
pub fn acquire(transport: &impl Transport, object: Object) {
    if transport.lock(object) == Locked::Recovered {
        // Not deep: repairing a queue pair visits a shared receive queue and a completion queue; those visit nothing.
        run(transport, Repair::new(object));
    }
}

/// Carries a machine through.
pub fn run<M: Machine>(transport: &impl Transport, mut machine: M) -> M::Outcome {
    loop {
        match machine.step(transport) {
            Progress::Continue => {}
            Progress::Lock(object) => acquire(transport, object),
            Progress::Unlock(object) => transport.unlock(object),
            Progress::Bell(cq) => transport.bell(cq),
            Progress::Alert(object) => transport.alert(object),
            Progress::Done(outcome) => return outcome,
        }
    }
}
