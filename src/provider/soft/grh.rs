//! The 40 bytes that a datagram arrives with, as RoCE v2 networks have them: an IPv6 header, which has the form
//! of a GRH, or an IPv4 header in the last 20 bytes. On InfiniBand, a GRH or nothing.

use core::net::Ipv6Addr;

use softrdma::wire::datagram::internet_checksum;

use crate::abi::verbs::ibv_ah_attr;

/// Bytes in front of the payload.
pub const BYTES: usize = 40;
/// Where an IPv4 header begins.
const IPV4_AT: usize = 20;
const IPV4_LENGTH: usize = IPV4_AT + 2;
const IPV4_CHECKSUM: usize = IPV4_AT + 10;
const IPV6_LENGTH: usize = 4;
/// UDP header, base and datagram transport headers, and checksum around the payload.
const AROUND_PAYLOAD: u32 = UDP_HEADER as u32 + 12 + 8 + 4;
const UDP_HEADER: u16 = 8;
/// What follows a GRH on InfiniBand.
const IBA_TRANSPORT: u8 = 0x1b;
/// The header of immediate data.
const IMMEDIATE: u32 = 4;
/// Lifetime of a packet whose sender does not say.
const DEFAULT_HOPS: u8 = 64;

/// Headers from one address to another.
#[derive(Clone, Copy)]
pub struct Header {
    /// The header of an empty datagram, without IPv4's checksum.
    bytes: [u8; BYTES],
    form: Form,
}

/// What stands in the 40 bytes.
#[derive(Clone, Copy)]
enum Form {
    None,
    Ipv4,
    Ipv6,
    /// A GRH of InfiniBand (IBA §8.3), as long as no UDP header follows.
    Global,
}

fn hops(attr: &ibv_ah_attr) -> u8 {
    if attr.grh.hop_limit == 0 { DEFAULT_HOPS } else { attr.grh.hop_limit }
}

impl Header {
    /// Of datagrams whose route has no GRH.
    pub const NONE: Self = Self { bytes: [0; BYTES], form: Form::None };

    /// Headers of datagrams from `source` along the route that `attr` describes, on Ethernet.
    pub fn new(source: &[u8; 16], attr: &ibv_ah_attr) -> Self {
        // SAFETY: every view of the GID union is 16 plain bytes.
        let destination = unsafe { attr.grh.dgid.raw };
        if !is_ipv4(source) || !is_ipv4(&destination) && destination[0] != 0xff {
            let next = libc::IPPROTO_UDP as u8;
            return Self { bytes: global(source, attr, next), form: Form::Ipv6 };
        }
        let mut bytes = [0; BYTES];
        let header = &mut bytes[IPV4_AT..];
        header[0] = 0x45;
        header[1] = attr.grh.traffic_class;
        // Not to be cut in pieces.
        header[6] = 0x40;
        header[8] = hops(attr);
        header[9] = libc::IPPROTO_UDP as u8;
        header[12..16].copy_from_slice(&source[12..]);
        header[16..20].copy_from_slice(&destination[12..]);
        Self { bytes, form: Form::Ipv4 }
    }

    /// The same on InfiniBand.
    pub fn global(source: &[u8; 16], attr: &ibv_ah_attr) -> Self {
        Self { bytes: global(source, attr, IBA_TRANSPORT), form: Form::Global }
    }

    /// The header of a datagram with that much payload, and with or without immediate data.
    #[inline]
    pub fn of(&self, payload: u32, has_immediate: bool) -> [u8; BYTES] {
        let mut bytes = self.bytes;
        let immediate = if has_immediate { IMMEDIATE } else { 0 };
        // Payload travels in words. What is too long for the field is too long for the queue pair as well.
        let length = (payload.next_multiple_of(4) + AROUND_PAYLOAD + immediate) as u16;
        match self.form {
            Form::None => {}
            Form::Ipv4 => {
                let whole = length.wrapping_add((BYTES - IPV4_AT) as u16);
                bytes[IPV4_LENGTH..IPV4_LENGTH + 2].copy_from_slice(&whole.to_be_bytes());
                let checksum = internet_checksum(&bytes[IPV4_AT..]);
                bytes[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
            }
            Form::Ipv6 => bytes[IPV6_LENGTH..IPV6_LENGTH + 2].copy_from_slice(&length.to_be_bytes()),
            Form::Global => {
                let length = length.wrapping_sub(UDP_HEADER);
                bytes[IPV6_LENGTH..IPV6_LENGTH + 2].copy_from_slice(&length.to_be_bytes());
            }
        }
        bytes
    }
}

/// The header that IPv6 and the GRH have in common, with this one behind it.
fn global(source: &[u8; 16], attr: &ibv_ah_attr, next: u8) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let word = 6 << 28 | u32::from(attr.grh.traffic_class) << 20 | attr.grh.flow_label & 0xf_ffff;
    bytes[..4].copy_from_slice(&word.to_be_bytes());
    (bytes[6], bytes[7]) = (next, hops(attr));
    bytes[8..24].copy_from_slice(source);
    // SAFETY: every view of the GID union is 16 plain bytes.
    bytes[24..].copy_from_slice(unsafe { &attr.grh.dgid.raw });
    bytes
}

/// Whether a GID is an IPv4 address.
pub fn is_ipv4(gid: &[u8; 16]) -> bool {
    Ipv6Addr::from(*gid).to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::verbs::ibv_gid;

    const V4_SOURCE: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2];
    const V4_PEER: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];

    fn to(gid: [u8; 16]) -> ibv_ah_attr {
        // SAFETY: plain C data; all zeros is its empty value.
        let mut attr: ibv_ah_attr = unsafe { core::mem::zeroed() };
        attr.grh.dgid = ibv_gid { raw: gid };
        attr.grh.traffic_class = 8;
        attr.grh.flow_label = 0x12345;
        attr
    }

    #[test]
    fn an_ipv4_header_stands_in_the_second_half() {
        let header = Header::new(&V4_SOURCE, &to(V4_PEER)).of(5, false);
        assert_eq!(header[..20], [0; 20]);
        // 20 bytes of header, 8 of UDP, 20 of transport, 8 of padded payload, 4 of checksum.
        assert_eq!(header[20..30], [0x45, 8, 0, 60, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(header[32..], [10, 0, 0, 2, 10, 0, 0, 1]);
        assert_eq!(internet_checksum(&header[20..]), 0);
    }

    #[test]
    fn everything_else_is_a_grh() {
        let mut link_local = [0; 16];
        link_local[..2].copy_from_slice(&[0xfe, 0x80]);
        for (source, destination) in
            [(link_local, link_local), (V4_SOURCE, link_local), (link_local, V4_PEER)]
        {
            let header = Header::new(&source, &to(destination)).of(0, false);
            assert_eq!(header[..8], [0x60, 0x81, 0x23, 0x45, 0, 32, 17, 64]);
            assert_eq!(header[8..24], source);
            assert_eq!(header[24..], destination);
        }
    }
}
