//! The rings that soft-RoCE shares with a process: one head with two indices, and a power of two of slots.
//!
//! Source: `struct rxe_queue_buf` of `rdma/rdma_user_rxe.h`. One side produces and owns the producer index, the
//! other consumes and owns the consumer index. The ring is empty when both are equal and full when the producer
//! is one behind the consumer, so one slot always stays empty.
//!
//! The other side is not trusted. The geometry is checked once and kept here; an index that was read is cut to
//! the number of slots before it leads to one or counts any, so every slot lies inside the mapping whatever the
//! shared memory says.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::copy;
pub use super::copy::ENTRY;

/// Offset of the binary logarithm of the slot size (bytes).
pub const LOG2_SLOT_SIZE: usize = 0;
/// Offset of the number of slots minus one (bytes).
pub const INDEX_MASK: usize = 4;
/// Offset of the producer index (bytes).
pub const PRODUCER: usize = 128;
/// Offset of the consumer index (bytes).
pub const CONSUMER: usize = 256;
/// Offset of the first slot (bytes).
pub const DATA: usize = 384;

/// What the head says does not fit the memory that was mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Where the slots of a ring are.
///
/// Invariant: `DATA + ((mask + 1) << shift)` bytes from `base` on are readable and writable as long as the ring
/// lives, and `mask + 1` is a power of two.
#[derive(Clone, Copy)]
struct Ring {
    base: NonNull<u8>,
    mask: u32,
    shift: u32,
}

// SAFETY: a Ring is a pointer to memory that any thread may use; who may use it when is decided by the lock
// around it.
unsafe impl Send for Ring {}

impl Ring {
    /// Checks the head of a ring whose slots must hold at least `entry` bytes.
    ///
    /// # Safety
    /// `length` bytes from `base` on are readable and writable, by this process through atomics or raw pointers
    /// only, as long as the result lives.
    unsafe fn over(base: NonNull<u8>, length: usize, entry: usize) -> Result<Self, Malformed> {
        if length < DATA || !base.cast::<u64>().is_aligned() {
            return Err(Malformed);
        }
        // SAFETY: both words lie in the head, whose DATA bytes are there and aligned for them. Atomic, because
        // the other side may write at any time; what was read is used from here on, never read again.
        let (shift, mask) = unsafe {
            (
                AtomicU32::from_ptr(base.add(LOG2_SLOT_SIZE).as_ptr().cast()).load(Ordering::Relaxed),
                AtomicU32::from_ptr(base.add(INDEX_MASK).as_ptr().cast()).load(Ordering::Relaxed),
            )
        };
        // Slots are multiples of 8 bytes, which is what the fields of their entries are aligned to.
        let slots = u64::from(mask) + 1;
        if !(3..=30).contains(&shift) || (1usize << shift) < entry || !slots.is_power_of_two() {
            return Err(Malformed);
        }
        if (slots << shift) > (length - DATA) as u64 {
            return Err(Malformed);
        }
        Ok(Self { base, mask, shift })
    }

    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the head, aligned because `base` is, and shared through atomics only.
        unsafe { AtomicU32::from_ptr(self.base.add(PRODUCER).as_ptr().cast()) }
    }

    #[inline(always)]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer index.
        unsafe { AtomicU32::from_ptr(self.base.add(CONSUMER).as_ptr().cast()) }
    }

    /// The slot that an index names; an index beyond the ring is cut to it.
    #[inline(always)]
    fn slot(&self, index: u32) -> NonNull<u8> {
        // SAFETY: `index & mask` is at most `mask`, so the whole slot lies in the memory of the invariant.
        unsafe { self.base.add(DATA + (((index & self.mask) as usize) << self.shift)) }
    }

    /// Tells the producer that the `count` entries from slot `start` on have been read.
    #[inline(always)]
    fn give_back(&self, start: u32, count: u32) {
        // The sum may wrap in 32 bits without harm, because the number of slots divides 2^32.
        let end = start.wrapping_add(count) & self.mask;
        // Release: the entries have been read before their slots are free.
        self.consumer().store(end, Ordering::Release);
    }

    fn slot_size(&self) -> usize {
        1 << self.shift
    }
}

/// The consumer's side of a completion queue.
pub struct CompletionRing {
    ring: Ring,
}

/// A walk over completions one by one, which gives slots back to the producer only when told to.
#[derive(Clone, Copy, Default)]
pub struct Walk {
    current: u32,
    end: u32,
    published: u32,
}

/// Completions that can be taken: where they start, and how many there are.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ready {
    /// As it was read: to be cut to the ring.
    start: u32,
    /// At most one less than the ring has slots.
    pub count: u32,
}

impl CompletionRing {
    /// Checks the ring at `base`.
    ///
    /// # Safety
    /// `length` bytes from `base` on are readable and writable, by this process through the result only, as
    /// long as it lives.
    pub unsafe fn over(base: NonNull<u8>, length: usize) -> Result<Self, Malformed> {
        // SAFETY: handed on to the caller.
        let ring = unsafe { Ring::over(base, length, ENTRY) }?;
        Ok(Self { ring })
    }

