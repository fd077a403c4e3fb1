//! The engine: one device per process, and the objects of the verbs on it.
//!
//! | file | what |
//! |---|---|
//! | [`mod@self`] | the device: its segment, its tables, protection domains |
//! | `memory`, `dma_buf` | memory regions, memory windows, memory of the device; parts of dma-bufs |
//! | `channel`, `events` | what a program sleeps on: completion channels and asynchronous events |
//! | `completion` | completion queues: poll, arm, resize |
//! | `comp_counter` | completion counters |
//! | `receive`, `srq` | receive requests: rings of queue pairs, shared receive queues |
//! | `qp`, `qp_attributes` | queue pairs: create, modify, query, destroy; which changes are accepted |
//! | `alone` | requests that are looked at: each by itself, as packets in a capture |
//! | `send` | the send queue: what is carried out at once, what waits in a ring |
//! | `plain`, `plain_datagram` | sends and datagrams of one piece of memory, where nothing is in their way |
//! | `one_sided` | writes and reads likewise |
//! | `datagrams` | datagrams to and from other hosts |
//! | `far`, `network` | queue pairs that are connected to other hosts; packets that come for them |
//! | `retry` | requests that wait: tried again by later calls, and by a thread in time |
//! | `link` | the port's link, where faults on request take it down |
//! | `idle` | threads that poll in vain while others want the processors |
//! | `stuck` | queues moved away from peers that have their locks and do not go on |
//! | `deferred` | objects that were destroyed while a peer had their lock |
//! | `multicast`, `xrc` | multicast groups; XRC domains and queue pairs opened by others |
//!
//! Every object may be used from any thread. Locks are taken in this order: the process's own (an object's
//! mutex), then a queue pair's in shared memory, a shared receive queue's, a completion queue's. Against that
//! order a lock is only tried ([`completion_order`](crate::carrier::near::completion_order)).
//!
//! # A message
//!
//! Two queue pairs, here of one process, are brought up with each other's number; one posts a buffer, the other
//! sends.
//!
//! ```
//! use softrdma::rules::qp;
//! use softrdma::rules::receive::Sge;
//! use softrdma::rules::request::Operands;
//! use softrdma::rules::verbs::{Access, Attr, Opcode, QpState, QpType, SendFlags, Status};
//! use softrdma::device::*;
//! use softrdma::shm::folder::Config;
//!
//! # fn main() -> Result<()> {
//! let gid = [7; 16];
//! let path = format!("/dev/shm/example-{}", std::process::id()).into();
//! let folder = Config { path, group: None };
//! # let place = folder.path.clone();
//! let device = Device::open(&Settings { folder, copying: Copying::Auto, network: false })?;
//! device.set_gids(&[gid]);
//! let (pd, events) = (device.alloc_pd()?, EventQueue::new(&device)?);
//! let cq = CompletionQueue::new(&device, 16, None, &events, 0, CqFlags::default())?;
//! let create = || {
//!     let cap = Capabilities {
//!         max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0,
//!     };
//!     QueuePair::new(&device, &QpInit {
//!         qp_type: QpType::Uc, pd, send_cq: Some(cq.clone()), recv_cq: Some(cq.clone()), srq: None, cap,
//!         sq_sig_all: true, blocks_own_multicast: false, xrcd: None, events: events.clone(), cookie: 0,
//!     })
//! };
//! let (one, other) = (create()?, create()?);
//! for (qp, peer) in [(&one, &other), (&other, &one)] {
//!     let path = Path { dgid: gid, is_global: true, port_num: 1, ..Path::default() };
//!     for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
//!         let (required, _) = qp::attributes(QpType::Uc, qp.state(), state).unwrap();
//!         qp.modify(required.union(Attr::STATE), &Attributes {
//!             state, path, port_num: 1, path_mtu: 5, dest_qp_num: peer.qp_num(), ..Attributes::default()
//!         })?;
//!     }
//! }
//! let mut buffer = *b"hello.....";
//! let start = buffer.as_mut_ptr() as u64;
//! let region = device.register(pd, start, 10, start, Access::LOCAL_WRITE)?;
//! let piece = |offset| Sge { addr: start + offset, length: 5, lkey: region.lkey };
//! other.post_receive(2, &[piece(5)]).unwrap();
//! one.post_send(&Wr {
//!     wr_id: 1, opcode: Opcode::Send, flags: SendFlags::SIGNALED, data: Data::Sges(&[piece(0)]),
//!     operands: Operands::None, imm_or_key: 0, srq_num: 0, datagram: None,
//! }).unwrap();
//! let mut done = Vec::new();
//! while done.len() < 2 {
//!     cq.poll(2, &mut |completion| done.push((completion.wr_id, completion.status)));
//! }
//! done.sort_by_key(|one| one.0);
//! assert_eq!(done, [(1, Status::Success), (2, Status::Success)]);
//! assert_eq!(&std::hint::black_box(buffer), b"hellohello");
//! # one.destroy()?;
//! # other.destroy()?;
//! # let _ = std::fs::remove_dir_all(place);
//! # Ok(())
//! # }
//! ```

