//! What changes of state do to a connection with another host.

use softrdma::device::{Attributes, Path, Source};
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Access, Attr, Event, Opcode, QpState, QpType, Status};
use softrdma::wire::opcode::{Extra, Opcode as WireOpcode, Operation, Position};
use softrdma::wire::packet::{Headers, Reth};
use softrdma_testing::device::*;
use softrdma_testing::network::ip;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer, SEND};

#[test]
fn messages_go_both_ways() {
    with_hosts(|hosts| {
        let [(_, one), (_, other)] = &connected(hosts, QpType::Rc);
        one.memory.fill(0, &[7; 5000]);
        other.receive(1, 100, 6000);
        one.send(2, 0, 5000);
        one.done(2);
        assert_eq!(other.done(1).byte_len, 5000);
        assert_eq!(other.memory.bytes(100, 5000), [7; 5000]);
    });
}

#[test]
fn a_queue_pair_that_was_connected_to_another_host_waits_within_its_own() {
    with_hosts(|hosts| {
        let [(node, one), (_, other)] = &connected(hosts, QpType::Rc);
        other.receive(1, 0, 8);
        one.send(2, 0, 8);
        one.done(2);
        other.done(1);
        set_state(&one.qp, QpState::Reset);
        let near = node.end(QpType::Rc);
        connect_ends(one, &near);
        // The receiver is not ready for it at first.
        one.send(3, 0, 8);
        assert_eq!(one.try_poll(), None);
        near.receive(4, 0, 8);
        near.done(4);
        one.done(3);
    });
}

#[test]
fn an_unreliable_queue_goes_on_after_an_error() {
    with_hosts(|hosts| {
        let [(_, one), (_, other)] = &connected(hosts, QpType::Uc);
        other.receive(1, 100, 6000);
        let mut bad = one.sge(0, 8);
        bad.lkey ^= 0x5500;
        one.qp.post_send(&wr(1, Opcode::Send, &[bad])).unwrap();
        assert_eq!(one.poll().status, Status::LocProtErr);
        one.send(2, 0, 8);
        assert_eq!(one.poll().status, Status::WrFlushErr);
        set_state(&one.qp, QpState::Rts);
        one.send(3, 0, 8);
        one.done(3);
        assert_eq!(other.done(1).byte_len, 8);
    });
}

#[test]
fn what_is_to_be_sent_again_fails_where_its_memory_is_gone() {
    const NOT_READY: u8 = 1 << 5 | 1;
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        // One packet, several small ones, and several that are copied together.
        for length in [8, 300, 3000] {
            let end = node.end(QpType::Rc);
            bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
            end.send(1, 0, length);
            let (head, payload) = peer.next();
            assert_eq!(payload.len(), length.min(1024));
            for _ in 1..length.div_ceil(1024) {
                peer.next();
            }
            node.device.deregister(end.region.lkey).unwrap();
            peer.answer(end.qp.qp_num(), head.bth.psn.number(), NOT_READY);
            assert_eq!(end.poll().status, Status::LocProtErr, "{length}");
            assert!(!peer.has_packet());
        }
    });
}

/// A queue pair that drains (SQD), with one request that its peer has and has not answered: the number of its
/// packet.
fn draining(host: &Host, peer: &RawPeer) -> (Node, End, u32) {
    let node = host.node();
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &host.attributes(0x4001), QpState::Rts);
    end.send(1, 0, 8);
    let (head, _) = peer.next();
    let drains = Attributes { state: QpState::Sqd, en_sqd_async_notify: true, ..Default::default() };
    end.qp.modify(Attr::STATE.union(Attr::EN_SQD_ASYNC_NOTIFY), &drains).unwrap();
    assert!(!node.has_event() && end.qp.query().sq_draining);
    (node, end, head.bth.psn.number())
}

#[test]
fn drained_is_told_when_all_that_began_is_answered() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        let (node, end, psn) = draining(&hosts[0], &peer);
        // Posted meanwhile: it does not begin.
        end.send(2, 0, 8);
        peer.answer(end.qp.qp_num(), psn, ACKNOWLEDGED);
        end.done(1);
        assert_eq!(node.event(), Event::SqDrained);
        assert!(!end.qp.query().sq_draining);
        set_state(&end.qp, QpState::Rts);
        let (head, _) = loop {
            let next = peer.next();
            if next.0.bth.psn.number() == 2 {
                break next;
            }
        };
        peer.answer(end.qp.qp_num(), head.bth.psn.number(), ACKNOWLEDGED);
        end.done(2);
    });
}

