//! Delivery: a completion entry appears in a completion queue and a receive request is used up, both or
//! neither.
//!
//! Behind the queue pair's lock:
//!
//! 1. journal of the queue pair: this entry is on its way to that completion queue;
//! 2. lock of the completion queue, its journal: this queue pair publishes at that tail;
//! 3. entry without its first word, bell if armed, first word: **this store is the moment it happened**;
//! 4. tail; journal of the queue pair: published; journal of the completion queue cleared, its lock given back;
//! 5. the receive request is taken, the queue pair goes to ERR if the completion says so, journal of the queue
//!    pair cleared.
//!
//! After a death ([`Repair`](super::repair::Repair)) the next holder of the completion queue's lock compares
//! the entry with its journal; when the entry was published, it counts it and notes that in the queue pair's
//! journal. The next holder of the queue pair's lock visits the completion queue's lock first, so that this has
//! been noted, and then takes the request or not.

use crate::queues::completion::{Armed, HEAD_WORDS, Stage, wanted, wants};

use super::shared::{CqJournal, CqWord, Events, Memory, Object, QpJournal, QpWord, Take, Word, held, slot};
use super::transaction::{Machine, Progress, then};
use crate::rules::completion::Completion;
use crate::rules::verbs::{Event, QpState};

/// Words written in one step: a cache line.
const AT_ONCE: u32 = 8;

/// What came of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivered {
    /// The entry is in the queue.
    Published,
    /// The completion queue is full, or was before: the entry is lost, the receive request used up, and
    /// [`Event::CqErr`] stands in the queue (IBA §10.2.4.3, §11.6.3.1: overrun of a completion queue).
    Overrun,
    /// As above in a queue that does not mind: [`wants::IGNORE_OVERRUN`].
    Dropped,
}

/// The transaction. See the module.
#[derive(Clone, Debug)]
pub struct Deliver<'a> {
    cq: u32,
    completion: Completion,
    stage: Option<Stage<'a>>,
    solicited: bool,
    receiver: Option<(u32, Take)>,
    breaks: bool,
    /// It stops when it is certain.
    halts: bool,
    tail: u32,
    outcome: Delivered,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arm,
    Lock,
    Check,
    Overrun,
    Record,
    Entry(u32),
    Bell,
    Disarm,
    Publish,
    Count,
    Mark,
    Clear,
    Unlock,
    Take,
    Break,
    Finish,
    Done,
}

impl<'a> Deliver<'a> {
    /// Completes the receive request that `take` names (with the head as it is), of the queue pair whose lock
    /// the caller holds.
    #[must_use]
    pub fn receive(qp: u32, take: Take, cq: u32, completion: &Completion, solicited: bool) -> Self {
        Self::new(Some((qp, take)), cq, completion, solicited)
    }

    /// Appends a completion of the own process (send side): the entry alone. No lock is held by the caller.
    #[must_use]
    #[inline(always)]
    pub fn append(cq: u32, completion: &Completion) -> Self {
        Self::new(None, cq, completion, false)
    }

    /// Behind the lock of the completion queue, which the caller holds: it is given back at the end.
    #[must_use]
    pub fn behind_lock(self) -> Self {
        debug_assert!(self.receiver.is_none(), "a receiver's journal comes before the lock");
        Self { step: Step::Check, ..self }
    }

    /// The queue pair goes to ERR with it. Its owner learns that by the completion, not by an event, and takes
    /// the queue pair's lock once when it finds the completion.
    #[must_use]
    pub fn breaking(self) -> Self {
        Self { breaks: true, ..self }
    }

    /// With this payload in the entry, which has room for it.
    #[must_use]
    pub fn with(self, stage: Option<Stage<'a>>) -> Self {
        Self { stage, ..self }
    }

    /// Stops when it [is certain](Deliver::is_certain), so that the caller can act then.
    #[must_use]
    pub(super) fn halting(self, halts: bool) -> Self {
        Self { halts, ..self }
    }

    #[inline(always)]
    fn new(receiver: Option<(u32, Take)>, cq: u32, completion: &Completion, solicited: bool) -> Self {
        Self {
            cq,
            completion: *completion,
            stage: None,
            solicited,
            receiver,
            breaks: false,
            halts: false,
            tail: 0,
            outcome: Delivered::Published,
            step: Step::Arm,
        }
    }

    /// Whether the completion queue is locked and takes the entry, or does not mind: from here on only the
    /// death of this process keeps the message from being delivered.
    pub(super) fn is_certain(&self) -> bool {
        match self.step {
            Step::Record => true,
            Step::Mark => self.outcome == Delivered::Dropped,
            _ => false,
        }
    }

