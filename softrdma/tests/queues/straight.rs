//! The shipped machines take several steps in one call. What they store, and in which order, is what they store
//! step by step, with a death possible between any two, as in all the other tests.

use std::cell::RefCell;

use softrdma::queues::burst::Burst;
use softrdma::queues::claim::{ClaimRequest, Claimed};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::plain::Plain;
use softrdma::queues::respond::{Queues, Respond, Want};
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, SrqWord, Take, Word};
use softrdma::queues::transaction::{LockError, Locked, Machine, Progress};
use softrdma::queues::transport::{Operation, Transport};
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::{ReceiveRequest, Sge};
use softrdma::rules::requester::{Outcome, Syndrome};
use softrdma::rules::responder::Incoming;
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType};
use softrdma_testing::pass_on;
use softrdma_testing::post::post;
use softrdma_testing::segment::Segment;

use crate::burst::{QUEUES, SEND, TARGET, arrived, key, payload};
use crate::place::{CQ, QP, SRQ};
use crate::responder::target;

/// A segment that notes what is stored.
struct Noted {
    segment: Segment,
    stepwise: bool,
    stores: RefCell<Vec<(Word, u64)>>,
}

impl Noted {
    /// With receive requests, of which the first two take a message, and little room for completions.
    fn new(stepwise: bool) -> Self {
        let mut segment = Segment::default();
        assert_eq!((segment.add_qp(8), segment.add_cq(4), segment.add_srq(4)), (QP, CQ, SRQ));
        for (wr_id, lkey) in [(0, 1), (1, 1), (2, 3)] {
            let sges = [Sge { addr: 0x1000, length: 4096, lkey }].into();
            post(&segment, Object::Qp(QP), &ReceiveRequest { wr_id, sges }).expect("there is room");
        }
        Self { segment, stepwise, stores: RefCell::default() }
    }

    /// Carries a machine through; its calls, and what came of it. Locks are always to be had.
    fn carry<M: Machine>(&self, machine: &mut M) -> (u32, M::Outcome) {
        for calls in 1.. {
            if let Progress::Done(done) = machine.step(self) {
                return (calls, done);
            }
        }
        unreachable!("a machine without end")
    }
}

impl Memory for Noted {
    fn is_stepwise(&self) -> bool {
        self.stepwise
    }

    fn store(&self, word: Word, value: u64) {
        self.stores.borrow_mut().push((word, value));
        self.segment.store(word, value);
    }

    pass_on!(segment: load shape);
}

impl Transport for Noted {
    fn lock(&self, _object: Object) -> Result<Locked, LockError> {
        Ok(Locked::Clean)
    }

    fn unlock(&self, _object: Object) -> bool {
        true
    }

    fn abandon(&self, object: Object) {
        panic!("{object:?} is not given back");
    }

    fn bell(&self, _cq: u32) -> bool {
        true
    }

    fn alert(&self, _object: Object) {}
}

/// What both ways store is the same; fewer calls are what the one is for.
fn compare(run: impl Fn(&Noted) -> u32) {
    let (steps, straight) = (Noted::new(true), Noted::new(false));
    let (all, few) = (run(&steps), run(&straight));
    assert!(few < all, "{few} calls instead of {all}");
    assert_eq!(steps.stores.into_inner(), straight.stores.into_inner());
}

#[test]
fn a_burst_stores_the_same_in_few_calls() {
    for armed in [0, 2] {
        compare(|noted| {
            noted.segment.store(Word::Cq(CQ, CqWord::Armed), armed);
            let mut burst = Burst::default();
            burst.open(noted, &QUEUES);
            let (mut calls, mut delivered) = (0, 0);
            // The third request takes none.
            for number in 0.. {
                burst.bytes()[..96].copy_from_slice(&payload(number));
                if !burst.offer(noted, &TARGET, &SEND, key) {
                    burst.close();
                }
                let (some, goes_on) = noted.carry(&mut burst);
                calls += some;
                if !goes_on {
                    break;
                }
                delivered += 1;
            }
            assert_eq!(delivered, if armed == 0 { 2 } else { 0 });
            assert_eq!(noted.load(Word::Qp(QP, QpWord::Head)), delivered);
            calls
        });
    }
}

#[test]
fn a_delivery_stores_the_same_in_few_calls() {
    for armed in [0, 2] {
        for breaks in [false, true] {
            compare(|noted| {
                noted.segment.store(Word::Cq(CQ, CqWord::Armed), armed);
                let mut calls = 0;
                // The queue takes four.
                for number in 0..6 {
                    let deliver = match number {
                        0 | 1 => Deliver::receive(QP, Take::Head(number), CQ, &arrived(0, 1), false),
                        _ => Deliver::append(CQ, &arrived(u64::from(number), 1)),
                    };
                    let (some, done) =
                        noted.carry(&mut if breaks && number == 1 { deliver.breaking() } else { deliver });
                    calls += some;
                    assert_eq!(done == Delivered::Published, number < 4, "{number}");
                }
                calls
            });
        }
    }
}

