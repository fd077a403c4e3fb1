//! Other processes of the folder, opened once and looked at again when they may have died.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use ironverbs_os::growth::{TryAdd, TryFill, TryPush, try_arc};
use ironverbs_os::sys;

use crate::queues::shared::Object;
use crate::shm::bounce::{Copying, Scratch, direct_to_oneself, waits_for};
use crate::shm::copy::{self, Way};
use crate::shm::image::Image;
use crate::shm::keys::Table;
use crate::shm::lock::{Lock, Owner, PATIENCE, SLOTS};
use crate::shm::memory::Memory;
use crate::shm::objects::Host;
use crate::shm::segment::{Peer, Segment};
use crate::shm::threads;
use crate::shm::{Error, Result};

use super::attributes::{QpAttributes, load};
use super::number::place_of;

/// How long a lock of another process's objects is waited for. Who waits in vain tries again later, as with any
/// peer that gives no answer.
const LIMIT: Duration = Duration::from_secs(1);

/// Opening takes that long when it failed because an answer was waited for, in nanoseconds.
const SLOW: u64 = 500_000_000;
/// For how long a process is then not asked again.
const SILENT: u64 = 2_000_000_000;

/// Every process of the folder that this one has to do with, by slot.
#[derive(Debug)]
pub struct Peers {
    me: Arc<Segment>,
    /// The own segment, where queues are moved from who keeps them.
    own: Host,
    copying: Copying,
    slots: RwLock<Vec<Option<Arc<Remote>>>>,
    /// Slots whose process gave no answer, and until when it is not asked again.
    silent: Mutex<Vec<(u16, u64)>>,
}

/// A process, as who sends to it knows it. It may be this process.
#[derive(Debug)]
pub struct Remote {
    me: Arc<Segment>,
    /// None for this process.
    peer: Option<Arc<Peer>>,
    /// Its segment, as transactions see it.
    pub host: Host,
    /// The same for who knows that a lock is kept.
    pub(crate) brief: Host,
    own_image: Option<Image>,
    /// The thread by whose number the kernel reaches it, where the first has ended; 0 as long as that is there.
    thread: AtomicI32,
    /// The kernel moves no payload between the two.
    closed: AtomicBool,
    /// What payload within this process goes through then.
    scratch: OnceLock<Scratch>,
    /// Completion queues whose bells were rung for it to help with payload.
    woken: Mutex<HashSet<u32>>,
    /// Datagram queue pairs whose locks another sender had for longer than they are waited for, and how many
    /// there are.
    kept: Mutex<HashSet<u32>>,
    kept_count: AtomicUsize,
}

impl Peers {
    /// Nobody is known yet.
    #[must_use]
    pub fn new(me: Arc<Segment>, own: Host, copying: Copying) -> Self {
        Self { me, own, copying, slots: RwLock::default(), silent: Mutex::default() }
    }

    /// The living process in a slot.
    pub fn get(&self, slot: u16) -> Option<Arc<Remote>> {
        {
            let slots = self.slots.read().unwrap_or_else(|e| e.into_inner());
            if let Some(Some(remote)) = slots.get(usize::from(slot))
                && remote.lives()
            {
                return Some(remote.clone());
            }
        }
        self.open(slot).ok()
    }

