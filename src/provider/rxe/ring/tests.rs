use super::*;
use proptest::prelude::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// A ring in ordinary memory, allocated with no byte to spare, so that Miri sees every step outside.
struct Buffer {
    base: NonNull<u8>,
    layout: Layout,
}

impl Buffer {
    fn of_length(length: usize) -> Self {
        let layout = Layout::from_size_align(length, 64).unwrap();
        // SAFETY: the layout is not empty, as no test asks for 0 bytes.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        Self { base, layout }
    }

    fn new(shift: u32, mask: u32) -> Self {
        let buffer = Self::of_length(DATA + ((mask as usize + 1) << shift));
        buffer.set(LOG2_SLOT_SIZE, shift);
        buffer.set(INDEX_MASK, mask);
        buffer
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.layout.size());
        // SAFETY: inside the allocation (just checked), and every offset used is a multiple of four.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).as_ptr().cast()) }
    }

    fn set(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    fn get(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Relaxed)
    }

    /// Puts an entry that starts with `mark` into a slot, as the kernel would, and fills the rest of the slot
    /// with dirt.
    fn fill_slot(&self, slot: usize, shift: u32, mark: u64) {
        let offset = DATA + (slot << shift);
        assert!(offset + (1 << shift) <= self.layout.size());
        // SAFETY: inside the allocation (just checked).
        unsafe {
            let at = self.base.add(offset).as_ptr();
            at.write_bytes(0xEE, 1 << shift);
            at.write_bytes(mark as u8, ENTRY);
            at.cast::<u64>().write(mark);
        }
    }

    fn completions(&self) -> Result<CompletionRing, Malformed> {
        // SAFETY: the allocation outlives every ring in these tests, and is accessed through atomics and raw
        // pointers.
        unsafe { CompletionRing::over(self.base, self.layout.size()) }
    }

    fn work(&self, entry: usize) -> Result<WorkRing, Malformed> {
        // SAFETY: as above.
        unsafe { WorkRing::over(self.base, self.layout.size(), entry) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `of_length`.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[test]
fn a_glance_tells_an_empty_ring_from_one_that_is_not() {
    let buffer = Buffer::new(6, 3);
    let ring = buffer.completions().unwrap();
    let glance = Glance::default();
    assert!(!glance.empty(), "it looks at no ring");
    // SAFETY: the buffer outlives the glance.
    unsafe { glance.at(&ring) };
    assert!(glance.empty());
    for index in 1..9 {
        buffer.set(PRODUCER, index & 3);
        assert!(!glance.empty());
        buffer.set(CONSUMER, index & 3);
        assert!(glance.empty());
    }
    glance.close();
    assert!(!glance.empty());
}

/// Takes up to `max` entries and returns the mark of each.
fn take(ring: &mut CompletionRing, max: usize) -> Vec<u64> {
    let mut target = vec![[0u64; 6]; max];
    let ready = ring.ready(max as u32);
    let count = ready.count as usize;
    // SAFETY: room for `max` entries of 48 bytes, and `ready` is the ring's last answer.
    unsafe { ring.take(ready, target.as_mut_ptr().cast()) };
    #[cfg(target_arch = "x86_64")]
    if copy::avx2() {
        // The same once more with the other copy.
        let mut again = vec![[0u64; 6]; max];
        let end = ring.ring.consumer().swap(ready.start, Ordering::Relaxed);
        // SAFETY: as above, on a machine with AVX2.
        unsafe { ring.take_avx2(ready, again.as_mut_ptr().cast()) };
        let again_end = ring.ring.consumer().load(Ordering::Relaxed);
        assert_eq!((&again, again_end & ring.ring.mask), (&target, end & ring.ring.mask));
    }
    assert!(count <= max);
    for entry in &target[..count] {
        let body = entry.map(u64::to_ne_bytes).concat();
        assert!(body[8..].iter().all(|byte| *byte == entry[0] as u8), "an entry came whole");
    }
    assert!(target[count..].iter().all(|entry| *entry == [0; 6]), "nothing is written behind the last entry");
    target[..count].iter().map(|entry| entry[0]).collect()
}

fn numbered(shift: u32, mask: u32) -> Buffer {
    let buffer = Buffer::new(shift, mask);
    for slot in 0..=mask {
        buffer.fill_slot(slot as usize, shift, 100 + u64::from(slot));
    }
    buffer
}

#[test]
fn an_empty_ring_gives_nothing_and_is_left_alone() {
    let buffer = numbered(6, 7);
    buffer.set(PRODUCER, 3);
    buffer.set(CONSUMER, 3);
    let mut ring = buffer.completions().unwrap();
    assert_eq!(take(&mut ring, 4), []);
    assert_eq!(buffer.get(CONSUMER), 3);
    assert!(ring.walk().is_none());
}

#[test]
fn asking_for_nothing_takes_nothing() {
    let buffer = numbered(6, 7);
    buffer.set(PRODUCER, 3);
    let mut ring = buffer.completions().unwrap();
    assert_eq!(take(&mut ring, 0), []);
    assert_eq!(buffer.get(CONSUMER), 0);
}

#[test]
fn entries_come_in_order_across_the_end_of_the_ring() {
    let buffer = numbered(6, 7);
    buffer.set(CONSUMER, 6);
    buffer.set(PRODUCER, 3);
    let mut ring = buffer.completions().unwrap();
    assert_eq!(take(&mut ring, 1), [106]);
    assert_eq!(buffer.get(CONSUMER), 7);
    assert_eq!(take(&mut ring, 64), [107, 100, 101, 102]);
    assert_eq!(buffer.get(CONSUMER), 3);
    assert_eq!(take(&mut ring, 64), []);
}

#[test]
fn a_full_ring_holds_one_less_than_its_slots() {
    let buffer = numbered(7, 3);
    buffer.set(CONSUMER, 2);
    buffer.set(PRODUCER, 1);
    let mut ring = buffer.completions().unwrap();
    assert_eq!(take(&mut ring, 8), [102, 103, 100]);
}

#[test]
fn a_walk_sees_what_arrives_and_gives_back_at_its_end() {
    let buffer = numbered(6, 7);
    buffer.set(CONSUMER, 7);
    buffer.set(PRODUCER, 1);
    let mut ring = buffer.completions().unwrap();
    // SAFETY: the walk's entry is a slot of the live buffer, and starts with its 8-byte mark.
    let mark = |ring: &CompletionRing, walk: &Walk| unsafe { ring.entry(walk).cast::<u64>().read() };

    let mut walk = ring.walk().unwrap();
    assert_eq!(mark(&ring, &walk), 107);
    assert!(ring.step(&mut walk));
    assert_eq!(mark(&ring, &walk), 100);
    assert_eq!(buffer.get(CONSUMER), 7, "nothing is given back before the end");

    assert!(!ring.step(&mut walk));
    assert_eq!(buffer.get(CONSUMER), 0, "what lies before the current entry is given back");
    assert_eq!(mark(&ring, &walk), 100, "the current entry stays");

    buffer.set(PRODUCER, 2);
    assert!(ring.step(&mut walk));
    assert_eq!(mark(&ring, &walk), 101);
    ring.finish(&mut walk);
    assert_eq!(buffer.get(CONSUMER), 2);
    assert!(ring.walk().is_none());
}

#[test]
fn an_ended_walk_after_a_failed_step_gives_back_exactly_what_was_there() {
    let buffer = numbered(6, 7);
    buffer.set(PRODUCER, 1);
    let mut ring = buffer.completions().unwrap();
    let mut walk = ring.walk().unwrap();
    assert!(!ring.step(&mut walk));
    assert!(!ring.step(&mut walk));
    ring.finish(&mut walk);
    assert_eq!(buffer.get(CONSUMER), 1);
}

#[test]
fn a_batch_fills_all_slots_but_one_and_is_told_of_once() {
    let buffer = Buffer::new(6, 3);
    buffer.set(PRODUCER, 2);
    buffer.set(CONSUMER, 2);
    let mut ring = buffer.work(64).unwrap();
    let mut batch = ring.start();
    assert!(ring.last(&batch).is_none());
    for mark in 0..3u64 {
        let slot = ring.slot(&mut batch).unwrap();
        // SAFETY: a slot of 64 bytes in the live buffer.
        unsafe { slot.cast::<u64>().write(mark) };
        ring.accept(&mut batch);
        assert_eq!(ring.last(&batch), Some(slot));
    }
    assert!(ring.slot(&mut batch).is_none());
    assert_eq!(buffer.get(PRODUCER), 2);
    ring.publish(&batch);
    assert_eq!(buffer.get(PRODUCER), 1);

    // The consumer frees a slot while the next batch is being filled.
    let mut batch = ring.start();
    assert!(ring.slot(&mut batch).is_none());
    buffer.set(CONSUMER, 3);
    assert!(ring.slot(&mut batch).is_some());
    ring.publish(&batch);
    assert_eq!(buffer.get(PRODUCER), 1, "a slot that was not accepted is not published");
}

#[test]
fn a_ring_of_one_slot_is_always_full() {
    let buffer = Buffer::new(6, 0);
    let ring = buffer.work(64).unwrap();
    let mut batch = ring.start();
    assert!(ring.slot(&mut batch).is_none());
}

#[test]
fn a_head_that_does_not_fit_the_memory_is_refused() {
    let refused = |shift, mask, length| {
        let buffer = Buffer::of_length(length);
        if length >= 8 {
            buffer.set(LOG2_SLOT_SIZE, shift);
            buffer.set(INDEX_MASK, mask);
        }
        buffer.completions().is_err()
    };
    assert!(!refused(6, 7, DATA + 512));
    assert!(refused(6, 7, DATA + 511), "one byte short");
    assert!(refused(6, 15, DATA + 512), "too many slots");
    assert!(refused(6, 6, DATA + 512), "not a power of two");
    assert!(refused(5, 7, DATA + 512), "slots smaller than an entry");
    assert!(refused(64, 0, DATA + 512));
    assert!(refused(u32::MAX, u32::MAX, DATA + 512));
    assert!(refused(6, u32::MAX, DATA + 512));
    assert!(refused(6, 7, DATA - 1), "no room for the head");
    assert!(refused(6, 7, 1));
    assert!(Buffer::new(6, 3).work(65).is_err(), "slots smaller than the entry asked for");
}

#[test]
fn a_head_that_changes_later_is_not_read_again() {
    let buffer = numbered(6, 3);
    let mut ring = buffer.completions().unwrap();
    buffer.set(LOG2_SLOT_SIZE, 20);
    buffer.set(INDEX_MASK, u32::MAX);
    buffer.set(PRODUCER, 2);
    assert_eq!(take(&mut ring, 8), [100, 101]);
}

const CASES: u32 = if cfg!(miri) { 8 } else { 2000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_index_leads_out_of_the_ring(
        shift in 6u32..9, log2_slots in 0u32..6, producer: u32, consumer: u32,
        max in 0usize..70, steps in 0usize..70,
    ) {
        let mask = (1 << log2_slots) - 1;
        let buffer = numbered(shift, mask);
        buffer.set(PRODUCER, producer);
        buffer.set(CONSUMER, consumer);
        let mut ring = buffer.completions().unwrap();
        let marks = take(&mut ring, max);
        prop_assert!(marks.len() <= max.min(mask as usize));
        for (i, mark) in marks.iter().enumerate() {
            prop_assert_eq!(*mark, 100 + u64::from((consumer.wrapping_add(i as u32)) & mask));
        }

        buffer.set(PRODUCER, producer);
        buffer.set(CONSUMER, consumer);
        if let Some(mut walk) = ring.walk() {
            for step in 0..steps {
                // SAFETY: wherever the walk stands, the entry is a slot of the live buffer: this is what the
                // test is for.
                let mark = unsafe { ring.entry(&walk).cast::<u64>().read() };
                prop_assert!((100..=100 + u64::from(mask)).contains(&mark));
                buffer.set(PRODUCER, producer.wrapping_mul(step as u32 | 1));
                ring.step(&mut walk);
            }
            ring.finish(&mut walk);
        }
    }

    #[test]
    fn no_index_leads_a_producer_out_of_the_ring(
        shift in 6u32..9, log2_slots in 0u32..6, producer: u32, consumers: Vec<u32>,
    ) {
        let mask = (1 << log2_slots) - 1;
        let buffer = Buffer::new(shift, mask);
        buffer.set(PRODUCER, producer);
        let mut ring = buffer.work(64).unwrap();
        let mut batch = ring.start();
        for consumer in consumers {
            buffer.set(CONSUMER, consumer);
            if let Some(slot) = ring.slot(&mut batch) {
                // SAFETY: wherever the batch stands, the slot lies in the live buffer: this is what the test is
                // for.
                unsafe { slot.as_ptr().write_bytes(0xFF, ring.slot_size()) };
                ring.accept(&mut batch);
            }
            if let Some(slot) = ring.last(&batch) {
                // SAFETY: as above.
                unsafe { slot.as_ptr().write_bytes(0, ring.slot_size()) };
            }
        }
        ring.publish(&batch);
        prop_assert_eq!(buffer.get(LOG2_SLOT_SIZE), shift);
        prop_assert_eq!(buffer.get(INDEX_MASK), mask);
    }

    #[test]
    fn what_goes_in_comes_out(batches in prop::collection::vec((0usize..12, 0usize..12), 0..40)) {
        const SHIFT: u32 = 6;
        let buffer = Buffer::new(SHIFT, 7);
        let mut work = buffer.work(ENTRY).unwrap();
        let mut completions = buffer.completions().unwrap();
        let (mut written, mut read) = (0u64, 0u64);
        for (produce, consume) in batches {
            let mut batch = work.start();
            for _ in 0..produce {
                let Some(slot) = work.slot(&mut batch) else {
                    prop_assert_eq!(written - read, 7);
                    break;
                };
                // SAFETY: a slot of 64 bytes, free, in the live buffer.
                unsafe {
                    slot.as_ptr().write_bytes(written as u8, ENTRY);
                    slot.cast::<u64>().write(written);
                }
                work.accept(&mut batch);
                written += 1;
            }
            work.publish(&batch);
            for mark in take(&mut completions, consume) {
                prop_assert_eq!(mark, read);
                read += 1;
            }
            prop_assert!(written - read <= 7);
        }
    }
}
