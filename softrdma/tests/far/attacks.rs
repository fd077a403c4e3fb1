//! What others do to a connection that is not theirs.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use softrdma::device::Attributes;
use softrdma::rules::verbs::{Access, QpState, QpType};
use softrdma::wire::flow::Flow;
use softrdma::wire::flow::ROCE_PORT;
use softrdma::wire::opcode::{Extra, Opcode, Operation, Position, Transport};
use softrdma::wire::packet::{Aeth, Bth, Headers, Reth};
use softrdma::wire::psn::Psn;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer, sealed};

/// Sends a datagram from any address, as any user of the host may.
fn send_as(from: Ipv6Addr, to: Ipv6Addr, bytes: &[u8]) {
    // linux/in6.h
    const IPV6_FREEBIND: libc::c_int = 78;
    // SAFETY: plain system calls on a socket of its own, with addresses that live across them.
    unsafe {
        let socket = libc::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0);
        let on: libc::c_int = 1;
        let length = size_of_val(&on) as libc::socklen_t;
        let set = libc::setsockopt(socket, libc::IPPROTO_IPV6, IPV6_FREEBIND, (&raw const on).cast(), length);
        assert_eq!(set, 0);
        let name = |address: Ipv6Addr, port: u16| libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as _,
            sin6_port: port.to_be(),
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: address.octets() },
            sin6_scope_id: 0,
        };
        let (from, to) = (name(from, 5000), name(to, ROCE_PORT));
        let length = size_of_val(&from) as libc::socklen_t;
        let bound = libc::bind(socket, (&raw const from).cast(), length);
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
        let sent =
            libc::sendto(socket, bytes.as_ptr().cast(), bytes.len(), 0, (&raw const to).cast(), length);
        assert_eq!(sent, bytes.len() as isize, "{}", std::io::Error::last_os_error());
        libc::close(socket);
    }
}

#[test]
fn another_user_of_the_host_is_no_peer() {
    with_hosts(|hosts| {
        let node = hosts[0].node();
        let end = node.end(QpType::Uc);
        bring_up(&end.qp, &hosts[0].attributes_6(0x4001), QpState::Rts);
        (0..4).for_each(|n| end.receive(n, 0, 100));
        let [here, there] = ADDRESSES_6.map(|address| address.parse::<Ipv6Addr>().unwrap());
        let at = |address, port| SocketAddr::from(SocketAddrV6::new(address, port, 0, 0));
        let flow = Flow::new(at(there, 5000), at(here, ROCE_PORT)).unwrap();
        let opcode = Opcode::new(Transport::Uc, Operation::Send, Position::Only, Extra::Nothing).unwrap();
        let bth = Bth::new(opcode, end.qp.qp_num(), Psn::new(1));
        let packet = |byte: u8| sealed(&flow, bth, Headers::NONE, &[byte; 8]);
        // By the loopback interface no other host comes, whatever the address says.
        hosts[0].enter();
        send_as(there, here, &packet(0x66));
        hosts[1].enter();
        send_as(there, here, &packet(0x77));
        assert_eq!(end.done(0).byte_len, 8);
        assert_eq!(end.memory.bytes(0, 8), [0x77; 8]);
    });
}

#[test]
fn numbers_and_keys_say_nothing_of_each_other() {
    with_hosts(|hosts| {
        let node = hosts[0].node();
        let ends: Vec<_> = (0..32).map(|_| node.end(QpType::Rc)).collect();
        assert!(!ends.is_sorted_by_key(|end| end.qp.qp_num()));
        assert!(!ends.is_sorted_by_key(|end| end.region.rkey));
        let variant = |end: &End| end.region.rkey as u8;
        assert!(ends.iter().any(|end| variant(end) != variant(&ends[0])));
    });
}

#[test]
fn a_key_is_good_with_all_of_its_bits() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        for wrong in (0..32).map(|bit| 1 << bit).chain([0]) {
            let end = node.end(QpType::Rc);
            let access = Access::REMOTE_WRITE;
            bring_up(&end.qp, &Attributes { access, ..hosts[0].attributes(0x4001) }, QpState::Rts);
            let reth = Reth { va: end.memory.addr(0), rkey: end.region.rkey ^ wrong, length: 8 };
            let write = (Operation::Write, Position::Only, Extra::Nothing);
            peer.request((end.qp.qp_num(), 1), write, Headers { reth: Some(reth), ..Headers::NONE }, &[7; 8]);
            let (answer, _) = peer.next();
            // A remote access error, or that it was done.
            let expected = if wrong == 0 { ACKNOWLEDGED } else { 0x62 };
            assert!(matches!(answer.headers.aeth, Some(Aeth { syndrome, .. }) if syndrome == expected));
            assert_eq!(end.memory.bytes(0, 8), [if wrong == 0 { 7 } else { 0 }; 8]);
        }
    });
}
