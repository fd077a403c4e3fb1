//! Requests carried out at their target.

use std::cell::Cell;

use softrdma::queues::breaks::collect;
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::respond::{MoveError, Queues, Respond, Want};
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, Word};
use softrdma::queues::transaction::Progress;
use softrdma::queues::transport::{acquire, run};
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::requester::{Outcome, Syndrome};
use softrdma::rules::responder::{Incoming, TargetQp};
use softrdma::rules::verbs::{Access, Event, Opcode, QpState, QpType, Status, WcOpcode};
use softrdma_testing::post::post;
use softrdma_testing::segment::Segment;

use crate::bare::Bare;
use crate::place::{poll, request};

/// A connected queue pair in this state, with a shared receive queue or without.
pub fn target(state: QpState, srq: bool) -> TargetQp {
    TargetQp {
        qp_num: 1,
        qp_type: QpType::Rc,
        state,
        pd: 1,
        receive_pd: 1,
        access: Access(0xe),
        dest_qp_num: 2,
        qkey: 0,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
        srq,
    }
}

/// Carries a request out at one of the queue pairs.
pub fn respond(place: &Bare, qp: u32, opcode: Opcode, moved: Result<(), MoveError>) -> Outcome {
    let state = QpState::from_number(place.load(Word::Qp(qp, QpWord::State)) as u32).unwrap_or(QpState::Rts);
    let request = Incoming {
        qp_type: QpType::Rc,
        opcode,
        src_qp: 2,
        path_matches: true,
        qkey: 0,
        ipv4: false,
        length: 8,
        addr: 0,
        imm_or_key: 0,
        solicited: true,
        timestamp: 0,
    };
    let key = Key { kind: Kind::Region, valid: true, pd: 1, start: 0, length: u64::MAX, access: Access(0xf) };
    let queues = Queues { qp, cq: qp, srq: (qp == 0).then_some(1) };
    let window = Key { kind: Kind::Window2 { qp_num: 1 }, ..key };
    let mut respond = Respond::new(target(state, qp == 0), queues, request, Some(&key), Some(&window));
    let (mut locked, mut invalidated) = (None, false);
    loop {
        match respond.step(place, |_| Some(key)) {
            Want::Transport(Progress::Lock(object)) => {
                acquire(place, object).expect("locks are free");
                locked = Some(object);
            }
            Want::Transport(_) => {}
            Want::Invalidate(_) => {
                // Certain to be delivered, and not seen yet.
                assert_eq!(locked, Some(Object::Cq(qp)));
                let tail = place.load(Word::Cq(qp, CqWord::Tail)) as u32;
                let first = place.load(Word::Entry { cq: qp, slot: tail & 3, word: 0 });
                assert_ne!(first as u32, tail.wrapping_add(1));
                assert!(!std::mem::replace(&mut invalidated, true));
            }
            Want::Move(_) => respond.moved(place, moved),
            Want::Done(outcome) => {
                assert_eq!(invalidated, opcode == Opcode::SendWithInv && outcome == Outcome::Done(8));
                return outcome;
            }
        }
    }
}

/// What a request meets at a healthy queue pair: outcome, state afterwards, completions, events by bit.
fn meet(opcode: Opcode, moved: Result<(), MoveError>, full: bool) -> (Outcome, QpState, Vec<Status>, u32) {
    let mut segment = Segment::default();
    for _ in 0..2 {
        segment.add_qp(4);
        segment.add_srq(4);
        segment.add_cq(4);
    }
    let place = Bare { segment, steps: Cell::new(0), recovered: Cell::new(false) };
    place.store(Word::Qp(1, QpWord::State), QpState::Rts as u64);
    for wr_id in 10..12 {
        post(&place, Object::Qp(1), &request(wr_id)).expect("there is room");
    }
    if full {
        for _ in 0..4 {
            let append = Deliver::append(1, &Completion::flushed(1, WcOpcode::Send, 1));
            assert_eq!(run(&place, append), Ok(Delivered::Published));
        }
    }
    let outcome = respond(&place, 1, opcode, moved);
    let state = QpState::from_number(place.load(Word::Qp(1, QpWord::State)) as u32).expect("a state");
    let completions =
        std::iter::from_fn(|| poll(&place, 1).expect("whole")).map(|entry| entry.status).collect();
    (outcome, state, completions, collect(&place, Object::Qp(1)))
}

#[test]
// rule: overrun-breaks, flush-after-cause
fn what_a_request_meets() {
    use Status::{LocProtErr, Success, WrFlushErr};
    let (access, fatal) = (1 << Event::QpAccessErr as u32, 1 << Event::QpFatal as u32);
    let (rts, err) = (QpState::Rts, QpState::Err);
    let done = Outcome::Done(8);
    let operational = Outcome::Refused(Syndrome::Operational);
    for opcode in [Opcode::SendWithImm, Opcode::SendWithInv, Opcode::RdmaWriteWithImm] {
        assert_eq!(meet(opcode, Ok(()), false), (done, rts, vec![Success], 0));
        // The receive request stays for the next.
        let sender = Outcome::Local(LocProtErr);
        assert_eq!(meet(opcode, Err(MoveError::Sender), false), (sender, rts, vec![], 0));
        assert_eq!(meet(opcode, Err(MoveError::Gone), false), (Outcome::NoAnswer, rts, vec![], 0));
        let overrun = meet(opcode, Ok(()), true);
        assert_eq!(overrun, (operational, err, vec![WrFlushErr; 4], fatal));
    }
    assert_eq!(
        meet(Opcode::SendWithImm, Err(MoveError::Target), false),
        (operational, err, vec![LocProtErr, WrFlushErr], 0)
    );
    for opcode in [Opcode::RdmaWriteWithImm, Opcode::RdmaRead] {
        assert_eq!(
            meet(opcode, Err(MoveError::Target), false),
            (Outcome::Refused(Syndrome::Access), err, vec![WrFlushErr; 2], access)
        );
    }
}