    /// Asks the kernel anew, next time, whether the process in a slot lives.
    fn doubt(&self, slot: u16) {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(remote)) = slots.get(usize::from(slot)) {
            remote.doubt();
        }
    }

    /// Makes sure that a target is within reach as long as it lives, whatever descriptors are left later: the
    /// process, and the bell where the queue pair with this number receives. Nothing is missing where there is
    /// no such queue pair yet. Tells whether the kernel keeps one of the two from the other's memory, as far as
    /// is known.
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub(crate) fn prepare(&self, qp_num: u32) -> Result<bool> {
        let Some((slot, index)) = place_of(qp_num) else { return Ok(false) };
        // A connection is with who is there now: who was there before may have died a moment ago.
        self.doubt(slot);
        let mut is_apart = false;
        let prepared = self.open(slot).and_then(|remote| {
            if remote.is_own() && remote.closed.load(Ordering::Relaxed) && remote.scratch().is_none() {
                return Err(Error::NoMemory);
            }
            is_apart = remote.is_apart();
            let (host, qp) = (&remote.host, Object::Qp(index));
            let held = host.find([Some(qp), None, None]);
            let words = load(&host.with(&held), qp);
            match QpAttributes::unpack(&words).filter(|_| held.has(qp)).and_then(|attributes| attributes.cq) {
                Some(cq) => host.find_bell(cq),
                None => Ok(()),
            }
        });
        // Who is there and gives no answer yet may get one.
        is_apart |= prepared.is_err() && self.me.is_stranger(slot);
        shortage(prepared).map(|()| is_apart)
    }

    #[cold]
    fn open(&self, slot: u16) -> Result<Arc<Remote>> {
        if slot >= SLOTS || !self.me.is_mine() {
            return Err(Error::Gone);
        }
        {
            let mut slots = self.slots.write().unwrap_or_else(|e| e.into_inner());
            slots.try_fill(usize::from(slot) + 1, || None)?;
            let place = &mut slots[usize::from(slot)];
            if let Some(remote) = place
                && remote.lives()
            {
                return Ok(remote.clone());
            }
            // Nobody, somebody dead, or his successor.
            *place = None;
        }
        // Others are not kept waiting meanwhile: one that must be asked for its memory may be stopped.
        let remote = self.unless_silent(slot, || {
            let remote = sys::uncancelled(|| Remote::open(&self.me, &self.own, slot, self.copying))?;
            Ok(try_arc(remote)?)
        })?;
        let mut slots = self.slots.write().unwrap_or_else(|e| e.into_inner());
        let place = &mut slots[usize::from(slot)];
        if let Some(other) = place.as_ref().filter(|other| other.lives()) {
            // Another thread was faster.
            return Ok(other.clone());
        }
        *place = Some(remote.clone());
        Ok(remote)
    }

    /// Opens a process, unless it gave no answer lately: only the first to ask waits for one that is stopped.
    fn unless_silent(&self, slot: u16, open: impl FnOnce() -> Result<Arc<Remote>>) -> Result<Arc<Remote>> {
        let list = || self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = sys::coarse_now();
        {
            let mut silent = list();
            silent.retain(|(_, until)| *until > now);
            if silent.iter().any(|(other, _)| *other == slot) {
                return Err(Error::Gone);
            }
        }
        let opened = open();
        let then = sys::coarse_now();
        if opened.is_err() && then.saturating_sub(now) >= SLOW {
            list().try_push((slot, then + SILENT))?;
        }
        opened
    }
}

/// What remains of an answer where descriptors or memory alone count.
pub(crate) fn shortage(answer: Result<()>) -> Result<()> {
    match answer {
        Err(Error::Os { errno: libc::EMFILE | libc::ENFILE | libc::ENOMEM, .. } | Error::NoMemory) => answer,
        _ => Ok(()),
    }
}

impl Remote {
    fn open(me: &Arc<Segment>, own: &Host, slot: u16, copying: Copying) -> Result<Self> {
        let is_own = slot == me.owner().slot();
        let peer = if is_own { None } else { Some(try_arc(Peer::open_for(me, slot)?)?) };
        let (host, way) = match &peer {
            None => (own.within(LIMIT), None),
            Some(peer) => (Host::of_peer(me.clone(), peer.clone()), Some(copy::probe(peer)?)),
        };
        let mut thread = 0;
        let closed = match (way, &peer) {
            (Some(Way::Closed(libc::ESRCH)), Some(peer)) => {
                thread = threads::of(peer).unwrap_or(0);
                thread == 0
            }
            (Some(way), _) => matches!(way, Way::Closed(_)),
            (None, _) => !direct_to_oneself(),
        };
        // Members of a group do not reach each other's memory, whatever the kernel would let root do.
        let stranger = peer.is_some() && me.folder().is_shared();
        let closed = AtomicBool::new(closed || stranger || copying == Copying::Bounce);
        let own_image = is_own.then(Image::own);
        let host = host.with_limit(LIMIT);
        let brief = host.within(PATIENCE);
        let (scratch, woken) = (OnceLock::new(), Mutex::default());
        let (kept, kept_count) = (Mutex::default(), 0.into());
        let thread = thread.into();
        Ok(Self {
            me: me.clone(),
            peer,
            host,
            brief,
            own_image,
            thread,
            closed,
            scratch,
            woken,
            kept,
            kept_count,
        })
    }

    /// Whether it lives, as far as was known some moments ago.
    #[inline]
    pub fn lives(&self) -> bool {
        match &self.peer {
            None => self.me.is_mine(),
            Some(peer) => peer.lived_lately(),
        }
    }

    /// Asks the kernel anew whether it lives, next time.
    pub(crate) fn doubt(&self) {
        self.peer.iter().for_each(|peer| peer.doubt());
    }

    /// The other process's segment; none for this process.
    pub fn peer(&self) -> Option<&Arc<Peer>> {
        self.peer.as_ref()
    }

