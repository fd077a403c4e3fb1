//! Datagrams, and what is none for a queue pair here.

use softrdma::device::{Datagram, Wr};
use softrdma::rules::verbs::{Opcode as Request, QpState, QpType, Status, WcFlags};
use softrdma::wire::opcode::{Extra, Opcode, Operation, Position, Transport};
use softrdma::wire::packet::{Bth, DEFAULT_P_KEY, Deth, Headers};
use softrdma::wire::psn::Psn;
use softrdma_testing::device::*;
use softrdma_testing::network::ip;

use crate::full::narrow_sockets;
use crate::hosts::*;
use crate::peer::{RawPeer, SEND};

const GROUP: &str = "239.8.8.8";
const GROUP_QP: u32 = 0xff_ffff;

fn group() -> [u8; 16] {
    GROUP.parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped().octets()
}

fn opcode(extra: Extra) -> Opcode {
    Opcode::new(Transport::Ud, Operation::Send, Position::Only, extra).unwrap()
}

/// The headers of a datagram from queue pair 0x4321.
fn headers(qkey: u32) -> Headers {
    Headers { deth: Some(Deth { qkey, source_qp: 0x4321 }), ..Headers::NONE }
}

fn bth(qp_num: u32) -> Bth {
    Bth::new(opcode(Extra::Nothing), qp_num, Psn::new(5))
}

/// An end that receives datagrams.
fn receiver(node: &Node) -> End {
    let end = node.end(QpType::Ud);
    bring_up(&end.qp, &attributes_at(node.gid, 0), QpState::Rts);
    end
}

#[test]
fn what_is_not_for_a_queue_pair_is_dropped() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let (end, connected) = (receiver(&node), node.end(QpType::Rc));
        bring_up(&connected.qp, &hosts[0].attributes(0x4321), QpState::Rts);
        (0..8).for_each(|n| end.receive(n, 0, 100));
        connected.receive(9, 0, 100);
        let number = end.qp.qp_num();
        let other_partition = Bth { p_key: 0x8001, ..bth(number) };
        let limited = Bth { p_key: DEFAULT_P_KEY & 0x7fff, ..bth(number) };
        peer.send(other_partition, headers(QKEY), &[1; 8]);
        peer.send(bth(number), headers(QKEY ^ 1), &[2; 8]);
        peer.send(bth(connected.qp.qp_num()), headers(QKEY), &[3; 8]);
        peer.send(bth(GROUP_QP), headers(QKEY), &[4; 8]);
        let rc = Opcode::new(Transport::Rc, Operation::Send, Position::Only, Extra::Nothing).unwrap();
        peer.send(Bth::new(rc, number, Psn::new(1)), Headers::NONE, &[5; 8]);
        // Too long for the receive request, which stays.
        peer.send(bth(number), headers(QKEY), &[6; 61]);
        peer.send(limited, headers(QKEY), &[7; 60]);
        let completion = end.done(0);
        assert_eq!((completion.byte_len, completion.src_qp), (100, 0x4321));
        assert_eq!(end.memory.bytes(40, 60), [7; 60]);
        assert_eq!(node.device.violations(), (1, 1));
        let imm = Headers { imm: Some(0x0102_0304), ..headers(QKEY) };
        peer.send(Bth { opcode: opcode(Extra::Immediate), ..bth(number) }, imm, &[]);
        let completion = end.done(1);
        assert_eq!((completion.byte_len, completion.imm_or_key), (40, 0x0102_0304));
        assert!(completion.flags.has(WcFlags::GRH.union(WcFlags::WITH_IMM)));
        assert_eq!(connected.try_poll(), None);
    });
}

#[test]
fn addresses_that_are_not_on_the_network_reach_nobody() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = receiver(&node);
        (0..2).for_each(|n| end.receive(n, 0, 100));
        node.device.set_network_addresses([].into_iter());
        peer.send(bth(end.qp.qp_num()), headers(QKEY), &[1; 8]);
        // What an RC queue pair gets comes behind it.
        let connected = node.end(QpType::Rc);
        bring_up(&connected.qp, &hosts[0].attributes(0x4321), QpState::Rts);
        connected.receive(9, 0, 100);
        peer.request((connected.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
        connected.done(9);
        node.device.set_network_addresses([(gid(0), 1)].into_iter());
        peer.send(bth(end.qp.qp_num()), headers(QKEY), &[2; 9]);
        assert_eq!(end.done(0).byte_len, 49);
    });
}

#[test]
fn a_group_has_its_own_packets_alone() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let ends = [receiver(&node), receiver(&node), receiver(&node)];
        for end in &ends {
            (0..4).for_each(|n| end.receive(n, 0, 100));
        }
        hosts[0].enter();
        node.device.attach_multicast(&ends[0].qp, &group()).unwrap();
        node.device.attach_multicast(&ends[1].qp, &group()).unwrap();
        // Neither to a queue pair of its own, nor to another group, nor of a connection.
        peer.send_to_group(GROUP, bth(ends[2].qp.qp_num()), headers(QKEY), &[1; 8]);
        peer.send_to_group("239.8.8.9", bth(GROUP_QP), headers(QKEY), &[2; 8]);
        let rc = Opcode::new(Transport::Rc, Operation::Send, Position::Only, Extra::Nothing).unwrap();
        peer.send_to_group(GROUP, Bth::new(rc, GROUP_QP, Psn::new(1)), Headers::NONE, &[3; 8]);
        peer.send_to_group(GROUP, bth(GROUP_QP), headers(QKEY ^ 1), &[4; 8]);
        peer.send_to_group(GROUP, bth(GROUP_QP), headers(QKEY), &[5; 9]);
        for end in &ends[..2] {
            assert_eq!(end.done(0).byte_len, 49);
        }
        // One that has left it gets no more.
        node.device.detach_multicast(&ends[0].qp, &group()).unwrap();
        peer.send_to_group(GROUP, bth(GROUP_QP), headers(QKEY), &[6; 10]);
        assert_eq!(ends[1].done(1).byte_len, 50);
        assert!(ends[0].try_poll().is_none() && ends[2].try_poll().is_none());
        node.device.detach_multicast(&ends[1].qp, &group()).unwrap();
        node.device.attach_multicast(&ends[2].qp, &group()).unwrap();
        peer.send_to_group(GROUP, bth(GROUP_QP), headers(QKEY), &[7; 11]);
        assert_eq!(ends[2].done(0).byte_len, 51);
        assert!(ends[..2].iter().all(|end| end.try_poll().is_none()));
        node.device.detach_multicast(&ends[2].qp, &group()).unwrap();
    });
}

