//! Connections between processes.

use std::time::Instant;

use softrdma::device::{Attributes, Channel, CompletionCounter, Counted, Operations, QueuePair, Wr};
use softrdma::rules::qp::attributes as table;
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Attr, Opcode, QpState, QpType, Status, WcFlags};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, between};
use softrdma_testing::holes::{Holey, PAGE};

use super::stress::{receive_all, send_all};

super::suite! {
    processes:
    ping_pong,
    remote_memory_of_another_process,
    a_sleeper_is_woken_by_another_process,
    a_peer_that_is_not_connected_yet_is_waited_for,
    a_peers_messages_are_counted,
    both_ways_between_processes,
    holes_between_processes,
}

pub fn ping_pong(carrier: Carrier) {
    const ROUNDS: u64 = 2000;
    between(
        carrier,
        QpType::Rc,
        |_, end, words| {
            for n in 0..ROUNDS {
                let length = (n as usize * 37) % 3000;
                end.receive(n, 0, 4000);
                words.put(1, &[n]);
                assert_eq!(end.done(n).byte_len as usize, length);
                end.send(n, 0, length);
                end.done(n);
            }
            words.get::<1>(1);
        },
        |_, end, words, _| {
            for n in 0..ROUNDS {
                let length = (n as usize * 37) % 3000;
                let data: Vec<u8> = (0..length).map(|at| (at as u64 * 3 + n) as u8).collect();
                end.memory.fill(0, &data);
                end.receive(n, 5000, 4000);
                words.get::<1>(0);
                end.send(n, 0, length);
                let mut seen = [end.poll(), end.poll()];
                seen.sort_by_key(|completion| completion.opcode);
                assert!(
                    seen.iter()
                        .all(|completion| (completion.wr_id, completion.status) == (n, Status::Success))
                );
                assert_eq!(end.memory.bytes(5000, length), data);
            }
        },
    );
}

pub fn remote_memory_of_another_process(carrier: Carrier) {
    between(
        carrier,
        QpType::Rc,
        |_, end, words| {
            end.memory.fill(0, &[9; 10_000]);
            end.memory.fill(16, &41u64.to_ne_bytes());
            words.put(1, &[end.memory.addr(0), u64::from(end.region.rkey)]);
            end.receive(1, 0, 0);
            let completion = end.done(1);
            assert_eq!((completion.flags, completion.imm_or_key), (WcFlags::WITH_IMM, 5));
            assert_eq!(end.memory.bytes(20_000, 5000), [3; 5000]);
            assert_eq!(end.memory.word(16), 42);
            words.put(1, &[1]);
            words.get::<1>(1);
        },
        |_, end, words, _| {
            let [addr, rkey] = words.get(0);
            let rkey = rkey as u32;
            end.remote(1, Opcode::RdmaRead, 0, 10_000, (addr + 1000, rkey));
            end.done(1);
            assert_eq!(end.memory.bytes(0, 9000), [9; 9000]);
            let operands = Operands::Atomic { addr: addr + 16, rkey, compare_add: 1, swap: 0 };
            end.qp.post_send(&Wr { operands, ..wr(2, Opcode::FetchAndAdd, &[end.sge(0, 8)]) }).unwrap();
            end.done(2);
            assert_eq!(end.memory.word(0), 41);
            end.memory.fill(0, &[3; 5000]);
            let operands = Operands::Remote { addr: addr + 20_000, rkey, length: 5000 };
            let sges = [end.sge(0, 5000)];
            let write = Wr { operands, imm_or_key: 5, ..wr(3, Opcode::RdmaWriteWithImm, &sges) };
            end.qp.post_send(&write).unwrap();
            end.done(3);
            assert_eq!(words.get(0), [1]);
        },
    );
}

pub fn a_sleeper_is_woken_by_another_process(carrier: Carrier) {
    between(
        carrier,
        QpType::Rc,
        |node, end, words| {
            let channel = Channel::new(&node.device).unwrap();
            let cq = node.cq(16, Some(&channel), 5);
            let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
            let other = node.end_of(qp, cq);
            words.connect_ends(1, &other);
            let _ = end;
            for n in 0..100 {
                other.receive(n, 0, 8);
                other.cq.arm(false).unwrap();
                words.put(1, &[n]);
                assert_eq!(channel.next().unwrap(), 5);
                other.done(n);
            }
            words.put(1, &[7]);
            words.get::<1>(1);
        },
        |node, _, words, _| {
            let end = node.end(QpType::Rc);
            words.connect_ends(0, &end);
            for n in 0..100 {
                words.get::<1>(0);
                end.send(n, 0, 8);
                end.done(n);
            }
            assert_eq!(words.get(0), [7]);
        },
    );
}

pub fn a_peer_that_is_not_connected_yet_is_waited_for(carrier: Carrier) {
    let fabric = carrier();
    let words = Words::new();
    let child = Child::run(|| {
        let node = fabric.open(1);
        let end = node.end(QpType::Rc);
        let to = words.exchange(1, &end);
        // It has been sent to.
        words.get::<1>(1);
        end.qp.post_receive(1, &[]).unwrap_err();
        bring_up(&end.qp, &to, QpState::Init);
        end.receive(1, 0, 8);
        let (required, _) = table(QpType::Rc, QpState::Init, QpState::Rtr).unwrap();
        let rtr = Attributes { state: QpState::Rtr, ..to };
        end.qp.modify(required.union(Attr::STATE), &rtr).unwrap();
        end.done(1);
    });
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    let to = words.exchange(0, &end);
    // Patience for as long as the other side may take; who polls tries again at each poll.
    bring_up(&end.qp, &Attributes { timeout: 24, ..to }, QpState::Rts);
    end.send(1, 0, 8);
    assert_eq!(end.try_poll(), None);
    words.put(0, &[0]);
    end.done(1);
    assert_eq!(child.wait(), 0);
}

