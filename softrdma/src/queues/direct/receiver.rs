//! The owner of a direct ring.

use super::{
    Arrived, DirectWord, End, FIRST, HEADER_WORDS, MORE, Messages, READ_AHEAD, SLOT_WORDS, at, end,
    payload_at, reached, slot_word, slots_of,
};
use crate::queues::shared::{Memory, slot};
use crate::queues::transaction::{Machine, Progress, then};

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
    /// The first message that was taken out before its turn and is not handed out.
    ahead: Option<Arrived>,
    /// The number behind the last message that was taken out so.
    behind: u32,
    /// The count up to which the completion queue is to be polled before the message that comes next.
    after: Option<u32>,
}

impl Receiver {
    /// That of a fresh ring, all zero, of a queue pair of which so many requests were taken and their
    /// completions polled. `slots` is a power of two, at least [`MIN_SLOTS`](super::MIN_SLOTS).
    #[must_use]
    pub fn new(qp: u32, slots: u32, head: u32) -> Self {
        let messages = Messages::new(qp, slots, 0);
        Self { messages, told: 0, end: None, next: head, ahead: None, behind: head, after: None }
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

    /// The message whose turn it is. `others_wait`: there are completions in the completion queue, looked at
    /// after the last call that found nothing; as long as there are, those of this queue pair with smaller
    /// numbers may be among them. `head`: so many were taken; `tail`: so many stand or stood there.
    ///
    /// A message comes after everything that stood in the completion queue when it was first seen, so that an
    /// answer comes after the own completion of what it answers, and none of both kinds waits for ever.
    #[inline(always)]
    pub fn turn(
        &mut self,
        memory: &impl Memory,
        head: u32,
        others_wait: impl Fn() -> bool,
        tail: impl FnOnce() -> u32,
    ) -> Option<Arrived> {
        let found = self.look(memory, &others_wait)?;
        if others_wait() {
            let after = *self.after.get_or_insert_with(tail);
            if !reached(head, after) {
                return None;
            }
        }
        self.after = None;
        Some(found)
    }

    /// The message in the next slot, whose first words these are, where it is as nearly all are: its payload is
    /// in the ring, its number is the next, and none was taken out before its turn. Its turn it is if no
    /// completions wait that are looked at afterwards.
    #[inline(always)]
    pub fn plain(&self, first: u64, second: impl FnOnce() -> u64) -> Option<Arrived> {
        let found = self.messages.whole(first, second)?;
        self.is_next(&found).then_some(found)
    }

    /// As [`Receiver::plain`], where its payload is in a pool.
    #[inline(always)]
    pub fn plain_pooled(&self, memory: &impl Memory) -> Option<Arrived> {
        let found = self.messages.peek(memory).filter(|found| found.pooled.is_some())?;
        self.is_next(&found).then_some(found)
    }

    #[inline(always)]
    fn is_next(&self, found: &Arrived) -> bool {
        found.number == self.next && self.ahead.is_none() && self.end.is_none()
    }

    /// The message that comes before a completion of this queue pair that is next in the completion queue, by
    /// the numbers of their requests.
    #[inline(always)]
    pub fn before(&mut self, memory: &impl Memory) -> Option<Arrived> {
        let found = self.look(memory, || true)?;
        self.after = None;
        Some(found)
    }

    #[inline(always)]
    pub(super) fn look(
        &mut self,
        memory: &impl Memory,
        others_wait: impl FnOnce() -> bool,
    ) -> Option<Arrived> {
        let found = match self.ahead {
            Some(found) => found,
            None => self.messages.peek(memory).filter(|_| self.end != Some(self.messages.count))?,
        };
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

    /// The next message of the ring, whoever's turn it is: to be moved to its request and [taken
    /// out](Receiver::take_out).
    pub fn early(&mut self, memory: &impl Memory) -> Option<Arrived> {
        let found = self.messages.peek(memory).filter(|_| self.end != Some(self.messages.count))?;
        if !reached(found.number, self.next) || !reached(found.number, self.behind) {
            self.end = Some(self.messages.count);
            return None;
        }
        Some(found)
    }

    /// A message that came [early](Receiver::early) was taken out of the ring.
    pub fn take_out(&mut self, memory: &impl Memory, message: &Arrived) {
        self.ahead = self.ahead.or(Some(*message));
        self.behind = message.number.wrapping_add(1);
        self.go_on(memory, message);
    }

    /// The number behind the last message that was taken out, or completed.
    #[must_use]
    pub fn behind(&self) -> u32 {
        if reached(self.behind, self.next) { self.behind } else { self.next }
    }

    /// The first of those that were taken out was handed out in its turn; the next one of them.
    pub fn handed_out(&mut self, first: &Arrived, next: Option<Arrived>) {
        self.next = first.number.wrapping_add(1);
        self.ahead = next;
    }

    #[inline(always)]
    fn go_on(&mut self, memory: &impl Memory, message: &Arrived) {
        let Messages { qp, slots, .. } = self.messages;
        let count = message.count.wrapping_add(message.slots());
        self.messages.count = count;
        let ahead = count.wrapping_add(READ_AHEAD * message.slots());
        for more in 0..message.slots() {
            memory.will_read(slot_word(qp, slots, ahead.wrapping_sub(more), 0));
        }
        if count.wrapping_sub(self.told) >= slots / 8 {
            self.told = count;
            memory.store(at(qp, DirectWord::Taken), u64::from(count));
        }
    }

    /// Where the payload of a message stands, if that is in one piece: its first word in the ring, and words.
    #[must_use]
    #[inline(always)]
    pub fn piece(&self, message: &Arrived) -> Option<(u32, u32)> {
        let words = message.bytes.div_ceil(8);
        let first = HEADER_WORDS + SLOT_WORDS * slot(message.count, self.messages.slots) + SLOT_WORDS - FIRST;
        (words <= FIRST).then_some((first, words))
    }

    /// Where the pieces of a message's payload stand, each with its first word in the ring, and words.
    pub fn pieces(&self, message: &Arrived) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (slots, first) = (self.messages.slots, message.count);
        let words = message.bytes.div_ceil(8);
        (0..slots_of(message.bytes)).map(move |n| {
            let (before, skipped, most) =
                if n == 0 { (0, 2, FIRST) } else { (FIRST + MORE * (n - 1), 1, MORE) };
            let at = HEADER_WORDS + SLOT_WORDS * slot(first.wrapping_add(n), slots) + skipped;
            (at, words.saturating_sub(before).min(most))
        })
    }

    /// A word of the payload of a message.
    #[must_use]
    #[inline(always)]
    pub fn payload(&self, memory: &impl Memory, message: &Arrived, word: u32) -> u64 {
        let (slots, word) = payload_at(word);
        let Messages { qp, slots: all, .. } = self.messages;
        memory.load(slot_word(qp, all, message.count.wrapping_add(slots), word))
    }

    /// The count of the request of a message of a ring into a shared receive queue.
    #[must_use]
    #[inline(always)]
    pub fn request(&self, memory: &impl Memory, message: &Arrived) -> u32 {
        let Messages { qp, slots, .. } = self.messages;
        (memory.load(slot_word(qp, slots, message.count, 1)) >> 32) as u32
    }

    /// Immediate data of a message of a ring into a shared receive queue.
    #[must_use]
    #[inline(always)]
    pub fn imm_beside(&self, memory: &impl Memory, message: &Arrived) -> Option<u32> {
        let Messages { qp, slots, .. } = self.messages;
        message.imm.map(|_| memory.load(slot_word(qp, slots, message.count, SLOT_WORDS - 1)) as u32)
    }

    /// The next message cannot be true: nothing from there on counts.
    #[cold]
    pub fn refuse(&mut self) {
        self.end = Some(self.messages.count);
    }

    /// The requests of the messages that wait in a ring into a shared receive queue, oldest first.
    pub fn each_request(&self, memory: &impl Memory, mut each: impl FnMut(u32)) {
        let (mut messages, mut left) = (self.messages, self.messages.slots);
        while left > 0
            && self.end != Some(messages.count)
            && let Some(found) = messages.next(memory)
        {
            each(self.request(memory, &found));
            left -= 1;
        }
    }

    /// The message was taken in its turn, and its request is completed.
    #[inline(always)]
    pub fn take(&mut self, memory: &impl Memory, message: &Arrived) {
        self.after = None;
        self.next = message.number.wrapping_add(1);
        self.go_on(memory, message);
    }

    /// A completion of the queue pair was polled that came the other way.
    #[inline(always)]
    pub fn passed(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// How many messages wait.
    #[must_use]
    pub fn waiting(&self, memory: &impl Memory) -> u32 {
        self.all(memory).count() as u32
    }

    /// The messages that wait, oldest first.
    pub fn all<'a, M: Memory>(&self, memory: &'a M) -> impl Iterator<Item = Arrived> + use<'a, M> {
        let (mut messages, end) = (self.messages, self.end);
        // As many as there can be at a time: others may come meanwhile.
        (0..messages.slots)
            .map_while(move |_| if end == Some(messages.count) { None } else { messages.next(memory) })
    }

