//! A small world for managers: processes, a registry of ports, links, and a clock.
#![allow(missing_docs)] // Helpers of tests have names.

mod hosts;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use ironverbs_cm::address::{Address, Family, Gid, gid_of};
use ironverbs_cm::command::{Command, ConnParam};
use ironverbs_cm::ports::{self, Binding, NoPort};
use ironverbs_cm::world::{Destination, Device, Message, NoDevice, NoRoute, Route};
use ironverbs_cm::{Action, Answer, Errno, Event, File, Link, Manager, World};

pub use hosts::{Cable, Hosts};

/// xorshift64*: seeds make runs repeatable.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn number(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub fn below(&mut self, count: usize) -> usize {
        self.number() as usize % count
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

pub const HOSTS: [&str; 4] = ["10.0.0.1", "10.0.0.2", "2001:db8::1", "fe80::1"];
pub const GUID: [u8; 8] = [2, 0, 0, 0, 0, 0, 0, 1];
/// The scope of the link-local address.
pub const SCOPE: u32 = 7;

pub fn v4(host: &str, port: u16) -> Address {
    Address::ip(host.parse().unwrap(), port)
}

fn device(index: usize) -> Device {
    let ip: IpAddr = HOSTS[index].parse().unwrap();
    Device { node_guid: GUID, index: 3, port: 1, sgid_index: index as u8 + 1, gid: gid_of(ip), mtu: 3 }
}

pub enum Arrival {
    Message(Message),
    Refused(bool),
    Unreachable,
    End,
}

impl Arrival {
    pub fn tell(self, manager: &mut Manager, link: Link, world: &mut dyn World) {
        match self {
            Arrival::Message(message) => manager.message(link, &message[..], world),
            Arrival::Refused(known) => manager.refused(link, known, world),
            Arrival::Unreachable => manager.unreachable(link),
            Arrival::End => manager.ended(link, world),
        }
    }
}

/// One end of a link.
pub struct End {
    pub pid: usize,
    pub link: Option<Link>,
    pub file: File,
    pub inbox: VecDeque<Arrival>,
    pub peer: Option<usize>,
    pub open: bool,
    /// What was sent, also after the other end was closed.
    pub said: Vec<Message>,
}

pub struct Port {
    pub pid: usize,
    pub id: u32,
    pub binding: Binding,
    pub listens: Option<File>,
    pub room: bool,
    pub queue: VecDeque<usize>,
}

/// What processes share.
pub struct Shared {
    pub ports: Vec<Port>,
    pub ends: Vec<End>,
    pub random: Random,
    pub now: Duration,
    pub low: bool,
    /// Peers say some things twice.
    pub repeats: bool,
    /// Each process has a host of its own.
    pub apart: bool,
}

impl Shared {
    pub fn close(&mut self, end: usize) {
        if std::mem::replace(&mut self.ends[end].open, false) {
            self.ends[end].inbox.clear();
            if let Some(peer) = self.ends[end].peer {
                self.ends[peer].inbox.push_back(Arrival::End);
            }
        }
    }

    fn end_of(&self, pid: usize, link: Link) -> Option<usize> {
        self.ends.iter().position(|e| e.pid == pid && e.link == Some(link) && e.open)
    }

    fn port_of(&mut self, pid: usize, id: u32) -> &mut Port {
        self.ports.iter_mut().find(|p| (p.pid, p.id) == (pid, id)).expect("reserved")
    }

    fn drop_ports(&mut self, gone: impl Fn(&Port) -> bool) {
        let (gone, kept): (Vec<Port>, Vec<Port>) =
            std::mem::take(&mut self.ports).into_iter().partition(gone);
        self.ports = kept;
        for end in gone.into_iter().flat_map(|port| port.queue) {
            self.close(end);
        }
    }

    fn listener(&self, pid: usize, to: &Destination) -> Result<usize, bool> {
        let meant = |p: &Port| {
            !(self.apart && p.pid != pid)
                && p.listens.is_some()
                && p.binding.space == to.space
                && p.binding.source.port() == to.address.port()
        };
        let found = self.ports.iter().position(|p| {
            let own = &p.binding.source;
            meant(p)
                && ((own.is_any() && !p.binding.family_only)
                    || (own.family() == to.address.family() && (own.is_any() || own.same_host(&to.address))))
        });
        found.ok_or_else(|| self.ports.iter().any(meant))
    }
}

