//! Rings in which small messages of a connection go without a lock of their target, when an end of it goes.

use softrdma::device::{Channel, QueuePair};
use softrdma::queues::shared::Object;
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport;
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, pair};
use softrdma_testing::filter::die_at_bells;

#[test]
fn a_handle_that_outlives_its_queue_pair_takes_no_ring_from_who_has_the_number_now() {
    let (_folder, [node, _], mut one, other) = pair(near, QpType::Rc);
    let exchange = |one: &End, first: u64| {
        // The first message of a connection finds the ring.
        for n in first..first + 2 {
            one.memory.fill(0, &[n as u8 + 1; 8]);
            other.receive(n, 64 * n as usize, 64);
            one.send(n, 0, 8);
            one.done(n);
            assert_eq!(other.done(n).byte_len, 8);
            assert_eq!(other.memory.bytes(64 * n as usize, 8), [n as u8 + 1; 8]);
        }
    };
    exchange(&one, 0);
    let old = one.qp.clone();
    old.destroy().unwrap();
    // Its number is used again.
    one.qp = loop {
        let next = QueuePair::new(&node.device, &node.init(QpType::Rc, &one.cq)).unwrap();
        if next.qp_num() == old.qp_num() {
            break next;
        }
        next.destroy().unwrap();
    };
    bring_up(&one.qp, &attributes(other.qp.qp_num()), QpState::Rts);
    exchange(&one, 2);
    drop(old);
    // The ring that is still written serves nobody else.
    set_state(&other.qp, QpState::Reset);
    bring_up(&other.qp, &attributes(one.qp.qp_num()), QpState::Rts);
    exchange(&one, 4);
}

#[test]
fn who_sleeps_is_told_of_each_message_whose_sender_died() {
    let (folder, words) = (Folder::new(), Words::new());
    let child = Child::run(|| {
        let node = Node::new(&folder);
        let end = node.end(QpType::Rc);
        words.connect(1, &end.qp);
        words.get::<1>(1);
        for n in 0..3 {
            end.send(n, 0, 8);
            end.done(n);
        }
        words.get::<1>(1);
        die_at_bells();
        end.send(3, 0, 8);
    });
    let node = Node::new(&folder);
    let channel = Channel::new(&node.device).unwrap();
    let cq = node.cq(64, Some(&channel), 1);
    let end = node.end_of(QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap(), cq);
    words.connect(0, &end.qp);
    (0..4).for_each(|n| end.receive(n, 0, 64));
    words.put(0, &[0]);
    for n in 0..3 {
        end.done(n);
    }
    end.cq.arm(false).unwrap();
    assert_eq!(end.try_poll(), None);
    words.put(0, &[0]);
    let status = child.wait();
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS, "it does not ring");
    let is_told = readable(channel.fd(), 0);
    let found = end.try_poll();
    assert!(is_told || found.is_none(), "it sleeps beside {found:?}");
}

#[test]
fn a_forked_child_that_ends_a_queue_pair_leaves_the_parents_messages() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    (0..8).for_each(|n| other.receive(n, 64 * n as usize, 64));
    let send = |n: u64| {
        one.memory.fill(0, &[n as u8 + 1; 8]);
        one.send(n, 0, 8);
        one.done(n);
    };
    (0..3).for_each(send);
    let child = Child::run(|| {
        let _ = other.qp.destroy();
    });
    assert_eq!(child.wait(), 0);
    (3..8).for_each(send);
    for n in 0..8 {
        assert_eq!(other.done(n).byte_len, 8);
        assert_eq!(other.memory.bytes(64 * n as usize, 8), [n as u8 + 1; 8], "{n}");
    }
    assert_eq!(other.try_poll(), None);
}

#[test]
fn a_forked_child_does_not_poll_what_its_parent_sent() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
    (0..2).for_each(|n| other.receive(n, 0, 64));
    (0..2).for_each(|n| one.send(n, 0, 8));
    let child = Child::run(|| assert_eq!(one.try_poll(), None));
    assert_eq!(child.wait(), 0);
    for n in 0..2 {
        one.done(n);
    }
}

#[test]
fn a_message_of_the_ring_is_not_flushed_though_its_queue_pair_failed_behind_a_peers_lock() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let there = folder.view();
    let [other, one, stranger] = [(); 3].map(|()| node.end(QpType::Rc));
    connect_ends(&one, &other);
    (0..6).for_each(|n| other.receive(n, 64 * n as usize, 64));
    for n in 0..3 {
        one.send(n, 0, 8);
        one.done(n);
    }
    assert_eq!(there.lock(Object::Qp(0)), Ok(Locked::Clean));
    let sges = [Sge { lkey: other.region.lkey ^ 1, ..other.sge(0, 8) }];
    other.qp.post_send(&wr(9, Opcode::Send, &sges)).unwrap();
    assert_eq!(other.qp.state(), QpState::Err);
    assert!(there.unlock(Object::Qp(0)));
    // Whoever finds it in error flushes it.
    bring_up(&stranger.qp, &attributes(other.qp.qp_num()), QpState::Rts);
    stranger.send(1, 0, 8);
    other.receive(6, 0, 8);
    let done = std::iter::from_fn(|| other.try_poll()).map(|done| (done.wr_id, done.status));
    let mut done: Vec<_> = done.collect();
    done.sort_by_key(|done| done.0);
    let expected = [0, 1, 2].map(|n| (n, Status::Success)).into_iter();
    let expected = expected.chain([3, 4, 5, 6].map(|n| (n, Status::WrFlushErr)));
    assert_eq!(done, expected.chain([(9, Status::LocProtErr)]).collect::<Vec<_>>());
}

/// A message comes behind the own completions that were there before it, also where these went with their queue
/// pair: a poll that found nothing would have a program go to sleep.
#[test]
fn a_message_is_found_by_one_poll_though_its_sender_ended() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let cq = node.cq(64, None, 1);
    let [one, other] = [0, 1].map(|_| node.deep_end(QpType::Rc, &cq, 16));
    connect_ends(&one, &other);
    for n in 0..2 {
        other.receive(n, 0, 8);
        one.send(n, 0, 8);
        for _ in 0..2 * (1 - n) {
            one.poll();
        }
    }
    one.qp.destroy().unwrap();
    let found = other.try_poll().map(|completion| (completion.wr_id, completion.qp_num, completion.status));
    assert_eq!(found, Some((1, other.qp.qp_num(), Status::Success)));
}
