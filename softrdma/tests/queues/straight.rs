//! The shipped machines take several steps in one call. What they store, and in which order, is what they store
//! step by step, with a death possible between any two, as in all the other tests.

use std::cell::RefCell;

use softrdma::queues::burst::Burst;
use softrdma::queues::claim::{ClaimRequest, Claimed};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::plain::{Found, Plain};
use softrdma::queues::respond::{Queues, Respond, Want};
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, SrqWord, Take, Word};
use softrdma::queues::transaction::{LockError, Locked, Machine, Progress};
use softrdma::queues::transport::{Operation, Transport};
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::{ReceiveRequest, Sge};
use softrdma::rules::requester::{Outcome, Syndrome};
use softrdma::rules::responder::{Incoming, TargetQp};
use softrdma::rules::verbs::{Access, Opcode, QpState, QpType};
use softrdma_testing::pass_on;
use softrdma_testing::post::post;
use softrdma_testing::segment::Segment;

use crate::burst::{QUEUES, SEND, TARGET, arrived, key, payload};
use crate::place::{CQ, QP, SRQ};
use crate::responder::target;

/// A segment that notes what is done with it.
struct Noted {
    segment: Segment,
    stepwise: bool,
    notes: RefCell<Vec<Note>>,
}

#[derive(PartialEq, Eq, Debug)]
enum Note {
    Store(Word, u64),
    Lock(Object),
    Unlock(Object),
    Bell(u32),
    Alert(Object),
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
        Self { segment, stepwise, notes: RefCell::default() }
    }

    fn note(&self, note: Note) {
        self.notes.borrow_mut().push(note);
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
        self.note(Note::Store(word, value));
        self.segment.store(word, value);
    }

    pass_on!(segment: load shape);
}

impl Transport for Noted {
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        self.note(Note::Lock(object));
        Ok(Locked::Clean)
    }

    fn unlock(&self, object: Object) -> bool {
        self.note(Note::Unlock(object));
        true
    }

    fn abandon(&self, object: Object) {
        panic!("{object:?} is not given back");
    }

    fn bell(&self, cq: u32) -> bool {
        self.note(Note::Bell(cq));
        true
    }

    fn alert(&self, object: Object) {
        self.note(Note::Alert(object));
    }
}

