//! Programs that are interrupted by signals, and that fork, while packets come and go.

use std::sync::atomic::{AtomicU64, Ordering};

use softrdma::rules::verbs::{Opcode, QpType};
use softrdma_testing::child::in_child;
use softrdma_testing::device::*;

use crate::hosts::*;

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// A signal comes every 300 µs, and ends system calls (no `SA_RESTART`).
fn interrupt() {
    let time = libc::timeval { tv_sec: 0, tv_usec: 300 };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the handler adds to a number; structs of integers, for which all zeroes is a value, live across
    // the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
}

/// What a message has.
fn bytes(number: u64) -> Vec<u8> {
    (0..1 + number as usize * 397 % 9000).map(|at| (at as u64 ^ number.wrapping_mul(31)) as u8).collect()
}

/// Messages go both ways, two at a time, and come whole and in order; `between` is done before each.
fn exchange(hosts: &[Host; 2], messages: u64, mut between: impl FnMut(u64, &[(Node, End); 2])) {
    const HALF: usize = 32 << 10;
    let ends = connected(hosts, QpType::Rc);
    for number in 0..messages {
        between(number, &ends);
        let content = bytes(number);
        for (_, end) in &ends {
            end.memory.fill(0, &content);
            end.memory.fill(HALF, &vec![0; content.len()]);
            end.receive(number, HALF, content.len());
        }
        let (_, one) = &ends[0];
        for (_, end) in &ends {
            end.send(number, 0, content.len());
        }
        for (_, end) in &ends {
            for _ in 0..2 {
                end.done(number);
            }
            assert_eq!(end.memory.bytes(HALF, content.len()), content, "{number}");
        }
        if number % 8 == 0 {
            let (_, other) = &ends[1];
            let to = (other.memory.addr(0), other.region.rkey);
            one.remote(number, Opcode::RdmaRead, HALF, content.len(), to);
            one.done(number);
            assert_eq!(one.memory.bytes(HALF, content.len()), content, "{number}");
        }
    }
}

#[test]
fn signals_change_nothing() {
    with_hosts(|hosts| {
        interrupt();
        let mut last = 0;
        exchange(hosts, 300, |number, _| {
            if number % 30 == 0 {
                // They come, however fast messages go.
                while SIGNALS.load(Ordering::Relaxed) < last + 3 {
                    std::hint::spin_loop();
                }
                last = SIGNALS.load(Ordering::Relaxed);
            }
        });
    });
}

#[test]
fn children_change_nothing() {
    with_hosts(|hosts| {
        exchange(hosts, 60, |number, ends| {
            // While packets of the one before may come, one that does nothing, or asks for what is not its own.
            let (node, end) = &ends[number as usize % 2];
            let status = in_child(|| {
                if number % 3 > 0 {
                    assert!(!node.device.is_mine());
                    assert!(end.try_send(1, 0, 8).is_err());
                    assert!(end.try_poll().is_none());
                }
                if number % 3 == 2 {
                    end.qp.destroy().unwrap();
                }
            });
            assert_eq!(status, 0);
        });
    });
}
