//! Pollers to which nothing comes yet, while other threads want the processors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::Instant;

use softrdma::rules::verbs::QpType;
use softrdma_testing::device::*;

/// How often the calling thread slept; giving way to a thread that waits for the same processor does not count.
fn sleeps() -> i64 {
    // SAFETY: all zeros are a `rusage`, and there is room for one.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nvcsw
    }
}

/// Processors of the machine, of which this process may have fewer.
fn processors() -> i64 {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }
}

#[test]
fn who_polls_in_vain_sleeps_while_others_want_the_processors() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let end = node.end(QpType::Rc);
    let ended = AtomicBool::new(false);
    scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let (before, until) = (sleeps(), Instant::now() + GUARD);
        // More than what other locks of this process make the thread wait for.
        while sleeps() < before + 100 && Instant::now() < until {
            for _ in 0..1000 {
                assert!(end.try_poll().is_none());
            }
        }
        ended.store(true, Ordering::Relaxed);
        assert!(sleeps() >= before + 100);
    });
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
