//! Packets of RoCE v2 for other programs to judge (`tests/wire/run`).
//!
//!     packets write FILE    writes packets of each opcode to a capture (pcap)
//!     packets read FILE     reads packets that others sent: one a line, from the IP header on, in hexadecimal
//!
//! Either prints what each packet has, as an object of JSON in a line.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::{env, fs};

use softrdma::wire::flow::{Addresses, Flow, ROCE_PORT};
use softrdma::wire::icrc::{self, ICRC_BYTES, Icrc};
use softrdma::wire::opcode::{HeaderSet, Opcode, Position};
use softrdma::wire::packet::{Aeth, AtomicEth, Bth, Deth, Head, Headers, MAX_HEAD, Packet, Reth, pad_of};
use softrdma::wire::psn::Psn;

/// Payload of packets that are not the last of their message.
const MTU: usize = 1024;

/// Numbers in a row that look like none in particular.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", file] => write(file),
        ["read", file] => read(file),
        _ => panic!("packets write FILE | packets read FILE"),
    }
}

/// Lengths of payload that a packet with this opcode may have: one for each length of pad, and the longest.
fn lengths(opcode: Opcode) -> &'static [usize] {
    match (opcode.has_payload(), opcode.position()) {
        (false, _) => &[0],
        (true, Position::First | Position::Middle) => &[MTU],
        (true, Position::Last) => &[1, 2, 3, 4, MTU],
        (true, Position::Only) => &[0, 1, 2, 3, 4, 61, MTU],
    }
}

fn write(file: &str) {
    let flows =
        [("10.77.0.1:49152", "10.77.0.2"), ("[fd77::1]:65535", "[fd77::2]")].map(|(source, destination)| {
            let destination = format!("{destination}:{ROCE_PORT}").parse().unwrap();
            Flow::new(source.parse().unwrap(), destination).unwrap()
        });
    let mut numbers = Numbers(1);
    let mut capture = capture_header();
    for opcode in (0..=u8::MAX).filter_map(Opcode::from_byte) {
        for flow in flows {
            for length in lengths(opcode) {
                let payload: Vec<u8> = (0..*length).map(|_| numbers.next() as u8).collect();
                let head = Head {
                    bth: any_bth(opcode, *length, &mut numbers),
                    headers: any_headers(opcode, &mut numbers),
                };
                let identification = match flow.addresses {
                    Addresses::V4 { .. } => numbers.next() as u16,
                    Addresses::V6 { .. } => 0,
                };
                let datagram = datagram(&flow, identification, &head, &payload);
                add(&mut capture, &ip_packet(&flow, identification, &datagram));
                println!("{}", described(&head, &payload, identification));
            }
        }
    }
    fs::write(file, capture).unwrap();
}

fn any_bth(opcode: Opcode, payload: usize, numbers: &mut Numbers) -> Bth {
    let bits = numbers.next();
    Bth {
        solicited: bits & 1 != 0,
        ack_req: bits & 2 != 0,
        fecn: bits & 4 != 0,
        becn: bits & 8 != 0,
        p_key: numbers.next() as u16 | 0x8000,
        pad: pad_of(payload),
        // Queue pairs 0 and 1 have management datagrams.
        ..Bth::new(opcode, numbers.next_u32() >> 8 | 2, Psn::new(numbers.next_u32()))
    }
}

fn any_headers(opcode: Opcode, numbers: &mut Numbers) -> Headers {
    let has = |header| opcode.headers().has(header);
    let mut headers = Headers::NONE;
    if has(HeaderSet::DETH) {
        headers.deth = Some(Deth { qkey: numbers.next_u32(), source_qp: numbers.next_u32() >> 8 });
    }
    if has(HeaderSet::RETH) {
        headers.reth =
            Some(Reth { va: numbers.next(), rkey: numbers.next_u32(), length: numbers.next_u32() });
    }
    if has(HeaderSet::ATOMIC_ETH) {
        let [va, swap_or_add, compare] = [numbers.next(), numbers.next(), numbers.next()];
        headers.atomic = Some(AtomicEth { va, rkey: numbers.next_u32(), swap_or_add, compare });
    }
    if has(HeaderSet::AETH) {
        headers.aeth = Some(Aeth { syndrome: numbers.next() as u8, msn: numbers.next_u32() >> 8 });
    }
    if has(HeaderSet::ATOMIC_ACK_ETH) {
        headers.atomic_ack = Some(numbers.next());
    }
    if has(HeaderSet::IMM_DT) {
        headers.imm = Some(numbers.next_u32());
    }
    if has(HeaderSet::IETH) {
        headers.ieth = Some(numbers.next_u32());
    }
    headers.reserved = has(HeaderSet::RESERVED);
    headers
}

/// A UDP payload, gathered from its pieces.
fn datagram(flow: &Flow, identification: u16, head: &Head, payload: &[u8]) -> Vec<u8> {
    let mut room = [0; MAX_HEAD];
    let written = head.write(&mut room);
    let pad = &[0; 3][..usize::from(head.bth.pad)];
    let mut icrc = Icrc::new(flow, identification, &room[..written], written + payload.len() + pad.len());
    icrc.update(payload);
    icrc.update(pad);
    [&room[..written], payload, pad, &icrc.finish()].concat()
}

