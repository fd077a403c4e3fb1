//! The words of a direct ring.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ironverbs_os::barrier;

use super::host::{Host, HostSegment};
use super::words::HeldWords;
use crate::queues::direct::{DirectWord, Doorbell, End, HEADER_WORDS, SLOT_WORDS, ring_words};
use crate::queues::shared::{Memory, Object, Word};
use crate::shm::fetch;
use crate::shm::lock::{Liveness, Owner};
use crate::shm::memory::{Memory as Mapping, fence_after_exchange};

/// A direct ring in a segment: whatever queue pair a word is of, it is of this ring's.
#[derive(Debug, Clone, Copy)]
pub struct DirectRing<'a>(&'a [AtomicU64], Option<&'a HeldRing>);

/// The words in front of the slots, and those of a slot.
type Header = [AtomicU64; HEADER_WORDS as usize];
type Slot = [AtomicU64; SLOT_WORDS as usize];

/// A ring as who writes messages keeps it.
#[derive(Debug)]
pub struct HeldRing {
    words: HeldWords,
    doorbell: HeldDoorbell,
    /// Both in `words`: the header, and the first slot of a power of two.
    header: NonNull<Header>,
    slots: NonNull<Slot>,
    /// Slots but one.
    mask: u32,
}

// SAFETY: as `HeldWords`, in which the words are.
unsafe impl Send for HeldRing {}
// SAFETY: as above.
unsafe impl Sync for HeldRing {}

impl HeldRing {
    /// The ring that [`Host::hold_ring`] found; `None` where it does not have so many slots as rings have.
    #[must_use]
    pub fn new(words: HeldWords, doorbell: HeldDoorbell) -> Option<Self> {
        let (header, slots) = words.get().split_first_chunk()?;
        let slots: &[Slot] = slots.as_chunks().0;
        let mask = u32::try_from(slots.len()).ok().filter(|count| count.is_power_of_two())? - 1;
        let (header, slots) = (NonNull::from(header), NonNull::from(slots).cast());
        Some(Self { words, doorbell, header, slots, mask })
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: `new` found it in the words, which are there as long as `self`.
        unsafe { self.header.as_ref() }
    }

    /// The slot with this count.
    #[inline(always)]
    fn slot(&self, count: u32) -> &Slot {
        // SAFETY: as above; there are more slots than the mask says.
        unsafe { self.slots.add((count & self.mask) as usize).as_ref() }
    }
}

/// The [`Doorbell`] of a ring, for its sender.
#[derive(Debug)]
pub struct HeldDoorbell {
    word: HeldWords,
    bit: u64,
}

impl<'a> DirectRing<'a> {
    /// The ring of so many slots at this offset; `None` when that is not all in the mapping.
    pub fn at(memory: &'a Mapping, offset: u64, slots: u32) -> Option<Self> {
        memory.words(offset, ring_words(slots) as usize).ok().map(|words| Self(words, None))
    }

    /// The ring that [`Host::hold_ring`] found.
    #[inline(always)]
    pub fn of(words: &'a HeldWords) -> Self {
        Self(words.get(), None)
    }

    /// The same, for who writes messages.
    #[inline(always)]
    pub fn with(ring: &'a HeldRing) -> Self {
        Self(ring.words.get(), Some(ring))
    }