#[test]
fn drained_is_told_when_the_last_request_is_answered() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        let (node, end, psn) = draining(&hosts[0], &peer);
        peer.answer(end.qp.qp_num(), psn, ACKNOWLEDGED);
        assert_eq!(node.event(), Event::SqDrained);
        end.done(1);
    });
}

#[test]
fn what_is_longer_than_any_message_is_refused_for_its_length() {
    with_hosts(|hosts| {
        let node = hosts[0].node();
        for count in 2..=4 {
            let end = node.end(QpType::Rc);
            bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
            let sge = Sge { length: 1 << 30, ..end.sge(0, 0) };
            end.qp.post_send(&wr(1, Opcode::Send, &vec![sge; count])).unwrap();
            assert_eq!(end.poll().status, Status::LocLenErr, "{count} GiB");
        }
    });
}

/// The IPv4 address of a peer that is on another interface, or has moved.
const ELSEWHERE: &str = "10.8.0.3";
/// A negative acknowledgement: no access.
const NO_ACCESS: u8 = 0x62;

#[test]
fn a_drained_queue_pair_takes_another_way() {
    with_hosts(|hosts| {
        hosts[1].enter();
        ip(&format!("address add {ELSEWHERE}/24 dev wire"));
        let [old, new] = [ADDRESSES[1], ELSEWHERE].map(|address| RawPeer::at(hosts, 1, address));
        let node = hosts[0].node();
        let end = node.end(QpType::Rc);
        // Nothing is sent again.
        let attributes = Attributes { timeout: 0, ..hosts[0].attributes(0x4001) };
        bring_up(&end.qp, &attributes, QpState::Rts);
        end.send(1, 0, 8);
        let (head, _) = old.next();
        old.answer(end.qp.qp_num(), head.bth.psn.number(), ACKNOWLEDGED);
        end.done(1);
        set_state(&end.qp, QpState::Sqd);
        let dgid = ELSEWHERE.parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped().octets();
        let path = Path { dgid, traffic_class: 0x50, ..attributes.path };
        let moved = Attributes { state: QpState::Sqd, path, ..attributes };
        let modify = |attributes: &Attributes| end.qp.modify(Attr::STATE.union(Attr::AV), attributes);
        // Ways that it cannot take.
        let source = path.source.map(|source| Source { mtu: 256, ..source });
        for path in
            [Path { source, ..path }, Path { source: None, ..path }, Path { is_global: false, ..path }]
        {
            modify(&Attributes { path, ..moved }).unwrap_err();
        }
        modify(&moved).unwrap();
        set_state(&end.qp, QpState::Rts);
        end.send(2, 0, 8);
        let (head, _, class) = new.next_of_class();
        assert_eq!(class & !3, 0x50);
        // Who has the old address is the peer no more.
        old.answer(end.qp.qp_num(), head.bth.psn.number(), NO_ACCESS);
        new.answer(end.qp.qp_num(), head.bth.psn.number(), ACKNOWLEDGED);
        end.done(2);
        // And what it asks for from there is carried out.
        end.receive(3, 0, 8);
        new.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
        end.done(3);
        assert!(!old.has_packet());
    });
}

#[test]
fn a_drained_queue_pair_allows_its_peer_more_reads() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        for reads in [0, 1] {
            let end = node.end(QpType::Rc);
            let access = Access::REMOTE_READ;
            let attributes = Attributes { access, max_dest_rd_atomic: 0, ..hosts[0].attributes(0x4001) };
            bring_up(&end.qp, &attributes, QpState::Rts);
            set_state(&end.qp, QpState::Sqd);
            let change = Attributes { state: QpState::Sqd, max_dest_rd_atomic: reads, ..attributes };
            end.qp.modify(Attr::STATE.union(Attr::MAX_DEST_RD_ATOMIC), &change).unwrap();
            let reth = Reth { va: end.memory.addr(0), rkey: end.region.rkey, length: 8 };
            let read = (Operation::ReadRequest, Position::Only, Extra::Nothing);
            peer.request((end.qp.qp_num(), 1), read, Headers { reth: Some(reth), ..Headers::NONE }, &[]);
            let is_answered = peer.next().0.bth.opcode == WireOpcode::read_response(Position::Only);
            assert_eq!(is_answered, reads > 0);
        }
    });
}
