//! The device's part of the network: packets go to the queue pairs that they are for, from polls and from a
//! thread.
//!
//! While programs poll, polls take what arrives, and the thread sleeps. One takes packets at a time, so that
//! none overtakes another.

mod thread;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ironverbs_os::growth::TryPush;

use super::acknowledgement::Later;
use super::datagrams::Violations;
use super::{Device, QueuePair};
use crate::carrier::far::addresses::Addresses;
use crate::carrier::far::datagram::Arrived;
use crate::carrier::far::network::{Looked, Missing, Network};
use crate::carrier::far::pause::{Left, Pause};
use crate::carrier::near::number::place_of;
use crate::wire::opcode::Transport;
use crate::wire::packet::{Bth, Packet};

/// Queue pairs that packets of one look came for, at most, before what follows is seen to.
const TOUCHED: usize = 16;
/// Looks of a program that follow each other within so many nanoseconds are of one that polls all the time: it
/// takes the thread longer to be woken.
const SOON: u64 = 20_000;
/// Looks at most that take all that has come before an answer counts as missing: a socket holds less.
const FIRST: u32 = 1000;
/// One look of so many sees to queue pairs whose time has come.
const DUE: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Net {
    network: Network,
    /// Looks of programs that poll.
    looks: AtomicU64,
    /// What had come at this time of the device's clock was taken.
    taken: AtomicU64,
    polls: Polls,
    /// Queue pairs whose acknowledgements wait for the program.
    later: Later,
    pending: Mutex<Pending>,
    /// When those that have answers left are seen to: never, where there are none.
    resumes: AtomicU64,
    /// Queue pairs that are connected to other hosts, or exchange datagrams with some.
    connections: AtomicU32,
    /// Own addresses that others reach.
    addresses: Addresses,
    violations: Violations,
    ends: Arc<AtomicBool>,
}

/// Queue pairs that have answers left. They keep the device, so it does not keep them: without the thread
/// nobody might take them from here.
#[derive(Debug, Default)]
struct Pending {
    all: Vec<Weak<QueuePair>>,
    /// Where there was no room for them.
    pause: Pause,
}

/// For how long programs have polled: looks that soon follow each other count as one. What two write at a time
/// may be lost.
#[derive(Debug, Default)]
struct Polls {
    /// When one looked last, or had taken what was there, or had sent after that.
    looked: AtomicU64,
    polled: AtomicU64,
}

impl Polls {
    /// A program looked at this time.
    fn look(&self, now: u64) {
        self.add(now, now.saturating_sub(self.looked.load(Ordering::Relaxed)).min(SOON));
    }

    /// It sent from one time to the other. Where it looked or sent just before, that is polling, however long
    /// it took: who waits in memory for an answer, and then sends, did not.
    fn sent(&self, began: u64, now: u64) {
        let looked = self.looked.load(Ordering::Relaxed);
        if began.saturating_sub(looked) <= SOON {
            self.add(now, now.saturating_sub(looked));
        }
    }

    /// It took packets from one time to the other, which is polling, however long it took.
    fn took(&self, began: u64, now: u64) {
        self.add(now, now.saturating_sub(began));
    }

