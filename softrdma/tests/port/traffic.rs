//! What is sent is what arrives, between two network namespaces.

use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use softrdma::testing::number;
use softrdma::testing::port::Port;
use softrdma::testing::port::error::SendError;
use softrdma::testing::port::flow::Flow;
use softrdma::testing::port::receive::{Inbox, Received};
use softrdma::testing::port::send::{Outbox, PIECES, Packet, Piece, Sent};
use softrdma::testing::port::set::{COMMON, PORT};
use softrdma::testing::port::socket::{Options, Socket};
use softrdma_testing::child::begin;
use softrdma_testing::filter::forbid_single_messages;
use softrdma_testing::network::{Offload, go_apart, index, ip, offload, up};
use softrdma_testing::processes::Words;

use crate::crew::{apart, packet, receive_all, send, wait};

/// Addresses of both sides, each pair of one family.
const ADDRESSES: [[&str; 2]; 3] =
    [["::ffff:10.9.0.1", "::ffff:10.9.0.2"], ["fd09::1", "fd09::2"], ["fe80::1", "fe80::2"]];

/// Runs two processes in namespaces of their own with a cable between, `veth` on both sides. Each says a word
/// on its side of `words` where the other waits for it.
fn two(near: impl FnOnce(&Words), far: impl FnOnce(&Words)) {
    apart(|| {
        let words = Words::new();
        let child = begin(|| {
            go_apart();
            ip("link set lo up");
            words.put(1, &[u64::from(std::process::id())]);
            words.get::<1>(1);
            up("veth", &["10.9.0.2/24", "fd09::2/64", "fe80::2/64"]);
            words.put(1, &[0]);
            far(&words);
            0
        });
        let [process] = words.get(0);
        ip(&format!("link add veth type veth peer name veth netns {process}"));
        up("veth", &["10.9.0.1/24", "fd09::1/64", "fe80::1/64"]);
        words.put(0, &[0]);
        words.get::<1>(0);
        // The kernel tells that the cable is in a moment later.
        let state = || std::process::Command::new("ip").args(["link", "show", "veth"]).output().unwrap().stdout;
        while !String::from_utf8(state()).unwrap().contains("state UP") {
            std::thread::yield_now();
        }
        near(&words);
        let mut status = 0;
        // SAFETY: the process is our child, and `status` writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
    });
}

fn flow([source, destination]: [&str; 2], traffic_class: u8) -> Flow {
    let [source, destination]: [Ipv6Addr; 2] = [source, destination].map(|text| text.parse().unwrap());
    let interface = if source.is_unicast_link_local() { index("veth") } else { 0 };
    Flow { source, destination, source_port: PORT, destination_port: PORT, interface, traffic_class }
}

/// What each packet ends with: which one it is, and the identification that it should have.
fn seal(nth: usize, identification: u16) -> [u8; 4] {
    let [a, b] = identification.to_be_bytes();
    [nth as u8, 0xa5, a, b]
}

/// Packets by their lengths, to the first queue pair of a slot.
fn packets(slot: u16, lengths: &[usize]) -> Vec<Vec<u8>> {
    let content = |nth: usize, length| (0..length).map(|at| (at * 7 + nth * 13) as u8).collect::<Vec<_>>();
    lengths.iter().enumerate().map(|(nth, length)| packet(number(slot, 0), &content(nth, *length))).collect()
}

/// Sends packets, each in three pieces.
fn send_all(outbox: &mut Outbox, socket: &Socket, flow: &Flow, packets: &[Vec<u8>]) -> Sent {
    let pieces: Vec<_> = packets
        .iter()
        .map(|packet| {
            let (head, payload) = packet.split_at(12);
            let (first, second) = payload.split_at(payload.len() / 3);
            let second = Piece::at(second.as_ptr().expose_provenance(), second.len());
            [Piece::of(head), Piece::of(first), second]
        })
        .collect();
    let packets: Vec<_> = pieces.iter().map(|pieces| Packet(pieces)).collect();
    outbox.send(socket, flow, &packets, seal)
}