fn read(file: &str) {
    for line in fs::read_to_string(file).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let digits = |at: usize| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..line.len() / 2).map(digits).collect();
        let (flow, datagram) = parse_ip(&bytes);
        match (
            Packet::parse(&datagram[..datagram.len() - ICRC_BYTES]),
            icrc::identification(&flow, 0, datagram),
        ) {
            (Some(packet), Some(identification)) => {
                assert!(icrc::is_right(&flow, identification, datagram));
                println!("{}", described(&packet.head(), packet.payload, identification));
            }
            (None, _) => println!(r#"{{"refused": "no packet"}}"#),
            (_, None) => println!(r#"{{"refused": "wrong ICRC"}}"#),
        }
    }
}

/// The flow of an IP packet without options or extension headers, and the UDP payload.
fn parse_ip(bytes: &[u8]) -> (Flow, &[u8]) {
    let (source, destination, udp): (IpAddr, IpAddr, _) = match bytes[0] >> 4 {
        4 => {
            let address = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap().into();
            (address(12), address(16), &bytes[20..])
        }
        _ => {
            let address = |at: usize| <[u8; 16]>::try_from(&bytes[at..at + 16]).unwrap().into();
            (address(8), address(24), &bytes[40..])
        }
    };
    let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    let flow = Flow::new(SocketAddr::new(source, port(0)), SocketAddr::new(destination, port(2))).unwrap();
    (flow, &udp[8..])
}

fn ip_packet(flow: &Flow, identification: u16, datagram: &[u8]) -> Vec<u8> {
    let udp_bytes = (8 + datagram.len()) as u16;
    let mut udp = [flow.source_port, flow.destination_port, udp_bytes, 0].map(u16::to_be_bytes).concat();
    udp.extend(datagram);
    match flow.addresses {
        Addresses::V4 { source, destination } => {
            let mut ip = vec![0x45, 2];
            ip.extend((20 + udp_bytes).to_be_bytes());
            ip.extend(identification.to_be_bytes());
            ip.extend([0x40, 0, 63, 17, 0, 0]);
            ip.extend(source.octets());
            ip.extend(destination.octets());
            let sum = checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum);
            [ip, udp].concat()
        }
        Addresses::V6 { source, destination } => {
            let mut ip = vec![0x60, 0x2a, 0xbc, 0xde];
            ip.extend(udp_bytes.to_be_bytes());
            ip.extend([17, 63]);
            ip.extend(source.octets());
            ip.extend(destination.octets());
            let pseudo = [0, 17, udp_bytes.to_be_bytes()[0], udp_bytes.to_be_bytes()[1]];
            let sum = checksum(&[&ip[8..], &pseudo, &udp]);
            udp[6..8].copy_from_slice(&sum);
            [ip, udp].concat()
        }
    }
}

/// Checksum of IP and UDP over pieces of even length.
fn checksum(pieces: &[&[u8]]) -> [u8; 2] {
    let words = pieces.iter().flat_map(|piece| piece.chunks_exact(2));
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (!(folded as u16)).to_be_bytes()
}

/// The head of a capture of IP packets (LINKTYPE_RAW).
fn capture_header() -> Vec<u8> {
    [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, 101].map(u32::to_be_bytes).concat()
}

fn add(capture: &mut Vec<u8>, packet: &[u8]) {
    let bytes = packet.len() as u32;
    capture.extend([0, 0, bytes, bytes].map(u32::to_be_bytes).concat());
    capture.extend(packet);
}

fn described(head: &Head, payload: &[u8], identification: u16) -> String {
    let Head { bth, headers } = head;
    let mut json = format!(
        r#"{{"opcode": {}, "solicited": {}, "pad": {}, "p_key": {}, "fecn": {}, "becn": {}, "dest_qp": {}, "#,
        bth.opcode.byte(),
        bth.solicited,
        bth.pad,
        bth.p_key,
        bth.fecn,
        bth.becn,
        bth.dest_qp
    );
    let mut put = |name: &str, number: u64| write!(json, r#""{name}": {number}, "#).unwrap();
    put("ack_req", bth.ack_req.into());
    put("psn", bth.psn.number().into());
    put("identification", identification.into());
    if let Some(Deth { qkey, source_qp }) = headers.deth {
        put("qkey", qkey.into());
        put("source_qp", source_qp.into());
    }
    if let Some(Reth { va, rkey, length }) = headers.reth {
        put("va", va);
        put("rkey", rkey.into());
        put("length", length.into());
    }
    if let Some(AtomicEth { va, rkey, swap_or_add, compare }) = headers.atomic {
        put("va", va);
        put("rkey", rkey.into());
        put("swap_or_add", swap_or_add);
        put("compare", compare);
    }
    if let Some(Aeth { syndrome, msn }) = headers.aeth {
        put("syndrome", syndrome.into());
        put("msn", msn.into());
    }
    if let Some(original) = headers.atomic_ack {
        put("original", original);
    }
    if let Some(imm) = headers.imm {
        put("imm", u32::from_be_bytes(imm.to_ne_bytes()).into());
    }
    if let Some(rkey) = headers.ieth {
        put("invalidated", rkey.into());
    }
    json.push_str(r#""payload": ""#);
    payload.iter().for_each(|byte| write!(json, "{byte:02x}").unwrap());
    json.push_str("\"}");
    json
}
