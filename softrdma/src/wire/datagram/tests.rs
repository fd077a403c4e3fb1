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
