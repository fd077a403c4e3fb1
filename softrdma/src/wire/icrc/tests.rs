use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// CRC-32 bit by bit, as the specification has it, over a packet with its masked bytes.
fn bit_by_bit(bytes: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = if register & 1 != 0 { register >> 1 ^ 0xedb8_8320 } else { register >> 1 };
        }
    }
    !register
}

/// A packet as it was seen on the wire.
struct Seen {
    flow: Flow,
    identification: u16,
    udp_payload: Vec<u8>,
}

/// From the IP header to the ICRC, in hexadecimal digits.
fn seen(digits: &str) -> Seen {
    let digits: String = digits.split_whitespace().collect();
    let bytes: Vec<u8> =
        (0..digits.len() / 2).map(|n| u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).unwrap()).collect();
    let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (addresses, udp, identification) = if bytes[0] >> 4 == 4 {
        let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap());
        (Addresses::V4 { source: address(12), destination: address(16) }, IPV4_BYTES, u16_at(4))
    } else {
        let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap());
        (Addresses::V6 { source: address(8), destination: address(24) }, IPV6_BYTES, 0)
    };
    Seen {
        flow: Flow { addresses, source_port: u16_at(udp), destination_port: u16_at(udp + 2) },
        identification,
        udp_payload: bytes[udp + UDP_BYTES..].to_vec(),
    }
}

/// A congestion notification of a ConnectX-4 Lx, whose identification is not 0.
const NOTIFICATION: &str = "45c2003c 718c4000 40119161 0a001101 0a001201 000012b7 00280000
    8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 82fd002a";

/// A send of UC with two bytes of pad.
const UC_SEND: &str = "45010040 04784000 4011b4d5 c0a80007 c0a80007 c00012b7 002caca2
    2460ffff 000000d3 00cf1710 4630818b e28935d9 0e9a9550 5401be88 5e500000 78f353f3";

fn v4() -> Flow {
    Flow::new("192.0.2.1:49152".parse().unwrap(), "192.0.2.77:4791".parse().unwrap()).unwrap()
}

/// A UDP payload with its ICRC.
fn datagram(flow: &Flow, identification: u16, packet: &[u8]) -> Vec<u8> {
    let mut icrc = Icrc::new(flow, identification, &packet[..BTH_BYTES], packet.len());
    icrc.update(&packet[BTH_BYTES..]);
    [packet, &icrc.finish()[..]].concat()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(bytes)
    .collect()
}

#[test]
fn packets_of_others() {
    for digits in [NOTIFICATION, UC_SEND] {
        let Seen { flow, identification, udp_payload } = seen(digits);
        assert_ne!(identification, 0);
        assert!(is_right(&flow, identification, &udp_payload));
        assert!(!is_right(&flow, identification ^ 1, &udp_payload));
        assert_eq!(super::identification(&flow, 0, &udp_payload), Some(identification));
    }
}

/// What soft-RoCE sent of each opcode, over IPv4 and IPv6.
#[test]
fn packets_of_soft_roce() {
    let packets =
        include_str!("../../../../tests/wire/seen.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for Seen { flow, identification, udp_payload } in packets.map(seen) {
        assert!(is_right(&flow, identification, &udp_payload), "{udp_payload:x?}");
        assert_eq!(super::identification(&flow, 0, &udp_payload), Some(identification), "{udp_payload:x?}");
        count += 1;
    }
    assert_eq!(count, 75);
}

#[test]
fn a_changed_bit_is_found() {
    for digits in [NOTIFICATION, UC_SEND] {
        let Seen { flow, identification, udp_payload } = seen(digits);
        for bit in 0..udp_payload.len() * 8 {
            let mut changed = udp_payload.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let masked = bit / 8 == CONGESTION;
            assert_eq!(is_right(&flow, identification, &changed), masked, "bit {bit}");
            let expected = masked.then_some(identification);
            assert_eq!(super::identification(&flow, 0, &changed), expected, "bit {bit}");
        }
    }
}

