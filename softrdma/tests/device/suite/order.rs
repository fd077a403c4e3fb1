//! Requests of each kind and size come in the order in which they were posted, and to nobody else.
//!
//! Small messages may go another way than larger ones (over shared memory, by a ring without a lock).

use softrdma::device::{QpInit, QueuePair};
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pair};

super::suite! {
    order:
    a_connection_that_breaks_flushes_what_no_message_took,
    requests_that_take_a_receive_request_and_others_come_in_order,
    requests_are_posted_while_nobody_polls_as_many_by_either_way,
    what_waits_in_the_pool_is_in_its_buffer_before_younger_messages,
    a_read_finds_the_message_that_was_sent_before,
    as_many_longer_messages_wait_as_there_are_requests,
    datagrams_go_to_whom_they_are_for_whatever_ring_was_found,
    an_unreliable_queue_pair_does_not_reach_a_reliable_one_by_a_ring,
    an_answer_comes_behind_the_completion_of_what_it_answers,
    a_message_waits_for_no_completion_that_came_after_it_was_seen,
    what_fails_comes_behind_what_succeeded_before,
    a_reset_takes_the_completions_of_its_queue_pair_alone,
}

/// Bytes of a receive request's memory, and of a message that is not small.
const LONG: usize = 1024;

pub fn a_connection_that_breaks_flushes_what_no_message_took(carrier: Carrier) {
    // As many reads between the messages and what breaks it, so that it is told or known how many came before.
    for reads in 0..3 {
        let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
        let remote = (other.memory.addr(0), other.region.rkey);
        let read = || {
            for _ in 0..reads {
                one.remote(50, Opcode::RdmaRead, 64, 8, remote);
                one.done(50);
            }
        };
        (0..8).for_each(|n| other.receive(n, 64 * n as usize, 64));
        for n in 0..5 {
            one.memory.fill(0, &[n as u8 + 1; 8]);
            one.send(n, 0, 8);
            one.done(n);
            if n == 2 {
                read();
            }
        }
        read();
        one.remote(60, Opcode::RdmaRead, 64, 8, (remote.0, remote.1 ^ 1));
        let broken = one.poll();
        assert_eq!((broken.wr_id, broken.status), (60, Status::RemAccessErr), "{reads} reads");
        assert_eq!((one.qp.state(), other.qp.state()), (QpState::Err, QpState::Err));
        for n in 0..5 {
            assert_eq!(other.done(n).byte_len, 8, "{reads} reads");
            assert_eq!(other.memory.bytes(64 * n as usize, 8), [n as u8 + 1; 8], "{reads} reads");
        }
        for n in 5..8 {
            let flushed = other.poll();
            assert_eq!((flushed.wr_id, flushed.status), (n, Status::WrFlushErr), "{reads} reads");
        }
        assert_eq!(other.try_poll(), None);
    }
}

pub fn requests_that_take_a_receive_request_and_others_come_in_order(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    let to = (other.memory.addr(16 * LONG), other.region.rkey);
    for round in 0..4 {
        // 0: a read, which takes no receive request; 1: a write with immediate data; others: a message.
        let requests = [8, 8, 0, 0, 8, 1, 8, 0, LONG, 0, 0, 200, 8, 1, 1, 8, LONG, 8];
        let taking: Vec<_> = requests.into_iter().filter(|what| *what > 0).collect();
        for n in 0..taking.len() {
            other.receive(n as u64, LONG * n, LONG);
        }
        let mut count = 0;
        for what in requests {
            one.memory.fill(0, &[count + 1 + round; LONG]);
            let sges = [one.sge(0, 8)];
            let operands = Operands::Remote { addr: to.0, rkey: to.1, length: 8 };
            match what {
                0 => one.remote(50, Opcode::RdmaRead, LONG, 8, to),
                1 => {
                    let write = wr(50, Opcode::RdmaWriteWithImm, &sges);
                    let write = softrdma::device::Wr { operands, imm_or_key: u32::from(count), ..write };
                    one.qp.post_send(&write).unwrap();
                }
                length => one.send(50, 0, length),
            }
            one.done(50);
            count += u8::from(what > 0);
        }
        for (n, what) in taking.into_iter().enumerate() {
            let done = other.done(n as u64);
            if what == 1 {
                let expected = (WcOpcode::RecvRdmaWithImm, n as u32);
                assert_eq!((done.opcode, done.imm_or_key), expected, "round {round}");
            } else {
                assert_eq!((done.opcode, done.byte_len as usize), (WcOpcode::Recv, what), "round {round}");
                assert_eq!(other.memory.bytes(LONG * n, what), vec![n as u8 + 1 + round; what]);
            }
        }
        assert_eq!(other.try_poll(), None);
    }
}

