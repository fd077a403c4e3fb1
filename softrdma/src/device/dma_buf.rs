//! Memory of a dma-buf, which a region is made of.
//!
//! Adapters get a buffer's bus addresses from whoever exported it. Here processors move the payload, so the
//! process maps the buffer, and what its exporter lets nobody map cannot be registered.
//!
//! Most exporters map their memory as page frames (`VM_PFNMAP`), which the kernel reaches for nobody but the
//! process that has the mapping: a peer's `process_vm_writev` fails there as in a hole. Such memory is
//! [unpinnable](Device::register_unpinnable).

use std::os::fd::RawFd;
use std::ptr::NonNull;

use crate::rules::verbs::Access;
use crate::shm;
use crate::shm::copy;
use crate::shm::pages::{self, page_size};

use super::{Device, Error, Region, Result};

/// `DMA_BUF_MAGIC` (`linux/magic.h`): the kind of file system that dma-bufs are in, since Linux 5.3.
const DMA_BUF_MAGIC: u64 = 0x444d_4142;

/// Part of a dma-buf, mapped as long as this lives.
#[derive(Debug)]
pub struct DmaBuf {
    base: NonNull<u8>,
    /// Bytes from `base` on that are mapped.
    mapped: usize,
    /// Where the part begins, from `base` on.
    within: usize,
    length: u64,
    /// Whether the kernel lets peers at its pages.
    is_pinnable: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this type touches none of its bytes.
unsafe impl Send for DmaBuf {}
// SAFETY: as above.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Maps `length` bytes from `offset` of the dma-buf `fd`; with `write`, for being written, too. The
    /// descriptor may be closed afterwards.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a file that is no dma-buf (`EINVAL`), and for a part that is not in the buffer or
    /// touches no page of it; [`Error::Host`] with `EBADF` for no open descriptor, else with what `mmap` says
    /// (`EACCES` for a buffer that was exported for reading alone, `ENODEV` and others for one that cannot be
    /// mapped); [`Error::Fault`] for a page behind which is no memory.
    pub fn map(fd: RawFd, offset: u64, length: u64, write: bool) -> Result<Self> {
        let end = offset.checked_add(length).ok_or(Error::Invalid("part of a dma-buf"))?;
        if end > size_of_buffer(fd)? {
            return Err(Error::Invalid("beyond the end of the dma-buf"));
        }
        let made = Self::map_file(fd, offset, length, write)?;
        made.check(write)
    }

    /// Maps part of any file, with all that is before it: exporters of Linux (the shared memory of DRM, 6.1)
    /// give a mapping from the middle of a buffer the first pages of the buffer.
    fn map_file(fd: RawFd, offset: u64, length: u64, write: bool) -> Result<Self> {
        let end = offset.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let mapped = end.ok_or(Error::NoMemory)?;
        let within = offset as usize;
        if length == 0 && offset.is_multiple_of(page_size()) {
            return Err(Error::Invalid("a region without pages"));
        }
        let rights = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, rights, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::Host(shm::Error::last("mmap")));
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(Error::NoMemory)?;
        Ok(Self { base, mapped, within, length, is_pinnable: false })
    }

    /// Finds out whether there is memory, and of which kind.
    fn check(mut self, write: bool) -> Result<Self> {
        let (start, bytes) = (self.address(), self.length);
        self.is_pinnable = pages::check(start, bytes, write).is_ok() && copy::reaches_own(start);
        if !self.is_pinnable && pages::check_own(start, bytes, false).is_err() {
            return Err(Error::Fault);
        }
        Ok(self)
    }

    /// Address of the part in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.base.as_ptr() as u64 + self.within as u64
    }
}

/// Bytes of a dma-buf.
///
/// Errors: as those of [`DmaBuf::map`].
fn size_of_buffer(fd: RawFd) -> Result<u64> {
    // SAFETY: plain C data, for which all zeros is a value.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `system` is writable.
    if unsafe { libc::fstatfs(fd, &raw mut system) } != 0 {
        return Err(Error::Host(shm::Error::last("fstatfs")));
    }
    if system.f_type as u64 != DMA_BUF_MAGIC {
        return Err(Error::Invalid("not a dma-buf"));
    }
    // A dma-buf has no file offset that this could move; `fstat` does not tell its size.
    // SAFETY: plain system call.
    let size = unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
    u64::try_from(size).map_err(|_| Error::Host(shm::Error::last("lseek")))
}

