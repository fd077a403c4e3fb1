//! Between which addresses and ports a packet goes (IBA vol. 1 annex A17).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Destination port of RoCE v2 (UDP).
pub const ROCE_PORT: u16 = 4791;

/// Both addresses of a packet, of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Who sends it.
        source: Ipv4Addr,
        /// Who it is for.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Who sends it.
        source: Ipv6Addr,
        /// Who it is for.
        destination: Ipv6Addr,
    },
}

/// Addresses and UDP ports of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Flow {
    /// Its addresses.
    pub addresses: Addresses,
    /// Any number: it spreads packets over the ways of a network, and answers do not go there.
    pub source_port: u16,
    /// [`ROCE_PORT`].
    pub destination_port: u16,
}

impl Flow {
    /// From one socket's address to another's, where both are of one family. An IPv4-mapped IPv6 address, as a
    /// socket of both families shows it, is the IPv4 address.
    #[must_use]
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Option<Self> {
        let addresses = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
            _ => return None,
        };
        Some(Self { addresses, source_port: source.port(), destination_port: destination.port() })
    }

    /// The same, of addresses and ports as a socket of both families has them.
    #[must_use]
    #[inline]
    pub fn of_socket(source: (Ipv6Addr, u16), destination: (Ipv6Addr, u16)) -> Option<Self> {
        let addresses = match (mapped(source.0), mapped(destination.0)) {
            (Some(source), Some(destination)) => Addresses::V4 { source, destination },
            (None, None) => Addresses::V6 { source: source.0, destination: destination.0 },
            _ => return None,
        };
        Some(Self { addresses, source_port: source.1, destination_port: destination.1 })
    }

    /// A number that is another for most other flows.
    #[must_use]
    #[inline]
    pub(super) const fn spread(&self) -> usize {
        let bits = match self.addresses {
            Addresses::V4 { source, destination } => source.to_bits() ^ destination.to_bits(),
            Addresses::V6 { source, destination } => (source.to_bits() ^ destination.to_bits()) as u32,
        };
        (bits ^ self.source_port as u32) as usize
    }
}

/// The IPv4 address that is mapped (`::ffff:a.b.c.d`), in two comparisons.
#[must_use]
#[inline]
pub(crate) const fn mapped(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    if bits >> 32 == 0xffff { Some(Ipv4Addr::from_bits(bits as u32)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(source: &str, destination: &str) -> Option<Flow> {
        Flow::new(source.parse().unwrap(), destination.parse().unwrap())
    }

    #[test]
    fn one_family() {
        let v4 = flow("10.0.0.1:49152", "10.0.0.2:4791").unwrap();
        assert_eq!((v4.source_port, v4.destination_port), (49152, ROCE_PORT));
        assert_eq!(flow("[::ffff:10.0.0.1]:49152", "10.0.0.2:4791"), Some(v4));
        assert!(matches!(
            flow("[fe80::1]:1", "[fe80::2]:4791").unwrap().addresses,
            Addresses::V6 { source, destination } if source < destination
        ));
        assert_eq!(flow("10.0.0.1:1", "[fe80::2]:4791"), None);
        assert_eq!(flow("[fe80::2]:1", "[::ffff:10.0.0.1]:4791"), None);
    }

    #[test]
    fn of_a_socket_it_is_the_same() {
        let addresses = ["fe80::1", "::ffff:10.0.0.1", "::ffff:10.0.0.2", "::1", "::10.0.0.1", "::"];
        let addresses = addresses.map(|text| text.parse::<Ipv6Addr>().unwrap());
        for (from, to) in addresses.iter().flat_map(|from| addresses.map(|to| (*from, to))) {
            let sockets = [SocketAddr::from((from, 7)), SocketAddr::from((to, 4791))];
            assert_eq!(Flow::of_socket((from, 7), (to, 4791)), Flow::new(sockets[0], sockets[1]));
        }
    }
}
