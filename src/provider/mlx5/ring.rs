//! Rings of completions: the one that the device writes, and libmlx5's, which the device never sees.
//!
//! A ring is a power of two of entries. Counters run on; an entry belongs to the reader when its owner bit is
//! the counter's bit above those of the place, which changes with every lap.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use super::cqe::{self, Cqe};
use super::memory::Pages;
use crate::errno::{Errno, Result};

/// The most entries of a ring.
const MOST: u32 = 1 << 24;

/// Where entries are.
///
/// Invariant: `mask + 1` entries from `entries` on are readable and writable as long as the value is used,
/// and `mask + 1` is a power of two.
#[derive(Clone, Copy)]
struct Entries {
    entries: NonNull<u8>,
    mask: u32,
}

impl Entries {
    #[inline(always)]
    fn place(self, counter: u32) -> NonNull<u8> {
        // SAFETY: the counter is cut to the entries of the invariant.
        unsafe { self.entries.add((counter & self.mask) as usize * cqe::SIZE) }
    }

    #[inline(always)]
    fn at(self, counter: u32) -> Cqe {
        // SAFETY: an entry of the invariant; entries are aligned as pages are, and written through atomics.
        unsafe { Cqe::at(self.place(counter)) }
    }

    /// The owner bit of this lap.
    #[inline(always)]
    fn owner(self, counter: u32) -> u8 {
        u8::from(counter & (self.mask + 1) != 0)
    }

    /// Whether the entry is the reader's.
    #[inline(always)]
    fn is_readers(self, counter: u32) -> bool {
        let op_own = self.at(counter).op_own();
        op_own & cqe::OWNER == self.owner(counter) && op_own >> 4 != cqe::INVALID
    }
}

/// The ring that the device writes, in memory of ours.
pub struct Ring {
    entries: Entries,
    pages: Pages,
}

// SAFETY: pointers to memory that the value owns; who may use it when is decided by the lock around it.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of `count` entries, none of them written; EINVAL where that is no power of two up to 2^24,
    /// ENOMEM.
    pub fn new(count: u32) -> Result<Self> {
        if !count.is_power_of_two() || count > MOST {
            return Err(Errno::EINVAL);
        }
        let pages = Pages::new(count as usize * cqe::SIZE)?;
        let entries = Entries { entries: pages.base(), mask: count - 1 };
        for counter in 0..count {
            // SAFETY: the last byte of an entry of the invariant, which nobody else knows yet.
            unsafe { entries.place(counter).add(cqe::OP_OWN).write(cqe::EMPTY) };
        }
        Ok(Self { entries, pages })
    }

    /// Where the entries begin, as the driver is told.
    pub fn address(&self) -> u64 {
        self.pages.address()
    }

    /// How many entries it has.
    pub fn count(&self) -> u32 {
        self.entries.mask + 1
    }

    /// How many entries from `counter` on are there to be read, up to `max`. What they hold may be read after
    /// [`after_owner`](super::barrier::after_owner).
    #[inline(always)]
    pub fn ready(&self, counter: u32, max: u32) -> u32 {
        let mut count = 0;
        while count < max && self.entries.is_readers(counter.wrapping_add(count)) {
            count += 1;
        }
        count
    }

    /// The entry of a counter.
    #[inline(always)]
    pub fn entry(&self, counter: u32) -> Cqe {
        self.entries.at(counter)
    }

    /// Copies what is waiting in `self` from `from` on to `new`, each to the place of the next counter, up to
    /// the mark with which the device ends a ring that is resized. False where there is no mark: then nothing
    /// was copied that counts.
    pub fn move_to(&self, new: &Self, from: u32) -> bool {
        for step in 0..self.count() {
            let counter = from.wrapping_add(step);
            if !self.entries.is_readers(counter) {
                return false;
            }
            super::barrier::after_owner();
            let entry = self.entry(counter);
            let kind = entry.op_own() & !cqe::OWNER;
            if kind >> 4 == cqe::RESIZE_CQ {
                return true;
            }
            let next = counter.wrapping_add(1);
            // SAFETY: an entry of the other ring's invariant.
            unsafe { entry.copy_to(new.entries.place(next), kind | new.entries.owner(next)) };
        }
        false
    }

    /// Removes the entries for which `goes` says so, from `from` up to the last one that is there; how many.
    /// Those that stay move towards the last, so that the first counter becomes `from` and their number.
    pub fn remove(&self, from: u32, mut goes: impl FnMut(Cqe) -> bool) -> u32 {
        let ready = self.ready(from, self.count());
        super::barrier::after_owner();
        let mut gone = 0;
        for step in (0..ready).rev() {
            let counter = from.wrapping_add(step);
            let entry = self.entry(counter);
            if goes(entry) {
                gone += 1;
            } else if gone != 0 {
                let to = counter.wrapping_add(gone);
                let op_own = entry.op_own() & !cqe::OWNER | self.entries.owner(to);
                // SAFETY: another entry of the invariant.
                unsafe { entry.copy_to(self.entries.place(to), op_own) };
            }
        }
        gone
    }
}