    /// Signs as its writer, unless another living process does; whether that was done.
    pub fn sign(&self, me: Owner, liveness: &impl Liveness) -> bool {
        let Some(writer) = self.0.get(DirectWord::Writer as usize) else { return false };
        let word = writer.load(Ordering::Acquire);
        let other = Owner::from_word(word).filter(|writer| *writer != me && liveness.lives(*writer));
        other.is_none()
            && writer.compare_exchange(word, me.word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes [`DirectRing::sign`] back: this process writes there no more.
    pub fn leave(&self, me: Owner) {
        if let Some(writer) = self.0.get(DirectWord::Writer as usize) {
            let _ = writer.compare_exchange(me.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Whether it takes messages.
    #[inline(always)]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.get(DirectWord::End as usize).is_some_and(|end| End::is_open(end.load(Ordering::Acquire)))
    }

    /// So many words from this one on; none when they are not all there.
    #[inline(always)]
    pub fn words(&self, first: u32, count: u32) -> &'a [AtomicU64] {
        self.0.get(first as usize..).and_then(|words| words.get(..count as usize)).unwrap_or(&[])
    }

    /// A word of it.
    #[inline(always)]
    fn word(&self, word: Word) -> Option<&'a AtomicU64> {
        let Word::Direct { word, .. } = word else { return None };
        match self.1 {
            Some(ring) if word < HEADER_WORDS => ring.header().get(word as usize),
            _ => self.0.get(word as usize),
        }
    }
}

impl Host {
    /// The direct ring of so many slots at this offset of the segment; `None` when it is not all in what is
    /// mapped of it.
    pub fn hold_ring(&self, offset: u64, slots: u32) -> Option<HeldWords> {
        self.hold(offset, ring_words(slots) as usize)
    }

    /// The doorbell that the owner of a ring tells of; `None` when it is not in what is mapped of the segment.
    pub fn hold_doorbell(&self, doorbell: Doorbell) -> Option<HeldDoorbell> {
        Some(HeldDoorbell { word: self.hold(doorbell.at, 1)?, bit: 1 << doorbell.bit })
    }

    /// Maps what a peer's segment has grown by.
    pub fn refresh(&self) {
        if let HostSegment::Peer(peer) = self.target() {
            let _ = peer.refresh();
        }
    }
}

/// Stores the first of these words behind the others.
#[inline(always)]
fn publish(words: &[AtomicU64], values: &[u64]) {
    if let ([word, others @ ..], [value, values @ ..]) = (words, values) {
        for (word, value) in others.iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
        word.store(*value, Ordering::Release);
    }
}

impl Memory for DirectRing<'_> {
    #[inline(always)]
    fn is_stepwise(&self) -> bool {
        false
    }

    #[inline(always)]
    fn load(&self, word: Word) -> u64 {
        self.word(word).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn store(&self, word: Word, value: u64) {
        if let Some(word) = self.word(word) {
            word.store(value, Ordering::Release);
        }
    }

    #[inline(always)]
    fn publish(&self, word: Word, value: u64) {
        if let Some(word) = self.word(word) {
            word.swap(value, Ordering::SeqCst);
            fence_after_exchange();
        }
    }

    #[inline(always)]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[cold]
    fn fence_everywhere(&self) {
        barrier::everywhere();
    }

    #[cold]
    fn ring_doorbell(&self, _: u32) {
        if let Some(doorbell) = self.1.map(|ring| &ring.doorbell)
            && let Some(word) = doorbell.word.get().first()
        {
            word.fetch_or(doorbell.bit, Ordering::SeqCst);
            fence_after_exchange();
        }
    }

    #[inline(always)]
    fn load_all(&self, first: Word, values: &mut [u64]) {
        let Word::Direct { word, .. } = first else { return };
        let words = self.0.get(word as usize..).and_then(|words| words.get(..values.len()));
        for (value, word) in values.iter_mut().zip(words.unwrap_or(&[])) {
            *value = word.load(Ordering::Acquire);
        }
    }

    #[inline(always)]
    fn store_all(&self, first: Word, values: &[u64]) {
        let Word::Direct { word, .. } = first else { return };
        let words = self.0.get(word as usize..).and_then(|words| words.get(..values.len()));
        for (word, value) in words.unwrap_or(&[]).iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn publish_all(&self, first: Word, values: &[u64]) {
        let Word::Direct { word, .. } = first else { return };
        let words = self.0.get(word as usize..).and_then(|words| words.get(..values.len()));
        publish(words.unwrap_or(&[]), values);
    }

    #[inline(always)]
    fn publish_slot(&self, first: Word, count: u32, values: &[u64]) {
        match self.1 {
            Some(ring) => publish(ring.slot(count), values),
            None => self.publish_all(first, values),
        }
    }

    #[inline(always)]
    fn will_write(&self, word: Word) {
        if let Some(word) = self.word(word) {
            fetch::to_write(std::ptr::from_ref(word).addr());
        }
    }

    #[inline(always)]
    fn will_write_slot(&self, first: Word, count: u32) {
        match self.1 {
            Some(ring) => fetch::to_write(std::ptr::from_ref(ring.slot(count)).addr()),
            None => self.will_write(first),
        }
    }

    #[inline(always)]
    fn will_read(&self, word: Word) {
        if let Some(word) = self.word(word) {
            fetch::to_read(std::ptr::from_ref(word).addr());
        }
    }

    fn exists(&self, _: Object) -> bool {
        true
    }

    fn capacity(&self, _: Object) -> u32 {
        0
    }

    fn receive_words(&self, _: Object) -> u32 {
        0
    }

    fn entry_words(&self, _: u32) -> u32 {
        0
    }
}