    /// The completions that are there, up to `max`. The producer index is read once.
    #[inline(always)]
    pub fn ready(&self, max: u32) -> Ready {
        // Acquire: the entries were written before the producer index that counts them.
        let end = self.ring.producer().load(Ordering::Acquire);
        let start = self.ring.consumer().load(Ordering::Relaxed);
        let ready = end.wrapping_sub(start) & self.ring.mask;
        Ready { start, count: if ready < max { ready } else { max } }
    }

    /// Moves completions to `target` and gives their slots back with one store.
    ///
    /// # Safety
    /// `ready` came from this ring, which nobody took from since. As many entries of 48 bytes are writable at
    /// `target`, outside the ring.
    #[inline(always)]
    pub unsafe fn take(&mut self, ready: Ready, target: *mut u8) {
        // A copy, so that it can stay in registers whatever is written through pointers meanwhile.
        let (ring, Ready { start, count }) = (self.ring, ready);
        if count == 0 {
            return;
        }
        let mut index = start;
        let next = || {
            let slot = ring.slot(index);
            index = index.wrapping_add(1);
            slot.as_ptr().cast_const()
        };
        // SAFETY: a slot holds an entry; the target has room for `count`.
        unsafe { copy::baseline_run(next, target, count) };
        ring.give_back(start, count);
    }

    /// As [`CompletionRing::take`], faster for many.
    ///
    /// # Safety
    /// As there, on a machine with [AVX2](copy::avx2).
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn take_avx2(&mut self, ready: Ready, target: *mut u8) {
        let (ring, Ready { start, count }) = (self.ring, ready);
        // Bytes instead of indices, which saves a shift for each. The slots are a power of two of bytes, so a
        // mask cuts an offset to them.
        let mut offset = (start as usize) << ring.shift;
        let mask = ((ring.mask as usize + 1) << ring.shift) - 1;
        let next = || {
            // SAFETY: what is left of the offset is a multiple of the slot size, and that of the last slot at
            // most.
            let slot = unsafe { ring.base.add(DATA + (offset & mask)) };
            offset = offset.wrapping_add(1 << ring.shift);
            slot.as_ptr().cast_const()
        };
        // SAFETY: as there; a slot has 64 bytes at least, as their number is a power of two, and the head
        // stands before the first.
        unsafe { copy::avx2_run(next, target, count) };
        ring.give_back(start, count);
    }

    /// Starts a walk at the oldest completion; nothing if there is none.
    #[inline(always)]
    pub fn walk(&self) -> Option<Walk> {
        let start = self.ring.consumer().load(Ordering::Relaxed) & self.ring.mask;
        let end = self.ring.producer().load(Ordering::Acquire) & self.ring.mask;
        (start != end).then_some(Walk { current: start, end, published: start })
    }

    /// Goes on to the next completion, if it was there when the producer index was last read.
    #[inline(always)]
    pub fn advance(&self, walk: &mut Walk) -> bool {
        let next = walk.current.wrapping_add(1) & self.ring.mask;
        if next == walk.end {
            return false;
        }
        walk.current = next;
        true
    }

    /// Goes on to the next completion. If there is none, stays at the last one, gives the slots before it back,
    /// and returns false.
    #[inline(always)]
    pub fn step(&mut self, walk: &mut Walk) -> bool {
        if self.advance(walk) {
            return true;
        }
        walk.end = self.ring.producer().load(Ordering::Acquire) & self.ring.mask;
        if self.advance(walk) {
            return true;
        }
        self.publish(walk, walk.current);
        false
    }

    /// Ends a walk: every completion up to the current one is given back.
    #[inline(always)]
    pub fn finish(&mut self, walk: &mut Walk) {
        let next = walk.current.wrapping_add(1) & self.ring.mask;
        self.publish(walk, next);
    }

    #[inline(always)]
    fn publish(&mut self, walk: &mut Walk, index: u32) {
        if index != walk.published {
            // Release: the entries have been read before their slots are free.
            self.ring.consumer().store(index, Ordering::Release);
            walk.published = index;
        }
    }

    /// The completion that a walk stands at: at least 48 bytes.
    #[inline(always)]
    pub fn entry(&self, walk: &Walk) -> NonNull<u8> {
        self.ring.slot(walk.current)
    }
}

/// The indices of a completion ring, for a look at whether it is empty by threads that do not hold its lock.
/// It looks at no ring at first.
#[derive(Default)]
pub struct Glance {
    head: AtomicPtr<u8>,
    /// The last poll found nothing. Only then it pays to look: where completions are found, the lock is needed
    /// anyway.
    idle: AtomicBool,
}

