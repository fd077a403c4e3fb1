//! The way to other hosts.

use std::net::Ipv6Addr;

use super::port::flow::{Flow, ecn};
use super::port::number::udp_port;

/// The way to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// Its address.
    pub(crate) address: Ipv6Addr,
    /// The own one that it knows.
    pub(crate) source: Ipv6Addr,
    /// Index of the network interface that has the own one.
    pub(crate) interface: u32,
    /// Traffic class, of which the bits of ECN do not count.
    pub(crate) traffic_class: u8,
}

impl Way {
    /// That of packets with these bits of ECN.
    pub(crate) fn flow(&self, ecn: u8) -> Flow {
        let Self { address, source, interface, traffic_class } = *self;
        Flow {
            source,
            destination: address,
            source_port: udp_port(),
            destination_port: udp_port(),
            interface: if address.is_unicast_link_local() { interface } else { 0 },
            traffic_class: traffic_class & !ecn::BITS | ecn,
            hop_limit: 0,
            label: 0,
        }
    }
}

/// Where the datagrams of an address handle leave by that leads to other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub(crate) way: Way,
    /// To a group: routers that they may go through, and one; 0 where the kernel says it.
    pub(crate) hop_limit: u8,
    /// Bytes of the longest.
    pub(crate) mtu: u32,
}

impl Route {
    /// The way of packets by it.
    pub(crate) fn flow(&self) -> Flow {
        let flow = self.way.flow(0);
        if flow.is_to_group() {
            // No route says by which interface.
            Flow { interface: self.way.interface, hop_limit: self.hop_limit, ..flow }
        } else {
            flow
        }
    }

    /// Whether it leads to a group, whose members may be on this host, too.
    pub(crate) fn is_to_group(&self) -> bool {
        self.flow().is_to_group()
    }
}
