//! Direct rings: small messages between two connected queue pairs without a lock.
//!
//! A ring lies in the target's memory. The one queue pair that the target is connected to writes messages
//! there, and the target's owner takes them when it polls: only then a message meets its receive request.
//! As nobody else uses up requests of a connected queue pair, message and request have the same number,
//! counted from the queue pair's first. A message that does not go this way, and uses up a request, goes as
//! all others do ([`respond`](super::respond), [`burst`](super::burst)) with the next number at the head of
//! the queue pair: the sender stores its count there first, behind the lock ([`Sender::settled`]). So who
//! polls can put both kinds in order ([`Receiver::look`]).
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | [`DirectWord::Writer`] | the process that writes here, 0 when none does | the sender |
//! | [`DirectWord::End`] | [`End`] | the owner |
//! | [`DirectWord::Credit`] | requests posted; bytes that each which waits takes in the high half | the owner |
//! | [`DirectWord::Key`] | the key of the memory of all that wait; 0 for several | the owner |
//! | [`DirectWord::Taken`] | slots taken, now and then | the owner |
//! | slots | below | the sender |
//!
//! Word 0 of a slot: its count in bits 31..0, bytes of the message 39..32, flags from 40 on. Word 1: number
//! of the message, immediate data in the high half. Then payload, which goes on behind word 0 of the slots
//! that follow.
//!
//! A message is there when word 0 of its first slot is, which is stored last. Nothing else is, so a sender
//! that dies leaves nothing to repair: the message is there or not.
//!
//! **The end.** The owner closes a ring behind the queue pair's lock ([`Receiver::close`]): it says so, and
//! then looks how far the messages go. The sender stores its message and then looks whether the ring was
//! closed. One sees the other. Where the sender sees it, the end that is stored there tells, behind the
//! lock, whether the message came before it ([`Sender::came_through`]).
//!
//! **What the owner promises** in [`DirectWord::Credit`] is all that the sender looks at: a request that is
//! posted, and so many bytes in its first piece of memory by the key in [`DirectWord::Key`], which the
//! sender looks up. Whatever that does not promise goes the other way, which finds the errors.

mod credit;

use super::shared::{Memory, Word, slot};
use super::transport::{Machine, Progress, then};

pub use credit::Credit;

/// Words in front of the slots: a cache line that hardly changes, and one that the owner writes.
pub const HEADER_WORDS: u32 = 16;
/// Words of a slot: a cache line.
pub const SLOT_WORDS: u32 = 8;
/// Most bytes of a message.
pub const MAX_DIRECT: usize = super::burst::MAX_BYTES;
/// Slots of the longest message, which is the least that a ring has, by powers of two.
pub const MIN_SLOTS: u32 = slots_of(MAX_DIRECT as u32).next_power_of_two();
/// Words of payload in a message's first slot, and in each that follows.
const FIRST: u32 = SLOT_WORDS - 2;
const MORE: u32 = SLOT_WORDS - 1;

/// Flags of a slot.
const IMM: u64 = 1 << 40;
const SOLICITED: u64 = 1 << 41;
/// It goes on with the message of a slot before it.
const MIDST: u64 = 1 << 42;
/// A message begins there.
const START: u64 = 1 << 43;

/// A word in front of the slots.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DirectWord {
    /// Who writes messages: a process as it signs locks.
    Writer = 0,
    /// [`End`].
    End = 1,
    /// Requests posted, and bytes that each takes.
    Credit = 8,
    /// The key of their memory.
    Key = 9,
    /// Slots taken.
    Taken = 10,
}

/// Words of a ring of so many slots.
#[must_use]
pub const fn ring_words(slots: u32) -> u32 {
    HEADER_WORDS + SLOT_WORDS * slots
}

/// Slots of a message of so many bytes.
const fn slots_of(bytes: u32) -> u32 {
    let words = bytes.div_ceil(8);
    if words <= FIRST { 1 } else { 1 + (words - FIRST).div_ceil(MORE) }
}

