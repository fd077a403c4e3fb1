//! The way to other hosts, by RoCE v2 over UDP.
//!
//! | file | what |
//! |---|---|
//! | this | the peer of a connection, and its two sides |
//! | [`sender`] | what a connected queue pair's send queue keeps for it |
//! | [`addresses`] | the own addresses that are on the network |
//! | [`way`] | the way to a peer, and that of an address handle's datagrams |
//! | [`datagram`] | what a receive queue keeps for datagrams that come |
//! | [`receiver`] | what its receive queue keeps; requests that arrive are carried out there |
//! | [`network`] | packets out and in |
//! | `late` | packets that are taken later, where faults ask for that |
//! | [`batch`] | what belongs to the packets of a burst |
//! | [`management`] | management datagrams, by which connections are made |
//! | [`pause`] | what did not leave, and when it is tried again |
//! | [`port`] | the sockets of UDP port 4791, which the processes of one user share |
//!
//! What is sent and answered when is [`wire`](crate::wire)'s.

pub(crate) mod addresses;
pub(crate) mod batch;
pub(crate) mod datagram;
mod late;
pub(crate) mod management;
pub(crate) mod network;
pub(crate) mod pause;
pub mod port;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod way;

use queue_lock::{QueueGuard, QueueLock};

use port::flow::{Flow, ecn};
use receiver::Receiver;
use sender::Sender;
use way::Way;

use crate::wire::connection::{Connection, Mtu};
use crate::wire::opcode::Transport;
use crate::wire::packet::DEFAULT_P_KEY;
use crate::wire::psn::Psn;

/// The peer of a connection, and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// RC or UC.
    pub(crate) transport: Transport,
    /// Its queue pair.
    pub(crate) qp_num: u32,
    /// The way to it.
    pub(crate) way: Way,
    /// Path MTU.
    pub(crate) mtu: Mtu,
}

impl Peer {
    /// The way of packets to it. Those of RC say that marks of congestion are obeyed, as they are; UC sends
    /// whatever the program posts.
    pub(crate) fn flow(&self) -> Flow {
        self.way.flow(if self.transport == Transport::Rc { ecn::CAPABLE } else { 0 })
    }

    /// Whether a packet came from it.
    pub(crate) fn sent(&self, flow: &Flow) -> bool {
        flow.source == self.way.address && flow.destination == self.way.source
    }

    /// A side of the connection that begins with this PSN.
    pub(crate) fn connection(&self, psn: u32) -> Connection {
        let Self { transport, mtu, qp_num, .. } = *self;
        Connection { transport, mtu, dest_qp: qp_num, p_key: DEFAULT_P_KEY, psn: Psn::new(psn) }
    }
}

/// Both sides of a connection.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) sender: Box<Sender>,
    pub(crate) receiver: Box<Receiver>,
}

/// The receiving side of a queue pair that is connected to one on another host; empty for any other.
#[derive(Debug)]
pub(crate) struct Arrivals(QueueLock<Option<Box<Receiver>>>);

/// It, behind its lock.
pub(crate) type Held<'a> = QueueGuard<'a, Option<Box<Receiver>>>;

impl Default for Arrivals {
    fn default() -> Self {
        Self(QueueLock::new(None))
    }
}

impl Arrivals {
    pub(crate) fn lock(&self) -> Held<'_> {
        self.0.lock()
    }

    /// The same where nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Held<'_>> {
        self.0.try_lock()
    }
}