/// The world as one process sees it.
pub struct View<'a> {
    pub shared: &'a mut Shared,
    pub pid: usize,
}

impl View<'_> {
    fn others(&self, id: u32) -> impl Iterator<Item = &Binding> + Clone {
        let newest_first = self.shared.ports.iter().rev();
        let is_other =
            move |p: &&Port| (p.pid, p.id) != (self.pid, id) && !(self.shared.apart && p.pid != self.pid);
        newest_first.filter(is_other).map(|p| &p.binding)
    }
}

impl World for View<'_> {
    fn device_of(&mut self, address: &Address) -> Result<Device, NoDevice> {
        self.device_of_gid(&address.gid().unwrap_or_default()).ok_or(NoDevice::NotLocal)
    }

    fn device_of_gid(&mut self, gid: &Gid) -> Option<Device> {
        let is_own = |d: &Device| !self.shared.apart || d.gid == hosts::gid(self.pid);
        (0..HOSTS.len()).map(device).find(|d| d.gid == *gid && is_own(d))
    }

    fn route(&mut self, source: Option<&Address>, destination: &Address) -> Result<Route, NoRoute> {
        if destination.is_any() {
            let family = destination.family().unwrap();
            let host = if family == Family::V6 { "::1" } else { "127.0.0.1" };
            let device = device(if self.shared.apart { self.pid } else { 0 });
            let source = match destination {
                Address::Ib(_) => *destination,
                _ => v4(host, 0),
            };
            return Ok(Route { source, device: Some(device), dgid: device.gid, scope: 0, hop_limit: 64 });
        }
        let dgid = destination.gid().unwrap();
        match dgid[14..] {
            [9, 9] => return Err(NoRoute::Table(Errno::ENETUNREACH.0)),
            [0, 99] => return Err(NoRoute::NoNeighbour),
            [0, 98] => return Err(NoRoute::NoHost),
            _ => {}
        }
        let own = match destination {
            _ if self.shared.apart => self.pid,
            Address::V4(_) => 0,
            Address::V6(a) if a.ip().is_unicast_link_local() => 3,
            Address::V6(_) => 2,
            _ => 0,
        };
        let source = source.copied().unwrap_or_else(|| match destination {
            Address::Ib(a) => Address::Ib(ironverbs_cm::address::IbAddress { gid: device(0).gid, ..*a }),
            _ => v4(HOSTS[own], 0),
        });
        let found = self.device_of(&source).ok().filter(|_| dgid[14..] != [5, 5]);
        Ok(Route { source, device: found, dgid, scope: 0, hop_limit: 64 })
    }

    fn reserve(&mut self, id: u32, wanted: &Binding) -> Result<u16, NoPort> {
        let random = self.random();
        let port = ports::choose(wanted, self.others(id), (32768, 32800), self.shared.low, random)?;
        let binding = Binding { source: wanted.source.with_port(port), ..*wanted };
        assert!(!self.shared.ports.iter().any(|p| (p.pid, p.id) == (self.pid, id)), "reserved twice");
        let (pid, queue) = (self.pid, VecDeque::new());
        self.shared.ports.push(Port { pid, id, binding, listens: None, room: true, queue });
        Ok(port)
    }

    fn listen(&mut self, id: u32, file: File, binding: &Binding) -> Result<(), NoPort> {
        ports::may_listen(binding, self.others(id))?;
        let port = self.shared.port_of(self.pid, id);
        port.listens = Some(file);
        port.binding.reuse = false;
        Ok(())
    }

    fn now(&mut self) -> Duration {
        self.shared.now
    }

    fn random(&mut self) -> u32 {
        self.shared.random.number()
    }

    fn family_only(&mut self, family: Family) -> bool {
        family == Family::V4
    }
}

/// All processes.
pub struct Net {
    pub shared: Shared,
    pub managers: Vec<Option<Manager>>,
    pub timers: BTreeMap<(usize, File), Duration>,
    /// What is between hosts, where each process is on one of its own.
    pub hosts: Option<Hosts>,
}

impl Net {
    pub fn new(processes: usize, seed: u64) -> Net {
        let shared = Shared {
            ports: Vec::new(),
            ends: Vec::new(),
            random: Random::new(seed),
            now: Duration::from_secs(1),
            low: true,
            repeats: false,
            apart: false,
        };
        let managers = (0..processes).map(|_| Some(Manager::new())).collect();
        Net { shared, managers, timers: BTreeMap::new(), hosts: None }
    }

