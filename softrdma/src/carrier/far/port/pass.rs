//! Packets that arrived at another process's socket, and how they come to theirs.
//!
//! The kernel puts packets together that have the same addresses, ports and length (GRO), whichever queue pairs
//! they are for, and chooses a socket by the first. Who finds a packet of another place among its own sends it
//! there, by the port itself: in a datagram to this host whose bytes name the same queue pair, with the flow of
//! the packet and the packet in it.
//!
//! Such a datagram is known by where it comes from: 127.0.0.1, this port, by the loopback interface. There only
//! the sockets of the set have the port, and the kernel lets nobody bind it beside them but the same user.
//! A packet is passed on once.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::flow::{Flow, LOOPBACK};
use super::number::udp_port;
use super::send::send_plain;
use super::socket::Socket;

/// In the place of an opcode: of those that are left to manufacturers.
const MARK: u8 = 0xff;
/// Bytes before the packet.
const HEADER: usize = 52;
/// The loopback address, which this host always has.
const HERE: Ipv6Addr = Ipv4Addr::LOCALHOST.to_ipv6_mapped();

/// What a datagram turned out to be.
pub(super) enum Passed<'a> {
    /// A packet as it came.
    No,
    /// One that was passed on, with its flow.
    From(Flow, &'a [u8]),
}

/// Passes a packet on to where its number leads: whether it has left.
#[cold]
pub(super) fn on(socket: &Socket, flow: &Flow, packet: &[u8]) -> bool {
    // What was passed on arrived where its number leads, or never will.
    !is_ours(flow, packet) && send_plain(socket, HERE, [&header(flow, packet), packet])
}

/// The flow and packet in a datagram that was passed on.
pub(super) fn opened<'a>(flow: &Flow, datagram: &'a [u8]) -> Passed<'a> {
    if !is_ours(flow, datagram) {
        return Passed::No;
    }
    match datagram.split_first_chunk::<HEADER>() {
        Some((header, packet)) => Passed::From(flow_of(header), packet),
        None => Passed::No,
    }
}

fn is_ours(flow: &Flow, datagram: &[u8]) -> bool {
    flow.source == HERE
        && flow.source_port == udp_port()
        && flow.interface == LOOPBACK
        && datagram.first() == Some(&MARK)
}

fn header(flow: &Flow, packet: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = MARK;
    header[1] = flow.traffic_class;
    header[2] = flow.hop_limit;
    // Those of a packet without a number name the place of those without one.
    if let Some(number) = packet.get(5..8) {
        header[5..8].copy_from_slice(number);
    }
    header[8..24].copy_from_slice(&flow.source.octets());
    header[24..40].copy_from_slice(&flow.destination.octets());
    header[40..42].copy_from_slice(&flow.source_port.to_ne_bytes());
    header[42..44].copy_from_slice(&flow.destination_port.to_ne_bytes());
    header[44..48].copy_from_slice(&flow.interface.to_ne_bytes());
    header[48..52].copy_from_slice(&flow.label.to_ne_bytes());
    header
}

fn flow_of(header: &[u8; HEADER]) -> Flow {
    let address = |from: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[from..from + 16]);
        Ipv6Addr::from(bytes)
    };
    let port = |from: usize| u16::from_ne_bytes([header[from], header[from + 1]]);
    let word = |from: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| header[from + byte]));
    Flow {
        source: address(8),
        destination: address(24),
        source_port: port(40),
        destination_port: port(42),
        interface: word(44),
        traffic_class: header[1],
        hop_limit: header[2],
        label: word(48),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::far::port::set::place_of;

    fn flow(source: Ipv6Addr, source_port: u16, interface: u32) -> Flow {
        let destination = "fd00::2".parse().unwrap();
        let (traffic_class, hop_limit, label) = (3, 64, 0x1_2345);
        Flow {
            source,
            destination,
            source_port,
            destination_port: udp_port(),
            interface,
            traffic_class,
            hop_limit,
            label,
        }
    }

    #[test]
    fn a_flow_goes_with_its_packet() {
        let original = flow("fd00::1".parse().unwrap(), 50_000, 7);
        for packet in [&[4, 0, 0, 0, 0, 0, 0x40, 7, 9, 9][..], &[1, 2, 3], &[]] {
            let mut datagram = header(&original, packet).to_vec();
            datagram.extend(packet);
            assert_eq!(place_of(&datagram), place_of(packet));
            let Passed::From(found, inner) = opened(&flow(HERE, udp_port(), LOOPBACK), &datagram) else {
                panic!("not known");
            };
            assert_eq!((found, inner), (original, packet));
            // From anywhere else it is a packet like others, and so is one that is too short.
            let elsewhere = Ipv4Addr::new(127, 0, 0, 2).to_ipv6_mapped();
            for other in [flow(elsewhere, udp_port(), 1), flow(HERE, 50_000, 1), flow(HERE, udp_port(), 2)] {
                assert!(matches!(opened(&other, &datagram), Passed::No));
            }
            let short = &datagram[..HEADER - 1];
            assert!(matches!(opened(&flow(HERE, udp_port(), LOOPBACK), short), Passed::No));
        }
    }
}