    fn journal(&self, take: Take, published: bool) -> u64 {
        QpJournal { published, cq: self.cq, take, breaks: self.breaks }.pack()
    }

    fn cq_word(&self, word: CqWord) -> Word {
        Word::Cq(self.cq, word)
    }

    #[inline(always)]
    fn head(&self) -> [u64; HEAD_WORDS as usize] {
        self.completion.pack(self.tail.wrapping_add(1), self.stage.as_ref())
    }
}

/// Whether a completion queue takes an entry at this tail. The owner's count is read, and kept as seen, when by
/// what was seen there is no room.
#[inline(always)]
pub(super) fn has_room(memory: &impl Memory, cq: u32, tail: u32) -> bool {
    let capacity = memory.capacity(Object::Cq(cq));
    let room = |head| held(head, u64::from(tail), capacity).is_some_and(|held| held < capacity);
    if room(memory.load(Word::Cq(cq, CqWord::Seen))) {
        return true;
    }
    let head = memory.load(Word::Cq(cq, CqWord::Head));
    if room(head) {
        memory.store(Word::Cq(cq, CqWord::Seen), u64::from(head as u32));
    }
    room(head)
}

/// A word of payload; what it does not fill is zero.
#[inline(always)]
pub(super) fn entry_word(bytes: &[u8], word: u32) -> u64 {
    let rest = bytes.get(8 * word as usize..).unwrap_or(&[]);
    if let Some(whole) = rest.first_chunk() {
        return u64::from_ne_bytes(*whole);
    }
    let mut value = [0; 8];
    let count = rest.len().min(8);
    value[..count].copy_from_slice(&rest[..count]);
    u64::from_ne_bytes(value)
}

impl Deliver<'_> {
    #[inline(always)]
    pub(super) fn arm(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        if let Some((qp, take)) = self.receiver {
            memory.store(Word::Qp(qp, QpWord::Journal), self.journal(take, false));
        }
        then!(self, memory, Step::Lock, self.lock())
    }

    #[inline(always)]
    fn lock(&mut self) -> Progress<Delivered> {
        self.step = Step::Check;
        Progress::Lock(Object::Cq(self.cq))
    }

    #[inline(always)]
    pub(super) fn check(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        let events = Events(memory.load(self.cq_word(CqWord::Events)));
        self.tail = memory.load(self.cq_word(CqWord::Tail)) as u32;
        if !events.was_raised(Event::CqErr) && has_room(memory, self.cq, self.tail) {
            self.step = Step::Record;
            return if memory.is_stepwise() || self.halts { Progress::Continue } else { self.record(memory) };
        }
        self.no_room(memory, events)
    }

    #[cold]
    fn no_room(&mut self, memory: &impl Memory, events: Events) -> Progress<Delivered> {
        self.step = Step::Mark;
        if events.was_raised(Event::CqErr) {
            self.outcome = Delivered::Overrun;
        } else if wanted(memory, self.cq) & wants::IGNORE_OVERRUN != 0 {
            // rule: overrun-ignored
            self.outcome = Delivered::Dropped;
        } else {
            self.outcome = Delivered::Overrun;
            // rule: event-overrun
            self.step = Step::Overrun;
            return Progress::Alert(Object::Cq(self.cq));
        }
        Progress::Continue
    }

    #[inline(always)]
    fn record(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        let qp = self.receiver.map_or(CqJournal::NOBODY, |(qp, _)| qp);
        let journal = CqJournal { qp, tail: self.tail.wrapping_add(1) };
        memory.store(self.cq_word(CqWord::Journal), journal.pack());
        then!(self, memory, Step::Entry(1), self.entry(memory, 1))
    }

    #[inline(always)]
    fn entry(&mut self, memory: &impl Memory, from: u32) -> Progress<Delivered> {
        // Nobody reads the entry before it is published, so that these words are as good as one.
        let payload = self.stage.map_or(0, |stage| stage.bytes.len().div_ceil(8) as u32);
        let (to, end) = ((from + AT_ONCE) & !(AT_ONCE - 1), HEAD_WORDS + payload);
        let slot = slot(self.tail, memory.capacity(Object::Cq(self.cq)));
        let head = self.head();
        let bytes = self.stage.map_or(&[][..], |stage| stage.bytes);
        let mut words = [0; AT_ONCE as usize];
        for (value, word) in words.iter_mut().zip(from..to.min(end)) {
            *value = match head.get(word as usize) {
                Some(value) => *value,
                None => entry_word(bytes, word - HEAD_WORDS),
            };
        }
        let count = (to.min(end) - from) as usize;
        memory.store_all(Word::Entry { cq: self.cq, slot, word: from }, &words[..count]);
        if to < end {
            self.step = Step::Entry(to);
            return Progress::Continue;
        }
        then!(self, memory, Step::Bell, self.bell(memory))
    }

    #[inline(always)]
    fn bell(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        let armed = memory.load(self.cq_word(CqWord::Armed));
        if Armed::rings(armed, self.completion.status, self.solicited) {
            self.step = Step::Disarm;
            return Progress::Bell(self.cq);
        }
        then!(self, memory, Step::Publish, self.publish(memory))
    }

    #[inline(always)]
    fn publish(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        let slot = slot(self.tail, memory.capacity(Object::Cq(self.cq)));
        memory.store(Word::Entry { cq: self.cq, slot, word: 0 }, self.head()[0]);
        then!(self, memory, Step::Count, self.count(memory))
    }

    #[inline(always)]
    fn count(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        memory.store(self.cq_word(CqWord::Tail), u64::from(self.tail.wrapping_add(1)));
        then!(self, memory, Step::Mark, self.mark(memory))
    }

    #[inline(always)]
    fn mark(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        if let Some((qp, take)) = self.receiver {
            memory.store(Word::Qp(qp, QpWord::Journal), self.journal(take.after(1), true));
        }
        then!(self, memory, Step::Clear, self.clear(memory))
    }

    #[inline(always)]
    fn clear(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        memory.store(self.cq_word(CqWord::Journal), 0);
        then!(self, memory, Step::Unlock, self.unlock())
    }

    #[inline(always)]
    fn unlock(&mut self) -> Progress<Delivered> {
        self.step = if self.receiver.is_some() { Step::Take } else { Step::Done };
        Progress::Unlock(Object::Cq(self.cq))
    }

    #[inline(always)]
    pub(super) fn take(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        if let Some((qp, take)) = self.receiver {
            take_request(memory, qp, take.after(1));
        }
        if self.breaks {
            self.step = Step::Break;
            return Progress::Continue;
        }
        then!(self, memory, Step::Finish, self.finish(memory))
    }

    #[inline(always)]
    fn finish(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        if let Some((qp, _)) = self.receiver {
            memory.store(Word::Qp(qp, QpWord::Journal), 0);
        }
        then!(self, memory, Step::Done, Progress::Done(self.outcome))
    }
}

