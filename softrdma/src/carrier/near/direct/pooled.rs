//! The sender's side of a pool: the buffers of its messages, as long as they wait.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;

use ironverbs_os::growth::try_box;

use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::peers::Remote;
use crate::queues::direct::{DirectWord, Sender};
use crate::queues::receive::nth_in_ring;
use crate::queues::respond::MoveError;
use crate::queues::shared::{Memory, Word};
use crate::queues::transaction::LockError;
use crate::rules::receive::{Next, ReceiveRequest, Sge, Sges};
use crate::shm::copy::Span;
use crate::shm::objects::{DirectRing, Host};
use crate::shm::pool::{BUFFERS, Begun, PoolWords, Tag, begin, claim, end, give_back, is_over};

use super::LOOKS;

/// Most buffers that the messages of one queue pair have at a time: some are left for others.
const MOST: u32 = 32;
/// So many are written before it is looked which are over: a look at each as soon as its owner wrote there
/// waits for its line, and looks at several wait together.
const LOOKED_AT: u32 = MOST / 2;
/// The state of the buffer so far behind the next one is fetched, too.
const AHEAD: u32 = 2;
/// Looks for the end of a copy that the owner makes just now, some tens of microseconds: it is of
/// [`MAX_POOLED`] bytes at most.
///
/// [`MAX_POOLED`]: crate::queues::direct::MAX_POOLED
const PATIENT: u32 = 2000;

/// A message whose payload is in the pool.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    number: u32,
    buffer: u32,
    bytes: u32,
    solicited: bool,
    /// Where its request has memory, if that is of a shared receive queue: it may be looked for in vain there
    /// later.
    to: Option<Sge>,
}

/// A message that goes by the pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pooled {
    /// Bytes of payload.
    pub(super) bytes: u32,
    /// Immediate data.
    pub(super) imm: Option<u32>,
    /// Whether it wakes who waits for such alone.
    pub(super) solicited: bool,
    /// Whether a moment is waited for a buffer.
    pub(super) waits: bool,
}

/// See the module: of one queue pair, whose target has this index.
#[derive(Debug)]
pub(super) struct PoolWriter {
    words: PoolWords,
    qp: u32,
    /// Its messages that were not over when that was looked at last, by their count.
    waiting: [Waiting; MOST as usize],
    first: u32,
    next: u32,
    /// The buffer that is free, most likely.
    likely: u32,
    /// The first message when room was looked for in vain: its owner does not poll.
    in_vain: Option<u32>,
    /// Messages were moved here while their owner may have polled in vain; whether one of them is solicited.
    moved: Option<bool>,
}

impl PoolWriter {
    /// For the pool that a ring of so many slots tells of, if it does.
    #[cold]
    pub(super) fn find(
        host: &Host,
        ring: &DirectRing<'_>,
        qp: u32,
        taken_over: Option<u32>,
    ) -> Option<Box<Self>> {
        let at = ring.load(Word::Direct { qp, word: DirectWord::Pool as u32 });
        let hold = || PoolWords::hold(host, at);
        let words = (at != 0).then(hold)?.or_else(|| {
            host.refresh();
            hold()
        })?;
        let waiting = [Waiting::default(); MOST as usize];
        let (first, next, likely) = (0, 0, 0);
        let mut found =
            try_box(Self { words, qp, waiting, first, next, likely, in_vain: None, moved: None }).ok()?;
        if let Some(slots) = taken_over {
            found.take_over(ring, slots);
        }
        Some(found)
    }

    /// Messages of whoever wrote to the ring before wait in the pool: a queue pair that was reset since, or one
    /// of another process, which may have died over moving one.
    fn take_over(&mut self, ring: &DirectRing<'_>, slots: u32) {
        for message in Sender::untaken(ring, self.qp, slots) {
            let Some(buffer) = message.pooled else { continue };
            let Some(word) = self.words.state(buffer) else { continue };
            let (number, bytes, to) = (message.number, message.bytes, None);
            let tag = Tag::new(self.qp, number);
            end(word, tag, false);
            if !is_over(word, tag) && self.next < MOST {
                self.note(Waiting { number, buffer, bytes, solicited: true, to });
            }
        }
    }

    #[inline(always)]
    fn note(&mut self, waiting: Waiting) {
        if let Some(place) = self.waiting.get_mut((self.next % MOST) as usize) {
            *place = waiting;
            self.next = self.next.wrapping_add(1);
        }
    }