/// What both ways store is the same; fewer calls are what the one is for.
fn compare(run: impl Fn(&Noted) -> u32) {
    let (steps, straight) = (Noted::new(true), Noted::new(false));
    let (all, few) = (run(&steps), run(&straight));
    assert!(few < all, "{few} calls instead of {all}");
    assert_eq!(steps.notes.into_inner(), straight.notes.into_inner());
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

/// What there is for sends that are received.
#[derive(Clone, Debug)]
struct Stage {
    /// How the completion queue is armed, and how many entries are in it.
    armed: u64,
    entries: u64,
    state: QpState,
    /// Requests come from a shared receive queue, with this limit, of which the queue pair holds one already.
    shared: Option<(u64, bool)>,
    /// The shared receive queue says that it is full beyond what it can hold.
    lies: bool,
    /// The send's bytes, and where they are not put.
    length: u64,
    refuses: bool,
    /// What comes of each, and whether it is a plain one.
    expected: Vec<(Outcome, bool)>,
}

impl Stage {
    fn set(&self, stepwise: bool) -> Noted {
        let noted = Noted::new(stepwise);
        noted.segment.store(Word::Cq(CQ, CqWord::Armed), self.armed);
        noted.segment.store(Word::Qp(QP, QpWord::State), self.state as u64);
        for number in 0..self.entries {
            noted.carry(&mut Deliver::append(CQ, &arrived(number, 1)));
        }
        let Some((limit, holds)) = self.shared else { return noted };
        for wr_id in 0..3 {
            let sges = [Sge { addr: 0x1000, length: 4096, lkey: 1 }, Sge::default()].into();
            post(&noted.segment, Object::Srq(SRQ), &ReceiveRequest { wr_id, sges }).expect("there is room");
        }
        noted.segment.store(Word::Srq(SRQ, SrqWord::Limit), limit);
        if holds {
            assert_eq!(noted.carry(&mut ClaimRequest::new(QP, SRQ)).1, Claimed::Request);
        }
        if self.lies {
            noted.segment.store(Word::Srq(SRQ, SrqWord::Tail), 1000);
            noted.segment.store(Word::Srq(SRQ, SrqWord::Seen), 1000);
        }
        noted
    }

    /// Carries a send out as any other, or as a plain one where it is that; and whether it was.
    fn receive(&self, noted: &Noted, tries_plain: bool) -> (Outcome, bool) {
        let (target, srq) = (target(self.state, false), self.shared.map(|_| SRQ));
        let target = TargetQp { srq: srq.is_some(), ..target };
        let request = Incoming {
            qp_type: QpType::Rc,
            opcode: Opcode::SendWithImm,
            src_qp: 2,
            path_matches: true,
            qkey: 0,
            ipv4: false,
            length: self.length,
            addr: 0,
            imm_or_key: 5,
            solicited: true,
            timestamp: 9,
        };
        let key =
            Key { kind: Kind::Region, valid: true, pd: 1, start: 0, length: u64::MAX, access: Access(0xf) };
        let queues = Queues { qp: QP, cq: CQ, srq };
        let mut operation = Operation::new(noted);
        let mut respond = Respond::new(target, queues, request, None, None);
        let mut is_plain = false;
        if tries_plain {
            let found = Plain::find(noted, &mut operation, &target, queues, &request);
            match found.expect("locks are free") {
                Found::Plain(plain) if !self.refuses => {
                    assert_eq!(u64::from(plain.to.length), 4096);
                    is_plain = true;
                    match plain.deliver(noted, &mut operation).expect("locks are free") {
                        Delivered::Overrun => respond = respond.overrun(noted),
                        Delivered::Published | Delivered::Dropped => {
                            return (Outcome::Done(self.length as u32), true);
                        }
                    }
                }
                Found::NoRequest(claimed) => {
                    is_plain = true;
                    respond = respond.without_request(noted, claimed);
                }
                Found::Plain(_) | Found::Other => {}
            }
        }
        loop {
            match respond.step(noted, |_| Some(key)) {
                Want::Transport(progress) => assert_eq!(operation.proceed(&progress), Ok(true)),
                Want::Move(_) => respond.moved(noted, Ok(())),
                Want::Invalidate(_) => unreachable!("nothing asks for it"),
                Want::Done(outcome) => return (outcome, is_plain),
            }
        }
    }

    /// Both ways come to this, by the same stores, locks and bells.
    fn compare(&self) {
        for stepwise in [false, true] {
            let [common, plain] = [false, true].map(|tries_plain| {
                let noted = self.set(stepwise);
                for (number, (outcome, is_plain)) in self.expected.iter().enumerate() {
                    let expected = (*outcome, tries_plain && *is_plain);
                    assert_eq!(self.receive(&noted, tries_plain), expected, "{number} of {self:?}");
                }
                noted.notes.into_inner()
            });
            assert_eq!(common, plain, "{self:?}");
        }
    }
}

#[test]
// rule: overrun-breaks
fn a_plain_send_stores_what_any_other_does() {
    let done = |bytes: u32| vec![(Outcome::Done(bytes), true); 3];
    let common = |outcome| vec![(outcome, false)];
    let operational = Outcome::Refused(Syndrome::Operational);
    let not_ready = Outcome::ReceiverNotReady(1);
    let stages = |shared: Option<(u64, bool)>| {
        let plain = Stage {
            armed: 0,
            entries: 0,
            state: QpState::Rts,
            shared,
            lies: false,
            length: 8,
            refuses: false,
            expected: done(8),
        };
        [
            plain.clone(),
            Stage { armed: 2, ..plain.clone() },
            Stage { length: 0, expected: done(0), ..plain.clone() },
            Stage {
                entries: 3,
                expected: vec![(Outcome::Done(8), true), (operational, true)],
                ..plain.clone()
            },
            Stage { state: QpState::Rtr, expected: vec![(Outcome::Done(8), false); 3], ..plain.clone() },
            Stage { state: QpState::Err, expected: vec![(Outcome::NoAnswer, false); 2], ..plain.clone() },
            Stage {
                length: 5000,
                expected: common(Outcome::Refused(Syndrome::InvalidRequest)),
                ..plain.clone()
            },
            Stage { refuses: true, expected: vec![(Outcome::Done(8), false); 3], ..plain.clone() },
            // Nobody asks an own ring in vain.
            Stage {
                expected: done(8).into_iter().chain([(not_ready, shared.is_some()); 2]).collect(),
                ..plain.clone()
            },
            Stage {
                lies: shared.is_some(),
                expected: match shared {
                    None => done(8),
                    Some((_, false)) => vec![(operational, true)],
                    Some((_, true)) => vec![(Outcome::Done(8), true), (operational, true)],
                },
                ..plain
            },
        ]
    };
    // Without a limit, with one that the second message falls below, and with one that the first does.
    let ways = [0, 2, 4].into_iter().flat_map(|limit| [(limit, false), (limit, true)]);
    for shared in ways.map(Some).chain([None]) {
        stages(shared).iter().for_each(Stage::compare);
    }
}
