//! Protection of registered memory across `fork` (`man ibv_fork_init`): pages that a device reads and writes
//! are kept out of child processes, so that copy-on-write never moves them away from under the parent's
//! registrations.
//!
//! Kernels since 5.12 copy registered pages at fork time instead; there, nothing of this is needed. Nor does
//! the software device need it, whose regions do not come here
//! ([`Mrs::pins`](crate::provider::verbs::Mrs::pins)).

use core::ffi::{c_int, c_void};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};

use ironverbs_os::fork::{self, ProcessGuard, ProcessMutex};
use ironverbs_os::growth::try_room;

use super::entry;
use crate::abi::verbs::*;
use crate::environment;
use crate::errno::{Errno, Result};
use crate::observe::call;
use crate::provider::discovery::are_all_software;
use crate::uverbs::discovery;

/// Ranges of pages in use by registrations; `None` until a program asks for protection.
static RANGES: ProcessMutex<Option<Ranges>> = ProcessMutex::new(None);
/// Whether a program asked for protection: lets a registration without protection pass without the lock.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// Memory was registered before protection was asked for, so it can no longer be complete.
static TOO_LATE: AtomicBool = AtomicBool::new(false);

fn ranges() -> Result<ProcessGuard<'static, Option<Ranges>>> {
    RANGES.lock().map_err(|error| Errno(error.errno()))
}

/// How the kernel is told; the tests have their own.
trait Advise {
    fn advise(&mut self, start: usize, end: usize, advice: c_int) -> Result<()>;
}

struct Kernel;

impl Advise for Kernel {
    fn advise(&mut self, start: usize, end: usize, advice: c_int) -> Result<()> {
        // SAFETY: DONTFORK and DOFORK change what a child inherits, nothing in this process; a range that is
        // not mapped is refused by the kernel.
        match unsafe { libc::madvise(start as *mut c_void, end - start, advice) } {
            0 => Ok(()),
            _ => Err(Errno::last()),
        }
    }
}

/// Disjoint page ranges, start to end (exclusive), with the number of registrations of each.
#[derive(Default)]
struct Ranges {
    map: BTreeMap<usize, (usize, u32)>,
    huge_pages: bool,
    /// Whose registrations: a child of that process has none of them, and none of their pages.
    process: u64,
}

impl Ranges {
    /// Makes `at` a border, so that changes can stop there.
    fn split(&mut self, at: usize) {
        let Some((&start, &(end, count))) = self.map.range(..at).next_back() else { return };
        if at < end {
            self.insert(at, end, count);
            if let Some(range) = self.map.get_mut(&start) {
                range.0 = at;
            }
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "nodes are small, and a call makes two, or looked for memory"
    )]
    fn insert(&mut self, start: usize, end: usize, count: u32) {
        self.map.insert(start, (end, count));
    }

    /// The first part of `start..end` that is in no range.
    fn gap(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let mut at = start;
        for (&from, &(to, _)) in self.map.range(start..end) {
            if at < from {
                return Some((at, from));
            }
            at = to;
        }
        (at < end).then_some((at, end))
    }

    /// Its parts that are in no range.
    fn gaps(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
        let next = move |&(_, at): &(usize, usize)| self.gap(at, end);
        core::iter::successors(self.gap(start, end), next)
    }

    /// Joins neighbours of one count around `start..end`, so that the map stays as small as the registrations
    /// are few.
    fn join(&mut self, start: usize, end: usize) {
        let first = self.map.range(..start).next_back().map_or(start, |(&before, _)| before);
        let mut at = first;
        while at <= end
            && let Some((&start, &(border, count))) = self.map.range(at..=end).next()
        {
            match self.map.get(&border) {
                Some(&(to, same)) if border <= end && same == count => {
                    self.map.remove(&border);
                    if let Some(range) = self.map.get_mut(&start) {
                        range.0 = to;
                    }
                    at = start;
                }
                _ => at = border,
            }
        }
    }

