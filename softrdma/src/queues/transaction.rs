//! What a transaction is.

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
    /// A bell for the threads that sleep on this completion queue; then another step.
    ///
    /// The bell is rung before the entry is published and behind the lock, so that a death in between may ring
    /// one for nothing and never loses one. A thread that is woken must take and give back the queue's lock
    /// once before it looks.
    Bell(u32),
    /// A bell for the threads that wait for asynchronous events of this object; then another step. As above: it
    /// is rung before the event is there, behind the object's lock.
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

/// A transaction: each step changes at most one shared word, not counting those that nobody reads before a
/// later step, so that death between any two steps is a state that [`Repair`](super::repair::Repair) knows.
pub trait Machine {
    /// What came of it.
    type Outcome;
    /// Does the next step. Not called again after [`Progress::Done`].
    fn step(&mut self, memory: &impl Memory) -> Progress<Self::Outcome>;
    /// Learns that the bell it asked for in its last step was not rung.
    fn unheard(&mut self) {}
}

/// Ends a step of a machine: the next one follows at once, in one function with it, unless somebody looks on.
macro_rules! then {
    ($machine:ident, $memory:ident, $step:expr, $next:expr) => {{
        $machine.step = $step;
        if $memory.is_stepwise() { Progress::Continue } else { $next }
    }};
}
pub(super) use then;

/// How a lock was got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// Free, or given back by its owner.
    Clean,
    /// Taken over from an owner that died or abandoned it: what it protects must be repaired before use.
    Recovered,
}

/// Why a lock could not be had. The operation ends there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockError {
    /// A living process kept it too long: it was stopped, or its memory lies.
    Busy,
    /// The object is not there, or went away while its lock was waited for.
    Gone,
    /// A living process that is not the owner of the memory keeps it: neither the target nor a waiting process
    /// can change that, and it says nothing about the target.
    Held,
    /// It was had, and taken away while this process did not go on; whether what was under way has happened is
    /// not known.
    Unclear,
}
