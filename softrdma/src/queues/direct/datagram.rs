//! Direct rings of datagrams: those of one queue pair to another, which are taken behind the lock of the
//! target.
//!
//! A datagram that comes to nobody is lost, and its sender never learns it: so it gets its receive request when
//! it is taken from the ring, not when it is written. What is taken stands in [`DirectWord::Taken`], and is
//! changed behind the lock of the target's queue pair alone: by the owner, who polls, and by the sender, before
//! it sends a datagram another way ([`Sender::take_back`]): what waits in the ring is to come first. As every
//! other datagram gets its request behind that lock, too, requests are used up in their order.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | [`DirectWord::Writer`], [`DirectWord::End`] | as those of other rings | |
//! | [`DirectWord::Taken`] | slots taken | who has the queue pair's lock |
//! | slots | as those of other rings; the key stands in place of the number | the sender |
//!
//! The payload has the 40 bytes in front of it. To write a datagram takes no lock, and a sender that dies
//! leaves nothing to repair: it is there or not. One that dies while it takes datagrams back loses them at
//! most, as the word is stored before any of them goes the other way.

use super::{
    Arrived, DirectWord, End, FIRST, HEADER_WORDS, IMM, MIDST, MIN_SLOTS, MORE, Messages, READ_AHEAD, SHORT,
    SLOT_WORDS, START, Slot, WRITE_AHEAD, at, end, payload_at, slot_word, slots_of,
};
use crate::queues::shared::{Memory, slot};

/// Words of a datagram that has one slot.
pub const SHORT_WORDS: usize = FIRST as usize;
/// No word of a ring says that.
const NO_END: u64 = u64::MAX;
/// The sender asked for solicited completions.
const SOLICITED: u64 = 1 << 52;

/// What a datagram brings besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The key sent.
    pub qkey: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Whether the sender asked for solicited completions.
    pub solicited: bool,
}

/// A datagram that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// What it brings besides.
    pub header: Header,
    /// Bytes, with the 40 in front.
    pub bytes: u32,
    count: u32,
}

impl Datagram {
    fn of(found: &Arrived, solicited: bool) -> Self {
        let header = Header { qkey: found.number, imm: found.imm, solicited };
        Self { header, bytes: found.bytes, count: found.count }
    }

    /// Copies its words, as many as there is place for: at least [`SHORT_WORDS`].
    #[inline(always)]
    fn copy(&self, memory: &impl Memory, (qp, slots): (u32, u32), to: &mut [u64]) {
        if self.bytes <= SHORT {
            let first = slot_word(qp, slots, self.count, SLOT_WORDS - FIRST);
            memory.load_all(first, &mut to[..FIRST as usize]);
            return;
        }
        for (word, to) in (0..self.bytes.div_ceil(8)).zip(to) {
            let (behind, place) = payload_at(word);
            *to = memory.load(slot_word(qp, slots, self.count.wrapping_add(behind), place));
        }
    }

    /// The count behind its last slot.
    #[inline(always)]
    fn end(&self) -> u32 {
        self.count.wrapping_add(slots_of(self.bytes))
    }
}

impl Messages {
    /// The next datagram; `None` also where the slot cannot be true.
    #[inline(always)]
    fn datagram(&self, memory: &impl Memory) -> Option<Datagram> {
        let word = |word| memory.load(slot_word(self.qp, self.slots, self.count, word));
        let first = word(0);
        let found = self.whole(first, || word(1))?;
        Some(Datagram::of(&found, first & SOLICITED != 0))
    }
}

/// The sender's side: it alone knows how far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    qp: u32,
    slots: u32,
    /// [`most_bytes`](super::most_bytes) of so many slots.
    most: u32,
    /// Slots written so far.
    count: u32,
    /// Datagrams of one slot for which there is room, and most likely a request.
    room: u32,
    /// The [`DirectWord::End`] of an open ring where no fence is needed.
    light: u64,
}

impl Sender {
    /// Goes on in this ring, whose slots are a power of two, at least [`MIN_SLOTS`], where whoever wrote there
    /// before ended. Behind the queue pair's lock. `None` when the ring is closed.
    pub fn attach(memory: &impl Memory, qp: u32, slots: u32) -> Option<Self> {
        if End::of(memory, qp) != End::Open || slots < MIN_SLOTS {
            return None;
        }
        let mut messages = Messages::new(qp, slots, memory.load(at(qp, DirectWord::Taken)) as u32);
        let mut left = slots;
        while left > 0 && messages.next(memory).is_some() {
            left -= 1;
        }
        let (most, count, room, light) = (messages.most, messages.count, 0, NO_END);
        Some(Self { qp, slots, most, count, room, light })
    }

    /// The owner's barriers are this process's, too.
    pub fn has_barriers(&mut self) {
        self.light = End::OPEN_LIGHT;
    }

    /// Whether so many bytes, with the 40 in front, go by a ring.
    #[inline(always)]
    #[must_use]
    pub fn takes(&self, bytes: u32) -> bool {
        bytes <= self.most
    }

