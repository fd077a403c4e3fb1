//! A last packet of which nothing is heard.

use softrdma::device::Attributes;
use softrdma::rules::verbs::{QpState, QpType};
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer};

#[test]
// rule: wire-tail-loss
fn the_last_packet_is_sent_once_more_though_no_time_out_ends() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let end = node.end(QpType::Rc);
        // A time-out that never comes.
        let attributes = Attributes { timeout: 0, ..hosts[0].attributes(0x4001) };
        bring_up(&end.qp, &attributes, QpState::Rts);
        for (wr_id, is_lost) in [(1, false), (2, true), (3, true)] {
            end.send(wr_id, 0, 8);
            let (mut head, mut payload) = peer.next();
            if is_lost {
                let first = (head, payload);
                (head, payload) = peer.next();
                assert_eq!((head, &payload), (first.0, &first.1));
            }
            assert!(head.bth.ack_req && payload.len() == 8);
            peer.answer(end.qp.qp_num(), head.bth.psn.number(), ACKNOWLEDGED);
            end.done(wr_id);
        }
    });
}