mod acknowledgement;
mod alone;
mod answers;
mod channel;
mod comp_counter;
mod completion;
mod datagrams;
mod deferred;
mod dma_buf;
mod events;
mod far;
mod frozen;
mod idle;
mod link;
mod memory;
mod multicast;
mod network;
mod one_sided;
mod plain;
mod plain_datagram;
mod qp;
mod qp_attributes;
mod receive;
mod retry;
mod send;
mod srq;
mod stuck;
mod transmission;
mod waiting;
mod xrc;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use ironverbs_os::environment;
use ironverbs_os::growth::{TryFill, TryInsert, TryPush, try_arc_cyclic, try_filled};
use ironverbs_os::network::Network;

use crate::queues::shared::Object;
use crate::shm::folder;
use crate::shm::numbering::Numbering;

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::multicast::MEMBERS;
use crate::carrier::near::{direct, number};
use events::Subscribers;
use retry::Retries;

pub use crate::carrier::far::management::{Between, Management};
pub use crate::carrier::far::network::Missing;
pub use crate::carrier::far::port::examination::{Cut, Examination, examine as examine_port};
pub use crate::carrier::far::port::mtu::{interface_mtu, roce_mtu};
pub use crate::carrier::far::port::number::udp_port;
pub use crate::carrier::far::port::socket::SmallRoom;
pub use crate::carrier::far::way::Route;
pub use crate::carrier::wr::{BindWindow, Data, Datagram, OneSided, Operands, PlainSend, Wr};
use crate::error::busy;
pub use crate::error::{Error, Result};
pub use crate::rules::request::Rejected;
pub use crate::shm::bounce::Copying;
pub use crate::wire::management::MAD_BYTES;
pub use channel::Channel;
pub use comp_counter::{CompletionCounter, Counted, Operations};
pub use completion::{CompletionQueue, CqFlags};
pub use dma_buf::DmaBuf;
pub use events::EventQueue;
pub use link::{LinkWatch, is_link_down};
pub use memory::{DeviceMemory, QueriedRegion, Region, WindowType};
pub use qp::{QpInit, QueuePair};
pub use qp_attributes::{Attributes, Capabilities, LID, Path, Queried, Source};
pub use send::Sending;
pub use srq::{SharedReceiveQueue, SrqInit, SrqType};
pub use xrc::{OpenedQp, XrcDomain};

/// Where the processes of this device meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The shared folder.
    pub folder: folder::Config,
    /// How payload travels.
    pub copying: Copying,
    /// Whether other hosts are reached, and reach this one.
    pub network: bool,
}

