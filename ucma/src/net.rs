//! The world outside of the connection manager: channels, sockets, ports and addresses.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ironverbs_cm::address::{Address, Family, Gid};
use ironverbs_cm::network::Repeated;
use ironverbs_cm::ports::{Binding, NoPort};
use ironverbs_cm::wire;
use ironverbs_cm::world::{Destination, Device, Message, NoDevice, NoRoute, Route};
use ironverbs_cm::{File, Link, World};
use softrdma::capture;
use softrdma::shm::folder::{Config, Folder};

use crate::channel::{Channel, Member};
use crate::network::Network;
use crate::registry::search::Search;
use crate::registry::{Registry, room};
use crate::sockets::Socket;
use crate::{route, shim, soft, sys};

mod afar;
mod lost;

pub use afar::Sought;
pub use lost::{is_lost, repeated};

/// What a socket is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An id listens here.
    Listens(u32),
    /// Accepted for this listener, and its first message has not come.
    Unborn(u32),
    /// A connection that the manager knows.
    Linked(Link),
}

/// A socket, and the channel that it wakes.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: Socket,
    /// What for.
    pub role: Role,
    /// The channel.
    pub file: File,
    /// The GIDs of this side and of the other one, once there was a message that has them.
    pub between: Option<(Gid, Gid)>,
}

impl Connection {
    /// Sends a message, which is a packet in the process's capture.
    fn send(&self, message: &Message) {
        if let Some((own, other)) = self.between {
            capture::management(own, other, message);
        }
        self.socket.send(&message[..]);
    }
}

/// A connect whose listener had no place in its queue, or whose message was lost.
#[derive(Debug)]
pub struct Waiting {
    /// The link's number.
    pub link: Link,
    /// The channel of the link.
    pub file: File,
    /// Where to.
    pub to: Destination,
    /// The first message.
    pub message: Message,
    /// When to try again.
    pub at: Duration,
    /// Until when somebody is waited for who has the port and does not listen.
    pub until: Duration,
    /// The message was lost so far.
    pub lost: Option<Repeated>,
}

/// How a connect ended.
#[derive(Debug)]
pub enum Connected {
    /// It is there, and the message is out.
    Yes,
    /// The listener's queue is full.
    Later(Message),
    /// Nobody listens, but somebody may be about to.
    Soon(Message),
    /// Nobody listens at the address; perhaps at another one of the port.
    Refused(bool),
    /// It is not to be reached.
    Unreachable,
}

/// Everything that the manager asks of the world.
#[derive(Default)]
pub struct Net {
    /// Channels by the manager's numbers.
    pub channels: HashMap<File, Channel>,
    /// Sockets by their numbers in the channels.
    pub sockets: HashMap<u64, Connection>,
    links: HashMap<Link, u64>,
    /// Sockets that were accepted for a listener and have said nothing, the oldest first.
    unborn: HashMap<u32, BTreeSet<u64>>,
    /// Socket and name of each listener.
    listeners: HashMap<u32, (u64, u64)>,
    /// Connects to be tried again.
    pub waiting: Vec<Waiting>,
    /// Messages to be sent again.
    lost: lost::Lost,
    numbers: u64,
    meeting: Option<(Folder, Registry)>,
    /// The way to other hosts, from when it is needed first.
    pub network: Option<Network>,
    /// When it is asked for again where it was not to be had.
    no_network_until: Option<Duration>,
    /// How the folder was when it was last looked whether somebody listens.
    looked_at: Option<u64>,
    name: Option<(u16, u128)>,
    devices: Option<Vec<soft::Known>>,
    table: Option<soft::Table>,
}

impl Net {
    /// The folder and the ports, from when they are needed first.
    fn meeting(&mut self) -> Result<&mut (Folder, Registry), i32> {
        let open = || {
            let folder = Config::from_env().and_then(|config| Folder::open(&config));
            folder.map(|folder| folder.out_of_the_way(shim::floor())).map_err(|why| why.errno())
        };
        match &mut self.meeting {
            // The program may have closed descriptors that it did not open.
            Some((folder, registry)) => {
                if folder.descriptor() < 0 {
                    *folder = open()?;
                }
                registry.refresh(folder)?;
            }
            None => {
                let folder = open()?;
                let registry = Registry::open(&folder)?;
                self.meeting = Some((folder, registry));
            }
        }
        self.meeting.as_mut().ok_or(libc::ENOMEM)
    }