    /// How many requests of a queue pair are taken by the messages of a ring, at least, where it took
    /// `head` by what stands there. For its owner, while another thread polls.
    #[must_use]
    pub fn taken(memory: &impl Memory, qp: u32, slots: u32, head: u32) -> u32 {
        let count = memory.load(at(qp, DirectWord::Taken)) as u32;
        let (mut messages, mut number, mut left) = (Messages::new(qp, slots, count), head, slots);
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

    /// Tells the sender of a ring that is open that it needs no fence.
    pub fn lighten(&self, memory: &impl Memory) {
        end::lighten(memory, self.messages.qp);
    }

    /// Tells it that it does from now on, unless the ring was closed; whether it has not known that. Other
    /// processors are to fence then.
    pub fn fence(&self, memory: &impl Memory) -> bool {
        end::fence(memory, self.messages.qp)
    }

    /// Tells the sender of a ring that is open to ring the doorbell; whether other processors are to fence
    /// before it is looked whether a message came at the same time.
    pub fn unwatch(&self, memory: &impl Memory) -> bool {
        end::unwatch(memory, self.messages.qp)
    }

    /// Tells it that the ring is looked at with each poll.
    pub fn watch(&self, memory: &impl Memory) {
        end::watch(memory, self.messages.qp);
    }

    /// Slots taken so far.
    #[must_use]
    pub fn taken_slots(&self) -> u32 {
        self.messages.count
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it was closed, and all of its messages are taken.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end == Some(self.messages.count)
    }
}

/// Closes the ring: whatever comes from now on is not there. Behind the queue pair's lock, and with nobody
/// polling. Tells how many requests of the queue pair are taken then, where it took `head` by what stands
/// there; whoever closes it stores that there. Doing it again changes nothing.
#[derive(Debug)]
pub struct Close<'r> {
    receiver: &'r mut Receiver,
    head: u32,
    step: CloseStep,
}

