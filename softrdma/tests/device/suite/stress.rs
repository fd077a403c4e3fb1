//! Many threads at once.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::{QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pair};

super::suite! {
    stress:
    threads_do_not_disturb_each_other,
    queues_are_resized_under_way,
    requests_that_are_posted_while_their_queue_pair_breaks_are_flushed,
}

/// A message of its own for each number.
fn content(n: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (n.wrapping_mul(31) + at * 7) as u8).collect()
}

fn length(n: u64) -> usize {
    (n.wrapping_mul(2_654_435_761) % 700) as usize
}

/// Sends `count` messages to a receiver that keeps `window` requests posted; both may run anywhere.
pub fn send_all(end: &End, count: u64, window: u64) {
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

pub fn receive_all(end: &End, count: u64, window: u64) {
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

pub fn threads_do_not_disturb_each_other(carrier: Carrier) {
    let fabric = carrier();
    let [here, there] = fabric.pair();
    let pairs: Vec<_> = (0..3).map(|_| (here.end(QpType::Rc), there.end(QpType::Rc))).collect();
    for (one, other) in &pairs {
        connect_ends(one, other);
    }
    std::thread::scope(|s| {
        for (one, other) in &pairs {
            s.spawn(|| send_all(one, 3000, 16));
            s.spawn(|| receive_all(other, 3000, 8));
        }
    });
}

pub fn queues_are_resized_under_way(carrier: Carrier) {
    let (_fabric, _nodes, one, other) = pair(carrier, QpType::Rc);
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

// rule: flush-all
pub fn requests_that_are_posted_while_their_queue_pair_breaks_are_flushed(carrier: Carrier) {
    const ROUNDS: u32 = 3000;
    let fabric = carrier();
    let node = fabric.open(0);
    let end = node.end(QpType::Rc);
    // Rounds that were begun, and posts that were made.
    let (begun, posted) = (AtomicU32::new(0), AtomicU32::new(0));
    let until = |count: &AtomicU32, n: u32| {
        while count.load(Ordering::Acquire) < n {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                until(&begun, round);
                // Now earlier, now later than the other side.
                (0..round % 100).for_each(|_| spin_loop());
                end.receive(round.into(), 0, 8);
                posted.store(round, Ordering::Release);
            }
        });
        for round in 1..=ROUNDS {
            bring_up(&end.qp, &attributes_at(node.gid, 77), QpState::Rts);
            begun.store(round, Ordering::Release);
            set_state(&end.qp, QpState::Err);
            until(&posted, round);
            let completion = end.poll();
            assert_eq!((completion.wr_id, completion.status), (round.into(), Status::WrFlushErr));
            set_state(&end.qp, QpState::Reset);
        }
    });
}
