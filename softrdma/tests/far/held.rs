//! Queues that are held: by the program, and at a fork.

use softrdma::rules::verbs::{QpState, QpType, Status};
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer};

fn connected_to_nobody(hosts: &[Host; 2], node: &Node) -> End {
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
    end
}

#[test]
fn a_queue_that_the_program_holds_keeps_no_other_waiting() {
    with_hosts(|hosts| {
        let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
        let [held, other] = [(); 2].map(|()| connected_to_nobody(hosts, &node));
        held.send(1, 0, 8);
        peer.next();
        other.send(2, 0, 8);
        peer.next();
        let sending = held.qp.sending();
        peer.answer(held.qp.qp_num(), 1, ACKNOWLEDGED);
        peer.answer(other.qp.qp_num(), 1, ACKNOWLEDGED);
        other.done(2);
        drop(sending);
        // Its own answer may have been lost over that, and is given again.
        let done = loop {
            match held.try_poll() {
                Some(done) => break done,
                None if peer.has_packet() => {
                    let (head, _) = peer.next();
                    peer.answer(held.qp.qp_num(), head.bth.psn.number(), ACKNOWLEDGED);
                }
                None => {}
            }
        };
        assert_eq!((done.wr_id, done.status), (1, Status::Success));
    });
}

#[test]
fn a_forked_child_waits_for_no_lock_of_its_parent() {
    with_hosts(|hosts| {
        let node = hosts[0].node();
        let end = connected_to_nobody(hosts, &node);
        let sending = end.qp.sending();
        assert_eq!(in_child(|| end.qp.destroy().unwrap()), 0);
        drop(sending);
    });
}