fn at(qp: u32, word: DirectWord) -> Word {
    Word::Direct { qp, word: word as u32 }
}

/// Word of the slot with this count.
#[inline(always)]
fn slot_word(qp: u32, slots: u32, count: u32, word: u32) -> Word {
    Word::Direct { qp, word: HEADER_WORDS + SLOT_WORDS * slot(count, slots) + word }
}

/// Where a word of payload stands: slots behind the first, and word of that slot.
#[inline(always)]
fn payload_at(word: u32) -> (u32, u32) {
    if word < FIRST { (0, 2 + word) } else { (1 + (word - FIRST) / MORE, 1 + (word - FIRST) % MORE) }
}

/// Whether count `a` is not behind count `b`.
#[inline(always)]
fn reached(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) >= 0
}

/// Whether the ring takes messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It does.
    Open,
    /// Not any more, and its owner looks just now how far they go.
    Closing,
    /// Those up to this slot are there, the slot itself not among them.
    At(u32),
}

impl End {
    fn pack(self) -> u64 {
        match self {
            Self::Open => 0,
            Self::Closing => 1 << 63,
            Self::At(count) => 3 << 62 | u64::from(count),
        }
    }

    fn unpack(word: u64) -> Self {
        match word >> 62 {
            0 => Self::Open,
            3 => Self::At(word as u32),
            _ => Self::Closing,
        }
    }
}

/// A message as its sender has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// At most [`MAX_DIRECT`].
    pub bytes: &'a [u8],
    /// Immediate data.
    pub imm: Option<u32>,
    /// Whether a receiver that waits for solicited completions is woken.
    pub solicited: bool,
}

/// The sender's side: it alone knows how far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    qp: u32,
    slots: u32,
    /// Slots written so far.
    count: u32,
    /// Slots taken, as far as was seen when it mattered.
    taken: u32,
    /// Number of the next message.
    number: u32,
}

impl Sender {
    /// Goes on in this ring, whose slots are a power of two, at least [`MIN_SLOTS`], where whoever wrote
    /// there before ended. Behind the queue pair's lock; `head` is how many requests were taken by what
    /// stands there. `None` when the ring is closed.
    pub fn attach(memory: &impl Memory, qp: u32, slots: u32, head: u32) -> Option<Self> {
        if End::unpack(memory.load(at(qp, DirectWord::End))) != End::Open || slots < MIN_SLOTS {
            return None;
        }
        let taken = memory.load(at(qp, DirectWord::Taken)) as u32;
        let mut messages = Messages { qp, slots, count: taken };
        let (mut number, mut left) = (head, slots);
        while left > 0 && messages.next(memory).is_some() {
            left -= 1;
        }
        // Also those that were taken: the last message is there until the next is.
        for place in 0..slots {
            let count = memory.load(slot_word(qp, slots, place, 0)) as u32;
            let begins = Messages { count: count.wrapping_sub(1), ..messages };
            if let Some(found) = begins.peek(memory).filter(|found| slot(found.count, slots) == place)
                && reached(found.number.wrapping_add(1), number)
            {
                number = found.number.wrapping_add(1);
            }
        }
        Some(Self { qp, slots, count: messages.count, taken, number })
    }

    /// Whether a message of so many bytes goes this way now: the key of the memory that it goes to, which
    /// its sender is to look at if there are bytes.
    #[inline(always)]
    pub fn has_room(&mut self, memory: &impl Memory, bytes: u32) -> Option<u32> {
        let credit = memory.load(at(self.qp, DirectWord::Credit));
        if reached(self.number, credit as u32) || bytes > (credit >> 32) as u32 || bytes > MAX_DIRECT as u32 {
            return None;
        }
        let end = self.count.wrapping_add(slots_of(bytes));
        if end.wrapping_sub(self.taken) > self.slots {
            self.taken = memory.load(at(self.qp, DirectWord::Taken)) as u32;
            if end.wrapping_sub(self.taken) > self.slots {
                return None;
            }
        }
        let is_open = memory.load(at(self.qp, DirectWord::End)) == 0;
        is_open.then(|| memory.load(at(self.qp, DirectWord::Key)) as u32)
    }

