//! Bursts: small messages of one sender to one queue pair, one after the other, behind one lock of the queue
//! pair and one of its completion queue.
//!
//! Only what goes straight through: a send whose payload travels in the completion entry, into a request of the
//! queue pair's own ring whose first piece of memory takes it, with a completion that wakes nobody. Everything
//! else is left to [`Respond`](super::respond::Respond), with the burst closed and nothing changed.
//!
//! Behind the queue pair's lock:
//!
//! 1. journal of the queue pair: with this head, completions are on their way to that completion queue;
//! 2. lock of the completion queue, its journal: this queue pair publishes from that tail on;
//! 3. for each message the entry without its first word, the first word (**the moment it happened**), the head;
//! 4. tail; journal of the queue pair: published; journal of the completion queue cleared, its lock given back;
//!    journal of the queue pair cleared.
//!
//! As the head follows each message, the queue pair's journal matters only between a first word and its head,
//! and when the completion queue's lock is taken from a holder that stopped: until the journal says that the
//! entries are published, that holder may be about to publish one. After a death the published entries are
//! counted ([`Repair`](super::repair::Repair), to which a [`Deliver`](super::deliver::Deliver) is a burst of
//! one).

use super::deliver::{entry_word, has_room};
use super::respond::Queues;
use super::shared::{CqJournal, CqWord, Events, Fence, Memory, Object, QpJournal, QpWord, Take, Word, slot};
use super::transaction::LockError;
use super::transaction::{Machine, Progress, then};
use crate::queues::completion::{Armed, ENTRY_WORDS, HEAD_WORDS, MAX_STAGED, Stage, stage_room, wanted};
use crate::queues::receive::first_in_ring;
use crate::rules::keys::{self, Key};
use crate::rules::responder::{Incoming, Plan, RemoteAccess, TargetQp, Verdict, judge, success};
use crate::rules::verbs::{Access, Event, Opcode, Status};

/// Most messages of a burst: others wait for the locks meanwhile.
pub const MAX_BURST: u32 = 64;

/// What goes straight through, once the responder's rules have accepted it.
const PLAIN: Plan = Plan { remote: RemoteAccess::None, receive: true, invalidate: None, established: false };

/// A burst, or none yet. See the module.
///
/// [`Burst::open`], then for each message its bytes to [`Burst::bytes`] and [`Burst::offer`], and steps until
/// [`Progress::Done`]: `true`, it is delivered; `false`, it is not, and the burst is closed. [`Burst::close`]
/// and steps close one otherwise. The holder of the queue pair's lock gives it back then.
#[derive(Clone, Debug)]
pub struct Burst {
    qp: u32,
    cq: u32,
    /// Head before, and messages since.
    head: u32,
    count: u32,
    /// Tail before.
    tail: u32,
    /// The key of the target that was looked up last. Its owner looks at it again when it takes the payload.
    key: Option<(u32, Key)>,
    /// What the bell of the completion queue waits for, which nobody changes meanwhile.
    armed: u64,
    solicited: bool,
    entry: [u64; ENTRY_WORDS as usize],
    used: usize,
    bytes: [u8; MAX_STAGED],
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// No message yet, and nothing changed.
    Opened,
    Begin,
    Lock,
    Check,
    Record,
    /// Between messages.
    Ready,
    Room,
    Entry,
    Publish,
    Take,
    Count,
    Mark,
    Clear,
    Unlock,
    Finish,
    Closed,
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            qp: 0,
            cq: 0,
            head: 0,
            count: 0,
            tail: 0,
            key: None,
            armed: 0,
            solicited: false,
            entry: [0; ENTRY_WORDS as usize],
            used: 0,
            bytes: [0; MAX_STAGED],
            step: Step::Closed,
        }
    }
}

impl Burst {
    /// Opens one. The caller holds the lock of the queue pair.
    #[inline(always)]
    pub fn open(&mut self, memory: &impl Memory, queues: &Queues) {
        self.step = Step::Closed;
        if queues.srq.is_none() {
            (self.qp, self.cq, self.count, self.key) = (queues.qp, queues.cq, 0, None);
            self.head = memory.load(Word::Qp(self.qp, QpWord::Head)) as u32;
            self.step = Step::Opened;
        }
    }

    /// Whether a message of so many bytes, with what stands in front of it, is likely to go straight through: a
    /// look without locks, so that they are not taken in vain.
    #[inline]
    pub fn is_likely(memory: &impl Memory, queues: &Queues, used: usize, solicited: bool) -> bool {
        let armed = memory.load(Word::Cq(queues.cq, CqWord::Armed));
        queues.srq.is_none()
            && used <= stage_room(memory, queues.cq).min(MAX_STAGED)
            && wanted(memory, queues.cq) == 0
            && !Armed::rings(armed, Status::Success, solicited)
    }