    /// There is no channel any more: nothing stays open, but as long as other hosts may ask for what was said.
    pub fn rest(&mut self) {
        if !self.channels.is_empty() || self.stays() {
            return;
        }
        if let Some(network) = &mut self.network {
            network.named = None;
        }
        if let Some((folder, registry)) = self.meeting.take() {
            registry.end(&folder);
        }
        self.table = None;
    }

    /// The GIDs, from when they are needed first.
    fn gids(&mut self) -> &mut soft::Table {
        let devices = self.devices.get_or_insert_with(soft::devices);
        self.table.get_or_insert_with(|| soft::Table::new(devices.clone()))
    }

    /// The name of the interface that has a local address.
    pub fn interface_of(&mut self, address: &Address) -> Option<String> {
        self.gids().interface_of(address)
    }

    /// Makes a socket a member of its channel; its number.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC.
    pub fn join(&mut self, socket: Socket, role: Role, file: File) -> Result<u64, i32> {
        let number = self.numbers;
        self.numbers += 1;
        if let Some(channel) = self.channels.get(&file) {
            channel.add(socket.fd(), Member::Socket(number))?;
        }
        self.sockets.insert(number, Connection { socket, role, file, between: None });
        match role {
            Role::Listens(_) => {}
            Role::Unborn(listener) => {
                self.unborn.entry(listener).or_default().insert(number);
            }
            Role::Linked(link) => {
                self.links.insert(link, number);
            }
        }
        Ok(number)
    }

    /// A socket is a connection from now on, by its first message.
    pub fn born(&mut self, number: u64, link: Link, first: &[u8]) {
        if let Some(member) = self.sockets.get_mut(&number) {
            member.between = wire::ends(first).map(|(other, own)| (own, other));
            let before = std::mem::replace(&mut member.role, Role::Linked(link));
            self.links.insert(link, number);
            self.forget_unborn(before, number);
        }
    }

    /// The sockets accepted for a listener that have said nothing: how many, and the oldest.
    pub fn unborn(&self, listener: u32) -> (usize, Option<u64>) {
        self.unborn.get(&listener).map_or((0, None), |all| (all.len(), all.first().copied()))
    }

    fn forget_unborn(&mut self, role: Role, number: u64) {
        if let Role::Unborn(listener) = role
            && let Some(all) = self.unborn.get_mut(&listener)
        {
            all.remove(&number);
            if all.is_empty() {
                self.unborn.remove(&listener);
            }
        }
    }

    /// Closes a socket and forgets it.
    pub fn leave(&mut self, number: u64) {
        let Some(member) = self.sockets.remove(&number) else { return };
        if let Some(channel) = self.channels.get(&member.file) {
            channel.remove(member.socket.fd());
        }
        if let Role::Linked(link) = member.role {
            self.links.remove(&link);
        }
        self.forget_unborn(member.role, number);
        member.socket.end();
    }

    fn wake_other(&mut self, number: u64, file: File) {
        let Some(member) = self.sockets.get_mut(&number) else { return };
        if let Some(channel) = self.channels.get(&member.file) {
            channel.remove(member.socket.fd());
        }
        member.file = file;
        if let Some(channel) = self.channels.get(&file) {
            let _ = channel.add(member.socket.fd(), Member::Socket(number));
        }
    }

    /// Connects a link and sends its first message.
    pub fn connect(&mut self, link: Link, file: File, to: Destination, message: Message) -> Connected {
        self.gids().refresh();
        if self.meeting().is_err() {
            return Connected::Unreachable;
        }
        let (Some((folder, registry)), Some(table)) = (&mut self.meeting, &self.table) else {
            return Connected::Unreachable;
        };
        let public = to.address.gid().is_some_and(|gid| soft::is_public(&gid));
        // With the kernel, a listener hears what comes to the device that its address has: each interface is
        // one.
        let near = |own: &Address| table.on_one_interface(own, &to.address);
        let found = match registry.find(folder, to.service, &to.address, public, &near) {
            Ok(Search::Listener(found)) => found,
            Ok(Search::OtherAddress) => return Connected::Refused(true),
            Ok(Search::Nobody) => return Connected::Refused(false),
            Ok(Search::Soon) => return Connected::Soon(message),
            Err(_) => return Connected::Later(message),
        };
        match registry.reach(folder, &found, Socket::connect) {
            Ok(socket) => {
                // What answers it comes in a later call.
                let Ok(number) = self.join(socket, Role::Linked(link), file) else {
                    return Connected::Unreachable;
                };
                if let Some(member) = self.sockets.get_mut(&number) {
                    member.between = wire::ends(&message[..]);
                    member.send(&message);
                }
                Connected::Yes
            }
            Err(libc::ECONNREFUSED | libc::ENOENT) => Connected::Refused(false),
            // Other processes may close descriptors soon.
            Err(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS) => {
                Connected::Later(message)
            }
            Err(_) => Connected::Unreachable,
        }
    }

