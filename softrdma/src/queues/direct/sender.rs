//! The sender of a direct ring.

use std::sync::atomic::{Ordering, compiler_fence};

use super::{
    Arrived, DirectWord, End, FIRST, IMM, MAX_DIRECT, MAX_POOLED, MIDST, MIN_SLOTS, MORE, Messages, POOLED,
    SHORT, SLOT_WORDS, START, Slot, WRITE_AHEAD, at, end, reached, slot_word, slots_of,
};
use crate::queues::deliver::entry_word;
use crate::queues::shared::Memory;
use crate::queues::transaction::{Machine, Progress, then};

/// A message as its sender has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// At most [`most_bytes`].
    pub bytes: &'a [u8],
    /// Immediate data.
    pub imm: Option<u32>,
}

/// No word of a ring says that.
const NO_END: u64 = u64::MAX;

/// The sender's side: it alone knows how far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    pub(super) qp: u32,
    slots: u32,
    /// [`most_bytes`] of so many slots, or [`MAX_POOLED`].
    most: u32,
    /// Slots written so far.
    pub(super) count: u32,
    /// Slots taken, as far as was seen when it mattered.
    taken: u32,
    /// Number of the next message.
    pub(super) number: u32,
    /// [`DirectWord::Credit`] and [`DirectWord::Key`], likewise: the owner writes there with every request.
    credit: u64,
    key: u32,
    /// There is room and a promise, by what was seen, for messages of one slot in each slot before this, ...
    quick: u32,
    /// ... of so many bytes at most.
    quick_bytes: u32,
    /// The [`DirectWord::End`] of an open ring where no fence is needed.
    light: u64,
}

impl Sender {
    /// Goes on in this ring, whose slots are a power of two, at least [`MIN_SLOTS`], where whoever wrote
    /// there before ended. Behind the queue pair's lock; `head` is how many requests were taken by what
    /// stands there. `None` when the ring is closed.
    pub fn attach(memory: &impl Memory, qp: u32, slots: u32, head: u32) -> Option<Self> {
        if End::of(memory, qp) != End::Open || slots < MIN_SLOTS {
            return None;
        }
        let taken = memory.load(at(qp, DirectWord::Taken)) as u32;
        let mut messages = Messages::new(qp, slots, taken);
        let (mut number, mut left) = (head, slots);
        while left > 0 && messages.next(memory).is_some() {
            left -= 1;
        }
        // The last message says its number also where it was taken. Nothing else does: in the slots behind it
        // may stand what a sender had begun that died.
        for back in 1..=slots / 2 {
            let last = Messages { count: messages.count.wrapping_sub(back), ..messages };
            if let Some(found) = last.peek(memory).filter(|found| found.slots() == back)
                && reached(found.number.wrapping_add(1), number)
            {
                number = found.number.wrapping_add(1);
            }
        }
        let credit = u64::from(number);
        let (most, count, key, quick_bytes, light) = (messages.most, messages.count, 0, 0, NO_END);
        let quick = count;
        Some(Self { qp, slots, most, count, taken, number, credit, key, quick, quick_bytes, light })
    }

