//! What stands beside a datagram (`cmsg(3)`), written and read as bytes.

use std::mem::size_of;
use std::net::Ipv6Addr;

use super::flow::{Flow, name};

/// Bytes of a header, and what the next one and the value are aligned to.
const HEADER: usize = size_of::<libc::cmsghdr>();
const ALIGN: usize = size_of::<usize>();
/// `UDP_GRO` and `UDP_SEGMENT`, options and what stands beside a datagram (`linux/udp.h`).
pub(super) const UDP_GRO: libc::c_int = 104;
pub(super) const UDP_SEGMENT: libc::c_int = 103;
/// The first word of an IPv6 header, option and what stands beside a datagram (`linux/in6.h`).
pub(super) const IPV6_FLOWINFO: libc::c_int = 11;
/// The flow label in it.
const LABEL: u32 = 0xf_ffff;

/// Room for all that is sent or asked for beside one datagram.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    bytes: [u8; Control::ROOM],
    length: usize,
}

impl Control {
    /// A value of 20 bytes (addresses) and four of up to 8, with their headers; as much again for what the
    /// kernel tells unasked.
    pub(super) const ROOM: usize = 2 * (5 * HEADER + 24 + 4 * 8);

    pub(super) const fn new() -> Self {
        Control { bytes: [0; Self::ROOM], length: 0 }
    }

    /// For a datagram of this flow, cut into segments of this length where that is not 0.
    pub(super) fn write(&mut self, flow: &Flow, segment: u16) {
        self.length = 0;
        let mut info = [0; 20];
        info[..16].copy_from_slice(&flow.source.octets());
        info[16..].copy_from_slice(&flow.interface.to_ne_bytes());
        self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        if flow.traffic_class != 0 {
            let (level, kind) = match flow.is_v4() {
                true => (libc::IPPROTO_IP, libc::IP_TOS),
                false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            };
            self.push(level, kind, &libc::c_int::from(flow.traffic_class).to_ne_bytes());
        }
        if flow.hop_limit != 0 {
            let (level, kind) = match flow.is_v4() {
                true => (libc::IPPROTO_IP, libc::IP_TTL),
                false => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
            };
            self.push(level, kind, &libc::c_int::from(flow.hop_limit).to_ne_bytes());
        }
        if segment != 0 {
            self.push(libc::IPPROTO_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
        }
    }

    /// The address of the bytes: what was written, or room for what the kernel writes.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Bytes that were written.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    fn push(&mut self, level: libc::c_int, kind: libc::c_int, value: &[u8]) {
        let end = self.length + HEADER + value.len().next_multiple_of(ALIGN);
        let Some(place) = self.bytes.get_mut(self.length..end) else { return };
        place.fill(0);
        place[..ALIGN].copy_from_slice(&(HEADER + value.len()).to_ne_bytes());
        place[ALIGN..ALIGN + 4].copy_from_slice(&level.to_ne_bytes());
        place[ALIGN + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        place[HEADER..HEADER + value.len()].copy_from_slice(value);
        self.length = end;
    }

    /// What the kernel wrote in so many bytes.
    pub(super) fn read(&self, length: usize) -> Beside {
        let mut beside = Beside::default();
        let mut rest = self.bytes.get(..length).unwrap_or_default();
        while let Some((level, kind, value, behind)) = next(rest) {
            rest = behind;
            match (level, kind) {
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    if let Some((address, index)) = value.split_first_chunk::<16>() {
                        beside.destination = Some(Ipv6Addr::from(*address));
                        beside.interface = number(index).unwrap_or(0);
                    }
                }
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    // One byte of IPv4, an integer of IPv6.
                    beside.traffic_class = match value {
                        [one] => *one,
                        several => number(several).unwrap_or(0) as u8,
                    };
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    beside.hop_limit = number(value).unwrap_or(0) as u8;
                }
                (libc::IPPROTO_IPV6, IPV6_FLOWINFO) => {
                    beside.label = u32::from_be(number(value).unwrap_or(0)) & LABEL;
                }
                (libc::IPPROTO_UDP, UDP_GRO) => beside.segment = number(value).unwrap_or(0) as usize,
                _ => {}
            }
        }
        beside
    }
}

/// What was written for a datagram, with where that goes: it stays for the next one where that is alike.
#[derive(Clone, Copy)]
pub(super) struct Written {
    to: libc::sockaddr_in6,
    control: Control,
    of: Option<(Flow, u16)>,
}

impl Written {
    pub(super) fn new() -> Self {
        Self { to: name(Ipv6Addr::UNSPECIFIED, 0, 0), control: Control::new(), of: None }
    }

    /// The address, and as [`Control::write`].
    #[inline]
    pub(super) fn of(&mut self, flow: &Flow, segment: u16) -> (&mut libc::sockaddr_in6, &mut Control) {
        if self.of.as_ref().is_none_or(|(of, length)| of != flow || *length != segment) {
            self.write(flow, segment);
        }
        (&mut self.to, &mut self.control)
    }

    #[cold]
    fn write(&mut self, flow: &Flow, segment: u16) {
        self.to = name(flow.destination, flow.destination_port, flow.interface);
        self.control.write(flow, segment);
        self.of = Some((*flow, segment));
    }
}

