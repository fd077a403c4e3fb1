//! Addresses and ports of a packet.

use std::mem::size_of;
use std::net::Ipv6Addr;

use crate::wire::flow::mapped;

/// The loopback interface has this index in each network namespace.
pub(super) const LOOPBACK: u32 = 1;

/// Explicit congestion notification, in the lower two bits of a traffic class (RFC 3168).
pub mod ecn {
    /// The bits.
    pub const BITS: u8 = 3;
    /// Marks are obeyed: ECT(0).
    pub const CAPABLE: u8 = 2;
    /// The mark: CE.
    pub const CONGESTION: u8 = 3;
}

/// From where to where a packet goes. IPv4 addresses are mapped (`::ffff:a.b.c.d`), as in GIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Source address. To send by: one of this host.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Source port. Not looked at where something is sent: it is the port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Index of the interface: of a received packet the one at which it came. To send by 0, where the routes
    /// say it; link-local addresses need it.
    pub interface: u32,
    /// Type of service, or traffic class: its lower two bits are ECN.
    pub traffic_class: u8,
    /// Routers that it may go through, and one: of a received packet those that were left. To send by 0, where
    /// the kernel says it.
    pub hop_limit: u8,
    /// IPv6: the flow label of a received packet. Not looked at where something is sent: the kernel chooses it.
    pub label: u32,
}

impl Flow {
    /// Whether it is one of IPv4.
    #[must_use]
    pub fn is_v4(&self) -> bool {
        mapped(self.destination).is_some()
    }

    /// Whether it goes to a group.
    #[must_use]
    pub fn is_to_group(&self) -> bool {
        self.destination.is_multicast() || mapped(self.destination).is_some_and(|v4| v4.is_multicast())
    }

    /// Whether it came with a mark of congestion.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.traffic_class & ecn::BITS == ecn::CONGESTION
    }
}

/// Length of a socket's address.
pub(super) const NAME: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

/// A socket's address.
pub(super) fn name(address: Ipv6Addr, port: u16, interface: u32) -> libc::sockaddr_in6 {
    // The kernel takes a scope for link-local addresses alone, and refuses others in part.
    let is_link = address.is_unicast_link_local() || address.segments()[0] & 0xff0f == 0xff02;
    libc::sockaddr_in6 {
        sin6_family: libc::AF_INET6 as libc::sa_family_t,
        sin6_port: port.to_be(),
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: address.octets() },
        sin6_scope_id: if is_link { interface } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_a_link_have_a_scope() {
        for (address, scope) in [("fe80::1", 7), ("ff02::1", 7), ("fd00::1", 0), ("::ffff:10.0.0.1", 0)] {
            assert_eq!(name(address.parse().unwrap(), 4791, 7).sin6_scope_id, scope, "{address}");
        }
    }
}
