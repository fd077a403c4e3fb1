//! What is sent is what arrives, between two network namespaces.

use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use softrdma::testing::number;
use softrdma::testing::port::Port;
use softrdma::testing::port::error::SendError;
use softrdma::testing::port::flow::Flow;
use softrdma::testing::port::options::Options;
use softrdma::testing::port::receive::{Inbox, Received, Segment};
use softrdma::testing::port::send::{Outbox, PIECES, Packet, Piece, Sent};
use softrdma::testing::port::set::COMMON;
use softrdma::testing::port::socket::Socket;
use softrdma::wire::flow::ROCE_PORT;
use softrdma_testing::child::begin;
use softrdma_testing::filter::forbid_single_messages;
use softrdma_testing::network::{go_apart, index, ip, offload, set_offload, up};
use softrdma_testing::processes::Words;

use crate::crew::{apart, from_here, packet, receive_all, send, wait};

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
        let state =
            || std::process::Command::new("ip").args(["link", "show", "veth"]).output().unwrap().stdout;
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
    let (source_port, destination_port, hop_limit, label) = (ROCE_PORT, ROCE_PORT, 9, 0);
    Flow { source, destination, source_port, destination_port, interface, traffic_class, hop_limit, label }
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
const LENGTHS: [usize; 23] = [
    1024, 1024, 1024, 1024, 1024, 1024, 1024, 20, 1024, 1024, 4, 4, 4, 300, 1024, 1024, 1023, 0, 0, 8, 8, 8,
    8,
];

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
        // IPv6 has a label that the kernel chose.
        let expected = Flow { label: if flow.is_v4() { 0 } else { flow.label }, ..expected };
        assert_eq!((*flow, flow.is_marked()), (expected, class & 3 == 3));
        let (body, end) = bytes.split_at(bytes.len() - 4);
        assert!(body == sent && *end == seal(nth, identifications[nth]), "{from:?} {nth}: {end:?}");
    }
}