    /// One registration more of `start..end`; on an error nothing has changed.
    fn protect(&mut self, start: usize, end: usize, kernel: &mut impl Advise) -> Result<()> {
        // More than what is there for a call; whether there is memory is all that is asked.
        drop(try_room::<[usize; 8]>(self.gaps(start, end).count())?);
        self.split(start);
        self.split(end);
        let mut keep = |(from, to)| Some((to, kernel.advise(from, to, libc::MADV_DONTFORK).err()?));
        let refused = self.gaps(start, end).find_map(&mut keep);
        if let Some((end_of_refused, errno)) = refused {
            // The kernel has done the part of the range before the place that it refused.
            self.gaps(start, end_of_refused).for_each(|(from, to)| {
                let _ = kernel.advise(from, to, libc::MADV_DOFORK);
            });
            self.join(start, end);
            return Err(errno.also_set());
        }
        for (_, (_, count)) in self.map.range_mut(start..end) {
            *count += 1;
        }
        while let Some((from, to)) = self.gap(start, end) {
            self.insert(from, to, 1);
        }
        self.join(start, end);
        Ok(())
    }

    /// One registration fewer of `start..end`. Pages that are gone already are no error: nothing is left to
    /// inherit.
    fn release(&mut self, start: usize, end: usize, kernel: &mut impl Advise) {
        self.split(start);
        self.split(end);
        let mut at = start;
        while let Some((&from, (to, count))) = self.map.range_mut(at..end).next() {
            (*count, at) = (*count - 1, *to);
            if *count > 0 {
                continue;
            }
            let to = *to;
            self.map.remove(&from);
            if kernel.advise(from, to, libc::MADV_DOFORK).is_err() {
                // Part of the range may be unmapped: do what is left, page by page.
                for page in (from..to).step_by(page_size()) {
                    let _ = kernel.advise(page, page + page_size(), libc::MADV_DOFORK);
                }
            }
        }
        self.join(start, end);
    }

