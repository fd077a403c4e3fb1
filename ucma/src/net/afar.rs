//! Which addresses are on other hosts, and whom a request from there is for.

use std::net::Ipv6Addr;

use ironverbs_cm::Link;
use ironverbs_cm::address::{Address, Gid, IbAddress};
use ironverbs_cm::network::{Output, Peer};
use ironverbs_cm::world::{Message, NoRoute, Route};
use ironverbs_os::thread;
use softrdma::device::Settings;

use super::{HOPS, Net, address_of};
use crate::network::Network;
use crate::registry::search::Search;
use crate::{entry, route, soft, sys};

/// Who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// An id of this process.
    Here(u32),
    /// That of another process, by its number in the folder and the name of the socket where it listens.
    There(u64, u64),
    /// Nobody at the address; perhaps at another one of the port.
    Nobody(bool),
    /// Nobody, but somebody may be about to.
    Soon,
    /// It cannot be found out now.
    Unclear,
}

impl Net {
    /// The way to other hosts, opened where the environment asks for it.
    fn network(&mut self) -> Option<&mut Network> {
        if self.network.is_none() && Settings::asks_for_network() {
            // Why not, the device says where the program opens it.
            let network = Network::open().ok()?;
            // Without a thread nothing that is lost comes again, and nobody hears what comes.
            thread::start(c"ironverbs-cm", entry::look_at_network).ok()?;
            self.name = Some((network.process, sys::secret()));
            self.network = Some(network);
        }
        self.network.as_mut()
    }

    /// How connections are named from now on, said once.
    pub fn take_name(&mut self) -> Option<(u16, u128)> {
        self.name.take()
    }

    /// Requests to listeners of this process come from other hosts, too.
    pub(super) fn serve_network(&mut self) {
        let Some(owner) = self.meeting.as_ref().map(|(_, registry)| registry.owner()) else { return };
        if let Some(network) = self.network() {
            network.serve(owner);
            network.look_again();
        }
    }

    /// Whether this is an own address on the network.
    pub fn is_on_network(&mut self, gid: &Gid) -> bool {
        self.gids().is_on_network(gid)
    }

    /// The other host that has an address, as it is reached from an own one. `None` of an address of this host,
    /// or of processes that share the folder, and where none is on the network.
    fn peer(&mut self, from: &Address, to: &Address) -> Option<Peer> {
        if !Settings::asks_for_network() || to.is_any() || to.is_multicast() {
            return None;
        }
        let (address, own) = (to.gid()?, from.gid()?);
        let is_ours = !self.is_on_network(&own) || self.gids().of_gid(&address).is_some();
        let is_near = |net: &mut Net| {
            soft::is_public(&address)
                && net.meeting().is_ok_and(|(folder, registry)| registry.knows(folder, &address))
        };
        if is_ours || is_near(self) {
            return None;
        }
        let is_link = Ipv6Addr::from(address).is_unicast_link_local();
        let interface = if !is_link {
            0
        } else if to.scope() != 0 {
            to.scope()
        } else {
            self.gids().interface_index_of(&own)
        };
        Some(Peer { address, own, interface })
    }

    /// Connects a link to another host; whether it is on its way there. `None` where it leads to none.
    pub fn connect_afar(
        &mut self,
        link: Link,
        from: &Address,
        to: &Address,
        message: &Message,
    ) -> Option<bool> {
        let peer = self.peer(from, to)?;
        let Some(network) = self.network() else { return Some(false) };
        network.exchanges.connect(link, peer, message, sys::now());
        Some(true)
    }

    /// The way to another host. `None` where the address is on none, or none is reached.
    pub(super) fn route_afar(
        &mut self,
        source: Option<&Address>,
        destination: &Address,
    ) -> Option<Result<Route, NoRoute>> {
        if !Settings::asks_for_network() {
            return None;
        }
        let dgid = destination.gid()?;
        let ip = |address: &Address| match address {
            Address::Ib(native) => address_of(&native.gid),
            ip => *ip,
        };
        let own = match route::source(source.map(ip).as_ref(), &ip(destination)) {
            Ok(own) => own,
            Err(why) => return Some(Err(NoRoute::Table(why))),
        };
        self.peer(&own, destination)?;
        self.network()?;
        let device = self.gids().of_address(&own).ok();
        let scope = own.scope();
        let own = match destination {
            Address::Ib(to) => Address::Ib(IbAddress { gid: own.gid()?, ..*to }),
            _ => own,
        };
        Some(Ok(Route { source: own, device, dgid, scope, hop_limit: HOPS }))
    }

    /// Who listens at an address, for a request from another host.
    pub fn seek(&mut self, service: u64, to: &Address) -> Sought {
        self.gids().refresh();
        // Who has no channel any more does not know the folder.
        if self.channels.is_empty() || self.meeting().is_err() {
            return Sought::Unclear;
        }
        let (Some((_, registry)), Some(table)) = (&self.meeting, &self.table) else {
            return Sought::Unclear;
        };
        let near = |own: &Address| table.on_one_interface(own, to);
        match registry.find_for_others(service, to, &near) {
            Ok(Search::Listener(found)) if found.owner() == registry.owner() => {
                self.listener(found.socket()).map_or(Sought::Unclear, Sought::Here)
            }
            Ok(Search::Listener(found)) => Sought::There(found.owner(), found.socket()),
            Ok(Search::OtherAddress) => Sought::Nobody(true),
            Ok(Search::Nobody) => Sought::Nobody(false),
            Ok(Search::Soon) => Sought::Soon,
            Err(_) => Sought::Unclear,
        }
    }

    /// The listener whose socket has this name.
    pub fn listener(&self, name: u64) -> Option<u32> {
        let mut all = self.listeners.iter();
        all.find(|(_, (_, own))| *own == name).map(|(id, _)| *id)
    }

    /// The next thing that connections to other hosts bring, packets but.
    pub fn next_output(&mut self) -> Option<Output> {
        let network = self.network.as_mut()?;
        let output = network.next_output();
        if output.is_none() {
            network.look_in_time();
        }
        output
    }
}
