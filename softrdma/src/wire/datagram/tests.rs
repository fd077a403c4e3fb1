use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::icrc::Icrc;
use super::super::packet::MAX_HEAD;
use super::*;

const DATAGRAM: Datagram = Datagram {
    psn: Psn::new(7),
    dest_qp: 0x12_3456,
    source_qp: 0x65_4321,
    qkey: 0x1122_3344,
    imm: None,
    solicited: false,
    length: 5,
};

fn flow(source: &str, destination: &str) -> Flow {
    Flow::new(source.parse().unwrap(), destination.parse().unwrap()).unwrap()
}

/// The packet of a datagram, as it arrives.
fn bytes(datagram: &Datagram) -> Vec<u8> {
    let mut head = [0; MAX_HEAD];
    let length = datagram.head().write(&mut head);
    let mut bytes = head[..length].to_vec();
    bytes.extend((0..datagram.length).map(|byte| byte as u8));
    bytes.resize(bytes.len() + usize::from(pad_of(datagram.length)), 0);
    bytes
}

#[test]
fn a_datagram_is_a_packet() {
    let plain = bytes(&DATAGRAM);
    let expected = [0x64, 0x70, 0xff, 0xff, 0, 0x12, 0x34, 0x56, 0, 0, 0, 7];
    assert_eq!(plain[..12], expected);
    assert_eq!(plain[12..20], [0x11, 0x22, 0x33, 0x44, 0, 0x65, 0x43, 0x21]);
    assert_eq!(plain[20..], [0, 1, 2, 3, 4, 0, 0, 0]);
    let imm = u32::from_ne_bytes([1, 2, 3, 4]);
    let other = bytes(&Datagram { imm: Some(imm), solicited: true, length: 4, ..DATAGRAM });
    assert_eq!((other[0], other[1]), (0x65, 0xc0));
    assert_eq!(other[20..], [1, 2, 3, 4, 0, 1, 2, 3]);
    let packet = Packet::parse(&other).unwrap();
    assert_eq!(packet.headers.deth, Some(Deth { qkey: 0x1122_3344, source_qp: 0x65_4321 }));
}