impl Settings {
    /// What the environment asks for.
    ///
    /// # Errors
    /// [`Error::Host`] and [`Error::Invalid`] when it asks for something impossible.
    pub fn from_env() -> Result<Self> {
        let copying = environment::trusted("IRONVERBS_SOFT_COPY").unwrap_or_default();
        let copying = copying.to_str().and_then(Copying::from_name);
        let copying = copying.ok_or(Error::Invalid("IRONVERBS_SOFT_COPY"))?;
        Ok(Settings { folder: folder::Config::from_env()?, copying, network: Self::asks_for_network() })
    }
}

impl Settings {
    /// Whether the environment asks for other hosts.
    #[must_use]
    pub fn asks_for_network() -> bool {
        environment::trusted("IRONVERBS_SOFT_NETWORK").is_some_and(|value| !value.is_empty() && value != "0")
    }

    /// Whether the environment puts a GID on the network that is an address of an interface of this name.
    #[must_use]
    pub fn is_on_network(gid: [u8; 16], interface: &str) -> bool {
        let Some(value) = environment::trusted("IRONVERBS_SOFT_NETWORK") else { return false };
        let Some(value) = value.to_str().filter(|value| !value.is_empty() && *value != "0") else {
            return false;
        };
        let address = Ipv6Addr::from(gid).to_canonical();
        let is_named = |name: &str| name == interface || name.parse::<IpAddr>() == Ok(address);
        if value == "1" { !address.is_loopback() } else { value.split(',').any(is_named) }
    }
}

/// The most that the device offers (`struct ibv_device_attr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs of a process.
    pub max_qp: u32,
    /// Requests of a send, receive or shared receive queue.
    pub max_qp_wr: u32,
    /// Scatter/gather elements of a request.
    pub max_sge: u32,
    /// Bytes of inline data of a request.
    pub max_inline_data: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Bytes of a memory region.
    pub max_mr_size: u64,
    /// Memory windows.
    pub max_mw: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// `max_rd_atomic` and `max_dest_rd_atomic` of a queue pair.
    pub max_rd_atomic: u8,
    /// Multicast groups that a process's queue pairs can be in.
    pub max_mcast_grp: u32,
    /// Queue pairs of a process in one group.
    pub max_mcast_qp_attach: u32,
    /// Bytes of a message.
    pub max_msg_sz: u32,
    /// Bytes of device memory.
    pub max_dm_size: u64,
    /// Completion counters.
    pub max_comp_cntr: u32,
}

/// The limits of every device.
pub const LIMITS: Limits = Limits {
    max_qp: number::MAX_NUMBERED,
    max_qp_wr: 16 << 10,
    max_sge: 32,
    max_inline_data: 1024,
    max_cq: 1 << 16,
    max_cqe: 1 << 20,
    max_srq: number::MAX_NUMBERED,
    max_srq_wr: 16 << 10,
    max_mr: 1 << 20,
    max_mr_size: 1 << 63,
    max_mw: 1 << 20,
    max_pd: 1 << 20,
    max_rd_atomic: 128,
    max_mcast_grp: MEMBERS as u32,
    max_mcast_qp_attach: MEMBERS as u32,
    max_msg_sz: 1 << 30,
    max_dm_size: 256 << 20,
    max_comp_cntr: 1 << 16,
};

