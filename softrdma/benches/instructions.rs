//! One kind of call, again and again: `bench/soft/instructions` counts what it costs in instructions, which is
//! the same on a busy machine.
//!
//! `instructions KIND ROUNDS`; without arguments, the kinds. Each round is [`EACH`] calls. Two devices in one
//! process, each with a segment of its own, as two processes have them.

use std::hint::black_box;
use std::sync::Arc;

use softrdma::device::{Datagram, QueuePair, SharedReceiveQueue, SrqInit, SrqType, Wr};
use softrdma::rules::verbs::{Opcode, QpType, SendFlags};
use softrdma_testing::device::*;

/// Calls, or messages, of a round.
const EACH: usize = 10;

/// What is counted: instructions below this function.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    black_box(work)();
}

struct Pair {
    one: End,
    other: End,
    srq: Option<Arc<SharedReceiveQueue>>,
    _folder: Folder,
}

impl Pair {
    fn receive(&self) {
        for _ in 0..EACH {
            match &self.srq {
                Some(srq) => post_shared(srq, 2, &self.other, 0, 256),
                None => self.other.receive(2, 0, 256),
            }
        }
    }

    fn send(&self, bytes: usize, flags: impl Fn(usize) -> SendFlags, together: bool) {
        let sges = [self.one.sge(0, bytes)];
        let datagram = (self.one.qp.qp_type() == QpType::Ud).then_some(Datagram {
            qp_num: self.other.qp.qp_num(),
            qkey: QKEY,
            grh: &[0x60; 40],
            dgid: GID,
            route: None,
        });
        let request = |n| Wr { flags: flags(n), datagram, ..wr(1, Opcode::Send, &sges) };
        if !together {
            (0..EACH).for_each(|n| self.one.qp.post_send(&request(n)).unwrap());
            return;
        }
        let mut sending = self.one.qp.sending();
        for n in 0..EACH {
            sending.post_one(&request(n)).unwrap();
        }
    }

    /// A round of messages that wait for who polls.
    fn bring(&self, bytes: usize) {
        self.receive();
        self.send(bytes, now_and_then, false);
        self.take(&self.one, 1);
    }

    fn remote(&self, opcode: Opcode, length: usize) {
        for n in 0..EACH {
            let to = (self.other.memory.addr(0), self.other.region.rkey);
            self.one.remote(n as u64, opcode, 0, length, to);
        }
    }

    fn take_together(&self, end: &End, count: usize) {
        assert_eq!(
            end.cq.poll(count as u32, &mut |completion| {
                black_box(completion);
            }),
            count as u32
        );
    }

    fn take(&self, end: &End, count: usize) {
        (0..count).for_each(|_| assert!(end.try_poll().is_some()));
    }
}

/// As most programs ask for completions: now and then.
fn now_and_then(n: usize) -> SendFlags {
    if n == EACH - 1 { SendFlags::SIGNALED } else { SendFlags::NONE }
}

fn always(_: usize) -> SendFlags {
    SendFlags::SIGNALED
}

fn pair(qp_type: QpType, shared: bool) -> Pair {
    let folder = Folder::new();
    let (near, far) = (Node::new(&folder), Node::new(&folder));
    let one = near.end(qp_type);
    let srq = shared.then(|| {
        let init = SrqInit {
            srq_type: SrqType::Basic,
            pd: far.pd,
            max_wr: 16,
            max_sge: 1,
            xrcd: None,
            cq: None,
            events: far.events.clone(),
            cookie: 1,
        };
        SharedReceiveQueue::new(&far.device, &init).unwrap()
    });
    let cq = far.cq(64, None, 1);
    let init = softrdma::device::QpInit { srq: srq.clone(), ..far.init(qp_type, &cq) };
    let other = far.end_of(QueuePair::new(&far.device, &init).unwrap(), cq);
    connect(&one.qp, &other.qp);
    Pair { one, other, srq, _folder: folder }
}