/// Groups that the host has no room for are refused, and those before stay.
#[test]
fn the_limit_of_the_host_is_told() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = receiver(&node);
        end.receive(1, 0, 100);
        hosts[0].enter();
        std::fs::write("/proc/sys/net/ipv4/igmp_max_memberships", "2").unwrap();
        let numbered = |last: u8| {
            let mut group = group();
            group[15] = last;
            group
        };
        for last in [8, 9] {
            node.device.attach_multicast(&end.qp, &numbered(last)).unwrap();
        }
        assert!(node.device.attach_multicast(&end.qp, &numbered(10)).is_err());
        assert!(node.device.detach_multicast(&end.qp, &numbered(10)).is_err());
        peer.send_to_group(GROUP, bth(GROUP_QP), headers(QKEY), &[1; 8]);
        assert_eq!(end.done(1).byte_len, 48);
        for last in [8, 9] {
            node.device.detach_multicast(&end.qp, &numbered(last)).unwrap();
        }
    });
}

/// Where the socket has no room, the send queue waits: nothing is lost on this host.
#[test]
fn datagrams_that_find_no_room_leave_later() {
    const COUNT: u32 = 16;
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = node.end(QpType::Ud);
        bring_up(&end.qp, &attributes_at(node.gid, 0), QpState::Rts);
        assert!(narrow_sockets() > 1);
        let route = node.device.route(&hosts[0].path(gid(1))).expect("no way to the other host");
        let to = Datagram { qp_num: 0x4001, qkey: QKEY, grh: &[0; 40], dgid: gid(1), route: Some(&route) };
        let send = |n: u32| {
            let sges = [end.sge(n as usize, 1000)];
            let request = Wr { datagram: Some(to), ..wr(n.into(), Request::Send, &sges) };
            end.qp.post_send(&request).unwrap();
        };
        send(0);
        let psn = peer.next().0.bth.psn;
        end.done(0);
        let tells_nothing = |nothing: &str| {
            hosts[1].enter();
            std::fs::write("/proc/sys/net/ipv4/conf/wire/arp_ignore", nothing).unwrap();
        };
        tells_nothing("8");
        hosts[0].enter();
        ip("neigh flush dev wire");
        (1..=COUNT).for_each(send);
        std::thread::sleep(std::time::Duration::from_millis(200));
        tells_nothing("0");
        for n in 1..=COUNT {
            let (head, payload) = peer.next();
            assert_eq!((head.bth.psn, payload.len()), (psn.plus(n), 1000));
            assert_eq!(head.headers.deth, Some(Deth { qkey: QKEY, source_qp: end.qp.qp_num() }));
            end.done(n.into());
        }
    });
}

#[test]
fn which_way_datagrams_go_their_address_says() {
    with_hosts(|hosts| {
        let node = hosts[0].node();
        let route = |to| node.device.route(&hosts[0].path(to));
        assert!(route(gid(1)).is_some() && route(gid_6(1)).is_some() && route(group()).is_some());
        assert!(route(gid(0)).is_none() && route(gid_6(0)).is_none());
        // A group of the interface, and no address on the network to send from.
        let of_scope = |scope: &str| scope.parse::<std::net::Ipv6Addr>().unwrap().octets();
        assert!(route(of_scope("ff01::8")).is_none() && route(of_scope("ff02::8")).is_some());
        let path = hosts[0].path(gid(1));
        assert!(node.device.route(&softrdma::device::Path { source: None, ..path }).is_none());
        // Another process of the folder has the address.
        let other = hosts[0].node();
        other.device.set_gids(&[gid(0), gid(1)]);
        assert!(route(gid(1)).is_none());
    });
}

#[test]
fn one_that_is_too_long_stops_the_send_queue() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = receiver(&node);
        let route = node.device.route(&hosts[0].path(gid(1))).unwrap();
        let to = Datagram { qp_num: 0x4001, qkey: 1 << 31, grh: &[0; 40], dgid: gid(1), route: Some(&route) };
        for (n, length) in [(1, 1024), (2, 1025), (3, 8)] {
            let sges = [end.sge(0, length)];
            end.qp.post_send(&Wr { datagram: Some(to), ..wr(n, Request::Send, &sges) }).unwrap();
        }
        let statuses = [(1, Status::Success), (2, Status::LocLenErr), (3, Status::WrFlushErr)];
        for expected in statuses {
            let completion = end.poll();
            assert_eq!((completion.wr_id, completion.status), expected);
        }
        let (head, payload) = peer.next();
        // The own key went, since the top bit of the request's is set.
        assert_eq!((head.headers.deth.unwrap().qkey, payload.len()), (QKEY, 1024));
        assert!(!peer.has_packet());
    });
}