    /// Whether the ring is not closed: where it is, its owner has stored how many requests were taken.
    #[must_use]
    pub fn is_open(&self, memory: &impl Memory) -> bool {
        memory.load(at(self.qp, DirectWord::End)) == 0
    }

    /// How many requests of the queue pair are taken by what it sent: to be stored at the head of the queue
    /// pair behind its lock before a message goes the other way, and to be [told](Sender::went_on)
    /// afterwards.
    #[must_use]
    pub fn settled(&self) -> u32 {
        self.number
    }

    /// So many requests are taken: messages went the other way. Behind the queue pair's lock.
    pub fn went_on(&mut self, head: u32) {
        self.number = head;
    }

    /// Whether its last message came before the end of the ring. Behind the queue pair's lock; `None` when
    /// nobody knows, since the owner died over it.
    #[must_use]
    pub fn came_through(&self, memory: &impl Memory) -> Option<bool> {
        match End::unpack(memory.load(at(self.qp, DirectWord::End))) {
            End::Open => Some(true),
            End::Closing => None,
            End::At(end) => Some(reached(end, self.count)),
        }
    }
}

/// A message on its way, for which [there is room](Sender::has_room): `true` when it is there; `false` when
/// the ring was closed at the same time, which [`Sender::came_through`] clears up.
#[derive(Debug)]
pub struct Send<'s, 'a> {
    sender: &'s mut Sender,
    message: Message<'a>,
    step: SendStep,
}

#[derive(Clone, Copy, Debug)]
enum SendStep {
    Write,
    Publish,
    Look,
}

impl<'s, 'a> Send<'s, 'a> {
    /// The message.
    #[inline(always)]
    pub fn new(sender: &'s mut Sender, message: Message<'a>) -> Self {
        Self { sender, message, step: SendStep::Write }
    }

    #[inline(always)]
    fn write(&mut self, memory: &impl Memory) -> Progress<bool> {
        let Sender { qp, slots, count, number, .. } = *self.sender;
        let bytes = self.message.bytes;
        let mut first = [0; SLOT_WORDS as usize - 1];
        first[0] = u64::from(number) | u64::from(self.message.imm.unwrap_or(0)) << 32;
        let words = (bytes.len().div_ceil(8) as u32).min(FIRST);
        for word in 0..words {
            first[1 + word as usize] = super::deliver::entry_word(bytes, word);
        }
        memory.store_all(slot_word(qp, slots, count, 1), &first[..1 + words as usize]);
        if bytes.len() > 8 * FIRST as usize {
            self.write_more(memory);
        }
        then!(self, memory, SendStep::Publish, self.publish(memory))
    }

    /// The slots behind the first.
    #[inline(never)]
    fn write_more(&self, memory: &impl Memory) {
        let Sender { qp, slots, count, .. } = *self.sender;
        let bytes = self.message.bytes;
        for more in 1..slots_of(bytes.len() as u32) {
            let count = count.wrapping_add(more);
            let mut words = [0; SLOT_WORDS as usize];
            words[0] = u64::from(count.wrapping_add(1)) | MIDST;
            for word in 0..MORE {
                words[1 + word as usize] =
                    super::deliver::entry_word(bytes, FIRST + MORE * (more - 1) + word);
            }
            memory.store_all(slot_word(qp, slots, count, 0), &words);
        }
    }