/// The device of this process. All contexts share it; a forked child opens its own.
#[derive(Debug)]
pub struct Device {
    pub(crate) endpoint: Endpoint,
    pub(crate) retries: Retries,
    subscribers: Subscribers,
    domains: Mutex<Domains>,
    xrc_domains: Mutex<xrc::Domains>,
    windows: Mutex<memory::Windows>,
    groups: multicast::Groups,
    deferred: deferred::Deferred,
    /// Direct rings that no queue pair has.
    rings: direct::Rings,
    /// Memory of longer messages in them.
    pools: direct::Pools,
    /// The same of what rings into shared receive queues go by.
    boards: direct::Boards,
    watched: stuck::Watched,
    finders: idle::Finders,
    /// Queue pairs and shared receive queues by index.
    queue_pairs: RwLock<Vec<Weak<QueuePair>>>,
    shared_queues: RwLock<Vec<Weak<SharedReceiveQueue>>>,
    completion_queues: RwLock<Vec<Weak<CompletionQueue>>>,
    /// How many completion counters there are.
    comp_counters: AtomicU32,
    /// By queue pair: places of the send queue that requests have whose completion nobody polled.
    unpolled: Box<[AtomicU32; COUNTERS]>,
    /// By queue pair: the protection domain of its receive requests; 0 where there is no queue pair,
    /// [`MANY_DOMAINS`] for an XRC target.
    receive_pds: Box<[AtomicU32; COUNTERS]>,
    epoch: u64,
    /// The way to other hosts.
    net: Option<network::Net>,
    no_network: Option<Missing>,
}

/// One for each queue pair; a power of two, so that no division finds one.
const COUNTERS: usize = (number::MAX_NUMBERED as usize).next_power_of_two();

/// No protection domain's number: the domains of an XRC target are those of the shared receive queues.
const MANY_DOMAINS: u32 = u32::MAX;

/// Protection domains, and how many objects are in each.
#[derive(Debug, Default)]
struct Domains {
    last: u32,
    users: HashMap<u32, u32>,
}

impl Device {
    /// Claims a place among the processes of the folder.
    ///
    /// # Errors
    /// [`Error::Host`] when the folder cannot be used or is full; [`Error::NoMemory`].
    pub fn open(settings: &Settings) -> Result<Arc<Self>> {
        // What other hosts may name is not to be guessed.
        let numbering = if settings.network { Numbering::AtRandom } else { Numbering::InOrder };
        let endpoint = Endpoint::open_with(&settings.folder, settings.copying, numbering)?;
        let groups = multicast::Groups::default();
        let (unpolled, receive_pds, finders) = (counters()?, counters()?, idle::Finders::new()?);
        crate::capture::begin();
        crate::faults::begin();
        let (net, no_network) =
            match settings.network.then(|| network::Net::open(endpoint.segment.owner().slot())) {
                None => (None, None),
                Some(Ok(net)) => (Some(net), None),
                Some(Err(why)) => (None, Some(why)),
            };
        let device = try_arc_cyclic(|device| Self {
            net,
            no_network,
            endpoint,
            retries: Retries::new(device.clone()),
            subscribers: Subscribers::default(),
            domains: Mutex::default(),
            xrc_domains: Mutex::default(),
            windows: Mutex::default(),
            groups,
            deferred: deferred::Deferred::default(),
            rings: direct::Rings::default(),
            pools: direct::Pools::default(),
            boards: direct::Boards::default(),
            watched: stuck::Watched::default(),
            finders,
            queue_pairs: RwLock::default(),
            shared_queues: RwLock::default(),
            completion_queues: RwLock::default(),
            comp_counters: 0.into(),
            unpolled,
            receive_pds,
            epoch: ironverbs_os::clock::now(),
        })?;
        device.watch();
        if let Some(net) = &device.net {
            net.start(Arc::downgrade(&device));
        }
        Ok(device)
    }

    /// Why other hosts are not reached, although that was asked for.
    #[must_use]
    pub fn no_network(&self) -> Option<Missing> {
        self.no_network
    }

    /// Where the device has a network: whether there is less room for packets that come than there should be,
    /// and whether packets of one message leave by one call, as far as the kernel says.
    #[must_use]
    pub fn network_means(&self) -> Option<(Option<SmallRoom>, bool)> {
        let own = self.network_way()?.port().own();
        Some((own.small_room(), own.sends_trains()))
    }

    /// Whether the caller is the process that opened the device, not a child forked later, and has not left.
    #[must_use]
    pub fn is_mine(&self) -> bool {
        self.endpoint.segment.is_mine()
    }

