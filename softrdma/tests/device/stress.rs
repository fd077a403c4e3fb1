//! Many threads and processes at once.

use std::sync::atomic::{AtomicBool, Ordering};

use softrdma::core::request::Rejected;
use softrdma::core::verbs::{QpType, Status, WcOpcode};
use softrdma::device::QueuePair;

use crate::common::*;

/// A message of its own for each number.
fn content(n: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (n.wrapping_mul(31) + at * 7) as u8).collect()
}

fn length(n: u64) -> usize {
    (n.wrapping_mul(2_654_435_761) % 700) as usize
}

/// Sends `count` messages to a receiver that keeps `window` requests posted; both may run anywhere.
fn send_all(end: &End, count: u64, window: u64) {
    let mut done = 0;
    for n in 0..count {
        while n - done >= window {
            end.done(done);
            done += 1;
        }
        let offset = (n % window) as usize * 1024;
        end.memory.fill(offset, &content(n, length(n)));
        while end.try_send(n, offset, length(n)) == Err(Rejected::Full) {
            end.done(done);
            done += 1;
        }
    }
    for n in done..count {
        end.done(n);
    }
}

fn receive_all(end: &End, count: u64, window: u64) {
    let post = |n: u64| end.receive(n, (n % window) as usize * 1024, 1024);
    (0..window.min(count)).for_each(post);
    for n in 0..count {
        let completion = end.done(n);
        assert_eq!(completion.byte_len as usize, length(n));
        assert_eq!(end.memory.bytes((n % window) as usize * 1024, length(n)), content(n, length(n)));
        if n + window < count {
            post(n + window);
        }
    }
}

#[test]
fn threads_do_not_disturb_each_other() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let pairs: Vec<_> = (0..3).map(|_| (node.end(QpType::Rc), node.end(QpType::Rc))).collect();
    for (one, other) in &pairs {
        connect(&one.qp, &other.qp);
    }
    std::thread::scope(|s| {
        for (one, other) in &pairs {
            s.spawn(|| send_all(one, 3000, 16));
            s.spawn(|| receive_all(other, 3000, 8));
        }
    });
}

#[test]
fn queues_are_resized_under_way() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&one.qp, &other.qp);
    let ended = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            for size in (20..60).cycle() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                other.cq.resize(size * 8).unwrap();
                one.cq.resize(size * 8).unwrap();
                std::thread::yield_now();
            }
        });
        s.spawn(|| send_all(&one, 3000, 16));
        receive_all(&other, 3000, 8);
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn both_ways_between_processes() {
    let folder = Folder::new();
    let words = Words::new();
    let run = |side: usize| {
        let node = Node::new(&folder);
        let ends = [node.end(QpType::Rc), node.end(QpType::Rc)];
        words.put(side, &[u64::from(ends[0].qp.qp_num()), u64::from(ends[1].qp.qp_num())]);
        let [first, second] = words.get(side);
        // The first of one side talks to the second of the other.
        for (end, peer) in ends.iter().zip([second, first]) {
            bring_up(&end.qp, &attributes(peer as u32), softrdma::core::verbs::QpState::Rts);
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

#[test]
fn peers_that_are_killed_disturb_nobody_else() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let cq = node.cq(1024, None, 0);
    let steady = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&steady.0.qp, &steady.1.qp);
    std::thread::scope(|s| {
        s.spawn(|| send_all(&steady.0, 2000, 16));
        s.spawn(|| receive_all(&steady.1, 2000, 8));
        for round in 0..5 {
            let words = Words::new();
            let qp = QueuePair::new(&node.device, &node.init(QpType::Rc, &cq)).unwrap();
            let end = node.end_of(qp, cq.clone());
            let number = end.qp.qp_num();
            let child = Child::run(|| {
                let own = Node::new(&folder);
                let mine = own.end(QpType::Rc);
                bring_up(&mine.qp, &attributes(number), softrdma::core::verbs::QpState::Rts);
                (0..16).for_each(|n| mine.receive(n, 0, 1024));
                words.put(1, &[u64::from(mine.qp.qp_num())]);
                for n in 0.. {
                    let _ = mine.try_send(n, 2048, 500);
                    if let Some(completion) = mine.try_poll()
                        && completion.opcode == WcOpcode::Recv
                    {
                        mine.receive(n, 0, 1024);
                    }
                }
            });
            let [peer] = words.get(0);
            bring_up(&end.qp, &attributes(peer as u32), softrdma::core::verbs::QpState::Rts);
            (0..16).for_each(|n| end.receive(n, 0, 1024));
            let mut failed = None;
            for n in 0.. {
                let _ = end.try_send(n, 2048, 500);
                if n == 200 + 100 * round {
                    child.kill();
                }
                match end.try_poll() {
                    Some(completion) if completion.status == Status::RetryExcErr => {
                        failed = Some(completion.status);
                        break;
                    }
                    Some(completion) if completion.opcode == WcOpcode::Recv => end.receive(n, 0, 1024),
                    _ => {}
                }
            }
            assert_eq!(failed, Some(Status::RetryExcErr));
            child.wait();
            end.qp.destroy().unwrap();
        }
    });
    assert!(poll(&cq).is_none());
}