    fn add(&self, now: u64, polled: u64) {
        self.looked.store(now, Ordering::Relaxed);
        self.polled.store(self.polled.load(Ordering::Relaxed) + polled, Ordering::Relaxed);
    }
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
            taken: 0.into(),
            polls: Polls::default(),
            connections: 0.into(),
            addresses: Addresses::new().map_err(|_| Missing::NoMemory)?,
            violations: Violations::default(),
            later: Later::default(),
            pending: Mutex::default(),
            resumes: u64::MAX.into(),
            ends: Arc::default(),
        })
    }

    /// The queue pair has answers left, which leave with a later look at the network.
    fn keep(&self, qp: &Arc<QueuePair>, left: Left, now: u64) {
        let mut pending = self.pending();
        let resumes = match (left, pending.pause.until()) {
            // It is the same socket for all.
            (Left::NoRoom { .. }, Some(until)) if now < until => until,
            (Left::NoRoom { has_sent }, _) => pending.pause.begin(now, has_sent),
            (Left::Later(at), _) => at,
            _ => 0,
        };
        self.resumes.fetch_min(resumes, Ordering::Relaxed);
        // Without memory for it the peer asks again.
        let _ = pending.all.try_push(Arc::downgrade(qp));
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether answers are left whose time has come: asked once for each.
    fn resumes(&self, now: u64) -> bool {
        self.resumes.load(Ordering::Relaxed) <= now && self.resumes.swap(u64::MAX, Ordering::Relaxed) <= now
    }

    /// All answers that were left have left, unless some are again.
    fn end_pause(&self) {
        let mut pending = self.pending();
        if pending.all.is_empty() {
            pending.pause.end();
        }
    }

    /// Begins to take packets also where nobody polls.
    pub(super) fn start(&self, device: Weak<Device>) {
        let ends = self.ends.clone();
        // Without a thread, they are taken when the program polls.
        let _ = ironverbs_os::thread::start(c"ironverbs-net", move || thread::run(&device, &ends));
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
    }
}

/// The queue pairs that packets came for: none for most looks, and one for most others, which therefore stands
/// by itself.
#[derive(Default)]
struct Touched {
    first: Option<Arc<QueuePair>>,
    others: Option<[Option<Arc<QueuePair>>; TOUCHED - 1]>,
}