/// A kind of call: what is done before it, what is counted, what is done after it.
type Kind = (&'static str, QpType, bool, fn(&Pair), fn(&Pair), fn(&Pair));

const NOTHING: fn(&Pair) = |_| {};

/// Takes what is completed after a round of messages that ask for it now and then.
fn completed(pair: &Pair) {
    pair.take(&pair.other, EACH);
    pair.take(&pair.one, 1);
}

const KINDS: &[Kind] = &[
    (
        "empty-poll",
        QpType::Rc,
        false,
        NOTHING,
        |p| {
            (0..EACH).for_each(|_| assert!(p.one.try_poll().is_none()));
        },
        NOTHING,
    ),
    (
        "post-receive",
        QpType::Rc,
        false,
        NOTHING,
        |p| p.receive(),
        |p| {
            p.send(8, now_and_then, false);
            completed(p);
        },
    ),
    ("post-send", QpType::Rc, false, |p| p.receive(), |p| p.send(8, now_and_then, false), completed),
    ("post-send-list", QpType::Rc, false, |p| p.receive(), |p| p.send(8, now_and_then, true), completed),
    (
        "post-send-signalled",
        QpType::Rc,
        false,
        |p| p.receive(),
        |p| p.send(8, always, false),
        |p| {
            p.take(&p.other, EACH);
            p.take(&p.one, EACH);
        },
    ),
    ("post-send-64", QpType::Rc, false, |p| p.receive(), |p| p.send(64, now_and_then, false), completed),
    ("post-send-200", QpType::Rc, false, |p| p.receive(), |p| p.send(200, now_and_then, false), completed),
    ("post-send-shared", QpType::Rc, true, |p| p.receive(), |p| p.send(8, now_and_then, false), completed),
    ("poll-datagram", QpType::Ud, false, |p| p.bring(8), |p| p.take(&p.other, EACH), NOTHING),
    ("poll-datagrams", QpType::Ud, false, |p| p.bring(8), |p| p.take_together(&p.other, EACH), NOTHING),
    ("post-datagram-64", QpType::Ud, false, |p| p.receive(), |p| p.send(64, now_and_then, false), completed),
    ("post-datagram", QpType::Ud, false, |p| p.receive(), |p| p.send(8, now_and_then, false), completed),
    ("poll-receive", QpType::Rc, false, |p| p.bring(8), |p| p.take(&p.other, EACH), NOTHING),
    ("poll-receive-64", QpType::Rc, false, |p| p.bring(64), |p| p.take(&p.other, EACH), NOTHING),
    ("poll-receive-shared", QpType::Rc, true, |p| p.bring(8), |p| p.take(&p.other, EACH), NOTHING),
    (
        "post-receive-shared",
        QpType::Rc,
        true,
        NOTHING,
        |p| p.receive(),
        |p| {
            p.send(8, now_and_then, false);
            completed(p);
        },
    ),
    (
        "poll-send",
        QpType::Rc,
        false,
        |p| {
            p.receive();
            p.send(8, always, false);
            p.take(&p.other, EACH);
        },
        |p| p.take(&p.one, EACH),
        NOTHING,
    ),
    ("read-8", QpType::Rc, false, NOTHING, |p| p.remote(Opcode::RdmaRead, 8), |p| p.take(&p.one, EACH)),
    ("write-8", QpType::Rc, false, NOTHING, |p| p.remote(Opcode::RdmaWrite, 8), |p| p.take(&p.one, EACH)),
    (
        "write-4096",
        QpType::Rc,
        false,
        NOTHING,
        |p| p.remote(Opcode::RdmaWrite, 4096),
        |p| {
            p.take(&p.one, EACH);
        },
    ),
];

fn main() {
    // Cargo adds an option of its own.
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let [name, rounds] = &words[..] else {
        KINDS.iter().for_each(|kind| println!("{}", kind.0));
        return;
    };
    let kind = KINDS.iter().find(|kind| kind.0 == name).expect("a kind of call");
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let (_, qp_type, shared, before, call, after) = kind;
    let pair = pair(*qp_type, *shared);
    for round in 0..rounds + 2 {
        before(&pair);
        // At first, things are looked up that are known later.
        if round < 2 {
            call(&pair)
        } else {
            measured(&mut || call(&pair))
        }
        after(&pair);
    }
}