/// Sends all lengths by each family and checks them on the other side, with the identifications that they get.
fn round_trips(options: Options, prepare: impl Fn(bool), identifications: &[u16]) {
    let far = |words: &Words| {
        prepare(false);
        let port = Port::open(2, options).unwrap();
        let mut inbox = Inbox::new().unwrap();
        words.put(1, &[0]);
        for (from, class) in ADDRESSES.into_iter().zip([0xb9, 0x02, 0x01]) {
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
        prepare(true);
        let port = Port::open(0, options).unwrap();
        let mut outbox = Outbox::new().unwrap();
        words.get::<1>(0);
        for (from, class) in ADDRESSES.into_iter().zip([0xb9, 0x02, 0x01]) {
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

/// Also of several datagrams: a message leaves in more than one where its first packet is longer.
#[test]
fn packets_of_one_flow_that_came_together_are_told_together() {
    const TRAINS: [usize; 9] = [1024, 1024, 8, 1024, 1024, 8, 1024, 1024, 8];
    let far = |words: &Words| {
        let port = Port::open(2, Options::default()).unwrap();
        let mut inbox = Inbox::new().unwrap();
        let train = [(0, 1040), (1, 1040), (2, 24)];
        // They have left; still some may come later.
        let seen = (0..1000).any(|_| {
            words.put(1, &[1]);
            words.get::<1>(1);
            let mut told = Vec::new();
            while told.iter().map(Vec::len).sum::<usize>() < TRAINS.len() {
                wait(&[port.own().raw()]);
                let tell = |_: &Flow, all: &[Segment<'_>]| {
                    told.push(
                        all.iter().map(|segment| (segment.nth, segment.bytes.len())).collect::<Vec<_>>(),
                    );
                };
                inbox.receive(port.own(), tell).unwrap();
            }
            assert_eq!(told.concat(), [train, train, train].concat());
            // Until nothing is there, each call asks for more than the one before.
            inbox.receive(port.own(), |_, _| panic!("more than was sent")).unwrap();
            told == [train.to_vec(), [train, train].concat()]
        });
        words.put(1, &[0]);
        assert!(seen);
    };
    let near = |words: &Words| {
        let port = Port::open(0, Options::default()).unwrap();
        let mut outbox = Outbox::new().unwrap();
        while words.get(0) == [1] {
            let sent = send_all(&mut outbox, port.own(), &flow(ADDRESSES[0], 0), &packets(2, &TRAINS));
            assert_eq!(sent, Sent { packets: TRAINS.len(), error: None });
            words.put(0, &[0]);
        }
    };
    two(near, far);
}

#[test]
fn trains_arrive_as_packets() {
    round_trips(from_here(), |_| {}, &in_trains(&LENGTHS));
}

#[test]
fn trains_that_the_host_cuts_apart_arrive_as_packets() {
    // The receiving side puts them together again.
    let prepare = |sends| match sends {
        true => offload::SEGMENTATIONS.iter().for_each(|feature| set_offload("veth", feature, false)),
        false => set_offload("veth", offload::COALESCING, true),
    };
    round_trips(from_here(), prepare, &in_trains(&LENGTHS));
}

#[test]
fn packets_that_leave_one_by_one_arrive() {
    let options = Options { trains: false, ..from_here() };
    round_trips(options, |_| {}, &[0; LENGTHS.len()]);
}

#[test]
fn packets_that_come_one_by_one_arrive() {
    let options = Options { coalesce: false, ..from_here() };
    round_trips(options, |_| {}, &in_trains(&LENGTHS));
}

/// Where packets are cut apart by the host, the cable shows each with its identification: the one that its seal
/// was made for.
#[test]
fn identifications_are_those_of_the_seals() {
    const COUNT: usize = LENGTHS.len();
    let far = |words: &Words| {
        let port = Port::open(2, from_here()).unwrap();
        // SAFETY: plain system calls; the address is made of integers, and the descriptor nobody else's.
        let cable = unsafe {
            let all = (libc::ETH_P_IP as u16).to_be();
            let cable = OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, all.into()));
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = index("veth").cast_signed();
            let length = size_of_val(&address) as u32;
            assert_eq!(libc::bind(cable.as_raw_fd(), (&raw const address).cast(), length), 0);
            cable
        };
        for _ in 0..2 {
            words.put(1, &[0]);
            let mut seen = Vec::new();
            while seen.len() < COUNT {
                let mut bytes = [0; 4096];
                let length = nix::unistd::read(&cable, &mut bytes).unwrap();
                let (header, udp) = bytes[..length].split_at(20);
                if header[9] == 17 && udp[..4] == [0x12, 0xb7, 0x12, 0xb7] {
                    // Not fragmented, and not to be.
                    assert_eq!([header[6] & 0xbf, header[7], header[6]], [0, 0, 0x40]);
                    let end = length - 20;
                    seen.push(([header[4], header[5]], [udp[end - 2], udp[end - 1]], udp[end - 4]));
                }
            }
            for (nth, (header, seal, which)) in seen.iter().enumerate() {
                assert_eq!((header, *which), (seal, nth as u8));
            }
            words.put(1, &seen.iter().map(|(_, seal, _)| u64::from(seal[1])).collect::<Vec<_>>());
        }
        drop(port);
    };
    let near = |words: &Words| {
        offload::SEGMENTATIONS.iter().for_each(|feature| set_offload("veth", feature, false));
        let flow = flow(ADDRESSES[0], 0);
        let mut outbox = Outbox::new().unwrap();
        for (trains, expected) in [(true, in_trains(&LENGTHS)), (false, vec![0; COUNT])] {
            let port = Port::open(0, Options { trains, ..from_here() }).unwrap();
            words.get::<1>(0);
            let sent = send_all(&mut outbox, port.own(), &flow, &packets(2, &LENGTHS));
            assert_eq!(sent, Sent { packets: COUNT, error: None });
            assert_eq!(words.get::<COUNT>(0).map(|one| one as u16)[..], expected);
        }
    };
    two(near, far);
}

/// A way out without trains: the seals are made anew, and the socket tries no other train.
#[test]
fn without_trains_packets_leave_one_by_one() {
    for errno in [libc::EIO, libc::EINVAL] {
        apart(|| {
            let port = Port::open(0, from_here()).unwrap();
            assert!(port.own().sends_trains());
            // A train is one message, and without it there are as many as packets.
            forbid_single_messages(errno);
            let flow = flow(["::ffff:127.0.0.1", "::ffff:127.0.0.1"], 0);
            let (mut outbox, mut inbox) = (Outbox::new().unwrap(), Inbox::new().unwrap());
            let sent = packets(0, &[500; 15]);
            let outcome = send_all(&mut outbox, port.own(), &flow, &sent);
            assert_eq!(outcome, Sent { packets: 15, error: None });
            // What is wrong with one train may be its length: others are tried.
            assert_eq!(port.own().sends_trains(), errno == libc::EINVAL);
            let (_, found) = receive(&mut inbox, port.own(), 15);
            for (nth, ((_, bytes), sent)) in found.iter().zip(sent).enumerate() {
                assert_eq!(*bytes, [&sent[..], &seal(nth, 0)].concat());
            }
        });
    }
}

#[test]
fn what_does_not_leave_says_why() {
    let far = |words: &Words| {
        words.get::<1>(1);
    };
    let near = |words: &Words| {
        ip("route add prohibit 10.77.0.0/24");
        ip("route add unreachable 10.78.0.0/24");
        let mut outbox = Outbox::new().unwrap();
        for trains in [true, false] {
            let port = Port::open(0, Options { trains, ..from_here() }).unwrap();
            let mut fails = |flow: &Flow, lengths: &[usize]| {
                let sent = send_all(&mut outbox, port.own(), flow, &packets(2, lengths));
                (sent.packets, sent.error.unwrap())
            };
            // 28 bytes of headers before the 16 of BTH and seal, or 48.
            for (from, fits) in ADDRESSES.into_iter().zip([1500 - 28 - 16, 1500 - 48 - 16, 1500 - 48 - 16]) {
                let flow = flow(from, 0);
                assert_eq!(
                    fails(&flow, &[500, 500, 500, fits, fits + 4]),
                    (4, SendError::TooLong),
                    "{from:?}"
                );
                assert_eq!(fails(&flow, &[fits + 4; 5]), (0, SendError::TooLong));
                assert_eq!(fails(&flow, &[70_000]), (0, SendError::TooLong));
            }
            let own = ADDRESSES[0][0];
            for (to, errno) in
                [("::ffff:8.8.8.8", libc::ENETUNREACH), ("::ffff:10.78.0.1", libc::EHOSTUNREACH)]
            {
                let error = SendError::Unreachable { errno };
                assert_eq!(fails(&flow([own, to], 0), &[4, 4]), (0, error), "{to}");
            }
            let nowhere = SendError::Unreachable { errno: libc::ENETUNREACH };
            assert_eq!(fails(&flow(["fd09::1", "fd55::1"], 0), &[4]), (0, nowhere));
            assert_eq!(fails(&flow([own, "::ffff:10.77.0.1"], 0), &[4, 4]), (0, SendError::Forbidden));
            // Of IPv4 some kernels say that there is no way from there.
            let foreign = fails(&flow(["::ffff:10.9.0.77", ADDRESSES[0][1]], 0), &[4, 4]);
            assert!([(0, SendError::Address), (0, nowhere)].contains(&foreign), "{foreign:?}");
            assert_eq!(fails(&flow(["fd09::77", "fd09::2"], 0), &[4, 4]), (0, SendError::Address));
            let head = packet(7, &[]);
            let flow = flow(ADDRESSES[0], 0);
            let mut given = |packets: &[Packet<'_>]| outbox.send(port.own(), &flow, packets, seal);
            let good = [Piece::of(&head), Piece::of(&[1; 8])];
            let missing = [Piece::of(&head), Piece::at(64, 8)];
            let sent = given(&[Packet(&good), Packet(&missing)]);
            // A train is all or nothing.
            let before = usize::from(!trains);
            assert_eq!(sent, Sent { packets: before, error: Some(SendError::Fault) });
            let most = [Piece::of(&[2; 4]); PIECES];
            assert_eq!(given(&[Packet(&most)]), Sent { packets: 1, error: None });
            let too_many = [Piece::of(&[2; 4]); PIECES + 1];
            let shape = Sent { packets: 1, error: Some(SendError::Shape) };
            assert_eq!(given(&[Packet(&good), Packet(&too_many)]), shape);
            assert_eq!(given(&[]), Sent { packets: 0, error: None });
            // As a program that closes what it does not know.
            // SAFETY: closes a number, of which nobody knows any more.
            unsafe { libc::close(port.door()) };
            drop(port);
        }
        words.put(0, &[0]);
    };
    two(near, far);
}

/// A sender may put packets of several queue pairs into one train: each comes to its own place.
#[test]
fn packets_in_one_train_come_to_their_places() {
    come_to_their_places(true);
}

/// The host puts packets together that have the same length, whichever queue pairs they are for.
#[test]
fn packets_that_the_host_puts_together_come_to_their_places() {
    come_to_their_places(false);
}

fn come_to_their_places(is_train: bool) {
    const SLOTS: [u16; 8] = [1, 2, 1, 5, 5, 2, COMMON, 1];
    let mixed = || {
        let mut mixed = packets(0, &[200; 8]);
        for (slot, packet) in SLOTS.iter().zip(&mut mixed) {
            let number = if *slot == COMMON { 1 } else { number(*slot, 0) };
            packet[5..8].copy_from_slice(&number.to_be_bytes()[1..]);
        }
        mixed
    };
    let far = |words: &Words| {
        if !is_train {
            set_offload("veth", offload::COALESCING, true);
        }
        let first = Port::open(1, from_here()).unwrap();
        let beside = |slot| {
            let opens = std::thread::spawn(move || Port::open(slot, from_here()).unwrap());
            wait(&[first.door()]);
            first.admit();
            opens.join().unwrap()
        };
        let [second, third] = [2, 5].map(beside);
        let ports = [first, second, third];
        let mut inbox = Inbox::new().unwrap();
        words.put(1, &[0]);
        for from in ADDRESSES {
            receive(&mut inbox, ports[2].own(), 1);
            words.put(1, &[0]);
            let expected = Flow { interface: index("veth"), ..flow(from, 2) };
            // Wherever they arrive first.
            let sockets = [ports[0].own(), ports[1].own(), ports[2].own(), ports[1].common()];
            let (mut found, mut passed, mut lost) = (sockets.map(|_| Vec::new()), 0, 0);
            while found.iter().map(Vec::len).sum::<usize>() + lost < SLOTS.len() {
                wait(&sockets.map(Socket::raw));
                for (socket, found) in sockets.iter().zip(&mut found) {
                    // The kernel chooses it.
                    let of = |flow: &Flow| Flow { label: 0, ..*flow };
                    let tell = |flow: &Flow, bytes: &[u8]| found.push((of(flow), bytes.to_vec()));
                    let received = receive_all(&mut inbox, socket, tell);
                    (passed, lost) = (passed + received.passed, lost + received.lost);
                }
            }
            assert_eq!(lost, 0);
            // The first packet's place has had all of a train.
            assert!(passed == 5 || !is_train && passed < 5, "{passed}");
            for (socket, mut found) in sockets.iter().zip(found) {
                found.sort_unstable_by_key(|(_, bytes)| bytes[bytes.len() - 4]);
                let own: Vec<_> = (0..SLOTS.len()).filter(|nth| SLOTS[*nth] == socket.place()).collect();
                let sent = |nth: &usize| [&mixed()[*nth][..], &seal(*nth, *nth as u16)].concat();
                let own: Vec<_> = own.iter().map(|nth| (expected, sent(nth))).collect();
                assert!(found == own, "{}: {found:x?}", socket.place());
            }
            words.put(1, &[0]);
        }
        // Nobody else can pass something on: from another port it is a packet as all others.
        let mut forged = packet(number(1, 0), &[7; 100]);
        forged[0] = 0xff;
        for to in ["127.0.0.1", "::1", "10.9.0.2"] {
            send(to, 0, &forged);
            let (received, found) = receive(&mut inbox, ports[0].own(), 1);
            assert_eq!((received.packets, received.lost), (1, 0));
            let (flow, bytes) = &found[0];
            assert!(*bytes == forged && flow.source_port != ROCE_PORT && flow.source == flow.destination);
        }
    };
    let near = |words: &Words| {
        if !is_train {
            offload::SEGMENTATIONS.iter().for_each(|feature| set_offload("veth", feature, false));
        }
        let port = Port::open(0, from_here()).unwrap();
        let mut outbox = Outbox::new().unwrap();
        words.get::<1>(0);
        let mut send_mixed = |from| {
            let sent = send_all(&mut outbox, port.own(), &flow(from, 2), &mixed());
            assert_eq!(sent, Sent { packets: SLOTS.len(), error: None });
        };
        for from in ADDRESSES {
            let flow = flow(from, 0);
            assert_eq!(
                send_all(&mut Outbox::new().unwrap(), port.own(), &flow, &packets(5, &[0])).packets,
                1
            );
            words.get::<1>(0);
            send_mixed(from);
            words.get::<1>(0);
        }
    };
    two(near, far);
}
