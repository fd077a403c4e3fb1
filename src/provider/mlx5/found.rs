//! From the C object of libmlx5's, which programs hold, to ours beside it.
//!
//! libmlx5 allocates the C objects, and none of their fields is free, so what the data path keeps is found by
//! the object's address, in one table of the process. A look-up is a load where nothing else hashes to the
//! same place.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::Mutex;

/// Places in the table, a power of two.
const PLACES: usize = 1 << 16;
/// So many are used at most, so that every search soon ends at an empty place.
const MOST: usize = PLACES / 2;
/// The key of a place whose object is gone: no object lies there.
const GONE: usize = 1;

#[repr(C)]
struct Place {
    /// The C object's address; 0 where nothing ever was.
    key: AtomicUsize,
    value: AtomicPtr<()>,
}

/// [`PLACES`] places once the first object was added. Never freed.
static TABLE: AtomicPtr<Place> = AtomicPtr::new(null_mut());
/// Guards changes; how many places are not empty.
static USED: Mutex<usize> = Mutex::new(0);

#[inline(always)]
fn first(key: usize) -> usize {
    // Objects lie at least 16 bytes apart. The upper bits of the product depend on all of the address.
    ((key >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize)) >> (usize::BITS - 16)
}

/// The place number `index` of a table that is there.
#[inline(always)]
fn place(table: NonNull<Place>, index: usize) -> &'static Place {
    // SAFETY: the index is cut to the table, which is never freed.
    unsafe { table.add(index & (PLACES - 1)).as_ref() }
}

/// What was added for the object at this address.
#[inline(always)]
pub fn get<T>(object: *const T) -> Option<NonNull<()>> {
    let table = NonNull::new(TABLE.load(Ordering::Acquire))?;
    let mut index = first(object.addr());
    loop {
        let here = place(table, index);
        let key = here.key.load(Ordering::Acquire);
        if key == object.addr() {
            return NonNull::new(here.value.load(Ordering::Relaxed));
        }
        if key == 0 {
            return None;
        }
        index += 1;
    }
}

/// Adds a value for the object at this address, in place of what a program has left there when it closed a
/// device without destroying what it had made; false where the table is full.
pub fn add<T>(object: *const T, value: NonNull<()>) -> bool {
    let mut used = USED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let table = match NonNull::new(TABLE.load(Ordering::Relaxed)) {
        Some(table) => table,
        None => {
            let Ok(layout) = Layout::array::<Place>(PLACES) else { return false };
            // SAFETY: the layout is not empty; zeros are empty places.
            let Some(table) = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }) else { return false };
            TABLE.store(table.as_ptr().cast(), Ordering::Release);
            table.cast()
        }
    };
    let mut index = first(object.addr());
    let mut free = None;
    loop {
        let here = place(table, index);
        match here.key.load(Ordering::Relaxed) {
            key if key == object.addr() => {
                here.value.store(value.as_ptr(), Ordering::Release);
                return true;
            }
            GONE => free = free.or(Some(here)),
            0 => {
                let fresh = free.is_none();
                if fresh && *used == MOST {
                    return false;
                }
                *used += usize::from(fresh);
                let here = free.unwrap_or(here);
                // The value first: who finds the key reads it.
                here.value.store(value.as_ptr(), Ordering::Relaxed);
                here.key.store(object.addr(), Ordering::Release);
                return true;
            }
            _ => {}
        }
        index += 1;
    }
}

/// Takes away what was added for the object at this address, which nobody uses any more.
pub fn remove<T>(object: *const T) -> Option<NonNull<()>> {
    let _changing = USED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let table = NonNull::new(TABLE.load(Ordering::Relaxed))?;
    let mut index = first(object.addr());
    loop {
        let here = place(table, index);
        match here.key.load(Ordering::Relaxed) {
            0 => return None,
            key if key == object.addr() => {
                let value = NonNull::new(here.value.load(Ordering::Relaxed));
                here.key.store(GONE, Ordering::Release);
                return value;
            }
            _ => index += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_until_it_is_removed() {
        let objects: Vec<u128> = vec![0; 3000];
        let value = |at: usize| NonNull::new(core::ptr::without_provenance_mut(at + 7)).expect("not null");
        for round in 0..3 {
            for (at, object) in objects.iter().enumerate() {
                assert_eq!(get(object), None, "round {round}");
                assert!(add(object, value(at)));
            }
            for (at, object) in objects.iter().enumerate() {
                assert_eq!(get(object), Some(value(at)));
                // Every other one goes first, so that searches pass places that are empty again.
                if at % 2 == 0 {
                    assert_eq!(remove(object), Some(value(at)));
                }
            }
            for (at, object) in objects.iter().enumerate() {
                assert_eq!(get(object), (at % 2 == 1).then(|| value(at)));
                assert_eq!(remove(object), (at % 2 == 1).then(|| value(at)));
            }
        }
        assert_eq!(remove(&objects[0]), None);
        assert!(add(&objects[0], value(1)) && add(&objects[0], value(2)));
        assert_eq!((remove(&objects[0]), get(&objects[0])), (Some(value(2)), None));
    }
}
