//! Invariant CRC (IBA vol. 1 §7.8.1, annex A17): what no router changes of a packet, from the IP header on.
//!
//! It is the CRC-32 of Ethernet over 8 bytes of ones, the headers of IP and UDP, and the packet up to its pad.
//! These count as ones, since routers change them: IPv4's TOS, TTL and checksum; IPv6's traffic class, flow
//! label and hop limit; UDP's checksum; the congestion bits of the BTH and those reserved beside them. It
//! follows in little-endian order.
//!
//! # The identification
//!
//! IPv4's identification counts as it is, which a UDP socket does not show. Where it is not known, a packet is
//! right if the ICRC is, for any identification: [`identification`] finds it. Of changed packets one in 2^16
//! passes then, not one in 2^32. An IPv4 header has no options and may not be fragmented (DF), as annex A17
//! has it; IPv6 has no extension headers.

use crc32fast::Hasher;

use super::flow::{Addresses, Flow};
use super::packet::{BTH_BYTES, MAX_HEAD};

/// Bytes of an ICRC.
pub const ICRC_BYTES: usize = 4;

/// Bytes of the longest packet, with the longest payload, without the ICRC.
pub const MAX_PACKET: usize = MAX_HEAD + 4096;

const UDP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;

/// Where the IPv4 header has the identification.
const IDENTIFICATION: usize = 4;

/// Byte of the BTH that counts as ones: congestion bits, and reserved ones.
const CONGESTION: usize = 4;

/// ICRC of a packet whose pieces stand apart.
#[derive(Clone)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Begins with the first bytes of a packet: `head` is the BTH and what may follow it, and `bytes` the
    /// length of all that follows the UDP header, without the ICRC. Over IPv6 the identification is not used.
    /// A head that is no BTH or longer than [`MAX_HEAD`], or more than [`MAX_PACKET`] bytes, is a defect of the
    /// caller.
    #[must_use]
    pub fn new(flow: &Flow, identification: u16, head: &[u8], bytes: usize) -> Self {
        debug_assert!(
            (BTH_BYTES..=MAX_HEAD).contains(&head.len()) && head.len() <= bytes && bytes <= MAX_PACKET
        );
        // rule: wire-icrc
        // One piece, as long ones cost less a byte.
        let mut ahead = [0; IPV6_BYTES + UDP_BYTES + MAX_HEAD];
        let udp = match flow.addresses {
            Addresses::V4 { .. } => IPV4_BYTES,
            Addresses::V6 { .. } => IPV6_BYTES,
        };
        let udp_bytes = UDP_BYTES + bytes + ICRC_BYTES;
        write_ip(&mut ahead, flow, identification, udp_bytes);
        write_udp(&mut ahead[udp..], flow, udp_bytes);
        let bth = udp + UDP_BYTES;
        ahead[bth..bth + head.len()].copy_from_slice(head);
        ahead[bth + CONGESTION] = 0xff;
        // The CRC of eight bytes of ones, which stand for the local route header that InfiniBand has.
        let mut hasher = Hasher::new_with_initial(0x2144_df1c);
        hasher.update(&ahead[..bth + head.len()]);
        Self(hasher)
    }

    /// Goes on with the next piece of headers, payload or pad.
    #[inline]
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The ICRC as it stands behind the packet.
    #[must_use]
    #[inline]
    pub fn finish(self) -> [u8; ICRC_BYTES] {
        self.0.finalize().to_le_bytes()
    }
}

/// Whether the ICRC at the end of a UDP payload is that of the packet before it, over IPv4 with this
/// identification.
#[must_use]
pub fn is_right(flow: &Flow, identification: u16, udp_payload: &[u8]) -> bool {
    difference(flow, identification, udp_payload) == Some(0)
}

/// With which identification the ICRC at the end of a UDP payload is right: there is one at most. It is soon
/// found where it is the `likely` one. Over IPv6, which has no identification, 0 says that it is right.
#[must_use]
pub fn identification(flow: &Flow, likely: u16, udp_payload: &[u8]) -> Option<u16> {
    let difference = difference(flow, likely, udp_payload)?;
    let is_v6 = matches!(flow.addresses, Addresses::V6 { .. });
    if difference == 0 {
        return Some(if is_v6 { 0 } else { likely });
    }
    if is_v6 {
        return None;
    }
    // CRCs are linear: the difference is what the 16 bits of the identification have become by all that
    // follows them. That was a multiplication by a power of x; the opposite power gives the bits back, or more
    // than 16 bits where something else is wrong.
    let bits = multiply(OPPOSITE_POWERS[(udp_payload.len() - ICRC_BYTES) / 4], difference);
    u16::try_from(bits).ok().map(|bits| likely ^ bits.swap_bytes())
}