    /// Whether the queue pair is held for it.
    #[must_use]
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.step != Step::Closed
    }

    /// Whether it takes no more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count >= MAX_BURST
    }

    /// Where the bytes of the next message go, in front of them the 40 of a datagram's header.
    pub fn bytes(&mut self) -> &mut [u8; MAX_STAGED] {
        &mut self.bytes
    }

    /// The next message, whose bytes are in place. `false` when it does not go straight through, with nothing
    /// changed. `lookup` finds keys of the target.
    #[inline(always)]
    pub fn offer(
        &mut self,
        memory: &impl Memory,
        target: &TargetQp,
        request: &Incoming,
        lookup: impl FnOnce(u32) -> Option<Key>,
    ) -> bool {
        if !matches!(self.step, Step::Opened | Step::Ready)
            || !matches!(request.opcode, Opcode::Send | Opcode::SendWithImm)
            || self.count >= MAX_BURST
        {
            return false;
        }
        match judge(target, request, None, None) {
            Verdict::Accept(PLAIN) => {}
            // The first message after RTR raises an event, those that follow do not.
            Verdict::Accept(Plan { established: true, .. }) if self.is_established(memory) => {}
            _ => return false,
        }
        let head = self.head.wrapping_add(self.count);
        let Some((wr_id, first)) = first_in_ring(memory, self.qp, head) else { return false };
        let completion = success(target, request, wr_id);
        self.used = completion.byte_len as usize;
        let mut stage = None;
        if self.used > 0 {
            let length = first.length as usize;
            if self.used > length || self.used > stage_room(memory, self.cq).min(MAX_STAGED) {
                return false;
            }
            if self.key.is_none_or(|(lkey, _)| lkey != first.lkey) {
                self.key = lookup(first.lkey).map(|key| (first.lkey, key));
            }
            let key = self.key.as_ref().map(|(_, key)| key);
            // Memory that may not be there is for the other way, which sees whether it is.
            if keys::check_local(key, target.receive_pd, first.addr, first.length, true).is_err()
                || key.is_some_and(|key| key.access.has(Access::ON_DEMAND))
            {
                return false;
            }
            stage = Some(Stage { addr: first.addr, lkey: first.lkey, bytes: &self.bytes[..self.used] });
        }
        self.solicited = request.solicited;
        // Its count is filled in when the tail is known.
        let (head, payload) = self.entry.split_at_mut(HEAD_WORDS as usize);
        head.copy_from_slice(&completion.pack(0, stage.as_ref()));
        let (whole, rest) = self.bytes[..self.used].as_chunks();
        for (word, bytes) in payload.iter_mut().zip(whole) {
            *word = u64::from_ne_bytes(*bytes);
        }
        if !rest.is_empty() {
            payload[whole.len()] = entry_word(rest, 0);
        }
        self.step = if self.step == Step::Opened { Step::Begin } else { Step::Room };
        true
    }

    fn is_established(&self, memory: &impl Memory) -> bool {
        Events(memory.load(Word::Qp(self.qp, QpWord::Events))).was_raised(Event::CommEst)
    }

    /// Messages that it delivered so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many of its messages are there, when the lock of the completion queue was taken away and this was
    /// [found out](super::transport::Transport::resolve) of the queue pair; `None` when nobody knows.
    #[must_use]
    pub fn kept(&self, found: Result<Option<Fence>, LockError>) -> Option<u32> {
        match found {
            Ok(None) => Some(self.count),
            Ok(Some(Fence::Delivery(QpJournal { take: Take::Head(head), .. }))) => {
                Some(head.wrapping_sub(self.head)).filter(|kept| *kept <= self.count)
            }
            Ok(Some(_)) | Err(_) => None,
        }
    }

    /// Closes it: after steps, the queue pair's lock is to be given back.
    pub fn close(&mut self) {
        match self.step {
            Step::Opened => self.step = Step::Closed,
            Step::Ready => self.step = Step::Count,
            _ => {}
        }
    }

    /// The tail as it would be now.
    fn tail(&self) -> u32 {
        self.tail.wrapping_add(self.count)
    }

    fn place(&self, memory: &impl Memory, word: u32) -> Word {
        let slot = slot(self.tail(), memory.capacity(Object::Cq(self.cq)));
        Word::Entry { cq: self.cq, slot, word }
    }
}

impl Burst {
    fn qp(&self, word: QpWord) -> Word {
        Word::Qp(self.qp, word)
    }

    fn cq(&self, word: CqWord) -> Word {
        Word::Cq(self.cq, word)
    }

    #[inline(always)]
    fn begin(&mut self, memory: &impl Memory) -> Progress<bool> {
        let journal = QpJournal { published: false, cq: self.cq, take: Take::Head(self.head), breaks: false };
        memory.store(self.qp(QpWord::Journal), journal.pack());
        then!(self, memory, Step::Lock, self.lock())
    }