    /// Whether this is the own process.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.peer.is_none()
    }

    /// Whether the kernel keeps this process from the other one's memory, or, as far as can be told, the other
    /// one from this one's.
    fn is_apart(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.is_apart() || self.closed.load(Ordering::Relaxed))
    }

    /// The program to whose memory the kernel moves payload and back; `None` where the kernel refuses. To be
    /// asked before the keys are looked up.
    #[inline(always)]
    pub(crate) fn direct(&self) -> Option<Image> {
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        let image = self.peer.as_ref().map_or(self.own_image, |peer| peer.image());
        match self.thread.load(Ordering::Relaxed) {
            0 => image,
            _ if self.is_own() => image.map(|image| image.by(threads::own())),
            thread => image.map(|image| image.by(thread)),
        }
    }

    /// As [`Remote::direct`], after it refused a copy to this image; `None` also when there is no other image.
    #[cold]
    pub(crate) fn direct_anew(&self, refused: Image) -> Option<Image> {
        let other = || self.direct().filter(|image| *image != refused);
        // A thread that has ended may have left its number to another program.
        let is_by_thread = self.thread.load(Ordering::Relaxed) != 0;
        other().or_else(|| if is_by_thread && self.lives_on() { other() } else { None })
    }

    /// The kernel did not find it by its number: whether it lives all the same, with other threads than the
    /// first. By one of them, or by other ways, it is reached from now on.
    #[cold]
    pub(crate) fn lives_on(&self) -> bool {
        let thread = match &self.peer {
            None => Some(threads::own()),
            Some(peer) if !peer.lives() => return false,
            Some(peer) => threads::of(peer),
        };
        match thread {
            Some(thread) => self.thread.store(thread, Ordering::Relaxed),
            None => self.close(),
        }
        true
    }

    /// The kernel refuses to move payload: other ways are taken from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for help with payload and has not noticed, and it was not tried before to wake it
    /// by this completion queue.
    pub(crate) fn overhears(&self, cq: u32) -> bool {
        // Where there is no memory for it, it is woken once too often.
        self.peer.as_ref().is_some_and(|peer| waits_for(peer))
            && self.woken.lock().unwrap_or_else(PoisonError::into_inner).try_add(cq).unwrap_or(true)
    }

    /// Whether the lock of this datagram queue pair is kept for all that is known. One load when none is.
    #[inline]
    pub(crate) fn is_kept(&self, qp: u32) -> bool {
        self.kept_count.load(Ordering::Relaxed) > 0 && self.kept().contains(&qp)
    }

    /// Notes whether the lock of this datagram queue pair is kept.
    #[cold]
    pub(crate) fn set_kept(&self, qp: u32, is_kept: bool) {
        let mut kept = self.kept();
        // Without memory for it, it is waited for once more.
        if is_kept {
            let _ = kept.try_add(qp);
        } else {
            kept.remove(&qp);
        }
        self.kept_count.store(kept.len(), Ordering::Relaxed);
    }

    fn kept(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What payload within this process goes through where the kernel refuses to move it.
    pub(crate) fn scratch(&self) -> Option<&Scratch> {
        // One that cannot be had now is asked for again: descriptors may have run out.
        self.scratch.get().or_else(|| {
            let _ = self.scratch.set(Scratch::new().ok()?);
            self.scratch.get()
        })
    }

    /// Its segment's memory.
    pub fn memory(&self) -> &Memory {
        self.peer.as_ref().map_or_else(|| self.me.memory(), |peer| peer.memory())
    }

    /// Its table of keys, as a peer sees it.
    #[inline]
    pub fn keys(&self) -> Table<'_> {
        self.peer.as_ref().map_or_else(|| Table::shared(&self.me), |peer| Table::of(peer))
    }

    /// The lock of atomic operations on these eight bytes of its memory.
    pub fn atomics_lock(&self, addr: u64) -> Result<&Lock> {
        self.peer.as_ref().map_or_else(|| self.me.atomics_lock(addr), |peer| peer.atomics_lock(addr))
    }

    /// The name it signs with.
    pub(crate) fn owner(&self) -> Owner {
        self.peer.as_ref().map_or_else(|| self.me.owner(), |peer| peer.owner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::folder::{Config, Folder};
    use crate::shm::testing::TestDir;

    #[test]
    fn nobody_writes_directly_to_others_of_a_group() {
        let dir = TestDir::new("peers");
        let group = nix::unistd::getgid().as_raw();
        for group in [None, Some(group)] {
            let path = dir.path().join(if group.is_some() { "group" } else { "own" });
            let folder = Arc::new(Folder::open(&Config { path, group }).unwrap());
            let open = || Arc::new(Segment::create(folder.clone()).unwrap());
            let (me, other) = (open(), open());
            let peers = Peers::new(me.clone(), Host::own(me.clone()), Copying::Auto);
            let way = |segment: &Segment| peers.get(segment.owner().slot()).unwrap().direct();
            assert_eq!(way(&other).is_some(), group.is_none() && direct_to_oneself());
            assert_eq!(way(&me).is_some(), direct_to_oneself());
        }
    }
}