    pub fn open(&mut self, pid: usize) -> File {
        self.managers[pid].as_mut().unwrap().open()
    }

    pub fn command(&mut self, pid: usize, file: File, command: &Command<'_>) -> Result<Answer, Errno> {
        let mut view = View { shared: &mut self.shared, pid };
        let manager = self.managers[pid].as_mut().unwrap();
        let answer = manager.command(file, command, &mut view);
        self.act(pid);
        answer
    }

    pub fn close(&mut self, pid: usize, file: File) {
        self.managers[pid].as_mut().unwrap().close(file);
        self.timers.remove(&(pid, file));
        self.act(pid);
    }

    /// The process dies without a word.
    pub fn kill(&mut self, pid: usize) {
        self.managers[pid] = None;
        self.timers.retain(|(p, _), _| *p != pid);
        self.shared.drop_ports(|p| p.pid == pid);
        if let Some(hosts) = &mut self.hosts {
            hosts.kill(pid);
        }
        for end in 0..self.shared.ends.len() {
            if self.shared.ends[end].pid == pid {
                self.shared.close(end);
            }
        }
    }

    pub fn act(&mut self, pid: usize) {
        while let Some(action) = self.managers[pid].as_mut().and_then(Manager::next_action) {
            match action {
                Action::Connect { link, to, message, .. } if self.connect_afar(pid, link, &to, &message) => {}
                Action::Send { link, message } if self.send_afar(pid, link, &message) => {}
                Action::Close { link } if self.close_afar(pid, link) => {}
                Action::Move { link, .. } if self.is_afar(pid, link) => {}
                Action::Connect { link, file, to, message, .. } => {
                    self.connect(pid, link, file, &to, message)
                }
                Action::Send { link, message } => {
                    let end = self.shared.end_of(pid, link).expect("sends on open links alone");
                    self.shared.ends[end].said.push(message.clone());
                    if let Some(peer) = self.shared.ends[end].peer.filter(|&p| self.shared.ends[p].open) {
                        if self.shared.repeats && self.shared.random.one_in(3) {
                            self.shared.ends[peer].inbox.push_back(Arrival::Message(message.clone()));
                        }
                        self.shared.ends[peer].inbox.push_back(Arrival::Message(message));
                    }
                }
                Action::Close { link } => {
                    let end = self.shared.end_of(pid, link).expect("closes open links alone");
                    self.shared.close(end);
                }
                Action::Move { link, file } => {
                    let end = self.shared.end_of(pid, link).expect("moves open links alone");
                    self.shared.ends[end].file = file;
                }
                Action::MoveListener { id, file } => {
                    self.shared.port_of(pid, id).listens = Some(file);
                }
                Action::Accepting { id, room } => {
                    let port = self.shared.port_of(pid, id);
                    assert_ne!(port.room, room, "says what changed");
                    port.room = room;
                }
                Action::Timer { file, at: Some(at) } => {
                    self.timers.insert((pid, file), at);
                }
                Action::Timer { file, at: None } => {
                    self.timers.remove(&(pid, file));
                }
                Action::Update { id, binding } => {
                    let port = self.shared.port_of(pid, id);
                    assert_eq!(port.binding.source.port(), binding.source.port());
                    port.binding = binding;
                }
                Action::Release { id } => {
                    self.shared.port_of(pid, id);
                    self.shared.drop_ports(|p| (p.pid, p.id) == (pid, id));
                }
            }
        }
        self.settle(pid);
    }

    fn connect(&mut self, pid: usize, link: Link, file: File, to: &Destination, message: Message) {
        let shared = &mut self.shared;
        let own = shared.ends.len();
        shared.ends.push(End {
            pid,
            link: Some(link),
            file,
            inbox: VecDeque::new(),
            peer: None,
            open: true,
            said: Vec::new(),
        });
        match shared.listener(pid, to) {
            Ok(port) => {
                let (pid, file) = (shared.ports[port].pid, shared.ports[port].listens.unwrap());
                let inbox = VecDeque::from([Arrival::Message(message)]);
                shared.ends.push(End {
                    pid,
                    link: None,
                    file,
                    inbox,
                    peer: Some(own),
                    open: true,
                    said: Vec::new(),
                });
                shared.ends[own].peer = Some(own + 1);
                shared.ports[port].queue.push_back(own + 1);
            }
            Err(known) => shared.ends[own].inbox.push_back(Arrival::Refused(known)),
        }
    }

