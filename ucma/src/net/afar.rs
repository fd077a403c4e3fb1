//! Which addresses are on other hosts, and whom a request from there is for.

use std::net::Ipv6Addr;
use std::time::Duration;

use ironverbs_cm::Link;
use ironverbs_cm::address::{Address, Gid, IbAddress};
use ironverbs_cm::network::{Output, Peer, names};
use ironverbs_cm::world::{Message, NoRoute, Route};
use ironverbs_os::thread;
use softrdma::device::{Management, Settings};

use super::{HOPS, Net, address_of};
use crate::mail::Letter;
use crate::network::{Came, Network};
use crate::registry::letters::To;
use crate::registry::search::Search;
use crate::{entry, route, soft, sys};

/// When the port is asked for again that was not to be had.
const WITHOUT_NETWORK: Duration = Duration::from_secs(10);

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
    /// Whether the way to other hosts is to be [opened](Self::open_network).
    pub fn wants_network(&self) -> bool {
        self.network.is_none()
            && Settings::asks_for_network()
            && self.no_network_until.is_none_or(|until| until <= sys::now())
    }

    /// Begins to hear of other hosts, where the port is to be had. Why not, the device says where the program
    /// opens it.
    pub fn open_network(&mut self, port: Option<Management>) {
        if self.network.is_some() {
            return;
        }
        self.no_network_until = Some(sys::now() + WITHOUT_NETWORK);
        let Some(Ok(network)) = port.map(Network::new) else { return };
        // Without a thread nothing that is lost comes again, and nobody hears what comes.
        if thread::start(c"ironverbs-cm", entry::look_at_network).is_ok() {
            self.network = Some(network);
        }
    }

    /// The way to other hosts, where there is one. This process has upper bits for the numbers of its
    /// connections then, by which other processes find it.
    fn network(&mut self) -> Option<&mut Network> {
        let is_named = self.network.as_ref()?.named.is_some();
        if !is_named {
            let (_, registry) = self.meeting().ok()?;
            let named = registry.open_mailbox().ok()?;
            self.name = Some((named.0, sys::secret()));
            if let Some(network) = &mut self.network {
                network.named = Some(named);
                network.look_again();
            }
        }
        self.network.as_mut()
    }

    /// The program resolves an address: connections have numbers by which answers find this process from before
    /// there is one to another host.
    pub(super) fn name_network(&mut self) {
        let _way = self.network();
    }

    /// Gives a message that was taken from the network to another process; whether there is one.
    pub fn pass_on(&mut self, to: To, came: &Came, listener: u64) -> bool {
        if self.meeting().is_err() {
            return false;
        }
        let (Some((_, registry)), Some(network)) = (&self.meeting, &self.network) else { return false };
        let Some((_, mailbox)) = &network.named else { return false };
        registry.send(mailbox, to, &Letter { listener, peer: came.peer, mad: *came.mad })
    }

    /// Whether the process has connections to other hosts, though they be over.
    fn has_network_connections(&self) -> bool {
        self.network.as_ref().is_some_and(|network| !network.exchanges.is_empty())
    }

    /// Whether the folder is still needed where there is no channel any more: who asks for what was said last
    /// may be heard by any process.
    pub(super) fn stays(&mut self) -> bool {
        let stays = self.has_network_connections();
        if stays && let Some((_, registry)) = &mut self.meeting {
            registry.stay();
        }
        stays
    }

    /// Whether this process takes messages from the port: who has nothing to do with connections leaves those
    /// that come to others.
    pub fn takes_from_port(&self) -> bool {
        self.meeting.is_some() && (!self.channels.is_empty() || self.has_network_connections())
    }

    /// Whether somebody may have begun to listen since this was asked last.
    pub fn may_listen(&mut self) -> bool {
        let Ok((_, registry)) = self.meeting() else { return true };
        let changed = registry.changed();
        let before = std::mem::replace(&mut self.looked_at, changed);
        changed.is_none() || changed != before
    }

    /// How connections are named from now on, said once.
    pub fn take_name(&mut self) -> Option<(u16, u128)> {
        self.name.take()
    }

    /// Requests to listeners of this process come from other hosts, too.
    pub(super) fn serve_network(&mut self) {
        if let Some(network) = self.network() {
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
        // One from before this process could be found by it: no answer would come.
        if !names(&message[..]).is_some_and(|number| network.is_own(number)) {
            return Some(false);
        }
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
        // Who has left the folder does not know.
        if self.meeting.is_none() || self.meeting().is_err() {
            return Sought::Unclear;
        }
        let (Some((_, registry)), Some(table)) = (&mut self.meeting, &self.table) else {
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
