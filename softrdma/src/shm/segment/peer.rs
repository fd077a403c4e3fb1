//! Another process's segment, as this one sees it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use ironverbs_os::sys;

use crate::shm::error::{Error, Result};
use crate::shm::folder::Folder;
use crate::shm::image::Image;
use crate::shm::liveness::PeerFile;
use crate::shm::lock::{Lock, Owner, SLOTS};
use crate::shm::memory::Memory;
use crate::shm::sealed::View;
use crate::shm::{addresses, announcement, handout, memfd, slot};

use super::{
    AT_ADDRESSES, AT_MAGIC, AT_SEALED, AT_SERVICE, AT_SERVICE_OFFSET, AT_SIGNATURE, AT_STUCK, AT_VERSION,
    BELIEVED, HEADER, Identity, MAGIC, Segment, VERSION, atomics_lock, is_closed, is_shortage, root,
};

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
                // A peer that does not get it tries again.
                let _ = me.hand_out();
            }
            is_apart
        })
    }

    fn open_after(folder: &Folder, slot: u16, is_apart: impl FnOnce(u64) -> bool) -> Result<Self> {
        if slot >= SLOTS {
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

    /// Whether it lives, as far as was known some moments ago: confirmed within the last 100 ms.
    #[inline(always)]
    pub(crate) fn lived_lately(&self) -> bool {
        let since = sys::coarse_now().wrapping_sub(self.confirmed.load(Ordering::Relaxed));
        since < BELIEVED || !self.is_gone()
    }

    #[cold]
    fn is_gone(&self) -> bool {
        matches!(self.pid(), Err(Error::Gone))
    }

    /// What it published for peers that copy directly; `None` where that cannot be had.
    pub(crate) fn sealed(&self) -> Option<&View> {
        self.sealed.as_ref()
    }

    /// The program that its memory is to be reached as; `None` where the kernel lets nobody reach it, or not
    /// this process.
    ///
    /// To use a key, first this is read and then the key looked up: when the owner ends the key and waits for
    /// its users no longer, copies to an image from before that fail.
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

    /// The word that asks for the peer's copy service.
    pub(crate) fn service_state(&self) -> Result<&AtomicU32> {
        self.memory.u32(AT_SERVICE)
    }

    /// Where the peer says its copy service's mailboxes are.
    pub(crate) fn service_offset(&self) -> Result<u64> {
        Ok(self.memory.u64(AT_SERVICE_OFFSET)?.load(Ordering::Acquire))
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