pub fn requests_are_posted_while_nobody_polls_as_many_by_either_way(carrier: Carrier) {
    const COUNT: usize = 15;
    for length in [8, LONG] {
        let fabric = carrier();
        let [here, there] = fabric.pair();
        let one = here.end(QpType::Rc);
        let (sends, receives) = (there.cq(64, None, 1), there.cq(512, None, 2));
        let mut init = QpInit { recv_cq: Some(receives.clone()), ..there.init(QpType::Rc, &sends) };
        init.cap.max_recv_wr = COUNT as u32;
        let other = there.end_of(QueuePair::new(&there.device, &init).unwrap(), receives);
        connect_ends(&one, &other);
        let rounds = 12;
        for round in 0..rounds {
            for n in 0..COUNT {
                let n = round * COUNT + n;
                assert_eq!(other.try_receive(n as u64, 8 * n, LONG), Ok(()), "{length} bytes, {n}");
            }
            let full = other.try_receive(0, 0, LONG);
            assert_eq!(full, Err(Rejected::Full), "{length} bytes, round {round}");
            for n in 0..COUNT {
                one.memory.fill(0, &((round * COUNT + n) as u64).to_ne_bytes());
                one.send(1, 0, length);
                one.done(1);
            }
        }
        for n in 0..rounds * COUNT {
            assert_eq!(other.done(n as u64).byte_len as usize, length);
            // What came later begins behind it.
            assert_eq!(other.memory.word(8 * n), n as u64);
        }
        assert_eq!(other.try_poll(), None);
    }
}

/// Sends a first message that is longer than what a ring takes, behind which there is a pool for the next ones.
fn open_pool(one: &End, other: &End) {
    other.receive(0, 0, LONG);
    one.send(0, 0, LONG);
    one.done(0);
    other.done(0);
}

pub fn what_waits_in_the_pool_is_in_its_buffer_before_younger_messages(carrier: Carrier) {
    const SIZES: [usize; 13] = [300, 8192, 512, 20_000, 4096, 201, 9_000, 8256, 8257, 700, 700, 30_000, 600];
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    open_pool(&one, &other);
    let mut mark = 0u8;
    for round in 0..SIZES.len() {
        let sizes = || SIZES.iter().cycle().skip(round).take(SIZES.len()).copied();
        // One buffer for all.
        (0..SIZES.len()).for_each(|n| other.receive(n as u64, 0, 30_000));
        let first = mark;
        let (mut expected, mut marks) = (vec![0; 30_000], Vec::new());
        for (n, size) in sizes().enumerate() {
            mark = mark.wrapping_add(1);
            one.memory.fill(0, &vec![mark; size]);
            expected[..size].fill(mark);
            marks.push(mark);
            one.send(n as u64, 0, size);
            one.done(n as u64);
        }
        for (n, size) in sizes().enumerate() {
            assert_eq!(other.done(n as u64).byte_len as usize, size, "round {round}");
            // Its own bytes, or those of a younger one.
            let is_later = |byte: u8| byte.wrapping_sub(first) >= marks[n].wrapping_sub(first);
            assert!(other.memory.bytes(0, size).into_iter().all(is_later), "round {round}, message {n}");
        }
        let longest = 30_000;
        assert!(other.memory.bytes(0, longest) == expected, "round {round}");
    }
}

pub fn a_read_finds_the_message_that_was_sent_before(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    open_pool(&one, &other);
    let remote = (other.memory.addr(0), other.region.rkey);
    for (n, length) in (1u8..).zip([201, 4096, 8256, 8257]) {
        one.memory.fill(0, &vec![n; length]);
        other.receive(1, 0, length);
        one.send(1, 0, length);
        one.remote(2, Opcode::RdmaRead, 16 << 10, length, remote);
        one.done(1);
        one.done(2);
        assert!(one.memory.bytes(16 << 10, length) == vec![n; length], "{length}");
        other.done(1);
        assert!(other.memory.bytes(0, length) == vec![n; length], "{length}");
    }
}

pub fn as_many_longer_messages_wait_as_there_are_requests(carrier: Carrier) {
    const COUNT: usize = 150;
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let ends = || {
        let [one, other] =
            [&here, &there].map(|node| node.deep_end(QpType::Rc, &node.cq(512, None, 1), COUNT as u32));
        connect_ends(&one, &other);
        open_pool(&one, &other);
        (one, other)
    };
    // More than a pool has buffers, of one connection and of several.
    for pairs in [vec![ends()], vec![ends(), ends(), ends()]] {
        for _ in 0..3 {
            for (one, other) in &pairs {
                for n in 0..COUNT {
                    other.receive(n as u64, 400 * n, 400);
                    one.memory.fill(0, &[n as u8 + 1; 400]);
                    one.send(n as u64, 0, 201 + n);
                    one.done(n as u64);
                }
            }
            for (_, other) in &pairs {
                for n in 0..COUNT {
                    assert_eq!(other.done(n as u64).byte_len as usize, 201 + n);
                    let expected = [vec![n as u8 + 1; 201 + n], vec![0; 199 - n]].concat();
                    assert!(other.memory.bytes(400 * n, 400) == expected, "message {n}");
                }
                other.memory.fill(0, &[0; 400 * COUNT]);
            }
        }
    }
}