    /// What a channel could read now: ends of links with something in them, and listeners.
    pub fn readable(&self, pid: usize, file: File) -> (Vec<usize>, Vec<usize>) {
        let ends = self.shared.ends.iter().enumerate();
        let mine =
            |e: &End| e.open && e.pid == pid && e.link.is_some() && e.file == file && !e.inbox.is_empty();
        let links = ends.filter(|(_, e)| mine(e)).map(|(i, _)| i).collect();
        let ports = self.shared.ports.iter().enumerate();
        let listens = |p: &Port| p.pid == pid && p.listens == Some(file) && p.room && !p.queue.is_empty();
        (links, ports.filter(|(_, p)| listens(p)).map(|(i, _)| i).collect())
    }

    /// Gives a channel one thing that it could read; false where there is none.
    pub fn feed(&mut self, pid: usize, file: File) -> bool {
        if self.arrive() {
            return true;
        }
        let (links, ports) = self.readable(pid, file);
        if links.is_empty() && ports.is_empty() {
            return false;
        }
        let choice = self.shared.random.below(links.len() + ports.len());
        let manager = self.managers[pid].as_mut().unwrap();
        if let Some(&end) = links.get(choice) {
            let link = self.shared.ends[end].link.unwrap();
            let arrival = self.shared.ends[end].inbox.pop_front().unwrap();
            arrival.tell(manager, link, &mut View { shared: &mut self.shared, pid });
        } else {
            let port = &mut self.shared.ports[ports[choice - links.len()]];
            let (listener, end) = (port.id, port.queue.pop_front().unwrap());
            let Some(Arrival::Message(message)) = self.shared.ends[end].inbox.pop_front() else {
                unreachable!()
            };
            let mut view = View { shared: &mut self.shared, pid };
            let link = manager.accepted(listener, &message[..], &mut view);
            self.shared.ends[end].link = Some(link);
            self.shared.ends[end].file = self
                .shared
                .ports
                .iter()
                .find(|p| (p.pid, p.id) == (pid, listener))
                .map_or(file, |p| p.listens.unwrap());
        }
        self.act(pid);
        true
    }

    /// Gives a listener a link whose first message is this; also where it is no listener at all.
    pub fn give(&mut self, pid: usize, listener: u32, message: &[u8]) {
        let mut view = View { shared: &mut self.shared, pid };
        let link = self.managers[pid].as_mut().unwrap().accepted(listener, message, &mut view);
        let (link, file, inbox) = (Some(link), File(0), VecDeque::new());
        self.shared.ends.push(End { pid, link, file, inbox, peer: None, open: true, said: Vec::new() });
        self.act(pid);
    }

    /// Lets the clock run until the next time that somebody asked for; false where nobody did.
    pub fn sleep(&mut self) -> bool {
        let first = self.timers.iter().min_by_key(|(_, at)| **at);
        let next = self.hosts.as_ref().and_then(Hosts::next);
        if let Some(next) = next.filter(|next| first.is_none_or(|(_, at)| next < at)) {
            self.shared.now = self.shared.now.max(next);
            self.arrive();
            return true;
        }
        let Some((&(pid, file), &at)) = first else { return false };
        self.timers.remove(&(pid, file));
        self.shared.now = self.shared.now.max(at);
        let mut view = View { shared: &mut self.shared, pid };
        self.managers[pid].as_mut().unwrap().expired(file, &mut view);
        self.act(pid);
        true
    }

    /// GET_EVENT as a program sees it that does not wait.
    pub fn event(&mut self, pid: usize, file: File) -> Option<Event> {
        while !self.managers[pid].as_ref().unwrap().ready(file) {
            if !self.feed(pid, file) {
                return None;
            }
        }
        match self.command(pid, file, &Command::GetEvent) {
            Ok(Answer::Event(event)) => Some(*event),
            other => panic!("GET_EVENT: {other:?}"),
        }
    }
}

/// Parameters of a connection with some private data.
pub fn param(data: &[u8]) -> ConnParam {
    let mut param = ConnParam {
        qp_num: 0x1234,
        responder_resources: 1,
        initiator_depth: 2,
        retry_count: 7,
        rnr_retry_count: 6,
        valid: 1,
        private_data_len: data.len() as u8,
        ..ConnParam::default()
    };
    param.private_data[..data.len()].copy_from_slice(data);
    param
}