    /// The messages of a ring that its owner has not taken, oldest first, and a few that it has. For who goes
    /// on there.
    pub fn untaken<M: Memory>(memory: &M, qp: u32, slots: u32) -> impl Iterator<Item = Arrived> + use<'_, M> {
        let mut messages = Messages::new(qp, slots, memory.load(at(qp, DirectWord::Taken)) as u32);
        (0..slots).map_while(move |_| messages.next(memory))
    }

    /// Whether [`Sender::look_for_room`] has found room for a message of so many bytes, and nothing was
    /// [forgotten](Sender::forget_room) since. The ring may be closed: who sends looks at that afterwards.
    #[inline(always)]
    #[must_use]
    pub fn has_quick_room(&self, bytes: u32) -> bool {
        self.quick != self.count && bytes <= self.quick_bytes
    }

    /// As [`Sender::has_room`] for at most [`SHORT`] bytes. The key is that of all messages that
    /// [have room](Sender::has_quick_room) afterwards.
    pub fn look_for_room(&mut self, memory: &impl Memory, bytes: u32) -> Option<u32> {
        self.forget_room();
        let key = self.has_room(memory, bytes)?;
        let (tail, least) = (self.credit as u32, (self.credit >> 32) as u32);
        let room = self.slots - self.count.wrapping_sub(self.taken);
        self.quick = self.count.wrapping_add(tail.wrapping_sub(self.number).min(room));
        self.quick_bytes = least.min(SHORT);
        Some(key)
    }

    /// What was found is to be looked for anew.
    pub fn forget_room(&mut self) {
        self.quick = self.count;
    }

    /// Number of the next message from now on: others went another way.
    pub(super) fn go_on_at(&mut self, number: u32) {
        self.number = number;
        self.forget_room();
    }

    /// Whether a message of so many bytes goes this way now: the key of the memory that it goes to, which
    /// its sender is to look at if there are bytes.
    #[inline(always)]
    pub fn has_room(&mut self, memory: &impl Memory, bytes: u32) -> Option<u32> {
        if !self.is_promised(bytes) {
            self.credit = memory.load(at(self.qp, DirectWord::Credit));
            self.key = memory.load(at(self.qp, DirectWord::Key)) as u32;
            self.forget_room();
            if !self.is_promised(bytes) {
                return None;
            }
        }
        let end = self.count.wrapping_add(slots_for(bytes));
        if end.wrapping_sub(self.taken) > self.slots {
            self.taken = memory.load(at(self.qp, DirectWord::Taken)) as u32;
            if end.wrapping_sub(self.taken) > self.slots {
                return None;
            }
        }
        self.is_open(memory).then_some(self.key)
    }

    /// Whether a request for so many bytes was promised to the next message. A promise stays true: it is of the
    /// requests that were there.
    #[inline(always)]
    fn is_promised(&self, bytes: u32) -> bool {
        let (tail, least) = (self.credit as u32, (self.credit >> 32) as u32);
        !reached(self.number, tail) && bytes <= least && bytes <= self.most
    }

    /// How many slots are taken, as was last seen, where those that are not leave no room for a message of so
    /// many bytes to which a request was promised; `None` where something else is missing.
    #[must_use]
    pub fn full_at(&self, bytes: u32) -> Option<u32> {
        let end = self.count.wrapping_add(slots_for(bytes));
        (self.is_promised(bytes) && end.wrapping_sub(self.taken) > self.slots).then_some(self.taken)
    }

    /// There is a pool: longer messages go this way, too.
    pub fn has_pool(&mut self) {
        self.most = MAX_POOLED;
    }

    /// Number of the next message, and of its receive request.
    #[must_use]
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends a message whose payload is in this buffer of the pool, as [`Sender::send_short`] one that has so
    /// few bytes.
    pub fn send_pooled(&mut self, memory: &impl Memory, buffer: u32, bytes: u32, imm: Option<u32>) -> bool {
        let words = [self.first(bytes, flag(imm) | POOLED), self.header(imm), u64::from(buffer)];
        self.publish(memory, 1, &words);
        self.look(memory)
    }

    /// Sends a message of at most [`SHORT`] bytes that [has room](Sender::has_quick_room): as [`Send`], and
    /// answers as that does. Its bytes stand in `slot` behind the first two words, which are written here.
    #[inline(always)]
    pub fn send_short(
        &mut self,
        memory: &impl Memory,
        slot: &mut Slot,
        bytes: u32,
        imm: Option<u32>,
    ) -> bool {
        (slot[0], slot[1]) = (self.first(bytes, flag(imm)), self.header(imm));
        // All of the slot, which is quicker than to count.
        self.publish_quick(memory, slot);
        self.look(memory)
    }

    /// The same of eight bytes without immediate data.
    #[inline(always)]
    pub fn send_word(&mut self, memory: &impl Memory, word: u64) -> bool {
        let words = [self.first(8, 0), self.header(None), word];
        self.publish_quick(memory, &words);
        self.look(memory)
    }

    /// Sends a message for which [there is room](Sender::has_room), as [`Send`]: `fill` is given
    /// words and the place in the message where their bytes begin, and fills them.
    pub fn send_long(
        &mut self,
        memory: &impl Memory,
        bytes: u32,
        imm: Option<u32>,
        mut fill: impl FnMut(&mut [u64], u32),
    ) -> bool {
        let mut slot = Slot::default();
        for more in 1..slots_of(bytes) {
            let count = self.count.wrapping_add(more);
            slot[0] = u64::from(count.wrapping_add(1)) | MIDST;
            fill(&mut slot[1..], 8 * (FIRST + MORE * (more - 1)));
            memory.store_all(slot_word(self.qp, self.slots, count, 0), &slot);
        }
        (slot[0], slot[1]) = (self.first(bytes, flag(imm)), self.header(imm));
        fill(&mut slot[2..], 0);
        self.publish(memory, slots_of(bytes), &slot);
        self.look(memory)
    }

    /// The first word of a message's slot.
    #[inline(always)]
    fn first(&self, bytes: u32, flags: u64) -> u64 {
        u64::from(self.count.wrapping_add(1)) | u64::from(bytes) << 32 | START | flags
    }

    /// What stands behind the first word of a message's slot.
    #[inline(always)]
    fn header(&self, imm: Option<u32>) -> u64 {
        u64::from(self.number) | u64::from(imm.unwrap_or(0)) << 32
    }

    /// Writes the words of a message's first slot: it is there from now on. [`Sender::look`] comes next.
    #[inline(always)]
    fn publish(&mut self, memory: &impl Memory, slots: u32, words: &[u64]) {
        let count = self.count;
        memory.publish_slot(slot_word(self.qp, self.slots, count, 0), count, words);
        self.go_on(memory, count, slots);
        self.forget_room();
    }

    /// The same of a message of one slot that [has room](Sender::has_quick_room): it takes one of those slots.
    #[inline(always)]
    fn publish_quick(&mut self, memory: &impl Memory, words: &[u64]) {
        let count = self.count;
        debug_assert!(self.quick != count, "nobody looked for room");
        memory.publish_slot(slot_word(self.qp, self.slots, count, 0), count, words);
        self.go_on(memory, count, 1);
    }

    /// A message was written whose first slot has this count.
    #[inline(always)]
    fn go_on(&mut self, memory: &impl Memory, count: u32, slots: u32) {
        compiler_fence(Ordering::SeqCst);
        let ahead = count.wrapping_add(WRITE_AHEAD.max(2 * slots));
        for more in 0..slots {
            let count = ahead.wrapping_add(more);
            memory.will_write_slot(slot_word(self.qp, self.slots, count, 0), count);
        }
        self.count = count.wrapping_add(slots);
        self.number = self.number.wrapping_add(1);
    }

    /// Whether a message of so many bytes has room in a ring into a shared receive queue, where its request is
    /// another matter.
    #[inline(always)]
    pub fn has_slots(&mut self, memory: &impl Memory, bytes: u32) -> bool {
        let end = self.count.wrapping_add(slots_for(bytes));
        if end.wrapping_sub(self.taken) > self.slots {
            self.taken = memory.load(at(self.qp, DirectWord::Taken)) as u32;
        }
        end.wrapping_sub(self.taken) <= self.slots && bytes <= self.most
    }

    /// Slots that are taken, as was last seen.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether immediate data of a message of so many bytes has a place in a ring into a shared receive queue:
    /// in the last word of its slot, as the request's count stands where it would.
    #[must_use]
    #[inline(always)]
    pub fn has_place_beside(bytes: u32, imm: Option<u32>) -> bool {
        imm.is_none() || bytes <= SHORT - 8 || bytes > MAX_DIRECT as u32
    }

    /// Sends a message that has [room](Sender::has_slots) and [place](Sender::has_place_beside) into a shared
    /// receive queue: `true` and `false` as for [`Send`]; `None` where it has no request, and nothing happened.
    /// `fill` fills words with its bytes from one on. `take` takes the request, once all else is done.
    #[inline(always)]
    pub fn send_shared(
        &mut self,
        memory: &impl Memory,
        bytes: u32,
        imm: Option<u32>,
        mut fill: impl FnMut(&mut [u64], u32) -> Option<()>,
        take: impl FnOnce() -> Option<u32>,
    ) -> Option<bool> {
        let mut slot = Slot::default();
        if bytes > SHORT {
            self.write_behind(memory, bytes, &mut fill)?;
        }
        fill(&mut slot[2..], 0)?;
        let request = take()?;
        Some(self.send_shared_short(memory, &mut slot, bytes, imm, request))
    }

    /// The same, of a message that has this request, with what stands in its first slot behind the first two
    /// words of `slot`.
    #[inline(always)]
    pub fn send_shared_short(
        &mut self,
        memory: &impl Memory,
        slot: &mut Slot,
        bytes: u32,
        imm: Option<u32>,
        request: u32,
    ) -> bool {
        slot[0] = self.first(bytes, flag(imm));
        slot[1] = u64::from(self.number) | u64::from(request) << 32;
        if let Some(imm) = imm {
            slot[SLOT_WORDS as usize - 1] = imm.into();
        }
        self.publish(memory, slots_of(bytes), slot);
        self.look(memory)
    }

    /// As [`Sender::send_shared`], of a message whose payload is in this buffer of the pool.
    #[inline(always)]
    pub fn send_shared_pooled(
        &mut self,
        memory: &impl Memory,
        buffer: u32,
        bytes: u32,
        imm: Option<u32>,
        take: impl FnOnce() -> Option<u32>,
    ) -> Option<bool> {
        let mut slot = Slot::default();
        slot[0] = self.first(bytes, flag(imm) | POOLED);
        slot[1] = u64::from(self.number) | u64::from(take()?) << 32;
        slot[2] = buffer.into();
        slot[SLOT_WORDS as usize - 1] = imm.unwrap_or(0).into();
        self.publish(memory, 1, &slot);
        Some(self.look(memory))
    }

    /// As [`Sender::send_shared`], of bytes at hand.
    pub fn send_shared_bytes(
        &mut self,
        memory: &impl Memory,
        bytes: &[u8],
        imm: Option<u32>,
        take: impl FnOnce() -> Option<u32>,
    ) -> Option<bool> {
        let fill = |words: &mut [u64], at: u32| {
            let rest = bytes.get(at as usize..).unwrap_or(&[]);
            for (n, word) in (0..).zip(words) {
                *word = entry_word(rest, n);
            }
            Some(())
        };
        self.send_shared(memory, bytes.len() as u32, imm, fill, take)
    }

    /// Writes the slots behind the first.
    #[inline(never)]
    fn write_behind(
        &self,
        memory: &impl Memory,
        bytes: u32,
        fill: &mut impl FnMut(&mut [u64], u32) -> Option<()>,
    ) -> Option<()> {
        for more in 1..slots_of(bytes) {
            let mut slot = Slot::default();
            let count = self.count.wrapping_add(more);
            slot[0] = u64::from(count.wrapping_add(1)) | MIDST;
            fill(&mut slot[1..], 8 * (FIRST + MORE * (more - 1)))?;
            memory.store_all(slot_word(self.qp, self.slots, count, 0), &slot);
        }
        Some(())
    }

    /// Whether the ring is not closed: where it is, its owner has stored how many requests were taken.
    #[must_use]
    #[inline(always)]
    pub fn is_open(&self, memory: &impl Memory) -> bool {
        end::is_open(memory, self.qp)
    }

    /// The owner's barriers are this process's, too.
    pub fn has_barriers(&mut self) {
        self.light = End::OPEN_LIGHT;
    }

    /// Whether a message that was just stored came [before the end](end::is_before) of the ring, for certain.
    #[inline(always)]
    fn look(&self, memory: &impl Memory) -> bool {
        end::is_before(memory, self.qp, self.light)
    }

    /// Whether its last message came before the end of the ring. Behind the queue pair's lock; `None` when
    /// nobody knows, since the owner died over it.
    #[must_use]
    pub fn was_delivered(&self, memory: &impl Memory) -> Option<bool> {
        match End::of(memory, self.qp) {
            End::Open => Some(true),
            End::Closing => None,
            End::At(end) => Some(reached(end, self.count)),
        }
    }
}

