//! The way to other hosts, by RoCE v2 over UDP.
//!
//! | file | what |
//! |---|---|
//! | this | the peer of a connection, and its two sides |
//! | [`sender`] | what a connected queue pair's send queue keeps for it |
//! | [`receiver`] | what its receive queue keeps; requests that arrive are carried out there |
//! | [`network`] | packets out and in |
//! | [`port`] | the sockets of UDP port 4791, which the processes of one user share |
//!
//! What is sent and answered when is [`wire`](crate::wire)'s.

pub(crate) mod network;
pub mod port;
pub(crate) mod receiver;
pub(crate) mod sender;

use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use port::flow::Flow;
use receiver::Receiver;
use sender::Sender;

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
    /// Its address.
    pub(crate) address: Ipv6Addr,
    /// The own one that it knows.
    pub(crate) source: Ipv6Addr,
    /// Index of the network interface that has the own one.
    pub(crate) interface: u32,
    /// Traffic class.
    pub(crate) traffic_class: u8,
    /// Path MTU.
    pub(crate) mtu: Mtu,
}

impl Peer {
    /// The way of packets to it.
    pub(crate) fn flow(&self) -> Flow {
        Flow {
            source: self.source,
            destination: self.address,
            source_port: port::set::PORT,
            destination_port: port::set::PORT,
            interface: if self.address.is_unicast_link_local() { self.interface } else { 0 },
            traffic_class: self.traffic_class,
        }
    }

    /// Whether a packet came from it.
    pub(crate) fn sent(&self, flow: &Flow) -> bool {
        flow.source == self.address && flow.destination == self.source
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
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Option<Box<Receiver>>>);

impl Arrivals {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Box<Receiver>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same where nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Option<Box<Receiver>>>> {
        match self.0.try_lock() {
            Ok(arrivals) => Some(arrivals),
            Err(TryLockError::Poisoned(arrivals)) => Some(arrivals.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
