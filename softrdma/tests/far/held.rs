//! Queues that are held: by the program, and at a fork.

use std::time::Duration;

use softrdma::device::Sending;
use softrdma::rules::verbs::{QpState, QpType};
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

/// A send whose acknowledgement comes while the program holds its queue, and behind it the answer to it, where
/// `is_answered`. Whoever takes them has given up the wait for the queue: another one's has come since.
fn acknowledged_while_held(
    hosts: &[Host; 2],
    is_answered: bool,
    then: impl FnOnce(&RawPeer, &End, Sending<'_>),
) {
    let (peer, node) = (RawPeer::new(hosts, 1), hosts[0].node());
    let [held, other] = [(); 2].map(|()| connected_to_nobody(hosts, &node));
    held.receive(2, 0, 8);
    held.send(1, 0, 8);
    peer.next();
    other.send(3, 0, 8);
    peer.next();
    let sending = held.qp.sending();
    peer.answer(held.qp.qp_num(), 1, ACKNOWLEDGED);
    if is_answered {
        answer(&peer, &held);
    }
    peer.answer(other.qp.qp_num(), 1, ACKNOWLEDGED);
    other.done(3);
    assert!(held.try_poll().is_none());
    then(&peer, &held, sending);
}

fn answer(peer: &RawPeer, end: &End) {
    peer.request((end.qp.qp_num(), 1), SEND, Headers::NONE, &[1; 8]);
}

/// And its own acknowledgement, which came meanwhile, is not asked for again.
#[test]
fn a_queue_that_the_program_holds_keeps_no_other_waiting() {
    with_hosts(|hosts| {
        acknowledged_while_held(hosts, false, |peer, held, sending| {
            drop(sending);
            held.done(1);
            assert!(!peer.has_packet());
        });
    });
}

/// As with an adapter, a send has ended when the answer to it comes, also where the program has no processor
/// while it posts another.
#[test]
fn what_comes_behind_an_acknowledgement_waits_for_a_queue_that_the_program_holds() {
    with_hosts(|hosts| {
        acknowledged_while_held(hosts, true, |peer, held, sending| {
            drop(sending);
            // Nobody has acknowledged it.
            answer(peer, held);
            assert_eq!([1, 2].map(|_| held.poll_long().wr_id), [1, 2]);
        });
    });
}

#[test]
fn a_program_that_holds_its_queue_for_long_has_what_comes_all_the_same() {
    with_hosts(|hosts| {
        acknowledged_while_held(hosts, true, |peer, held, sending| {
            let comes = (0..1000).find_map(|_| {
                // The peer sends it again, and what it acknowledges, too.
                peer.answer(held.qp.qp_num(), 1, ACKNOWLEDGED);
                answer(peer, held);
                std::thread::sleep(Duration::from_millis(5));
                held.try_poll()
            });
            assert_eq!(comes.map(|done| done.wr_id), Some(2));
            drop(sending);
            held.done(1);
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