/// Slots of a message of so many bytes, the longer ones of which go by a pool.
#[inline(always)]
fn slots_for(bytes: u32) -> u32 {
    if bytes > MAX_DIRECT as u32 { 1 } else { slots_of(bytes) }
}

/// Flags of a message with this immediate data.
#[inline(always)]
fn flag(imm: Option<u32>) -> u64 {
    if imm.is_some() { IMM } else { 0 }
}

/// A message on its way, for which [there is room](Sender::has_room): `true` when it is there; `false` when
/// the ring was closed at the same time, which [`Sender::was_delivered`] clears up.
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
        let Sender { qp, slots, count, .. } = *self.sender;
        let bytes = self.message.bytes;
        let mut slot = Slot::default();
        slot[1] = self.sender.header(self.message.imm);
        let words = (bytes.len().div_ceil(8) as u32).min(FIRST);
        for word in 0..words {
            slot[2 + word as usize] = entry_word(bytes, word);
        }
        memory.store_all(slot_word(qp, slots, count, 1), &slot[1..2 + words as usize]);
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
            let mut slot = Slot::default();
            slot[0] = u64::from(count.wrapping_add(1)) | MIDST;
            for word in 0..MORE {
                slot[1 + word as usize] = entry_word(bytes, FIRST + MORE * (more - 1) + word);
            }
            memory.store_all(slot_word(qp, slots, count, 0), &slot);
        }
    }

    #[inline(always)]
    fn publish(&mut self, memory: &impl Memory) -> Progress<bool> {
        let Message { bytes, imm } = self.message;
        let (Sender { qp, slots, count, .. }, length) = (*self.sender, bytes.len() as u32);
        memory.store(slot_word(qp, slots, count, 0), self.sender.first(length, flag(imm)));
        self.sender.go_on(memory, count, slots_of(length));
        self.sender.forget_room();
        then!(self, memory, SendStep::Look, self.look(memory))
    }

    #[inline(always)]
    fn look(&self, memory: &impl Memory) -> Progress<bool> {
        Progress::Done(self.sender.look(memory))
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
