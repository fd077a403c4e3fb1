//! Datagrams to and from other hosts.
//!
//! Which way those of an address handle go, is said when it is made. What leaves by the network goes through
//! the send queue's ring: those of one list that go one way leave by one call, and have ended when they have
//! left.

use std::sync::atomic::{AtomicU32, Ordering};

use super::far::way;
use super::link::is_link_down;
use super::qp_attributes::Path;
use super::send::SendSide;
use super::{Device, QueuePair};
use crate::carrier::far::datagram::{Arrived, Received};
use crate::carrier::far::network::BURST;
use crate::carrier::far::way::Route;
use crate::carrier::initiator::Initiator;
use crate::carrier::near::bytes;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::wr::{Data, Wr};
use crate::faults;
use crate::rules::qp::receives;
use crate::rules::request::{Outline, Sender, start};
use crate::rules::requester::{Action, Outcome};
use crate::rules::verbs::{Opcode, QpType, SendFlags, Status};
use crate::wire::datagram::{Datagram, is_group_between_hosts, is_of_partition};
use crate::wire::packet::Head;
use crate::wire::psn::Psn;

impl Device {
    /// The way of datagrams along this path, where it leads to another host, or to a group whose members may be
    /// there. A path to an address that a process of the folder has leads there.
    #[must_use]
    pub fn route(&self, path: &Path) -> Option<Route> {
        let (Some(way), Some(source), Some(_)) = (way(path), path.source, self.network_way()) else {
            return None;
        };
        let is_of_one_family =
            way.address.to_ipv4_mapped().is_some() == way.source.to_ipv4_mapped().is_some();
        let route = Route { way, hop_limit: path.hop_limit, mtu: source.mtu };
        let leaves = match route.is_to_group() {
            true => is_group_between_hosts(way.address),
            false => !self.endpoint.is_near(&path.dgid),
        };
        (is_of_one_family && leaves).then_some(route)
    }

    /// Tells which addresses of the host are on the network, and the interfaces that have them: what is sent to
    /// others is for nobody here.
    pub fn set_network_addresses(&self, addresses: impl Iterator<Item = ([u8; 16], u32)>) {
        if let Some(addresses_of_network) = self.network_addresses().filter(|_| self.is_mine()) {
            addresses_of_network.set(addresses);
        }
    }

    /// Datagrams of other hosts that were dropped because of their Q_Key, and because of their P_Key.
    #[must_use]
    pub fn violations(&self) -> (u32, u32) {
        self.datagram_violations().map_or((0, 0), |violations| {
            (violations.qkey.load(Ordering::Relaxed), violations.p_key.load(Ordering::Relaxed))
        })
    }