impl Touched {
    fn add(&mut self, net: &Net, qp: Arc<QueuePair>, later: Option<&Later>) {
        if self.first.as_ref().is_some_and(|first| Arc::ptr_eq(first, &qp)) {
            return;
        }
        if self.first.is_none() {
            self.first = Some(qp);
        } else {
            self.add_other(net, qp, later);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_other(&mut self, net: &Net, qp: Arc<QueuePair>, later: Option<&Later>) {
        let others = self.others.get_or_insert_default();
        if others.iter().flatten().any(|other| Arc::ptr_eq(other, &qp)) {
            return;
        }
        match others.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(qp),
            None => {
                self.settle(net, later);
                self.first = Some(qp);
            }
        }
    }

    #[inline(always)]
    fn settle(&mut self, net: &Net, later: Option<&Later>) {
        if let Some(first) = self.first.take() {
            self.settle_all(net, &first, later);
        }
    }

    #[inline(never)]
    fn settle_all(&mut self, net: &Net, first: &Arc<QueuePair>, later: Option<&Later>) {
        settle(net, first, later);
        for qp in self.others.take().iter().flatten().flatten() {
            settle(net, qp, later);
        }
    }
}

fn settle(net: &Net, qp: &Arc<QueuePair>, later: Option<&Later>) {
    let left = qp.settle_arrivals(later);
    if left != Left::Nothing {
        net.keep(qp, left, qp.device().now());
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

    /// This queue pair has answers left.
    #[cold]
    pub(super) fn keep_answers(&self, qp: &QueuePair, left: Left) {
        if let Some(net) = &self.net
            && let Some(qp) = self.queue_pair(qp.index())
        {
            net.keep(&qp, left, self.now());
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
        // What two count at a time may be lost.
        let looks = net.looks.load(Ordering::Relaxed);
        net.looks.store(looks + 1, Ordering::Relaxed);
        if net.connections.load(Ordering::Relaxed) > 0 {
            net.later.send();
            self.take_packets(net, Some(&net.later));
            if looks.is_multiple_of(DUE) {
                self.retries.try_due(self.now());
            }
        }
    }

    /// A program has sent to another host since that time.
    pub(super) fn has_sent(&self, began: u64) {
        if let Some(net) = &self.net {
            net.polls.sent(began, self.now());
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
                // Who takes them just now sees to what that leaves.
                let looked = self.take_packets(net, None);
                if looked.is_all || looked.by_another {
                    break;
                }
            }
        }
    }

    /// Sends the acknowledgements that wait, as far as that takes no lock that somebody has: for who ends the
    /// process, also where its threads go on until then, so that this one does not [leave](Device::leave_if).
    pub fn send_acknowledgements_now(&self) {
        if let Some(net) = self.net.as_ref().filter(|_| self.is_mine()) {
            net.later.send_now();
        }
    }

    /// Takes the packets that have come, and does what follows; what is left.
    #[cold]
    fn take_packets(&self, net: &Net, later: Option<&Later>) -> Looked {
        let mut touched = Touched::default();
        let (began, mut packets) = (self.now(), 0);
        let resumes = net.resumes(began);
        if resumes {
            let pending = std::mem::take(&mut net.pending().all);
            pending.iter().filter_map(Weak::upgrade).for_each(|qp| touched.add(net, qp, later));
        }
        if later.is_some() {
            net.polls.look(began);
        }
        let own = self.endpoint.segment.owner().slot();
        let mut looked = net.network.receive(began, |all| {
            packets += all.len();
            let is_datagram = |bth: &Bth| bth.opcode.transport() == Transport::Ud;
            for arrived in all.chunk_by(|one, next| {
                let (one, next) = (&one.packet.bth, &next.packet.bth);
                one.dest_qp == next.dest_qp && is_datagram(one) == is_datagram(next)
            }) {
                let Arrived { flow, packet: Packet { bth, .. }, .. } = &arrived[0];
                if flow.is_to_group() {
                    arrived.iter().for_each(|datagram| self.group_datagram_arrived(datagram));
                    continue;
                }
                let place = place_of(bth.dest_qp).filter(|(slot, _)| *slot == own);
                let Some(qp) = place.and_then(|(_, index)| self.queue_pair(index)) else { continue };
                if !is_datagram(bth) {
                    qp.arrived(flow, arrived);
                    touched.add(net, qp, later);
                } else if net.addresses.has(flow.destination) {
                    arrived.iter().for_each(|datagram| qp.datagram_arrived(datagram));
                }
            }
        });
        if looked.is_all && net.taken.load(Ordering::Relaxed) < began {
            // An earlier time that another stores just now is right, too.
            net.taken.store(began, Ordering::Relaxed);
        }
        if later.is_some() && packets > 0 {
            // Who answers others has nothing in its completion queues.
            self.finders.note();
        }
        touched.settle(net, later);
        if later.is_some() && packets > 0 {
            net.polls.took(began, self.now());
        }
        if resumes {
            net.end_pause();
        }
        looked.more |= net.resumes.load(Ordering::Relaxed) == 0;
        looked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_long_messages_polls() {
        let (polls, mut now) = (Polls::default(), 1_000_000);
        polls.look(now);
        for _ in 0..100 {
            now += 1000;
            polls.look(now);
            polls.took(now, now + 20 * SOON);
            now += 20 * SOON;
        }
        assert_eq!(polls.polled.load(Ordering::Relaxed), SOON + now - 1_000_000);
        // It does something else.
        polls.look(now + 1_000_000);
        assert_eq!(polls.polled.load(Ordering::Relaxed), 2 * SOON + now - 1_000_000);
    }

    #[test]
    fn who_sends_polls_where_it_looked_just_before() {
        let polls = Polls::default();
        let polled = || polls.polled.load(Ordering::Relaxed);
        polls.look(1_000_000);
        assert_eq!(polled(), SOON);
        polls.sent(1_000_000 + SOON, 1_000_000 + 10 * SOON);
        polls.sent(1_000_000 + 11 * SOON, 1_000_000 + 20 * SOON);
        assert_eq!(polled(), 21 * SOON);
        // It waited for something else meanwhile.
        polls.sent(2_000_000, 2_000_000 + 10 * SOON);
        assert_eq!(polled(), 21 * SOON);
    }
}