#[test]
fn whatever_a_header_says_counts() {
    let Seen { flow, identification, udp_payload } = seen(UC_SEND);
    let Addresses::V4 { source, destination } = flow.addresses else { unreachable!() };
    let other = Ipv4Addr::new(192, 168, 0, 8);
    for flow in [
        Flow { source_port: flow.source_port ^ 1, ..flow },
        Flow { destination_port: flow.destination_port ^ 1, ..flow },
        Flow { addresses: Addresses::V4 { source: other, destination }, ..flow },
        Flow { addresses: Addresses::V4 { source, destination: other }, ..flow },
    ] {
        assert!(!is_right(&flow, identification, &udp_payload), "{flow:?}");
        assert_eq!(super::identification(&flow, 0, &udp_payload), None, "{flow:?}");
    }
}

/// What is masked, written down once more, and summed up bit by bit.
#[test]
// rule: wire-icrc
fn as_the_specification_has_it() {
    let packet = noise(12 + 4 + 64);
    let flow = v4();
    let icrc = datagram(&flow, 0xabcd, &packet)[packet.len()..].to_vec();
    let mut covered = vec![0xff; 8];
    covered
        .extend([0x45, 0xff, 0, 112, 0xab, 0xcd, 0x40, 0, 0xff, 17, 0xff, 0xff, 192, 0, 2, 1, 192, 0, 2, 77]);
    covered.extend([0xc0, 0, 0x12, 0xb7, 0, 92, 0xff, 0xff]);
    covered.extend(&packet[..4]);
    covered.push(0xff);
    covered.extend(&packet[5..]);
    assert_eq!(icrc, bit_by_bit(&covered).to_le_bytes());

    let flow =
        Flow::new("[2001:db8::1]:49152".parse().unwrap(), "[2001:db8::2]:4791".parse().unwrap()).unwrap();
    let with_icrc = datagram(&flow, 0, &packet);
    let mut covered = vec![0xff; 8];
    covered.extend([0x6f, 0xff, 0xff, 0xff, 0, 92, 17, 0xff]);
    for last in [1, 2] {
        covered.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    covered.extend([0xc0, 0, 0x12, 0xb7, 0, 92, 0xff, 0xff]);
    covered.extend(&packet[..4]);
    covered.push(0xff);
    covered.extend(&packet[5..]);
    assert_eq!(with_icrc[packet.len()..], bit_by_bit(&covered).to_le_bytes());
    assert_eq!(identification(&flow, 0, &with_icrc), Some(0));
    assert!(is_right(&flow, 0x1234, &with_icrc), "IPv6 has no identification");
    let mut changed = with_icrc;
    changed[20] ^= 0x10;
    assert_eq!(identification(&flow, 0, &changed), None);
}

/// What an ICRC is over, with all that is masked.
fn covered(flow: &Flow, identification: u16, packet: &[u8]) -> Vec<u8> {
    let udp_bytes = (8 + packet.len() + 4) as u16;
    let mut covered = vec![0xff; 8];
    match flow.addresses {
        Addresses::V4 { source, destination } => {
            covered.extend([0x45, 0xff]);
            covered.extend((20 + udp_bytes).to_be_bytes());
            covered.extend(identification.to_be_bytes());
            covered.extend([0x40, 0, 0xff, 17, 0xff, 0xff]);
            covered.extend([source, destination].map(|address| address.octets()).concat());
        }
        Addresses::V6 { source, destination } => {
            covered.extend([0x6f, 0xff, 0xff, 0xff]);
            covered.extend(udp_bytes.to_be_bytes());
            covered.extend([17, 0xff]);
            covered.extend([source, destination].map(|address| address.octets()).concat());
        }
    }
    covered
        .extend([flow.source_port, flow.destination_port, udp_bytes, 0xffff].map(u16::to_be_bytes).concat());
    let bth = covered.len();
    covered.extend(packet);
    covered[bth + 4] = 0xff;
    covered
}

/// The identification of a packet, from the CRC bit by bit.
fn identification_bit_by_bit(flow: &Flow, likely: u16, udp_payload: &[u8]) -> Option<u16> {
    let (packet, icrc) = udp_payload.split_last_chunk().unwrap();
    let difference = u32::from_le_bytes(*icrc) ^ bit_by_bit(&covered(flow, likely, packet));
    match flow.addresses {
        Addresses::V6 { .. } => (difference == 0).then_some(0),
        Addresses::V4 { .. } => {
            let bits = multiply(OPPOSITE_POWERS[packet.len() / 4], difference);
            u16::try_from(bits).ok().map(|bits| likely ^ bits.swap_bytes())
        }
    }
}

fn v6() -> Flow {
    Flow::new("[2001:db8::1]:49152".parse().unwrap(), "[2001:db8::2]:4791".parse().unwrap()).unwrap()
}

#[test]
// rule: wire-icrc
fn every_length_and_congestion_byte_counts_as_it_must() {
    let mut packet = noise(MAX_PACKET);
    for (number, bytes) in (1_u16..).zip((BTH_BYTES..=MAX_PACKET).step_by(4)) {
        packet[CONGESTION] = number as u8;
        let identification = number.wrapping_mul(40503);
        for flow in [v4(), v6()] {
            let icrc = Ahead::of(&flow).icrc(identification, &packet[..bytes]);
            let expected = bit_by_bit(&covered(&flow, identification, &packet[..bytes]));
            assert_eq!(icrc, expected.to_le_bytes(), "{bytes} bytes, {flow:?}");
        }
    }
}

/// Of all identifications exactly the one that was sent is found, at any length; where a payload bit is
/// another, none is, by the brute search over all of them or by the multiplication.
#[test]
fn the_identification_is_what_a_search_finds() {
    let flow = v4();
    let search = |datagram: &[u8]| {
        let mut found = (0..=u16::MAX).filter(|tried| is_right(&flow, *tried, datagram));
        (found.next(), found.next())
    };
    for (bytes, sent) in [(12, 0), (12, 1), (16, 0x8000), (44, 0x718c), (60, 0x00ff), (100, 0xff00)] {
        let mut datagram = datagram(&flow, sent, &noise(bytes));
        assert_eq!(search(&datagram), (Some(sent), None), "{bytes} bytes");
        assert_eq!(identification(&flow, 0, &datagram), Some(sent), "{bytes} bytes");
        let changed = bytes - 1;
        datagram[changed] ^= 4;
        assert_eq!(search(&datagram), (None, None), "{bytes} bytes, one of them another");
        assert_eq!(identification(&flow, 0, &datagram), None, "{bytes} bytes, one of them another");
    }
}

#[test]
fn every_identification_is_found() {
    let flow = v4();
    for bytes in [BTH_BYTES, 44, 300] {
        let packet = noise(bytes);
        for sent in 0..=u16::MAX {
            let datagram = datagram(&flow, sent, &packet);
            assert_eq!(identification(&flow, 0, &datagram), Some(sent), "{bytes} bytes");
        }
    }
}

#[test]
fn an_identification_is_found_at_every_length() {
    let (flow, packet) = (v4(), noise(MAX_PACKET));
    for (number, bytes) in (1_u16..).zip((BTH_BYTES..=MAX_PACKET).step_by(4)) {
        let sent = number.wrapping_mul(40503);
        let datagram = datagram(&flow, sent, &packet[..bytes]);
        assert_eq!(identification(&flow, 0, &datagram), Some(sent), "{bytes} bytes");
    }
}

#[test]
fn of_changed_packets_one_in_65536_passes() {
    let flow = v4();
    let mut datagram = datagram(&flow, 0x1234, &noise(300));
    let tries = 1 << 19;
    let at = datagram.len() - ICRC_BYTES;
    let passes = |number: &u32| {
        // Another ICRC stands for another payload; all are as likely.
        datagram[at..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        identification(&flow, 0, &datagram).is_some()
    };
    let passed = (0..tries).filter(passes).count();
    assert!((1..=32).contains(&passed), "{passed} of {tries}, where 8 are expected");
}

#[test]
fn what_is_no_packet_is_never_right() {
    let flow = v4();
    for bytes in [0, 3, 4, 12, 15, 17, 19, 4140, 4144, 65507] {
        let datagram = vec![0; bytes];
        assert_eq!(identification(&flow, 0, &datagram), None, "{bytes} bytes");
        assert!(!is_right(&flow, 0, &datagram), "{bytes} bytes");
    }
}

/// One of a few flows, more than are remembered, of which some have one place.
fn any_flow() -> impl Strategy<Value = Flow> {
    (any::<bool>(), 0..6_u8, 0..2_u8, 4790..4792_u16).prop_map(|(is_v4, from, to, source_port)| {
        let addresses = if is_v4 {
            let address = |last| Ipv4Addr::new(192, 0, 2, last);
            Addresses::V4 { source: address(from), destination: address(to + 8) }
        } else {
            let address = |last| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(last));
            Addresses::V6 { source: address(from), destination: address(to + 8) }
        };
        Flow { addresses, source_port, destination_port: 4791 }
    })
}

prop_compose! {
    /// A packet, and a bit of its datagram that changes on the way, if it is that long.
    fn any_packet()(
        flow in any_flow(),
        words in 3_usize..40,
        bytes in prop::collection::vec(any::<u8>(), 160),
        identification in prop_oneof![0_u16..3, any::<u16>()],
        likely in prop_oneof![0_u16..3, any::<u16>()],
        changed in 0_usize..2600,
    ) -> (Flow, Vec<u8>, u16, u16, usize) {
        (flow, bytes[..4 * words].to_vec(), identification, likely, changed)
    }
}

proptest! {
    /// Whatever flows had packets before.
    #[test]
    // rule: wire-icrc
    fn what_is_remembered_changes_nothing(packets in prop::collection::vec(any_packet(), 1..60)) {
        let mut recent = Recent::default();
        for (flow, packet, number, likely, changed) in packets {
            let ahead = recent.of(&flow);
            prop_assert_eq!(ahead, Ahead::of(&flow));
            let icrc = ahead.icrc(number, &packet);
            prop_assert_eq!(icrc, bit_by_bit(&covered(&flow, number, &packet)).to_le_bytes());
            prop_assert_eq!(&datagram(&flow, number, &packet)[packet.len()..], &icrc);
            let mut came = [&packet[..], &icrc].concat();
            let sent = if matches!(flow.addresses, Addresses::V4 { .. }) { number } else { 0 };
            prop_assert_eq!(recent.of(&flow).identification(likely, &came), Some(sent));
            if let Some(byte) = came.get_mut(changed / 8) {
                *byte ^= 1 << (changed % 8);
            }
            let expected = identification_bit_by_bit(&flow, likely, &came);
            prop_assert_eq!(recent.of(&flow).identification(likely, &came), expected);
            prop_assert_eq!(super::identification(&flow, likely, &came), expected);
        }
    }

    #[test]
    fn pieces_are_as_good_as_the_whole(
        packet in prop::collection::vec(any::<u8>(), 48..400),
        head in BTH_BYTES..=MAX_HEAD,
        cut in 0_usize..400,
        identification: u16,
        likely: u16,
    ) {
        let packet = &packet[..packet.len() / 4 * 4];
        let cut = cut.clamp(head, packet.len());
        let mut icrc = Icrc::new(&v4(), identification, &packet[..head], packet.len());
        icrc.update(&packet[head..cut]);
        icrc.update(&packet[cut..]);
        let whole = datagram(&v4(), identification, packet);
        prop_assert_eq!(&icrc.finish()[..], &whole[packet.len()..]);
        prop_assert!(is_right(&v4(), identification, &whole));
        for likely in [0, identification, likely] {
            prop_assert_eq!(super::identification(&v4(), likely, &whole), Some(identification));
        }
    }
}
