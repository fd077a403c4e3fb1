//! Payload that waits in a pool until its receiver polls, when an end of the connection goes, or its memory.

use std::sync::atomic::Ordering;

use softrdma::device::{Channel, Copying, QpInit, QueuePair};
use softrdma::queues::direct::DirectWord;
use softrdma::queues::shared::{Memory as _, Object, Word};
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma::shm::objects::HeldWords;
use softrdma::shm::pool::BUFFERS;
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, near_apart, pair};
use softrdma_testing::filter::hold_at_direct_copies;
use softrdma_testing::holes::{PAGE, Pages};

const LONG: usize = 3000;
/// Words from one buffer's state to the next one's, and states (`softrdma/src/shm/pool.rs`).
const LINE_WORDS: usize = 8;
const WAITS: u64 = 1;
const MOVING: u64 = 3;

/// Whether connections have rings, and pools: not in the folder of a group.
fn have_pools() -> bool {
    std::env::var_os("IRONVERBS_SOFT_GROUP").is_none()
}

/// Whether a message waits in the pool: its receiver sees it when it polls, not before. It is polled.
fn waits_in_pool(one: &End, other: &End, mark: u8) -> bool {
    as_long_waits_in_pool(one, other, mark, LONG)
}

/// The same of so many bytes.
fn as_long_waits_in_pool(one: &End, other: &End, mark: u8, length: usize) -> bool {
    other.memory.fill(0, &vec![0; length]);
    one.memory.fill(0, &vec![mark; length]);
    other.receive(mark.into(), 0, length);
    one.send(mark.into(), 0, length);
    one.done(mark.into());
    let is_there = other.memory.bytes(0, length) == vec![mark; length];
    other.done(mark.into());
    assert!(other.memory.bytes(0, length) == vec![mark; length]);
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

/// Programs send what is long in pieces of 8 KiB, each behind a header.
#[test]
fn eight_kibibytes_and_a_header_wait_in_the_pool() {
    let (_fabric, _nodes, one, other) = pair(near_apart, QpType::Rc);
    waits_in_pool(&one, &other, 1);
    for (length, waits) in [(201, true), (8192 + 64, true), (8192 + 65, false), (8192, true)] {
        assert_eq!(as_long_waits_in_pool(&one, &other, 2, length), waits && have_pools(), "{length}");
    }
}

/// As [`waits_in_pool`], of a message whose pieces have these lengths, with gaps between them.
fn pieces_wait_in_pool(one: &End, other: &End, mark: u8, lengths: &[usize]) -> bool {
    other.receive(mark.into(), 0, LONG);
    posted_pieces_wait_in_pool(one, other, mark, lengths)
}

/// The same, where a receive request is posted.
fn posted_pieces_wait_in_pool(one: &End, other: &End, mark: u8, lengths: &[usize]) -> bool {
    let sent: Vec<u8> = (0..LONG).map(|n| (n as u8) ^ mark).collect();
    let (mut from, mut done, mut sges) = (1, 0, Vec::new());
    for length in lengths {
        one.memory.fill(from, &sent[done..done + length]);
        sges.push(one.sge(from, *length));
        (from, done) = (from + length + 13, done + length);
    }
    assert_eq!(done, LONG);
    other.memory.fill(0, &[0; LONG]);
    one.qp.post_send(&wr(mark.into(), Opcode::Send, &sges)).unwrap();
    one.done(mark.into());
    let is_there = other.memory.bytes(0, LONG) == sent;
    other.done(mark.into());
    assert!(other.memory.bytes(0, LONG) == sent, "{lengths:?}");
    !is_there
}

#[test]
fn messages_of_several_pieces_wait_in_the_pool_as_others_do() {
    for carrier in [near, near_apart] {
        let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
        assert!(!waits_in_pool(&one, &other, 1));
        for (n, lengths) in [&[9, 2991][..], &[1500, 1500], &[0, 1, 0, 2999], &[2999, 1]].iter().enumerate() {
            assert_eq!(pieces_wait_in_pool(&one, &other, n as u8 + 2, lengths), have_pools(), "{lengths:?}");
        }
    }
}

#[test]
fn messages_of_several_pieces_wait_in_the_pool_of_a_shared_receive_queue() {
    let folder = Folder::new();
    let (here, there) = (Node::new(&folder), Node::new(&folder));
    let (srq, cq) = (there.shared_queue(8), there.cq(64, None, 1));
    let init = QpInit { srq: Some(srq.clone()), ..there.init(QpType::Rc, &cq) };
    let (one, other) =
        (here.end(QpType::Rc), there.end_of(QueuePair::new(&there.device, &init).unwrap(), cq));
    connect_ends(&one, &other);
    for mark in 1..5 {
        post_shared(&srq, mark.into(), &other, 0, LONG);
        let waits = posted_pieces_wait_in_pool(&one, &other, mark, &[9, 1491, 1500]);
        assert_eq!(waits, have_pools() && mark > 1, "{mark}");
    }
}

/// A message with a piece that may not be sent goes the other way, which finds the error, and keeps no buffer.
#[test]
fn a_piece_that_may_not_be_sent_takes_no_buffer() {
    let (_fabric, _nodes, one, other) = pair(near_apart, QpType::Rc);
    waits_in_pool(&one, &other, 1);
    for round in 0..BUFFERS + 1 {
        let bad = Sge { lkey: one.sge(0, 1).lkey ^ 0xff, ..one.sge(9, LONG - 9) };
        other.receive(1, 0, LONG);
        one.qp.post_send(&wr(1, Opcode::Send, &[one.sge(0, 9), bad])).unwrap();
        assert_eq!(one.poll().status, Status::LocProtErr);
        for end in [&one, &other] {
            set_state(&end.qp, QpState::Reset);
            while end.try_poll().is_some() {}
        }
        connect_ends(&one, &other);
        waits_in_pool(&one, &other, 1);
        assert_eq!(pieces_wait_in_pool(&one, &other, 2, &[9, 2991]), have_pools(), "{round}");
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
    let sge = Sge { addr: memory.addr(0), length: LONG as u32, lkey: region.lkey };
    other.qp.post_receive(1, &[sge]).unwrap();
    one.send(1, 0, LONG);
    one.done(1);
    there.device.deregister(region.lkey).unwrap();
    let failed = other.poll();
    let expected = if have_pools() { Status::LocProtErr } else { Status::Success };
    assert_eq!((failed.wr_id, failed.status), (1, expected));
    assert!(memory.bytes(0, LONG) == [0; LONG] || !have_pools());
}

#[test]
fn a_younger_message_comes_behind_all_older_ones_that_can_be_moved() {
    for carrier in [near, near_apart] {
        let (_fabric, [_, there], one, other) = pair(carrier, QpType::Rc);
        let pages = Pages::new(2);
        let region = there.device.register(there.pd, pages.0, 2 * PAGE, pages.0, ALL).unwrap();
        let place = |page: u64| Sge { addr: pages.0 + page * PAGE, length: LONG as u32, lkey: region.lkey };
        // The first one shows the pool.
        for page in [0, 0, 1] {
            other.qp.post_receive(page, &[place(page)]).unwrap();
        }
        one.send(0, 0, LONG);
        one.done(0);
        other.done(0);
        one.memory.fill(0, &[7; LONG]);
        (0..2).for_each(|n| one.send(n, 0, LONG));
        for n in 0..2 {
            one.done(n);
        }
        pages.protect(0, libc::PROT_READ);
        one.remote(2, Opcode::RdmaRead, 16 << 10, LONG, (pages.0 + PAGE, region.rkey));
        one.done(2);
        assert!(one.memory.bytes(16 << 10, LONG) == [7; LONG]);
        pages.protect(0, libc::PROT_READ | libc::PROT_WRITE);
        for n in 0..2 {
            other.done(n);
        }
    }
}

/// The states of the buffers in the pool for what comes to queue pair 0 of the device in slot 0.
fn states(folder: &Folder) -> HeldWords {
    let view = folder.view();
    // Where its ring is, in lines, stands beside the XRC domain.
    let packed = view.load(Word::Attribute { object: Object::Qp(0), word: 4 }) >> 32;
    let ring = (packed & 0xfff_ffff) << 6;
    let pool = view.hold(ring + 8 * DirectWord::Pool as u64, 1).unwrap().get()[0].load(Ordering::Relaxed);
    assert_ne!(pool, 0);
    view.hold(pool, BUFFERS as usize * LINE_WORDS).unwrap()
}

#[test]
fn a_sender_that_begins_anew_moves_what_it_left_in_the_pool() {
    for dies in [false, true] {
        let folder = Folder::new();
        let (there, here) = (Node::new(&folder), Node::new(&folder));
        let (one, other) = (here.end(QpType::Rc), there.end(QpType::Rc));
        connect(&one.qp, &other.qp);
        assert!(!waits_in_pool(&one, &other, 1));
        other.memory.fill(0, &[0; LONG]);
        one.memory.fill(0, &[2; LONG]);
        other.receive(2, 0, LONG);
        one.send(2, 0, LONG);
        one.done(2);
        set_state(&one.qp, QpState::Reset);
        if dies {
            // As if it had been about to move it itself.
            let words = states(&folder);
            let state = words.get().iter().step_by(LINE_WORDS).find(|word| word.load(Ordering::Relaxed) != 0);
            state.unwrap().fetch_add(MOVING - WAITS, Ordering::Relaxed);
        }
        bring_up(&one.qp, &attributes(other.qp.qp_num()), QpState::Rts);
        one.remote(3, Opcode::RdmaRead, 16 << 10, LONG, (other.memory.addr(0), other.region.rkey));
        one.done(3);
        assert!(one.memory.bytes(16 << 10, LONG) == [2; LONG]);
        other.done(2);
        assert!(waits_in_pool(&one, &other, 3));
    }
}

#[test]
fn a_forked_child_that_ends_a_queue_pair_leaves_what_waits_for_the_parent_in_the_pool() {
    let (_fabric, _nodes, one, other) = pair(near_apart, QpType::Rc);
    waits_in_pool(&one, &other, 1);
    for n in 0..8 {
        other.receive(n, LONG * n as usize, LONG);
    }
    let send = |n: u64| {
        one.memory.fill(0, &[n as u8 + 1; LONG]);
        one.send(n, 0, LONG);
        one.done(n);
    };
    (0..3).for_each(send);
    let child = Child::run(|| {
        let _ = other.qp.destroy();
    });
    assert_eq!(child.wait(), 0);
    (3..8).for_each(send);
    for n in 0..8 {
        assert_eq!(other.done(n).byte_len as usize, LONG);
        assert!(other.memory.bytes(LONG * n as usize, LONG) == [n as u8 + 1; LONG], "{n}");
    }
}

/// While its sender moves a message it is not there for who polls, and it is there afterwards without another
/// coming.
#[test]
fn who_polled_while_a_message_was_moved_is_woken_for_it() {
    if copying() != Copying::Auto {
        return;
    }
    let fabric = near_apart();
    let [here, there] = fabric.pair();
    let channel = Channel::new(&there.device).unwrap();
    let (one, other) =
        (here.end(QpType::Rc), there.deep_end(QpType::Rc, &there.cq(64, Some(&channel), 1), 16));
    connect_ends(&one, &other);
    waits_in_pool(&one, &other, 1);
    other.receive(2, 0, LONG);
    one.send(2, 0, LONG);
    one.done(2);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(|| {
            tell.send(hold_at_direct_copies()).unwrap();
            one.remote(3, Opcode::RdmaRead, 16 << 10, LONG, (other.memory.addr(0), other.region.rkey));
        });
        let copies = told.recv().unwrap();
        let mut copy = copies.next();
        other.cq.arm(false).unwrap();
        assert_eq!(other.try_poll(), None);
        while let Some(held) = copy {
            copies.go_on(held);
            copy = copies.next();
        }
    });
    assert!(readable(channel.fd(), 0));
    assert_eq!(other.done(2).byte_len as usize, LONG);
    one.done(3);
}
