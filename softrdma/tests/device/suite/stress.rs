//! Many threads at once.

use std::sync::atomic::{AtomicBool, Ordering};

use softrdma::rules::request::Rejected;
use softrdma::rules::verbs::QpType;
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pair};

super::suite! {
    stress:
    threads_do_not_disturb_each_other,
    queues_are_resized_under_way,
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
