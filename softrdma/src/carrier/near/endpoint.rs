//! What this process has in the folder, and what it sees of others: all that carrying out a request needs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ironverbs_os::barrier;
use ironverbs_os::growth::try_arc;
use ironverbs_os::network::Network;

use crate::shm::Result;
use crate::shm::addresses::{self, EVERYBODY, is_group, is_interface_local, is_local};
use crate::shm::bounce::{CopyService, Copying, Origin, Piece, Purpose, Registered, with_keys};
use crate::shm::folder::{Config, Folder};
use crate::shm::keys::Keys;
use crate::shm::numbering::Numbering;
use crate::shm::objects::{Host, LOCK_LIMIT, Objects};
use crate::shm::segment::Segment;
use crate::shm::slot;

use super::number::number;
use super::peers::{Peers, Remote};
use super::permissions::Permissions;

/// See the module.
#[derive(Debug)]
pub struct Endpoint {
    /// The own segment.
    pub segment: Arc<Segment>,
    /// The own objects.
    pub objects: Objects,
    /// The own keys.
    pub keys: Arc<Keys>,
    /// What it goes by besides, in a folder that it shares with other users.
    pub(crate) permissions: Option<Arc<Permissions>>,
    /// This process's part of copies that the kernel refuses.
    copy_service: CopyService,
    /// Barriers of other processes are this one's, too.
    pub(crate) has_barriers: bool,
    /// Whether the kernel is likely to refuse.
    likely: bool,
    /// The own segment, as transactions see it.
    pub own: Host,
    /// Other processes, and this one, by slot.
    pub peers: Peers,
    /// Not behind the lock of the addresses: the child of a fork asks for it.
    network: Option<Network>,
    /// The addresses of the device.
    addresses: Mutex<addresses::Own>,
    /// When the folder had changed as it was looked through for strangers; 0 before, and when it may have
    /// changed since.
    looked_at: AtomicU64,
}

impl Endpoint {
    /// Claims a slot in the folder.
    ///
    /// # Errors
    /// As those of [`Folder::open`] and [`Segment::create`].
    pub fn open(config: &Config, copying: Copying) -> Result<Self> {
        Self::open_with(config, copying, Numbering::InOrder)
    }

    /// The same, where numbers of queue pairs and memory keys are chosen so.
    ///
    /// # Errors
    /// As those of [`Endpoint::open`].
    pub(crate) fn open_with(config: &Config, copying: Copying, numbering: Numbering) -> Result<Self> {
        // Before others see the process and find out what they may.
        let likely = copying.prepare() || config.group.is_some();
        let segment = Segment::create_with(try_arc(Folder::open(config)?)?, numbering)?;
        let segment = try_arc(segment)?;
        let likely = likely || !segment.is_reachable();
        let objects = Objects::new(segment.clone())?;
        let keys = try_arc(Keys::new(segment.clone())?)?;
        let permissions = segment
            .folder()
            .is_shared()
            .then(|| try_arc(Permissions::new(segment.owner().slot())))
            .transpose()?;
        let copy_service = CopyService::new(segment.clone());
        let own = Host::own(segment.clone());
        let peers = Peers::new(segment.clone(), own.within(LOCK_LIMIT), copying);
        let network = Network::current();
        let addresses = Mutex::new(addresses::Own::new(network));
        let looked_at = AtomicU64::new(0);
        let endpoint = Self {
            segment,
            objects,
            keys,
            permissions,
            copy_service,
            has_barriers: barrier::register(),
            likely,
            own,
            peers,
            network,
            addresses,
            looked_at,
        };
        endpoint.set_gids(&[]);
        Ok(endpoint)
    }

    /// Helps peers that the kernel keeps from this process's memory, when one asked for it. One load otherwise.
    #[inline]
    pub fn help_if_wanted(&self) {
        if self.copy_service.wanted() {
            self.help();
        }
    }

