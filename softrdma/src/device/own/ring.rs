//! The ring of own completions: one writer at a time, one reader at a time, and neither waits for the other.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::protocol::completion::Completion;
use crate::protocol::shared::slot;

use super::sync::{AtomicU32, UnsafeCell};
use crate::device::Result;

/// A completion, and where it stands among those that peers write.
#[derive(Debug, Clone, Copy)]
pub(in crate::device) struct Own {
    pub(in crate::device) completion: Completion,
    /// See [`comes_first`](crate::protocol::own::comes_first).
    pub(in crate::device) after: u32,
}

/// Places between `head` and `tail` are filled. The writer alone moves `tail`, the reader alone `head`.
struct Ring {
    /// A power of two of them.
    places: Box<[UnsafeCell<MaybeUninit<Own>>]>,
    head: AtomicU32,
    tail: AtomicU32,
    /// The tail behind the last entry that comes earlier than one in front of it: two threads sent, and who
    /// began later was done earlier.
    disorder: AtomicU32,
}

// SAFETY: a place is written by the one `Writer` before `tail` says so and read by the one `Taker` before
// `head` gives it back; `push` and `pop` take `&mut`, so each is used by one thread at a time, and what `Taker`
// reads behind `&` stays until its next `pop`.
unsafe impl Sync for Ring {}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("places", &self.places.len()).finish_non_exhaustive()
    }
}

impl Ring {
    fn len(&self) -> u32 {
        // In this order it is never more than the places.
        let head = self.head.load(Ordering::Acquire);
        self.tail.load(Ordering::Acquire).wrapping_sub(head).min(self.places.len() as u32)
    }

    fn place(&self, count: u32) -> &UnsafeCell<MaybeUninit<Own>> {
        &self.places[slot(count, self.places.len() as u32) as usize]
    }
}

/// The writer's end.
#[derive(Debug)]
pub(in crate::device) struct Writer {
    ring: Arc<Ring>,
    /// [`Own::after`] of the entry that was appended last.
    after: u32,
}

/// The reader's end.
#[derive(Debug)]
pub(in crate::device) struct Taker {
    ring: Arc<Ring>,
}

/// An empty ring for so many entries, a power of two. Its memory is not touched before it is used.
///
/// # Errors
/// [`Error::NoMemory`](crate::device::Error::NoMemory).
pub(in crate::device) fn ring(capacity: u32) -> Result<(Writer, Taker)> {
    let mut places = Vec::new();
    places.try_reserve_exact(capacity as usize)?;
    places.resize_with(capacity as usize, || UnsafeCell::new(MaybeUninit::uninit()));
    let [head, tail, disorder] = [(); 3].map(|()| AtomicU32::new(0));
    let ring = Arc::new(Ring { places: places.into(), head, tail, disorder });
    Ok((Writer { ring: ring.clone(), after: 0 }, Taker { ring }))
}

impl Writer {
    /// Entries that wait, or that were taken just now.
    #[inline(always)]
    pub(in crate::device) fn len(&self) -> u32 {
        let tail = self.ring.tail.load(Ordering::Relaxed);
        tail.wrapping_sub(self.ring.head.load(Ordering::Acquire))
    }

    /// Entries that it holds.
    #[inline(always)]
    pub(in crate::device) fn capacity(&self) -> u32 {
        self.ring.places.len() as u32
    }

    /// Appends an entry; `false` when there is no room.
    #[inline(always)]
    pub(in crate::device) fn push(&mut self, own: &Own) -> bool {
        if self.len() >= self.capacity() {
            return false;
        }
        let tail = self.ring.tail.load(Ordering::Relaxed);
        // SAFETY: this is the only writer, and the reader has given the place back: `head` is not behind it.
        self.ring.place(tail).with_mut(|place| unsafe { (*place).write(*own) });
        if (own.after.wrapping_sub(self.after) as i32) < 0 {
            self.ring.disorder.store(tail.wrapping_add(1), Ordering::Relaxed);
        }
        self.after = own.after;
        self.ring.tail.store(tail.wrapping_add(1), Ordering::Release);
        true
    }
}

impl Taker {
    /// Entries that wait.
    pub(in crate::device) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// What the oldest entry comes after: what is said of it, or of one behind it that comes earlier, since
    /// entries are taken in the order in which they were appended.
    #[inline(always)]
    pub(in crate::device) fn after(&self) -> Option<u32> {
        let head = self.ring.head.load(Ordering::Relaxed);
        let tail = self.ring.tail.load(Ordering::Acquire);
        if tail == head {
            return None;
        }
        Some(match self.disordered(head, tail) {
            0 => self.after_of(head),
            count => self.earliest(head, count),
        })
    }

    /// So many of the oldest entries are looked at: up to the last that comes earlier than one in front of it.
    #[inline(always)]
    fn disordered(&self, head: u32, tail: u32) -> u32 {
        let count = self.ring.disorder.load(Ordering::Relaxed).wrapping_sub(head);
        // Where it was passed, it is not within the ring; by its sign, it would be in front of this one again
        // after 2³¹ entries.
        if count > self.ring.places.len() as u32 { 0 } else { count.min(tail.wrapping_sub(head)) }
    }

    /// [`Own::after`] of an entry that waits.
    #[inline(always)]
    fn after_of(&self, count: u32) -> u32 {
        // SAFETY: the writer filled the place before `tail` passed it, and leaves it alone until `head` does.
        self.ring.place(count).with(|place| unsafe { (*place).assume_init_ref().after })
    }

    #[cold]
    fn earliest(&self, head: u32, count: u32) -> u32 {
        let waiting = (0..count).map(|n| self.after_of(head.wrapping_add(n)));
        let earlier = |one: u32, other: u32| if (other.wrapping_sub(one) as i32) < 0 { other } else { one };
        waiting.reduce(earlier).unwrap_or(0)
    }