/// libmlx5's ring. It holds nothing but what was put there for libmlx5 to take at once.
pub struct Shadow {
    entries: Entries,
    /// libmlx5's private counter: how many it took.
    next: u32,
}

// SAFETY: as for a Ring; libmlx5 owns the memory, and reads it only when this library calls it.
unsafe impl Send for Shadow {}

impl Shadow {
    /// The ring there, of which libmlx5 has taken `next` entries; none where the number of entries is no
    /// power of two.
    ///
    /// # Safety
    /// `count` entries from `entries` on are libmlx5's ring, and stay so as long as the result is used.
    pub unsafe fn new(entries: NonNull<u8>, count: u32, next: u32) -> Option<Self> {
        let aligned = entries.cast::<u64>().is_aligned();
        (aligned && count.is_power_of_two())
            .then(|| Self { entries: Entries { entries, mask: count - 1 }, next })
    }

    /// How many entries libmlx5 took.
    pub fn taken(&self) -> u32 {
        self.next
    }

    /// Puts a copy there, which libmlx5 takes when it is called next.
    pub fn put(&mut self, entry: Cqe) {
        self.put_as(entry, entry.op_own());
    }

    /// The same for a completion that nobody is to see: the data that it holds goes nowhere, since the memory
    /// for it may be gone.
    pub fn put_without_data(&mut self, entry: Cqe) {
        self.put_as(entry, entry.op_own() & !(cqe::DATA_32 | cqe::DATA_64));
    }

    fn put_as(&mut self, entry: Cqe, op_own: u8) {
        let op_own = op_own & !cqe::OWNER | self.entries.owner(self.next);
        // SAFETY: an entry of the invariant, which libmlx5 does not look at meanwhile.
        unsafe { entry.copy_to(self.entries.place(self.next), op_own) };
        self.next = self.next.wrapping_add(1);
    }

    /// Ends the ring, as the device does when a ring is resized: libmlx5 finds nothing to take before the
    /// mark.
    pub fn end(&mut self) {
        let here = self.entries.at(self.next);
        self.put_as(here, cqe::RESIZE_CQ << 4);
    }
}

/// The two words by which the device knows what was consumed and how the queue is armed.
pub struct Record {
    words: NonNull<[AtomicU32; 2]>,
    pages: Pages,
}

// SAFETY: atomics in memory that the value owns.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    /// A record of a queue of which nothing was consumed; ENOMEM.
    pub fn new() -> Result<Self> {
        let pages = Pages::new(64)?;
        Ok(Self { words: pages.base().cast(), pages })
    }

    /// Where it is, as the driver is told.
    pub fn address(&self) -> u64 {
        self.pages.address()
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU32; 2] {
        // SAFETY: the start of zeroed pages that live as long as the value.
        unsafe { self.words.as_ref() }
    }

    /// Tells the device how many completions were taken.
    #[inline(always)]
    pub fn consumed(&self, counter: u32) {
        // Release: the entries have been read before they are free.
        self.words()[0].store((counter & 0xff_ffff).to_be(), Ordering::Release);
    }

    /// Tells the device how the queue is armed.
    #[inline(always)]
    pub fn armed(&self, word: u32) {
        self.words()[1].store(word.to_be(), Ordering::Relaxed);
    }
}
