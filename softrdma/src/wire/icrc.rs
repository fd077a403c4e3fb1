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

/// Where both families' headers have the length: of all in IPv4's, of what follows in IPv6's.
const IPV4_LENGTH: usize = 2;
const IPV6_LENGTH: usize = 4;

/// Where the UDP header has the length.
const UDP_LENGTH: usize = 4;

/// How many flows are remembered.
const RECENT: usize = 8;

/// Byte of the BTH that counts as ones: congestion bits, and reserved ones.
const CONGESTION: usize = 4;

/// CRC over what stands before the BTH in the packets of a flow, of no length and with identification 0. What
/// those of a packet change of it is known, since CRCs are linear: so of a packet of the flow only what begins
/// with the BTH is summed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    crc: u32,
    is_v4: bool,
}

impl Ahead {
    /// That of a flow.
    #[must_use]
    pub fn of(flow: &Flow) -> Self {
        let mut ahead = [0; IPV6_BYTES + UDP_BYTES];
        let is_v4 = matches!(flow.addresses, Addresses::V4 { .. });
        let udp = if is_v4 { IPV4_BYTES } else { IPV6_BYTES };
        write_ip(&mut ahead, flow, 0, 0);
        write_udp(&mut ahead[udp..], flow, 0);
        // The CRC of eight bytes of ones, which stand for the local route header that InfiniBand has.
        let mut hasher = Hasher::new_with_initial(0x2144_df1c);
        hasher.update(&ahead[..udp + UDP_BYTES]);
        Self { crc: hasher.finalize(), is_v4 }
    }

    /// The ICRC of a packet of the flow.
    #[must_use]
    #[inline(always)]
    pub fn icrc(self, identification: u16, packet: &[u8]) -> [u8; ICRC_BYTES] {
        self.begin(identification, packet, packet.len()).finish()
    }

    /// See [`Icrc::new`].
    #[inline(always)]
    fn begin(self, identification: u16, head: &[u8], bytes: usize) -> Icrc {
        debug_assert!((BTH_BYTES..=bytes).contains(&head.len()) && bytes <= MAX_PACKET);
        debug_assert!(bytes.is_multiple_of(4));
        // rule: wire-icrc
        let mut crc = self.crc ^ CONGESTION_BYTES[usize::from(head[CONGESTION])];
        crc ^= if self.is_v4 {
            let [high, low] = identification.to_be_bytes().map(usize::from);
            IPV4_LENGTHS[bytes / 4] ^ IDENTIFICATIONS[0][high] ^ IDENTIFICATIONS[1][low]
        } else {
            IPV6_LENGTHS[bytes / 4]
        };
        let mut hasher = Hasher::new_with_initial(crc);
        hasher.update(head);
        Icrc(hasher)
    }

    /// [`identification`] of a packet of the flow.
    #[must_use]
    #[inline(always)]
    pub fn identification(self, likely: u16, udp_payload: &[u8]) -> Option<u16> {
        let difference = self.difference(likely, udp_payload)?;
        if difference == 0 {
            return Some(if self.is_v4 { likely } else { 0 });
        }
        if self.is_v4 { other_identification(likely, difference, udp_payload.len()) } else { None }
    }

    /// What the ICRC of a UDP payload differs by from what it must be. None where it is as long as no packet.
    #[inline(always)]
    fn difference(self, identification: u16, udp_payload: &[u8]) -> Option<u32> {
        let (packet, icrc) = udp_payload.split_last_chunk::<ICRC_BYTES>()?;
        if !(BTH_BYTES..=MAX_PACKET).contains(&packet.len()) || !packet.len().is_multiple_of(4) {
            return None;
        }
        let expected = self.icrc(identification, packet);
        Some(u32::from_le_bytes(*icrc) ^ u32::from_le_bytes(expected))
    }
}

/// [`Ahead`] of the flows that the last packets had, as far as they have different places.
#[derive(Clone, Debug, Default)]
pub struct Recent([Option<(Flow, Ahead)>; RECENT]);

impl Recent {
    /// That of a flow.
    #[inline]
    pub fn of(&mut self, flow: &Flow) -> Ahead {
        let place = &mut self.0[flow.spread() % RECENT];
        match place {
            Some((known, ahead)) if known == flow => *ahead,
            _ => remember(place, flow),
        }
    }
}

#[cold]
fn remember(place: &mut Option<(Flow, Ahead)>, flow: &Flow) -> Ahead {
    place.insert((*flow, Ahead::of(flow))).1
}

