//! Packets for many queue pairs at once.

use softrdma::rules::verbs::{QpState, QpType};
use softrdma::wire::packet::Headers;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{RawPeer, SEND};

#[test]
fn each_is_answered() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let ends: Vec<_> = (0..40).map(|_| node.end(QpType::Rc)).collect();
        for end in &ends {
            bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
            end.receive(1, 0, 8);
        }
        for end in &ends {
            peer.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
        }
        ends.iter().for_each(|_| drop(peer.next()));
        ends.iter().for_each(|end| assert_eq!(end.done(1).byte_len, 8));
    });
}
