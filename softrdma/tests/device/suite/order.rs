//! Small messages of a connection, which need no lock of their target, among requests that do.

use softrdma::device::{Channel, QpInit, QueuePair};
use softrdma::rules::request::{Operands, Rejected};
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{near, pair};
use softrdma_testing::filter::die_at_bells;

/// Bytes of a receive request's memory, and of a message that does not go by a direct ring.
const LONG: usize = 1024;

#[test]
fn a_connection_that_breaks_flushes_what_no_message_took() {
    // As many reads between the messages and what breaks it, so that it is told or known how many came before.
    for reads in 0..3 {
        let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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

#[test]
fn requests_that_take_a_receive_request_and_others_come_in_order() {
    let (_folder, _nodes, one, other) = pair(near, QpType::Rc);
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
fn requests_are_posted_while_nobody_polls_as_many_by_either_way() {
    const COUNT: usize = 15;
    // By the ring; by the locks.
    for length in [8, LONG] {
        let folder = Folder::new();
        let node = Node::new(&folder);
        let one = node.end(QpType::Rc);
        let (sends, receives) = (node.cq(64, None, 1), node.cq(512, None, 2));
        let mut init = QpInit { recv_cq: Some(receives.clone()), ..node.init(QpType::Rc, &sends) };
        init.cap.max_recv_wr = COUNT as u32;
        let other = node.end_of(QueuePair::new(&node.device, &init).unwrap(), receives);
        connect(&one.qp, &other.qp);
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

#[test]
fn datagrams_go_to_whom_they_are_for_whatever_ring_was_found() {
    let (_folder, [node, _], a, b) = pair(near, QpType::Ud);
    // Queue pairs that say they are connected to the datagram queue pair, one in each place where it keeps
    // ways.
    let claims: Vec<_> = (0..70).map(|_| node.end(QpType::Rc)).collect();
    for t in &claims {
        bring_up(&t.qp, &attributes(a.qp.qp_num()), QpState::Rts);
        t.receive(1, 0, 64);
        t.receive(2, 64, 64);
    }
    for t in &claims {
        a.datagram(1, t.qp.qp_num(), 0, 8);
        a.done(1);
        b.receive(3, 0, 128);
        a.datagram(2, b.qp.qp_num(), 0, 8);
        a.done(2);
        assert_eq!(t.try_poll(), None);
        b.done(3);
    }
}

#[test]
fn an_unreliable_queue_pair_does_not_reach_a_reliable_one_by_a_ring() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (u, t) = (node.end(QpType::Uc), node.end(QpType::Rc));
    bring_up(&u.qp, &attributes(t.qp.qp_num()), QpState::Rts);
    bring_up(&t.qp, &attributes(u.qp.qp_num()), QpState::Rts);
    (0..4).for_each(|n| t.receive(n, 256 * n as usize, 64));
    for n in 0..3 {
        u.send(n, 0, 8);
        u.done(n);
    }
    assert_eq!(t.try_poll(), None);
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
