//! Link-layer address of a RoCE peer: route, neighbour table, and the wait for a neighbour that is not known
//! yet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};

use super::device_file::owned;
use super::netlink::{Attr, Attrs, Message, Socket};
use crate::abi::uapi::Pod;
use crate::errno::{Errno, Result};

/// How long a neighbour may take to answer, all attempts together.
const TIMEOUT: Duration = Duration::from_millis(3000);
/// How often the neighbour is provoked to answer.
const ATTEMPTS: u32 = 11;
/// How often a datagram is tried again while the source address is not usable yet.
const SEND_ATTEMPTS: u32 = 100_000;
/// UDP port whose datagrams every host drops (RFC 863).
const PORT_DISCARD: u16 = 9;
/// The provoking datagram; its content does not matter.
const PROVOCATION: &[u8] = b"H\0";
/// Bytes of an Ethernet address.
const MAC: usize = 6;
/// What a device that is not a VLAN has as its VLAN id.
const NO_VLAN: u16 = 0xffff;

/// Sizes of the fixed headers of the routing family (bytes).
const IFINFOMSG: usize = 16;
const IFADDRMSG: usize = 8;
const RTMSG: usize = 12;
const NDMSG: usize = 12;

/// Attribute of a VLAN link's data that holds its id.
const IFLA_VLAN_ID: u16 = 1;
/// Multicast group of neighbour changes, as a bit.
const NEIGHBOUR_EVENTS: u32 = 1 << 2;

/// How a peer is reached on its Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Ethernet address.
    pub mac: [u8; MAC],
    /// VLAN id, or 0xffff for none.
    pub vlan: u16,
}

