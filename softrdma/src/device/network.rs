//! The device's part of the network: packets go to the queue pairs that they are for, from polls and from a
//! thread.
//!
//! While programs poll, polls take what arrives, and the thread sleeps. One takes packets at a time, so that
//! none overtakes another.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ironverbs_os::growth::TryPush;

use super::acknowledgement::Later;
use super::datagrams::Violations;
use super::{Device, QueuePair};
use crate::carrier::far::addresses::Addresses;
use crate::carrier::far::datagram::Arrived;
use crate::carrier::far::network::{Looked, Missing, Network};
use crate::carrier::far::port::socket::Socket;
use crate::carrier::near::number::place_of;
use crate::wire::opcode::Transport;

/// Queue pairs that packets of one look came for, at most, before what follows is seen to.
const TOUCHED: usize = 16;
/// So many looks during a nap of the thread mean that a program polls all the time.
const OFTEN: u64 = 16;
/// Who looked last within so many nanoseconds would have looked again soon.
const LATELY: u64 = 4000;
/// Looks at most that take all that has come before an answer counts as missing: a socket holds less.
const FIRST: u32 = 1000;
/// So many times in a row the thread must have been of no use before it leaves all to a program that polls.
const VAIN: u32 = 16;
/// How long the thread runs at a time where others want its processor, in nanoseconds: as little as may be.
const TURN: u64 = 100_000;
/// One look of so many sees to queue pairs whose time has come.
const DUE: u64 = 8;
/// How long the thread sleeps while one does, in milliseconds.
const NAP: i32 = 1;
/// How long it sleeps where nothing comes: so long it may take it to end.
const SLEEP: i32 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct Net {
    network: Network,
    /// Looks of programs that poll.
    looks: AtomicU64,
    /// Packets that came.
    packets: AtomicU64,
    /// What had come at this time of the device's clock was taken.
    taken: AtomicU64,
    /// Queue pairs whose acknowledgements wait for the program.
    later: Later,
    /// Queue pairs that have answers left. They keep the device, so it does not keep them: without the thread
    /// nobody might take them from here.
    pending: Mutex<Vec<Weak<QueuePair>>>,
    /// There may be some.
    is_pending: AtomicBool,
    /// Queue pairs that are connected to other hosts, or exchange datagrams with some.
    connections: AtomicU32,
    /// Own addresses that others reach.
    addresses: Addresses,
    violations: Violations,
    ends: Arc<AtomicBool>,
}

impl Net {
    /// That of the process with this slot.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn open(slot: u16) -> Result<Self, Missing> {
        let network = Network::open(slot)?;
        Ok(Self {
            network,
            looks: 0.into(),
            packets: 0.into(),
            taken: 0.into(),
            connections: 0.into(),
            addresses: Addresses::new().map_err(|_| Missing::NoMemory)?,
            violations: Violations::default(),
            later: Later::default(),
            pending: Mutex::default(),
            is_pending: false.into(),
            ends: Arc::default(),
        })
    }

    /// The queue pair has answers left, which leave with the next look at the network.
    fn keep(&self, qp: &Arc<QueuePair>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_pending.store(true, Ordering::Relaxed);
        // Without memory for it the peer asks again.
        let _ = pending.try_push(Arc::downgrade(qp));
    }

    /// Begins to take packets also where nobody polls.
    pub(super) fn start(&self, device: Weak<Device>) {
        let ends = self.ends.clone();
        // Without a thread, they are taken when the program polls.
        let _ = ironverbs_os::thread::start(c"ironverbs-net", move || run(&device, &ends));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
    }
}

/// The queue pairs that packets came for.
#[derive(Default)]
struct Touched {
    all: [Option<Arc<QueuePair>>; TOUCHED],
    count: usize,
}

impl Touched {
    fn add(&mut self, net: &Net, qp: Arc<QueuePair>, later: Option<&Later>) {
        if self.all[..self.count].iter().flatten().any(|other| Arc::ptr_eq(other, &qp)) {
            return;
        }
        if self.count == TOUCHED {
            self.settle(net, later);
        }
        self.all[self.count] = Some(qp);
        self.count += 1;
    }

    fn settle(&mut self, net: &Net, later: Option<&Later>) {
        for qp in self.all[..self.count].iter_mut().filter_map(Option::take) {
            if qp.settle_arrivals(later) {
                net.keep(&qp);
            }
        }
        self.count = 0;
    }
}

impl Device {
    /// What packets leave by, where the device has a network.
    pub(crate) fn network_way(&self) -> Option<&Network> {
        self.net.as_ref().map(|net| &net.network)
    }

    /// The own addresses that are on the network.
    pub(super) fn network_addresses(&self) -> Option<&Addresses> {
        self.net.as_ref().map(|net| &net.addresses)
    }

    /// What was dropped of what came.
    pub(super) fn datagram_violations(&self) -> Option<&Violations> {
        self.net.as_ref().map(|net| &net.violations)
    }

    /// This queue pair has answers left, for which there was no room.
    #[cold]
    pub(super) fn keep_answers(&self, qp: &QueuePair) {
        if let Some(net) = &self.net
            && let Some(qp) = self.queue_pair(qp.index())
        {
            net.keep(&qp);
        }
    }

    /// So many more queue pairs are connected to other hosts, or fewer.
    pub(super) fn count_far(&self, more: bool) {
        if let Some(net) = &self.net {
            let one = if more { 1 } else { u32::MAX };
            net.connections.fetch_add(one, Ordering::Relaxed);
        }
    }