    /// Sends on a link.
    pub fn send(&mut self, link: Link, message: Message) {
        if let Some(network) = self.network.as_mut().filter(|network| network.exchanges.has(link)) {
            network.exchanges.send(link, message, sys::now());
        } else {
            self.send_near(link, message);
        }
    }

    /// Closes a link.
    pub fn close(&mut self, link: Link) {
        self.waiting.retain(|waiting| waiting.link != link);
        if let Some(network) = &mut self.network {
            network.exchanges.close(link, sys::now());
        }
        if !self.closes_later(link) {
            self.hang_up(link);
        }
    }

    /// Gives a link to another channel.
    pub fn give(&mut self, link: Link, file: File) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.link == link) {
            waiting.file = file;
        }
        if let Some(number) = self.links.get(&link).copied() {
            self.wake_other(number, file);
        }
    }

    /// Gives a listener, with what waits there, to another channel.
    pub fn give_listener(&mut self, id: u32, file: File) {
        for number in self.of_listener(id) {
            self.wake_other(number, file);
        }
    }

    fn of_listener(&self, id: u32) -> Vec<u64> {
        let unborn = self.unborn.get(&id).into_iter().flatten().copied();
        unborn.chain(self.listeners.get(&id).map(|(number, _)| *number)).collect()
    }

    /// Whether connections to a listener wake its channel.
    pub fn accepting(&mut self, id: u32, room: bool) {
        let Some((number, _)) = self.listeners.get(&id) else { return };
        let Some(member) = self.sockets.get(number) else { return };
        if let Some(channel) = self.channels.get(&member.file) {
            if room {
                let _ = channel.add(member.socket.fd(), Member::Socket(*number));
            } else {
                channel.remove(member.socket.fd());
            }
        }
    }

    /// Changes what an id has.
    pub fn update(&mut self, id: u32, binding: &Binding) {
        if let Some((_, registry)) = &mut self.meeting {
            registry.update(id, binding);
        }
    }

    /// Gives an id's port back, and closes what waits there.
    pub fn release(&mut self, id: u32) {
        for number in self.of_listener(id) {
            self.leave(number);
        }
        let listened = self.listeners.remove(&id);
        if let Some((_, registry)) = &mut self.meeting {
            if let Some((_, name)) = listened {
                registry.forget(name);
            }
            registry.release(id);
        }
    }

    /// The next connection at a listener's socket.
    ///
    /// # Errors
    /// Those of [`Socket::accept`].
    pub fn accept(&mut self, number: u64) -> Result<Option<Socket>, i32> {
        if self.meeting().is_err() {
            return Err(libc::EACCES);
        }
        let Some(member) = self.sockets.get(&number) else { return Ok(None) };
        let Some((folder, _)) = &self.meeting else { return Ok(None) };
        member.socket.accept(folder)
    }

    /// Removes what others could see of this process ([`Registry::end`]).
    pub fn end(&mut self) {
        if let Some(network) = &mut self.network {
            network.end();
        }
        if let Some((folder, registry)) = &self.meeting {
            for (_, name) in self.listeners.values() {
                registry.forget(*name);
            }
            registry.end(folder);
        }
    }
}

impl World for Net {
    fn device_of(&mut self, address: &Address) -> Result<Device, NoDevice> {
        self.gids().of_address(address)
    }

    fn device_of_gid(&mut self, gid: &Gid) -> Option<Device> {
        self.gids().of_gid(gid)
    }