impl Machine for Deliver<'_> {
    type Outcome = Delivered;

    #[inline]
    fn step(&mut self, memory: &impl Memory) -> Progress<Delivered> {
        match self.step {
            Step::Arm => return self.arm(memory),
            Step::Lock => return self.lock(),
            Step::Check => return self.check(memory),
            Step::Overrun => {
                self.step = Step::Mark;
                let events = Events(memory.load(self.cq_word(CqWord::Events)));
                memory.store(self.cq_word(CqWord::Events), events.raise_once(Event::CqErr).0);
            }
            Step::Record => return self.record(memory),
            Step::Entry(from) => return self.entry(memory, from),
            Step::Bell => return self.bell(memory),
            Step::Disarm => {
                // rule: notify-once
                // After the bell: whoever dies in between leaves the queue armed, and the next entry rings
                // again.
                self.step = Step::Publish;
                memory.store(self.cq_word(CqWord::Armed), Armed::No as u64);
            }
            Step::Publish => return self.publish(memory),
            Step::Count => return self.count(memory),
            Step::Mark => return self.mark(memory),
            Step::Clear => return self.clear(memory),
            Step::Unlock => return self.unlock(),
            Step::Take => return self.take(memory),
            Step::Break => {
                self.step = Step::Finish;
                if let Some((qp, _)) = self.receiver {
                    memory.store(Word::Qp(qp, QpWord::State), QpState::Err as u64);
                }
            }
            Step::Finish => return self.finish(memory),
            Step::Done => return Progress::Done(self.outcome),
        }
        Progress::Continue
    }

    fn unheard(&mut self) {
        // The queue stays armed, so that the next entry rings.
        if matches!(self.step, Step::Disarm) {
            self.step = Step::Publish;
        }
    }
}

/// Uses up receive requests, given what is to be so afterwards: by one store, or two of which the journal tells
/// until both are done. Doing it again changes nothing.
pub(super) fn take_request(memory: &impl Memory, qp: u32, take: Take) {
    match take {
        Take::Head(head) => memory.store(Word::Qp(qp, QpWord::Head), u64::from(head)),
        Take::Claim(taken) => {
            memory.store(Word::Qp(qp, QpWord::Head), u64::from(taken));
            memory.store(Word::Qp(qp, QpWord::Claim), 0);
        }
    }
}
