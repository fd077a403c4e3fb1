//! What the engine's calls cost, in nanoseconds: `cargo bench -p softrdma --bench engine`.

use std::time::Instant;

use softrdma::device::Wr;
use softrdma::rules::verbs::{Opcode, QpType, SendFlags};
use softrdma_testing::device::*;
use softrdma_testing::timing::median;

fn say(what: &str, ns: f64) {
    println!("{what:<60} {ns:>10.1} ns");
}

fn main() {
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (one, other) = (node.end(QpType::Rc), node.end(QpType::Rc));
    connect(&one.qp, &other.qp);
    say("empty poll", median(1_000_000, || assert!(one.try_poll().is_none())));
    // Of the silent ones, some ask for a completion and so give the places of all back.
    for (what, every) in [("signalled", 1), ("silent", 8)] {
        let mut sent = 0;
        for length in [8, 64, 192, 4096] {
            let sges = [one.sge(0, length)];
            let ns = median(50_000, || {
                other.receive(2, 0, 8192);
                sent += 1;
                let flags = if sent % every == 0 { SendFlags::SIGNALED } else { SendFlags::NONE };
                one.qp.post_send(&Wr { flags, ..wr(1, Opcode::Send, &sges) }).unwrap();
                assert!(other.try_poll().is_some());
                assert_eq!(one.try_poll().is_some(), sent % every == 0);
            });
            say(&format!("receive, send {length} bytes {what}, poll both"), ns);
        }
    }
    let (mut receive, mut send, mut poll_one, mut poll_other) = (0, 0, 0, 0);
    const TURNS: u32 = 20_000;
    let sges = [one.sge(0, 8)];
    let request = wr(1, Opcode::Send, &sges);
    for _ in 0..TURNS {
        let start = Instant::now();
        (0..10).for_each(|_| other.receive(2, 0, 64));
        let received = Instant::now();
        (0..10).for_each(|_| one.qp.post_send(&request).unwrap());
        let sent = Instant::now();
        (0..10).for_each(|_| assert!(other.try_poll().is_some()));
        let polled = Instant::now();
        (0..10).for_each(|_| assert!(one.try_poll().is_some()));
        let end = Instant::now();
        receive += (received - start).as_nanos();
        send += (sent - received).as_nanos();
        poll_other += (polled - sent).as_nanos();
        poll_one += (end - polled).as_nanos();
    }
    let each = |ns: u128| ns as f64 / f64::from(10 * TURNS);
    say("post a receive request", each(receive));
    say("post a signalled send of 8 bytes", each(send));
    say("poll a receive completion with its payload", each(poll_other));
    say("poll a send completion", each(poll_one));
}
