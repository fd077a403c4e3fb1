//! Many threads and processes at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use softrdma::device::{Attributes, QpInit, QueuePair, SharedReceiveQueue, SrqInit, SrqType};
use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{QpState, QpType, Status, WcOpcode};
use softrdma_testing::device::*;

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
            bring_up(&end.qp, &attributes(peer as u32), QpState::Rts);
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
                bring_up(&mine.qp, &attributes(number), QpState::Rts);
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
            bring_up(&end.qp, &attributes(peer as u32), QpState::Rts);
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
            // A machine that keeps the peer from running breaks the connection before its end.
            child.kill();
            child.wait();
            end.qp.destroy().unwrap();
        }
    });
    assert!(poll(&cq).is_none());
}

#[test]
fn a_shared_queue_loses_nothing_when_senders_are_killed() {
    const REQUESTS: u64 = 32;
    let folder = Folder::new();
    let node = Node::new(&folder);
    let cq = node.cq(256, None, 0);
    let init = SrqInit {
        pd: node.pd,
        srq_type: SrqType::Basic,
        max_wr: REQUESTS as u32,
        max_sge: 1,
        xrcd: None,
        cq: None,
        events: node.events.clone(),
        cookie: 3,
    };
    let srq = SharedReceiveQueue::new(&node.device, &init).unwrap();
    let init = QpInit { srq: Some(srq.clone()), ..node.init(QpType::Rc, &cq) };
    let make = || QueuePair::new(&node.device, &init).unwrap();
    let home = node.end_of(make(), cq.clone());
    let post = |wr_id: u64| post_shared(&srq, wr_id, &home, wr_id as usize * 1024, 1024);
    (0..REQUESTS).for_each(post);
    // Everybody sends for a while; what arrives is posted again.
    let mut received = 0;
    let mut serve = |some: u32| {
        let mut wr_ids = Vec::new();
        for _ in 0..some {
            cq.poll(16, &mut |completion| {
                if completion.status == Status::Success {
                    received += 1;
                }
                wr_ids.push(completion.wr_id);
            });
            wr_ids.drain(..).for_each(post);
        }
    };
    for round in 0..6 {
        let senders: Vec<_> = (0..3)
            .map(|_| {
                let (qp, words) = (make(), Words::new());
                let number = qp.qp_num();
                let child = Child::run(|| {
                    let own = Node::new(&folder);
                    let mine = own.end(QpType::Rc);
                    let patient = Attributes { rnr_retry: 7, ..attributes(number) };
                    bring_up(&mine.qp, &patient, QpState::Rts);
                    words.put(1, &[u64::from(mine.qp.qp_num())]);
                    for n in 0.. {
                        let _ = mine.try_send(n, 0, 300);
                        let _ = mine.try_poll();
                    }
                });
                let [peer] = words.get(0);
                bring_up(&qp, &attributes(peer as u32), QpState::Rts);
                (qp, child)
            })
            .collect();
        serve(2000 + 777 * round);
        for (qp, child) in senders {
            child.kill();
            child.wait();
            if round % 2 == 0 {
                set_state(&qp, QpState::Err);
            }
            serve(100);
            qp.destroy().unwrap();
            serve(1);
        }
    }
    assert!(received > 100, "{received} messages");
    // All requests are there: so many messages find one each, and the next finds none.
    let last = node.end(QpType::Rc);
    let qp = make();
    set_state(&home.qp, QpState::Reset);
    connect(&last.qp, &qp);
    let mut seen: Vec<u64> = (0..REQUESTS)
        .map(|n| {
            last.send(n, 0, 8);
            last.done(n);
            let completion = poll_soon(&cq);
            assert_eq!(completion.status, Status::Success);
            completion.wr_id
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..REQUESTS).collect::<Vec<_>>());
    last.send(0, 0, 8);
    assert!(last.try_poll().is_none());
}

/// A peer that sends and then goes is seen to go after its message: programs that poll, find nothing, and then
/// hear that the connection has ended drop what they have not polled (libfabric's rxm does).
#[test]
fn a_poll_that_gave_way_takes_what_came_meanwhile() {
    const ROUNDS: u64 = 60;
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&one.qp, &other.qp);
    let (begun, gone) = (AtomicU64::new(0), AtomicU64::new(0));
    // On one processor the sender runs while the other one gives way.
    let late = std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on_one_processor();
            for n in 0..ROUNDS {
                while begun.load(Ordering::Acquire) <= n {
                    std::thread::yield_now();
                }
                one.send(n, 0, 8);
                gone.store(n + 1, Ordering::Release);
                one.done(n);
            }
        });
        let receiver = scope.spawn(|| {
            stay_on_one_processor();
            let mut late = 0;
            for n in 0..ROUNDS {
                other.receive(n, 0, 8);
                begun.store(n + 1, Ordering::Release);
                let found = loop {
                    let found = other.try_poll();
                    if found.is_some() || gone.load(Ordering::Acquire) > n {
                        break found;
                    }
                };
                if found.is_none() {
                    late += 1;
                    other.done(n);
                }
            }
            late
        });
        receiver.join().unwrap()
    });
    // Where the kernel takes the processor away between the poll and the look, nobody can help.
    assert!(late < ROUNDS / 4, "{late} of {ROUNDS} messages were seen after their sender had gone");
}

fn stay_on_one_processor() {
    // SAFETY: an all-zero set is empty; both calls get a set of its size.
    unsafe {
        let mut own: libc::cpu_set_t = core::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&own), &raw mut own), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &own)).unwrap();
        let mut one: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
    }
}
