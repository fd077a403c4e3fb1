//! How a forked child notices that it is another process: a page that the kernel wipes in children.
//!
//! Asking costs one load, where `getpid` is a system call. `vfork` and threads share the page and count as the
//! same process, as they should.
//!
//! Kernels before 4.14 and some sandboxes wipe no pages. There a word of this library serves, which a handler
//! of `pthread_atfork` wipes; a child that was made past the C library's `fork` is not noticed then.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use crate::errno::Errno;
use crate::error::{Error, Result};
use crate::sys;

/// Null until first used. No lock guards its making: a fork could leave it locked in the child.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// In place of the page where the kernel wipes none.
static WORD: AtomicU64 = AtomicU64::new(0);

fn page() -> Result<&'static AtomicU64> {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let made = make_page()?;
        let fresh = match made {
            Some(page) => page,
            None => word_of_handler()?,
        };
        page = match PAGE.compare_exchange(page, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => {
                if made.is_some() {
                    // SAFETY: the mapping was just made, and nobody else knows it.
                    unsafe { libc::munmap(fresh.cast(), PAGE_BYTES) };
                }
                other
            }
        };
    }
    // SAFETY: the mapping and the static live for ever; the mapping is aligned, and its zeroes are a valid
    // AtomicU64.
    Ok(unsafe { &*page })
}

const PAGE_BYTES: usize = 4096;
/// No advice has this number.
const NO_ADVICE: libc::c_int = -1;

/// A page that the kernel wipes in children; None where it does not do that. `errno` is as it was, unless it
/// fails: whoever asks first may be a verb that succeeds.
fn make_page() -> Result<Option<*mut AtomicU64>> {
    let before = Errno::last();
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
    let advise = |advice| unsafe { libc::madvise(p, PAGE_BYTES, advice) } == 0;
    // Some emulators say yes to whatever they do not know.
    let wipes = advise(libc::MADV_WIPEONFORK) && !advise(NO_ADVICE);
    if !wipes {
        // SAFETY: as above; nobody else knows it.
        unsafe { libc::munmap(p, PAGE_BYTES) };
    }
    before.set();
    Ok(wipes.then_some(p.cast()))
}

/// [`WORD`], with its handler. Two threads that come here at once register the handler twice, which does no
/// harm.
fn word_of_handler() -> Result<*mut AtomicU64> {
    extern "C" fn wipe() {
        WORD.store(0, Ordering::Relaxed);
    }
    // SAFETY: the handler stores one word; the library that it is in is never unloaded.
    match unsafe { libc::pthread_atfork(None, None, Some(wipe)) } {
        0 => Ok((&raw const WORD).cast_mut()),
        errno => Err(Error { call: "pthread_atfork", errno }),
    }
}

/// A number that differs between a process and its forked children, never zero.
///
/// # Errors
/// The process has no memory left.
#[inline]
pub fn token() -> Result<u64> {
    // SAFETY: as in [`same_process`].
    let known = unsafe { PAGE.load(Ordering::Acquire).as_ref() }.map(|word| word.load(Ordering::Relaxed));
    match known {
        Some(token) if token != 0 => Ok(token),
        _ => made_token(),
    }
}

#[cold]
fn made_token() -> Result<u64> {
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
#[inline]
pub fn same_process(token: u64) -> bool {
    // SAFETY: null, or a page or static that lives for ever; the page is aligned, and its zeroes are a valid
    // AtomicU64.
    let word = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
    word.is_some_and(|word| word.load(Ordering::Relaxed) == token)
}

/// A mutex for statics that a forked child can use whatever the parent's threads were doing: a holder with
/// another token was left behind by the fork, and what it may have left half changed is replaced by an empty
/// value.
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
    /// The process has no memory left.
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

    /// The same, but not for ever: the holder may be code that a signal interrupted, whose handler ends the
    /// process.
    pub fn lock_in_time(&self) -> Option<ProcessGuard<'_, T>> {
        in_time(|| self.try_lock())
    }

    /// The same where it need not wait.
    #[inline]
    pub fn try_lock(&self) -> Option<ProcessGuard<'_, T>> {
        self.take(token().ok()?).then(|| ProcessGuard(self))
    }

    #[inline]
    fn take(&self, token: u64) -> bool {
        match self.holder.compare_exchange(0, token, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(seen) => self.take_from(seen, token),
        }
    }

    #[cold]
    fn take_from(&self, seen: u64, token: u64) -> bool {
        if seen == token
            || self.holder.compare_exchange(seen, token, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        // SAFETY: the holder is a thread of the parent, which does not exist here, so nobody else reaches the
        // value. The old one is not dropped: it may be half changed.
        unsafe { self.value.get().write(T::default()) };
        true
    }
}

/// What `look` answers, asked again for a moment: for the end of a process, where what it waits for may be held
/// by code that the very same thread was interrupted in.
pub fn in_time<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    // Not by a clock: on a busy machine, where naps take longer, others get as much more time.
    for _ in 0..NAPS {
        let found = look();
        if found.is_some() {
            return found;
        }
        std::thread::sleep(NAP);
    }
    look()
}

/// How often the end of a process looks again.
const NAPS: u32 = 600;
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
    use ironverbs_os_testing::in_child;

    use super::*;

    /// Makes `madvise` answer EINVAL from now on, as a kernel before 4.14 or a sandbox does, or pretend to have
    /// done what it has not, as old emulators do.
    fn refuse_advice(pretend: bool) {
        let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
        let mut filter = [
            // The number of the call stands at the start of the data.
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
            libc::sock_filter {
                code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
                jt: 1,
                jf: 0,
                k: libc::SYS_madvise as u32,
            },
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
            statement(
                libc::BPF_RET | libc::BPF_K,
                libc::SECCOMP_RET_ERRNO | if pretend { 0 } else { libc::EINVAL as u32 },
            ),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the filter is read during the call; the process gives up rights and nothing else.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    #[test]
    fn a_page_is_made_and_errno_is_as_it_was() {
        Errno(libc::EBUSY).set();
        let page = make_page().unwrap().expect("the kernel wipes pages");
        assert_eq!(Errno::last(), Errno(libc::EBUSY));
        // SAFETY: it was just made, and nobody else knows it.
        assert_eq!(unsafe { libc::munmap(page.cast(), PAGE_BYTES) }, 0);
    }

    #[test]
    fn without_pages_that_the_kernel_wipes() {
        static HELD: ProcessMutex<Vec<u32>> = ProcessMutex::new(Vec::new());
        for pretend in [false, true] {
            // A process of its own, which has no page yet.
            let status = in_child(|| {
                refuse_advice(pretend);
                PAGE.store(std::ptr::null_mut(), Ordering::Relaxed);
                let Ok(mine) = token() else { return false };
                HELD.lock().unwrap().push(1);
                let guard = HELD.lock().unwrap();
                let child = in_child(|| {
                    let fresh = token().unwrap();
                    fresh != mine
                        && !same_process(mine)
                        && HELD.lock().is_ok_and(|g| g.is_empty())
                        // And its child.
                        && in_child(|| {
                            !same_process(fresh) && token().is_ok_and(|t| t != fresh && t != mine)
                        }) == 0
                        && same_process(fresh)
                });
                drop(guard);
                child == 0 && same_process(mine) && token() == Ok(mine) && *HELD.lock().unwrap() == [1]
            });
            assert_eq!(status, 0, "pretends: {pretend}");
        }
    }

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