impl Device {
    /// Registers all of a mapped part of a dma-buf, known to users of the key by addresses from `iova`. The
    /// mapping must outlive the region.
    ///
    /// # Errors
    /// [`Error::Invalid`] for rights that need `LOCAL_WRITE` without it or a range of addresses that wraps,
    /// [`Error::NoMemory`].
    pub fn register_dma_buf(&self, pd: u32, memory: &DmaBuf, iova: u64, access: Access) -> Result<Region> {
        let (addr, length) = (memory.address(), memory.length);
        if memory.is_pinnable {
            self.register(pd, addr, length, iova, access)
        } else {
            self.register_unpinnable(pd, addr, length, iova, access)
        }
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `map_file` made.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;

    fn file(name: &CStr, bytes: u64) -> OwnedFd {
        // SAFETY: a new file, whose descriptor nobody else owns.
        unsafe {
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0 && libc::ftruncate(fd, bytes as i64) == 0);
            OwnedFd::from_raw_fd(fd)
        }
    }

    fn word(at: u64) -> *mut u64 {
        std::ptr::with_exposed_provenance_mut(at as usize)
    }

    #[test]
    fn other_files_are_refused() {
        let (file, pipe) = (file(c"a file", 1 << 20), std::io::pipe().unwrap());
        for fd in [file.as_raw_fd(), pipe.0.as_raw_fd()] {
            assert_eq!(DmaBuf::map(fd, 0, 4096, true).unwrap_err(), Error::Invalid("not a dma-buf"));
        }
        for fd in [-1, i32::MAX, i32::MIN] {
            assert_eq!(DmaBuf::map(fd, 0, 4096, true).unwrap_err().errno(), libc::EBADF);
        }
        // A range that wraps is refused before anybody looks at the file, as by a kernel.
        let wraps = DmaBuf::map(-1, u64::MAX, 2, true).unwrap_err();
        assert_eq!(wraps.errno(), libc::EINVAL);
    }

    /// What is the same for every file that can be mapped.
    #[test]
    fn a_part_is_mapped_from_its_first_byte() {
        let page = page_size();
        let file = file(c"a part is mapped", 4 * page);
        let map = |offset, length, write| {
            DmaBuf::map_file(file.as_raw_fd(), offset, length, write).and_then(|made| made.check(write))
        };
        let all = map(0, 4 * page, true).unwrap();
        let part = map(page + 64, page, true).unwrap();
        assert!(all.is_pinnable && part.is_pinnable);
        assert_eq!((part.address() % page, part.length), (64, page));
        // SAFETY: words of the two mappings, which nobody else uses.
        unsafe {
            word(all.address() + page + 64).write_volatile(7);
            assert_eq!(word(part.address()).read_volatile(), 7);
            let read_only = map(page, 8, false).unwrap();
            word(part.address()).write_volatile(9);
            assert_eq!(word(read_only.address() + 64).read_volatile(), 9);
        }
        assert_eq!(map(page, 0, true).unwrap_err(), Error::Invalid("a region without pages"));
        assert_eq!(map(page + 1, 0, true).unwrap().address() % page, 1);
        assert_eq!(map(3 * page, page + 1, true).unwrap_err(), Error::Fault);
        drop((all, part));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.contains("/memfd:a part is mapped"), "{maps}");
    }

    #[test]
    fn a_file_that_cannot_be_mapped_says_why() {
        let file = file(c"a file", 4096);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let read_only = std::fs::File::open(path).unwrap();
        let map = |write| DmaBuf::map_file(read_only.as_raw_fd(), 0, 4096, write);
        assert_eq!(map(true).unwrap_err().errno(), libc::EACCES);
        assert!(map(false).is_ok());
        let pipe = std::io::pipe().unwrap();
        let of_pipe = DmaBuf::map_file(pipe.0.as_raw_fd(), 0, 4096, false);
        assert_eq!(of_pipe.unwrap_err().errno(), libc::ENODEV);
    }
}
