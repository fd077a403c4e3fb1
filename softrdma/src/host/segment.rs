//! Segments: this process's own, and how a peer's is opened.
//!
//! A segment is a memfd that nobody can shorten ([`memfd`](super::memfd)), and a file with the slot's name says
//! whose it is and where (`announcement`). A peer that may look at the owner's descriptors takes it there,
//! whatever the owner does just then. Others ask the owner ([`handout`](super::handout)), whose thread for that
//! begins when the segment is made in a folder for a group, or by a process that is closed to its like, else
//! when the process has to do with one of other namespaces.
//!
//! Byte offsets of the first page of every segment, in native byte order:
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | version of this layout |
//! | 16 | 8 | the claim's signature, [`Owner::word`] |
//! | 24 | 8 | number of the descriptor of the owner's sealed memory (`sealed`) and 1; 0 when it has none |
//! | 128 | 64 | eight root offsets, for the tables that stand in the segment; 0 is none |
//! | 192 | 4 | whether the owner's help with payload is wanted or there ([`super::ferry`]) |
//! | 200 | 8 | offset of the mailboxes for it |
//! | 208 | 4 | a lock of the owner's queues has a holder that does not go on |
//! | 216 | 1832 | network namespace and addresses of the owner ([`super::addresses`]) |
//! | 2048 | 2048 | locks of the atomic operations on the owner's memory ([`super::atomics`]) |

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::addresses;
use super::alloc::Allocator;
use super::announcement;
use super::copy::Image;
use super::descriptor::Descriptor;
use super::error::{Error, Result};
use super::folder::Folder;
use super::fork;
use super::handout::{self, Handout};
use super::liveness::{self, OwnFiles, PeerFile};
use super::lock::{Liveness, Lock, Owner};
use super::memfd;
use super::memory::Memory;
use super::sealed::{Sealed, View};
use super::slot::{self, Standing};
use super::sys;

const MAGIC: u64 = u64::from_ne_bytes(*b"ironsoft");
const VERSION: u32 = 5;
const AT_MAGIC: u64 = 0;
const AT_VERSION: u64 = 8;
const AT_SIGNATURE: u64 = 16;
pub(crate) const AT_SEALED: u64 = 24;
const AT_ROOTS: u64 = 128;
const ROOTS: usize = 8;
const AT_FERRY: u64 = 192;
const AT_FERRY_OFFSET: u64 = 200;
const AT_STUCK: u64 = 208;
const AT_ADDRESSES: u64 = 216;
const _: () = assert!(AT_ADDRESSES + 8 * addresses::WORDS as u64 <= AT_ATOMICS);
/// Locks of the atomic operations, to the end of the header.
const AT_ATOMICS: u64 = 2048;
const ATOMICS: u64 = (HEADER - AT_ATOMICS) / 8;
/// Bytes of the header; queues and tables come behind.
const HEADER: u64 = 4096;
/// The file grows by multiples of this: few system calls, little waste.
const GROWTH: u64 = 64 << 10;

/// How long a peer that was found alive counts as alive, and a descriptor as what it was. Copies to and from a
/// peer's memory do not rely on it.
const BELIEVED: u64 = 100_000_000;

/// A range of the own segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Where it starts, in bytes from the start of the segment.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// This process's segment. Dropping it gives the slot back.
#[derive(Debug)]
pub struct Segment {
    memory: Memory,
    /// The file behind it.
    content: Arc<Descriptor>,
    identity: Identity,
    sealed: Option<Sealed>,
    books: Mutex<Allocator>,
    owner: Owner,
    /// The file that has the slot's name.
    file: Option<OwnedFd>,
    listed: Identity,
    folder: Arc<Folder>,
    domain: u64,
    handout: Mutex<Option<Handout>>,
    /// The process that made it; [`LEFT`] once it has left.
    token: AtomicU64,
}

/// No process's token: those are odd.
const LEFT: u64 = 2;

/// The file behind a new segment, declared this process's own until it is dropped.
struct Content(Option<OwnedFd>);

impl Content {
    fn create() -> Result<Self> {
        let file = memfd::create(c"ironverbs-segment")?;
        sys::allocate(file.as_raw_fd(), 0, HEADER)?;
        memfd::seal(&file, memfd::LASTING)?;
        OwnFiles::add(file.as_raw_fd())?;
        let content = Content(Some(file));
        liveness::declare(content.raw())?;
        Ok(content)
    }

    fn raw(&self) -> RawFd {
        self.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// From here on it stays declared.
    fn keep(mut self) -> Result<Arc<Descriptor>> {
        let file = self.0.take().ok_or(Error::Gone)?;
        Ok(Arc::new(Descriptor::new(file)?))
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| OwnFiles::remove(file.as_raw_fd()));
    }
}

