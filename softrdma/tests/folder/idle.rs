//! Pollers to which nothing comes, while other threads want the processors.

use std::sync::atomic::{AtomicBool, Ordering};
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