#[test]
fn a_claim_stores_the_same_in_few_calls() {
    for limit in [0, 2] {
        compare(|noted| {
            let sges = [Sge { addr: 0x1000, length: 4096, lkey: 1 }, Sge::default()].into();
            let request = ReceiveRequest { wr_id: 9, sges };
            for _ in 0..2 {
                post(&noted.segment, Object::Srq(SRQ), &request).expect("there is room");
            }
            noted.segment.store(Word::Srq(SRQ, SrqWord::Limit), limit);
            let mut calls = 0;
            for expected in [Claimed::Request, Claimed::Request, Claimed::Empty] {
                noted.segment.store(Word::Qp(QP, QpWord::Claim), 0);
                let (some, claimed) = noted.carry(&mut ClaimRequest::new(QP, SRQ));
                calls += some;
                assert_eq!(claimed, expected);
            }
            calls
        });
    }
}

/// Carries a send out as any other, or as a plain one where it is that; and whether it was.
fn receive(noted: &Noted, tries_plain: bool, state: QpState, length: u64) -> (Outcome, bool) {
    let target = target(state, false);
    let request = Incoming {
        qp_type: QpType::Rc,
        opcode: Opcode::SendWithImm,
        src_qp: 2,
        path_matches: true,
        qkey: 0,
        ipv4: false,
        length,
        addr: 0,
        imm_or_key: 5,
        solicited: true,
        timestamp: 9,
    };
    let key = Key { kind: Kind::Region, valid: true, pd: 1, start: 0, length: u64::MAX, access: Access(0xf) };
    let queues = Queues { qp: QP, cq: CQ, srq: None };
    let mut operation = Operation::new(noted);
    let plain = Plain::find(noted, &target, queues, &request).filter(|_| tries_plain);
    let delivered = plain.map(|plain| plain.deliver(noted, &mut operation).expect("locks are free"));
    if let Some(Delivered::Published | Delivered::Dropped) = delivered {
        return (Outcome::Done(length as u32), true);
    }
    let mut respond = Respond::new(target, queues, request, None, None);
    if delivered == Some(Delivered::Overrun) {
        respond = respond.overrun(noted);
    }
    loop {
        match respond.step(noted, |_| Some(key)) {
            Want::Transport(progress) => assert_eq!(operation.proceed(&progress), Ok(true)),
            Want::Move(_) => respond.moved(noted, Ok(())),
            Want::Invalidate(_) => unreachable!("nothing asks for it"),
            Want::Done(outcome) => return (outcome, delivered.is_some()),
        }
    }
}

#[test]
// rule: overrun-breaks
fn a_plain_send_stores_what_any_other_does() {
    let operational = Outcome::Refused(Syndrome::Operational);
    // How the completion queue is armed, how many entries are in it, and what is sent how often.
    for (stepwise, armed, before, state, length, expected) in [false, true].into_iter().flat_map(|stepwise| {
        use QpState::{Rtr, Rts};
        [
            (stepwise, 0, 0, Rts, 8, vec![(Outcome::Done(8), true); 3]),
            (stepwise, 2, 0, Rts, 8, vec![(Outcome::Done(8), true); 3]),
            (stepwise, 0, 0, Rts, 0, vec![(Outcome::Done(0), true); 3]),
            (stepwise, 0, 3, Rts, 8, vec![(Outcome::Done(8), true), (operational, true)]),
            (stepwise, 0, 0, Rtr, 8, vec![(Outcome::Done(8), false); 3]),
            (stepwise, 0, 0, QpState::Err, 8, vec![(Outcome::NoAnswer, false); 2]),
            (stepwise, 0, 0, Rts, 5000, vec![(Outcome::Refused(Syndrome::InvalidRequest), false)]),
            (stepwise, 0, 0, Rts, 8, {
                let done = vec![(Outcome::Done(8), true); 3];
                done.into_iter().chain([(Outcome::ReceiverNotReady(1), false)]).collect()
            }),
        ]
    }) {
        let [common, plain] = [false, true].map(|tries_plain| {
            let noted = Noted::new(stepwise);
            noted.segment.store(Word::Cq(CQ, CqWord::Armed), armed);
            noted.segment.store(Word::Qp(QP, QpWord::State), state as u64);
            for number in 0..before {
                noted.carry(&mut Deliver::append(CQ, &arrived(number, 1)));
            }
            for (outcome, is_plain) in &expected {
                let expected = (*outcome, tries_plain && *is_plain);
                assert_eq!(receive(&noted, tries_plain, state, length), expected, "{state:?} {length}");
            }
            noted.stores.into_inner()
        });
        assert_eq!(common, plain);
    }
}
