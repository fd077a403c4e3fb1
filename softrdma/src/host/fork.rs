//! How a forked child notices that it is another process: a page that the kernel wipes in children.
//!
//! Asking costs one load, where `getpid` is a system call. `vfork` and threads share the page and count as the same
//! process, as they should.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use super::error::{Error, Result};
use super::sys;

/// Null until first used. No lock guards its making: a fork could leave it locked in the child.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

fn page() -> Result<&'static AtomicU64> {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let fresh = make_page()?;
        page = match PAGE.compare_exchange(page, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: the mapping was just made, and nobody else knows it.
                unsafe { libc::munmap(fresh.cast(), PAGE_BYTES) };
                other
            }
        };
    }
    // SAFETY: the mapping lives for ever, is aligned, and its zeroes are a valid AtomicU64.
    Ok(unsafe { &*page })
}

const PAGE_BYTES: usize = 4096;

fn make_page() -> Result<*mut AtomicU64> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let p = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        return Err(Error::last("mmap"));
    }
    // SAFETY: the range is the mapping just made.
    if unsafe { libc::madvise(p, PAGE_BYTES, libc::MADV_WIPEONFORK) } != 0 {
        let e = Error::last("madvise");
        // SAFETY: as above; nobody else knows it.
        unsafe { libc::munmap(p, PAGE_BYTES) };
        return Err(e);
    }
    Ok(p.cast())
}

/// A number that differs between a process and its forked children, never zero.
pub(crate) fn token() -> Result<u64> {
    let word = page()?;
    let seen = word.load(Ordering::Relaxed);
    if seen != 0 {
        return Ok(seen);
    }
    let fresh = sys::random()? | 1;
    Ok(match word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => fresh,
        Err(other) => other,
    })
}

/// Whether this is still the process that got `token`.
pub(crate) fn same_process(token: u64) -> bool {
    page().is_ok_and(|word| word.load(Ordering::Relaxed) == token)
}

/// A mutex for statics that a forked child can use whatever the parent's threads were doing: a holder with another
/// token was left behind by the fork, and what it may have left half changed is replaced by an empty value.
#[derive(Debug)]
pub struct ProcessMutex<T> {
    holder: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for ProcessMutex<T> {}

impl<T: Default> ProcessMutex<T> {
    /// A mutex around a value.
    pub const fn new(value: T) -> Self {
        ProcessMutex { holder: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for the other threads of this process. For rare work: waiting looks again and again.
    ///
    /// # Errors
    /// The process has no memory left, or the kernel wipes no pages at a fork (before 4.14).
    pub fn lock(&self) -> Result<ProcessGuard<'_, T>> {
        let token = token()?;
        for looked in 0u32.. {
            if self.take(token) {
                break;
            }
            if looked < SPINS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
        Ok(ProcessGuard(self))
    }

    /// The same where it need not wait.
    pub fn try_lock(&self) -> Option<ProcessGuard<'_, T>> {
        self.take(token().ok()?).then(|| ProcessGuard(self))
    }

    fn take(&self, token: u64) -> bool {
        let Err(seen) = self.holder.compare_exchange(0, token, Ordering::Acquire, Ordering::Relaxed) else {
            return true;
        };
        if seen == token
            || self.holder.compare_exchange(seen, token, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        // SAFETY: the holder is a thread of the parent, which does not exist here, so nobody else reaches the value. The old
        // one is not dropped: it may be half changed.
        unsafe { self.value.get().write(T::default()) };
        true
    }
}

/// How often a waiter gives way before it sleeps.
const SPINS: u32 = 100;
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(100);

/// Holds a [`ProcessMutex`].
#[derive(Debug)]
pub struct ProcessGuard<'a, T>(&'a ProcessMutex<T>);

impl<T> Deref for ProcessGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard excludes all others.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for ProcessGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard excludes all others.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for ProcessGuard<'_, T> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::in_child;
    use super::*;

    #[test]
    fn child_is_another_process() {
        let mine = token().unwrap();
        assert_eq!(token().unwrap(), mine);
        assert!(same_process(mine));
        let status = in_child(|| !same_process(mine) && token().is_ok_and(|t| t != mine && t != 0));
        assert_eq!(status, 0);
        assert!(same_process(mine));
    }

    #[test]
    fn a_mutex_that_another_thread_held_at_the_fork() {
        static HELD: ProcessMutex<Vec<u32>> = ProcessMutex::new(Vec::new());
        let mut guard = HELD.lock().unwrap();
        guard.push(1);
        // The child has no thread that would unlock.
        let status = in_child(|| HELD.lock().is_ok_and(|g| g.is_empty()) && HELD.lock().is_ok());
        assert_eq!(status, 0);
        assert!(HELD.try_lock().is_none());
        assert_eq!(in_child(|| HELD.try_lock().is_some_and(|g| g.is_empty())), 0);
        drop(guard);
        let status = in_child(|| HELD.lock().is_ok_and(|g| *g == [1]));
        assert_eq!(status, 0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|n| HELD.lock().unwrap().push(n)));
            }
        });
        assert_eq!(HELD.lock().unwrap().len(), 4001);
    }
}
