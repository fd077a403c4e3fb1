//! Marks of congestion (ECN), and what follows from them.

use softrdma::device::{Attributes, Path};
use softrdma::rules::verbs::{Access, QpState, QpType};
use softrdma::wire::opcode::{Extra, Opcode, Operation, Position};
use softrdma::wire::packet::{Aeth, Bth, Headers, Reth};
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer, SEND};

/// Type of service: congestion experienced.
const CONGESTION: u8 = 3;

fn is_notification(bth: &Bth) -> bool {
    bth.opcode == Opcode::CONGESTION_NOTIFICATION
}

#[test]
fn packets_of_reliable_connections_say_that_marks_are_obeyed() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let mut number = 0x4001;
        for (qp_type, ecn) in [(QpType::Rc, 2), (QpType::Uc, 0)] {
            for class in [0, 0x50, 0x53] {
                let end = node.end(qp_type);
                let attributes = hosts[0].attributes(number);
                let path = Path { traffic_class: class, ..attributes.path };
                bring_up(&end.qp, &Attributes { path, ..attributes }, QpState::Rts);
                end.send(1, 0, 8);
                // One before it may have sent its own again.
                let (_, _, found) = std::iter::repeat_with(|| peer.next_of_class())
                    .find(|(head, ..)| head.bth.dest_qp == number)
                    .unwrap();
                assert_eq!(found, class & !3 | ecn, "{qp_type:?}");
                number += 1;
            }
        }
    });
}

#[test]
fn a_mark_is_told_to_the_peer_alone_that_sent_it() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = node.end(QpType::Rc);
        bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
        (1..4).for_each(|n| end.receive(n, 0, 8));
        // To a queue pair that nobody has, and without a mark.
        peer.set_class(CONGESTION);
        peer.request((end.qp.qp_num() ^ 1, 1), SEND, Headers::NONE, &[1; 8]);
        peer.set_class(2);
        peer.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
        assert_eq!(peer.next().0.bth.opcode, Opcode::ACKNOWLEDGE);
        // An answer that carries nothing is not what fills the way.
        peer.set_class(CONGESTION);
        peer.answer(end.qp.qp_num(), 1, ACKNOWLEDGED);
        peer.set_class(0);
        peer.request((end.qp.qp_num(), 2), SEND, Headers::NONE, &[1; 8]);
        assert_eq!(peer.next().0.bth.opcode, Opcode::ACKNOWLEDGE);
        peer.set_class(CONGESTION);
        peer.request((end.qp.qp_num(), 3), SEND, Headers::NONE, &[1; 8]);
        let [(told, payload), (answer, _)] = [peer.next(), peer.next()];
        assert_eq!((told.bth, payload), (Bth::notification(0x4001), vec![]));
        assert_eq!(answer.bth.opcode, Opcode::ACKNOWLEDGE);
    });
}

/// How many packets leave of a long message before one asks for an answer, which are a quarter of those that
/// may be under way; whether there was a notification among them.
fn until_asked(peer: &RawPeer, end: &End, wr_id: u64) -> (usize, bool) {
    end.send(wr_id, 0, 40 << 10);
    let (mut count, mut is_told) = (0, false);
    loop {
        let (head, _) = peer.next();
        if is_notification(&head.bth) {
            is_told = true;
            continue;
        }
        count += 1;
        if head.bth.ack_req {
            return (count, is_told);
        }
    }
}

#[test]
fn who_is_told_sends_less() {
    for tells in [false, true] {
        with_hosts(|hosts| {
            let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
            let end = node.end(QpType::Rc);
            bring_up(&end.qp, &Attributes { timeout: 0, ..hosts[0].attributes(0x4001) }, QpState::Rts);
            end.receive(1, 0, 8);
            // Once for all that is under way.
            for _ in 0..if tells { 5 } else { 0 } {
                let headers = Headers { reserved: true, ..Headers::NONE };
                peer.send(Bth::notification(end.qp.qp_num()), headers, &[]);
            }
            // What came before this was heard when it is acknowledged.
            peer.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
            assert_eq!(peer.next().0.bth.opcode, Opcode::ACKNOWLEDGE);
            assert_eq!(until_asked(&peer, &end, 2), (if tells { 2 } else { 4 }, false));
        });
    }
}

#[test]
fn who_reads_asks_for_less_where_answers_come_with_marks() {
    for marks in [false, true] {
        with_hosts(|hosts| {
            let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
            let end = node.end(QpType::Rc);
            // Nothing is sent again meanwhile.
            bring_up(&end.qp, &Attributes { timeout: 0, ..hosts[0].attributes(0x4001) }, QpState::Rts);
            end.remote(1, softrdma::rules::verbs::Opcode::RdmaRead, 0, 16 << 10, (0, 1));
            let (asked, _) = peer.next();
            assert_eq!(asked.headers.reth.unwrap().length, 16 << 10);
            peer.set_class(if marks { CONGESTION } else { 2 });
            let psn = asked.bth.psn.number();
            for n in 0..16 {
                let position = Position::of(n == 0, n == 15);
                let aeth = Some(Aeth { syndrome: ACKNOWLEDGED, msn: 1 });
                let headers =
                    Headers { aeth: aeth.filter(|_| position != Position::Middle), ..Headers::NONE };
                let what = (Operation::ReadResponse, position, Extra::Nothing);
                peer.request((end.qp.qp_num(), psn + n), what, headers, &[n as u8; 1024]);
            }
            end.done(1);
            assert_eq!(end.memory.bytes(15 << 10, 1), [15]);
            // A quarter of 16 or more, or of 8 and few more.
            let (asks_at, is_told) = until_asked(&peer, &end, 2);
            assert_eq!((asks_at < 4, is_told), (marks, marks), "{asks_at}");
        });
    }
}

#[test]
fn answers_leave_bit_by_bit_where_the_peer_tells_of_congestion() {
    const PACKETS: u32 = 60;
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = node.end(QpType::Rc);
        let access = Access::REMOTE_READ;
        bring_up(&end.qp, &Attributes { access, ..hosts[0].attributes(0x4001) }, QpState::Rts);
        for _ in 0..8 {
            peer.send(Bth::notification(end.qp.qp_num()), Headers { reserved: true, ..Headers::NONE }, &[]);
            // Each is one for itself.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let reth = Reth { va: end.memory.addr(0), rkey: end.region.rkey, length: PACKETS << 10 };
        let what = (Operation::ReadRequest, Position::Only, Extra::Nothing);
        peer.request((end.qp.qp_num(), 1), what, Headers { reth: Some(reth), ..Headers::NONE }, &[]);
        // Nobody polls here.
        for n in 0..PACKETS {
            let (head, payload) = peer.next();
            assert_eq!((head.bth.psn.number(), payload.len()), (1 + n, 1024));
        }
    });
}