impl Segment {
    /// Claims a slot of the folder with a new segment, and removes what dead processes left there.
    ///
    /// Errors: [`Error::NoSlot`], [`Error::NoMemory`]; [`Error::Os`] where the system makes no files in memory
    /// that can be sealed.
    pub fn create(folder: Arc<Folder>) -> Result<Self> {
        let token = fork::token()?;
        // Without it peers take the way through shared memory.
        let sealed = Sealed::create().ok();
        let number = sealed.as_ref().map_or(0, |sealed| sealed.number() as u64 + 1);
        let content = Content::create()?;
        let identity = Identity::of(&sys::stat(content.raw())?);
        let memory = Memory::map(content.raw())?;
        memory.u64(AT_SEALED)?.store(number, Ordering::Relaxed);
        memory.u32(AT_VERSION)?.store(VERSION, Ordering::Relaxed);
        memory.u64(AT_MAGIC)?.store(MAGIC, Ordering::Relaxed);
        let domain = announcement::domain();
        let claim = slot::claim(
            &folder,
            |file| announcement::write(file.as_raw_fd(), content.raw(), domain),
            |file, owner| {
                sealed.iter().try_for_each(|sealed| sealed.sign(owner))?;
                memory.u64(AT_SIGNATURE)?.store(owner.word(), Ordering::Release);
                announcement::sign(file.as_raw_fd(), owner)
            },
        )?;
        let segment = Segment {
            listed: Identity::of(&sys::stat(claim.file.as_raw_fd())?),
            identity,
            memory,
            content: content.keep()?,
            sealed,
            books: Mutex::new(Allocator::new(HEADER)),
            owner: claim.owner,
            file: Some(claim.file),
            folder,
            domain,
            handout: Mutex::default(),
            token: token.into(),
        };
        if segment.folder.is_shared() || is_closed() || domain == 0 {
            segment.hand_out()?;
        }
        // Leftovers take memory but hinder nobody, so failing to remove them is no failure.
        let _ = slot::sweep(&segment.folder);
        Ok(segment)
    }

    /// Answers from now on who asks for the memory, as peers do that may not look at this process's
    /// descriptors.
    ///
    /// Errors: [`Error::NoMemory`] for a name or a thread, [`Error::Forked`], those of the system calls.
    pub fn hand_out(&self) -> Result<()> {
        if !self.is_mine() {
            return Err(Error::Forked);
        }
        let mut handout = self.handout.lock().unwrap_or_else(|e| e.into_inner());
        if handout.is_none() {
            *handout = Some(Handout::start(&self.folder, self.owner, &self.content)?);
        }
        Ok(())
    }

    /// Does so where a process may come that this one never hears of before, as for datagrams: in a PID
    /// namespace beside others, and where one of other namespaces has a slot. Tells whether it is so.
    ///
    /// Errors: as those of [`Segment::hand_out`], and of looking into the folder.
    pub fn hand_out_to_strangers(&self) -> Result<bool> {
        let nested = announcement::is_nested(self.domain);
        let expected = nested
            || is_closed()
            || slot::claimed(&self.folder)?.into_iter().any(|slot| self.is_stranger(slot));
        if expected {
            self.hand_out()?;
        }
        Ok(expected)
    }

    /// Whether memory is handed out already.
    pub fn hands_out(&self) -> bool {
        self.handout.lock().unwrap_or_else(|e| e.into_inner()).is_some()
    }

    /// Whether the process in a slot says that it has other namespaces or capabilities than this one, so that
    /// the kernel may keep the two from each other.
    pub fn is_stranger(&self, slot: u16) -> bool {
        let file = slot::open_peer(&self.folder, &slot::file_name(slot));
        file.and_then(|file| announcement::read(file.raw())).is_ok_and(|said| said.domain != self.domain)
    }

    /// The name this process signs with.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The segment's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether peers can reach this process's memory directly, as far as this process decides.
    pub fn is_reachable(&self) -> bool {
        self.sealed.is_some()
    }