    #[inline(always)]
    fn publish(&mut self, memory: &impl Memory) -> Progress<bool> {
        let Message { bytes, imm, solicited } = self.message;
        let sender = &mut *self.sender;
        let flags = if imm.is_some() { IMM } else { 0 } | if solicited { SOLICITED } else { 0 };
        let first = u64::from(sender.count.wrapping_add(1)) | (bytes.len() as u64) << 32 | START | flags;
        memory.exchange(slot_word(sender.qp, sender.slots, sender.count, 0), first);
        sender.count = sender.count.wrapping_add(slots_of(bytes.len() as u32));
        sender.number = sender.number.wrapping_add(1);
        then!(self, memory, SendStep::Look, self.look(memory))
    }

    #[inline(always)]
    fn look(&self, memory: &impl Memory) -> Progress<bool> {
        Progress::Done(memory.load(at(self.sender.qp, DirectWord::End)) == 0)
    }
}

impl Machine for Send<'_, '_> {
    type Outcome = bool;

    #[inline(always)]
    fn step(&mut self, memory: &impl Memory) -> Progress<bool> {
        match self.step {
            SendStep::Write => self.write(memory),
            SendStep::Publish => self.publish(memory),
            SendStep::Look => self.look(memory),
        }
    }
}

/// A message that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its number, and that of its receive request.
    pub number: u32,
    /// Bytes of payload, at most [`MAX_DIRECT`].
    pub bytes: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Its first slot.
    count: u32,
}

/// The messages of a ring from one slot on.
#[derive(Clone, Copy, Debug)]
struct Messages {
    qp: u32,
    slots: u32,
    count: u32,
}

impl Messages {
    /// The next one; `None` also where the slot cannot be true.
    #[inline(always)]
    fn peek(&self, memory: &impl Memory) -> Option<Arrived> {
        let first = memory.load(slot_word(self.qp, self.slots, self.count, 0));
        if first as u32 != self.count.wrapping_add(1) {
            return None;
        }
        let bytes = (first >> 32) as u32 & 0xff;
        if first & (START | MIDST) != START || bytes > MAX_DIRECT as u32 {
            return None;
        }
        let second = memory.load(slot_word(self.qp, self.slots, self.count, 1));
        let imm = (first & IMM != 0).then_some((second >> 32) as u32);
        Some(Arrived { number: second as u32, bytes, imm, count: self.count })
    }

    fn next(&mut self, memory: &impl Memory) -> Option<Arrived> {
        let found = self.peek(memory)?;
        self.count = self.count.wrapping_add(slots_of(found.bytes));
        Some(found)
    }
}

/// The owner's side: one thread at a time.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    messages: Messages,
    /// Slots of which the sender was told that they were taken.
    told: u32,
    /// Where the ring was closed.
    end: Option<u32>,
    /// Number of the request that completes next.
    next: u32,
}

impl Receiver {
    /// That of a fresh ring, all zero, of a queue pair of which so many requests were taken and their
    /// completions polled. `slots` is a power of two, at least [`MIN_SLOTS`].
    #[must_use]
    pub fn new(qp: u32, slots: u32, head: u32) -> Self {
        Self { messages: Messages { qp, slots, count: 0 }, told: 0, end: None, next: head }
    }

    /// Requests that are completed, as far as was polled.
    #[must_use]
    #[inline(always)]
    pub fn completed(&self) -> u32 {
        self.next
    }

    /// The word of the ring that says whether another message is there, and its lower half when one is: a look
    /// at it saves others in vain.
    #[must_use]
    pub fn watched(&self) -> (u32, u32) {
        let Messages { slots, count, .. } = self.messages;
        (HEADER_WORDS + SLOT_WORDS * slot(count, slots), count.wrapping_add(1))
    }

    /// The message whose turn it is. `others_wait`: there are completions in the completion queue, looked
    /// at after the last call that found nothing; as long as there are, those of this queue pair with
    /// smaller numbers may be among them.
    #[inline(always)]
    pub fn look(&mut self, memory: &impl Memory, others_wait: impl FnOnce() -> bool) -> Option<Arrived> {
        let found = self.messages.peek(memory)?;
        if self.end == Some(self.messages.count) {
            return None;
        }
        if found.number == self.next {
            return Some(found);
        }
        if !reached(found.number, self.next) {
            // Its request is completed: nobody honest wrote that, and nothing behind it counts.
            self.end = Some(self.messages.count);
            return None;
        }
        // What was completed in between was lost when the completion queue overran.
        (!others_wait()).then_some(found)
    }

