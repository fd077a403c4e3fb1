//! A death after any step, and a second one within the repair.

use softrdma::queues::breaks::collect;
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::flush::Flush;
use softrdma::queues::shared::{Memory, Object, QpWord, SrqWord, Take, Word};
use softrdma::rules::completion::Completion;
use softrdma::rules::verbs::{Event, QpState, Status, WcOpcode};
use softrdma_testing::post::post;

use crate::place::{CQ, Place, QP, SRQ, request};

/// Two deaths at these steps, visits in this order; returns whether the first process got to the end.
fn two_deaths(shared: bool, first: u32, second: u32, order: &[Object]) -> bool {
    let place = Place::new();
    for wr_id in 10..13 {
        post(&place.segment, Place::queue(shared), &request(wr_id)).expect("there is room");
    }
    place.next_process(first);
    let finished = place.deliver(shared, 1).is_some();
    for (life, objects) in [(second, order), (u32::MAX, order)] {
        place.next_process(life);
        let visits = objects.iter().try_for_each(|&object| {
            place.lock(object)?;
            place.unlock(object)
        });
        assert!(life != u32::MAX || visits.is_some());
    }
    let completions = place.completions();
    assert!(completions.len() <= 1);
    assert_eq!(place.waiting(shared) as usize + completions.len(), 3, "first {first} second {second}");
    assert!(!finished || completions.len() == 1);
    assert!(completions.is_empty() || place.bells.get() > 0, "published without a bell");

    // Whoever is next goes on where it stopped.
    place.next_process(u32::MAX);
    for _ in completions.len()..3 {
        place.deliver(shared, 2).expect("nobody dies");
    }
    let numbers: Vec<_> = completions.iter().chain(&place.completions()).map(|entry| entry.wr_id).collect();
    assert_eq!(numbers, [10, 11, 12]);
    assert_eq!(place.waiting(shared), 0);
    assert!(place.locks.borrow().is_empty());
    finished
}

#[test]
fn deaths_at_every_step_leave_all_or_nothing() {
    let (qp, srq, cq) = (Object::Qp(QP), Object::Srq(SRQ), Object::Cq(CQ));
    let orders = [[qp, srq, cq], [qp, cq, srq], [srq, qp, cq], [srq, cq, qp], [cq, qp, srq], [cq, srq, qp]];
    for shared in [false, true] {
        let mut first = 0;
        loop {
            let mut finished = true;
            for order in &orders {
                for second in 0..24 {
                    finished &= two_deaths(shared, first, second, order);
                }
            }
            if finished {
                break;
            }
            first += 1;
        }
        assert!(first > 20, "only {first} steps were tried");
    }
}

#[test]
// rule: event-limit
fn a_limit_is_told_once_however_its_claim_ends() {
    for life in 0.. {
        let place = Place::new();
        for wr_id in 10..13 {
            post(&place.segment, Object::Srq(SRQ), &request(wr_id)).expect("there is room");
        }
        place.segment.store(Word::Srq(SRQ, SrqWord::Limit), 3);
        place.next_process(life);
        let finished = place.deliver(true, 1).is_some();
        // More than the limit again, before anybody repairs.
        post(&place.segment, Object::Srq(SRQ), &request(13)).expect("there is room");
        place.next_process(u32::MAX);
        place.lock(Object::Srq(SRQ)).expect("nobody dies");
        let told = collect(&place.segment, Object::Srq(SRQ)) == 1 << Event::SrqLimitReached as u32;
        let limit = place.load(Word::Srq(SRQ, SrqWord::Limit));
        assert_eq!(told, limit == 0, "after {life} steps");
        if finished {
            assert!(told);
            return;
        }
    }
}

#[test]
// rule: flush-order
fn a_flush_that_dies_anywhere_is_finished_by_the_next() {
    for life in 0.. {
        let place = Place::new();
        for wr_id in 10..13 {
            post(&place.segment, Object::Qp(QP), &request(wr_id)).expect("there is room");
        }
        place.segment.store(Word::Qp(QP, QpWord::State), QpState::Err as u64);
        let flush = || {
            place.lock(Object::Qp(QP))?;
            place.carry(Flush::new(&place.segment, QP, 1, CQ, false))?;
            place.unlock(Object::Qp(QP))
        };
        place.next_process(life);
        let finished = flush().is_some();
        place.next_process(u32::MAX);
        flush().expect("nobody dies");
        let numbers: Vec<_> = place.completions().iter().map(|entry| entry.wr_id).collect();
        assert_eq!(numbers, [10, 11, 12]);
        if finished {
            assert!(life > 40);
            return;
        }
    }
}

#[test]
fn a_queue_pair_is_in_error_when_its_completion_says_so_whoever_dies() {
    for life in 0.. {
        let place = Place::new();
        place.segment.store(Word::Qp(QP, QpWord::State), QpState::Rts as u64);
        post(&place.segment, Object::Qp(QP), &request(10)).expect("there is room");
        place.next_process(life);
        let breaking = || {
            place.lock(Object::Qp(QP))?;
            let failed =
                Completion { status: Status::LocLenErr, ..Completion::flushed(10, WcOpcode::Recv, 1) };
            let deliver = Deliver::receive(QP, Take::Head(0), CQ, &failed, false).breaking();
            assert_eq!(place.carry(deliver)?, Delivered::Published);
            place.unlock(Object::Qp(QP))
        };
        let finished = breaking().is_some();
        // The owner, who finds the completion, takes the lock once.
        place.next_process(u32::MAX);
        place.lock(Object::Qp(QP)).expect("nobody dies");
        let broken = place.load(Word::Qp(QP, QpWord::State)) == QpState::Err as u64;
        assert_eq!(place.completions().len() == 1, broken, "after {life} steps");
        assert_eq!(place.waiting(false) == 0, broken);
        assert!(!broken || place.bells.get() > 0);
        if finished {
            assert!(broken && life > 10);
            return;
        }
    }
}
