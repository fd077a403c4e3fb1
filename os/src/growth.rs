//! Growth that may fail: what collections of the standard library do when they grow, for who must answer
//! `ENOMEM` where there is no memory, and not end the process.
//!
//! Nothing has changed where one of these fails. Methods of the standard library that grow without being able
//! to fail are errors of the lints (`clippy.toml`) in this crate, in the software engine, and where verbs are
//! served.
//!
//! Two things are no growth. Strings, paths and what the standard library allocates itself are small and gone
//! when a call ends; the library that programs load has memory for them. The same memory serves [`small_box`]
//! and [`small_arc`], whose size is known when the crate is compiled.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, TryReserveError, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};

/// The largest allocation, in bytes, that is served where the C library has no memory. The locks of the model
/// checker are larger.
pub const SMALL: usize = if cfg!(loom) { 8192 } else { 4096 };

/// The two counts that stand before the value of an `Arc`.
const COUNTS: usize = 2 * size_of::<usize>();

/// Sequences.
pub trait TryPush<T> {
    /// Adds an element at the end.
    fn try_push(&mut self, value: T) -> Result<(), TryReserveError>;

    /// Adds an element for which room was reserved. Without room, which is a defect, it is dropped.
    fn push_reserved(&mut self, value: T);

    /// Adds elements at the end, all or none.
    fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), TryReserveError>;
}

macro_rules! sequences {
    ($($list:ident: $push:ident),*) => { $(
        #[expect(clippy::disallowed_methods, reason = "room was reserved")]
        impl<T> TryPush<T> for $list<T> {
            #[inline]
            fn try_push(&mut self, value: T) -> Result<(), TryReserveError> {
                self.try_reserve(1)?;
                self.$push(value);
                Ok(())
            }

            #[inline]
            fn push_reserved(&mut self, value: T) {
                debug_assert!(self.len() < self.capacity(), "no room was reserved");
                if self.len() < self.capacity() {
                    self.$push(value);
                }
            }

            fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), TryReserveError> {
                let (values, before) = (values.into_iter(), self.len());
                self.try_reserve(values.size_hint().0)?;
                for value in values {
                    self.try_push(value).inspect_err(|_| self.truncate(before))?;
                }
                Ok(())
            }
        }
    )* };
}
sequences!(Vec: push, VecDeque: push_back);

/// Lists whose places are filled up.
pub trait TryFill<T> {
    /// Makes the list at least so long, with what `make` gives.
    fn try_fill(&mut self, len: usize, make: impl FnMut() -> T) -> Result<(), TryReserveError>;

    /// Adds copies of these at the end.
    fn try_append(&mut self, values: &[T]) -> Result<(), TryReserveError>
    where
        T: Copy;

    /// As [`TryFill::try_fill`], within room that was reserved. Without room, which is a defect, the list stays
    /// as it is.
    fn fill_reserved(&mut self, len: usize, make: impl FnMut() -> T);

    /// Puts an element before the one at `at`, within room that was reserved. Without room, which is a defect,
    /// it is dropped.
    fn insert_reserved(&mut self, at: usize, value: T);
}

#[expect(clippy::disallowed_methods, reason = "room was reserved")]
impl<T> TryFill<T> for Vec<T> {
    fn try_fill(&mut self, len: usize, make: impl FnMut() -> T) -> Result<(), TryReserveError> {
        self.try_reserve(len.saturating_sub(self.len()))?;
        self.fill_reserved(len, make);
        Ok(())
    }

    #[inline]
    fn try_append(&mut self, values: &[T]) -> Result<(), TryReserveError>
    where
        T: Copy,
    {
        self.try_reserve(values.len())?;
        self.extend_from_slice(values);
        Ok(())
    }

    fn fill_reserved(&mut self, len: usize, make: impl FnMut() -> T) {
        debug_assert!(len <= self.capacity(), "no room was reserved");
        if len > self.len() && len <= self.capacity() {
            self.resize_with(len, make);
        }
    }

    fn insert_reserved(&mut self, at: usize, value: T) {
        debug_assert!(self.len() < self.capacity(), "no room was reserved");
        if self.len() < self.capacity() {
            self.insert(at, value);
        }
    }
}

/// Tables.
pub trait TryInsert<K, V> {
    /// Sets the value of a key; the one that it had.
    fn try_set(&mut self, key: K, value: V) -> Result<Option<V>, TryReserveError>;

    /// A key's place, with room for it.
    fn try_entry(&mut self, key: K) -> Result<Entry<'_, K, V>, TryReserveError>;

    /// Sets the value of a key for which room was reserved. Without room, which is a defect, nothing is set.
    fn set_reserved(&mut self, key: K, value: V);
}

#[expect(clippy::disallowed_methods, reason = "room was reserved")]
impl<K: Eq + Hash, V, S: BuildHasher> TryInsert<K, V> for HashMap<K, V, S> {
    fn try_set(&mut self, key: K, value: V) -> Result<Option<V>, TryReserveError> {
        self.try_reserve(1)?;
        Ok(self.insert(key, value))
    }

    fn try_entry(&mut self, key: K) -> Result<Entry<'_, K, V>, TryReserveError> {
        self.try_reserve(1)?;
        Ok(self.entry(key))
    }

    fn set_reserved(&mut self, key: K, value: V) {
        if let Some(place) = self.get_mut(&key) {
            *place = value;
            return;
        }
        debug_assert!(self.len() < self.capacity(), "no room was reserved");
        if self.len() < self.capacity() {
            self.insert(key, value);
        }
    }
}

