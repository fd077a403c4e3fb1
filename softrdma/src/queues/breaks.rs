//! Asynchronous events, and the move of a target into the error state.
//!
//! Behind the object's lock. The alert comes first (see [`Progress::Alert`]): the owner, once woken, takes the
//! object's lock, and so finds whatever this leaves behind, finished or not. A queue pair that breaks without
//! an event alerts nobody, since a program that is told of an event waits for it; its owner finds out when it
//! uses the queue pair.

use super::shared::{CqWord, Events, Memory, Object, QpWord, SrqWord, Word};
use super::transaction::{Machine, Progress};
use crate::rules::verbs::{Event, QpState};

/// Raises an event once in the life of the object (communication established, last request reached, overrun).
#[derive(Clone, Copy, Debug)]
pub struct RaiseOnce {
    object: Object,
    event: Event,
    step: RaiseStep,
}

#[derive(Clone, Copy, Debug)]
enum RaiseStep {
    Look,
    Store,
    Done,
}

impl RaiseOnce {
    /// The event of this object.
    #[must_use]
    pub fn new(object: Object, event: Event) -> Self {
        Self { object, event, step: RaiseStep::Look }
    }
}

impl Machine for RaiseOnce {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        let word = events_word(self.object);
        match self.step {
            RaiseStep::Look if Events(memory.load(word)).was_raised(self.event) => {
                self.step = RaiseStep::Done
            }
            RaiseStep::Look => {
                self.step = RaiseStep::Store;
                return Progress::Alert(self.object);
            }
            RaiseStep::Store => {
                self.step = RaiseStep::Done;
                memory.store(word, Events(memory.load(word)).raise_once(self.event).0);
            }
            RaiseStep::Done => return Progress::Done(()),
        }
        Progress::Continue
    }
}

/// Moves a queue pair into ERR. What is posted is flushed afterwards, by [`Flush`](super::flush::Flush).
#[derive(Clone, Copy, Debug)]
pub struct Break {
    qp: u32,
    event: Option<Event>,
    step: BreakStep,
}

#[derive(Clone, Copy, Debug)]
enum BreakStep {
    Alert,
    Event,
    State,
    Done,
}

impl Break {
    /// The end of this queue pair, with the event that tells of it.
    #[must_use]
    pub fn new(qp: u32, event: Option<Event>) -> Self {
        Self { qp, event, step: BreakStep::Alert }
    }
}

impl Machine for Break {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        match self.step {
            BreakStep::Alert => {
                self.step = BreakStep::Event;
                if self.event.is_none() {
                    return Progress::Continue;
                }
                return Progress::Alert(Object::Qp(self.qp));
            }
            BreakStep::Event => {
                self.step = BreakStep::State;
                if let Some(event) = self.event {
                    let word = Word::Qp(self.qp, QpWord::Events);
                    memory.store(word, Events(memory.load(word)).raise(event).0);
                }
            }
            BreakStep::State => {
                self.step = BreakStep::Done;
                memory.store(Word::Qp(self.qp, QpWord::State), QpState::Err as u64);
            }
            BreakStep::Done => return Progress::Done(()),
        }
        Progress::Continue
    }
}

/// Takes the waiting events of an object, as bits by number. The owner's side, behind the object's lock.
pub fn collect(memory: &impl Memory, object: Object) -> u32 {
    let word = events_word(object);
    let (waiting, rest) = Events(memory.load(word)).collect();
    if waiting != 0 {
        memory.store(word, rest.0);
    }
    waiting
}

fn events_word(object: Object) -> Word {
    match object {
        Object::Qp(qp) => Word::Qp(qp, QpWord::Events),
        Object::Srq(srq) => Word::Srq(srq, SrqWord::Events),
        Object::Cq(cq) => Word::Cq(cq, CqWord::Events),
    }
}
