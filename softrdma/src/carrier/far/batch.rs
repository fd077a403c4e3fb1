//! A few values one after the other, in place.

use std::fmt;
use std::mem::MaybeUninit;

/// Up to `N` values. An empty one is made without writing to its memory: most bursts are one packet or two, and
/// places for those of the longest are some KiB.
pub(crate) struct Batch<T: Copy, const N: usize> {
    all: [MaybeUninit<T>; N],
    /// So many of them, the first, are there.
    count: usize,
}

impl<T: Copy, const N: usize> Batch<T, N> {
    /// An empty one.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self { all: [const { MaybeUninit::uninit() }; N], count: 0 }
    }

    /// Adds a value, if there is room.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        if let Some(place) = self.all.get_mut(self.count) {
            place.write(value);
            self.count += 1;
        }
    }

    /// Leaves so many, the first of them.
    #[inline(always)]
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// The values.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[T] {
        let there = &self.all[..self.count];
        // SAFETY: the first `count` were written, by `push` alone, and a place has the layout of its value.
        unsafe { std::slice::from_raw_parts(there.as_ptr().cast(), there.len()) }
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        let there = &mut self.all[..self.count];
        // SAFETY: as in `all`, and they are borrowed for as long as the answer.
        unsafe { std::slice::from_raw_parts_mut(there.as_mut_ptr().cast(), there.len()) }
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for Batch<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_what_was_added_and_no_more_than_there_is_room_for() {
        let mut batch = Batch::<u64, 3>::new();
        assert_eq!(batch.all(), []);
        (1..=4).for_each(|n| batch.push(n));
        assert_eq!(batch.all(), [1, 2, 3]);
        batch.all_mut()[0] = 7;
        batch.truncate(5);
        assert_eq!(batch.all(), [7, 2, 3]);
        batch.truncate(1);
        batch.push(9);
        assert_eq!(format!("{batch:?}"), "[7, 9]");
        batch.truncate(0);
        assert_eq!(batch.all(), []);
    }
}
