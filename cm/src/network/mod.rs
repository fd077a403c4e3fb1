//! Messages to and from other hosts: below links, so that the manager sees one that loses nothing.
//!
//! | file | subject |
//! |---|---|
//! | this | which connection a message is of |
//! | `exchange` | the messages of one connection |
//! | `repeat` | when a message is sent again, and how long |
//!
//! A network loses, doubles and delays packets. What asks for an answer is repeated until that comes, what
//! comes again is answered as before, and of several that say the same the manager hears once. It has no clock
//! and no I/O: messages, links and times go in, and [`Exchanges::next_output`] comes out.
//!
//! Nothing that comes is believed but what its packet's addresses say: a message counts only where it comes
//! from the host to which the connection leads, and names the numbers of both sides, as far as they were told.

mod exchange;
mod repeat;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::address::{Gid, PortSpace, gid_of};
use crate::requests::refusal;
use crate::wire::{self, Body, Drep, IpHeader, Mad, Req, reason, status};
use crate::world::{Link, Message};
use exchange::{Exchange, Stage};
pub use repeat::{Patience, Repeated};

/// How long what was said last is remembered, for who did not hear it.
const MEMORY: Duration = Duration::from_secs(32);
/// Connections that are over and remembered, at most; those whose end nobody has agreed to do not count.
const MOST_OVER: usize = 4096;

/// Between which addresses packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The other host's address, as a GID of RoCE v2.
    pub address: Gid,
    /// The own one.
    pub own: Gid,
    /// The index of the own network interface, where the other host's address is link-local; else 0.
    pub interface: u32,
}

impl Peer {
    fn is(&self, other: &Peer) -> bool {
        self.address == other.address && self.own == other.own
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A message is to be sent to another host.
    Packet {
        /// Between these addresses.
        peer: Peer,
        /// What.
        message: Message,
    },
    /// A message came on a link: [`Manager::message`](crate::Manager::message).
    Message {
        /// The link.
        link: Link,
        /// What.
        message: Message,
    },
    /// Nobody answers: [`Manager::unreachable`](crate::Manager::unreachable).
    Unreachable {
        /// The link.
        link: Link,
    },
    /// The other side's queue pair has another connection: [`Manager::ended`](crate::Manager::ended).
    Ended {
        /// The link.
        link: Link,
    },
}

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// Whoever listens at this service id.
    Listener {
        /// The service id.
        service: u64,
        /// The port of the address that asks, and the address asked for, where the request says them.
        header: Option<IpHeader>,
    },
    /// Whoever has the connection of this number.
    Connection(u32),
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// All is done.
    Taken,
    /// It is a request that is not known. [`Exchanges::accepted`] follows, or [`refuse`].
    Request,
}

/// Whom a message is for. `None` of what is no message, or one of nobody: a request that says of itself that it
/// is from, or to, another address than its packet.
pub fn addressee(peer: &Peer, bytes: &[u8]) -> Option<Addressee> {
    let of = |service: u64, private_data: &[u8]| {
        // Of native addresses there is none, as the port space says.
        let is_native = PortSpace::of_service(service).is_none_or(|space| space == PortSpace::Ib);
        let header = IpHeader::read(private_data).filter(|_| !is_native);
        let fits = |header: &IpHeader| {
            (gid_of(header.source), gid_of(header.destination)) == (peer.address, peer.own)
        };
        header.as_ref().is_none_or(fits).then_some(header)
    };
    Some(match wire::decode(bytes).ok()?.body {
        Body::Req(req) if !is_between(&req, peer) => return None,
        Body::Req(req) => {
            let service = req.service;
            Addressee::Listener { service, header: of(service, &req.private_data)? }
        }
        Body::SidrReq(req) => {
            let service = req.service;
            Addressee::Listener { service, header: of(service, &req.private_data)? }
        }
        Body::Mra(m) => Addressee::Connection(m.remote_comm_id),
        Body::Rej(m) => Addressee::Connection(m.remote_comm_id),
        Body::Rep(m) => Addressee::Connection(m.remote_comm_id),
        Body::Rtu(m) => Addressee::Connection(m.remote_comm_id),
        Body::Dreq(m) => Addressee::Connection(m.remote_comm_id),
        Body::Drep(m) => Addressee::Connection(m.remote_comm_id),
        Body::SidrRep(m) => Addressee::Connection(m.request_id),
        Body::Lap(m) => Addressee::Connection(m.remote_comm_id),
        Body::Apr(m) => Addressee::Connection(m.remote_comm_id),
    })
}

fn is_between(req: &Req, peer: &Peer) -> bool {
    req.local_gid == peer.address && req.remote_gid == peer.own
}

/// The answer to a request for which nobody listens, though somebody may at another address (`known`). `None`
/// of what is no request.
pub fn refuse(bytes: &[u8], known: bool) -> Option<Message> {
    let Mad { transaction, body } = wire::decode(bytes).ok()?;
    let (why, sidr) = if known {
        (reason::CONSUMER_DEFINED, status::REJECT)
    } else {
        (reason::INVALID_SERVICE_ID, status::UNSUPPORTED)
    };
    Some(wire::encode(&Mad { transaction, body: refusal(&body, why, sidr)? }))
}