    /// What peers go by who reach this process's memory directly; `None` where the system has no such thing.
    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        self.sealed.as_ref()
    }

    /// Has the kernel refuse the copies from and to this process's memory that peers have prepared and not
    /// begun. Those who still may look again.
    pub(crate) fn revoke_images(&self) {
        if let Some(sealed) = self.sealed.as_ref().filter(|_| self.is_mine()) {
            sealed.revoke();
        }
    }

    /// The folder of the segment.
    pub fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Whether the caller is the process that made the segment, not a child forked later, and has not left.
    #[inline]
    pub fn is_mine(&self) -> bool {
        fork::same_process(self.token.load(Ordering::Relaxed))
    }

    /// Whether the slot's name still means this segment. It does not when the program closed descriptors that
    /// are not its own, so that other processes found this one dead.
    pub fn is_listed(&self) -> bool {
        self.file
            .as_ref()
            .is_some_and(|f| slot::names(&self.folder, &slot::file_name(self.owner.slot()), f.as_raw_fd()))
    }

    /// One of the eight root offsets.
    pub fn root(&self, index: usize) -> Result<&AtomicU64> {
        root(&self.memory, index)
    }

    /// The table of the own addresses.
    pub fn addresses(&self) -> Result<&[AtomicU64]> {
        self.memory.words(AT_ADDRESSES, addresses::WORDS)
    }

    /// Takes `len` zeroed bytes at a multiple of `align`, a power of two of at most a page, letting the file
    /// grow when needed.
    ///
    /// Errors: [`Error::NoMemory`] when the file system or the address space is full, [`Error::Forked`].
    pub fn alloc(&self, len: u64, align: u64) -> Result<Block> {
        if !self.is_mine() {
            return Err(Error::Forked);
        }
        if !align.is_power_of_two() || align > HEADER {
            return Err(Error::OutOfBounds);
        }
        let mut books = self.books();
        if let Some((offset, len)) = books.take(len, align) {
            // Used before, or new and already zero.
            self.memory.clear(offset, len)?;
            return Ok(Block { offset, len });
        }
        let end = books.end();
        let needed = books.missing(len, align).and_then(|more| end.checked_add(more));
        let reserved = self.memory.reserved() as u64;
        let needed = needed.filter(|needed| *needed <= reserved).ok_or(Error::NoMemory)?;
        let target = needed.next_multiple_of(GROWTH).min(reserved);
        if target > end {
            let file = Some(self.content.raw()).filter(|fd| *fd >= 0).ok_or(Error::Gone)?;
            sys::allocate(file, end, target - end)?;
            if (self.memory.refresh(file)? as u64) < target {
                return Err(Error::Corrupt("own segment shortened"));
            }
            books.extend(target - end);
        }
        let (offset, len) = books.take(len, align).ok_or(Error::NoMemory)?;
        // New pages are zero, but the range may begin in what was used before and is free.
        self.memory.clear(offset, len.min(end.saturating_sub(offset)))?;
        Ok(Block { offset, len })
    }

    /// Gives back a block. Peers may still read it for a moment: mark what points to it as gone first.
    pub fn free(&self, block: Block) {
        if self.is_mine() {
            self.books().release(block.offset, block.len);
        }
    }

    /// Bytes that are allocated from the file system but not in use.
    pub fn free_bytes(&self) -> u64 {
        self.books().free_bytes()
    }

    /// Whether a peer has said since this was asked last that a lock of the own queues has a holder that does
    /// not go on.
    pub fn is_stuck(&self) -> bool {
        self.memory
            .u32(AT_STUCK)
            .is_ok_and(|word| word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::AcqRel) != 0)
            && self.is_mine()
    }

    /// The lock of the atomic operations on these eight bytes of this process's memory.
    pub fn atomics_lock(&self, addr: u64) -> Result<&Lock> {
        atomics_lock(&self.memory, addr)
    }

    /// The word that asks for the ferry.
    pub(crate) fn ferry_state(&self) -> Result<&AtomicU32> {
        self.memory.u32(AT_FERRY)
    }

    /// Where the ferry's mailboxes are.
    pub(crate) fn ferry_offset(&self) -> Result<&AtomicU64> {
        self.memory.u64(AT_FERRY_OFFSET)
    }

    /// Takes the names of the segment and of its bells out of the folder, as the process is about to end: peers
    /// find nobody any more, as after its death. From here on the segment is nobody's, as in a forked child:
    /// for peers it is a dead process's, whose locks they may take over.
    pub fn leave(&self) {
        if let Some(file) = &self.file
            && self.is_mine()
        {
            self.token.store(LEFT, Ordering::Relaxed);
            slot::leave(&self.folder, self.owner, file);
        }
    }

    /// The descriptor of the segment's memory, as long as it means it; see [`Identity::check`].
    pub(crate) fn descriptor(&self, writes: bool) -> Option<RawFd> {
        self.identity.check(self.content.number(), writes)
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Allocator> {
        self.books.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let is_mine = self.is_mine();
        if let Some(handout) = self.handout.get_mut().unwrap_or_else(|e| e.into_inner()).take() {
            // One that has left is still the process that made it.
            let is_childs = !is_mine && self.token.load(Ordering::Relaxed) != LEFT;
            if is_childs { handout.forget() } else { handout.stop() }
        }
        if let Some(file) = &self.file
            && is_mine
        {
            slot::release(&self.folder, self.owner, file);
        }
        OwnFiles::remove(self.content.number());
        // What has its number by now is the program's.
        if let Some(file) = self.file.take()
            && !self.listed.is(file.as_raw_fd())
        {
            std::mem::forget(file);
        }
    }
}

