//! Own completions where several things come together: forks, counters, queues that are cleaned.

use std::sync::atomic::{AtomicBool, Ordering};

use softrdma::device::{Channel, CompletionCounter, Counted, Operations, QueuePair};
use softrdma::protocol::verbs::{Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;

#[test]
fn a_forked_child_sees_nothing_of_what_was_counted_for_its_parent() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    let receives = CompletionCounter::new(&node.device, Counted::Requests).unwrap();
    other.qp.attach_counter(&receives, Operations::RECV).unwrap();
    connect(&one.qp, &other.qp);
    other.receive(1, 0, 8);
    one.send(1, 0, 8);
    // Taken for the counter, and kept for the program.
    assert_eq!(receives.done(), 1);
    assert_eq!(in_child(|| assert!(other.try_poll().is_none())), 0);
    other.done(1);
}

#[test]
fn queue_pairs_that_end_while_others_complete_upset_no_order() {
    const ROUNDS: u64 = 400;
    let folder = Folder::new();
    let (node, far) = (Node::new(&folder), Node::new(&folder));
    let cq = node.cq(200, None, 1);
    let new = || {
        let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
        let (end, other) = (node.end_of(qp, cq.clone()), far.end(QpType::Rc));
        connect(&end.qp, &other.qp);
        (end, other)
    };
    let ((end, other), ends) = (new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Both kinds of one queue pair.
        scope.spawn(|| {
            for n in 0..ROUNDS {
                other.receive(n, 0, 8);
                while end.try_send(n, 0, 8).is_err() {
                    std::thread::yield_now();
                }
                other.done(n);
                end.receive(n, 0, 8);
                other.send(n, 0, 8);
                other.done(n);
            }
        });
        // Others leave of both what nobody has polled.
        scope.spawn(|| {
            for round in 0.. {
                let (end, other) = new();
                for n in 0..3 {
                    other.receive(n, 0, 8);
                    end.receive(n, 0, 8);
                    end.send(n, 0, 8);
                    other.done(n);
                    other.send(n, 0, 8);
                    other.done(n);
                }
                if round % 2 == 0 {
                    set_state(&end.qp, QpState::Reset);
                }
                if ends.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        let mut next = [0; 2];
        while next != [ROUNDS; 2] {
            cq.poll(3, &mut |completion| {
                assert_eq!(completion.status, Status::Success);
                if completion.qp_num == end.qp.qp_num() {
                    let kind = usize::from(completion.opcode == WcOpcode::Recv);
                    assert_eq!(completion.wr_id, next[kind]);
                    next[kind] += 1;
                }
            });
            std::thread::yield_now();
        }
        ends.store(true, Ordering::Release);
    });
    assert_eq!(poll(&cq), None, "nothing is left of those that ended");
    assert_eq!(end.qp.send_room(), 16);
}

/// What was kept from being polled, and is taken away, wakes nobody by later requests.
#[test]
fn nobody_is_woken_for_what_was_kept_back_of_a_queue_pair_that_ended() {
    let folder = Folder::new();
    let (node, far) = (Node::new(&folder), Node::new(&folder));
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(16, Some(&channel), 1);
    let new = || {
        let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
        let (end, other) = (node.end_of(qp, cq.clone()), far.end(QpType::Rc));
        connect(&end.qp, &other.qp);
        (end, other)
    };
    let ((end, other), (second, its)) = (new(), new());
    let send = |wr_id| {
        other.receive(wr_id, 0, 8);
        end.send(wr_id, 0, 8);
        other.done(wr_id);
    };
    // The first of all goes another way, which has no lists.
    send(0);
    end.done(0);
    other.receive(1, 0, 8);
    second.receive(2, 0, 8);
    let sges = [end.sge(0, 8)];
    let mut sending = end.qp.sending();
    let request = wr(1, Opcode::Send, &sges);
    sending.accept(&request).unwrap();
    sending.post(&request);
    other.done(1);
    its.send(2, 0, 8);
    its.done(2);
    assert_eq!(poll(&cq), None, "it may be the answer to the first");
    second.qp.destroy().unwrap();
    drop(sending);
    end.done(1);
    cq.arm(true).unwrap();
    send(3);
    assert!(!readable(channel.fd(), 0), "asked for what is solicited");
    end.done(3);
}