    fn count_violation(&self, which: impl Fn(&Violations) -> &AtomicU32) {
        if let Some(violations) = self.datagram_violations() {
            which(violations).fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Datagrams that were dropped because of a key.
#[derive(Debug, Default)]
pub(super) struct Violations {
    qkey: AtomicU32,
    p_key: AtomicU32,
}

/// What is to be sent of a request: the headers of its packet. The checks of a request that starts were made.
fn head(from: &Initiator, wr: &Wr<'_>, psn: Psn) -> Option<Head> {
    let to = wr.datagram.as_ref()?;
    let incoming = from.incoming(wr, 0);
    let datagram = Datagram {
        psn,
        dest_qp: to.qp_num,
        source_qp: from.qp_num,
        qkey: incoming.qkey,
        imm: (wr.opcode == Opcode::SendWithImm).then_some(wr.imm_or_key),
        solicited: wr.flags.has(SendFlags::SOLICITED),
        length: wr.data.length() as usize,
    };
    Some(datagram.head())
}

impl QueuePair {
    /// Whether a request may start that leaves by this route.
    fn check_datagram(&self, from: &Initiator, wr: &Wr<'_>, route: &Route) -> Result<(), Status> {
        let sges = match wr.data {
            Data::Sges(sges) => sges,
            Data::Inline(_) | Data::InlineSges(_) => &[],
        };
        let outline = Outline { opcode: wr.opcode, operands: wr.operands, sges, length: wr.data.length() };
        let Initiator { qp_type, pd, max_rd_atomic, .. } = *from;
        let sender = Sender { qp_type, pd, max_rd_atomic, mtu: route.mtu };
        let keys = &self.device().endpoint.keys;
        start(&outline, &sender, |key| keys.local(key).map(|entry| entry.key))
    }

    /// Sends the datagrams at the head of the ring that leave by one route; the first of them does. `false`
    /// where there was no room for all.
    pub(super) fn send_datagrams(&self, side: &mut SendSide) -> bool {
        self.talks_afar(true);
        let most = match faults::active() {
            None => BURST,
            Some(faults) => {
                if let Some(status) = side.ring.front().and_then(|wr| side.alone.fails(wr.opcode)) {
                    self.end_datagram(side, Some(status));
                    return true;
                }
                faults.wait_while_line_is_busy();
                // Each is looked at.
                1
            }
        };
        let (mut count, mut failure) = (0, None);
        // Without a network they are lost, as one is.
        let sent = if let (Some(network), Some(first)) = (self.device().network_way(), side.ring.front())
            && let Some(route) = first.route()
        {
            let mut burst = network.burst(&route.flow());
            while count < most
                && let Some(wr) = side.ring.nth(count)
                && wr.route() == Some(route)
            {
                let psn = side.datagram_psn.plus(count as u32);
                let Some(head) = head(&side.initiator, &wr, psn) else { break };
                let pushed = self.check_datagram(&side.initiator, &wr, route).and_then(|()| {
                    burst.push(&head, wr.data.length() as usize, |room| {
                        let endpoint = &self.device().endpoint;
                        bytes::take_part(endpoint, &wr, 0, room).map_err(|_| Status::LocProtErr)
                    })
                });
                if let Err(status) = pushed {
                    failure = Some(status);
                    break;
                }
                count += 1;
            }
            burst.launch().min(count)
        } else {
            count = 1;
            1
        };
        side.datagram_psn = side.datagram_psn.plus(sent as u32);
        for _ in 0..sent {
            self.end_datagram(side, None);
        }
        if let Some(status) = failure.filter(|_| sent == count) {
            self.end_datagram(side, Some(status));
        }
        sent == count
    }

    /// Ends the first request of the ring, which has left, or failed with a status.
    fn end_datagram(&self, side: &mut SendSide, failure: Option<Status>) {
        let Some(wr) = side.ring.front() else { return };
        let (request, order) = (wr.posted(), self.completion_order(&wr));
        let outcome = match failure {
            Some(status) => Outcome::Local(status),
            None if wr.route().is_some_and(Route::is_to_group) && !is_link_down() => {
                // Members on this host have theirs through shared memory.
                let (endpoint, from) = (&self.device().endpoint, &side.initiator);
                let out = Outgoing { endpoint, from, wr: &wr, request: &request, order: &order };
                match side.carrier.execute(&out) {
                    Outcome::Local(status) => Outcome::Local(status),
                    _ => Outcome::NoAnswer,
                }
            }
            None => Outcome::NoAnswer,
        };
        let action = side.requester.outcome(&request, outcome, self.device().now());
        debug_assert_ne!(action, Action::Later);
        side.ring.pop();
        side.alone.ended();
        self.follow_outcome(side, &request, action, &order);
    }

    /// It exchanges datagrams with other hosts, so that polls look at the network, or does not any more.
    pub(super) fn talks_afar(&self, talks: bool) {
        if self.mailbox.set_in_use(talks) {
            self.device().count_far(talks);
        }
    }

    /// Takes a datagram from another host.
    pub(super) fn datagram_arrived(&self, arrived: &Arrived<'_>) {
        if self.qp_type() != QpType::Ud || !receives(self.state()) {
            return;
        }
        if !is_of_partition(arrived.packet.bth.p_key) {
            return self.device().count_violation(|violations| &violations.p_key);
        }
        let own = (self.qp_num(), self.index());
        match self.mailbox.take(&self.device().endpoint, own, arrived) {
            Received::WrongKey => self.device().count_violation(|violations| &violations.qkey),
            Received::Taken => self.talks_afar(true),
            Received::Lost => {}
        }
    }
}
