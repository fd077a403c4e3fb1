//! Segments: this process's own, and how a peer's is opened.
//!
//! A segment is a memfd that nobody can shorten ([`memfd`]), and a file with the slot's name says
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
//! | 192 | 4 | whether the owner's help with payload is wanted or there ([`super::bounce`]) |
//! | 200 | 8 | offset of the mailboxes for it |
//! | 208 | 4 | a lock of the owner's queues has a holder that does not go on |
//! | 216 | 1832 | network namespace and addresses of the owner ([`super::addresses`]) |
//! | 2048 | 2048 | locks of the atomic operations on the owner's memory ([`super::atomics`]) |

mod peer;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use ironverbs_os::descriptor::Descriptor;
use ironverbs_os::fork;
use ironverbs_os::growth::try_arc;
use ironverbs_os::sys;

use super::addresses;
use super::alloc::Allocator;
use super::announcement;
use super::error::{Error, Result};
use super::folder::Folder;
use super::handout::Handout;
use super::liveness::{self, OwnFiles};
use super::lock::{Liveness, Lock, Owner};
use super::memfd;
use super::memory::Memory;
use super::numbering::Numbering;
use super::room;
use super::sealed::Sealed;
use super::slot::{self, Standing};

pub use peer::Peer;

const MAGIC: u64 = u64::from_ne_bytes(*b"ironsoft");
const VERSION: u32 = 11;
const AT_MAGIC: u64 = 0;
const AT_VERSION: u64 = 8;
const AT_SIGNATURE: u64 = 16;
pub(crate) const AT_SEALED: u64 = 24;
const AT_ROOTS: u64 = 128;
const ROOTS: usize = 8;
const AT_SERVICE: u64 = 192;
const AT_SERVICE_OFFSET: u64 = 200;
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
    allocator: Mutex<Allocator>,
    owner: Owner,
    /// The file that has the slot's name.
    file: Option<OwnedFd>,
    listed: Identity,
    folder: Arc<Folder>,
    domain: u64,
    numbering: Numbering,
    /// See [`Segment::first_chunk`].
    first_chunk: u32,
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
        room::allocate(file.as_raw_fd(), 0, HEADER)?;
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
        Ok(try_arc(Descriptor::new(file)?)?)
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
        Self::create_with(folder, Numbering::InOrder)
    }

    /// The same, where numbers of queue pairs and memory keys are chosen so.
    ///
    /// Errors: as those of [`Segment::create`].
    pub(crate) fn create_with(folder: Arc<Folder>, numbering: Numbering) -> Result<Self> {
        let token = fork::token()?;
        // First: they may have what is left of the folder's file system. One that stays is no failure.
        let _ = slot::sweep(&folder);
        // Without it peers take the way through shared memory.
        let first_chunk = if numbering.is_random() { sys::random()? as u32 } else { 0 };
        let sealed = Sealed::create(first_chunk).ok();
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
            allocator: Mutex::new(Allocator::new(HEADER)),
            owner: claim.owner,
            file: Some(claim.file),
            folder,
            domain,
            numbering,
            first_chunk,
            handout: Mutex::default(),
            token: token.into(),
        };
        if segment.folder.is_shared() || is_closed() || domain == 0 {
            segment.hand_out()?;
        }
        Ok(segment)
    }

    /// Starts the thread that hands the memory to peers that ask for it, since they may not open this process's
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

    /// How numbers of its objects and keys are chosen.
    pub(crate) fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// Which chunk of memory keys is made first: any number, of which the lower bits count.
    pub(crate) fn first_chunk(&self) -> u32 {
        self.first_chunk
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

    /// What peers check before they copy directly to or from this process's memory; `None` where the system has
    /// no such thing.
    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        self.sealed.as_ref()
    }

    /// Has the kernel refuse the copies from and to this process's memory that peers have prepared and not
    /// begun. A peer that still has the right to one looks the key up again.
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
        let mut allocator = self.allocator();
        allocator.make_room()?;
        if let Some((offset, len)) = allocator.take(len, align) {
            // Used before, or new and already zero.
            self.memory.clear(offset, len)?;
            return Ok(Block { offset, len });
        }
        let end = allocator.end();
        let needed = allocator.missing(len, align).and_then(|more| end.checked_add(more));
        let reserved = self.memory.reserved() as u64;
        let needed = needed.filter(|needed| *needed <= reserved).ok_or(Error::NoMemory)?;
        let target = needed.next_multiple_of(GROWTH).min(reserved);
        if target > end {
            let file = Some(self.content.raw()).filter(|fd| *fd >= 0).ok_or(Error::Gone)?;
            room::allocate(file, end, target - end)?;
            if (self.memory.refresh(file)? as u64) < target {
                return Err(Error::Corrupt("own segment shortened"));
            }
            allocator.extend(target - end);
        }
        let (offset, len) = allocator.take(len, align).ok_or(Error::NoMemory)?;
        // New pages are zero, but the range may begin in what was used before and is free.
        self.memory.clear(offset, len.min(end.saturating_sub(offset)))?;
        Ok(Block { offset, len })
    }

    /// Gives back a block. Peers may still read it for a moment: mark what points to it as gone first.
    pub fn free(&self, block: Block) {
        if self.is_mine() {
            self.allocator().release(block.offset, block.len);
        }
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

    /// The word that asks for the copy service.
    pub(crate) fn service_state(&self) -> Result<&AtomicU32> {
        self.memory.u32(AT_SERVICE)
    }

    /// Where the copy service's mailboxes are.
    pub(crate) fn service_offset(&self) -> Result<&AtomicU64> {
        self.memory.u64(AT_SERVICE_OFFSET)
    }

    /// Takes the names of the segment and of its bells out of the folder, as the process is about to end: peers
    /// find nobody any more, as after its death. From here on the segment is nobody's, as in a forked child:
    /// for peers it is a dead process's, whose locks they may take over.
    ///
    /// Not where a thread of this process may be at work in another's memory, by the answer of `are_at_rest`:
    /// it is asked when no thread can begin to, and where it says no, all is as before. Whether it has left.
    pub fn leave_if(&self, are_at_rest: impl FnOnce() -> bool) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| self.is_mine()) else { return false };
        let token = self.token.swap(LEFT, Ordering::SeqCst);
        // A thread that is seen to sleep after this sees it when it wakes.
        fence(Ordering::SeqCst);
        if !are_at_rest() {
            self.token.store(token, Ordering::SeqCst);
            return false;
        }
        slot::leave(&self.folder, self.owner, file);
        true
    }

    /// The descriptor of the segment's memory, as long as it means it; see [`Identity::check`].
    pub(crate) fn descriptor(&self, writes: bool) -> Option<RawFd> {
        self.identity.check(self.content.number(), writes)
    }

    fn allocator(&self) -> std::sync::MutexGuard<'_, Allocator> {
        self.allocator.lock().unwrap_or_else(|e| e.into_inner())
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

/// The lock of atomic operations at `addr`, one of many, so that a process which is stopped with one holds up
/// few other places. It is chosen by the place within a page, which is the same wherever the page is mapped.
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

#[cfg(test)]
mod tests;