/// The count comes without a poll of the program's, from a process that sends by itself.
pub fn a_peers_messages_are_counted(carrier: Carrier) {
    const COUNT: u64 = 500;
    let fabric = carrier();
    let words = Words::new();
    let child = Child::run(|| {
        let node = fabric.open(1);
        let end = node.end(QpType::Rc);
        bring_up(&end.qp, &words.exchange(1, &end), QpState::Rts);
        words.get::<1>(1);
        for n in 0..COUNT {
            end.send(n, 0, if n % 3 == 0 { 5000 } else { 100 });
            assert_eq!(end.poll().status, Status::Success);
        }
        words.get::<1>(1);
    });
    let node = fabric.open(0);
    let cq = node.cq(1024, None, 1);
    let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
    let end = node.end_of(qp, cq);
    let receives = CompletionCounter::new(&node.device, Counted::Requests).unwrap();
    end.qp.attach_counter(&receives, Operations::RECV).unwrap();
    bring_up(&end.qp, &words.exchange(0, &end), QpState::Rts);
    words.put(0, &[0]);
    let (mut posted, start) = (0, Instant::now());
    while receives.done() < COUNT {
        while posted < COUNT && posted < receives.done() + 16 {
            end.receive(posted, 0, 5000);
            posted += 1;
        }
        assert!(start.elapsed() < GUARD);
    }
    for n in 0..COUNT {
        end.done(n);
    }
    assert_eq!((receives.done(), receives.failed()), (COUNT, 0));
    words.put(0, &[0]);
    assert_eq!(child.wait(), 0);
}

pub fn both_ways_between_processes(carrier: Carrier) {
    let fabric = carrier();
    let words = Words::new();
    let run = |side: usize| {
        let node = fabric.open(side);
        let ends = [node.end(QpType::Rc), node.end(QpType::Rc)];
        let [first, second] = [0, 1].map(|n| words.exchange(side, &ends[n]));
        // The first of one side talks to the second of the other.
        for (end, peer) in ends.iter().zip([second, first]) {
            bring_up(&end.qp, &peer, QpState::Rts);
        }
        std::thread::scope(|s| {
            s.spawn(|| send_all(&ends[0], 4000, 16));
            receive_all(&ends[1], 4000, 12);
        });
        words.put(side, &[0]);
        words.get::<1>(side);
    };
    let child = Child::run(|| run(1));
    run(0);
    assert_eq!(child.wait(), 0);
}

pub fn holes_between_processes(carrier: Carrier) {
    let fabric = carrier();
    let words = Words::new();
    // Each message breaks its connection.
    const TRIES: [(Opcode, u64); 6] = [
        (Opcode::Send, 8),
        (Opcode::Send, 5000),
        (Opcode::RdmaWrite, 8),
        (Opcode::RdmaRead, 8),
        (Opcode::AtomicWrite, 8),
        (Opcode::FetchAndAdd, 8),
    ];
    let target = Child::run(|| {
        // SAFETY: plain system call; the other side would wait for one that failed.
        unsafe { libc::alarm(300) };
        let node = fabric.open(1);
        for (opcode, _) in TRIES {
            let here = Holey::new(&node, QpType::Rc);
            bring_up(&here.end.qp, &words.exchange(1, &here.end), QpState::Rts);
            here.end.qp.post_receive(1, &[here.sge(PAGE, PAGE), here.end.sge(0, 4096)]).unwrap();
            words.put(1, &[here.pages.0 + PAGE, u64::from(here.lkey)]);
            if opcode == Opcode::Send {
                assert_eq!(here.end.poll().status, Status::LocProtErr);
            }
            while !readable(words.fd(1), 0) {
                here.end.try_poll();
            }
            words.get::<1>(1);
        }
    });
    let node = fabric.open(0);
    for (opcode, length) in TRIES {
        let end = node.end(QpType::Rc);
        let to = words.exchange(0, &end);
        let [addr, rkey] = words.get(0);
        let rkey = rkey as u32;
        bring_up(&end.qp, &Attributes { timeout: 20, ..to }, QpState::Rts);
        let operands = match opcode {
            Opcode::Send => Operands::None,
            Opcode::FetchAndAdd => Operands::Atomic { addr, rkey, compare_add: 1, swap: 0 },
            _ => Operands::Remote { addr, rkey, length },
        };
        let sges = [end.sge(0, length as usize)];
        end.qp.post_send(&Wr { operands, ..wr(1, opcode, &sges) }).unwrap();
        let expected = if opcode == Opcode::Send { Status::RemOpErr } else { Status::RemAccessErr };
        assert_eq!(end.poll().status, expected, "{opcode:?}");
        words.put(0, &[0]);
    }
    assert_eq!(target.wait(), 0);
}
