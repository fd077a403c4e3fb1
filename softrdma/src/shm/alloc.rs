//! Which parts of the own segment are in use.
//!
//! Only the owner allocates, and a segment dies with its owner, so its lists are ordinary private memory:
//! nothing here needs repair, and no peer can damage it. Freed ranges are reused, never given back to the
//! kernel: a peer that still looks at one reads stale bytes, but finds memory there.

use std::collections::TryReserveError;

use ironverbs_os::growth::TryFill;

/// Ranges start and end at multiples of this, a cache line.
pub const GRAIN: u64 = 64;

/// The free ranges of one segment.
#[derive(Debug, Default)]
pub struct Allocator {
    /// Free ranges, offset and length, in order; neighbours are always merged. There is room for one more than
    /// there are ranges in use, which is the most that they can be: giving back needs no memory.
    free: Vec<(u64, u64)>,
    /// Ranges in use.
    used: usize,
    /// End of what it covers.
    end: u64,
}

impl Allocator {
    /// One that covers nothing but a used range of `start` bytes.
    pub fn new(start: u64) -> Self {
        Allocator { free: Vec::new(), used: 0, end: start.next_multiple_of(GRAIN) }
    }

    /// Memory for one more range in use, to be had before [`Allocator::take`] and
    /// [`Allocator::extend`].
    pub fn make_room(&mut self) -> Result<(), TryReserveError> {
        // A range that is taken out of the middle of a free one leaves two.
        self.free.try_reserve((self.used + 2).saturating_sub(self.free.len()))
    }

    /// End of the range that it covers.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Takes `len` bytes at a multiple of `align`, a power of two, from the smallest free range that has them.
    /// The answer has a length of at least `len`, rounded up to [`GRAIN`].
    pub fn take(&mut self, len: u64, align: u64) -> Option<(u64, u64)> {
        let len = len.max(1).checked_next_multiple_of(GRAIN)?;
        let align = align.max(GRAIN);
        let (place, (at, size)) = self
            .free
            .iter()
            .copied()
            .enumerate()
            .filter(|&(_, (at, size))| size >= len && size - len >= at.next_multiple_of(align) - at)
            .min_by_key(|&(_, (_, size))| size)?;
        let start = at.next_multiple_of(align);
        let before = (start > at).then_some((at, start - at));
        let behind = (at + size > start + len).then_some((start + len, at + size - (start + len)));
        match (before, behind) {
            (Some(before), Some(behind)) => {
                self.free[place] = before;
                self.free.insert_reserved(place + 1, behind);
            }
            (Some(rest), None) | (None, Some(rest)) => self.free[place] = rest,
            (None, None) => drop(self.free.remove(place)),
        }
        self.used += 1;
        Some((start, len))
    }

    /// How many more bytes at the end would let [`Allocator::take`] succeed; `None` when that number does not
    /// exist.
    pub fn missing(&self, len: u64, align: u64) -> Option<u64> {
        let len = len.max(1).checked_next_multiple_of(GRAIN)?;
        let tail = self.free.last().filter(|&&(at, size)| at + size == self.end);
        let start = tail.map_or(self.end, |&(at, _)| at).checked_next_multiple_of(align.max(GRAIN))?;
        start.checked_add(len)?.checked_sub(self.end)
    }

    /// Gives `len` more bytes at the end.
    pub fn extend(&mut self, len: u64) {
        let at = self.end;
        self.end += len;
        self.add(at, len);
    }

    /// Gives back a range exactly as [`Allocator::take`] answered it.
    pub fn release(&mut self, at: u64, len: u64) {
        self.used = self.used.saturating_sub(1);
        self.add(at, len);
    }

    fn add(&mut self, at: u64, len: u64) {
        let place = self.free.partition_point(|&(start, _)| start < at);
        let before = place.checked_sub(1).filter(|&before| {
            let (start, size) = self.free[before];
            debug_assert!(start + size <= at, "range freed twice");
            start + size == at
        });
        let behind = self.free.get(place).filter(|&&(start, _)| start == at + len).map(|&(_, size)| size);
        match (before, behind) {
            (Some(before), Some(size)) => {
                self.free[before].1 += len + size;
                self.free.remove(place);
            }
            (Some(before), None) => self.free[before].1 += len,
            (None, Some(size)) => self.free[place] = (at, len + size),
            (None, None) => self.free.insert_reserved(place, (at, len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        Take(u64, u32),
        Release(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0u64..20_000, 0u32..14).prop_map(|(l, a)| Op::Take(l, a)),
            any::<usize>().prop_map(Op::Release)
        ]
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_all_comes_back(ops in proptest::collection::vec(op(), 1..200)) {
            let mut allocator = Allocator::new(4096);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for op in ops {
                match op {
                    Op::Take(len, align) => {
                        let align = 1u64 << align;
                        allocator.make_room().unwrap();
                        let (at, got) = match allocator.take(len, align) {
                            Some(range) => range,
                            None => {
                                let more = allocator.missing(len, align).unwrap();
                                prop_assert!(more > 0);
                                allocator.extend(more.next_multiple_of(4096));
                                allocator.take(len, align).unwrap()
                            }
                        };
                        prop_assert!(got >= len && at % align == 0 && at % GRAIN == 0 && got % GRAIN == 0);
                        prop_assert!(at >= 4096 && at + got <= allocator.end());
                        for &(b, l) in &held {
                            prop_assert!(at + got <= b || b + l <= at);
                        }
                        held.push((at, got));
                    }
                    Op::Release(i) if !held.is_empty() => {
                        let (at, len) = held.swap_remove(i % held.len());
                        allocator.release(at, len);
                    }
                    Op::Release(_) => {}
                }
                let used: u64 = held.iter().map(|h| h.1).sum();
                let free: u64 = allocator.free.iter().map(|&(_, size)| size).sum();
                prop_assert_eq!(free + used, allocator.end() - 4096);
            }
            for (at, len) in held.drain(..) {
                allocator.release(at, len);
            }
            prop_assert!(allocator.free.len() <= 1);
        }
    }

    #[test]
    fn impossible_sizes() {
        let mut allocator = Allocator::new(4096);
        allocator.make_room().unwrap();
        allocator.extend(4096);
        assert_eq!(allocator.take(u64::MAX, 64), None);
        assert_eq!(allocator.take(u64::MAX - 100, 64), None);
        assert_eq!(allocator.missing(u64::MAX, 64), None);
        assert_eq!(allocator.missing(u64::MAX - 4096, 64), None);
    }
}
