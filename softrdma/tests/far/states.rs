//! What changes of state do to a connection with another host.

use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer};

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
fn drained_is_told_when_all_that_began_is_answered() {
    with_hosts(|hosts| {
        let peer = RawPeer::new(hosts, 1);
        let node = hosts[0].node();
        let end = node.end(QpType::Rc);
        bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
        end.send(1, 0, 8);
        let (head, _) = peer.next();
        let drains = softrdma::device::Attributes {
            state: QpState::Sqd,
            en_sqd_async_notify: true,
            ..Default::default()
        };
        end.qp
            .modify(
                softrdma::rules::verbs::Attr::STATE.union(softrdma::rules::verbs::Attr::EN_SQD_ASYNC_NOTIFY),
                &drains,
            )
            .unwrap();
        assert!(!node.has_event() && end.qp.query().sq_draining);
        // Posted meanwhile: it does not begin.
        end.send(2, 0, 8);
        peer.answer(end.qp.qp_num(), head.bth.psn.number(), ACKNOWLEDGED);
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
