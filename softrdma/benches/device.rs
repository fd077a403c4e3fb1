//! What messages cost, in nanoseconds: `cargo bench -p softrdma --bench device`. Two processes need a processor
//! each.

use std::io::{Read, Write};

use softrdma::rules::requester::Outcome;
use softrdma::rules::verbs::QpType;
use softrdma_testing::raw_qp::{Dir, RawQp, pair};
use softrdma_testing::timing::{passed, timed};

const ROUNDS: usize = 19;

/// Nanoseconds of processor time that this thread had, so that other programs count for less.
fn spent() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

/// Nanoseconds per turn, by a clock: median and best of the rounds.
fn median(clock: fn() -> f64, turns: u32, mut work: impl FnMut()) -> (f64, f64) {
    timed(ROUNDS, clock, turns, |_| work())
}

fn say(what: &str, (median, best): (f64, f64)) {
    println!("{what:<68} {median:>10.1} ns (best {best:.1})");
}

/// Two ends in two processes, connected: `there` runs in the other and is killed at the end.
fn with_child(dir: &Dir, there: impl FnOnce(RawQp), here: impl FnOnce(RawQp)) {
    let me = dir.endpoint();
    let mut end = RawQp::new(&me, QpType::Rc);
    let (mut numbers, mut told) = std::io::pipe().unwrap();
    // SAFETY: this program has one thread; the child never returns.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: a plain system call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let mut other = RawQp::new(&dir.endpoint(), QpType::Rc);
        other.connect(end.number());
        for wr_id in 0..128 {
            other.receive(wr_id, &[other.sge(0, 4096)]);
        }
        told.write_all(&other.number().to_ne_bytes()).unwrap();
        there(other);
        loop {
            // SAFETY: sleeps until a signal.
            unsafe { libc::pause() };
        }
    }
    let mut number = [0; 4];
    numbers.read_exact(&mut number).unwrap();
    end.connect(u32::from_ne_bytes(number));
    for wr_id in 0..128 {
        end.receive(wr_id, &[end.sge(0, 4096)]);
    }
    here(end);
    // SAFETY: the process is our child; its status is not wanted.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

fn receive(end: &mut RawQp) {
    while end.poll().is_none() {
        std::hint::spin_loop();
    }
    end.receive(1, &[end.sge(0, 4096)]);
}

/// `cargo bench -p softrdma --bench device -- one` leaves out what takes two processes.
fn main() {
    let dir = Dir::new("bench-device");
    for length in [8u32, 64, 192, 4096] {
        let (one, other) = (dir.endpoint(), dir.endpoint());
        let (mut a, mut b) = pair(&one, &other, QpType::Rc);
        let here = [a.sge(0, length)];
        let there = [b.sge(0, length)];
        let what = format!("send {length} bytes, two segments, one process: post to both polls");
        say(
            &what,
            median(spent, 50_000, || {
                b.receive(1, &there);
                assert_eq!(a.send(&here), Outcome::Done(length));
                assert!(a.poll().is_some() && b.poll().is_some());
            }),
        );
        let what = format!("send {length} bytes, two segments, one process: post alone");
        let mut sum = 0.0;
        for _ in 0..1000 {
            for _ in 0..100 {
                b.receive(1, &there);
            }
            let start = spent();
            for _ in 0..100 {
                assert_eq!(a.send(&here), Outcome::Done(length));
            }
            sum += spent() - start;
            while a.poll().is_some() {}
            while b.poll().is_some() {}
        }
        let mean = sum / 100_000.0;
        say(&what, (mean, mean));
    }
    if std::env::args().any(|arg| arg == "one") {
        return;
    }
    for length in [8u32, 64, 192, 4096] {
        with_child(
            &dir,
            |mut end| {
                let here = [end.sge(0, length)];
                loop {
                    receive(&mut end);
                    assert_eq!(end.send(&here), Outcome::Done(length));
                    assert!(end.poll().is_some());
                }
            },
            |mut end| {
                let here = [end.sge(0, length)];
                let what = format!("send {length} bytes, two processes: half a round trip");
                let ns = median(passed, 5_000, || {
                    assert_eq!(end.send(&here), Outcome::Done(length));
                    assert!(end.poll().is_some());
                    receive(&mut end);
                });
                say(&what, (ns.0 / 2.0, ns.1 / 2.0));
            },
        );
        with_child(
            &dir,
            |mut end| loop {
                receive(&mut end);
            },
            |mut end| {
                let here = [end.sge(0, length)];
                let what = format!("send {length} bytes, two processes: post and own completion");
                let ns = median(passed, 5_000, || {
                    while end.send(&here) != Outcome::Done(length) {}
                    assert!(end.poll().is_some());
                });
                say(&what, ns);
            },
        );
    }
}
