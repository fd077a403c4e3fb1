//! A message to another host and its acknowledgement, in one thread: a network namespace for each side, and
//! no processor waits for the other. `between_hosts [ROUNDS]` says what one takes in nanoseconds, the
//! kernel's part included.

#[path = "../tests/far/hosts.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod hosts;

use std::time::{Duration, Instant};

use softrdma::device::Wr;
use softrdma::rules::verbs::{Opcode, QpType, SendFlags};
use softrdma_testing::device::*;

use hosts::{connected, with_hosts};

/// Sends a message, which asks for a completion, as `ib_send_lat` does.
fn send(end: &End) {
    let sges = [end.sge(0, 8)];
    end.qp.post_send(&Wr { flags: SendFlags::SIGNALED, ..wr(1, Opcode::Send, &sges) }).unwrap();
}

/// Takes a message, and that the own one before it has arrived.
fn take(end: &End, completions: usize) {
    for _ in 0..completions {
        while end.try_poll().is_none() {}
    }
}

fn main() {
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let rounds: u32 = words.first().map_or(20_000, |word| word.parse().expect("a number of rounds"));
    with_hosts(|hosts| {
        let ends = connected(hosts, QpType::Rc);
        let [one, other] = [&ends[0].1, &ends[1].1];
        // The threads see that the program polls.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            assert!(one.try_poll().is_none() && other.try_poll().is_none());
        }
        for end in [one, other] {
            end.receive(1, 8, 8);
        }
        send(one);
        take(other, 1);
        let began = Instant::now();
        for (this, that) in [(other, one), (one, other)].into_iter().cycle().take(rounds as usize) {
            this.receive(1, 8, 8);
            send(this);
            take(that, 2);
        }
        println!("{}", began.elapsed().as_nanos() / u128::from(rounds));
    });
}
