//! Which parts of the own segment are in use.
//!
//! Only the owner allocates, and a segment dies with its owner, so the books are ordinary private memory:
//! nothing here needs repair, and no peer can damage it. Freed ranges are reused, never given back to the
//! kernel: a peer that still looks at one reads stale bytes, but finds memory there.

use std::collections::BTreeMap;

/// Ranges start and end at multiples of this, a cache line.
pub const GRAIN: u64 = 64;

/// The books of one segment.
#[derive(Debug, Default)]
pub struct Allocator {
    /// Free ranges by their offset; neighbours are always merged.
    free: BTreeMap<u64, u64>,
    /// End of what the books cover.
    end: u64,
}

impl Allocator {
    /// Books that cover nothing but a used range of `start` bytes.
    pub fn new(start: u64) -> Self {
        Allocator { free: BTreeMap::new(), end: start.next_multiple_of(GRAIN) }
    }

    /// End of the range the books cover.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Takes `len` bytes at a multiple of `align`, a power of two, from the smallest free range that has them.
    /// The answer has a length of at least `len`, rounded up to [`GRAIN`].
    pub fn take(&mut self, len: u64, align: u64) -> Option<(u64, u64)> {
        let len = len.max(1).checked_next_multiple_of(GRAIN)?;
        let align = align.max(GRAIN);
        let (&at, &size) = self
            .free
            .iter()
            .filter(|&(&at, &size)| size >= len && size - len >= at.next_multiple_of(align) - at)
            .min_by_key(|&(_, &size)| size)?;
        let start = at.next_multiple_of(align);
        self.free.remove(&at);
        if start > at {
            self.free.insert(at, start - at);
        }
        if at + size > start + len {
            self.free.insert(start + len, at + size - (start + len));
        }
        Some((start, len))
    }

    /// How many more bytes at the end would let [`Allocator::take`] succeed; `None` when that number does not
    /// exist.
    pub fn missing(&self, len: u64, align: u64) -> Option<u64> {
        let len = len.max(1).checked_next_multiple_of(GRAIN)?;
        let tail = self.free.last_key_value().filter(|&(&at, &size)| at + size == self.end);
        let start = tail.map_or(self.end, |(&at, _)| at).checked_next_multiple_of(align.max(GRAIN))?;
        start.checked_add(len)?.checked_sub(self.end)
    }

    /// Gives `len` more bytes at the end.
    pub fn extend(&mut self, len: u64) {
        let at = self.end;
        self.end += len;
        self.release(at, len);
    }

    /// Gives back a range exactly as [`Allocator::take`] answered it.
    pub fn release(&mut self, at: u64, len: u64) {
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &size)) = self.free.range(..at).next_back() {
            debug_assert!(before + size <= at, "range freed twice");
            if before + size == at {
                self.free.remove(&before);
                start = before;
            }
        }
        if let Some(&size) = self.free.get(&end) {
            self.free.remove(&end);
            end += size;
        }
        self.free.insert(start, end - start);
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.free.values().sum()
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
            let mut books = Allocator::new(4096);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for op in ops {
                match op {
                    Op::Take(len, align) => {
                        let align = 1u64 << align;
                        let (at, got) = match books.take(len, align) {
                            Some(range) => range,
                            None => {
                                let more = books.missing(len, align).unwrap();
                                prop_assert!(more > 0);
                                books.extend(more.next_multiple_of(4096));
                                books.take(len, align).unwrap()
                            }
                        };
                        prop_assert!(got >= len && at % align == 0 && at % GRAIN == 0 && got % GRAIN == 0);
                        prop_assert!(at >= 4096 && at + got <= books.end());
                        for &(b, l) in &held {
                            prop_assert!(at + got <= b || b + l <= at);
                        }
                        held.push((at, got));
                    }
                    Op::Release(i) if !held.is_empty() => {
                        let (at, len) = held.swap_remove(i % held.len());
                        books.release(at, len);
                    }
                    Op::Release(_) => {}
                }
                let used: u64 = held.iter().map(|h| h.1).sum();
                prop_assert_eq!(books.free_bytes() + used, books.end() - 4096);
            }
            for (at, len) in held.drain(..) {
                books.release(at, len);
            }
            prop_assert!(books.free.len() <= 1);
        }
    }

    #[test]
    fn impossible_sizes() {
        let mut books = Allocator::new(4096);
        books.extend(4096);
        assert_eq!(books.take(u64::MAX, 64), None);
        assert_eq!(books.take(u64::MAX - 100, 64), None);
        assert_eq!(books.missing(u64::MAX, 64), None);
        assert_eq!(books.missing(u64::MAX - 4096, 64), None);
    }
}