impl Liveness for Segment {
    fn lives(&self, owner: Owner) -> bool {
        if owner == self.owner {
            return true;
        }
        // The slot has one claim at a time, as long as it is this one.
        if owner.slot() == self.owner.slot() && self.is_listed() {
            return false;
        }
        match slot::standing(&self.folder, owner) {
            Standing::Alive => true,
            Standing::Over => false,
            // When the own name is gone too, somebody emptied the folder, and a missing name says nothing.
            Standing::Vacant => !self.is_listed(),
        }
    }
}

/// Whether the kernel lets nobody of the same rights look at this process now: the program may have asked for
/// that, or changed its user, at any time.
fn is_closed() -> bool {
    // SAFETY: the call only answers a number.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE) != 1 }
}

/// Which file a descriptor means: a program may have closed it and opened another under its number.
#[derive(Debug)]
pub(crate) struct Identity {
    file: (u64, u64),
    confirmed: AtomicU64,
}

impl Identity {
    pub(crate) fn of(stat: &libc::stat) -> Self {
        Identity { file: (stat.st_dev, stat.st_ino), confirmed: AtomicU64::new(0) }
    }

    /// Whether the descriptor means the file now.
    pub(crate) fn is(&self, fd: RawFd) -> bool {
        sys::stat(fd).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.file)
    }

    /// The descriptor when it still means the file: looked at now before anything is written to it, else within
    /// the last 100 ms.
    pub(crate) fn check(&self, fd: RawFd, writes: bool) -> Option<RawFd> {
        let now = sys::coarse_now();
        let old = now.wrapping_sub(self.confirmed.load(Ordering::Relaxed)) >= BELIEVED;
        if writes || old {
            self.is(fd).then_some(())?;
        }
        if old {
            self.confirmed.store(now, Ordering::Relaxed);
        }
        Some(fd)
    }
}

/// Whoever is stopped with a lock keeps others from few other places. By the place within a page, which is the
/// same at every address where the page is mapped.
fn atomics_lock(memory: &Memory, addr: u64) -> Result<&Lock> {
    Ok(Lock::of_what_stays(memory.u64(AT_ATOMICS + 8 * (addr / 8 % ATOMICS))?))
}

fn root(memory: &Memory, index: usize) -> Result<&AtomicU64> {
    if index >= ROOTS {
        return Err(Error::OutOfBounds);
    }
    memory.u64(AT_ROOTS + 8 * index as u64)
}

/// Whether descriptors or memory of this process have run out.
fn is_shortage(e: Error) -> bool {
    matches!(e.errno(), libc::EMFILE | libc::ENFILE | libc::ENOMEM)
}

/// Another process's segment, or this process's seen as a peer's. All it says is hostile input.
#[derive(Debug)]
pub struct Peer {
    memory: Memory,
    file: PeerFile,
    identity: Identity,
    owner: Owner,
    sealed: Option<View>,
    is_apart: bool,
    pid: AtomicI32,
    confirmed: AtomicU64,
}

impl Peer {
    /// Maps the segment of the living process in `slot`, which may be this process's own.
    ///
    /// Errors: [`Error::Gone`] when nobody alive is there, or does not answer; [`Error::Corrupt`] when what is
    /// there is no segment, and those of the system when descriptors or memory have run out.
    pub fn open(folder: &Folder, slot: u16) -> Result<Self> {
        Self::open_after(folder, slot, |_| false)
    }

    /// As [`Peer::open`], for a process that hands out its own segment where that peer could not have it else.
    pub fn open_for(me: &Segment, slot: u16) -> Result<Self> {
        Self::open_after(&me.folder, slot, |domain| {
            let is_apart = domain != me.domain || domain == 0 || is_closed();
            if is_apart {
                // Whoever does not get it tries again.
                let _ = me.hand_out();
            }
            is_apart
        })
    }