    fn route(&mut self, source: Option<&Address>, destination: &Address) -> Result<Route, NoRoute> {
        self.name_network();
        if destination.is_any() {
            let family = destination.family().unwrap_or(Family::V4);
            let own = if destination.is_zero() { loopback(family) } else { *destination };
            let device = self.gids().of_loopback(&own);
            let dgid = device.map_or([0; 16], |device| device.gid);
            return Ok(Route { source: own.with_port(0), device, dgid, scope: 0, hop_limit: HOPS });
        }
        if let Address::Ib(to) = destination {
            // A native address names a GID: this host's, or one on the network.
            let Some(device) = self.gids().of_gid(&to.gid) else {
                return self.route_afar(source, destination).unwrap_or(Err(NoRoute::NoHost));
            };
            let own = source.copied().unwrap_or(*destination);
            return Ok(Route { source: own, device: Some(device), dgid: to.gid, scope: 0, hop_limit: HOPS });
        }
        let dgid = destination.gid().unwrap_or_default();
        let is_own = destination.is_multicast() || self.gids().of_gid(&dgid).is_some();
        // The folder is the network to hosts in other network namespaces, whatever the routing table says.
        let elsewhere = !is_own
            && soft::is_public(&dgid)
            && self.meeting().is_ok_and(|(folder, registry)| registry.knows(folder, &dgid));
        if !is_own
            && !elsewhere
            && let Some(route) = self.route_afar(source, destination)
        {
            return route;
        }
        let own = match route::source(source, destination) {
            Ok(own) if !elsewhere || self.gids().of_address(&own).is_ok() => own,
            Err(why) if !elsewhere => return Err(NoRoute::Table(why)),
            _ => {
                let device = self.gids().of_family(destination.family() == Some(Family::V4));
                address_of(&device.ok_or(NoRoute::Table(libc::ENETUNREACH))?.gid)
            }
        };
        if !is_own && !elsewhere {
            // That host is not reached, so nobody there answers.
            return Err(NoRoute::NoNeighbour);
        }
        let device = self.gids().of_address(&own).ok().or_else(|| self.gids().of_loopback(&own));
        Ok(Route { source: own, device, dgid, scope: own.scope(), hop_limit: HOPS })
    }

    fn reserve(&mut self, id: u32, wanted: &Binding) -> Result<u16, NoPort> {
        let (_, registry) = self.meeting()?;
        let port = wanted.source.port();
        let low = port == 0 || port >= 1024 || sys::may_bind_low_ports();
        registry.reserve(id, wanted, low)
    }

    fn listen(&mut self, id: u32, file: File, binding: &Binding) -> Result<(), NoPort> {
        let gids = (!binding.source.is_loopback()).then(|| self.gids().public_gids());
        let (_, registry) = self.meeting()?;
        if let Some(gids) = gids {
            // Where this fails, processes in this network namespace find the listener all the same.
            let _ = registry.publish(&gids);
        }
        let mut socket = None;
        let name = registry.listen(id, binding, |folder, name| {
            socket = Some(Socket::listen(folder, name)?);
            Ok(())
        })?;
        if let Some(socket) = socket {
            let number = self.join(socket, Role::Listens(id), file)?;
            self.listeners.insert(id, (number, name));
        }
        if !binding.source.is_loopback() {
            self.serve_network();
        }
        Ok(())
    }

    fn now(&mut self) -> Duration {
        sys::now()
    }

    fn random(&mut self) -> u32 {
        sys::random() as u32
    }

    fn family_only(&mut self, family: Family) -> bool {
        let set = || room::setting("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "1");
        family == Family::V4 || family == Family::V6 && set()
    }

    fn max_backlog(&mut self) -> i32 {
        let text = room::setting("/proc/sys/net/rdma_ucm/max_backlog").ok();
        text.and_then(|text| text.trim().parse().ok()).filter(|most| *most > 0).unwrap_or(1024)
    }
}

/// Hop limit that Linux gives to packets.
const HOPS: u8 = 64;

/// The IP address that a GID of RoCE v2 stands for.
fn address_of(gid: &Gid) -> Address {
    let ip = std::net::Ipv6Addr::from(*gid);
    Address::ip(ip.to_ipv4_mapped().map_or(ip.into(), Into::into), 0)
}

fn loopback(family: Family) -> Address {
    Address::ip(
        match family {
            Family::V6 => std::net::Ipv6Addr::LOCALHOST.into(),
            _ => std::net::Ipv4Addr::LOCALHOST.into(),
        },
        0,
    )
}