    /// Where the payload of a message stands, if that is in one piece: its first word in the ring, and words.
    #[must_use]
    #[inline(always)]
    pub fn piece(&self, message: &Arrived) -> Option<(u32, u32)> {
        let words = message.bytes.div_ceil(8);
        let first = HEADER_WORDS + SLOT_WORDS * slot(message.count, self.messages.slots) + SLOT_WORDS - FIRST;
        (words <= FIRST).then_some((first, words))
    }

    /// A word of the payload of a message.
    #[must_use]
    #[inline(always)]
    pub fn payload(&self, memory: &impl Memory, message: &Arrived, word: u32) -> u64 {
        let (slots, word) = payload_at(word);
        let Messages { qp, slots: all, .. } = self.messages;
        memory.load(slot_word(qp, all, message.count.wrapping_add(slots), word))
    }

    /// The message was taken, and its request is completed.
    #[inline(always)]
    pub fn take(&mut self, memory: &impl Memory, message: &Arrived) {
        self.next = message.number.wrapping_add(1);
        self.messages.count = message.count.wrapping_add(slots_of(message.bytes));
        let Messages { qp, slots, count } = self.messages;
        if count.wrapping_sub(self.told) >= slots / 4 {
            self.told = count;
            memory.store(at(qp, DirectWord::Taken), u64::from(count));
        }
    }

    /// A completion of the queue pair was polled that came the other way.
    #[inline(always)]
    pub fn passed(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// How many messages wait.
    #[must_use]
    pub fn waiting(&self, memory: &impl Memory) -> u32 {
        let mut messages = self.messages;
        let mut waiting = 0;
        while waiting < messages.slots && self.end != Some(messages.count) && messages.next(memory).is_some()
        {
            waiting += 1;
        }
        waiting
    }

    /// Closes the ring: whatever comes from now on is not there. Behind the queue pair's lock, and with
    /// nobody polling. Tells how many requests of the queue pair are taken then, where it took `head` by
    /// what stands there. Doing it again changes nothing.
    pub fn close(&mut self, memory: &impl Memory, head: u32) -> u32 {
        let Messages { qp, slots, .. } = self.messages;
        if self.end.is_none() {
            memory.exchange(at(qp, DirectWord::End), End::Closing.pack());
        }
        let mut number = if reached(self.next, head) { self.next } else { head };
        let (mut messages, mut left) = (self.messages, slots);
        while left > 0
            && self.end != Some(messages.count)
            && let Some(found) = messages.next(memory)
        {
            if reached(found.number, number) {
                number = found.number.wrapping_add(1);
            }
            left -= 1;
        }
        if self.end.is_none() {
            self.end = Some(messages.count);
        }
        let end = self.end.unwrap_or(messages.count);
        memory.store(at(qp, DirectWord::End), End::At(end).pack());
        number
    }

    /// How many requests of a queue pair are taken by the messages of a ring, at least, where it took
    /// `head` by what stands there. For its owner, while another thread polls.
    #[must_use]
    pub fn taken(memory: &impl Memory, qp: u32, slots: u32, head: u32) -> u32 {
        let count = memory.load(at(qp, DirectWord::Taken)) as u32;
        let (mut messages, mut number, mut left) = (Messages { qp, slots, count }, head, slots);
        while left > 0
            && let Some(found) = messages.next(memory)
        {
            if reached(found.number, number) {
                number = found.number.wrapping_add(1);
            }
            left -= 1;
        }
        number
    }

    /// Whether it was closed, and all of its messages are taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end == Some(self.messages.count)
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
