//! Claim: a queue pair takes the oldest request of a shared receive queue and holds it until a message is
//! delivered.
//!
//! A copy is held, so that the shared queue is locked only while a request changes hands and never while a
//! payload moves. Requests that are held when a sender dies stay with the queue pair: the next message uses
//! them, and a queue pair in error flushes them.
//!
//! Behind the queue pair's lock: an older fence cleared, a word that it asks (for who takes the shared queue
//! from a holder that stopped), lock of the shared queue, its journal (this queue pair, this head), the copy,
//! the claim word of the queue pair (**the moment it happened**), the head, the limit event, journal cleared.

use super::receive::{MAX_SGE, RECEIVE_WORDS, waiting};
use super::shared::{Claim as Held, Events, Fence, Memory, Object, QpWord, SrqJournal, SrqWord, Word, slot};
use super::transport::{Machine, Progress};
use super::verbs::Event;

/// Words copied in one step.
const AT_ONCE: u32 = 8;

/// What came of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// The queue pair holds a request.
    Request,
    /// None was posted: receiver not ready.
    Empty,
    /// The counts or the request cannot be true; their owner damaged them.
    Broken,
}

/// The transaction. See the module.
#[derive(Clone, Debug)]
pub struct Claim {
    qp: u32,
    srq: u32,
    count: u32,
    words: u32,
    outcome: Claimed,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Unfence,
    Ask,
    Lock,
    Check,
    Unask,
    Record,
    Copy(u32),
    Hold,
    After(After),
    Clear,
    Unlock,
    Done,
}

impl Claim {
    /// A claim by the queue pair whose lock the caller holds, and which holds none.
    #[must_use]
    pub fn new(qp: u32, srq: u32) -> Self {
        Self { qp, srq, count: 0, words: 0, outcome: Claimed::Request, step: Step::Unfence }
    }

    fn journal(&self) -> SrqJournal {
        SrqJournal { qp: self.qp, count: self.count, reached: false }
    }
}

impl Machine for Claim {
    type Outcome = Claimed;

    fn step(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        let queue = Object::Srq(self.srq);
        match self.step {
            Step::Unfence => {
                self.step = Step::Ask;
                // It asked before, gave up, and was told nevertheless that the queue was moved. Once it asks,
                // what it is told counts.
                let fence = Word::Qp(self.qp, QpWord::Fence);
                if let Some(Fence::Claim { .. }) = Fence::unpack(memory.load(fence)) {
                    memory.store(fence, 0);
                }
            }
            Step::Ask => {
                self.step = Step::Lock;
                memory.store(Word::Qp(self.qp, QpWord::Claim), Held::asking(self.srq));
            }
            Step::Unask => {
                self.step = Step::Unlock;
                memory.store(Word::Qp(self.qp, QpWord::Claim), 0);
            }
            Step::Lock => {
                self.step = Step::Check;
                return Progress::Lock(queue);
            }
            Step::Check => {
                let capacity = memory.capacity(queue);
                let word = |word| Word::Srq(self.srq, word);
                let head = memory.load(word(SrqWord::Head));
                self.count = head as u32;
                let slot = slot(self.count, capacity);
                (self.outcome, self.step) =
                    match waiting(memory, head, word(SrqWord::Seen), word(SrqWord::Tail), capacity) {
                        None => (Claimed::Broken, Step::Unask),
                        Some(0) => (Claimed::Empty, Step::Unask),
                        Some(_) => {
                            let elements = memory.load(Word::Receive { queue, slot, word: 1 });
                            let room = memory.receive_words(queue).min(RECEIVE_WORDS);
                            if elements <= MAX_SGE as u64 && 2 + 2 * elements as u32 <= room {
                                self.words = 2 + 2 * elements as u32;
                                (Claimed::Request, Step::Record)
                            } else {
                                (Claimed::Broken, Step::Unask)
                            }
                        }
                    };
            }
            Step::Record => {
                self.step = Step::Copy(0);
                memory.store(Word::Srq(self.srq, SrqWord::Journal), self.journal().pack());
            }
            Step::Copy(from) => {
                // Nobody reads the copy before it is held, so that these words are as good as one.
                let to = self.words.min(from + AT_ONCE);
                self.step = if to < self.words { Step::Copy(to) } else { Step::Hold };
                // Checked again when it is used: the owner of the memory can write both places.
                let slot = slot(self.count, memory.capacity(queue));
                for word in from..to {
                    let value = memory.load(Word::Receive { queue, slot, word });
                    memory.store(Word::Claimed { qp: self.qp, word }, value);
                }
            }
            Step::Hold => {
                self.step = Step::After(After::new(self.srq, self.journal()));
                let held = Held { srq: self.srq, count: self.count };
                memory.store(Word::Qp(self.qp, QpWord::Claim), held.pack());
            }
            Step::After(ref mut after) => match after.step(memory) {
                Progress::Done(()) => self.step = Step::Clear,
                Progress::Alert(object) => return Progress::Alert(object),
                _ => {}
            },
            Step::Clear => {
                self.step = Step::Unlock;
                memory.store(Word::Srq(self.srq, SrqWord::Journal), 0);
            }
            Step::Unlock => {
                self.step = Step::Done;
                return Progress::Unlock(queue);
            }
            Step::Done => return Progress::Done(self.outcome),
        }
        Progress::Continue
    }
}

/// What follows once a request is held: the head moves on, and the limit event is raised when few are left
/// (IBA §10.2.9.3: one event, then the limit is off). Repair does it again from the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct After {
    srq: u32,
    journal: SrqJournal,
    step: AfterStep,
}

#[derive(Clone, Copy, Debug)]
enum AfterStep {
    Head,
    Limit,
    Alert,
    Raise,
    LimitOff,
    Done,
}

impl After {
    pub(super) fn new(srq: u32, journal: SrqJournal) -> Self {
        Self { srq, journal, step: AfterStep::Head }
    }
}

impl Machine for After {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        let word = |word| Word::Srq(self.srq, word);
        let head = self.journal.count.wrapping_add(1);
        match self.step {
            AfterStep::Head => {
                // Once in the journal that the limit was reached, it is not asked again: more may be posted by
                // then.
                self.step = if self.journal.reached { AfterStep::Alert } else { AfterStep::Limit };
                memory.store(word(SrqWord::Head), u64::from(head));
            }
            AfterStep::Limit => {
                let limit = memory.load(word(SrqWord::Limit));
                self.step = AfterStep::Done;
                if limit > 0
                    && u64::from((memory.load(word(SrqWord::Tail)) as u32).wrapping_sub(head)) < limit
                {
                    self.step = AfterStep::Alert;
                    self.journal.reached = true;
                    memory.store(word(SrqWord::Journal), self.journal.pack());
                }
            }
            AfterStep::Alert => {
                self.step = AfterStep::Raise;
                return Progress::Alert(Object::Srq(self.srq));
            }
            AfterStep::Raise => {
                self.step = AfterStep::LimitOff;
                let events = Events(memory.load(word(SrqWord::Events)));
                memory.store(word(SrqWord::Events), events.raise(Event::SrqLimitReached).0);
            }
            AfterStep::LimitOff => {
                self.step = AfterStep::Done;
                memory.store(word(SrqWord::Limit), 0);
            }
            AfterStep::Done => return Progress::Done(()),
        }
        Progress::Continue
    }
}
