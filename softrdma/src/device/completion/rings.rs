//! Where the rings of a completion queue stand, and the owner's side of both.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::protocol::shared::{CqWord, Word, held, slot};
use crate::shm::memory::Memory;

use super::{After, LOOKS, PATIENT, YIELDS};
use crate::device::own::ring::Taker;
use crate::device::own::sends::Frontier;
use crate::device::{CompletionQueue, Device, Error, Result};

/// Words of the queue in the segment. They change their places when the queue is resized or moved; a look at
/// the old ones, which nobody changes any more, does no harm.
#[derive(Debug)]
pub(in crate::device) struct Shared {
    capacity: AtomicU32,
    /// Offsets in the segment, in bytes, by [`CqWord`].
    at: [AtomicU64; CqWord::COUNT as usize],
}

impl Shared {
    pub(super) fn new(device: &Device, cq: u32, capacity: u32) -> Result<Self> {
        let shared = Self { capacity: 0.into(), at: Default::default() };
        shared.find(device, cq, capacity)?;
        Ok(shared)
    }

    /// Looks up where they are now.
    pub(super) fn find(&self, device: &Device, cq: u32, capacity: u32) -> Result<()> {
        for (word, at) in CqWord::ALL.into_iter().zip(&self.at) {
            let now = device.site.own.offset(Word::Cq(cq, word)).ok_or(Error::NoMemory)?;
            at.store(now, Ordering::Relaxed);
        }
        self.capacity.store(capacity, Ordering::Relaxed);
        Ok(())
    }

    pub(in crate::device) fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(in crate::device) fn load(&self, cq: &CompletionQueue, word: CqWord) -> u64 {
        let at = self.at[word as usize].load(Ordering::Relaxed);
        cq.device.site.segment.memory().u64(at).map_or(0, |word| word.load(Ordering::Acquire))
    }
}

/// The owner's side of both rings.
#[derive(Debug)]
pub(super) struct Reader {
    /// Entries of the shared ring taken so far. The owner's own count: what stands in shared memory is for
    /// others.
    pub(super) head: u32,
    pub(super) place: Place,
    pub(super) own: Taker,
    pub(super) frontier: Frontier,
    /// Polls that found nothing since the last that found something.
    pub(super) empty_polls: u32,
    /// As many of them after which something is to be looked after.
    pub(super) looks_at: u32,
}

/// Where the shared ring stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) capacity: u32,
    /// Offsets in the segment, in bytes.
    pub(super) ring: u64,
    pub(super) stride: u64,
    /// Words of an entry.
    pub(super) words: usize,
    pub(super) head_at: u64,
    pub(super) tail_at: u64,
}

impl Place {
    pub(super) fn find(device: &Device, cq: u32, capacity: u32) -> Result<Self> {
        let at = |word| device.site.own.offset(word).ok_or(Error::NoMemory);
        let ring = at(Word::Entry { cq, slot: 0, word: 0 })?;
        let stride = at(Word::Entry { cq, slot: 1, word: 0 })? - ring;
        let (head_at, tail_at) = (at(Word::Cq(cq, CqWord::Head))?, at(Word::Cq(cq, CqWord::Tail))?);
        Ok(Self { capacity, ring, stride, words: (stride / 8) as usize, head_at, tail_at })
    }

    /// Where the entry with this count stands.
    #[inline(always)]
    pub(super) fn entry(&self, count: u32) -> u64 {
        self.ring + self.stride * u64::from(slot(count, self.capacity))
    }

    /// Whether the entry with this count was published.
    pub(super) fn is_published(&self, memory: &Memory, count: u32) -> bool {
        let first = memory.u64(self.entry(count)).map_or(0, |first| first.load(Ordering::Acquire));
        first as u32 == count.wrapping_add(1)
    }

    /// Whether more waits than the queue holds, from this count on and in the own ring.
    #[inline(always)]
    pub(super) fn overran(&self, memory: &Memory, head: u32, own: u32) -> bool {
        own > 0 && self.is_published(memory, head.wrapping_add(self.capacity.saturating_sub(own)))
    }
}

impl Reader {
    pub(super) fn new(place: Place, own: Taker) -> Self {
        Self { head: 0, place, own, frontier: Frontier::default(), empty_polls: 0, looks_at: LOOKS }
    }

    /// Entries of the shared ring that wait; none when the count cannot be true.
    pub(super) fn waiting(&self, memory: &Memory) -> u32 {
        let tail = memory.u64(self.place.tail_at).map_or(0, |tail| tail.load(Ordering::Acquire));
        held(u64::from(self.head), tail, self.place.capacity).unwrap_or(0)
    }

    /// What is to be done after so many polls in vain.
    #[cold]
    pub(super) fn look(&mut self) -> After {
        if self.empty_polls < PATIENT {
            self.looks_at = (self.empty_polls + LOOKS).min(PATIENT);
            return After::LOOK;
        }
        (self.empty_polls, self.looks_at) = (PATIENT - YIELDS, PATIENT);
        After::YIELD
    }

    pub(super) fn move_head(&mut self, memory: &Memory, head: u32) {
        self.head = head;
        if let Ok(word) = memory.u64(self.place.head_at) {
            word.store(u64::from(head), Ordering::Release);
        }
    }
}
