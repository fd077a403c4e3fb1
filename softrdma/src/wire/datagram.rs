//! Datagrams (UD; IBA vol. 1 §9.8.3): a packet each, which nobody answers, and the header of IP that a
//! receiver finds before the payload (annex A17).

use std::net::Ipv6Addr;

use super::flow::{Addresses, Flow};
use super::icrc::{self, ICRC_BYTES};
use super::opcode::{Extra, Opcode, Operation, Position, Transport};
use super::packet::{Bth, DEFAULT_P_KEY, Deth, Head, Headers, Packet, pad_of};
use super::psn::Psn;

/// The queue pair that stands for all members of a group.
pub const GROUP_QP: u32 = 0xff_ffff;

/// Bytes before the payload of a datagram at its receiver.
pub const HEADER_BYTES: usize = 40;
/// Where an IPv4 header begins in them.
pub const IPV4_AT: usize = 20;
const IPV4_CHECKSUM: usize = 10;
const UDP_BYTES: usize = 8;

/// A datagram that is to be sent, without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Its number among those of its queue pair, which no receiver looks at.
    pub psn: Psn,
    /// Queue pair that it is for, or [`GROUP_QP`].
    pub dest_qp: u32,
    /// Queue pair that sends it.
    pub source_qp: u32,
    /// Key that the receiver must have.
    pub qkey: u32,
    /// Immediate data, as it stands in the program's memory.
    pub imm: Option<u32>,
    /// Whether it asks for an event at its receiver.
    pub solicited: bool,
    /// Bytes of payload: no more than a packet has.
    pub length: usize,
}

impl Datagram {
    /// The headers of its packet.
    #[must_use]
    pub fn head(&self) -> Head {
        let extra = if self.imm.is_some() { Extra::Immediate } else { Extra::Nothing };
        let opcode = Opcode::new(Transport::Ud, Operation::Send, Position::Only, extra);
        let Some(opcode) = opcode else { unreachable!("UD has sends of one packet") };
        let (solicited, pad) = (self.solicited, pad_of(self.length));
        let deth = Deth { qkey: self.qkey, source_qp: self.source_qp };
        Head {
            bth: Bth { solicited, pad, ..Bth::new(opcode, self.dest_qp, self.psn) },
            headers: Headers { deth: Some(deth), imm: self.imm, ..Headers::NONE },
        }
    }
}

/// Whether a packet with this partition key is of the default partition, whose full member every queue pair
/// here is (IBA vol. 1 §10.9.3).
#[must_use]
pub const fn is_of_partition(p_key: u16) -> bool {
    const MEMBERSHIP: u16 = 0x8000;
    // rule: wire-partition
    (p_key ^ DEFAULT_P_KEY) & !MEMBERSHIP == 0
}

/// What routers may have changed of a packet's IP header, and what says nothing of its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// IPv4's identification.
    pub identification: u16,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// IPv6's flow label.
    pub label: u32,
}

/// The IP header that a packet came with, as it stands before a datagram's payload at its receiver: an IPv6
/// header has the form of a GRH, an IPv4 header stands in the last 20 bytes.
#[must_use]
pub fn header(flow: &Flow, seen: &Seen, packet: &Packet<'_>) -> [u8; HEADER_BYTES] {
    let bytes = packet.head().bytes() + packet.payload.len() + usize::from(packet.bth.pad);
    header_before(flow, seen, bytes)
}

/// The same before so many bytes: a packet without its ICRC.
#[must_use]
pub fn header_before(flow: &Flow, seen: &Seen, bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let udp_bytes = UDP_BYTES + bytes + ICRC_BYTES;
    match flow.addresses {
        Addresses::V4 { .. } => {
            let ip = &mut header[IPV4_AT..];
            icrc::write_ip(ip, flow, seen.identification, udp_bytes);
            (ip[1], ip[8]) = (seen.traffic_class, seen.hop_limit);
            ip[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].fill(0);
            let checksum = internet_checksum(ip).to_be_bytes();
            ip[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&checksum);
        }
        Addresses::V6 { .. } => {
            icrc::write_ip(&mut header, flow, seen.identification, udp_bytes);
            let word = 6 << 28 | u32::from(seen.traffic_class) << 20 | seen.label & 0xf_ffff;
            header[..4].copy_from_slice(&word.to_be_bytes());
            header[7] = seen.hop_limit;
        }
    }
    header
}

/// The checksum of an IPv4 header (RFC 1071) whose own place for it is 0.
#[must_use]
#[inline]
pub fn internet_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Whether an address is a group's, of IPv6 or of IPv4 in it, that other hosts may be in: one of the scope of
/// an interface leaves no host (RFC 4291, 2.7).
#[must_use]
pub fn is_group_between_hosts(address: Ipv6Addr) -> bool {
    let is_of_interface = address.octets()[1] & 0xf <= 1;
    match address.to_ipv4_mapped() {
        Some(v4) => v4.is_multicast(),
        None => address.is_multicast() && !is_of_interface,
    }
}

#[cfg(test)]
mod tests;
