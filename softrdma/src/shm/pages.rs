//! Whether memory of this process is there, every page of it: what a kernel finds out when it pins the pages of
//! a region (`ib_umem_get`).
//!
//! The kernel is asked to bring the pages in as an access would (`madvise`, `MADV_POPULATE_READ` and
//! `MADV_POPULATE_WRITE`), which answers what no access would survive: ranges that are not mapped, not with the
//! right that is needed, or behind the end of a file. As with pinned pages, memory that nobody has touched yet
//! is allocated. Kernels before 5.14 do not know this advice. There a futex operation per page does: it reads
//! the word, or adds 0 to it, wakes nobody, and answers a bad address with an error.

use std::sync::atomic::{AtomicU8, Ordering};

use super::error::errno;

const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Why memory cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The range goes round the end of the address space, or has more pages than a kernel pins at once.
    Range,
    /// A page is not mapped, or not with the right that is needed.
    Fault,
    /// The system has no memory for it.
    NoMemory,
}

/// Looks at all pages that `length` bytes at `addr` touch: whether they can be read or, with `write`, written.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn check(addr: u64, length: u64, write: bool) -> Result<(), Missing> {
    check_by(advice(), addr, length, write)
}

/// As [`check`], by this process's own access, also where pages are no memory that the kernel could bring in:
/// frames of a device.
///
/// # Errors
/// As those of [`check`].
pub fn check_own(addr: u64, length: u64, write: bool) -> Result<(), Missing> {
    check_by(Way::Futex, addr, length, write)
}

/// How the kernel is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Advice,
    Futex,
}

/// What this kernel knows.
fn advice() -> Way {
    // Several threads may ask at a time and learn the same: a lock could stay locked in a forked child.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    const ADVICE: u8 = 1;
    const FUTEX: u8 = 2;
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        let here = 0u64;
        let page = std::ptr::from_ref(&here) as u64 & !(page_size() - 1);
        known = if populate(page, page_size(), MADV_POPULATE_READ) == 0 { ADVICE } else { FUTEX };
        KNOWN.store(known, Ordering::Relaxed);
    }
    if known == ADVICE { Way::Advice } else { Way::Futex }
}

fn check_by(way: Way, addr: u64, length: u64, write: bool) -> Result<(), Missing> {
    let page = page_size();
    let first = addr & !(page - 1);
    let end = addr.checked_add(length).and_then(|end| end.checked_next_multiple_of(page));
    let bytes = end.ok_or(Missing::Range)? - first;
    if bytes / page > u64::from(u32::MAX) {
        return Err(Missing::Range);
    }
    if bytes == 0 {
        return Ok(());
    }
    match way {
        Way::Advice => loop {
            match populate(first, bytes, if write { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ }) {
                0 => return Ok(()),
                libc::EINTR | libc::EAGAIN => {}
                libc::ENOMEM if is_mapped(first, bytes) => return Err(Missing::NoMemory),
                _ => return Err(Missing::Fault),
            }
        },
        Way::Futex => {
            let mut pages = (first..first + bytes).step_by(page as usize);
            if pages.all(|page| touch(page, write)) { Ok(()) } else { Err(Missing::Fault) }
        }
    }
}

/// Brings pages in as an access would; the `errno` value, or 0.
fn populate(first: u64, bytes: u64, advice: libc::c_int) -> i32 {
    let range = std::ptr::without_provenance_mut(first as usize);
    // SAFETY: populating changes no content, and a range that is not mapped is refused.
    if unsafe { libc::madvise(range, bytes as usize, advice) } == 0 { 0 } else { errno() }
}

/// Whether all of a range is mapped, with whatever rights.
fn is_mapped(first: u64, bytes: u64) -> bool {
    const PAGES: u64 = 4096;
    let mut resident = [0u8; PAGES as usize];
    let chunk = PAGES * page_size();
    (0..bytes).step_by(chunk as usize).all(|at| {
        let range = std::ptr::without_provenance_mut((first + at) as usize);
        let bytes = chunk.min(bytes - at) as usize;
        // SAFETY: mincore only looks at the range, and writes a byte for each of at most PAGES pages.
        unsafe { libc::mincore(range, bytes, resident.as_mut_ptr()) == 0 }
    })
}

/// Whether the kernel reads or, with `write`, writes the first word of a page, which stays as it is.
fn touch(page: u64, write: bool) -> bool {
    let own = 0u32;
    let (own, word) = (&raw const own, std::ptr::without_provenance::<u32>(page as usize));
    let private = libc::FUTEX_PRIVATE_FLAG;
    // The last of six arguments stands on the stack, where the kernel takes a whole word.
    // SAFETY: both operations wake and move no waiter, as they are told none; adding 0 in one step leaves the
    // word as it is, and the kernel answers a bad address with an error.
    let answer = unsafe {
        if write {
            // FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)
            let add_nothing: usize = 1 << 28;
            libc::syscall(libc::SYS_futex, own, libc::FUTEX_WAKE_OP | private, 0, 0, word, add_nothing)
        } else {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_CMP_REQUEUE | private, 0, 0, own, 0usize)
        }
    };
    // EAGAIN: the word was read, and is not 0.
    answer >= 0 || errno() == libc::EAGAIN
}