/// Waits for packets and what passes: until so many have been seen.
fn receive(inbox: &mut Inbox, socket: &Socket, count: usize) -> (Received, Vec<(Flow, Vec<u8>)>) {
    let (mut sum, mut found) = (Received::default(), Vec::new());
    while sum.packets + sum.passed + sum.lost < count {
        wait(&[socket.raw()]);
        let one = receive_all(inbox, socket, |flow, bytes| found.push((*flow, bytes.to_vec())));
        sum.packets += one.packets;
        sum.passed += one.passed;
        sum.lost += one.lost;
    }
    (sum, found)
}

/// Lengths behind the header: trains that end with a shorter packet, with a longer one behind, and none at all.
const LENGTHS: [usize; 23] =
    [1024, 1024, 1024, 1024, 1024, 1024, 1024, 20, 1024, 1024, 4, 4, 4, 300, 1024, 1024, 1023, 0, 0, 8, 8, 8, 8];

/// The identifications of these in trains.
fn in_trains(lengths: &[usize]) -> Vec<u16> {
    let mut all: Vec<u16> = Vec::new();
    let (mut longest, mut is_last) = (0, true);
    for length in lengths {
        let joins = !is_last && *length <= longest;
        all.push(if joins { all[all.len() - 1] + 1 } else { 0 });
        longest = if joins { longest } else { *length };
        is_last = *length < longest;
    }
    all
}

fn check(found: &[(Flow, Vec<u8>)], from: [&str; 2], class: u8, slot: u16, identifications: &[u16]) {
    let sent = packets(slot, &LENGTHS);
    assert_eq!(found.len(), sent.len());
    let expected = Flow { interface: index("veth"), ..flow(from, class) };
    for (nth, ((flow, bytes), sent)) in found.iter().zip(&sent).enumerate() {
        assert_eq!((*flow, flow.ecn()), (expected, class & 3));
        let (body, end) = bytes.split_at(bytes.len() - 4);
        assert!(body == sent && *end == seal(nth, identifications[nth]), "{from:?} {nth}: {end:?}");
    }
}

/// Sends all lengths by each family and checks them on the other side, with the identifications that they get.
fn round_trips(options: Options, prepare: impl Fn(), identifications: &[u16]) {
    let far = |words: &Words| {
        let port = Port::open(2, options).unwrap();
        let mut inbox = Inbox::new().unwrap();
        words.put(1, &[0]);
        for (from, class) in ADDRESSES.into_iter().zip([0, 0x02, 0xb9]) {
            // By what the neighbour is asked for its machine address.
            receive(&mut inbox, port.own(), 1);
            words.put(1, &[0]);
            let (received, found) = receive(&mut inbox, port.own(), LENGTHS.len());
            assert_eq!((received.passed, received.lost), (0, 0));
            check(&found, from, class, 2, identifications);
            words.put(1, &[0]);
        }
    };
    let near = |words: &Words| {
        prepare();
        let port = Port::open(0, options).unwrap();
        let mut outbox = Outbox::new().unwrap();
        words.get::<1>(0);
        for (from, class) in ADDRESSES.into_iter().zip([0, 0x02, 0xb9]) {
            let flow = flow(from, class);
            let first = send_all(&mut outbox, port.own(), &flow, &packets(2, &[0]));
            assert_eq!(first, Sent { packets: 1, error: None });
            words.get::<1>(0);
            let sent = send_all(&mut outbox, port.own(), &flow, &packets(2, &LENGTHS));
            assert_eq!(sent, Sent { packets: LENGTHS.len(), error: None });
            words.get::<1>(0);
        }
    };
    two(near, far);
}

#[test]
fn trains_arrive_as_packets() {
    round_trips(Options::default(), || {}, &in_trains(&LENGTHS));
}

#[test]
fn trains_that_the_host_cuts_apart_arrive_as_packets() {
    let prepare = || {
        offload("veth", Offload::Segmentation, false);
        // The receiving side puts them together again, where it can.
        offload("veth", Offload::Coalescing, true);
    };
    round_trips(Options::default(), prepare, &in_trains(&LENGTHS));
}

#[test]
fn packets_that_leave_one_by_one_arrive() {
    let options = Options { trains: false, ..Options::default() };
    round_trips(options, || {}, &[0; LENGTHS.len()]);
}

#[test]
fn packets_that_come_one_by_one_arrive() {
    let options = Options { coalesce: false, ..Options::default() };
    round_trips(options, || {}, &in_trains(&LENGTHS));
}
