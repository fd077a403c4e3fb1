//! Other processes of the folder, opened once and looked at again when they may have died.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use crate::host::copy::{self, Way};
use crate::host::ferry::{Copying, Scratch, direct_to_oneself};
use crate::host::keys::ROOT;
use crate::host::lock::{Lock, SLOTS};
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
    /// Whether the kernel copies between this process and that one, as far as is known.
    direct: AtomicBool,
    /// For payload within this process where the kernel does not.
    scratch: Option<Scratch>,
}

/// What carries payload between this process and another.
pub(super) enum Carrier<'a> {
    /// The kernel, straight: [`copy`].
    Kernel,
    /// The other process, with shared memory in between: [`ferry`](crate::host::ferry).
    Ferry(&'a Peer),
    /// Within this process, a file in between.
    Scratch(&'a Scratch),
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
        let me = me.clone();
        if slot == me.owner().slot() {
            let direct = copying == Copying::Auto && direct_to_oneself();
            let scratch = if direct { None } else { Some(Scratch::new()?) };
            let host = Host::own(me.clone()).with_limit(LIMIT);
            return Ok(Self { me, peer: None, host, direct: direct.into(), scratch });
        }
        let peer = Arc::new(Peer::open(me.folder(), slot)?);
        let direct = copying == Copying::Auto && matches!(copy::probe(&peer)?, Way::Direct(_));
        let host = Host::of_peer(me.clone(), peer.clone()).with_limit(LIMIT);
        Ok(Self { me, peer: Some(peer), host, direct: direct.into(), scratch: None })
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

    /// Its process id; `None` when it is dead or cannot be seen from here.
    pub fn pid(&self) -> Option<libc::pid_t> {
        match &self.peer {
            // SAFETY: reads a number of the process.
            None => Some(unsafe { libc::getpid() }),
            Some(peer) => peer.pid().ok()?,
        }
    }

    /// How payload travels, as far as is known.
    pub(super) fn carrier(&self) -> Carrier<'_> {
        match (&self.peer, &self.scratch) {
            _ if self.direct.load(Ordering::Relaxed) => Carrier::Kernel,
            (Some(peer), _) => Carrier::Ferry(peer),
            (None, Some(scratch)) => Carrier::Scratch(scratch),
            (None, None) => Carrier::Kernel,
        }
    }

    /// Remembers that the kernel copies no longer.
    #[cold]
    pub(super) fn is_closed(&self) {
        self.direct.store(false, Ordering::Relaxed);
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

    /// The lock of atomic operations on its memory.
    pub fn atomics_lock(&self) -> Result<&Lock> {
        self.peer.as_ref().map_or_else(|| self.me.atomics_lock(), |peer| peer.atomics_lock())
    }
}
