//! Memory of a process that nobody else can write or shorten: what peers check before they copy directly.
//!
//! A segment may be written by every process that may have it. What decides where the kernel copies to
//! stands here instead, in a memfd that its owner mapped before it was sealed: from then on the kernel lets
//! nobody map it for writing, write to it, or cut it. Byte offsets, in native byte order:
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version of this layout |
//! | 16 | 8 | the claim's signature, as in the segment |
//! | 24 | 8 | address of the identity page in the owner; 0 when there is none |
//! | 32 | 8 | the word that stands there |
//! | 40 | 4 | number of the chunk of keys that stands first ([`super::keys`]) |
//! | 4096 | | entries of memory keys by their index ([`super::keys`]) |
//!
//! A peer finds it as `/proc/PID/fd/N`, which it may open when it may read the owner's memory, and verifies it
//! ([`memfd`]). N comes from the segment, so anybody may have written it.
//!
//! # The identity page
//! A process id says nothing about what runs under it: `execve` keeps it and exchanges the memory, and a dead
//! process's number is given out again. So each process has a page of private memory at a random address where
//! no other program has one, and every copy goes to or from this page first ([`super::copy`]): the kernel
//! carries a copy out on the memory of one program, range by range in order, and ends it at the first range
//! that is not there. Children of a fork do not get the page.
//!
//! To move the page ends every copy that was prepared before ([`Sealed::revoke`]), also those of processes that
//! were stopped over it, whenever they go on.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::fork;
use ironverbs_os::sys;

use super::error::{Error, Result};
use super::image::Image;
use super::liveness::{self, OwnFiles};
use super::lock::Owner;
use super::memfd;
use super::memory::Memory;
use super::room;

const MAGIC: u64 = u64::from_ne_bytes(*b"ironseal");
const VERSION: u32 = 2;
const AT_MAGIC: u64 = 0;
const AT_VERSION: u64 = 8;
const AT_SIGNATURE: u64 = 16;
const AT_PAGE: u64 = 24;
const AT_WORD: u64 = 32;
const AT_CHUNKS: u64 = 40;
/// Where the keys begin.
pub(crate) const KEYS: u64 = 4096;
/// Address space for all keys that a process can have, or for less where that is limited.
const RESERVE: [usize; 4] = [(1 << 30) + (64 << 10), 64 << 20, 4 << 20, 512 << 10];

const SEALS: libc::c_int = memfd::LASTING | libc::F_SEAL_FUTURE_WRITE;

/// The own one.
#[derive(Debug)]
pub(crate) struct Sealed {
    memory: Memory,
    file: Descriptor,
    page: Mutex<Option<Page>>,
}

impl Sealed {
    /// A new one, sealed and declared, in which this chunk of keys stands first.
    ///
    /// Errors: those of the system calls. Peers cannot reach the memory directly then.
    pub(crate) fn create(first_chunk: u32) -> Result<Self> {
        let file = memfd::create(c"ironverbs")?;
        let fd = file.as_raw_fd();
        room::allocate(fd, 0, KEYS)?;
        let memory = Memory::map_within(fd, libc::PROT_READ | libc::PROT_WRITE, &RESERVE)?;
        memfd::seal(&file, SEALS)?;
        let page = Page::map(sys::random()?)?;
        memory.u64(AT_MAGIC)?.store(MAGIC, Ordering::Relaxed);
        memory.u32(AT_VERSION)?.store(VERSION, Ordering::Relaxed);
        memory.u64(AT_WORD)?.store(page.word, Ordering::Relaxed);
        memory.u32(AT_CHUNKS)?.store(first_chunk, Ordering::Relaxed);
        memory.u64(AT_PAGE)?.store(page.at, Ordering::Release);
        OwnFiles::add(fd)?;
        if let Err(e) = liveness::declare(fd) {
            OwnFiles::remove(fd);
            return Err(e);
        }
        Ok(Sealed { memory, file: Descriptor::new(file)?, page: Mutex::new(Some(page)) })
    }

    /// Signs with a claim: before that no peer goes by it.
    pub(crate) fn sign(&self, owner: Owner) -> Result<()> {
        self.memory.u64(AT_SIGNATURE)?.store(owner.word(), Ordering::Release);
        Ok(())
    }

