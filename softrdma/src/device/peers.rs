//! Other processes of the folder, opened once and looked at again when they may have died.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crate::core::respond::MoveError;
use crate::host::copy::{self, Way};
use crate::host::ferry::{Copying, Scratch, direct_to_oneself, waits_for};
use crate::host::keys::ROOT;
use crate::host::lock::{Lock, Owner, SLOTS};
use crate::host::memory::Memory;
use crate::host::objects::Host;
use crate::host::segment::{Peer, Segment};
use crate::host::{Error, Result};

/// How long a lock of another process's objects is waited for. Who waits in vain tries again later, as with any peer
/// that gives no answer.
const LIMIT: Duration = Duration::from_secs(1);

/// Every process of the folder that this one has to do with, by slot.
#[derive(Debug)]
pub struct Peers {
    me: Arc<Segment>,
    copying: Copying,
    slots: RwLock<Vec<Option<Arc<Remote>>>>,
}

/// A process, as who sends to it knows it. It may be this process.
#[derive(Debug)]
pub struct Remote {
    me: Arc<Segment>,
    /// None for this process.
    peer: Option<Arc<Peer>>,
    /// Its segment, as transactions see it.
    pub host: Host,
    own_pid: Option<libc::pid_t>,
    /// The kernel moves no payload between the two.
    closed: AtomicBool,
    /// What payload within this process goes through then.
    scratch: OnceLock<Option<Scratch>>,
    /// Completion queues whose bells were rung for it to help with payload.
    woken: Mutex<HashSet<u32>>,
}

impl Peers {
    /// Nobody is known yet.
    #[must_use]
    pub fn new(me: Arc<Segment>, copying: Copying) -> Self {
        Self { me, copying, slots: RwLock::default() }
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
        self.open(slot)
    }

    #[cold]
    fn open(&self, slot: u16) -> Option<Arc<Remote>> {
        if slot >= SLOTS || !self.me.is_mine() {
            return None;
        }
        let mut slots = self.slots.write().unwrap_or_else(|e| e.into_inner());
        if slots.len() <= usize::from(slot) {
            slots.resize(usize::from(slot) + 1, None);
        }
        let place = &mut slots[usize::from(slot)];
        if place.as_ref().is_none_or(|remote| !remote.lives()) {
            // Nobody, somebody dead, or his successor.
            *place = Remote::open(&self.me, slot, self.copying).ok().map(Arc::new);
        }
        place.clone()
    }
}

impl Remote {
    fn open(me: &Arc<Segment>, slot: u16, copying: Copying) -> Result<Self> {
        let own = slot == me.owner().slot();
        let peer = if own { None } else { Some(Arc::new(Peer::open(me.folder(), slot)?)) };
        let (host, closed) = match &peer {
            None => (Host::own(me.clone()), !direct_to_oneself()),
            Some(peer) => {
                (Host::of_peer(me.clone(), peer.clone()), matches!(copy::probe(peer)?, Way::Closed(_)))
            }
        };
        // In a group's folder the peer's table of keys may say what a third member wrote there. The peer itself looks at
        // its private books when it does its half of the copy.
        let stranger = peer.is_some() && me.folder().is_shared();
        let closed = AtomicBool::new(closed || stranger || copying == Copying::Ferry);
        // SAFETY: reads a number of the process.
        let own_pid = own.then(|| unsafe { libc::getpid() });
        let host = host.with_limit(LIMIT);
        let (scratch, woken) = (OnceLock::new(), Mutex::default());
        Ok(Self { me: me.clone(), peer, host, own_pid, closed, scratch, woken })
    }

    /// Whether it lives, as far as was known some moments ago.
    #[inline]
    pub fn lives(&self) -> bool {
        match &self.peer {
            None => self.me.is_mine(),
            Some(peer) => !matches!(peer.pid(), Err(Error::Gone)),
        }
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

    /// The process id by which the kernel moves payload to it and back; `None` where the kernel refuses.
    ///
    /// # Errors
    /// It is dead.
    pub(super) fn direct(&self) -> std::result::Result<Option<libc::pid_t>, MoveError> {
        let pid = match &self.peer {
            None => self.own_pid,
            Some(peer) => peer.pid().map_err(|_| MoveError::Gone)?,
        };
        Ok(pid.filter(|_| !self.closed.load(Ordering::Relaxed)))
    }

    /// The kernel refuses to move payload: other ways are taken from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for help with payload and has not noticed, and it was not tried before to wake it by this
    /// completion queue.
    pub(super) fn overhears(&self, cq: u32) -> bool {
        self.peer.as_ref().is_some_and(|peer| waits_for(peer))
            && self.woken.lock().unwrap_or_else(PoisonError::into_inner).insert(cq)
    }

    /// What payload within this process goes through where the kernel refuses to move it.
    pub(super) fn scratch(&self) -> Option<&Scratch> {
        self.scratch.get_or_init(|| Scratch::new().ok()).as_ref()
    }

    /// Its segment's memory.
    pub fn memory(&self) -> &Memory {
        self.peer.as_ref().map_or_else(|| self.me.memory(), |peer| peer.memory())
    }

    /// Where its table of keys is.
    pub fn keys(&self) -> u64 {
        match &self.peer {
            None => self.me.root(ROOT).map_or(0, |root| root.load(Ordering::Acquire)),
            Some(peer) => peer.root(ROOT).unwrap_or(0),
        }
    }

    /// The lock of atomic operations on these eight bytes of its memory.
    pub fn atomics_lock(&self, addr: u64) -> Result<&Lock> {
        self.peer.as_ref().map_or_else(|| self.me.atomics_lock(addr), |peer| peer.atomics_lock(addr))
    }

    /// The name it signs with.
    pub(super) fn owner(&self) -> Owner {
        self.peer.as_ref().map_or_else(|| self.me.owner(), |peer| peer.owner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::folder::{Config, Folder};
    use crate::host::testing::TestDir;

    #[test]
    fn nobody_writes_directly_by_a_table_that_others_of_a_group_can_change() {
        let dir = TestDir::new("peers");
        // SAFETY: reads a number of the process.
        let group = unsafe { libc::getgid() };
        for group in [None, Some(group)] {
            let path = dir.path().join(if group.is_some() { "group" } else { "own" });
            let folder = Arc::new(Folder::open(&Config { path, group }).unwrap());
            let open = || Arc::new(Segment::create(folder.clone()).unwrap());
            let (me, other) = (open(), open());
            let peers = Peers::new(me.clone(), Copying::Auto);
            let way = |segment: &Segment| peers.get(segment.owner().slot()).unwrap().direct().unwrap();
            assert_eq!(way(&other).is_some(), group.is_none() && direct_to_oneself());
            assert_eq!(way(&me).is_some(), direct_to_oneself());
        }
    }
}
