//! A mapped segment, own or a peer's: every access is checked against the file's size and goes through atomics.
//!
//! The address range is reserved once and generously, so that a file may grow without moving. What lies beyond
//! the file's end has no access rights until the file has grown: nothing of this process touches it, and
//! programs that walk all memory they may read, as the leak checkers of valgrind and sanitizers do, pass it
//! over. The size comes from `fstat`, never from the content. Pages within the size
//! of an honest file are allocated, so touching them cannot fail.
//!
//! A file that others may write is mapped only when its length is sealed (`memfd`): shortening any other one
//! would end this process by SIGBUS at its next access. Others may still punch holes, which read as zeroes from
//! then on.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};

use ironverbs_os::sys;

use super::error::{Error, Result};

/// Address space reserved per segment, the largest that a segment can grow to. Smaller ones serve processes
/// that limit their address space (`RLIMIT_AS`).
const RESERVE: [usize; 4] = [16 << 30, 1 << 30, 64 << 20, 4 << 20];

/// Orders a read-modify-write operation with [`Ordering::SeqCst`] before the loads that follow.
#[inline(always)]
pub(crate) fn fence_after_exchange() {
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
        // There the operation is a fence itself.
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// A mapping of a segment.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    reserved: usize,
    /// `PROT_*` of what the file has.
    protection: libc::c_int,
    /// Bytes that the file had, and that are accessible.
    len: AtomicUsize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all access goes through atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps the file as far as it reaches now.
    pub(crate) fn map(fd: RawFd) -> Result<Self> {
        Self::map_within(fd, libc::PROT_READ | libc::PROT_WRITE, &RESERVE)
    }

    /// As [`Memory::map`], with the first of these sizes that address space is left for. Without `PROT_WRITE`
    /// the caller only loads.
    pub(crate) fn map_within(fd: RawFd, protection: libc::c_int, sizes: &[usize]) -> Result<Self> {
        let mut failure = Error::NoMemory;
        for &reserved in sizes {
            // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
            let p = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    reserved,
                    libc::PROT_NONE,
                    libc::MAP_SHARED | libc::MAP_NORESERVE,
                    fd,
                    0,
                )
            };
            if p == libc::MAP_FAILED {
                failure = Error::last("mmap");
                if failure.errno() != libc::ENOMEM {
                    return Err(failure);
                }
                continue;
            }
            let Some(base) = NonNull::new(p.cast::<u8>()) else { continue };
            // Queues tell nothing in a core file and could be large. Failing changes nothing else.
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(p, reserved, libc::MADV_DONTDUMP) };
            let memory = Memory { base, reserved, protection, len: AtomicUsize::new(0) };
            memory.refresh(fd)?;
            return Ok(memory);
        }
        Err(failure)
    }

    /// Looks how far the file reaches now; tells the number of bytes that may be used. It never becomes less:
    /// another thread may have looked later, when the file had grown, and be at work there.
    pub(crate) fn refresh(&self, fd: RawFd) -> Result<usize> {
        let size = usize::try_from(sys::stat(fd)?.st_size).unwrap_or(0);
        // Whole pages only, so that no page reaches beyond the file.
        let len = size.min(self.reserved) & !4095;
        if len > self.len() {
            // Whoever does the same for more or less of the file at the same time takes nothing away.
            // SAFETY: the range is the beginning of this mapping, and gets rights that it has already or had
            // not.
            if unsafe { libc::mprotect(self.base.as_ptr().cast(), len, self.protection) } != 0 {
                return Err(Error::last("mprotect"));
            }
        }
        Ok(self.len.fetch_max(len, Ordering::AcqRel).max(len))
    }

    /// Bytes that may be accessed.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether nothing may be accessed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the segment can ever have in this process.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Address of the first byte in this process.
    #[cfg(test)]
    pub fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// The place of `size` bytes at `offset`, when it is inside and aligned.
    #[inline(always)]
    fn at(&self, offset: u64, size: usize, align: usize) -> Result<*mut u8> {
        let len = self.len();
        let Ok(offset) = usize::try_from(offset) else { return Err(Error::OutOfBounds) };
        if size > len || offset > len - size || !offset.is_multiple_of(align) {
            return Err(Error::OutOfBounds);
        }
        // SAFETY: offset <= len <= reserved, so the result stays within the mapping.
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }

    /// The 32-bit word at `offset`, which must be a multiple of 4.
    #[inline]
    pub fn u32(&self, offset: u64) -> Result<&AtomicU32> {
        let p = self.at(offset, 4, 4)?;
        // SAFETY: `at` checked bounds and alignment (the mapping starts at a page); the mapping lives as long
        // as `self`, any bits are a valid atomic, and everybody accesses it as an atomic.
        Ok(unsafe { &*p.cast::<AtomicU32>() })
    }

    /// The 64-bit word at `offset`, which must be a multiple of 8.
    #[inline(always)]
    pub fn u64(&self, offset: u64) -> Result<&AtomicU64> {
        let p = self.at(offset, 8, 8)?;
        // SAFETY: as for `u32`.
        Ok(unsafe { &*p.cast::<AtomicU64>() })
    }

    /// `count` 64-bit words from `offset` on, which must be a multiple of 8.
    #[inline(always)]
    pub fn words(&self, offset: u64, count: usize) -> Result<&[AtomicU64]> {
        let size = count.checked_mul(8).ok_or(Error::OutOfBounds)?;
        let p = self.at(offset, size, 8)?;
        // SAFETY: as for `u32`, for the whole range.
        Ok(unsafe { std::slice::from_raw_parts(p.cast::<AtomicU64>(), count) })
    }

    /// Copies bytes out, each once. Not atomic as a whole: locks, sequence numbers or indices say when it is
    /// complete.
    #[cfg(test)]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let p = self.at(offset, to.len(), 1)?;
        let lead = p.align_offset(8).min(to.len());
        let (head, rest) = to.split_at_mut(lead);
        let (body, tail) = rest.split_at_mut(rest.len() & !7);
        let mut from = p.cast_const();
        for b in head {
            // SAFETY: `at` checked the whole range; `from` advances with the bytes of `to`.
            (*b, from) = unsafe { ((*from.cast::<AtomicU8>()).load(Ordering::Relaxed), from.add(1)) };
        }
        for chunk in body.chunks_exact_mut(8) {
            // SAFETY: as above; after `lead` bytes the address is a multiple of 8.
            let word = unsafe { (*from.cast::<AtomicU64>()).load(Ordering::Relaxed) };
            chunk.copy_from_slice(&word.to_ne_bytes());
            // SAFETY: still within the checked range, or one past it.
            from = unsafe { from.add(8) };
        }
        for b in tail {
            // SAFETY: as above.
            (*b, from) = unsafe { ((*from.cast::<AtomicU8>()).load(Ordering::Relaxed), from.add(1)) };
        }
        Ok(())
    }

    /// Copies bytes in. Not atomic as a whole.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let p = self.at(offset, from.len(), 1)?;
        let lead = p.align_offset(8).min(from.len());
        let (head, rest) = from.split_at(lead);
        let (body, tail) = rest.split_at(rest.len() & !7);
        let mut to = p.cast_const();
        for b in head {
            // SAFETY: `at` checked the whole range; `to` advances with the bytes of `from`.
            to = unsafe {
                (*to.cast::<AtomicU8>()).store(*b, Ordering::Relaxed);
                to.add(1)
            };
        }
        for chunk in body.chunks_exact(8) {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            // SAFETY: as above; after `lead` bytes the address is a multiple of 8.
            to = unsafe {
                (*to.cast::<AtomicU64>()).store(u64::from_ne_bytes(word), Ordering::Relaxed);
                to.add(8)
            };
        }
        for b in tail {
            // SAFETY: as above.
            to = unsafe {
                (*to.cast::<AtomicU8>()).store(*b, Ordering::Relaxed);
                to.add(1)
            };
        }
        Ok(())
    }

    /// Sets `len` bytes at `offset` to zero; both must be multiples of 8.
    pub(crate) fn clear(&self, offset: u64, len: u64) -> Result<()> {
        let count = usize::try_from(len / 8).map_err(|_| Error::OutOfBounds)?;
        for word in self.words(offset, count)? {
            word.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `map` made, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.reserved) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::room;
    use super::super::testing::memory_of;
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn bounds() {
        let (m, _fd) = memory_of(&[0xab; 8192]);
        assert_eq!(m.len(), 8192);
        assert!(m.u64(8184).is_ok() && m.u32(8188).is_ok());
        assert_eq!(m.u64(8192).err(), Some(Error::OutOfBounds));
        assert_eq!(m.u64(8185).err(), Some(Error::OutOfBounds));
        assert_eq!(m.u32(2).err(), Some(Error::OutOfBounds));
        assert_eq!(m.u64(u64::MAX).err(), Some(Error::OutOfBounds));
        assert_eq!(m.u64(u64::MAX - 7).err(), Some(Error::OutOfBounds));
        assert!(m.words(0, 1024).is_ok());
        assert_eq!(m.words(8, 1024).err(), Some(Error::OutOfBounds));
        assert_eq!(m.words(0, usize::MAX).err(), Some(Error::OutOfBounds));
        assert_eq!(m.words(0, usize::MAX / 8 + 1).err(), Some(Error::OutOfBounds));
        assert_eq!(m.read(8192, &mut [0]).err(), Some(Error::OutOfBounds));
        assert_eq!(m.read(8192, &mut []), Ok(()));
        assert_eq!(m.write(8190, &[1, 2, 3]).err(), Some(Error::OutOfBounds));
    }

    #[test]
    fn a_file_that_ends_within_a_page_loses_that_page() {
        let (m, _fd) = memory_of(&[1; 5000]);
        assert_eq!(m.len(), 4096);
        assert!(memory_of(&[1; 4095]).0.is_empty());
    }

    #[test]
    fn who_saw_less_of_the_file_takes_nothing_away() {
        let (small, big) = (memory_of(&[1; 4096]).1, memory_of(&[1; 8192]));
        // As a thread does that looked before the file grew, and was put to sleep before it said so.
        assert_eq!(big.0.refresh(small.as_raw_fd()), Ok(8192));
        assert_eq!(big.0.len(), 8192);
        let (grows, fd) = memory_of(&[1; 4096]);
        room::allocate(fd.as_raw_fd(), 4096, 4096).unwrap();
        assert_eq!((grows.len(), grows.refresh(fd.as_raw_fd())), (4096, Ok(8192)));
    }

    /// The rights of the mapping at each page from `at` on, as `/proc/self/maps` writes them.
    fn rights(at: usize, pages: usize) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let at_page = |page: usize| {
            let holds = |line: &&str| {
                let (first, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
                let number = |text| usize::from_str_radix(text, 16).unwrap();
                (number(first)..number(end)).contains(&page)
            };
            maps.lines().find(holds).map_or("", |line| line.split(' ').nth(1).unwrap()).to_owned()
        };
        (0..pages).map(|page| at_page(at + 4096 * page)).collect()
    }

    #[test]
    fn what_lies_behind_the_end_of_the_file_cannot_be_touched() {
        for (protection, open) in [(libc::PROT_READ | libc::PROT_WRITE, "rw-s"), (libc::PROT_READ, "r--s")] {
            let file = memory_of(&[1; 8192]).1;
            let m = Memory::map_within(file.as_raw_fd(), protection, &[32768]).unwrap();
            assert_eq!(rights(m.address(), 8), [[open; 2].as_slice(), &["---s"; 6]].concat());
            room::allocate(file.as_raw_fd(), 8192, 4096).unwrap();
            // Threads that look at once, as well as one after the other.
            std::thread::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| assert_eq!(m.refresh(file.as_raw_fd()), Ok(12288)));
                }
            });
            assert_eq!(rights(m.address(), 8), [[open; 3].as_slice(), &["---s"; 5]].concat());
            assert_eq!(m.u64(12288 - 8).unwrap().load(Ordering::Relaxed), 0);
            room::allocate(file.as_raw_fd(), 12288, 8 * 4096).unwrap();
            assert_eq!(m.refresh(file.as_raw_fd()), Ok(32768));
            assert_eq!(rights(m.address(), 8), [open; 8]);
        }
        let empty = memory_of(&[]).0;
        assert_eq!((empty.len(), rights(empty.address(), 1)), (0, vec!["---s".to_owned()]));
    }

    #[test]
    fn every_place_is_inside_and_aligned_or_none() {
        let (m, _fd) = memory_of(&[0; 8192]);
        let len = m.len() as u64;
        let near = |at: u64| (-9..=9).filter_map(move |by| at.checked_add_signed(by));
        let edges: Vec<u64> =
            [0, 64, 4096, len, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 9, u64::MAX / 8, u64::MAX]
                .into_iter()
                .flat_map(near)
                .collect();
        for (&offset, &size) in edges.iter().flat_map(|offset| edges.iter().map(move |size| (offset, size))) {
            for align in [1usize, 2, 4, 8, 64] {
                let inside = u128::from(offset) + u128::from(size) <= u128::from(len);
                let expected = inside && offset.is_multiple_of(align as u64);
                let place = m.at(offset, size as usize, align);
                assert_eq!(place.is_ok(), expected, "{size:#x} at {offset:#x}");
                if let Ok(place) = place {
                    assert_eq!(place as usize - m.address(), offset as usize);
                }
            }
            let fits = u128::from(offset) + 8 * u128::from(size) <= u128::from(len);
            assert_eq!(m.words(offset, size as usize).is_ok(), fits && offset.is_multiple_of(8));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read(
            offset in 0u64..4096,
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let (m, _fd) = memory_of(&[0x5a; 8192]);
            m.write(offset, &bytes).unwrap();
            let mut all = vec![0; 8192];
            m.read(0, &mut all).unwrap();
            let mut expected = vec![0x5a; 8192];
            expected[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            prop_assert_eq!(&all, &expected);
            let mut back = vec![0; bytes.len()];
            m.read(offset, &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        }
    }
}