pub fn datagrams_go_to_whom_they_are_for_whatever_ring_was_found(carrier: Carrier) {
    let (fabric, [_, there], a, b) = pair(carrier, QpType::Ud);
    // Queue pairs that say they are connected to the datagram queue pair, one in each place where it may
    // keep ways.
    let claims: Vec<_> = (0..70).map(|_| there.end(QpType::Rc)).collect();
    for t in &claims {
        bring_up(&t.qp, &a.address(), QpState::Rts);
        t.receive(1, 0, 64);
        t.receive(2, 64, 64);
    }
    for t in &claims {
        a.datagram_to(1, t, 0, 8);
        a.done(1);
        b.receive(3, 0, 128);
        a.datagram_to(2, &b, 0, 8);
        a.done(2);
        fabric.settle();
        assert_eq!(t.try_poll(), None);
        b.done(3);
    }
}

pub fn an_unreliable_queue_pair_does_not_reach_a_reliable_one_by_a_ring(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let (u, t) = (here.end(QpType::Uc), there.end(QpType::Rc));
    connect_ends(&u, &t);
    (0..4).for_each(|n| t.receive(n, 256 * n as usize, 64));
    for n in 0..3 {
        u.send(n, 0, 8);
        u.done(n);
    }
    fabric.settle();
    assert_eq!(t.try_poll(), None);
}

pub fn an_answer_comes_behind_the_completion_of_what_it_answers(carrier: Carrier) {
    for (length, answer) in [(8, 8), (8, LONG), (LONG, 8), (LONG, LONG)] {
        let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
        for n in 0..8 {
            one.receive(100 + n, 0, LONG);
            other.receive(200 + n, 0, LONG);
            one.send(n, 2 * LONG, length);
            other.done(200 + n);
            other.send(300 + n, 2 * LONG, answer);
            other.done(300 + n);
            one.done(n);
            one.done(100 + n);
        }
    }
}

/// Completions of requests may pass a message that came before them while nobody polled, as the queues promise
/// each other nothing; but only those that were there when it was seen.
pub fn a_message_waits_for_no_completion_that_came_after_it_was_seen(carrier: Carrier) {
    for length in [8, 200, LONG] {
        let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
        (0..16).for_each(|n| other.receive(n, LONG, 8));
        one.receive(100, 0, length);
        other.send(20, 0, length);
        other.done(20);
        (0..4).for_each(|n| one.send(n, LONG, 8));
        let mut passed = 0;
        while one.poll().wr_id != 100 {
            passed += 1;
            assert!(passed <= 4, "{length} bytes");
            one.send(50 + passed, LONG, 8);
        }
    }
}

pub fn what_fails_comes_behind_what_succeeded_before(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
    for round in 0..3 {
        (0..4).for_each(|n| other.receive(n, 0, 64));
        for n in 0..4 {
            one.send(n, 0, 8);
        }
        one.remote(4, Opcode::RdmaRead, 0, 8, (other.memory.addr(0), other.region.rkey ^ 1));
        one.send(5, 0, 8);
        for n in 0..4 {
            one.done(n);
        }
        let ends = [4, 5].map(|_| one.poll()).map(|ended| (ended.wr_id, ended.status));
        assert_eq!(ends, [(4, Status::RemAccessErr), (5, Status::WrFlushErr)], "round {round}");
        for n in 0..4 {
            other.done(n);
        }
        set_state(&one.qp, QpState::Reset);
        set_state(&other.qp, QpState::Reset);
        connect_ends(&one, &other);
    }
}

pub fn a_reset_takes_the_completions_of_its_queue_pair_alone(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let (one, peer) = (here.end(QpType::Rc), there.end(QpType::Rc));
    let other =
        here.end_of(QueuePair::new(&here.device, &here.init(QpType::Rc, &one.cq)).unwrap(), one.cq.clone());
    let other_peer = there.end(QpType::Rc);
    connect_ends(&one, &peer);
    connect_ends(&other, &other_peer);
    for n in 0..4 {
        peer.receive(n, 0, 8);
        other_peer.receive(n, 0, 8);
        one.send(10 + n, 0, 8);
        other.send(20 + n, 0, 8);
        peer.done(n);
        other_peer.done(n);
    }
    set_state(&one.qp, QpState::Reset);
    for n in 20..24 {
        other.done(n);
    }
    assert_eq!(other.try_poll(), None);
    assert_eq!(one.qp.send_room(), 16);
}
