//! Processes on hosts of their own, joined by a network that loses, doubles and delays packets.

use std::collections::BTreeMap;
use std::time::Duration;

use ironverbs_cm::address::{Address, Gid, PortSpace, gid_of};
use ironverbs_cm::network::{Addressee, Arrived, Exchanges, Output, Peer, addressee, refuse};
use ironverbs_cm::world::{Destination, Message};
use ironverbs_cm::{Link, World};

use crate::{Net, Random, View};

/// What the network does: one packet of so many is treated so; 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cable {
    pub lose: usize,
    pub double: usize,
    pub late: usize,
}

/// See the module.
pub struct Hosts {
    exchanges: Vec<Exchanges>,
    /// Packets that are under way: when they arrive, in which order they left, where.
    wire: BTreeMap<(Duration, u64), (usize, Peer, Message)>,
    sent: u64,
    pub lost: u64,
    cable: Cable,
    random: Random,
    dead: Vec<bool>,
}

/// The address of a host.
pub fn gid(pid: usize) -> Gid {
    gid_of([10, 0, 0, pid as u8 + 1].into())
}

fn host(gid: &Gid) -> usize {
    usize::from(gid[15]).wrapping_sub(1)
}

impl Hosts {
    pub fn new(count: usize, seed: u64, cable: Cable) -> Hosts {
        let exchanges = (0..count).map(|_| Exchanges::default()).collect();
        let (wire, random) = (BTreeMap::new(), Random::new(seed ^ 0xcab1e));
        Hosts { exchanges, wire, sent: 0, lost: 0, cable, random, dead: vec![false; count] }
    }

    fn happens(&mut self, one_in: usize) -> bool {
        one_in != 0 && self.random.one_in(one_in)
    }

    fn carry(&mut self, peer: Peer, message: Message, now: Duration) {
        let to = host(&peer.address);
        if self.happens(self.cable.lose) {
            self.lost += 1;
            return;
        }
        let copies = 1 + usize::from(self.happens(self.cable.double));
        for _ in 0..copies {
            let slow = if self.happens(self.cable.late) { 20_000 } else { 2 };
            let at = now + Duration::from_millis(1 + self.random.below(slow) as u64);
            let seen = Peer { address: peer.own, own: peer.address, interface: 0 };
            self.sent += 1;
            self.wire.insert((at, self.sent), (to, seen, message.clone()));
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Duration> {
        let due = self.exchanges.iter().zip(&self.dead).filter(|(_, dead)| !**dead);
        let due = due.filter_map(|(exchanges, _)| exchanges.next_due());
        self.wire.keys().map(|(at, _)| *at).next().into_iter().chain(due).min()
    }

    pub fn kill(&mut self, pid: usize) {
        self.dead[pid] = true;
        self.exchanges[pid] = Exchanges::default();
    }

    pub fn is_empty(&self, pid: usize) -> bool {
        self.exchanges[pid].is_empty()
    }
}

impl Net {
    /// Each process is on a host of its own.
    pub fn between_hosts(processes: usize, seed: u64, cable: Cable) -> Net {
        let mut net = Net::new(processes, seed);
        net.shared.apart = true;
        for (pid, manager) in net.managers.iter_mut().enumerate() {
            manager.as_mut().unwrap().name_connections(pid as u16 + 1, seed.into());
        }
        net.hosts = Some(Hosts::new(processes, seed, cable));
        net
    }

    /// Connects a link to another host, where it leads there.
    pub(crate) fn connect_afar(
        &mut self,
        pid: usize,
        link: Link,
        to: &Destination,
        message: &Message,
    ) -> bool {
        let (Some(hosts), Some(address)) = (&mut self.hosts, to.address.gid()) else { return false };
        if to.address.is_any() || address == gid(pid) {
            return false;
        }
        let peer = Peer { address, own: gid(pid), interface: 0 };
        hosts.exchanges[pid].connect(link, peer, message, self.shared.now);
        true
    }

    pub(crate) fn send_afar(&mut self, pid: usize, link: Link, message: &Message) -> bool {
        let Some(hosts) = self.hosts.as_mut().filter(|hosts| hosts.exchanges[pid].has(link)) else {
            return false;
        };
        hosts.exchanges[pid].send(link, message.clone(), self.shared.now);
        true
    }

    pub(crate) fn close_afar(&mut self, pid: usize, link: Link) -> bool {
        let Some(hosts) = self.hosts.as_mut().filter(|hosts| hosts.exchanges[pid].has(link)) else {
            return false;
        };
        hosts.exchanges[pid].close(link, self.shared.now);
        true
    }

    pub(crate) fn is_afar(&self, pid: usize, link: Link) -> bool {
        self.hosts.as_ref().is_some_and(|hosts| hosts.exchanges[pid].has(link))
    }

    /// Does what the messages of a process ask for; whether there was anything.
    pub(crate) fn settle(&mut self, pid: usize) -> bool {
        let mut did = false;
        while let Some(hosts) = &mut self.hosts
            && let Some(output) = hosts.exchanges[pid].next_output()
        {
            did = true;
            let manager = self.managers[pid].as_mut();
            let mut view = View { shared: &mut self.shared, pid };
            match output {
                Output::Packet { peer, message } => hosts.carry(peer, message, view.now()),
                Output::Message { link, message } => manager.unwrap().message(link, &message[..], &mut view),
                Output::Unreachable { link } => manager.unwrap().unreachable(link),
                Output::Ended { link } => manager.unwrap().ended(link, &mut view),
            }
            self.act(pid);
        }
        did
    }

    /// Lets arrive what is due; whether anything was.
    pub fn arrive(&mut self) -> bool {
        let now = self.shared.now;
        let mut did = false;
        while let Some(hosts) = &mut self.hosts
            && let Some(first) = hosts.wire.first_entry().filter(|first| first.key().0 <= now)
        {
            let (to, peer, message) = first.remove();
            did = true;
            if hosts.dead.get(to) != Some(&false) {
                continue;
            }
            if hosts.exchanges[to].arrived(peer, &message[..], now) == Arrived::Request {
                self.requested(to, peer, &message);
            }
            self.settle(to);
        }
        for pid in 0..self.managers.len() {
            if let Some(hosts) = self.hosts.as_mut().filter(|hosts| !hosts.dead[pid]) {
                hosts.exchanges[pid].expire(now);
                did |= self.settle(pid);
            }
        }
        did
    }

    fn requested(&mut self, pid: usize, peer: Peer, message: &Message) {
        let Some(Addressee::Listener { service, header: Some(header) }) = addressee(&peer, &message[..])
        else {
            return;
        };
        let address = Address::ip(header.destination, service as u16);
        let space = PortSpace::of_service(service).unwrap();
        let found = self.shared.listener(pid, &Destination { address, space, service });
        let Some(hosts) = &mut self.hosts else { return };
        match found {
            Ok(port) => {
                let id = self.shared.ports[port].id;
                let manager = self.managers[pid].as_mut().unwrap();
                if !manager.accepting(id) {
                    return;
                }
                let link = manager.accepted(id, &message[..], &mut View { shared: &mut self.shared, pid });
                let own = manager.comm_id(link).unwrap_or(0);
                hosts.exchanges[pid].accepted(link, peer, &message[..], own);
                self.act(pid);
            }
            Err(known) => {
                let message = refuse(&message[..], known).unwrap();
                hosts.carry(peer, message, self.shared.now);
            }
        }
    }
}