/// The IP address that a RoCE GID stands for.
pub fn ip_of(gid: &[u8; 16]) -> IpAddr {
    let v6 = Ipv6Addr::from(*gid);
    // ff0e::ffff:a.b.c.d is how an IPv4 multicast group is written as a GID.
    let v4_multicast = gid[..12] == [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    match v6.to_ipv4_mapped() {
        Some(v4) => v4.into(),
        None if v4_multicast => Ipv4Addr::new(gid[12], gid[13], gid[14], gid[15]).into(),
        None => v6.into(),
    }
}

/// Finds the Ethernet address of `destination`, or of the gateway to it, as seen from the interface that has
/// `source`, and the VLAN of that interface. A neighbour that the kernel does not know is provoked to answer
/// for up to 3 seconds.
///
/// EINVAL when no interface has `source`, EHOSTUNREACH when there is no route, no answer, or no Ethernet
/// address. `errno` is EDESTADDRREQ after a fruitless wait, if it was 0 before, and otherwise what the system
/// calls left.
pub fn resolve(destination: IpAddr, source: IpAddr) -> Result<Resolved> {
    let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
    let interface = interface_of(&mut socket, source).ok_or(Errno::EINVAL)?;
    let route = route_to(&mut socket, destination, interface).map_err(|_| Errno::EHOSTUNREACH)?;
    let link = link_of(&mut socket, interface).map_err(|_| Errno::EHOSTUNREACH)?;
    let target = route.gateway.unwrap_or(destination);
    let mac = match route.kind {
        libc::RTN_BLACKHOLE | libc::RTN_UNREACHABLE | libc::RTN_PROHIBIT | libc::RTN_THROW => {
            Errno::EINVAL.set();
            return Err(Errno::EHOSTUNREACH);
        }
        libc::RTN_LOCAL => link.mac,
        _ => encoded_mac(target)
            .or_else(|| neighbour(&mut socket, target, interface))
            .or_else(|| wait_for_neighbour(&mut socket, target, source, interface)),
    };
    mac.map(|mac| Resolved { mac, vlan: link.vlan }).ok_or(Errno::EHOSTUNREACH)
}

/// The bytes of an address, and its family.
struct Address {
    family: u8,
    octets: [u8; 16],
    len: usize,
}

impl Address {
    fn bytes(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        let mut octets = [0; 16];
        match ip {
            IpAddr::V4(v4) => {
                octets[..4].copy_from_slice(&v4.octets());
                Self { family: libc::AF_INET as u8, octets, len: 4 }
            }
            IpAddr::V6(v6) => {
                octets = v6.octets();
                Self { family: libc::AF_INET6 as u8, octets, len: 16 }
            }
        }
    }
}

/// The address that an attribute holds, if its length is that of the family.
fn address_in(attr: &Attr<'_>, family: u8) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => <[u8; 4]>::try_from(attr.bytes).ok().map(IpAddr::from),
        libc::AF_INET6 => <[u8; 16]>::try_from(attr.bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The first six bytes of an Ethernet address; nothing for the longer ones of other networks.
fn mac_in(attr: &Attr<'_>) -> Option<[u8; MAC]> {
    <[u8; MAC]>::try_from(attr.bytes).ok()
}

/// Index of the first interface that has an address.
fn interface_of(socket: &mut Socket, source: IpAddr) -> Option<u32> {
    let mut request = socket.request(libc::RTM_GETADDR, libc::NLM_F_DUMP as u16);
    request.header(&[0; IFADDRMSG]);
    let mut interface = None;
    socket
        .dump(&request, |message| {
            if interface.is_none() && own_address(message) == Some(source) {
                interface = u32::read_from(message.payload.get(4..).unwrap_or_default());
            }
            Ok(())
        })
        .ok()?;
    interface.filter(|index| *index != 0)
}

/// The address that an RTM_NEWADDR message describes: the local one where the other end has its own.
fn own_address(message: &Message<'_>) -> Option<IpAddr> {
    let family = *message.payload.first()?;
    let attrs = message.attrs(IFADDRMSG);
    let attr = attrs.clone().find_last(libc::IFA_LOCAL).or_else(|| attrs.find_last(libc::IFA_ADDRESS))?;
    address_in(&attr, family)
}

/// What counts of a route.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    kind: u8,
    gateway: Option<IpAddr>,
}

fn route_to(socket: &mut Socket, destination: IpAddr, interface: u32) -> Result<Route> {
    let address = Address::from(destination);
    let mut header = [0; RTMSG];
    header[0] = address.family;
    header[1] = (address.len * 8) as u8;
    let mut request = socket.request(libc::RTM_GETROUTE, 0);
    request.header(&header);
    request.attr(libc::RTA_DST, address.bytes());
    request.attr(libc::RTA_OIF, &interface.to_ne_bytes());
    let mut route = None;
    socket.dump(&request, |message| {
        route = route_in(message);
        Ok(())
    })?;
    route.ok_or(Errno::EHOSTUNREACH)
}

/// The route of an RTM_NEWROUTE message; of several next hops, the first.
fn route_in(message: &Message<'_>) -> Option<Route> {
    const NEXT_HOP: usize = 8;
    let (family, kind) = (*message.payload.first()?, *message.payload.get(7)?);
    let attrs = message.attrs(RTMSG);
    let gateway = attrs.clone().find_last(libc::RTA_GATEWAY).or_else(|| {
        let hops = attrs.find_last(libc::RTA_MULTIPATH)?.bytes;
        let len = usize::from(u16::read_from(hops)?);
        Attrs::new(hops.get(NEXT_HOP..len)?).find_last(libc::RTA_GATEWAY)
    });
    Some(Route { kind, gateway: gateway.and_then(|attr| address_in(&attr, family)) })
}

/// What counts of an interface.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    mac: Option<[u8; MAC]>,
    vlan: u16,
}

fn link_of(socket: &mut Socket, interface: u32) -> Result<Link> {
    let mut header = [0; IFINFOMSG];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    let mut request = socket.request(libc::RTM_GETLINK, 0);
    request.header(&header);
    let mut link = Link { mac: None, vlan: NO_VLAN };
    socket.dump(&request, |message| {
        link = link_in(message);
        Ok(())
    })?;
    Ok(link)
}

fn link_in(message: &Message<'_>) -> Link {
    let attrs = message.attrs(IFINFOMSG);
    let vlan = || {
        let info = Attrs::new(attrs.clone().find_last(libc::IFLA_LINKINFO)?.bytes);
        if info.clone().find_last(libc::IFLA_INFO_KIND)?.text() != Some("vlan") {
            return None;
        }
        let data = Attrs::new(info.find_last(libc::IFLA_INFO_DATA)?.bytes);
        data.find_last(IFLA_VLAN_ID)?.number::<u16>().filter(|id| *id <= 0xfff)
    };
    Link {
        mac: attrs.clone().find_last(libc::IFLA_ADDRESS).and_then(|attr| mac_in(&attr)),
        vlan: vlan().unwrap_or(NO_VLAN),
    }
}

/// The Ethernet address that follows from an address alone: multicast (RFC 1112, RFC 2464), and link-local
/// ones, whose interface identifier is made of it (RFC 4291, appendix A).
fn encoded_mac(ip: IpAddr) -> Option<[u8; MAC]> {
    match ip {
        IpAddr::V4(v4) => {
            let [_, b, c, d] = v4.octets();
            v4.is_multicast().then_some([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(v6) => {
            let o = v6.octets();
            if v6.is_multicast() {
                Some([0x33, 0x33, o[12], o[13], o[14], o[15]])
            } else if o[..8] == [0xfe, 0x80, 0, 0, 0, 0, 0, 0] {
                Some([o[8] ^ 2, o[9], o[10], o[13], o[14], o[15]])
            } else {
                None
            }
        }
    }
}

/// The Ethernet address that the kernel's table has for a neighbour.
fn neighbour(socket: &mut Socket, target: IpAddr, interface: u32) -> Option<[u8; MAC]> {
    match ask_for_neighbour(socket, target, interface, 0) {
        // Linux before 5.0 tells of no single neighbour, only of all.
        Err(Errno::EOPNOTSUPP) => ask_for_neighbour(socket, target, interface, libc::NLM_F_DUMP as u16),
        found => found,
    }
    .ok()?
}

fn ask_for_neighbour(
    socket: &mut Socket,
    target: IpAddr,
    interface: u32,
    flags: u16,
) -> Result<Option<[u8; MAC]>> {
    let address = Address::from(target);
    let mut header = [0; NDMSG];
    header[0] = address.family;
    let mut request = socket.request(libc::RTM_GETNEIGH, flags);
    if flags == 0 {
        header[4..8].copy_from_slice(&interface.to_ne_bytes());
        request.header(&header);
        request.attr(libc::NDA_DST, address.bytes());
    } else {
        request.header(&header);
    }
    let mut mac = None;
    socket.dump(&request, |message| {
        mac = mac.or_else(|| mac_of_neighbour(message, target, interface));
        Ok(())
    })?;
    Ok(mac)
}

/// The Ethernet address in an RTM_NEWNEIGH message, if it is about this neighbour on this interface.
fn mac_of_neighbour(message: &Message<'_>, target: IpAddr, interface: u32) -> Option<[u8; MAC]> {
    if message.kind != libc::RTM_NEWNEIGH {
        return None;
    }
    let family = *message.payload.first()?;
    let index = u32::read_from(message.payload.get(4..)?)?;
    let attrs = message.attrs(NDMSG);
    let about = address_in(&attrs.clone().find_last(libc::NDA_DST)?, family)?;
    if about != target || index != interface {
        return None;
    }
    mac_in(&attrs.find_last(libc::NDA_LLADDR)?)
}

/// Makes the kernel ask for the neighbour, by sending it datagrams, and waits for the answer.
fn wait_for_neighbour(
    socket: &mut Socket,
    target: IpAddr,
    source: IpAddr,
    interface: u32,
) -> Option<[u8; MAC]> {
    let mut events = Socket::open_groups(libc::NETLINK_ROUTE, NEIGHBOUR_EVENTS).ok()?;
    let datagrams = datagram_socket(source).ok()?;
    provoke(&datagrams, target, interface).ok()?;

    let start = Instant::now();
    for attempt in 1..=ATTEMPTS {
        let deadline = TIMEOUT / ATTEMPTS * attempt;
        while let Some(wait) = deadline.checked_sub(start.elapsed()) {
            let mut place = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
            // Rounded up, so that no interval ends in a spin.
            let milliseconds = wait.as_millis() as u16 + 1;
            match poll(&mut place, milliseconds) {
                Err(_) => return None,
                Ok(0) => {}
                Ok(_) => {
                    // Lost events are made good by asking at the end of the interval.
                    let mut messages = events.receive_now().into_iter().flatten();
                    let found = messages.find_map(|message| mac_of_neighbour(&message, target, interface));
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        if let Some(mac) = neighbour(socket, target, interface) {
            return Some(mac);
        }
        if attempt < ATTEMPTS {
            // A datagram that cannot be sent now may be the next time.
            let _ = provoke(&datagrams, target, interface);
        }
    }
    if Errno::last() == Errno(0) {
        Errno(libc::EDESTADDRREQ).set();
    }
    None
}

/// A datagram socket bound to an address of ours.
fn datagram_socket(source: IpAddr) -> Result<OwnedFd> {
    let (address, len) = socket_address(source, 0, 0);
    // SAFETY: plain system call.
    let fd =
        owned(unsafe { libc::socket(address.ss_family.into(), libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: `address` holds a socket address of `len` bytes.
    if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
        return Err(Errno::last());
    }
    Ok(fd)
}

fn provoke(datagrams: &OwnedFd, target: IpAddr, interface: u32) -> Result<()> {
    let (address, len) = socket_address(target, PORT_DISCARD, interface);
    for _ in 0..SEND_ATTEMPTS {
        // SAFETY: payload and address are live memory of the stated lengths.
        let sent = unsafe {
            libc::sendto(
                datagrams.as_raw_fd(),
                PROVOCATION.as_ptr().cast(),
                PROVOCATION.len(),
                0,
                (&raw const address).cast(),
                len,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        if Errno::last() != Errno(libc::EADDRNOTAVAIL) {
            break;
        }
    }
    Err(Errno::last())
}

/// A socket address and its length; `scope` only matters for IPv6.
fn socket_address(ip: IpAddr, port: u16, scope: u32) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: a structure of integers: all zeros is a value.
    let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let len = match ip {
        IpAddr::V4(v4) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: port.to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every socket address.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(address) };
            size_of::<libc::sockaddr_in>()
        }
        IpAddr::V6(v6) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: port.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.octets() },
                sin6_scope_id: scope,
            };
            // SAFETY: as above.
            unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(address) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, len as libc::socklen_t)
}

#[cfg(test)]
mod tests {
    use super::super::netlink::Messages;
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn our_own_address_is_found_on_its_interface() {
        let resolved = resolve(ip("127.0.0.1"), ip("127.0.0.1")).expect("loopback");
        assert_eq!(resolved, Resolved { mac: [0; 6], vlan: NO_VLAN });
    }

    #[test]
    fn a_source_that_nobody_has_is_invalid() {
        assert_eq!(resolve(ip("127.0.0.1"), ip("203.0.113.77")), Err(Errno::EINVAL));
    }

    #[test]
    fn some_addresses_are_their_own_answer() {
        assert_eq!(encoded_mac(ip("239.129.2.3")), Some([0x01, 0x00, 0x5e, 0x01, 2, 3]));
        assert_eq!(encoded_mac(ip("ff0e::1:2:3")), Some([0x33, 0x33, 0, 2, 0, 3]));
        assert_eq!(encoded_mac(ip("fe80::5054:ff:fe12:3456")), Some([0x52, 0x54, 0x00, 0x12, 0x34, 0x56]));
        assert_eq!(encoded_mac(ip("10.0.0.1")), None);
        assert_eq!(encoded_mac(ip("fe80:1::1")), None);
    }

    fn socket() -> Socket {
        Socket::open(libc::NETLINK_ROUTE).expect("rtnetlink")
    }

    #[test]
    fn the_gateway_of_a_route_is_taken_from_either_place() {
        let mut header = [0; RTMSG];
        (header[0], header[7]) = (libc::AF_INET as u8, libc::RTN_UNICAST);
        let expected = Route { kind: libc::RTN_UNICAST, gateway: Some(ip("10.0.0.9")) };

        let mut single = socket().request(libc::RTM_NEWROUTE, 0);
        single.header(&header);
        single.attr(libc::RTA_GATEWAY, &[10, 0, 0, 9]);
        let message = Messages::new(single.as_bytes()).next().expect("one message");
        assert_eq!(route_in(&message).as_ref(), Some(&expected));

        let mut several = socket().request(libc::RTM_NEWROUTE, 0);
        several.header(&header);
        let hop = [&[16, 0, 0, 0, 7, 0, 0, 0][..], &[8, 0, 5, 0, 10, 0, 0, 9]].concat();
        several.attr(libc::RTA_MULTIPATH, &hop);
        let message = Messages::new(several.as_bytes()).next().expect("one message");
        assert_eq!(route_in(&message).as_ref(), Some(&expected));
    }

    #[test]
    fn only_news_of_the_neighbour_itself_count() {
        let mut header = [0; NDMSG];
        (header[0], header[4]) = (libc::AF_INET as u8, 5);
        let mut news = socket().request(libc::RTM_NEWNEIGH, 0);
        news.header(&header);
        news.attr(libc::NDA_DST, &[10, 0, 0, 2]);
        news.attr(libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 7]);
        let message = Messages::new(news.as_bytes()).next().expect("one message");
        assert_eq!(mac_of_neighbour(&message, ip("10.0.0.2"), 5), Some([2, 0, 0, 0, 0, 7]));
        assert_eq!(mac_of_neighbour(&message, ip("10.0.0.3"), 5), None);
        assert_eq!(mac_of_neighbour(&message, ip("10.0.0.2"), 6), None);
    }

    #[test]
    fn a_vlan_link_tells_its_id() {
        let mut link = socket().request(libc::RTM_NEWLINK, 0);
        link.header(&[0; IFINFOMSG]);
        let kind = [&[9, 0, libc::IFLA_INFO_KIND as u8, 0][..], b"vlan\0", &[0; 3]].concat();
        let data = [12, 0, libc::IFLA_INFO_DATA as u8, 0, 6, 0, 1, 0, 0x7b, 0, 0, 0];
        link.attr(libc::IFLA_LINKINFO, &[&kind[..], &data].concat());
        let message = Messages::new(link.as_bytes()).next().expect("one message");
        assert_eq!(link_in(&message), Link { mac: None, vlan: 123 });
    }

    /// A kernel that answers RTM_GETNEIGH as Linux 4.18 does: a question after one neighbour with EOPNOTSUPP,
    /// one after all with `table`. It ends after four questions.
    fn old_kernel(
        table: &'static [([u8; 4], u32, [u8; MAC])],
    ) -> (Socket, std::thread::JoinHandle<Vec<u16>>) {
        let (ours, kernel) = std::os::unix::net::UnixDatagram::pair().expect("socket pair");
        let answer = std::thread::spawn(move || {
            let mut asked = Vec::new();
            let mut bytes = [0; 256];
            while asked.len() < 4 {
                let len = kernel.recv(&mut bytes).expect("a question");
                let message = Messages::new(&bytes[..len]).next().expect("a request");
                asked.push(message.flags);
                let mut plain = Socket::open(libc::NETLINK_ROUTE).expect("rtnetlink");
                let mut reply = |kind: u16, header: &[u8], attrs: &[(u16, &[u8])]| {
                    let mut reply = plain.request(kind, libc::NLM_F_MULTI as u16);
                    reply.header(header);
                    attrs.iter().for_each(|(kind, value)| reply.attr(*kind, value));
                    let mut bytes = reply.as_bytes().to_vec();
                    bytes[8..12].copy_from_slice(&message.sequence.to_ne_bytes());
                    bytes
                };
                let mut answer = Vec::new();
                if message.flags & libc::NLM_F_DUMP as u16 == libc::NLM_F_DUMP as u16 {
                    for (address, interface, mac) in table {
                        let mut header = [0; NDMSG];
                        header[0] = libc::AF_INET as u8;
                        header[4..8].copy_from_slice(&interface.to_ne_bytes());
                        let attrs = [(libc::NDA_DST, &address[..]), (libc::NDA_LLADDR, &mac[..])];
                        answer.extend(reply(libc::RTM_NEWNEIGH, &header, &attrs));
                    }
                    answer.extend(reply(libc::NLMSG_DONE as u16, &[0; 4], &[]));
                } else {
                    let error = (-libc::EOPNOTSUPP).to_ne_bytes();
                    answer.extend(reply(libc::NLMSG_ERROR as u16, &[&error[..], &[0; 16]].concat(), &[]));
                }
                kernel.send(&answer).expect("the answer fits");
            }
            asked
        });
        (Socket::over(ours.into()), answer)
    }

    #[test]
    fn a_kernel_that_tells_of_all_neighbours_only_is_asked_for_all() {
        let table = &[
            ([10, 0, 0, 7], 5, [2, 0, 0, 0, 0, 1]),
            ([10, 0, 0, 2], 6, [2, 0, 0, 0, 0, 2]),
            ([10, 0, 0, 2], 5, [2, 0, 0, 0, 0, 3]),
            ([10, 0, 0, 9], 5, [2, 0, 0, 0, 0, 4]),
        ];
        let (mut socket, kernel) = old_kernel(table);
        assert_eq!(neighbour(&mut socket, ip("10.0.0.2"), 5), Some([2, 0, 0, 0, 0, 3]));
        assert_eq!(neighbour(&mut socket, ip("10.0.0.3"), 5), None);
        drop(socket);
        let (one, all) = (libc::NLM_F_REQUEST as u16, (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16);
        assert_eq!(kernel.join().expect("the kernel answers"), [one, all, one, all]);
    }

    proptest! {
        #[test]
        fn no_message_breaks_the_readers(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            for message in Messages::new(&bytes) {
                let _ = (own_address(&message), route_in(&message), link_in(&message));
                let _ = mac_of_neighbour(&message, IpAddr::from([10, 0, 0, 1]), 1);
            }
        }
    }

    /// What netlink answers to the questions after addresses, routes, interfaces and neighbours.
    #[test]
    fn fuzz_netlink_neighbours() {
        use super::super::played::{self, Datagrams};
        corpus::check!().with_type::<(u8, [u8; 16], Datagrams)>().for_each(|(question, address, answers)| {
            let target = ip_of(address);
            let header = [IFADDRMSG, RTMSG, IFINFOMSG, NDMSG][usize::from(question % 4)];
            let (mut socket, _kernel) = played::socket(answers, header);
            match question % 4 {
                0 => assert_ne!(interface_of(&mut socket, target), Some(0)),
                1 => drop(route_to(&mut socket, target, 2)),
                2 => drop(
                    link_of(&mut socket, 2).map(|link| assert!(link.vlan <= 0xfff || link.vlan == NO_VLAN)),
                ),
                _ => drop(neighbour(&mut socket, target, 2)),
            }
            let _ = encoded_mac(target);
        });
    }
}
