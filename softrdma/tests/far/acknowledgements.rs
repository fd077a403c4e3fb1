//! Acknowledgements that wait for the program, which does something else.

use std::time::{Duration, Instant};

use softrdma::rules::verbs::{QpState, QpType};
use softrdma::wire::opcode::Opcode;
use softrdma::wire::packet::Headers;
use softrdma_testing::child::begin;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer, SEND};

/// Takes a message by a poll, so that its acknowledgement waits for the program, the peer of which has the
/// queue pair's number from `words`; then does something else with it.
fn after_a_message(hosts: &[Host; 2], words: &Words, then: impl FnOnce(Node, End, &Words)) {
    let node = hosts[0].node();
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &hosts[0].attributes(0x4001), QpState::Rts);
    end.receive(1, 0, 8);
    // It is seen that this program does nothing but poll; if not, less is shown.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(250) {
        assert!(end.try_poll().is_none());
    }
    words.put(1, &[u64::from(end.qp.qp_num())]);
    assert_eq!(end.poll_long().wr_id, 1);
    then(node, end, words);
}

/// The message is acknowledged of who does that.
fn is_acknowledged(then: impl Fn(Node, End, &Words)) {
    with_hosts(|hosts| {
        let (peer, words) = (RawPeer::new(hosts, 1), Words::new());
        for _ in 0..4 {
            let child = begin(|| {
                after_a_message(hosts, &words, &then);
                0
            });
            let [number] = words.get(0);
            peer.request((number as u32, 1), SEND, Headers::NONE, &[1; 8]);
            let (head, _) = peer.next();
            assert_eq!((head.bth.opcode, head.bth.psn.number()), (Opcode::ACKNOWLEDGE, 1));
            words.put(0, &[1]);
            let mut status = 0;
            // SAFETY: a plain system call on an own child; `status` is writable.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
    });
}

#[test]
fn one_leaves_though_the_program_does_not_come_back() {
    // It waits until the peer has it.
    is_acknowledged(|_node, _end, words| assert_eq!(words.get(1), [1]));
}

#[test]
fn one_leaves_before_the_process_ends() {
    is_acknowledged(|node, _, _| assert!(node.device.leave()));
}

#[test]
fn one_leaves_before_its_queue_pair_ends() {
    is_acknowledged(|_, end, _| end.qp.destroy().unwrap());
}

#[test]
fn one_leaves_before_its_queue_pair_is_reset() {
    is_acknowledged(|_, end, _| bring_back(&end));
}

/// Packets come in one of these orders of a message and the answer to it, of so many bytes: their PSNs, 0 for
/// the acknowledgement, which comes once. The peer `is_known` to take an acknowledgement first that comes in a
/// train. What is long not answered is sent again, and does not count.
fn beside_an_answer(is_known: bool, length: usize, orders: &[&[u32]]) {
    with_hosts(|hosts| {
        let mut order = Vec::new();
        let (peer, words) = (RawPeer::new(hosts, 1), Words::new());
        let child = begin(|| {
            after_a_message(hosts, &words, |_, end, words| {
                end.send(2, 0, length);
                words.put(1, &[end.poll_long().wr_id]);
            });
            0
        });
        let [number] = words.get(0);
        for _ in 0..if is_known { 3 } else { 0 } {
            // Of nothing that was sent: its identification is seen.
            peer.answer(number as u32, 0x1000, ACKNOWLEDGED);
        }
        peer.request((number as u32, 1), SEND, Headers::NONE, &[1; 8]);
        let packets = length.div_ceil(1024);
        let mut take = || {
            let (head, payload) = peer.next();
            let psn = head.bth.psn.number();
            if head.bth.opcode == Opcode::ACKNOWLEDGE {
                assert_eq!(psn, 1);
                order.push(0);
            } else if !order.contains(&psn) {
                assert_eq!(payload.len(), (length - 1024 * (psn as usize - 1)).min(1024));
                order.push(psn);
            }
            order.len() == packets + 1
        };
        while !take() {}
        peer.answer(number as u32, packets as u32, ACKNOWLEDGED);
        assert_eq!(words.get(0), [2]);
        let mut status = 0;
        // SAFETY: a plain system call on an own child; `status` is writable.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        while peer.has_packet() {
            take();
        }
        assert!(orders.contains(&&order[..]), "{order:?}");
    });
}

/// With an adapter nobody sees a send end behind the answer to it, and old programs take it for granted.
#[test]
fn one_leaves_before_an_answer() {
    // Where the program has not its processor alone, the acknowledgement may have left by itself.
    for _ in 0..4 {
        beside_an_answer(false, 8, &[&[0, 1]]);
        beside_an_answer(false, 2048, &[&[0, 1, 2]]);
        // These make no train with it.
        beside_an_answer(true, 2500, &[&[0, 1, 2, 3]]);
    }
}

/// The peer takes it first.
#[test]
fn one_leaves_behind_an_answer_if_it_still_waits() {
    for _ in 0..4 {
        beside_an_answer(true, 2048, &[&[0, 1, 2], &[1, 2, 0]]);
    }
}

/// To RESET, where the queue pair is connected to nobody.
fn bring_back(end: &End) {
    use softrdma::device::Attributes;
    use softrdma::rules::verbs::Attr;
    let attributes = Attributes { state: QpState::Reset, ..Attributes::default() };
    end.qp.modify(Attr::STATE, &attributes).unwrap();
}