/// ICRC of a packet whose pieces stand apart.
#[derive(Clone)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Begins with the first bytes of a packet: `head` is the BTH and what may follow it, and `bytes` the
    /// length of all that follows the UDP header, without the ICRC. Over IPv6 the identification is not used.
    /// A head that is no BTH or longer than all, and more than [`MAX_PACKET`] bytes or a number of them that is
    /// no multiple of 4, is a defect of the caller.
    #[must_use]
    pub fn new(flow: &Flow, identification: u16, head: &[u8], bytes: usize) -> Self {
        Ahead::of(flow).begin(identification, head, bytes)
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
    Ahead::of(flow).difference(identification, udp_payload) == Some(0)
}

/// With which identification the ICRC at the end of a UDP payload is right: there is one at most. It is soon
/// found where it is the `likely` one. Over IPv6, which has no identification, 0 says that it is right.
#[must_use]
pub fn identification(flow: &Flow, likely: u16, udp_payload: &[u8]) -> Option<u16> {
    Ahead::of(flow).identification(likely, udp_payload)
}

/// The identification with which the ICRC is right that differs by so much with the likely one.
#[cold]
fn other_identification(likely: u16, difference: u32, bytes: usize) -> Option<u16> {
    // The difference is what the 16 bits of the identification have become by all that follows them. That was a
    // multiplication by a power of x; the opposite power gives the bits back, or more than 16 bits where
    // something else is wrong.
    let bits = multiply(OPPOSITE_POWERS[(bytes - ICRC_BYTES) / 4], difference);
    u16::try_from(bits).ok().map(|bits| likely ^ bits.swap_bytes())
}

/// The header of IP before so many bytes of UDP, of which what routers change counts as ones.
pub(super) fn write_ip(to: &mut [u8], flow: &Flow, identification: u16, udp_bytes: usize) {
    const UDP: u8 = 17;
    match flow.addresses {
        Addresses::V4 { source, destination } => {
            to[0] = 0x45;
            to[1] = 0xff;
            to[IPV4_LENGTH..IPV4_LENGTH + 2].copy_from_slice(&length(IPV4_BYTES + udp_bytes));
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
            to[IPV6_LENGTH..IPV6_LENGTH + 2].copy_from_slice(&length(udp_bytes));
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
    to[UDP_LENGTH..UDP_LENGTH + 2].copy_from_slice(&length(udp_bytes));
    to[6..8].fill(0xff);
}

/// A length in a header.
const fn length(bytes: usize) -> [u8; 2] {
    (bytes as u16).to_be_bytes()
}

/// What the length of a packet of 4 · n bytes changes of the CRC before its BTH, over IPv4.
static IPV4_LENGTHS: [u32; MAX_PACKET / 4 + 1] = lengths(IPV4_BYTES - IPV4_LENGTH + UDP_BYTES, IPV4_BYTES);

/// The same over IPv6.
static IPV6_LENGTHS: [u32; MAX_PACKET / 4 + 1] = lengths(IPV6_BYTES - IPV6_LENGTH + UDP_BYTES, 0);

/// The same of IPv4's and IPv6's lengths, from which on so many bytes stand before the BTH, and which count so
/// many more bytes than that of UDP.
const fn lengths(behind_ip: usize, more: usize) -> [u32; MAX_PACKET / 4 + 1] {
    let (ip, udp) = (power(8 * behind_ip as u32), power(8 * (UDP_BYTES - UDP_LENGTH) as u32));
    let mut lengths = [0; MAX_PACKET / 4 + 1];
    let mut n = 0;
    while n < lengths.len() {
        let udp_bytes = UDP_BYTES + 4 * n + ICRC_BYTES;
        let of_ip = as_first(length(more + udp_bytes)) ^ as_first(length(more));
        lengths[n] = multiply(ip, of_ip) ^ multiply(udp, as_first(length(udp_bytes)));
        n += 1;
    }
    lengths
}

/// Two bytes as the next in the CRC's register.
const fn as_first(bytes: [u8; 2]) -> u32 {
    u16::from_le_bytes(bytes) as u32
}

/// What the bytes of an identification change of the CRC before the BTH: its first byte, and its second.
static IDENTIFICATIONS: [[u32; 256]; 2] = {
    let behind = (IPV4_BYTES - IDENTIFICATION + UDP_BYTES) as u32;
    [bytes(power(8 * behind), 0), bytes(power(8 * (behind - 1)), 0)]
};

/// What the CRC before the BTH has to differ by, that the byte with the congestion bits counts as ones although
/// it is summed up as it is. It comes 4 bytes later.
static CONGESTION_BYTES: [u32; 256] = bytes(power(u32::MAX - 8 * CONGESTION as u32), 0xff);

/// Products of a polynomial and each byte, which is another by these bits.
const fn bytes(by: u32, other: u8) -> [u32; 256] {
    let mut products = [0; 256];
    let mut byte = 0;
    while byte < products.len() {
        products[byte] = multiply(by, byte as u32 ^ other as u32);
        byte += 1;
    }
    products
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