    fn open_after(folder: &Folder, slot: u16, is_apart: impl FnOnce(u64) -> bool) -> Result<Self> {
        if slot >= super::lock::SLOTS {
            return Err(Error::OutOfBounds);
        }
        let name = match slot::open_peer(folder, &slot::file_name(slot)) {
            Err(Error::Os { errno: libc::ENOENT, .. }) => return Err(Error::Gone),
            other => other?,
        };
        if name.stat.st_nlink > 1 {
            return Err(Error::Corrupt("a file with two names"));
        }
        let Some(pid) = name.owner()? else { return Err(Error::Gone) };
        let confirmed = sys::coarse_now();
        let said = announcement::read(name.raw())?;
        let owner = said.owner;
        if owner.slot() != slot {
            return Err(Error::Corrupt("signature"));
        }
        let is_apart = is_apart(said.domain);
        drop(name);
        let there = said.number.filter(|_| pid > 0);
        let there = there.map(|number| {
            let file = memfd::of_process(pid, number, libc::O_RDWR, memfd::LASTING)?;
            Ok((Self::map(&file, owner)?, file))
        });
        let (memory, file) = match there {
            Some(Ok(content)) => content,
            // It is there and cannot be had just now.
            Some(Err(e)) if is_shortage(e) => return Err(e),
            // Not for this process, or a lie.
            Some(Err(_)) | None => {
                let file = handout::ask(folder, owner, pid)?;
                (Self::map(&file, owner)?, file)
            }
        };
        let number = memory.u64(AT_SEALED)?.load(Ordering::Relaxed).checked_sub(1);
        let number = number.and_then(|number| RawFd::try_from(number).ok()).filter(|_| pid > 0);
        let sealed = match number.map(|number| View::open(pid, number, owner)) {
            Some(Ok(sealed)) => Some(sealed),
            // It is there and cannot be had just now.
            Some(Err(e)) if is_shortage(e) => return Err(e),
            // Not for this process, or a lie: the way through shared memory is left.
            Some(Err(_)) | None => None,
        };
        let identity = Identity::of(&file.stat);
        let (pid, confirmed) = (pid.into(), confirmed.into());
        Ok(Peer { memory, file, identity, owner, sealed, is_apart, pid, confirmed })
    }

    /// Maps what should be the memory of this claim.
    fn map(file: &PeerFile, owner: Owner) -> Result<Memory> {
        let memory = Memory::map(file.raw())?;
        if (memory.len() as u64) < HEADER {
            return Err(Error::Corrupt("too short"));
        }
        if memory.u64(AT_MAGIC)?.load(Ordering::Relaxed) != MAGIC {
            return Err(Error::Corrupt("no magic number"));
        }
        if memory.u32(AT_VERSION)?.load(Ordering::Relaxed) != VERSION {
            return Err(Error::Corrupt("another version of the layout"));
        }
        if memory.u64(AT_SIGNATURE)?.load(Ordering::Acquire) != owner.word() {
            return Err(Error::Corrupt("signature"));
        }
        Ok(memory)
    }

    /// The name the peer signs with.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The segment's memory.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Looks how far the peer's segment reaches now.
    pub fn refresh(&self) -> Result<usize> {
        self.memory.refresh(self.file.raw())
    }

    /// Whether the peer lives: the kernel's answer, by one system call.
    pub fn lives(&self) -> bool {
        !matches!(self.file.owner(), Ok(None))
    }

    /// The peer's process id in this process's PID namespace, confirmed within the last 100 ms.
    ///
    /// Errors: [`Error::Gone`] when the peer is dead; `None` when it cannot be seen from this namespace.
    #[inline]
    pub fn pid(&self) -> Result<Option<libc::pid_t>> {
        let now = sys::coarse_now();
        if now.wrapping_sub(self.confirmed.load(Ordering::Relaxed)) >= BELIEVED {
            let pid = self.file.owner()?.ok_or(Error::Gone)?;
            self.pid.store(pid, Ordering::Relaxed);
            self.confirmed.store(now, Ordering::Relaxed);
        }
        let pid = self.pid.load(Ordering::Relaxed);
        Ok((pid > 0).then_some(pid))
    }

    /// What it published for who reaches its memory directly; `None` where that cannot be had.
    pub(crate) fn sealed(&self) -> Option<&View> {
        self.sealed.as_ref()
    }

    /// The program that its memory is to be reached as; `None` where the kernel lets nobody reach it, or not
    /// this process.
    ///
    /// Who uses a key looks first here and then the key up: when the owner ends the key and waits for its users
    /// no longer, copies to an image from before that fail.
    #[inline]
    pub fn image(&self) -> Option<Image> {
        self.sealed.as_ref()?.image()
    }

    /// Asks the kernel anew whether it lives, next time.
    pub(crate) fn doubt(&self) {
        self.confirmed.store(sys::coarse_now().wrapping_sub(BELIEVED), Ordering::Relaxed);
    }

    /// One of the eight root offsets, as it stands now; not checked.
    pub fn root(&self, index: usize) -> Result<u64> {
        Ok(root(&self.memory, index)?.load(Ordering::Acquire))
    }

