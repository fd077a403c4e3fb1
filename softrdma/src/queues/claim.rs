//! Claim: a queue pair takes the oldest request of a shared receive queue and holds it until a message is
//! delivered.
//!
//! A copy is held, so that the shared queue is locked only while a request changes hands and never while a
//! payload moves. Requests that are held when a sender dies stay with the queue pair: the next message uses
//! them, and a queue pair in error flushes them.
//!
//! Behind the queue pair's lock: an older fence cleared, a word that it asks (read when the shared queue is
//! taken from a holder that stopped), lock of the shared queue, direct rings held up, its journal (this queue
//! pair, this head), the copy, the claim word of the queue pair (**the moment it happened**), the head, the
//! limit event, journal cleared, rings let go on.

use crate::queues::receive::{RECEIVE_WORDS, waiting};

use super::direct::shared::{hold, record_taken, release, take_behind_lock};
use super::shared::{Claim, Events, Fence, Memory, Object, QpWord, SrqJournal, SrqWord, Word, slot};
use super::transaction::{Machine, Progress, then};
use crate::rules::receive::MAX_SGE;
use crate::rules::verbs::Event;

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
pub struct ClaimRequest {
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
    HoldUp,
    Check,
    Unask,
    Record,
    Copy(u32),
    Hold,
    After(After),
    Clear,
    Release,
    Unlock,
    Done,
}

impl ClaimRequest {
    /// A claim by the queue pair whose lock the caller holds, and which holds none.
    #[must_use]
    pub fn new(qp: u32, srq: u32) -> Self {
        Self { qp, srq, count: 0, words: 0, outcome: Claimed::Request, step: Step::Unfence }
    }

    fn journal(&self) -> SrqJournal {
        SrqJournal { qp: self.qp, count: self.count, reached: false }
    }
}

impl ClaimRequest {
    fn qp(&self, word: QpWord) -> Word {
        Word::Qp(self.qp, word)
    }

    fn srq(&self, word: SrqWord) -> Word {
        Word::Srq(self.srq, word)
    }

    #[inline(always)]
    pub(super) fn unfence(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        // It asked before, gave up, and was told nevertheless that the queue was moved. Once it asks, what it
        // is told counts.
        let fence = self.qp(QpWord::Fence);
        if let Some(Fence::Claim { .. }) = Fence::unpack(memory.load(fence)) {
            memory.store(fence, 0);
        }
        then!(self, memory, Step::Ask, self.ask(memory))
    }

    #[inline(always)]
    fn ask(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        memory.store(self.qp(QpWord::Claim), Claim::asking(self.srq));
        then!(self, memory, Step::Lock, self.lock())
    }

    #[inline(always)]
    fn lock(&mut self) -> Progress<Claimed> {
        self.step = Step::HoldUp;
        Progress::Lock(Object::Srq(self.srq))
    }

    #[inline(always)]
    pub(super) fn hold_up(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        hold(memory, self.srq);
        then!(self, memory, Step::Check, self.check(memory))
    }

    #[inline(always)]
    fn check(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        let queue = Object::Srq(self.srq);
        let capacity = memory.capacity(queue);
        let head = memory.load(self.srq(SrqWord::Head));
        self.count = head as u32;
        self.outcome = match waiting(memory, head, self.srq(SrqWord::Seen), self.srq(SrqWord::Tail), capacity)
        {
            None => Claimed::Broken,
            Some(0) => Claimed::Empty,
            Some(_) => {
                let slot = slot(self.count, capacity);
                let elements = memory.load(Word::Receive { queue, slot, word: 1 });
                let room = memory.receive_words(queue).min(RECEIVE_WORDS);
                if elements <= MAX_SGE as u64 && 2 + 2 * elements as u32 <= room {
                    self.words = 2 + 2 * elements as u32;
                    Claimed::Request
                } else {
                    Claimed::Broken
                }
            }
        };
        if self.outcome != Claimed::Request {
            self.step = Step::Unask;
            return Progress::Continue;
        }
        then!(self, memory, Step::Record, self.record(memory))
    }