    /// Helps from now on where the kernel is likely to keep peers from this process's memory: they cannot ask
    /// while the program sleeps. For a process that has registered memory.
    pub fn help_if_likely(&self) {
        if self.likely {
            self.help_from_now_on();
        }
    }

    /// Helps from now on, if it does not yet.
    pub fn help_from_now_on(&self) {
        if !self.copy_service.serving() {
            self.help();
        }
    }

    /// Begins to help.
    #[cold]
    pub fn help(&self) {
        // Without help a peer's request gets no answer, and is tried again.
        let (keys, permissions) = (self.keys.clone(), self.permissions.clone());
        if let Ok(registry) = try_arc(Registry { keys, permissions }) {
            let _ = self.copy_service.serve(registry);
        }
    }

    /// Whether an own request may use an own piece of memory for this, where others could have written what
    /// it goes by.
    pub(crate) fn admits(&self, purpose: Purpose, origin: &Origin, piece: &Piece) -> bool {
        let Some(permissions) = &self.permissions else { return true };
        let entry = self.keys.local(piece.key);
        piece.len == 0
            || entry.is_some_and(|entry| permissions.with(purpose, origin, piece, &entry, &mut || {}))
    }

    /// Helps no longer.
    pub fn stop_helping(&self) {
        self.copy_service.stop();
    }

    /// The same, as the process is about to end ([`CopyService::stop_in_time`]).
    pub fn stop_helping_in_time(&self) -> bool {
        self.copy_service.stop_in_time()
    }

    /// Makes sure that a peer is within reach as long as it lives, as [`Peers::prepare`] says, and that it can
    /// have payload from here while the program sleeps, where the kernel keeps the two from each other.
    ///
    /// # Errors
    /// Descriptors or memory have run out.
    pub fn prepare(&self, qp_num: u32) -> Result<()> {
        let is_apart = self.peers.prepare(qp_num)?;
        if is_apart {
            self.help_from_now_on();
        }
        Ok(())
    }

    /// Makes sure that processes of other namespaces reach this one by datagrams, as far as some are there or
    /// may be expected: they say nothing before, and what finds no way is lost.
    pub fn expect_strangers(&self) {
        if self.segment.hand_out_to_strangers() == Ok(true) {
            self.help_from_now_on();
        }
    }

    /// The same for who knows of a peer by now, which may be such a process and have come since. Looks into the
    /// folder when that has changed, as long as nobody was expected.
    pub fn expect_answers(&self) {
        if self.segment.hands_out() {
            return;
        }
        let changed = self.segment.folder().changed();
        let known = self.looked_at.swap(changed.unwrap_or(0), Ordering::Relaxed);
        if changed != Some(known) {
            self.expect_strangers();
        }
    }

    /// Says which addresses are the device's own now, and tells whether others are than before. One that the
    /// host lost stays known: what is under way by it goes on.
    pub fn set_gids(&self, gids: &[[u8; 16]]) -> bool {
        self.segment.is_mine()
            && self.segment.addresses().is_ok_and(|table| self.addresses().set(table, gids))
    }

    /// The network namespace that the process was in when it opened the device; `None` where the kernel did not
    /// tell.
    #[must_use]
    pub fn network(&self) -> Option<Network> {
        self.network
    }

    /// Whether this is an address of the own device.
    pub(crate) fn has_address(&self, gid: &[u8; 16]) -> bool {
        self.addresses().has(gid)
    }

    /// Whether an address is the own device's, or that of another process of the folder.
    pub(crate) fn is_near(&self, gid: &[u8; 16]) -> bool {
        let is_theirs = |slot| self.peers.get(slot).is_some_and(|remote| self.reaches(&remote, gid));
        let others = || slot::claimed(self.segment.folder()).unwrap_or_default();
        self.has_address(gid) || others().into_iter().any(is_theirs)
    }