    /// The pages that `size` bytes at `base` touch.
    fn pages(&self, base: usize, size: usize) -> Result<(usize, usize)> {
        let page = if self.huge_pages { mapped_page_size(base) } else { page_size() };
        let end = base.checked_add(size).and_then(|end| end.checked_next_multiple_of(page));
        Ok((base & !(page - 1), end.ok_or_else(|| Errno::ENOMEM.also_set())?))
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf only reads.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// The page size of the mapping around `address`, by `/proc/self/smaps`.
fn mapped_page_size(address: usize) -> usize {
    let Ok(file) = std::fs::File::open("/proc/self/smaps") else { return page_size() };
    let mut inside = false;
    for line in BufReader::new(file).lines().map_while(|line| line.ok()) {
        if inside {
            if let Some(size) = line.strip_prefix("KernelPageSize:") {
                let kib = size.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap_or(0);
                let bytes = kib.saturating_mul(1024);
                return if bytes.is_power_of_two() { bytes } else { page_size() };
            }
        } else if let Some((start, rest)) = line.split_once('-')
            && let (Ok(start), Some(end)) = (usize::from_str_radix(start, 16), rest.split(' ').next())
            && let Ok(end) = usize::from_str_radix(end, 16)
        {
            inside = (start..end).contains(&address);
        }
    }
    page_size()
}

/// Turns protection on: EINVAL once memory has been registered without it, ENOSYS where the kernel cannot do
/// it.
pub(super) fn initialise() -> Result<()> {
    let mut guard = ranges()?;
    if ENABLED.load(Ordering::Relaxed) {
        of_this_process(&mut guard)?.huge_pages |= huge_pages_asked_for();
        return Ok(());
    }
    if TOO_LATE.load(Ordering::Relaxed) {
        return Err(Errno::EINVAL);
    }
    try_advice()?;
    of_this_process(&mut guard)?;
    ENABLED.store(true, Ordering::Release);
    Ok(())
}

fn huge_pages_asked_for() -> bool {
    environment::harmless("RDMAV_HUGEPAGES_SAFE").is_some()
}

/// The ranges of this process: none yet where they are those of the parent, or a thread of the parent left them
/// half changed. Protection stays on in a child, for what it registers itself.
fn of_this_process(ranges: &mut Option<Ranges>) -> Result<&mut Ranges> {
    let process = fork::token().map_err(|error| Errno(error.errno()))?;
    let huge_pages = ranges.as_ref().map_or_else(huge_pages_asked_for, |ranges| ranges.huge_pages);
    if ranges.as_ref().is_some_and(|ranges| ranges.process != process) {
        *ranges = None;
    }
    Ok(ranges.get_or_insert_with(|| Ranges { map: BTreeMap::new(), huge_pages, process }))
}

/// Tries both advices on a page of our own.
fn try_advice() -> Result<()> {
    let page = page_size();
    // SAFETY: a fresh private mapping that nothing else uses; it is unmapped below.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let address =
            libc::mmap(core::ptr::null_mut(), page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if address == libc::MAP_FAILED {
            return Err(Errno::ENOMEM);
        }
        let works = libc::madvise(address, page, libc::MADV_DONTFORK) == 0
            && libc::madvise(address, page, libc::MADV_DOFORK) == 0;
        libc::munmap(address, page);
        if works { Ok(()) } else { Err(Errno::ENOSYS) }
    }
}

/// Keeps the pages of a range out of child processes; nothing to do for an empty range or without protection.
pub(super) fn dont_fork(base: usize, size: usize) -> Result<()> {
    change(base, size, Ranges::protect)
}

/// Ends what [`dont_fork`] began.
pub(super) fn do_fork(base: usize, size: usize) -> Result<()> {
    change(base, size, |ranges, start, end, kernel| {
        ranges.release(start, end, kernel);
        Ok(())
    })
}

fn change(
    base: usize,
    size: usize,
    apply: impl FnOnce(&mut Ranges, usize, usize, &mut Kernel) -> Result<()>,
) -> Result<()> {
    if !ENABLED.load(Ordering::Acquire) {
        TOO_LATE.store(true, Ordering::Relaxed);
        return Ok(());
    }
    if base == 0 || size == 0 {
        return Ok(());
    }
    let mut guard = ranges()?;
    let ranges = of_this_process(&mut guard)?;
    let (start, end) = ranges.pages(base, size)?;
    apply(ranges, start, end, &mut Kernel)
}

/// Protects memory registered from now on; 0, or EINVAL, ENOMEM, ENOSYS.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    entry::value(call!("ibv_fork_init"), initialise)
}

/// IBV_FORK_UNNEEDED where the kernel copies registered pages at fork, or no device that there is needs it,
/// else whether protection is on.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status_t {
    let status = || {
        let before = Errno::last();
        Ok(if discovery::copy_on_fork() {
            IBV_FORK_UNNEEDED
        } else if are_all_software() {
            // A kernel without RDMA has no answer, which is no error here.
            before.set();
            IBV_FORK_UNNEEDED
        } else if ENABLED.load(Ordering::Acquire) {
            IBV_FORK_ENABLED
        } else {
            IBV_FORK_DISABLED
        })
    };
    entry::number(call!("ibv_is_fork_initialized"), status, |_| IBV_FORK_DISABLED) as ibv_fork_status_t
}

/// Keeps `size` bytes at `base` out of child processes, with their whole pages; 0, or -1 and `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    entry::minus_one(call!("ibv_dontfork_range", base, size), || dont_fork(base as usize, size))
}