#[derive(Clone, Copy, Debug)]
enum CloseStep {
    Announce,
    Count,
}

impl<'r> Close<'r> {
    /// The end of this ring.
    pub fn new(receiver: &'r mut Receiver, head: u32) -> Self {
        Self { receiver, head, step: CloseStep::Announce }
    }

    fn announce(&mut self, memory: &impl Memory) -> Progress<u32> {
        if self.receiver.end.is_none() {
            end::close(memory, self.receiver.messages.qp);
        }
        then!(self, memory, CloseStep::Count, self.count(memory))
    }

    fn count(&mut self, memory: &impl Memory) -> Progress<u32> {
        let receiver = &mut *self.receiver;
        let Messages { qp, slots, .. } = receiver.messages;
        let behind = receiver.behind();
        let mut number = if reached(behind, self.head) { behind } else { self.head };
        let (mut messages, mut left) = (receiver.messages, slots);
        while left > 0
            && receiver.end != Some(messages.count)
            && let Some(found) = messages.next(memory)
        {
            if reached(found.number, number) {
                number = found.number.wrapping_add(1);
            }
            left -= 1;
        }
        let end = *receiver.end.get_or_insert(messages.count);
        memory.store(at(qp, DirectWord::End), End::At(end).pack());
        Progress::Done(number)
    }
}

impl Machine for Close<'_> {
    type Outcome = u32;

    fn step(&mut self, memory: &impl Memory) -> Progress<u32> {
        match self.step {
            CloseStep::Announce => self.announce(memory),
            CloseStep::Count => self.count(memory),
        }
    }
}