    fn addresses(&self) -> MutexGuard<'_, addresses::Own> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message to this address may go to that process: within a network namespace, to each address
    /// that one of the two has or had; else to those that it says to have or have had, and never to those that
    /// mean something in one namespace alone. The address of everybody is its own, too.
    pub(crate) fn reaches(&self, remote: &Remote, gid: &[u8; 16]) -> bool {
        if *gid == EVERYBODY {
            return true;
        }
        let own = self.addresses();
        let Some(table) = remote.peer().map(|peer| peer.addresses()) else {
            return own.has(gid) || is_group(gid);
        };
        let Ok(table) = table else { return false };
        let is_near = self.network.is_some_and(|network| table.is_in(network));
        if is_group(gid) {
            is_near || !is_interface_local(gid)
        } else if is_near {
            own.has(gid) || table.has(gid)
        } else {
            !is_local(gid) && table.has(gid)
        }
    }

    /// The number of an own queue pair or shared receive queue.
    #[must_use]
    pub fn number(&self, index: u32) -> u32 {
        number(self.segment.owner().slot(), index)
    }
}

/// The own keys, as copies for others look at them.
struct Registry {
    keys: Arc<Keys>,
    permissions: Option<Arc<Permissions>>,
}

impl Registered for Registry {
    fn with(&self, purpose: Purpose, origin: &Origin, piece: &Piece, access: &mut dyn FnMut()) -> bool {
        with_keys(&self.keys, purpose, piece, &mut |entry| match &self.permissions {
            None => {
                access();
                true
            }
            Some(permissions) => permissions.with(purpose, origin, piece, entry, access),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::testing::TestDir;

    #[test]
    fn a_message_goes_where_the_targets_list_says() {
        let dir = TestDir::new("endpoint");
        let config = Config { path: dir.path().join("f"), group: None };
        let open = || Endpoint::open(&config, Copying::Auto).unwrap();
        let (endpoint, near, far) = (open(), open(), open());
        let gid = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let [own, theirs, nowhere] = ["::ffff:10.0.0.1", "fd00::2", "fd00::3"].map(gid);
        let local = ["::1", "::ffff:127.0.0.1", "fe80::1"].map(gid);
        let with_local = |address| [&[address], &local[..]].concat();
        endpoint.set_gids(&with_local(own));
        near.set_gids(&with_local(theirs));
        far.set_gids(&with_local(theirs));
        // As a process of another namespace would have it.
        far.segment.addresses().unwrap()[1].fetch_add(1, Ordering::Relaxed);
        let remote = |other: &Endpoint| endpoint.peers.get(other.segment.owner().slot()).unwrap();
        let reached = |other: &Endpoint, gid: &[u8; 16]| endpoint.reaches(&remote(other), gid);
        for gid in local.iter().chain([&own]) {
            assert!(reached(&endpoint, gid) && reached(&near, gid) && !reached(&far, gid), "{gid:x?}");
        }
        assert!(!reached(&endpoint, &theirs) && reached(&near, &theirs) && reached(&far, &theirs));
        assert!(!reached(&endpoint, &nowhere) && !reached(&near, &nowhere) && !reached(&far, &nowhere));
        let [interface, link, v4] = ["ff01::1", "ff02::1", "::ffff:224.0.0.1"].map(gid);
        assert!(reached(&near, &interface) && !reached(&far, &interface));
        for group in [link, v4] {
            assert!(reached(&endpoint, &group) && reached(&near, &group) && reached(&far, &group));
        }
        // What both claim is told apart by the queue pair's number: each of them is reached.
        far.set_gids(&with_local(own));
        assert!(reached(&far, &own) && reached(&near, &own));
    }

    /// A child of a fork may find them locked by a thread that it does not have, and asks for its GIDs.
    #[test]
    fn the_network_is_told_while_the_addresses_are_locked() {
        let dir = TestDir::new("endpoint-network");
        let config = Config { path: dir.path().join("f"), group: None };
        let endpoint = Endpoint::open(&config, Copying::Auto).unwrap();
        let held = endpoint.addresses();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(|| tell.send(endpoint.network()));
            let network = told.recv_timeout(std::time::Duration::from_secs(300));
            drop(held);
            assert_eq!(network, Ok(Network::current()));
        });
    }
}