    /// Slots that the owner has not taken, as it says.
    fn untaken(&self, memory: &impl Memory) -> u32 {
        let taken = memory.load(at(self.qp, DirectWord::Taken)) as u32;
        // One that cannot be true leaves no room, and nothing to be taken back.
        self.count.wrapping_sub(taken)
    }

    /// Whether datagrams wait that are to [come first](Sender::take_back).
    #[inline(always)]
    #[must_use]
    pub fn has_waiting(&self, memory: &impl Memory) -> bool {
        self.untaken(memory) != 0
    }

    /// The datagrams that wait, by what stands there.
    fn waiting(&self, memory: &impl Memory) -> Waiting {
        let untaken = self.untaken(memory);
        let first = if untaken <= self.slots { self.count.wrapping_sub(untaken) } else { self.count };
        Waiting { messages: Messages::new(self.qp, self.slots, first), end: self.count }
    }

    /// Whether a datagram of so many bytes goes this way now. `requests` says how many there are for those that
    /// wait and all that follow: what finds none is left to the other way, which knows.
    #[inline(always)]
    pub fn has_room(&mut self, memory: &impl Memory, bytes: u32, requests: impl FnOnce() -> u32) -> bool {
        if bytes <= SHORT && self.room > 0 {
            return true;
        }
        self.takes(bytes) && (slots_of(bytes) <= self.room || self.look_for_room(memory, bytes, requests()))
    }

    #[inline(never)]
    fn look_for_room(&mut self, memory: &impl Memory, bytes: u32, requests: u32) -> bool {
        self.room = 0;
        let Some(slots) = self.slots.checked_sub(self.untaken(memory)) else { return false };
        let mut waiting = self.waiting(memory);
        let waiting = std::iter::from_fn(|| waiting.next(memory)).count();
        let requests = requests.saturating_sub(waiting as u32);
        if slots_of(bytes) > slots || requests == 0 {
            return false;
        }
        self.room = slots.min(requests);
        true
    }

    /// How many slots are taken, as the owner says, where those that are not leave no room for so many bytes.
    #[must_use]
    pub fn full_at(&self, memory: &impl Memory, bytes: u32) -> Option<u32> {
        let untaken = self.untaken(memory);
        (untaken.wrapping_add(slots_of(bytes)) > self.slots).then(|| self.count.wrapping_sub(untaken))
    }

    /// Sends a datagram of at most [`SHORT`] bytes, for which [there is room](Sender::has_room), and whose
    /// bytes stand in `slot` behind the first two words: whether it came before the end of the ring, for
    /// certain.
    #[inline(always)]
    pub fn send_short(&mut self, memory: &impl Memory, slot: &mut Slot, bytes: u32, header: &Header) -> bool {
        self.publish(memory, slot, bytes, header)
    }

    /// The same of any datagram for which there is room: `fill` is given words and the place in it where their
    /// bytes begin.
    pub fn send(
        &mut self,
        memory: &impl Memory,
        bytes: u32,
        header: &Header,
        mut fill: impl FnMut(&mut [u64], u32),
    ) -> bool {
        let mut slot = Slot::default();
        for more in 1..slots_of(bytes) {
            let count = self.count.wrapping_add(more);
            slot[0] = u64::from(count.wrapping_add(1)) | MIDST;
            fill(&mut slot[1..], 8 * (FIRST + MORE * (more - 1)));
            memory.store_all(slot_word(self.qp, self.slots, count, 0), &slot);
        }
        fill(&mut slot[2..], 0);
        self.publish(memory, &mut slot, bytes, header)
    }

    #[inline(always)]
    fn publish(&mut self, memory: &impl Memory, slot: &mut Slot, bytes: u32, header: &Header) -> bool {
        let imm = if header.imm.is_some() { IMM } else { 0 };
        let flags = imm | if header.solicited { SOLICITED } else { 0 };
        slot[0] = u64::from(self.count.wrapping_add(1)) | u64::from(bytes) << 32 | START | flags;
        slot[1] = u64::from(header.qkey) | u64::from(header.imm.unwrap_or(0)) << 32;
        memory.publish_all(slot_word(self.qp, self.slots, self.count, 0), slot);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        let slots = slots_of(bytes);
        for more in 0..slots {
            let ahead = self.count.wrapping_add(WRITE_AHEAD + more);
            memory.will_write(slot_word(self.qp, self.slots, ahead, 0));
        }
        self.count = self.count.wrapping_add(slots);
        self.room = self.room.saturating_sub(slots);
        end::is_before(memory, self.qp, self.light)
    }

    /// Whether the ring takes datagrams.
    #[must_use]
    #[inline(always)]
    pub fn is_open(&self, memory: &impl Memory) -> bool {
        end::is_open(memory, self.qp)
    }

    /// Whether its last datagram came before the end of the ring. Behind the queue pair's lock.
    #[must_use]
    pub fn was_delivered(&self, memory: &impl Memory) -> bool {
        match End::of(memory, self.qp) {
            End::Open | End::Closing => true,
            End::At(end) => super::reached(end, self.count),
        }
    }