    #[inline(always)]
    fn record(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        memory.store(self.srq(SrqWord::Journal), self.journal().pack());
        then!(self, memory, Step::Copy(0), self.copy(memory, 0))
    }

    #[inline(always)]
    fn copy(&mut self, memory: &impl Memory, from: u32) -> Progress<Claimed> {
        let queue = Object::Srq(self.srq);
        // Nobody reads the copy before it is held, so that these words are as good as one. Checked again when
        // it is used: the owner of the memory can write both places.
        let (to, slot) = (self.words.min(from + AT_ONCE), slot(self.count, memory.capacity(queue)));
        let mut words = [0; AT_ONCE as usize];
        let words = &mut words[..(to - from) as usize];
        memory.load_all(Word::Receive { queue, slot, word: from }, words);
        memory.store_all(Word::Claimed { qp: self.qp, word: from }, words);
        if to < self.words {
            self.step = Step::Copy(to);
            return Progress::Continue;
        }
        then!(self, memory, Step::Hold, self.hold(memory))
    }

    #[inline(always)]
    fn hold(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        let held = Claim { srq: self.srq, count: self.count };
        memory.store(self.qp(QpWord::Claim), held.pack());
        let after = After::new(self.srq, self.journal());
        then!(self, memory, Step::After(after), self.after(memory, after))
    }

    #[inline(always)]
    fn after(&mut self, memory: &impl Memory, mut after: After) -> Progress<Claimed> {
        loop {
            let progress = after.step(memory);
            self.step = Step::After(after);
            match progress {
                Progress::Done(()) => return then!(self, memory, Step::Clear, self.clear(memory)),
                Progress::Alert(object) => return Progress::Alert(object),
                _ if memory.is_stepwise() => return Progress::Continue,
                _ => {}
            }
        }
    }

    #[inline(always)]
    fn clear(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        memory.store(self.srq(SrqWord::Journal), 0);
        then!(self, memory, Step::Release, self.release(memory))
    }

    #[inline(always)]
    fn release(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        release(memory, self.srq);
        then!(self, memory, Step::Unlock, self.unlock())
    }

    #[inline(always)]
    fn unlock(&mut self) -> Progress<Claimed> {
        self.step = Step::Done;
        Progress::Unlock(Object::Srq(self.srq))
    }
}

impl Machine for ClaimRequest {
    type Outcome = Claimed;

    #[inline]
    fn step(&mut self, memory: &impl Memory) -> Progress<Claimed> {
        match self.step {
            Step::Unfence => self.unfence(memory),
            Step::Ask => self.ask(memory),
            Step::Lock => self.lock(),
            Step::HoldUp => self.hold_up(memory),
            Step::Check => self.check(memory),
            Step::Unask => {
                memory.store(self.qp(QpWord::Claim), 0);
                then!(self, memory, Step::Release, self.release(memory))
            }
            Step::Record => self.record(memory),
            Step::Copy(from) => self.copy(memory, from),
            Step::Hold => self.hold(memory),
            Step::After(after) => self.after(memory, after),
            Step::Clear => self.clear(memory),
            Step::Release => self.release(memory),
            Step::Unlock => self.unlock(),
            Step::Done => Progress::Done(self.outcome),
        }
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
    Record,
    Head,
    Limit,
    Alert,
    Raise,
    LimitOff,
    Done,
}

impl After {
    pub(super) fn new(srq: u32, journal: SrqJournal) -> Self {
        Self { srq, journal, step: AfterStep::Record }
    }
}

impl Machine for After {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        let word = |word| Word::Srq(self.srq, word);
        let head = self.journal.count.wrapping_add(1);
        match self.step {
            AfterStep::Record => {
                self.step = AfterStep::Head;
                record_taken(memory, self.srq, self.journal.count);
            }
            AfterStep::Head => {
                // Once in the journal that the limit was reached, it is not asked again: more may be posted by
                // then.
                self.step = if self.journal.reached { AfterStep::Alert } else { AfterStep::Limit };
                take_behind_lock(memory, self.srq, self.journal.count);
            }
            AfterStep::Limit => {
                let limit = memory.load(word(SrqWord::Limit));
                self.step = AfterStep::Done;
                // rule: event-limit
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