/// What the ICRC of a UDP payload differs by from what it must be. None where it is as long as no packet.
fn difference(flow: &Flow, identification: u16, udp_payload: &[u8]) -> Option<u32> {
    let (packet, icrc) = udp_payload.split_last_chunk::<ICRC_BYTES>()?;
    if !(BTH_BYTES..=MAX_PACKET).contains(&packet.len()) || !packet.len().is_multiple_of(4) {
        return None;
    }
    // A short packet is one piece.
    let (head, rest) = packet.split_at(packet.len().min(MAX_HEAD));
    let mut expected = Icrc::new(flow, identification, head, packet.len());
    expected.update(rest);
    Some(u32::from_le_bytes(*icrc) ^ u32::from_le_bytes(expected.finish()))
}

/// The header of IP before so many bytes of UDP, of which what routers change counts as ones.
pub(super) fn write_ip(to: &mut [u8], flow: &Flow, identification: u16, udp_bytes: usize) {
    const UDP: u8 = 17;
    match flow.addresses {
        Addresses::V4 { source, destination } => {
            to[0] = 0x45;
            to[1] = 0xff;
            to[2..4].copy_from_slice(&length(IPV4_BYTES + udp_bytes));
            to[IDENTIFICATION..IDENTIFICATION + 2].copy_from_slice(&identification.to_be_bytes());
            let do_not_fragment = [0x40, 0];
            to[6..8].copy_from_slice(&do_not_fragment);
            to[8] = 0xff;
            to[9] = UDP;
            to[10..12].fill(0xff);
            to[12..16].copy_from_slice(&source.octets());
            to[16..20].copy_from_slice(&destination.octets());
        }
        Addresses::V6 { source, destination } => {
            to[0] = 0x6f;
            to[1..4].fill(0xff);
            to[4..6].copy_from_slice(&length(udp_bytes));
            to[6] = UDP;
            to[7] = 0xff;
            to[8..24].copy_from_slice(&source.octets());
            to[24..40].copy_from_slice(&destination.octets());
        }
    }
}

fn write_udp(to: &mut [u8], flow: &Flow, udp_bytes: usize) {
    to[0..2].copy_from_slice(&flow.source_port.to_be_bytes());
    to[2..4].copy_from_slice(&flow.destination_port.to_be_bytes());
    to[4..6].copy_from_slice(&length(udp_bytes));
    to[6..8].fill(0xff);
}

/// A length in a header.
fn length(bytes: usize) -> [u8; 2] {
    (bytes as u16).to_be_bytes()
}

/// By what a packet of 4 · n bytes multiplied the identification, the other way: x^(-8 · (bytes behind it)),
/// and x^-16 for its own bytes, so that it comes to stand in the low bits.
static OPPOSITE_POWERS: [u32; MAX_PACKET / 4 + 1] = {
    let mut powers = [0; MAX_PACKET / 4 + 1];
    // x^(2^32 - 1) is 1, since the polynomial is primitive.
    let by_four_bytes = power(u32::MAX - 32);
    powers[0] = power(u32::MAX - 8 * (IPV4_BYTES - IDENTIFICATION + UDP_BYTES) as u32);
    let mut n = 1;
    while n < powers.len() {
        powers[n] = multiply(powers[n - 1], by_four_bytes);
        n += 1;
    }
    powers
};

/// Product of two polynomials modulo that of CRC-32. As in the CRC's register, the highest bit is the
/// coefficient of x^0.
const fn multiply(a: u32, b: u32) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let (mut product, mut shifted, mut degree) = (0, b, 0);
    while degree < 32 {
        product ^= shifted & (a >> (31 - degree) & 1).wrapping_neg();
        shifted = shifted >> 1 ^ POLYNOMIAL & (shifted & 1).wrapping_neg();
        degree += 1;
    }
    product
}

/// x^n.
const fn power(n: u32) -> u32 {
    let (mut power, mut square, mut rest) = (1 << 31, 1 << 30, n);
    while rest != 0 {
        if rest & 1 != 0 {
            power = multiply(power, square);
        }
        square = multiply(square, square);
        rest >>= 1;
    }
    power
}

#[cfg(test)]
mod tests;