/// Sets.
pub trait TryAdd<T> {
    /// Adds a value; whether it was not there.
    fn try_add(&mut self, value: T) -> Result<bool, TryReserveError>;
}

#[expect(clippy::disallowed_methods, reason = "room was reserved")]
impl<T: Eq + Hash, S: BuildHasher> TryAdd<T> for HashSet<T, S> {
    fn try_add(&mut self, value: T) -> Result<bool, TryReserveError> {
        self.try_reserve(1)?;
        Ok(self.insert(value))
    }
}

/// What the iterator gives, in a list.
pub fn try_collect<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>, TryReserveError> {
    let mut list = Vec::new();
    list.try_extend(values)?;
    Ok(list)
}

/// An empty list with room for exactly so many.
pub fn try_room<T>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut list = Vec::new();
    list.try_reserve_exact(count)?;
    Ok(list)
}

/// A slice of so many.
pub fn try_filled<T>(count: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut list = try_room(count)?;
    list.fill_reserved(count, make);
    // Room for exactly so many is not made smaller.
    Ok(list.into_boxed_slice())
}

/// A value in memory of its own.
pub fn try_box<T>(value: T) -> Result<Box<T>, TryReserveError> {
    let mut list = try_room(1)?;
    list.push_reserved(value);
    let slice = Box::into_raw(list.into_boxed_slice());
    // SAFETY: a slice of one value has the layout of that value, and nobody else has the box.
    Ok(unsafe { Box::from_raw(slice.cast::<T>()) })
}

/// A shared value. The standard library makes none that may fail: it is looked first whether there is memory
/// for it.
pub fn try_arc<T>(value: T) -> Result<Arc<T>, TryReserveError> {
    probe::<T>()?;
    Ok(small_arc(value))
}

/// A shared value that knows itself ([`Arc::new_cyclic`]), as [`try_arc`].
#[expect(clippy::disallowed_methods, reason = "small, and it was looked whether there is memory")]
pub fn try_arc_cyclic<T>(make: impl FnOnce(&Weak<T>) -> T) -> Result<Arc<T>, TryReserveError> {
    const { assert!(size_of::<T>() + COUNTS <= SMALL) }
    probe::<T>()?;
    Ok(Arc::new_cyclic(make))
}

fn probe<T>() -> Result<(), TryReserveError> {
    let memory = try_room::<u64>((size_of::<T>() + COUNTS).div_ceil(size_of::<u64>()))?;
    // Otherwise the compiler leaves it out.
    std::hint::black_box(&memory);
    Ok(())
}

/// A box of a size for which there is memory.
#[expect(clippy::disallowed_methods, reason = "small")]
pub fn small_box<T>(value: T) -> Box<T> {
    const { assert!(size_of::<T>() <= SMALL) }
    Box::new(value)
}

/// A shared value of a size for which there is memory.
#[expect(clippy::disallowed_methods, reason = "small")]
pub fn small_arc<T>(value: T) -> Arc<T> {
    const { assert!(size_of::<T>() + COUNTS <= SMALL) }
    Arc::new(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_changes_nothing() {
        let mut list = vec![1u64, 2];
        let endless = std::iter::repeat(0u64);
        // More than there can be, by the iterator's own word.
        assert!(list.try_extend(endless.take(usize::MAX >> 4)).is_err());
        assert!(list.try_fill(usize::MAX >> 4, || 0).is_err());
        assert_eq!(list, [1, 2]);
        let mut deque = VecDeque::from([1u64, 2]);
        assert!(deque.try_extend(std::iter::repeat_n(0, usize::MAX >> 4)).is_err());
        assert_eq!(deque, [1, 2]);
        assert!(try_room::<u64>(usize::MAX >> 4).is_err() && try_filled(usize::MAX >> 4, || 0u64).is_err());
        assert!(try_collect(std::iter::repeat_n(0u64, usize::MAX >> 4)).is_err());
    }

    #[test]
    fn what_finds_room_is_what_the_standard_library_does() {
        let mut list = try_room(3).unwrap();
        list.push_reserved(1);
        list.try_push(2).unwrap();
        list.try_extend([3]).unwrap();
        list.try_append(&[4]).unwrap();
        list.try_fill(6, || 5).unwrap();
        list.try_fill(2, || 6).unwrap();
        assert_eq!(list, [1, 2, 3, 4, 5, 5]);
        assert_eq!(try_collect((0..9).filter(|n| n % 3 == 0)).unwrap(), [0, 3, 6]);
        let mut table = HashMap::new();
        assert_eq!((table.try_set(1, 2), table.try_set(1, 3)), (Ok(None), Ok(Some(2))));
        *table.try_entry(4).unwrap().or_insert(0) += 1;
        table.set_reserved(1, 7);
        assert_eq!((table[&1], table[&4]), (7, 1));
        let mut set = HashSet::new();
        assert_eq!((set.try_add(1), set.try_add(1)), (Ok(true), Ok(false)));
    }

    #[test]
    fn values_are_dropped_once() {
        let counted = Arc::new(());
        let boxed = try_box(counted.clone()).unwrap();
        let shared = try_arc(counted.clone()).unwrap();
        let cyclic = try_arc_cyclic(|_| counted.clone()).unwrap();
        assert_eq!(Arc::strong_count(&counted), 4);
        drop((boxed, shared, cyclic));
        assert_eq!(Arc::strong_count(&counted), 1);
        // What takes no memory.
        assert_eq!(*try_box(()).unwrap(), ());
    }
}
