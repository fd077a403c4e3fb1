//! The end of a receive side: flush and reset.
//!
//! Flush: everything posted completes with [`Status::WrFlushErr`](crate::rules::verbs::Status::WrFlushErr).
//!
//! The queue pair is in ERR when this starts. The process that moved it there runs it. When that process dies
//! within, the next one that finds requests on the queue pair runs it again: each request is one delivery, and
//! is flushed once.

use super::deliver::Deliver;
use super::shared::{Claim, Events, Memory, Object, QpWord, Take, Word};
use super::transaction::{Machine, Progress};
use crate::queues::receive::{next_in_claim, next_in_ring};
use crate::rules::completion::Completion;
use crate::rules::receive::{Next, ReceiveRequest};
use crate::rules::verbs::{Event, QpState, WcOpcode};

/// The transaction, by the holder of the queue pair's lock.
///
/// Requests of a shared receive queue stay there for others; only one that this queue pair holds is flushed,
/// and then [`Event::QpLastWqeReached`] is raised once (IBA §11.6.3.2).
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
    Fence,
    Next,
    Deliver(Deliver<'static>),
    Raise,
    Done,
}

impl Flush {
    /// The flush of queue pair `qp` with number `qp_num` into its receive completion queue. `srq` when it
    /// receives from a shared receive queue. For an XRC target `cq` is the completion queue of the shared
    /// receive queue in its [`Claim`], which need not be the one that a message names.
    #[must_use]
    pub fn new(memory: &impl Memory, qp: u32, qp_num: u32, cq: u32, srq: bool) -> Self {
        // The owner may go on posting: what is flushed in one go is bounded.
        let left = memory.capacity(Object::Qp(qp)).saturating_add(1);
        Self { qp, qp_num, cq, srq, left, step: Step::Fence }
    }

    fn next(&mut self, memory: &impl Memory) -> Progress<()> {
        let head = memory.load(Word::Qp(self.qp, QpWord::Head)) as u32;
        let found = match next_in_claim(memory, self.qp) {
            Some((_, Next::Request(request))) => Some((request.wr_id, Take::Claim(head))),
            _ if self.srq => None,
            // rule: flush-order
            _ => match next_in_ring(memory, self.qp) {
                Next::Request(request) => Some((request.wr_id, Take::Head(head))),
                Next::Empty | Next::Broken => None,
            },
        };
        match found {
            Some((wr_id, take)) if self.left > 0 => {
                self.left -= 1;
                // rule: flush-all
                let completion = Completion::flushed(wr_id, WcOpcode::Recv, self.qp_num);
                self.step = Step::Deliver(Deliver::receive(self.qp, take, self.cq, &completion, false));
            }
            _ => {
                self.step = Step::Done;
                let events = Events(memory.load(Word::Qp(self.qp, QpWord::Events)));
                // rule: event-last-request
                if self.srq && !events.was_raised(Event::QpLastWqeReached) {
                    self.step = Step::Raise;
                    return Progress::Alert(Object::Qp(self.qp));
                }
            }
        }
        Progress::Continue
    }
}

/// Empties the receive side without completions and moves it to RESET (IBA §10.3.1.1). The owner's side,
/// behind the queue pair's lock.
///
/// A request that the queue pair held from a shared receive queue is not lost: the owner posts it there again.
#[must_use]
pub fn reset(memory: &impl Memory, qp: u32) -> Option<(Claim, ReceiveRequest)> {
    // rule: qp-reset-forgets
    let held = match next_in_claim(memory, qp) {
        Some((claim, Next::Request(request))) => Some((claim, request)),
        _ => None,
    };
    let word = |word| Word::Qp(qp, word);
    memory.store(word(QpWord::State), u64::from(QpState::Reset as u32));
    memory.store(word(QpWord::Claim), 0);
    let tail = memory.load(word(QpWord::Tail));
    memory.store(word(QpWord::Seen), tail);
    memory.store(word(QpWord::Head), tail);
    memory.store(word(QpWord::Events), 0);
    held
}

impl Machine for Flush {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        match self.step {
            Step::Fence => {
                // The owner posts without a fence, and looks at the state afterwards: it sees that one, or its
                // request is seen here.
                memory.fence_everywhere();
                self.step = Step::Next;
            }
            Step::Next => return self.next(memory),
            Step::Deliver(ref mut deliver) => match deliver.step(memory) {
                Progress::Done(_) => self.step = Step::Next,
                other => return other.map(|_| ()),
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

    fn unheard(&mut self) {
        if let Step::Deliver(deliver) = &mut self.step {
            deliver.unheard();
        }
    }
}