/// What the kernel says of a datagram.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Beside {
    /// Where it was sent to.
    pub(super) destination: Option<Ipv6Addr>,
    /// Where it came in.
    pub(super) interface: u32,
    pub(super) traffic_class: u8,
    /// Routers that it could have gone through, and one.
    pub(super) hop_limit: u8,
    /// IPv6: flow label.
    pub(super) label: u32,
    /// Length of the datagrams that it is made of; 0 where it is one.
    pub(super) segment: usize,
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_ne_bytes(*four))
}

/// Level, type and value of the first entry, and what is behind it.
fn next(bytes: &[u8]) -> Option<(libc::c_int, libc::c_int, &[u8], &[u8])> {
    let (header, _) = bytes.split_at_checked(HEADER)?;
    let length = usize::from_ne_bytes(*header.first_chunk()?);
    let level = number(&header[ALIGN..])?.cast_signed();
    let kind = number(&header[ALIGN + 4..])?.cast_signed();
    let value = bytes.get(HEADER..length)?;
    // The last may be without what fills it up.
    let behind = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
    Some((level, kind, value, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(destination: &str) -> Flow {
        Flow {
            source: "fd00::1".parse().unwrap(),
            destination: destination.parse().unwrap(),
            source_port: 4791,
            destination_port: 4791,
            interface: 7,
            traffic_class: 0x0a,
            hop_limit: 5,
            label: 0,
        }
    }

    #[test]
    fn what_is_written_lies_where_the_c_library_finds_it() {
        for destination in ["fd00::2", "::ffff:10.0.0.2"] {
            let mut control = Control::new();
            control.write(&flow(destination), 1040);
            // SAFETY: msghdr is made of integers and pointers, for which all zeroes is a value.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_controllen = control.length() as _;
            message.msg_control = control.as_mut_ptr().cast();
            let mut found = Vec::new();
            // SAFETY: the message has initialised bytes of the length given, aligned as headers are.
            unsafe {
                let mut header = libc::CMSG_FIRSTHDR(&raw const message);
                while !header.is_null() {
                    let value = libc::CMSG_DATA(header);
                    found.push(((*header).cmsg_type, (*header).cmsg_len, *value));
                    header = libc::CMSG_NXTHDR(&raw const message, header);
                }
            }
            let (class, hops) = match destination {
                "fd00::2" => (libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT),
                _ => (libc::IP_TOS, libc::IP_TTL),
            };
            // SAFETY: computes a number.
            let length = |value| unsafe { libc::CMSG_LEN(value) } as _;
            let segment = (UDP_SEGMENT, length(2), 1040u16.to_ne_bytes()[0]);
            let hops = (hops, length(4), 5);
            let expected = [(libc::IPV6_PKTINFO, length(20), 0xfd), (class, length(4), 0x0a), hops, segment];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_was_written_is_written_anew_where_anything_differs() {
        let mut written = Written::new();
        let base = flow("fd00::2");
        let flows = [
            base,
            base,
            Flow { source: "fd00::3".parse().unwrap(), ..base },
            Flow { interface: 8, ..base },
            Flow { traffic_class: 0, ..base },
            Flow { hop_limit: 0, ..base },
            Flow { destination_port: 4792, ..base },
            flow("::ffff:10.0.0.2"),
        ];
        for flow in flows {
            for segment in [0, 24, 24, 28] {
                let mut expected = Control::new();
                expected.write(&flow, segment);
                let (to, control) = written.of(&flow, segment);
                let there = name(flow.destination, flow.destination_port, flow.interface);
                assert_eq!((to.sin6_addr.s6_addr, to.sin6_port), (there.sin6_addr.s6_addr, there.sin6_port));
                let bytes = |control: &Control| control.bytes[..control.length()].to_vec();
                assert_eq!(bytes(control), bytes(&expected));
            }
        }
    }

    #[test]
    fn what_the_kernel_writes_is_read() {
        let mut control = Control::new();
        let mut info = [0x20; 20];
        info[16..].copy_from_slice(&3u32.to_ne_bytes());
        control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        control.push(libc::IPPROTO_IP, libc::IP_TOS, &[3]);
        control.push(libc::IPPROTO_IP, libc::IP_TTL, &63u32.to_ne_bytes());
        control.push(libc::IPPROTO_IPV6, IPV6_FLOWINFO, &0x6031_2345_u32.to_be_bytes());
        control.push(libc::IPPROTO_UDP, UDP_GRO, &1040u32.to_ne_bytes());
        control.push(libc::SOL_SOCKET, libc::SO_TIMESTAMP, &[1; 16]);
        let destination = Some(Ipv6Addr::from([0x20; 16]));
        let (hop_limit, label) = (63, 0x1_2345);
        let whole = Beside { destination, interface: 3, traffic_class: 3, hop_limit, label, segment: 1040 };
        assert_eq!(control.read(control.length()), whole);
        for length in 0..control.length() {
            // Nothing is read beyond, and no length ends it badly.
            let _ = control.read(length);
        }
        control.bytes[..ALIGN].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(control.read(Control::ROOM), Beside::default());
        control.bytes[..ALIGN].copy_from_slice(&0usize.to_ne_bytes());
        assert_eq!(control.read(Control::ROOM), Beside::default());
    }
}