/// Lets child processes have `size` bytes at `base` again; 0, or -1 and `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    entry::minus_one(call!("ibv_dofork_range", base, size), || do_fork(base as usize, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_child;
    use proptest::prelude::*;

    /// Remembers per page whether a child would inherit it, and can refuse one page.
    #[derive(Default)]
    struct Model {
        kept_out: Vec<usize>,
        refuse: Option<usize>,
    }

    impl Advise for Model {
        fn advise(&mut self, start: usize, end: usize, advice: c_int) -> Result<()> {
            if advice == libc::MADV_DONTFORK && self.refuse.is_some_and(|page| (start..end).contains(&page)) {
                return Err(Errno::EINVAL);
            }
            for page in start..end {
                self.kept_out.retain(|&kept| kept != page);
                if advice == libc::MADV_DONTFORK {
                    self.kept_out.push(page);
                }
            }
            self.kept_out.sort_unstable();
            Ok(())
        }
    }

    proptest! {
        /// The kernel's view equals a simple count per page, whatever overlaps, and an emptied map is empty.
        #[test]
        fn pages_are_kept_out_while_registered(
            steps in prop::collection::vec((0usize..40, 1usize..12), 1..30),
            refuse in prop::option::of(0usize..50),
        ) {
            let mut ranges = Ranges::default();
            let mut model = Model { refuse, ..Model::default() };
            let mut counts = [0u32; 64];
            let mut live = Vec::new();
            for (start, length) in steps {
                let end = start + length;
                if ranges.protect(start, end, &mut model).is_ok() {
                    counts[start..end].iter_mut().for_each(|count| *count += 1);
                    live.push((start, end));
                }
                let expected: Vec<usize> = (0..64).filter(|&page| counts[page] > 0).collect();
                prop_assert_eq!(&model.kept_out, &expected);
            }
            for (start, end) in live {
                ranges.release(start, end, &mut model);
                counts[start..end].iter_mut().for_each(|count| *count -= 1);
                let expected: Vec<usize> = (0..64).filter(|&page| counts[page] > 0).collect();
                prop_assert_eq!(&model.kept_out, &expected);
            }
            prop_assert!(ranges.map.is_empty());
        }
    }

    /// `VmFlags` of the mapping around `address` say that a child does not get it (`dc`).
    fn is_kept_out(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            if let Some(flags) = line.strip_prefix("VmFlags:") {
                if inside {
                    return flags.split_whitespace().any(|flag| flag == "dc");
                }
            } else if let Some((start, rest)) = line.split_once('-')
                && let (Ok(start), Some(end)) = (usize::from_str_radix(start, 16), rest.split(' ').next())
                && let Ok(end) = usize::from_str_radix(end, 16)
            {
                inside = (start..end).contains(&address);
            }
        }
        panic!("{address:#x} is not mapped");
    }

    /// Two pages at this address, or anywhere for 0.
    fn two_pages(at: usize) -> usize {
        let (fixed, flags) = (if at == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE }, libc::MAP_PRIVATE);
        // SAFETY: a new mapping that replaces none.
        let made = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(at as *mut c_void, 2 * page_size(), access, flags | libc::MAP_ANONYMOUS | fixed, -1, 0)
        };
        assert_ne!(made, libc::MAP_FAILED);
        made as usize
    }

    /// All in a child, since protection stays on for ever.
    #[test]
    fn a_child_protects_what_it_registers_itself() {
        let (page, all) = (page_size(), 2 * page_size());
        let status = in_child(|| {
            TOO_LATE.store(false, Ordering::Relaxed);
            assert_eq!(initialise(), Ok(()));
            let old = two_pages(0);
            assert_eq!(dont_fork(old, all), Ok(()));
            assert!(is_kept_out(old));
            // The pages are not there in a child, which uses the place for others and registers them.
            let mut status = in_child(|| {
                assert_eq!(two_pages(old), old);
                assert_eq!(dont_fork(old, page), Ok(()));
                assert!(is_kept_out(old) && !is_kept_out(old + page));
                // What the parent had registered is deregistered: nothing of that is the child's, and what the
                // child registered before stays protected.
                let fresh = two_pages(0);
                assert_eq!((dont_fork(fresh, all), do_fork(fresh, all)), (Ok(()), Ok(())));
                assert!(!is_kept_out(fresh));
                assert_eq!(do_fork(old, page), Ok(()));
                assert!(!is_kept_out(old));
                // What only the parent had registered.
                assert_eq!(do_fork(old, all), Ok(()));
                0
            });
            // While another thread registers.
            let guard = RANGES.lock().unwrap();
            status |= in_child(|| {
                let fresh = two_pages(0);
                assert_eq!(dont_fork(fresh, all), Ok(()));
                assert!(is_kept_out(fresh));
                assert_eq!((initialise(), do_fork(fresh, all)), (Ok(()), Ok(())));
                assert!(!is_kept_out(fresh));
                0
            });
            drop(guard);
            assert_eq!(do_fork(old, all), Ok(()));
            assert!(!is_kept_out(old));
            status
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn the_page_size_of_ordinary_memory() {
        let value = 1u8;
        assert_eq!(mapped_page_size(&raw const value as usize), page_size());
    }
}