    /// Takes the oldest entry.
    #[inline(always)]
    pub(in crate::device) fn pop(&mut self) -> Option<Own> {
        let head = self.ring.head.load(Ordering::Relaxed);
        if self.ring.tail.load(Ordering::Acquire) == head {
            return None;
        }
        // SAFETY: as in `after`; this is the only reader.
        let own = self.ring.place(head).with(|place| unsafe { (*place).assume_init_read() });
        self.ring.head.store(head.wrapping_add(1), Ordering::Release);
        Some(own)
    }
}

/// Gives both ends another ring, a fresh one, with what waits in the old one. Entries that have no room are
/// lost.
pub(in crate::device) fn move_to(writer: &mut Writer, taker: &mut Taker, fresh: (Writer, Taker)) {
    let (mut fresh, left) = fresh;
    while let Some(own) = taker.pop() {
        fresh.push(&own);
    }
    (*writer, *taker) = (fresh, left);
}

/// Takes out what is not to be kept; the rest stays in order.
pub(in crate::device) fn retain(writer: &mut Writer, taker: &mut Taker, keep: impl Fn(&Completion) -> bool) {
    for _ in 0..taker.len() {
        // There is room for what was just taken.
        if let Some(own) = taker.pop().filter(|own| keep(&own.completion)) {
            writer.push(&own);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::protocol::verbs::WcOpcode;

    fn own(wr_id: u64) -> Own {
        let completion = Completion::flushed(wr_id, WcOpcode::Send, wr_id as u32 % 3);
        Own { completion, after: wr_id as u32 }
    }

    fn ids(taker: &mut Taker) -> Vec<u64> {
        std::iter::from_fn(|| taker.pop()).map(|own| own.completion.wr_id).collect()
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let (mut writer, mut taker) = ring(4).unwrap();
        assert_eq!((taker.after(), taker.len(), writer.len()), (None, 0, 0));
        for round in 0..5 {
            for n in 0..6 {
                assert_eq!(writer.push(&own(round * 10 + n)), n < 4);
            }
            assert_eq!((taker.after(), taker.len(), writer.len()), (Some(round as u32 * 10), 4, 4));
            assert_eq!(ids(&mut taker), (0..4).map(|n| round * 10 + n).collect::<Vec<_>>());
            // So that it goes round at another place each time.
            assert!(writer.push(&own(99)) && ids(&mut taker) == [99]);
        }
    }

    #[test]
    fn what_waits_behind_another_and_comes_earlier_takes_that_with_it() {
        let (mut writer, mut taker) = ring(8).unwrap();
        let mut push = |after| assert!(writer.push(&Own { after, ..own(1) }));
        [u32::MAX, 3, 1, 7].into_iter().for_each(&mut push);
        for after in [u32::MAX, 1, 1, 7] {
            assert_eq!(taker.after(), Some(after));
            taker.pop();
        }
        [9, 8].into_iter().for_each(&mut push);
        assert_eq!(taker.after(), Some(8));
    }

    #[test]
    fn no_more_entries_are_looked_at_than_are_out_of_order() {
        let looks = |taker: &Taker| {
            let [head, tail] =
                [&taker.ring.head, &taker.ring.tail].map(|count| count.load(Ordering::Relaxed));
            taker.disordered(head, tail)
        };
        for begin in [0, 7, 1 << 31, (1 << 31) + 1, 3 << 30, u32::MAX - 12] {
            let (mut writer, mut taker) = ring(8).unwrap();
            taker.ring.head.store(begin, Ordering::Relaxed);
            taker.ring.tail.store(begin, Ordering::Relaxed);
            let mut push = |after| assert!(writer.push(&Own { after, ..own(1) }));
            [1, 2, 3].into_iter().for_each(&mut push);
            assert_eq!(looks(&taker), 0, "{begin:#x}");
            [2, 4, 5].into_iter().for_each(&mut push);
            for left in [4, 3, 2, 1, 0, 0] {
                assert_eq!(looks(&taker), left, "{begin:#x}");
                taker.pop();
            }
        }
    }

    #[test]
    fn another_size_and_what_is_taken_out_keep_the_order() {
        let (mut writer, mut taker) = ring(8).unwrap();
        (0..7).for_each(|n| assert!(writer.push(&own(n))));
        assert!(taker.pop().is_some_and(|own| own.completion.wr_id == 0));
        move_to(&mut writer, &mut taker, ring(16).unwrap());
        (7..12).for_each(|n| assert!(writer.push(&own(n))));
        assert_eq!((writer.capacity(), taker.len()), (16, 11));
        retain(&mut writer, &mut taker, |completion| completion.qp_num != 1);
        assert_eq!(ids(&mut taker), [2, 3, 5, 6, 8, 9, 11]);
        (0..16).for_each(|n| assert!(writer.push(&own(n))));
        retain(&mut writer, &mut taker, |_| true);
        assert_eq!(ids(&mut taker), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_that_writes_and_one_that_reads_need_not_wait() {
        const MANY: u64 = if cfg!(miri) { 200 } else { 100_000 };
        let (mut writer, mut taker) = ring(8).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..MANY {
                    while !writer.push(&own(n)) {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..MANY {
                let taken = std::iter::repeat_with(|| taker.pop()).find_map(|taken| {
                    if taken.is_none() {
                        std::thread::yield_now();
                    }
                    taken
                });
                assert_eq!(taken.map(|own| (own.completion.wr_id, own.after)), Some((n, n as u32)));
            }
            assert_eq!(taker.after(), None);
        });
    }
}