    /// Leaves the other processes, as this one is about to end: for them it is dead from here on, so posting is
    /// refused from here on, and polling finds nothing. To be called when no thread of the program is at work
    /// with it; the device's own thread is stopped. False, with nothing done, where that does not stop in time,
    /// and in a forked child.
    pub fn leave(&self) -> bool {
        self.leave_if(|| true)
    }

    /// The same, unless a thread of the program may be at work with it: `are_at_rest` is asked while each
    /// thread that comes is refused, which it is no longer where the answer is no.
    ///
    /// Asks for no memory, and waits for nothing longer than a moment: a signal handler may end the process,
    /// wherever the program was, in the C library's allocator or here with a lock. False where that is in the
    /// way.
    pub fn leave_if(&self, are_at_rest: impl FnOnce() -> bool) -> bool {
        self.send_acknowledgements_now();
        self.is_mine()
            && self.retries.stop()
            && self.endpoint.stop_helping_in_time()
            && self.endpoint.segment.leave_if(are_at_rest)
    }

    /// The program has closed its last context: its thread stops, so that the device ends with the caller's
    /// reference. What objects that were not destroyed keep of it is memory: for the other processes this one
    /// has [left](Device::leave).
    pub fn close(self: &Arc<Self>) {
        if self.is_mine() && self.retries.stop() && Arc::strong_count(self) > 1 {
            self.endpoint.stop_helping();
            if self.leave()
                && let Some(network) = self.network_way()
            {
                // The slot may be that of the next device of this process.
                network.port().leave();
            }
        }
    }

    /// Tells which addresses this device has, as other processes find it by them; whether they are others than
    /// before. A message to one that its target never had finds nobody.
    pub fn set_gids(&self, gids: &[[u8; 16]]) -> bool {
        self.endpoint.set_gids(gids)
    }

    /// To be called when the program learns of a peer that it will exchange datagrams with (an address handle):
    /// one of other namespaces that came since reaches this process from now on.
    pub fn expect_answers(&self) {
        self.endpoint.expect_answers();
    }

    /// The network namespace that the process was in when it opened the device; `None` where the kernel did not
    /// tell.
    #[must_use]
    pub fn network(&self) -> Option<Network> {
        self.endpoint.network()
    }

