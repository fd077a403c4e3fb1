//! Queues that are held: by the program, and at a fork.

use std::time::{Duration, Instant};

use softrdma::device::Sending;
use softrdma::rules::verbs::{QpState, QpType, Status};
use softrdma::wire::packet::Headers;
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer, SEND};

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

/// A send whose acknowledgement has come while the program held its queue, for so long, with what came behind
/// that.
fn acknowledged_while_held(hosts: &[Host; 2], then: impl FnOnce(&RawPeer, &End, Sending<'_>)) {
    let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
    let end = connected_to_nobody(hosts, &node);
    end.receive(2, 0, 8);
    end.send(1, 0, 8);
    peer.next();
    let sending = end.qp.sending();
    peer.answer(end.qp.qp_num(), 1, ACKNOWLEDGED);
    answer(&peer, &end);
    // The look at the network in which it comes waits for the queue.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(400) {
        assert!(end.try_poll().is_none());
    }
    then(&peer, &end, sending);
}

fn answer(peer: &RawPeer, end: &End) {
    peer.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
}

/// As with an adapter, a send has ended when the answer to it comes, also where the program has no processor
/// while it posts another.
#[test]
fn what_comes_behind_an_acknowledgement_waits_for_a_queue_that_the_program_holds() {
    with_hosts(|hosts| {
        acknowledged_while_held(hosts, |peer, end, sending| {
            drop(sending);
            // Nobody has acknowledged it.
            answer(peer, end);
            assert_eq!([1, 2].map(|_| end.poll_long().wr_id), [1, 2]);
        });
    });
}

#[test]
fn an_acknowledgement_that_came_while_the_program_held_the_queue_is_not_asked_for_again() {
    with_hosts(|hosts| {
        acknowledged_while_held(hosts, |peer, end, sending| {
            drop(sending);
            end.done(1);
            assert!(!peer.has_packet());
        });
    });
}

#[test]
fn a_program_that_holds_its_queue_for_long_has_what_comes_all_the_same() {
    with_hosts(|hosts| {
        acknowledged_while_held(hosts, |peer, end, sending| {
            let comes = (0..1000).find_map(|_| {
                // The peer sends it again, and what it acknowledges, too.
                peer.answer(end.qp.qp_num(), 1, ACKNOWLEDGED);
                answer(peer, end);
                std::thread::sleep(Duration::from_millis(5));
                end.try_poll()
            });
            assert_eq!(comes.map(|done| done.wr_id), Some(2));
            drop(sending);
            end.done(1);
        });
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