impl Glance {
    /// Looks at `ring` from now on.
    ///
    /// # Safety
    /// The ring's memory stays readable as long as this value, whatever ring it looks at then.
    pub unsafe fn at(&self, ring: &CompletionRing) {
        self.head.store(ring.ring.base.as_ptr(), Ordering::Release);
    }

    /// Looks at no ring from now on.
    pub fn close(&self) {
        self.head.store(ptr::null_mut(), Ordering::Release);
    }

    /// Whether the last poll found nothing, as far as anybody noted.
    #[inline(always)]
    pub fn idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Notes whether a poll found nothing.
    #[inline(always)]
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
    }

    /// Whether all completions that were there when the look began have been taken; false where nobody knows.
    ///
    /// The producer index is read first. The consumer never passes the producer, so a consumer that is seen
    /// there later has taken everything up to there, whoever takes and produces meanwhile and however often the
    /// indices wrap.
    #[inline(always)]
    pub fn empty(&self) -> bool {
        let base = self.head.load(Ordering::Acquire);
        if base.is_null() {
            return false;
        }
        // SAFETY: both words lie in the head of a ring, whose memory stays by the contract of `at`; they are
        // aligned, as the ring was checked, and shared through atomics only.
        let (producer, consumer) = unsafe {
            (AtomicU32::from_ptr(base.add(PRODUCER).cast()), AtomicU32::from_ptr(base.add(CONSUMER).cast()))
        };
        // Acquire: the consumer index is read after the producer index.
        let produced = producer.load(Ordering::Acquire);
        produced == consumer.load(Ordering::Relaxed)
    }
}

/// The producer's side of a work queue.
pub struct WorkRing {
    ring: Ring,
}

/// Slots being filled that the consumer has not been told of yet.
#[derive(Clone, Copy, Default)]
pub struct Batch {
    start: u32,
    next: u32,
    consumer: u32,
}

impl WorkRing {
    /// Checks the ring at `base`, whose slots must hold at least `entry` bytes.
    ///
    /// # Safety
    /// `length` bytes from `base` on are readable and writable, by this process through the result only, as
    /// long as it lives.
    pub unsafe fn over(base: NonNull<u8>, length: usize, entry: usize) -> Result<Self, Malformed> {
        // SAFETY: handed on to the caller.
        Ok(Self { ring: unsafe { Ring::over(base, length, entry) }? })
    }

    /// Bytes that a slot has.
    #[must_use]
    pub fn slot_size(&self) -> usize {
        self.ring.slot_size()
    }

    /// The same ring in a variable of its own, which can stay in registers whatever is written through
    /// pointers.
    ///
    /// # Safety
    /// The result is used while `self` lives, where `self` may be used.
    #[inline(always)]
    pub unsafe fn local(&self) -> Self {
        Self { ring: self.ring }
    }

    /// Starts a batch at the next free slot.
    #[inline(always)]
    pub fn start(&self) -> Batch {
        let start = self.ring.producer().load(Ordering::Relaxed) & self.ring.mask;
        Batch { start, next: start, consumer: self.consumed() }
    }

    #[inline(always)]
    fn consumed(&self) -> u32 {
        // Acquire: the consumer has read an entry before its slot counts as free.
        self.ring.consumer().load(Ordering::Acquire) & self.ring.mask
    }

    /// Whether there is a slot for the next entry, as far as the consumer index that was read last says.
    #[inline(always)]
    pub fn has_room(&self, batch: &Batch) -> bool {
        batch.next.wrapping_add(1) & self.ring.mask != batch.consumer
    }

    /// The slot that the next entry goes to where the ring [has room](WorkRing::has_room),
    /// [`WorkRing::slot_size`] bytes.
    #[inline(always)]
    pub fn next(&self, batch: &Batch) -> NonNull<u8> {
        self.ring.slot(batch.next)
    }

    /// The slot that the next entry goes to; nothing while the ring is full. The consumer index is read again
    /// only when the last one seen says full.
    #[inline(always)]
    pub fn slot(&self, batch: &mut Batch) -> Option<NonNull<u8>> {
        if !self.has_room(batch) {
            batch.consumer = self.consumed();
            if !self.has_room(batch) {
                return None;
            }
        }
        Some(self.next(batch))
    }

    /// Adds the slot that [`WorkRing::slot`] gave to the batch.
    #[inline(always)]
    pub fn accept(&self, batch: &mut Batch) {
        batch.next = batch.next.wrapping_add(1) & self.ring.mask;
    }

    /// The slot that was added to the batch last.
    #[inline(always)]
    pub fn last(&self, batch: &Batch) -> Option<NonNull<u8>> {
        (batch.next != batch.start).then(|| self.ring.slot(batch.next.wrapping_sub(1)))
    }

    /// Tells the consumer of the whole batch.
    #[inline(always)]
    pub fn publish(&mut self, batch: &Batch) {
        if batch.next != batch.start {
            // Release: the entries are written before the producer index that counts them.
            self.ring.producer().store(batch.next, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