/// The number by which a request names its sender's connection; `None` of any other message.
pub fn names(bytes: &[u8]) -> Option<u32> {
    match wire::decode(bytes).ok()?.body {
        Body::Req(req) => Some(req.local_comm_id),
        Body::SidrReq(req) => Some(req.request_id),
        _ => None,
    }
}

/// The answer to who wants the end of a connection that nobody has; `None` of any other message.
pub fn agree(bytes: &[u8]) -> Option<Message> {
    let Mad { transaction, body: Body::Dreq(dreq) } = wire::decode(bytes).ok()? else { return None };
    let (local_comm_id, remote_comm_id) = (dreq.remote_comm_id, dreq.local_comm_id);
    Some(wire::encode(&Mad { transaction, body: Body::Drep(Drep { local_comm_id, remote_comm_id }) }))
}

/// A request as its sender names it: address, number, whether it is for datagrams.
type Asker = (Gid, u32, bool);

/// All connections to other hosts. See the module.
#[derive(Debug, Default)]
pub struct Exchanges {
    all: BTreeMap<Link, Exchange>,
    own: BTreeMap<u32, Link>,
    askers: BTreeMap<Asker, Link>,
    /// Of connections by the other side's address and queue pair.
    queue_pairs: BTreeMap<(Gid, u32), Link>,
    due: BTreeSet<(Duration, Link)>,
    /// Those that are over, in the order in which they are forgotten.
    over: VecDeque<Link>,
    out: VecDeque<Output>,
}