/// Bytes of a page: more than 4096 on some kernels.
pub(crate) fn page_size() -> u64 {
    // SAFETY: reads a number of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    const NONE: libc::c_int = libc::PROT_NONE;
    const READ: libc::c_int = libc::PROT_READ;
    const BOTH: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

    /// Pages one after the other, with these rights.
    fn pages(rights: &[libc::c_int], file: Option<&File>) -> u64 {
        let kind = if file.is_some() { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
        let (page, fd) = (page_size() as usize, file.map_or(-1, |file| file.as_raw_fd()));
        // SAFETY: a new mapping at an address of the kernel's choice, whose pages get other rights.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), page * rights.len(), BOTH, kind, fd, 0);
            assert_ne!(at, libc::MAP_FAILED);
            for (n, rights) in rights.iter().enumerate() {
                // The C library hands the whole register on, of which an optimized caller fills half.
                let rights = std::hint::black_box(rights);
                assert_eq!(libc::mprotect(at.byte_add(n * page), page, *rights), 0);
            }
            at as u64
        }
    }

    #[test]
    fn this_kernel_knows_the_advice() {
        assert_eq!(advice(), Way::Advice);
    }

    #[test]
    fn every_page_is_looked_at() {
        let page = page_size();
        for way in [Way::Advice, Way::Futex] {
            let check = |addr, length, write| check_by(way, addr, length, write);
            for (closed, read, write) in [(BOTH, true, true), (READ, true, false), (NONE, false, false)] {
                for place in 0..3 {
                    let mut rights = [BOTH; 3];
                    rights[place] = closed;
                    let at = pages(&rights, None);
                    let answer = |good| if good { Ok(()) } else { Err(Missing::Fault) };
                    assert_eq!(check(at, 3 * page, false), answer(read), "{way:?} {rights:?}");
                    assert_eq!(check(at, 3 * page, true), answer(write), "{way:?} {rights:?}");
                    assert_eq!(check(at + place as u64 * page + 100, 1, true), answer(write));
                    // Beside it all is well, and a byte further it is not.
                    let beside = at + if place == 0 { page } else { 0 };
                    let bytes = if place == 1 { page } else { 2 * page };
                    assert_eq!(check(beside + 1, bytes - 1, true), Ok(()));
                    let further = if place == 0 { beside - 1 } else { beside };
                    assert_eq!(check(further, bytes + 1, true), answer(write));
                }
            }
        }
    }

    #[test]
    fn what_is_there_stays_as_it_is() {
        let at = pages(&[BOTH], None);
        let word = std::ptr::with_exposed_provenance_mut::<u32>(at as usize);
        for value in [0, 1, u32::MAX] {
            // SAFETY: the first word of the mapping, which nobody else uses.
            unsafe { word.write_volatile(value) };
            for way in [Way::Advice, Way::Futex] {
                assert_eq!([false, true].map(|write| check_by(way, at, 1, write)), [Ok(()); 2]);
            }
            // SAFETY: as above.
            assert_eq!(unsafe { word.read_volatile() }, value);
        }
    }

    #[test]
    fn the_end_of_a_file_is_the_end_of_memory() {
        let page = page_size();
        let path = format!("/dev/shm/ironverbs-pages-{}", std::process::id());
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(page + 1).unwrap();
        let at = pages(&[BOTH; 4], Some(&file));
        for (way, write) in [Way::Advice, Way::Futex].into_iter().flat_map(|w| [(w, false), (w, true)]) {
            assert_eq!(check_by(way, at, 2 * page, write), Ok(()));
            assert_eq!(check_by(way, at, 2 * page + 1, write), Err(Missing::Fault));
            assert_eq!(check_by(way, at + 3 * page, 1, write), Err(Missing::Fault));
        }
    }

    #[test]
    fn ranges_that_cannot_be() {
        let page = page_size();
        let at = pages(&[BOTH], None);
        for way in [Way::Advice, Way::Futex] {
            let check = |addr, length| check_by(way, addr, length, true);
            assert_eq!(check(at, 0), Ok(()));
            // No bytes within a page are that page.
            assert_eq!((check(at + 1, 0), check(1, 0)), (Ok(()), Err(Missing::Fault)));
            for (addr, length) in [(at, u64::MAX), (u64::MAX, 1), (u64::MAX - page + 2, 1), (0, 1 << 60)] {
                assert_eq!(check(addr, length), Err(Missing::Range), "{addr:#x} {length:#x}");
            }
            assert_eq!(check(at, u64::MAX - at - page), Err(Missing::Range));
            assert_eq!(check(u64::MAX - 2 * page, 1), Err(Missing::Fault));
        }
    }
}
