//! A message to another host and its acknowledgement, in one thread: a network namespace for each side, and
//! no processor waits for the other. `between_hosts [ROUNDS [shared]]` says what one takes in nanoseconds, the
//! kernel's part included; `shared`: it arrives for a shared receive queue.

#[path = "../tests/far/hosts.rs"]
#[expect(dead_code, reason = "the tests use all of it")]
mod hosts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use softrdma::device::{QpInit, QueuePair, SharedReceiveQueue, Wr};
use softrdma::rules::verbs::{Opcode, QpType, SendFlags};
use softrdma_testing::device::*;

use hosts::{Host, join, with_hosts};

/// A queue pair of a host, and the shared receive queue that it has, if it does.
struct Side {
    _node: Node,
    end: End,
    srq: Option<Arc<SharedReceiveQueue>>,
}

impl Side {
    fn new(host: &Host, is_shared: bool) -> Self {
        let node = host.node();
        let srq = is_shared.then(|| node.shared_queue(16));
        let cq = node.cq(64, None, 1);
        let init = QpInit { srq: srq.clone(), ..node.init(QpType::Rc, &cq) };
        let end = node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq);
        Self { _node: node, end, srq }
    }

    fn receive(&self) {
        match &self.srq {
            Some(srq) => post_shared(srq, 1, &self.end, 8, 8),
            None => self.end.receive(1, 8, 8),
        }
    }
}

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
    let is_shared = words.get(1).is_some_and(|word| word == "shared");
    with_hosts(|hosts| {
        let sides = [&hosts[0], &hosts[1]].map(|host| Side::new(host, is_shared));
        let [one, other] = [&sides[0].end, &sides[1].end];
        join(hosts, [one, other]);
        // The threads see that the program polls.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            assert!(one.try_poll().is_none() && other.try_poll().is_none());
        }
        for side in &sides {
            side.receive();
        }
        send(one);
        take(other, 1);
        let began = Instant::now();
        for (this, that) in [(1, 0), (0, 1)].into_iter().cycle().take(rounds as usize) {
            sides[this].receive();
            send(&sides[this].end);
            take(&sides[that].end, 2);
        }
        println!("{}", began.elapsed().as_nanos() / u128::from(rounds));
    });
}