    /// Whether packets of other hosts may come.
    pub(super) fn has_network(&self) -> bool {
        self.net.is_some()
    }

    /// A program polls in vain: takes the packets that have come for queue pairs that are connected to other
    /// hosts, and sees to those whose time has come. What it did not answer is acknowledged.
    pub(super) fn look_at_network(&self) {
        let Some(net) = self.net.as_ref().filter(|_| self.is_mine()) else { return };
        let looks = net.looks.fetch_add(1, Ordering::Relaxed);
        if net.connections.load(Ordering::Relaxed) > 0 {
            net.later.send();
            self.take_packets(net, Some(&net.later));
            if looks.is_multiple_of(DUE) {
                self.retries.try_due(self.now());
            }
        }
    }

    /// What had come at this time was taken: no answer is missing that came before.
    pub(super) fn taken_at(&self) -> u64 {
        self.net.as_ref().map_or(0, |net| net.taken.load(Ordering::Relaxed))
    }

    /// Takes the packets that have come, before one counts as missing.
    pub(super) fn take_packets_first(&self) {
        if let Some(net) = self.net.as_ref().filter(|_| self.is_mine()) {
            for _ in 0..FIRST {
                if self.take_packets(net, None).is_all {
                    break;
                }
            }
        }
    }

    /// Sends the acknowledgements that wait, as far as that takes no lock that somebody has.
    pub(super) fn send_acknowledgements_now(&self) {
        if let Some(net) = self.net.as_ref().filter(|_| self.is_mine()) {
            net.later.send_now();
        }
    }

    /// Takes the packets that have come, and does what follows; what is left.
    #[cold]
    fn take_packets(&self, net: &Net, later: Option<&Later>) -> Looked {
        let mut touched = Touched::default();
        if net.is_pending.load(Ordering::Relaxed) && net.is_pending.swap(false, Ordering::Relaxed) {
            let pending = std::mem::take(&mut *net.pending.lock().unwrap_or_else(PoisonError::into_inner));
            pending.iter().filter_map(Weak::upgrade).for_each(|qp| touched.add(net, qp, later));
        }
        let (began, mut packets) = (self.now(), 0);
        let received = net.network.receive(|arrived| {
            packets += 1;
            if arrived.flow.is_to_group() {
                return self.group_datagram_arrived(arrived);
            }
            let Arrived { flow, packet, identification, .. } = *arrived;
            let own = self.endpoint.segment.owner().slot();
            let place = place_of(packet.bth.dest_qp).filter(|(slot, _)| *slot == own);
            let Some(qp) = place.and_then(|(_, index)| self.queue_pair(index)) else { return };
            if packet.bth.opcode.transport() != Transport::Ud {
                qp.arrived(flow, packet, identification);
                touched.add(net, qp, later);
            } else if net.addresses.has(flow.destination) {
                qp.datagram_arrived(arrived);
            }
        });
        // Who takes them just now says itself what that left.
        let mut looked = received.unwrap_or(Looked { more: false, is_all: true });
        if received.is_some() && looked.is_all {
            net.taken.fetch_max(began, Ordering::Relaxed);
        }
        if packets > 0 {
            net.packets.fetch_add(packets, Ordering::Relaxed);
        }
        touched.settle(net, later);
        looked.more |= net.is_pending.load(Ordering::Relaxed);
        looked
    }
}

/// The thread.
fn run(device: &Weak<Device>, ends: &AtomicBool) {
    ironverbs_os::thread::ask_for_short_turns(TURN);
    let (mut seen, mut vain) = (0, VAIN);
    loop {
        let Some(device) = device.upgrade() else { return };
        let Some(net) = &device.net else { return };
        if ends.load(Ordering::Acquire) {
            return;
        }
        // What the program did not destroy keeps the device and its sockets though the process has left: then
        // others still come by it to theirs, and nothing that arrives is its own.
        let has_left = !device.is_mine();
        net.later.look_after(false);
        let (packets, before) = (net.packets.load(Ordering::Relaxed), device.taken_at());
        let more = !has_left && device.take_packets(net, None).more;
        // Who waits for what is written to its memory does not poll for it, whatever it does between.
        let is_wanted = packets != net.packets.load(Ordering::Relaxed) && device.now() > before + LATELY;
        vain = if is_wanted { 0 } else { vain.saturating_add(1) };
        let port = net.network.port();
        // Where that cannot be, later.
        let door = if port.admit() { port.door() } else { -1 };
        let looks = net.looks.load(Ordering::Relaxed);
        // One that waits for events polls a few times for each.
        let is_polled = looks.wrapping_sub(std::mem::replace(&mut seen, looks)) >= OFTEN && vain >= VAIN;
        let fds = [door, port.own().raw(), port.groups().map_or(-1, Socket::raw)];
        net.later.look_after(is_polled && !has_left);
        drop(device);
        match (is_polled, more) {
            _ if has_left => wait(&fds[..1], SLEEP),
            // Who polls takes what comes.
            (true, _) => wait(&fds[..1], NAP),
            (false, true) => {}
            (false, false) => wait(&fds, SLEEP),
        }
    }
}

/// Sleeps until one of these is readable, or so many milliseconds have passed.
fn wait(fds: &[i32], milliseconds: i32) {
    let mut polled = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 3];
    for (polled, fd) in polled.iter_mut().zip(fds) {
        polled.fd = *fd;
    }
    // SAFETY: the array lives across the call, for as many as it has.
    unsafe { libc::poll(polled.as_mut_ptr(), fds.len() as libc::nfds_t, milliseconds) };
}
