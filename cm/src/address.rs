//! Addresses of ids: IP addresses with ports, and the native ones (`sockaddr_ib`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

/// A GID: 16 bytes as on the wire.
pub type Gid = [u8; 16];

/// Numbers of port spaces (`enum rdma_port_space`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum PortSpace {
    /// IPoIB groups and peers; no RoCE address can be bound in it.
    Ipoib = 0x0002,
    /// Reliable connections.
    Tcp = 0x0106,
    /// Datagrams.
    Udp = 0x0111,
    /// Service ids of the caller's choice, any type of queue pair.
    Ib = 0x013f,
}

impl PortSpace {
    /// The port space of this number.
    pub fn from_number(number: u16) -> Option<PortSpace> {
        Some(match number {
            0x0002 => PortSpace::Ipoib,
            0x0106 => PortSpace::Tcp,
            0x0111 => PortSpace::Udp,
            0x013f => PortSpace::Ib,
            _ => return None,
        })
    }

    /// The port space of a service id of the form `ps << 16 | port`.
    pub fn of_service(service: u64) -> Option<PortSpace> {
        if service >> 32 != 0 {
            return None;
        }
        PortSpace::from_number((service >> 16) as u16)
    }
}

/// `struct sockaddr_ib`, in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct IbAddress {
    /// Partition key; 0xffff is the default one.
    pub pkey: u16,
    /// Flow information, 20 bits used.
    pub flow: u32,
    /// The GID; zero is any.
    pub gid: Gid,
    /// Service id: `ps << 16 | port` for ids of IP port spaces.
    pub service: u64,
    /// Which bits of `service` count.
    pub mask: u64,
    /// Scope, of link-local GIDs.
    pub scope: u64,
}

/// An address as a program gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Address {
    /// Family 0 or one that is not known: an id's address before it is bound; from a program EINVAL.
    #[default]
    Unspecified,
    /// `struct sockaddr_in`.
    V4(SocketAddrV4),
    /// `struct sockaddr_in6`, the flow information in host order; the scope is an interface's index, for
    /// link-local addresses.
    V6(SocketAddrV6),
    /// `struct sockaddr_ib`.
    Ib(IbAddress),
}

/// Family of an address, as far as it matters for conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Native addresses.
    Ib,
}

impl Address {
    /// An IP address with port, flow and scope 0 where it has them.
    pub fn ip(ip: IpAddr, port: u16) -> Address {
        match ip {
            IpAddr::V4(ip) => Address::V4(SocketAddrV4::new(ip, port)),
            IpAddr::V6(ip) => Address::V6(SocketAddrV6::new(ip, port, 0, 0)),
        }
    }

    /// The IP address, if it is one.
    pub fn as_ip(&self) -> Option<IpAddr> {
        match self {
            Address::V4(a) => Some(IpAddr::V4(*a.ip())),
            Address::V6(a) => Some(IpAddr::V6(*a.ip())),
            _ => None,
        }
    }

    /// The family; none of an unspecified address.
    pub fn family(&self) -> Option<Family> {
        Some(match self {
            Address::Unspecified => return None,
            Address::V4(_) => Family::V4,
            Address::V6(_) => Family::V6,
            Address::Ib(_) => Family::Ib,
        })
    }

    /// The interface's index of an IPv6 address; 0 otherwise.
    pub fn scope(&self) -> u32 {
        match self {
            Address::V6(a) => a.scope_id(),
            _ => 0,
        }
    }

    /// The port; of a native address the masked part of the service id.
    pub fn port(&self) -> u16 {
        match self {
            Address::Unspecified => 0,
            Address::V4(a) => a.port(),
            Address::V6(a) => a.port(),
            Address::Ib(a) => (a.service & a.mask) as u16,
        }
    }

    /// The same address with another port.
    pub fn with_port(mut self, port: u16) -> Address {
        match &mut self {
            Address::Unspecified => {}
            Address::V4(a) => a.set_port(port),
            Address::V6(a) => a.set_port(port),
            Address::Ib(a) => {
                a.service = a.service & !0xffff | u64::from(port);
                a.mask |= 0xffff;
            }
        }
        self
    }

    /// The same address with another scope, where it is IPv6.
    pub fn with_scope(mut self, scope: u32) -> Address {
        if let Address::V6(a) = &mut self {
            a.set_scope_id(scope);
        }
        self
    }

    /// 0.0.0.0, ::, or a GID of zeros; an unspecified address is any, too.
    pub fn is_zero(&self) -> bool {
        match self {
            Address::Unspecified => true,
            Address::V4(a) => a.ip().is_unspecified(),
            Address::V6(a) => a.ip().is_unspecified(),
            Address::Ib(a) => a.gid == [0; 16],
        }
    }

    /// 127/8, ::1, or the GID ::1.
    pub fn is_loopback(&self) -> bool {
        match self {
            Address::Unspecified => false,
            Address::V4(a) => a.ip().is_loopback(),
            Address::V6(a) => a.ip().is_loopback(),
            Address::Ib(a) => a.gid == Ipv6Addr::LOCALHOST.octets(),
        }
    }

    /// What the kernel calls "any": zero or loopback. Binding to it takes no device.
    pub fn is_any(&self) -> bool {
        self.is_zero() || self.is_loopback()
    }

    /// Whether this is a multicast address.
    pub fn is_multicast(&self) -> bool {
        match self {
            Address::Unspecified => false,
            Address::V4(a) => a.ip().is_multicast(),
            Address::V6(a) => a.ip().is_multicast(),
            Address::Ib(a) => a.gid[0] == 0xff,
        }
    }

    /// Whether both are of one family and name the same host (ports do not matter).
    pub fn same_host(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::V4(a), Address::V4(b)) => a.ip() == b.ip(),
            (Address::V6(a), Address::V6(b)) => {
                let local = a.ip().is_unicast_link_local();
                a.ip() == b.ip() && (!local || a.scope_id() == b.scope_id())
            }
            (Address::Ib(a), Address::Ib(b)) => a.gid == b.gid,
            _ => false,
        }
    }

    /// The GID that a RoCE device has for this address; `None` of an unspecified one.
    pub fn gid(&self) -> Option<Gid> {
        Some(match self {
            Address::Unspecified => return None,
            Address::V4(a) => gid_of(IpAddr::V4(*a.ip())),
            Address::V6(a) => gid_of(IpAddr::V6(*a.ip())),
            Address::Ib(a) => a.gid,
        })
    }

    /// The address of this family that names every host, with port 0.
    pub fn zero(family: Family) -> Address {
        match family {
            Family::V4 => Address::ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            Family::V6 => Address::ip(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
            Family::Ib => Address::Ib(IbAddress { pkey: 0xffff, ..IbAddress::default() }),
        }
    }
}

/// The GID of an IP address on a RoCE v2 device: ::ffff:a.b.c.d for IPv4.
pub fn gid_of(ip: IpAddr) -> Gid {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}