    /// The peer's table of addresses.
    pub fn addresses(&self) -> Result<addresses::Table<'_>> {
        Ok(addresses::Table::new(self.memory.words(AT_ADDRESSES, addresses::WORDS)?))
    }

    /// Whether it says that it has other namespaces or capabilities than this process: the kernel may keep it
    /// from this process's memory, whatever this one may.
    pub fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// The word that asks for the peer's ferry.
    pub(crate) fn ferry_state(&self) -> Result<&AtomicU32> {
        self.memory.u32(AT_FERRY)
    }

    /// Where the peer says its ferry's mailboxes are.
    pub(crate) fn ferry_offset(&self) -> Result<u64> {
        Ok(self.memory.u64(AT_FERRY_OFFSET)?.load(Ordering::Acquire))
    }

    /// The descriptor of the peer's memory, as long as it means it; see [`Identity::check`].
    pub(crate) fn descriptor(&self, writes: bool) -> Option<RawFd> {
        self.identity.check(self.file.raw(), writes)
    }

    /// The word by which the peer is told that a lock of its queues has a holder that does not go on.
    pub(crate) fn stuck(&self) -> Result<&AtomicU32> {
        self.memory.u32(AT_STUCK)
    }

    /// The lock of the atomic operations on these eight bytes of the peer's memory.
    pub fn atomics_lock(&self, addr: u64) -> Result<&Lock> {
        atomics_lock(&self.memory, addr)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TestDir, in_child};
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn claim_and_release() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let a = Segment::create(folder.clone()).unwrap();
        let b = Segment::create(folder.clone()).unwrap();
        assert_eq!((a.owner().slot(), b.owner().slot()), (0, 1));
        assert!(a.is_listed() && b.is_listed() && a.is_mine());
        let seen = Peer::open(&folder, 0).unwrap();
        assert_eq!(seen.owner(), a.owner());
        assert!(seen.lives());
        assert!(b.lives(a.owner()) && a.lives(b.owner()) && a.lives(a.owner()));
        let before = a.owner();
        drop(a);
        assert!(!b.lives(before));
        assert!(matches!(Peer::open(&folder, 0), Err(Error::Gone)));
        let again = Segment::create(folder.clone()).unwrap();
        assert_eq!(again.owner().slot(), 0);
        assert_ne!(again.owner(), before);
        assert!(!b.lives(before) && b.lives(again.owner()));
        drop((again, b));
        assert!(folder.names().unwrap().is_empty());
    }

    /// Two processes of one user connect, as their queue pairs do: first the process that `closes` itself to
    /// its like, then the other one, which `lacks` what it takes to look at it. Whether both find each other.
    fn meet(user: Option<u32>, closes: fn(), lacks: fn()) -> bool {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        in_child(|| {
            if let Some(user) = user {
                // SAFETY: the child gives up rights.
                unsafe {
                    assert_eq!(libc::setresuid(user, user, user), 0);
                    assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
                }
            }
            let dir = TestDir::new("meet");
            let folder = dir.folder();
            let status = in_child(|| {
                let me = Segment::create(folder.clone()).unwrap();
                closes();
                // SAFETY: the child does nothing but this test.
                let other = unsafe { libc::fork() };
                if other == 0 {
                    drop(me);
                    lacks();
                    let me = Segment::create(folder.clone()).unwrap();
                    theirs.write_all(&[me.owner().slot() as u8]).unwrap();
                    theirs.read_exact(&mut [0]).unwrap();
                    let found = Peer::open_for(&me, 0);
                    theirs.write_all(&[u8::from(found.is_ok())]).unwrap();
                    // SAFETY: ends the process without running what belongs to the parent.
                    unsafe { libc::_exit(0) };
                }
                let mut byte = [0];
                ours.read_exact(&mut byte).unwrap();
                let seen = Peer::open_for(&me, byte[0].into()).is_ok();
                ours.write_all(&[0]).unwrap();
                ours.read_exact(&mut byte).unwrap();
                seen && byte[0] == 1
            });
            status == 0
        }) == 0
    }

    /// No user of the system, where the test is run by root, who may look at everything.
    fn nobody() -> Option<u32> {
        // SAFETY: reads a number of the process.
        (unsafe { libc::geteuid() } == 0).then_some(54321)
    }

    #[test]
    fn who_closes_itself_after_it_came_is_found() {
        // SAFETY: the call changes a flag of the process.
        let closes = || assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
        assert!(meet(nobody(), || (), || ()));
        assert!(meet(nobody(), closes, || ()));
    }

    #[test]
    #[ignore = "needs root"]
    fn who_has_more_capabilities_is_found() {
        fn lacks() {
            let header = [0x2008_0522u32, 0];
            // SAFETY: the process gives up all capabilities; both structs are as large as this version's.
            let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), [0u32; 6].as_ptr()) };
            assert_eq!(done, 0);
        }
        assert!(meet(None, || (), || ()));
        assert!(meet(None, || (), lacks));
    }

    /// Looking at the own segment as a peer does must not end the declaration of life.
    #[test]
    fn looking_at_oneself_is_not_deadly() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let a = Segment::create(folder.clone()).unwrap();
        drop(Peer::open(&folder, a.owner().slot()).unwrap());
        assert!(slot::standing(&folder, a.owner()) == Standing::Alive);
        for _ in 0..2000 {
            // Costs no descriptor either.
            slot::sweep(&folder).unwrap();
        }
        let owner = a.owner();
        let status = in_child(|| {
            slot::standing(&folder, owner) == Standing::Alive
                && Peer::open(&folder, owner.slot()).unwrap().lives()
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn a_child_has_not_its_parents_segment() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let mut a = Some(Segment::create(folder.clone()).unwrap());
        let owner = a.as_ref().unwrap().owner();
        let status = in_child(|| {
            let Some(mine) = a.take() else { return false };
            let refused = !mine.is_mine() && mine.alloc(64, 64) == Err(Error::Forked);
            drop(mine);
            let own = Segment::create(folder.clone()).unwrap();
            let seen = Peer::open(&folder, owner.slot()).unwrap();
            // SAFETY: reads a number of the process.
            let parent = unsafe { libc::getppid() };
            refused
                && own.owner().slot() != owner.slot()
                && own.lives(owner)
                && seen.pid() == Ok(Some(parent))
        });
        assert_eq!(status, 0);
        let a = a.unwrap();
        assert!(a.is_listed() && slot::standing(&folder, owner) == Standing::Alive);
        drop(a);
        assert!(folder.names().unwrap().is_empty());
    }

    #[test]
    fn a_dead_claim_is_taken_over_with_a_new_file() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let status = in_child(|| {
            std::mem::forget(Segment::create(folder.clone()).unwrap());
            true
        });
        assert_eq!(status, 0);
        assert_eq!(folder.names().unwrap().len(), 1);
        let old = folder.open_file(&slot::file_name(0), 0).unwrap();
        let a = Segment::create(folder.clone()).unwrap();
        assert_eq!(a.owner().slot(), 0);
        assert!(!slot::names(&folder, &slot::file_name(0), old.as_raw_fd()));
        assert_ne!(announcement::signature(old.as_raw_fd()), Some(a.owner().word()));
        assert_eq!(folder.names().unwrap().len(), 1);
    }

    #[test]
    fn memory_grows_and_is_reused() {
        let dir = TestDir::new("segment");
        let a = Segment::create(dir.folder()).unwrap();
        let seen = Peer::open(a.folder(), 0).unwrap();
        let one = a.alloc(100, 64).unwrap();
        assert_eq!((one.offset, one.len), (4096, 128));
        a.memory().write(one.offset, &[0xff; 128]).unwrap();
        let big = a.alloc(3 << 20, 4096).unwrap();
        assert_eq!(big.offset % 4096, 0);
        assert!(seen.memory().u64(big.offset + big.len - 8).is_err());
        seen.refresh().unwrap();
        a.memory().u64(big.offset + big.len - 8).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(seen.memory().u64(big.offset + big.len - 8).unwrap().load(Ordering::Relaxed), 7);
        a.free(one);
        let again = a.alloc(128, 64).unwrap();
        assert_eq!(again, one);
        assert_eq!(a.memory().u64(again.offset).unwrap().load(Ordering::Relaxed), 0);
        assert_eq!(a.alloc(64, 3), Err(Error::OutOfBounds));
        assert_eq!(a.alloc(1 << 60, 64), Err(Error::NoMemory));
        assert_eq!(a.alloc(u64::MAX, 64), Err(Error::NoMemory));
        assert!(a.alloc(64, 64).is_ok());
    }

    #[test]
    fn a_folder_that_was_emptied_is_no_death() {
        for whole in [false, true] {
            let dir = TestDir::new("segment");
            let me = Segment::create(dir.folder()).unwrap();
            let other = Segment::create(me.folder().clone()).unwrap();
            let path = me.folder().path().to_owned();
            std::fs::remove_file(path.join("s0001")).unwrap();
            assert!(!me.lives(other.owner()), "given back, as far as can be seen");
            std::fs::remove_file(path.join("s0000")).unwrap();
            if whole {
                std::fs::remove_dir(&path).unwrap();
            }
            assert!(me.lives(other.owner()));
        }
    }

    /// A process that lost its slot by closing a descriptor of its file does not take the next one there for
    /// dead.
    #[test]
    fn who_lost_its_slot_sees_its_successor_live() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let status = in_child(|| {
            let me = Segment::create(folder.clone()).unwrap();
            drop(std::fs::File::open(folder.path().join("s0000")).unwrap());
            let (mut here, mut there) = UnixStream::pair().unwrap();
            std::thread::scope(|s| {
                s.spawn(|| {
                    in_child(|| {
                        let next = Segment::create(folder.clone()).unwrap();
                        there.write_all(&next.owner().word().to_ne_bytes()).unwrap();
                        there.read_exact(&mut [0]).is_ok()
                    })
                });
                let mut word = [0; 8];
                here.read_exact(&mut word).unwrap();
                let next = Owner::from_word(u64::from_ne_bytes(word)).unwrap();
                let seen = next.slot() == me.owner().slot() && !me.is_listed() && me.lives(next);
                here.write_all(&[1]).unwrap();
                seen
            })
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn a_signature_that_cannot_be_read_is_no_death() {
        let dir = TestDir::new("segment");
        let me = Segment::create(dir.folder()).unwrap();
        let other = Segment::create(me.folder().clone()).unwrap();
        let next = Owner::new(other.owner().slot(), other.owner().epoch() ^ 1).unwrap();
        assert!(me.lives(other.owner()) && !me.lives(next));
        let path = me.folder().path().join("s0001");
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: `path` is a C string; nothing looks into the other segment any more.
        assert_eq!(unsafe { libc::truncate(path.as_ptr(), 8) }, 0);
        assert!(me.lives(other.owner()));
    }

    #[test]
    fn a_block_that_begins_in_a_used_tail_is_zero() {
        let dir = TestDir::new("segment");
        let a = Segment::create(dir.folder()).unwrap();
        let tail = a.alloc(GROWTH - HEADER, 64).unwrap();
        assert_eq!(a.memory().len() as u64, GROWTH);
        a.memory().write(tail.offset, &vec![0xff; tail.len as usize]).unwrap();
        a.free(tail);
        let grown = a.alloc(2 * GROWTH, 64).unwrap();
        assert_eq!(grown.offset, tail.offset);
        let mut bytes = vec![1; grown.len as usize];
        a.memory().read(grown.offset, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_size_limit_is_no_memory_and_no_signal() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let status = in_child(|| {
            let limit = libc::rlimit { rlim_cur: 200 << 10, rlim_max: libc::RLIM_INFINITY };
            let a = Segment::create(folder.clone()).unwrap();
            // SAFETY: reads the struct given.
            unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
            a.alloc(1 << 20, 64) == Err(Error::NoMemory) && a.alloc(64 << 10, 64).is_ok()
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn descriptors_that_run_out_close_no_way_for_good() {
        let dir = TestDir::new("segment");
        let a = Segment::create(dir.folder()).unwrap();
        let status = in_child(|| {
            let limit = libc::rlimit { rlim_cur: 128, rlim_max: 128 };
            // SAFETY: reads the struct given.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
            let mut all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
            // For the segment, for a look at the sealed memory, and for the sealed memory itself.
            for _ in 0..3 {
                let opened = Peer::open(a.folder(), 0);
                assert_eq!(opened.err().map(Error::errno), Some(libc::EMFILE));
                all.pop();
            }
            Peer::open(a.folder(), 0).is_ok_and(|peer| peer.image().is_some())
        });
        assert_eq!(status, 0);
    }

    /// A full file system is an error of the claim, never a signal later, and takes nothing from who has
    /// claimed. Needs root, who can mount one.
    #[test]
    #[ignore = "needs root"]
    fn a_full_file_system_is_no_memory() {
        let dir = TestDir::new("segment");
        let status = in_child(|| {
            let at = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
            // SAFETY: plain system calls with C strings that live across them; the mounts are this child's
            // alone.
            unsafe {
                let private = libc::MS_REC | libc::MS_PRIVATE;
                let none = std::ptr::null();
                assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
                assert_eq!(libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()), 0);
                let size = c"size=64k".as_ptr().cast();
                assert_eq!(libc::mount(c"tmpfs".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, size), 0);
            }
            let a = Segment::create(dir.folder()).unwrap();
            let mut others = Vec::new();
            let refused = loop {
                match Segment::create(a.folder().clone()) {
                    Ok(other) => others.push(other),
                    Err(e) => break e,
                }
            };
            assert_eq!(refused, Error::NoMemory);
            assert_eq!(a.folder().names().unwrap().len(), 1 + others.len(), "nothing is left behind");
            let block = a.alloc(1 << 20, 64).unwrap();
            a.memory().write(block.offset, &[1; 1 << 20]).unwrap();
            others.pop();
            Segment::create(a.folder().clone()).is_ok()
        });
        assert_eq!(status, 0);
    }

    /// Across PID namespaces peers see each other live, and know that a process id means nothing there.
    #[test]
    #[ignore = "needs root"]
    fn pid_namespaces() {
        let dir = TestDir::new("segment");
        let folder = dir.folder();
        let a = Segment::create(folder.clone()).unwrap();
        // It does not see who comes.
        a.hand_out().unwrap();
        let owner = a.owner();
        let status = in_child(|| {
            // SAFETY: plain system call; only children of this child are in the new namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
            let status = in_child(|| {
                let own = Segment::create(folder.clone()).unwrap();
                let outside = Peer::open(&folder, owner.slot()).unwrap();
                own.lives(owner)
                    && outside.lives()
                    && outside.pid() == Ok(None)
                    && crate::host::copy::probe(&outside) == Ok(crate::host::copy::Way::Closed(0))
            });
            status == 0
        });
        assert_eq!(status, 0);
    }
}