    /// Takes the datagrams back that wait, which are to go another way, oldest first: nobody else takes them.
    /// Behind the queue pair's lock. They stand where they are until the next one is written.
    pub fn take_back(&mut self, memory: &impl Memory) -> Waiting {
        let waiting = self.waiting(memory);
        memory.store(at(self.qp, DirectWord::Taken), u64::from(self.count));
        self.room = 0;
        waiting
    }
}

/// Datagrams of a sender that the owner has not taken, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    messages: Messages,
    end: u32,
}

impl Waiting {
    fn next(&mut self, memory: &impl Memory) -> Option<Datagram> {
        // Not beyond what was written, whatever stands there.
        let left = self.end.wrapping_sub(self.messages.count);
        let found =
            self.messages.datagram(memory).filter(|found| left > 0 && slots_of(found.bytes) <= left)?;
        self.messages.count = found.end();
        Some(found)
    }

    /// The next one, with its bytes as words in `to`.
    pub fn read(&mut self, memory: &impl Memory, to: &mut [u64]) -> Option<Datagram> {
        let found = self.next(memory)?;
        found.copy(memory, (self.messages.qp, self.messages.slots), to);
        Some(found)
    }
}

/// The owner's side.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    messages: Messages,
}

impl Receiver {
    /// That of a fresh ring, all zero, whose slots are a power of two.
    #[must_use]
    pub fn new(qp: u32, slots: u32) -> Self {
        Self { messages: Messages::new(qp, slots, 0) }
    }

    /// The word of the ring that says whether another datagram may be there, and its lower half when one is.
    #[must_use]
    pub fn watched(&self) -> (u32, u32) {
        let Messages { slots, count, .. } = self.messages;
        (HEADER_WORDS + SLOT_WORDS * slot(count, slots), count.wrapping_add(1))
    }

    /// The next datagram, if there is one. Behind the queue pair's lock.
    #[inline(always)]
    pub fn next(&mut self, memory: &impl Memory) -> Option<Datagram> {
        self.follow(memory);
        self.messages.datagram(memory)
    }

    /// Goes on where its sender has taken some back, perhaps round the ring. Whatever stands there, each slot
    /// says whether it is the next one's.
    #[inline(always)]
    fn follow(&mut self, memory: &impl Memory) {
        self.messages.count = memory.load(at(self.messages.qp, DirectWord::Taken)) as u32;
    }

    /// Copies the words of a datagram, as many as there is place for: at least [`SHORT_WORDS`].
    #[inline(always)]
    pub fn copy(&self, memory: &impl Memory, datagram: &Datagram, to: &mut [u64]) {
        datagram.copy(memory, (self.messages.qp, self.messages.slots), to)
    }

    /// The [next](Receiver::next) one was taken. Behind the queue pair's lock.
    #[inline(always)]
    pub fn take(&mut self, memory: &impl Memory, datagram: &Datagram) {
        self.pass(memory, datagram);
        self.tell(memory);
    }

    /// The same, where others are looked for [behind it](Receiver::behind) before that is
    /// [told](Receiver::tell).
    #[inline(always)]
    pub fn pass(&mut self, memory: &impl Memory, datagram: &Datagram) {
        let (Messages { qp, slots, .. }, count) = (self.messages, datagram.end());
        self.messages.count = count;
        for more in 0..slots_of(datagram.bytes) {
            memory.will_read(slot_word(qp, slots, count.wrapping_add(READ_AHEAD).wrapping_sub(more), 0));
        }
    }

    /// The datagram behind one that was [passed](Receiver::pass), if there is one.
    #[inline(always)]
    #[must_use]
    pub fn behind(&self, memory: &impl Memory) -> Option<Datagram> {
        self.messages.datagram(memory)
    }

    /// Those that were passed are taken. Behind the lock that was had all the time.
    #[inline(always)]
    pub fn tell(&self, memory: &impl Memory) {
        memory.store(at(self.messages.qp, DirectWord::Taken), u64::from(self.messages.count));
    }

    /// How many wait, as far as is known.
    #[must_use]
    pub fn waiting(&self, memory: &impl Memory) -> u32 {
        let mut receiver = *self;
        receiver.follow(memory);
        let mut messages = receiver.messages;
        (0..messages.slots).map_while(|_| messages.next(memory)).count() as u32
    }

    /// Tells the sender of a ring that is open that it needs no fence.
    pub fn lighten(&self, memory: &impl Memory) {
        end::lighten(memory, self.messages.qp);
    }

    /// Tells it that it does from now on; whether it has not known that. Other processors are to fence then.
    pub fn fence(&self, memory: &impl Memory) -> bool {
        end::fence(memory, self.messages.qp)
    }

    /// Closes the ring: whatever comes from now on is not there. Behind the queue pair's lock. What waits is
    /// [taken](Receiver::take) before, or lost.
    pub fn close(&mut self, memory: &impl Memory) {
        end::close(memory, self.messages.qp);
        self.follow(memory);
        let (mut messages, mut left) = (self.messages, self.messages.slots);
        while left > 0 && messages.next(memory).is_some() {
            left -= 1;
        }
        memory.store(at(self.messages.qp, DirectWord::End), End::At(messages.count).pack());
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
