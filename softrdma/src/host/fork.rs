//! How a forked child notices that it is another process: a page that the kernel wipes in children.
//!
//! Asking costs one load, where `getpid` is a system call. `vfork` and threads share the page and count as the same
//! process, as they should.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{Error, Result};
use super::sys;

struct Page(*const AtomicU64);
// SAFETY: the page is never unmapped, and is only accessed as an atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

static PAGE: OnceLock<Option<Page>> = OnceLock::new();

fn page() -> Result<&'static AtomicU64> {
    let page = PAGE.get_or_init(|| {
        let len = 4096;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the range is the mapping just made.
        if unsafe { libc::madvise(p, len, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: as above; nobody else knows it.
            unsafe { libc::munmap(p, len) };
            return None;
        }
        Some(Page(p.cast()))
    });
    match page {
        // SAFETY: the mapping lives for ever, is aligned, and its zeroes are a valid AtomicU64.
        Some(page) => Ok(unsafe { &*page.0 }),
        None => Err(Error::Os { call: "madvise", errno: libc::EINVAL }),
    }
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
}
