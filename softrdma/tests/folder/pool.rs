//! Payload that waits in a pool until its receiver polls, when an end of the connection goes, or its memory.

use softrdma::rules::verbs::{QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, near_apart, pair};

const LONG: usize = 3000;

/// Whether connections have rings, and pools: not in the folder of a group.
fn have_pools() -> bool {
    std::env::var_os("IRONVERBS_SOFT_GROUP").is_none()
}

/// Whether a message waits in the pool: its receiver sees it when it polls, not before. It is polled.
fn waits_in_pool(one: &End, other: &End, mark: u8) -> bool {
    other.memory.fill(0, &[0; LONG]);
    one.memory.fill(0, &[mark; LONG]);
    other.receive(mark.into(), 0, LONG);
    one.send(mark.into(), 0, LONG);
    one.done(mark.into());
    let is_there = other.memory.bytes(0, LONG) == [mark; LONG];
    other.done(mark.into());
    assert!(other.memory.bytes(0, LONG) == [mark; LONG]);
    !is_there
}

#[test]
fn longer_messages_wait_in_the_pool_from_the_second_on() {
    for carrier in [near, near_apart] {
        let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
        assert!(!waits_in_pool(&one, &other, 1));
        assert_eq!(waits_in_pool(&one, &other, 2), have_pools());
        assert_eq!(waits_in_pool(&one, &other, 3), have_pools());
    }
}

#[test]
fn what_a_dead_sender_left_in_the_pool_is_taken() {
    let (folder, words) = (Folder::new(), Words::new());
    let child = Child::run(|| {
        let node = Node::new(&folder);
        let end = node.end(QpType::Rc);
        words.connect(1, &end.qp);
        words.get::<1>(1);
        for n in 0..5 {
            end.memory.fill(0, &[n as u8 + 1; LONG]);
            end.send(n, 0, LONG);
            end.done(n);
            words.get::<1>(1);
        }
    });
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    words.connect(0, &end.qp);
    (0..5).for_each(|n| end.receive(n, LONG * n as usize, LONG));
    words.put(0, &[0]);
    end.done(0);
    (0..5).for_each(|_| words.put(0, &[0]));
    assert_eq!(child.wait(), 0);
    for n in 1..5 {
        assert_eq!(end.done(n).byte_len as usize, LONG);
        assert!(end.memory.bytes(LONG * n as usize, LONG) == [n as u8 + 1; LONG], "{n}");
    }
}

#[test]
fn buffers_of_messages_that_are_forgotten_serve_others() {
    let (_fabric, _nodes, one, other) = pair(near_apart, QpType::Rc);
    waits_in_pool(&one, &other, 1);
    for _ in 0..20 {
        for n in 0..10 {
            other.receive(n, 0, LONG);
            one.send(n, 0, LONG);
            one.done(n);
        }
        for end in [&one, &other] {
            set_state(&end.qp, QpState::Reset);
            while end.try_poll().is_some() {}
        }
        connect_ends(&one, &other);
        waits_in_pool(&one, &other, 1);
        assert_eq!(waits_in_pool(&one, &other, 2), have_pools());
    }
}

#[test]
fn a_message_of_the_pool_fails_where_the_memory_of_its_request_is_gone() {
    let (_fabric, [_, there], one, other) = pair(near_apart, QpType::Rc);
    waits_in_pool(&one, &other, 1);
    let memory = Buffer::new(LONG);
    let region = there.device.register(there.pd, memory.addr(0), LONG as u64, memory.addr(0), ALL).unwrap();
    let sge = softrdma::rules::receive::Sge { addr: memory.addr(0), length: LONG as u32, lkey: region.lkey };
    other.qp.post_receive(1, &[sge]).unwrap();
    one.send(1, 0, LONG);
    one.done(1);
    there.device.deregister(region.lkey).unwrap();
    let failed = other.poll();
    let expected = if have_pools() { Status::LocProtErr } else { Status::Success };
    assert_eq!((failed.wr_id, failed.status), (1, expected));
    assert!(memory.bytes(0, LONG) == [0; LONG] || !have_pools());
}