    /// The most that the device offers.
    #[must_use]
    pub fn limits(&self) -> &'static Limits {
        &LIMITS
    }

    /// A new protection domain.
    ///
    /// # Errors
    /// [`Error::NoMemory`] at [`Limits::max_pd`].
    pub fn alloc_pd(&self) -> Result<u32> {
        let mut domains = self.domains();
        if domains.users.len() >= LIMITS.max_pd as usize {
            return Err(Error::NoMemory);
        }
        domains.users.try_reserve(1)?;
        loop {
            domains.last = (domains.last + 1) % MANY_DOMAINS;
            domains.last = domains.last.max(1);
            let pd = domains.last;
            if !domains.users.contains_key(&pd) {
                domains.users.set_reserved(pd, 0);
                return Ok(pd);
            }
        }
    }

    /// Ends a protection domain.
    ///
    /// # Errors
    /// [`Error::Busy`] while an object is in it, [`Error::Invalid`] when there is none.
    pub fn free_pd(&self, pd: u32) -> Result<()> {
        let mut domains = self.domains();
        match domains.users.get(&pd) {
            None => Err(Error::Invalid("no such protection domain")),
            Some(0) => {
                domains.users.remove(&pd);
                Ok(())
            }
            Some(_) => Err(Error::Busy),
        }
    }

    /// Counts one more object in a protection domain, also of a kind that the device does not know (address
    /// handles).
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such domain.
    pub fn hold_pd(&self, pd: u32) -> Result<()> {
        let mut domains = self.domains();
        *domains.users.get_mut(&pd).ok_or(Error::Invalid("no such protection domain"))? += 1;
        Ok(())
    }

    /// Takes back one [`Device::hold_pd`].
    pub fn release_pd(&self, pd: u32) {
        if let Some(users) = self.domains().users.get_mut(&pd) {
            *users = users.saturating_sub(1);
        }
    }

    fn domains(&self) -> MutexGuard<'_, Domains> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the device was opened.
    pub(crate) fn now(&self) -> u64 {
        ironverbs_os::clock::now().saturating_sub(self.epoch)
    }

    /// The queue pair with this index.
    fn queue_pair(&self, index: u32) -> Option<Arc<QueuePair>> {
        self.queue_pairs.read().unwrap_or_else(PoisonError::into_inner).get(index as usize)?.upgrade()
    }

    /// The shared receive queue with this index.
    fn shared_queue(&self, index: u32) -> Option<Arc<SharedReceiveQueue>> {
        self.shared_queues.read().unwrap_or_else(PoisonError::into_inner).get(index as usize)?.upgrade()
    }

    /// The completion queue with this index.
    fn completion_queue(&self, index: u32) -> Option<Arc<CompletionQueue>> {
        let table = self.completion_queues.read().unwrap_or_else(PoisonError::into_inner);
        table.get(index as usize)?.upgrade()
    }

    /// The queues that several peers may use at a time.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    fn queues(&self) -> Result<Vec<Object>> {
        fn add<T>(
            all: &mut Vec<Object>,
            table: &RwLock<Vec<Weak<T>>>,
            kind: fn(u32) -> Object,
        ) -> Result<()> {
            let table = table.read().unwrap_or_else(PoisonError::into_inner);
            let live = table.iter().zip(0..).filter(|(queue, _)| queue.strong_count() > 0);
            Ok(all.try_extend(live.map(|(_, index)| kind(index)))?)
        }
        let mut all = Vec::new();
        add(&mut all, &self.completion_queues, Object::Cq)?;
        add(&mut all, &self.shared_queues, Object::Srq)?;
        Ok(all)
    }

    /// Places of a queue pair's send queue whose completion nobody polled.
    #[inline(always)]
    fn unpolled(&self, index: u32) -> &AtomicU32 {
        &self.unpolled[index as usize % COUNTERS]
    }

    /// The protection domain of a queue pair's receive requests.
    fn receive_pd(&self, qp_num: u32) -> Option<u32> {
        let (_, index) = number::place_of(qp_num)?;
        self.receive_pds.get(index as usize).map(|pd| pd.load(Ordering::Relaxed))
    }

    /// A completion of a send request was polled, and gives back so many places of the send queue.
    fn polled(&self, qp_num: u32, places: u32) {
        if let Some((_, index)) = number::place_of(qp_num) {
            // Whoever writes to this process's queues can forge completions, but no more room than there is.
            let less = |count: u32| Some(count.saturating_sub(places));
            let _ = self.unpolled(index).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}

/// A counter for each queue pair, all 0.
fn counters() -> Result<Box<[AtomicU32; COUNTERS]>> {
    try_filled(COUNTERS, || AtomicU32::new(0))?.try_into().map_err(|_| Error::NoMemory)
}

/// Remembers an object by its index.
fn remember<T>(table: &RwLock<Vec<Weak<T>>>, index: u32, object: &Arc<T>) -> Result<()> {
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    let index = index as usize;
    table.try_fill(index + 1, Weak::new)?;
    table[index] = Arc::downgrade(object);
    Ok(())
}

/// Forgets an object that ends: its memory is not kept for a name that leads to nothing.
fn forget<T>(table: &RwLock<Vec<Weak<T>>>, index: u32, object: &T) {
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    // Its index may be another's by now.
    if let Some(place) = table.get_mut(index as usize).filter(|known| std::ptr::eq(known.as_ptr(), object)) {
        *place = Weak::new();
    }
}