    #[inline(always)]
    fn lock(&mut self) -> Progress<bool> {
        self.step = Step::Check;
        Progress::Lock(Object::Cq(self.cq))
    }

    #[inline(always)]
    fn check(&mut self, memory: &impl Memory) -> Progress<bool> {
        let events = Events(memory.load(self.cq(CqWord::Events)));
        self.tail = memory.load(self.cq(CqWord::Tail)) as u32;
        self.armed = memory.load(self.cq(CqWord::Armed));
        if events.was_raised(Event::CqErr) || wanted(memory, self.cq) != 0 {
            self.step = Step::Mark;
            return Progress::Continue;
        }
        then!(self, memory, Step::Record, self.record(memory))
    }

    #[inline(always)]
    fn record(&mut self, memory: &impl Memory) -> Progress<bool> {
        let journal = CqJournal { qp: self.qp, tail: self.tail.wrapping_add(1) };
        memory.store(self.cq(CqWord::Journal), journal.pack());
        then!(self, memory, Step::Room, self.room(memory))
    }

    #[inline(always)]
    fn room(&mut self, memory: &impl Memory) -> Progress<bool> {
        let rings = Armed::rings(self.armed, Status::Success, self.solicited);
        // Never round the ring, though its owner takes entries meanwhile: they say how many were published.
        let fresh = self.count < memory.capacity(Object::Cq(self.cq));
        if !fresh || rings || !has_room(memory, self.cq, self.tail()) {
            self.step = Step::Count;
            return Progress::Continue;
        }
        then!(self, memory, Step::Entry, self.entry(memory))
    }

    #[inline(always)]
    fn entry(&mut self, memory: &impl Memory) -> Progress<bool> {
        // Nobody reads the entry before it is published, so that these words are as good as one.
        self.entry[0] = self.entry[0] >> 32 << 32 | u64::from(self.tail().wrapping_add(1));
        let end = HEAD_WORDS as usize + self.used.div_ceil(8);
        memory.store_all(self.place(memory, 1), &self.entry[1..end]);
        then!(self, memory, Step::Publish, self.publish(memory))
    }

    #[inline(always)]
    fn publish(&mut self, memory: &impl Memory) -> Progress<bool> {
        memory.store(self.place(memory, 0), self.entry[0]);
        self.count += 1;
        then!(self, memory, Step::Take, self.take(memory))
    }

    #[inline(always)]
    fn take(&mut self, memory: &impl Memory) -> Progress<bool> {
        memory.store(self.qp(QpWord::Head), u64::from(self.head.wrapping_add(self.count)));
        self.step = Step::Ready;
        Progress::Done(true)
    }

    #[inline(always)]
    fn count_all(&mut self, memory: &impl Memory) -> Progress<bool> {
        memory.store(self.cq(CqWord::Tail), u64::from(self.tail()));
        then!(self, memory, Step::Mark, self.mark(memory))
    }

    #[inline(always)]
    fn mark(&mut self, memory: &impl Memory) -> Progress<bool> {
        let take = Take::Head(self.head.wrapping_add(self.count));
        let journal = QpJournal { published: true, cq: self.cq, take, breaks: false };
        memory.store(self.qp(QpWord::Journal), journal.pack());
        then!(self, memory, Step::Clear, self.clear(memory))
    }

    #[inline(always)]
    fn clear(&mut self, memory: &impl Memory) -> Progress<bool> {
        memory.store(self.cq(CqWord::Journal), 0);
        then!(self, memory, Step::Unlock, self.unlock())
    }

    #[inline(always)]
    fn unlock(&mut self) -> Progress<bool> {
        self.step = Step::Finish;
        Progress::Unlock(Object::Cq(self.cq))
    }

    #[inline(always)]
    fn finish(&mut self, memory: &impl Memory) -> Progress<bool> {
        memory.store(self.qp(QpWord::Journal), 0);
        then!(self, memory, Step::Closed, Progress::Done(false))
    }
}

impl Machine for Burst {
    type Outcome = bool;

    #[inline]
    fn step(&mut self, memory: &impl Memory) -> Progress<bool> {
        match self.step {
            Step::Opened | Step::Ready => Progress::Done(true),
            Step::Begin => self.begin(memory),
            Step::Lock => self.lock(),
            Step::Check => self.check(memory),
            Step::Record => self.record(memory),
            Step::Room => self.room(memory),
            Step::Entry => self.entry(memory),
            Step::Publish => self.publish(memory),
            Step::Take => self.take(memory),
            Step::Count => self.count_all(memory),
            Step::Mark => self.mark(memory),
            Step::Clear => self.clear(memory),
            Step::Unlock => self.unlock(),
            Step::Finish => self.finish(memory),
            Step::Closed => Progress::Done(false),
        }
    }
}
