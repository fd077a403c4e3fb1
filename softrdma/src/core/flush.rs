//! Flush of a receive side: everything posted completes with [`Status::WrFlushErr`](super::verbs::Status::WrFlushErr).
//!
//! The queue pair is in ERR when this starts. Whoever moved it there runs it, and when that process dies within, whoever
//! finds requests on a queue pair in ERR runs it again: each request is one delivery and flushed once.

use super::completion::Completion;
use super::deliver::Deliver;
use super::receive::{Next, next_in_claim, next_in_ring};
use super::shared::{Events, Memory, Object, QpWord, Take, Word};
use super::transport::{Machine, Progress};
use super::verbs::{Event, WcOpcode};

/// The transaction, by the holder of the queue pair's lock.
///
/// Requests of a shared receive queue stay there for others; only one that this queue pair holds is flushed, and then
/// [`Event::QpLastWqeReached`] is raised once (IBA §11.6.3.2).
#[derive(Clone, Debug)]
pub struct Flush {
    qp: u32,
    qp_num: u32,
    cq: u32,
    srq: bool,
    left: u32,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    Next,
    Deliver(Deliver),
    Raise,
    Done,
}

impl Flush {
    /// The flush of queue pair `qp` with number `qp_num` into its receive completion queue. `srq` when it receives
    /// from a shared receive queue. For an XRC target `cq` is the completion queue of the shared receive queue in its
    /// [`Claim`](super::shared::Claim).
    #[must_use]
    pub fn new(memory: &impl Memory, qp: u32, qp_num: u32, cq: u32, srq: bool) -> Self {
        // The owner may go on posting: what is flushed in one go is bounded.
        let left = memory.capacity(Object::Qp(qp)).saturating_add(1);
        Self { qp, qp_num, cq, srq, left, step: Step::Next }
    }

    fn next(&mut self, memory: &impl Memory) -> Progress<()> {
        let head = memory.load(Word::Qp(self.qp, QpWord::Head)) as u32;
        let found = match next_in_claim(memory, self.qp) {
            Some((_, Next::Request(request))) => Some((request.wr_id, Take::Claim)),
            _ if self.srq => None,
            _ => match next_in_ring(memory, self.qp) {
                Next::Request(request) => Some((request.wr_id, Take::Head(head.wrapping_add(1)))),
                Next::Empty | Next::Broken => None,
            },
        };
        match found {
            Some((wr_id, take)) if self.left > 0 => {
                self.left -= 1;
                let completion = Completion::flushed(wr_id, WcOpcode::Recv, self.qp_num);
                self.step = Step::Deliver(Deliver::receive(self.qp, take, self.cq, &completion, false));
            }
            _ => {
                self.step = Step::Done;
                let events = Events(memory.load(Word::Qp(self.qp, QpWord::Events)));
                if self.srq && !events.was_raised(Event::QpLastWqeReached) {
                    self.step = Step::Raise;
                    return Progress::Alert(Object::Qp(self.qp));
                }
            }
        }
        Progress::Continue
    }
}

impl Machine for Flush {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        match self.step {
            Step::Next => return self.next(memory),
            Step::Deliver(ref mut deliver) => match deliver.step(memory) {
                Progress::Done(_) => self.step = Step::Next,
                Progress::Continue => {}
                Progress::Lock(object) => return Progress::Lock(object),
                Progress::Unlock(object) => return Progress::Unlock(object),
                Progress::Bell(cq) => return Progress::Bell(cq),
                Progress::Alert(object) => return Progress::Alert(object),
            },
            Step::Raise => {
                self.step = Step::Done;
                let events = Events(memory.load(Word::Qp(self.qp, QpWord::Events)));
                let raised = events.raise_once(Event::QpLastWqeReached);
                memory.store(Word::Qp(self.qp, QpWord::Events), raised.0);
            }
            Step::Done => return Progress::Done(()),
        }
        Progress::Continue
    }
}