impl Exchanges {
    /// Whether this is the link of one.
    pub fn has(&self, link: Link) -> bool {
        self.all.contains_key(&link)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The manager connects a link to another host, with a request.
    pub fn connect(&mut self, link: Link, peer: Peer, message: &Message, now: Duration) {
        if let Some(exchange) = Exchange::asks(link, peer, message, now) {
            self.out.push_back(Output::Packet { peer, message: message.clone() });
            self.name(&exchange);
            self.put(exchange);
        }
    }

    /// A request that came has this link, and this number here; 0 where that is not known yet.
    pub fn accepted(&mut self, link: Link, peer: Peer, bytes: &[u8], own: u32) {
        if let Some(exchange) = Exchange::asked(link, peer, bytes, own) {
            if let Some(asker) = asker(&exchange) {
                self.askers.insert(asker, link);
            }
            self.name(&exchange);
            self.put(exchange);
        }
    }

    /// What names its number finds it.
    fn name(&mut self, exchange: &Exchange) {
        if exchange.own != 0 {
            self.own.insert(exchange.own, exchange.link);
        }
    }

    /// The manager sends on a link.
    pub fn send(&mut self, link: Link, message: Message, now: Duration) {
        if let Some(mut exchange) = self.take(link) {
            exchange.send(message, now, &mut self.out);
            self.name(&exchange);
            self.put(exchange);
        }
    }

    /// The manager closes a link.
    pub fn close(&mut self, link: Link, now: Duration) {
        let Some(mut exchange) = self.take(link) else { return };
        if !exchange.close() {
            return self.forget(&exchange);
        }
        exchange.forgotten = Some(now + MEMORY);
        self.put(exchange);
    }

    /// One of which nothing is awaited any more is remembered, but no more than so many are.
    fn remember(&mut self, link: Link) {
        self.over.push_back(link);
        while self.over.len() > MOST_OVER
            && let Some(oldest) = self.over.pop_front()
        {
            if let Some(exchange) = self.take(oldest) {
                self.forget(&exchange);
            }
        }
    }

    /// A message came from another host, between these addresses.
    pub fn arrived(&mut self, peer: Peer, bytes: &[u8], now: Duration) -> Arrived {
        let Ok(mad) = wire::decode(bytes) else { return Arrived::Taken };
        let found = match &mad.body {
            Body::Req(req) if is_between(req, &peer) => {
                return self.request((peer.address, req.local_comm_id, false));
            }
            Body::SidrReq(req) => return self.request((peer.address, req.request_id, true)),
            Body::Req(_) => return Arrived::Taken,
            Body::Mra(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            Body::Rej(m) if m.remote_comm_id == 0 => {
                // Of who gives up before he has heard of a number here.
                let asked = self.askers.get(&(peer.address, m.local_comm_id, false)).copied();
                let is_new = |link: &Link| self.all.get(link).is_some_and(Exchange::is_new);
                asked.filter(is_new)
            }
            // Who refuses a request may have no number, which is known of no other side.
            Body::Rej(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            // What names another connection now is no answer to this one.
            Body::Rep(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            Body::Rtu(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            Body::Dreq(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            Body::Drep(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            Body::Lap(m) => self.named(m.remote_comm_id, Some(m.local_comm_id)),
            Body::SidrRep(m) => self.named(m.request_id, None),
            Body::Apr(_) => None,
        };
        let found = found.filter(|link| self.all.get(link).is_some_and(|known| known.peer.is(&peer)));
        match found.and_then(|link| self.take(link)) {
            Some(mut exchange) => {
                let was_new = exchange.is_new();
                match &mad.body {
                    Body::Rep(rep)
                        if exchange.waits_for_answer()
                            && self.end_stale(peer.address, rep.qpn, Exchange::is_in_use) =>
                    {
                        exchange.refuse_stale(rep, &mut self.out);
                    }
                    _ => exchange.arrived(&mad, bytes, now, &mut self.out),
                }
                if was_new && exchange.stage == Stage::Established {
                    self.end_one_before(&exchange);
                }
                self.put(exchange);
            }
            None => {
                if let Some(message) = agree(bytes) {
                    self.out.push_back(Output::Packet { peer, message });
                }
            }
        }
        Arrived::Taken
    }

    /// The connection of this number here, where it is that of the number there.
    fn named(&self, own: u32, theirs: Option<u32>) -> Option<Link> {
        let link = *self.own.get(&own)?;
        let exchange = self.all.get(&link)?;
        theirs.is_none_or(|theirs| exchange.is_named(theirs)).then_some(link)
    }

    fn request(&mut self, asker: Asker) -> Arrived {
        let known = self.askers.get(&asker).copied();
        let Some(mut exchange) = known.and_then(|link| self.take(link)) else { return Arrived::Request };
        exchange.request_again(&mut self.out);
        self.put(exchange);
        Arrived::Taken
    }

    /// A queue pair has one connection at a time: where it has a new one, the end of the one before was lost,
    /// or never said. That a request names it proves nothing, as anybody may have sent that; who has heard the
    /// answer is there.
    fn end_one_before(&mut self, new: &Exchange) {
        self.end_stale(new.peer.address, new.remote_qpn, |known| known.is_open);
    }

    /// Ends the connection that a queue pair of another host has, if it is such a one; whether it is.
    fn end_stale(&mut self, address: Gid, qpn: u32, is_such: impl Fn(&Exchange) -> bool) -> bool {
        let Some(&link) = self.queue_pairs.get(&(address, qpn)) else { return false };
        let is_stale = self.all.get(&link).is_some_and(is_such);
        if is_stale {
            self.out.push_back(Output::Ended { link });
        }
        is_stale
    }

    /// Does what is due at this time.
    pub fn expire(&mut self, now: Duration) {
        while let Some(&(at, link)) = self.due.first()
            && at <= now
        {
            let Some(mut exchange) = self.take(link) else { break };
            if exchange.forgotten.is_some_and(|at| at <= now) {
                // Mostly the oldest.
                match self.over.front() {
                    Some(oldest) if *oldest == link => drop(self.over.pop_front()),
                    _ => self.over.retain(|over| *over != link),
                }
                self.forget(&exchange);
                continue;
            }
            exchange.repeat(now, &mut self.out);
            self.put(exchange);
        }
    }

    /// When to call [`Exchanges::expire`] next.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next thing to be done, until there is none.
    pub fn next_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// What is to be sent where the process ends now, and to whom.
    ///
    /// Asks for no memory.
    pub fn farewells(&self) -> impl Iterator<Item = (&Peer, &Message)> {
        self.all.values().filter_map(|exchange| Some((&exchange.peer, exchange.farewell.as_ref()?)))
    }

    /// Takes one out, to be changed and [put](Self::put) back, or [forgotten](Self::forget).
    fn take(&mut self, link: Link) -> Option<Exchange> {
        let exchange = self.all.remove(&link)?;
        if let Some(at) = exchange.due() {
            self.due.remove(&(at, link));
        }
        Some(exchange)
    }

    fn put(&mut self, mut exchange: Exchange) {
        let link = exchange.link;
        exchange.farewell = exchange.last_word();
        if let Some(at) = exchange.due() {
            self.due.insert((at, link));
        }
        if exchange.remote_qpn != 0 && exchange.is_open && exchange.has_heard() {
            // Of two the later one, though a message of the other came since.
            let has_it = self.queue_pairs.entry((exchange.peer.address, exchange.remote_qpn)).or_insert(link);
            *has_it = link.max(*has_it);
        }
        let is_over = exchange.is_over() && !exchange.is_counted;
        exchange.is_counted |= is_over;
        self.all.insert(link, exchange);
        if is_over {
            self.remember(link);
        }
    }

    fn forget(&mut self, exchange: &Exchange) {
        let link = exchange.link;
        if self.own.get(&exchange.own) == Some(&link) {
            self.own.remove(&exchange.own);
        }
        if let Some(asker) = asker(exchange)
            && self.askers.get(&asker) == Some(&link)
        {
            self.askers.remove(&asker);
        }
        let queue_pair = (exchange.peer.address, exchange.remote_qpn);
        if self.queue_pairs.get(&queue_pair) == Some(&link) {
            self.queue_pairs.remove(&queue_pair);
        }
    }
}

/// By what a request is known, of who is asked.
fn asker(exchange: &Exchange) -> Option<Asker> {
    Some((exchange.peer.address, exchange.remote?, exchange.is_ud))
}