    /// The oldest message that waits.
    #[inline(always)]
    fn oldest(&self) -> Option<&Waiting> {
        if self.first == self.next { None } else { self.waiting.get((self.first % MOST) as usize) }
    }

    /// Whether any message waits.
    #[inline(always)]
    pub(super) fn has_waiting(&mut self) -> bool {
        self.forget_over();
        self.oldest().is_some()
    }

    /// Forgets the oldest messages that are over.
    #[inline(always)]
    fn forget_over(&mut self) {
        while let Some(Waiting { number, buffer, .. }) = self.oldest().copied() {
            let Some(word) = self.words.state(buffer) else { return };
            if !is_over(word, Tag::new(self.qp, number)) {
                return;
            }
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Takes a buffer for the message with this number, and notes that it waits there with so many bytes. Waits
    /// for one a moment as long as the owner takes messages, if `waits`.
    #[inline(always)]
    fn take(&mut self, number: u32, bytes: u32, solicited: bool, waits: bool) -> Option<u32> {
        let buffer = match self.find_free(number) {
            None if waits => self.await_free(number)?,
            found => found?,
        };
        self.note(Waiting { number, buffer, bytes, solicited, to: None });
        Some(buffer)
    }

    #[inline(always)]
    fn find_free(&mut self, number: u32) -> Option<u32> {
        if self.next.wrapping_sub(self.first) >= LOOKED_AT {
            self.forget_over();
        }
        if self.next.wrapping_sub(self.first) == MOST {
            return None;
        }
        let tag = Tag::new(self.qp, number);
        let found = (0..BUFFERS)
            .map(|n| (self.likely + n) % BUFFERS)
            .find(|buffer| self.words.state(*buffer).is_some_and(|word| claim(word, tag)))?;
        self.likely = (found + 1) % BUFFERS;
        Some(found)
    }

    #[inline(never)]
    fn await_free(&mut self, number: u32) -> Option<u32> {
        let oldest = self.oldest()?.number;
        if self.in_vain == Some(oldest) {
            return None;
        }
        for _ in 0..LOOKS {
            spin_loop();
            if self.oldest().is_none_or(|now| now.number != oldest) {
                return self.find_free(number);
            }
            self.forget_over();
        }
        self.in_vain = Some(oldest);
        None
    }

    /// Takes a buffer for the message with this number, into which `fill` puts its bytes; `None` where there is
    /// no buffer, or it cannot.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        number: u32,
        message: &Pooled,
        fill: impl FnOnce(&[AtomicU64]) -> bool,
    ) -> Option<u32> {
        let buffer = self.take(number, message.bytes, message.solicited, message.waits)?;
        if !self.payload(buffer).is_some_and(fill) {
            self.untake(number);
            return None;
        }
        Some(buffer)
    }

    /// The next message most likely has as many bytes: where it goes is fetched.
    #[inline(always)]
    pub(super) fn fetch_next(&self, bytes: u32) {
        self.words.fetch_state((self.likely + AHEAD) % BUFFERS);
        self.words.fetch_to_write(self.likely, bytes);
    }

    /// Where the payload of a message goes.
    #[inline(always)]
    fn payload(&self, buffer: u32) -> Option<&[AtomicU64]> {
        self.words.payload(buffer)
    }

    /// The last message has this memory.
    #[inline(always)]
    pub(super) fn goes_to(&mut self, to: Sge) {
        if let Some(waiting) = self.waiting.get_mut((self.next.wrapping_sub(1) % MOST) as usize) {
            waiting.to = Some(to);
        }
    }

    /// The message with this number, for which the last buffer was taken, does not go this way.
    #[cold]
    pub(super) fn untake(&mut self, number: u32) {
        self.take_back(number);
        self.next = self.next.wrapping_sub(1);
    }

    /// The message with this number, the last one, came after the end of the ring, and goes another way. Its
    /// payload may be in the ring: the buffer that was taken last is an older message's then.
    #[cold]
    pub(super) fn take_back(&self, number: u32) {
        let last = self.next.wrapping_sub(1);
        if let Some(waiting) = self.waiting.get((last % MOST) as usize).filter(|last| last.number == number)
            && let Some(word) = self.words.state(waiting.buffer)
        {
            give_back(word, Tag::new(self.qp, number));
        }
    }

    /// Moves the payload of all messages that wait to their receive requests, behind the lock of the target:
    /// what follows is moved there at once, and must not be there before. `pd`: the domain of the requests. Its
    /// owner may be to be woken then, however it ends: [`PoolWriter::was_moved`].
    ///
    /// # Errors
    /// [`LockError::Held`]: the owner moves one just now, and does not go on. [`LockError::Busy`]: one could
    /// not be moved now, and may be later.
    #[cold]
    #[inline(never)]
    pub(super) fn move_all(
        &mut self,
        endpoint: &Endpoint,
        remote: &Remote,
        memory: &impl Memory,
        pd: u32,
    ) -> Result<(), LockError> {
        self.forget_over();
        for count in (0..self.next.wrapping_sub(self.first)).map(|n| self.first.wrapping_add(n)) {
            let Some(waiting) = self.waiting.get((count % MOST) as usize).copied() else { break };
            let tag = Tag::new(self.qp, waiting.number);
            let Some(word) = self.words.state(waiting.buffer) else { return Ok(()) };
            let mut looks = 0;
            let begun = loop {
                match begin(word, tag) {
                    Begun::Owners if looks < PATIENT => {
                        looks += 1;
                        spin_loop();
                    }
                    begun => break begun,
                }
            };
            match begun {
                Begun::Over => {}
                Begun::Owners => return Err(LockError::Held),
                Begun::Mine => {
                    let moved = self.move_one(endpoint, remote, memory, pd, &waiting);
                    end(word, tag, moved.is_ok());
                    self.moved = Some(self.moved.unwrap_or(false) | waiting.solicited);
                    // Where it is wrong itself, its owner finds out, and those behind it are moved all the
                    // same.
                    if moved == Err(MoveError::Gone) {
                        return Err(LockError::Busy);
                    }
                }
            }
        }
        self.forget_over();
        Ok(())
    }

    /// Whether messages were moved here since this was asked last, and one of them is solicited. While that was
    /// done their owner found none, and may have gone to sleep.
    #[inline(always)]
    pub(super) fn was_moved(&mut self) -> Option<bool> {
        self.moved.take()
    }

    fn move_one(
        &self,
        endpoint: &Endpoint,
        remote: &Remote,
        memory: &impl Memory,
        pd: u32,
        waiting: &Waiting,
    ) -> Result<(), MoveError> {
        let payload = self.words.payload(waiting.buffer).ok_or(MoveError::Target)?;
        let next = match waiting.to {
            Some(sge) => Sges::try_of(&[sge])
                .map_or(Next::Empty, |sges| Next::Request(ReceiveRequest { wr_id: 0, sges })),
            None => nth_in_ring(memory, self.qp, waiting.number),
        };
        let Next::Request(receive) = next else { return Err(MoveError::Target) };
        let here = [Span { addr: payload.as_ptr() as u64, len: waiting.bytes.into() }];
        bytes::into_taken(endpoint, remote, &here, pd, &receive)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shm::bounce::Copying;
    use crate::shm::folder::Config;
    use crate::shm::pool::{POOL_BYTES, Taken, take};
    use crate::shm::testing::TestDir;

    #[test]
    fn a_message_without_a_buffer_gives_none_back() {
        let dir = TestDir::new("pooled");
        let config = Config { path: dir.path().join("f"), group: None };
        let endpoint = Endpoint::open(&config, Copying::Auto).unwrap();
        let at = endpoint.segment.alloc(POOL_BYTES, 64).unwrap().offset;
        let words = PoolWords::hold(&endpoint.own, at).unwrap();
        let waiting = [Waiting::default(); MOST as usize];
        let mut pool =
            PoolWriter { words, qp: 7, waiting, first: 0, next: 0, likely: 0, in_vain: None, moved: None };
        for number in [3, 4] {
            assert_eq!(pool.take(number, 300, false, false), Some(number - 3));
        }
        // The message with the next number is short.
        pool.take_back(5);
        let taken = |n: u32| take(pool.words.state(n).unwrap(), Tag::new(7, 3 + n), || true);
        assert_eq!(taken(0), Taken::Whole);
        pool.take_back(4);
        assert_eq!(taken(1), Taken::Nothing);
    }
}
