//! User indices of a context and what they stand for: a table of two levels, read by polls without a lock.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::queue::Origin;
use crate::errno::{Errno, Result};

/// A user index has 24 bits, half of them for each level.
const HALF: usize = 12;
const SIZE: usize = 1 << HALF;

type Level<T> = [AtomicPtr<T>; SIZE];

fn level<T>() -> Result<Box<Level<T>>> {
    let mut places = Vec::new();
    places.try_reserve_exact(SIZE).map_err(|_| Errno::ENOMEM.also_set())?;
    places.resize_with(SIZE, || AtomicPtr::new(null_mut()));
    Box::try_from(places.into_boxed_slice()).map_err(|_| Errno::ENOMEM)
}

/// What user indices stand for.
pub struct Origins {
    first: Box<Level<Level<Origin>>>,
}

impl Origins {
    /// An empty table; ENOMEM.
    pub fn new() -> Result<Self> {
        Ok(Self { first: level()? })
    }

    #[inline(always)]
    fn second(&self, uidx: u32) -> Option<&Level<Origin>> {
        let second = self.first[uidx as usize >> HALF & (SIZE - 1)].load(Ordering::Acquire);
        // SAFETY: null, or a level of this table, which goes with it.
        unsafe { second.as_ref() }
    }

    /// What an index stands for; who asks holds the lock of a completion queue, so that it does not go
    /// meanwhile.
    #[inline(always)]
    pub fn get(&self, uidx: u32) -> Option<&Origin> {
        let origin = self.second(uidx)?[uidx as usize & (SIZE - 1)].load(Ordering::Acquire);
        // SAFETY: null, or what `set` was given, which goes when no poll can know it any more.
        unsafe { origin.as_ref() }
    }

    /// Sets what an index stands for; ENOMEM.
    pub fn set(&self, uidx: u32, origin: NonNull<Origin>) -> Result<()> {
        if self.second(uidx).is_none() {
            let fresh = Box::into_raw(level()?);
            let place = &self.first[uidx as usize >> HALF & (SIZE - 1)];
            let set = place.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
            if set.is_err() {
                // SAFETY: another thread was faster; nobody knows this one.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        let second = self.second(uidx).ok_or(Errno::ENOMEM)?;
        second[uidx as usize & (SIZE - 1)].store(origin.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// An index stands for nothing any more.
    pub fn clear(&self, uidx: u32) {
        if let Some(second) = self.second(uidx) {
            second[uidx as usize & (SIZE - 1)].store(null_mut(), Ordering::Release);
        }
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        for place in self.first.iter_mut() {
            let second = *place.get_mut();
            if !second.is_null() {
                // SAFETY: made by `set`, and used by nobody any more.
                drop(unsafe { Box::from_raw(second) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::Source;
    use super::*;

    #[test]
    fn an_index_stands_for_what_was_set_until_it_is_cleared() {
        let origins = Origins::new().expect("memory");
        let mut origin = Origin { tag: 0x700, sends: None, plugins_sends: true, receives: Source::Plugin };
        for uidx in [0, 1, 0xfff, 0x1000, 0x12_3456, 0xff_ffff] {
            assert!(origins.get(uidx).is_none());
            origins.set(uidx, NonNull::from(&mut origin)).expect("memory");
            assert_eq!(origins.get(uidx).map(|origin| origin.tag), Some(0x700));
            origins.clear(uidx);
            assert!(origins.get(uidx).is_none());
        }
    }
}