    /// Its descriptor's number.
    pub(crate) fn number(&self) -> RawFd {
        self.file.number()
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Makes room for at least `len` bytes in all.
    ///
    /// Errors: [`Error::NoMemory`].
    pub(crate) fn grow(&self, len: u64) -> Result<()> {
        let now = self.memory.len() as u64;
        if len <= now {
            return Ok(());
        }
        if len > self.memory.reserved() as u64 {
            return Err(Error::NoMemory);
        }
        let fd = self.file.raw();
        room::allocate(fd, now, len - now)?;
        if (self.memory.refresh(fd)? as u64) < len { Err(Error::NoMemory) } else { Ok(()) }
    }

    /// Moves the identity page: the kernel refuses all copies from here on that peers prepared before. One that
    /// the kernel is just carrying out goes on. Without memory for a new page nobody reaches this process
    /// directly any more.
    pub(crate) fn revoke(&self) {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let (Ok(at), Ok(word)) = (self.memory.u64(AT_PAGE), self.memory.u64(AT_WORD)) else { return };
        let fresh = Page::map(word.load(Ordering::Relaxed)).ok();
        // The new address is published first, so that a peer that looks in between finds a page that is there.
        at.store(fresh.as_ref().map_or(0, |page| page.at), Ordering::SeqCst);
        *page = fresh;
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        OwnFiles::remove(self.number());
    }
}

/// A page with a word in it, at a random address.
#[derive(Debug)]
struct Page {
    at: u64,
    word: u64,
    token: u64,
}

/// Bytes of the page; its address is a multiple of it on every machine.
const PAGE: usize = 64 << 10;
/// Where addresses are chosen: as far as possible from what systems, language runtimes and sanitizers map,
/// first on machines with 47 bits of address space or more, then on those with 39.
const RANGES: [(u64, u64); 2] = [(1 << 44, 1 << 46), (1 << 37, 1 << 37)];
const ATTEMPTS: usize = 16;

impl Page {
    fn map(word: u64) -> Result<Self> {
        let token = fork::token()?;
        let mut failure = Error::NoMemory;
        for (first, size) in RANGES {
            for _ in 0..ATTEMPTS {
                let wish = (first + sys::random()? % size) & !(PAGE as u64 - 1);
                // SAFETY: MAP_FIXED_NOREPLACE replaces no mapping, and kernels that do not know it take the
                // address for a wish.
                let p = unsafe {
                    libc::mmap(
                        std::ptr::without_provenance_mut(wish as usize),
                        PAGE,
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                        -1,
                        0,
                    )
                };
                if p == libc::MAP_FAILED {
                    failure = Error::last("mmap");
                    continue;
                }
                let page = Page { at: p as u64, word, token };
                // SAFETY: the range is the mapping just made.
                let closed = unsafe {
                    libc::madvise(p, PAGE, libc::MADV_DONTDUMP);
                    libc::madvise(p, PAGE, libc::MADV_DONTFORK)
                };
                if closed != 0 || page.at != wish {
                    continue;
                }
                // SAFETY: the mapping is writable, aligned and nobody else's.
                unsafe { p.cast::<u64>().write(word) };
                return Ok(page);
            }
        }
        Err(failure)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // A forked child has none.
        if fork::same_process(self.token) {
            // SAFETY: the range is the mapping that `map` made, which this process alone knows by its number.
            unsafe { libc::munmap(std::ptr::without_provenance_mut(self.at as usize), PAGE) };
        }
    }
}

/// A peer's, or the own one seen as a peer's.
#[derive(Debug)]
pub(crate) struct View {
    memory: Memory,
    pid: libc::pid_t,
    number: RawFd,
    file: (u64, u64),
    word: u64,
    first_chunk: u32,
}

impl View {
    /// Maps what the process `pid`, which signs with `owner`, has under this descriptor.
    ///
    /// Errors: those of the system calls; [`Error::Corrupt`] when it is not what it should be.
    pub(crate) fn open(pid: libc::pid_t, number: RawFd, owner: Owner) -> Result<Self> {
        let file = memfd::of_process(pid, number, libc::O_RDONLY, SEALS)?;
        let memory = Memory::map_within(file.raw(), libc::PROT_READ, &RESERVE)?;
        if (memory.len() as u64) < KEYS
            || memory.u64(AT_MAGIC)?.load(Ordering::Relaxed) != MAGIC
            || memory.u32(AT_VERSION)?.load(Ordering::Relaxed) != VERSION
            || memory.u64(AT_SIGNATURE)?.load(Ordering::Relaxed) != owner.word()
        {
            return Err(Error::Corrupt("sealed memory"));
        }
        let word = memory.u64(AT_WORD)?.load(Ordering::Relaxed);
        let first_chunk = memory.u32(AT_CHUNKS)?.load(Ordering::Relaxed);
        Ok(View { memory, pid, number, file: (file.stat.st_dev, file.stat.st_ino), word, first_chunk })
    }

    /// The program that the memory belongs to, as it may be reached now; `None` when it may not.
    #[inline]
    pub(crate) fn image(&self) -> Option<Image> {
        let at = self.memory.u64(AT_PAGE).map_or(0, |at| at.load(Ordering::Acquire));
        (at != 0).then_some(Image::of_peer(self.pid, at, self.word))
    }

    /// The number of the chunk of keys that stands first.
    #[inline]
    pub(crate) fn first_chunk(&self) -> u32 {
        self.first_chunk
    }

    /// Its words from `offset` on; looks first whether it has grown when they are not there.
    pub(crate) fn words(&self, offset: u64, count: usize) -> Option<&[AtomicU64]> {
        match self.memory.words(offset, count) {
            Ok(words) => Some(words),
            Err(_) => {
                self.refresh();
                self.memory.words(offset, count).ok()
            }
        }
    }

    #[cold]
    fn refresh(&self) {
        sys::uncancelled(|| {
            if let Ok(file) = memfd::of_process(self.pid, self.number, libc::O_RDONLY, SEALS)
                && (file.stat.st_dev, file.stat.st_ino) == self.file
            {
                let _ = self.memory.refresh(file.raw());
            }
        });
    }
}