#[test]
fn an_ipv4_header_stands_in_the_second_half() {
    let packet = bytes(&DATAGRAM);
    let seen = Seen { identification: 0x718c, traffic_class: 2, hop_limit: 63, label: 9 };
    let header = header(&flow("10.0.0.1:5", "10.0.0.2:4791"), &seen, &Packet::parse(&packet).unwrap());
    assert_eq!(header[..20], [0; 20]);
    // 20 bytes of header, 8 of UDP, 28 of packet, 4 of checksum.
    assert_eq!(header[20..30], [0x45, 2, 0, 60, 0x71, 0x8c, 0x40, 0, 63, 17]);
    assert_eq!(header[32..], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(internet_checksum(&header[20..]), 0);
}

#[test]
fn an_ipv6_header_is_a_grh() {
    let packet = bytes(&DATAGRAM);
    let seen = Seen { identification: 1, traffic_class: 0xab, hop_limit: 3, label: 0xf1_2345 };
    let (source, destination) = ("fd00::1", "fd00::2");
    let flow = flow(&format!("[{source}]:5"), &format!("[{destination}]:4791"));
    let header = header(&flow, &seen, &Packet::parse(&packet).unwrap());
    assert_eq!(header[..8], [0x6a, 0xb1, 0x23, 0x45, 0, 40, 17, 3]);
    let octets = |address: &str| address.parse::<Ipv6Addr>().unwrap().octets();
    assert_eq!((&header[8..24], &header[24..]), (&octets(source)[..], &octets(destination)[..]));
}

/// The header of a packet that was captured on a wire is the one that it came with.
#[test]
fn a_captured_header_comes_back() {
    let wire = "45010040047840004011b4d5c0a80007c0a80007";
    let captured: Vec<u8> = wire
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect();
    // It has 64 bytes: 20 of header, 8 of UDP, 20 of BTH and DETH, 12 of payload, 4 of checksum.
    let packet = bytes(&Datagram { length: 12, ..DATAGRAM });
    let seen = Seen { identification: 0x0478, traffic_class: 1, hop_limit: 64, label: 0 };
    let flow = flow("192.168.0.7:5", "192.168.0.7:4791");
    assert_eq!(header(&flow, &seen, &Packet::parse(&packet).unwrap())[20..], captured[..]);
}

#[test]
// rule: wire-partition
fn members_of_the_default_partition_are_heard() {
    for (p_key, is_heard) in [(0xffff, true), (0x7fff, true), (0xfffe, false), (0x8001, false), (0, false)] {
        assert_eq!(is_of_partition(p_key), is_heard, "{p_key:#x}");
    }
}

#[test]
fn groups_that_other_hosts_may_be_in() {
    for (address, is_one) in [
        ("::ffff:239.1.2.3", true),
        ("ff02::1", true),
        ("ff15::7", true),
        ("ff01::1", false),
        ("ff00::1", false),
        ("::ffff:10.0.0.1", false),
        ("fd00::1", false),
    ] {
        assert_eq!(is_group_between_hosts(address.parse().unwrap()), is_one, "{address}");
    }
}

/// A second CRC-32, a bit at a time.
fn crc(parts: &[&[u8]]) -> u32 {
    !parts.iter().copied().flatten().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

/// What header is before the payload of any packet, from anywhere.
fn look(is_v4: bool, addresses: [[u8; 16]; 2], port: u16, seen: Seen, bytes: &[u8]) {
    let [from, to] = addresses.map(|octets| match is_v4 {
        true => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
        false => IpAddr::V6(octets.into()),
    });
    let flow = Flow::new(SocketAddr::new(from, port), SocketAddr::new(to, 4791));
    let (Some(flow), Some(packet)) = (flow, Packet::parse(bytes)) else { return };
    let header = header(&flow, &seen, &packet);
    let (udp_bytes, ip) = (bytes.len() + 12, &header[if is_v4 { 20 } else { 0 }..]);
    let number = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    if is_v4 {
        assert_eq!(header[..20], [0; 20]);
        assert_eq!((ip[0], ip[1], number(2)), (0x45, seen.traffic_class, 20 + udp_bytes));
        assert_eq!((number(4), number(6)), (usize::from(seen.identification), 0x4000));
        assert_eq!((ip[8], ip[9], internet_checksum(ip)), (seen.hop_limit, 17, 0));
        assert_eq!((&ip[12..16], &ip[16..]), (&addresses[0][..4], &addresses[1][..4]));
    } else {
        let word = 6 << 28 | u32::from(seen.traffic_class) << 20 | seen.label & 0xf_ffff;
        assert_eq!((&ip[..4], number(4)), (&word.to_be_bytes()[..], udp_bytes));
        assert_eq!((ip[6], ip[7]), (17, seen.hop_limit));
        assert_eq!((&ip[8..24], &ip[24..]), (&addresses[0][..], &addresses[1][..]));
    }
    // With it, the packet's checksum is that which its sender made of all that did not change on the way.
    let mut whole = [&[0xff; 8][..], ip].concat();
    let masked: &[usize] = if is_v4 { &[1, 8, 10, 11] } else { &[1, 2, 3, 7] };
    masked.iter().for_each(|at| whole[8 + at] = 0xff);
    if !is_v4 {
        whole[8] |= 0xf;
    }
    let udp = [port, 4791, udp_bytes as u16, 0xffff].map(u16::to_be_bytes).concat();
    let mut icrc = Icrc::new(&flow, seen.identification, bytes, bytes.len());
    icrc.update(&[]);
    let expected = crc(&[&whole, &udp, &bytes[..4], &[0xff], &bytes[5..]]);
    assert_eq!(icrc.finish(), expected.to_le_bytes());
}

#[test]
fn fuzz_headers() {
    corpus::check!().for_each(|bytes| {
        let Some((head, rest)) = bytes.split_first_chunk::<44>() else { return };
        let sixteen = |at: usize| std::array::from_fn(|n| head[at + n]);
        let two = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let seen = Seen {
            identification: two(33),
            traffic_class: head[35],
            hop_limit: head[36],
            label: u32::from_be_bytes([head[37], head[38], head[39], head[40]]),
        };
        let mut packet = rest[..rest.len() / 4 * 4].to_vec();
        look(head[0] & 1 == 0, [sixteen(1), sixteen(17)], two(41), seen, &packet);
        // The same as what is a datagram.
        if let [opcode, flags, ..] = &mut packet[..] {
            (*opcode, *flags) = (0x64 | *opcode & 1, *flags & 0xf0);
        }
        look(head[0] & 2 == 0, [sixteen(1), sixteen(17)], two(41), seen, &packet);
    });
}
