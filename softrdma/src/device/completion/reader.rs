//! The owner's side of a completion queue: where its entries are, and how far they were taken.

use std::sync::atomic::Ordering;

use crate::carrier::near::direct::RingReaders;
use crate::carrier::near::entries::Entries;
use crate::carrier::near::own_ring::OwnReader;
use crate::device::idle::{Finders, Idle};
use crate::device::{Device, Error, Result};
use crate::queues::shared::{CqWord, Word, slot};
use crate::shm::objects::HeldWords;

use super::{AWAKE, After, EACH, EAGER, LOOKS, PATIENT, PAUSES, TRIED, YIELDS};

/// The owner's side of the ring.
#[derive(Debug)]
pub(in crate::device) struct Reader {
    /// Entries taken so far. The owner's own count: what stands in shared memory is for others.
    pub(super) head: u32,
    pub(super) capacity: u32,
    pub(super) entries: Entries,
    head_word: HeldWords,
    /// Offsets in the segment, in bytes.
    ring: u64,
    pub(super) stride: u64,
    /// Polls that found nothing since the last that found something.
    pub(super) empty_polls: u32,
    /// As many of them after which something is to be looked after.
    pub(super) looks_at: u32,
    /// The same, but for looks at the network.
    idle_at: u32,
    /// Packets of other hosts may come.
    network: bool,
    idle: Idle,
    /// Direct rings of queue pairs that complete here.
    pub(in crate::device) direct: RingReaders,
    /// Own completions that do not stand in the queue.
    pub(super) own: OwnReader,
    /// The count of own completions that come before the next one of the shared queue, once that was seen.
    pub(super) own_first: Option<u32>,
}

impl Reader {
    pub(super) fn new(
        device: &Device,
        cq: u32,
        head: u32,
        capacity: u32,
        taken_own: OwnReader,
    ) -> Result<Self> {
        let own = &device.endpoint.own;
        let at = |word| own.offset(word).ok_or(Error::NoMemory);
        let hold = |at, words| own.hold(at, words).ok_or(Error::NoMemory);
        let ring = at(Word::Entry { cq, slot: 0, word: 0 })?;
        let stride = at(Word::Entry { cq, slot: 1, word: 0 })? - ring;
        let words = (stride / 8) as usize;
        let entries = Entries {
            ring: hold(ring, words * capacity as usize)?,
            words,
            capacity,
            tail: hold(at(Word::Cq(cq, CqWord::Tail))?, 1)?,
        };
        Ok(Self {
            head,
            capacity,
            entries,
            head_word: hold(at(Word::Cq(cq, CqWord::Head))?, 1)?,
            ring,
            stride,
            empty_polls: 0,
            looks_at: LOOKS,
            idle_at: LOOKS,
            network: device.has_network(),
            idle: Idle::default(),
            direct: RingReaders::default(),
            own_first: None,
            own: taken_own,
        })
    }

    /// Entries that wait; none when the count cannot be true.
    pub(super) fn waiting(&self) -> u32 {
        self.entries.waiting(self.head).unwrap_or(0)
    }

    /// Whether as many completions wait as there are entries, with those of messages in direct rings and own
    /// ones.
    pub(in crate::device) fn is_full(&self) -> bool {
        self.waiting() + self.direct.waiting() + self.own.waiting() >= self.capacity
    }

    /// A poll found something.
    #[inline(always)]
    pub(super) fn found(&mut self, finders: &Finders) {
        let looks_at = if self.direct.foresees() { 1 } else { LOOKS };
        (self.empty_polls, self.looks_at, self.idle_at) = (0, looks_at, LOOKS);
        finders.note();
    }

    /// A poll was in vain, and tried requests again that wait or not: what is to be done.
    #[inline(always)]
    pub(super) fn found_nothing(&mut self, waits: bool, finders: &Finders) -> After {
        // A poll that tried a request again takes as long as many others.
        self.empty_polls += if waits { TRIED } else { 1 };
        // A line that is looked at all the time is taken from whoever writes it, and the other thread of a core
        // has less of that. An answer that comes at once is seen before that matters.
        if self.empty_polls > EAGER && self.empty_polls.is_multiple_of(PAUSES) {
            std::hint::spin_loop();
        }
        if self.empty_polls >= self.looks_at { self.look(finders) } else { After::NOTHING }
    }

    /// What is to be done after so many polls in vain.
    #[cold]
    fn look(&mut self, finders: &Finders) -> After {
        if self.empty_polls < self.idle_at {
            // There is time now.
            self.direct.fetch();
            self.looks_at = self.idle_at;
            return self.or_network(After::NOTHING);
        }
        let after = self.look_around(finders);
        self.idle_at = self.looks_at;
        self.or_network(after)
    }

    /// What is to be done, or a look at the network, where there is one.
    fn or_network(&mut self, after: After) -> After {
        if !self.network {
            return after;
        }
        self.looks_at = self.looks_at.min(self.empty_polls + EACH);
        if after == After::NOTHING { After::NETWORK } else { after }
    }

    fn look_around(&mut self, finders: &Finders) -> After {
        self.direct.grow_older(LOOKS);
        if self.empty_polls < PATIENT {
            if self.empty_polls < 2 * LOOKS {
                self.idle.begin();
            }
            // A program may do much between two polls.
            let sleeps = self.idle.is_long_now(finders, self.network);
            self.looks_at = (self.empty_polls + if sleeps { AWAKE } else { LOOKS }).min(PATIENT);
            return if sleeps { After::SLEEP } else { After::LOOK };
        }
        (self.empty_polls, self.looks_at) = (PATIENT - YIELDS, PATIENT);
        if self.idle.is_long_now(finders, self.network) { After::SLEEP } else { After::YIELD }
    }

    /// The queue is elsewhere now.
    pub(super) fn follow(&mut self, now: Self) {
        let (direct, own_first) = (std::mem::take(&mut self.direct), self.own_first);
        *self = Self { direct, own_first, ..now };
    }

    /// Where the entry with this count stands, in bytes from the start of the segment.
    pub(super) fn entry(&self, count: u32) -> u64 {
        self.ring + self.stride * u64::from(slot(count, self.capacity))
    }

    #[inline(always)]
    pub(super) fn move_head(&mut self, head: u32) {
        self.head = head;
        if let Some(word) = self.head_word.get().first() {
            word.store(u64::from(head), Ordering::Release);
        }
    }

    /// How many entries were taken, where others took some out.
    pub(super) fn look_at_head(&mut self) {
        if let Some(word) = self.head_word.get().first() {
            self.head = word.load(Ordering::Relaxed) as u32;
        }
        // Another may be next.
        self.own_first = None;
    }
}
