//! Queues and bells while nobody dies.

use softrdma::queues::claim::{ClaimRequest, Claimed};
use softrdma::queues::completion::{Arm, remove, wants};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::flush::{Flush, reset};
use softrdma::queues::receive::next_in_ring;
use softrdma::queues::shared::{CqWord, Fence, Memory, Object, QpWord, Word};
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::Next;
use softrdma::rules::verbs::WcOpcode;
use softrdma_testing::post::post;

use crate::place::{CQ, Place, QP, SRQ, request};

#[test]
// rule: qp-reset-forgets
fn a_reset_forgets_and_hands_back_what_was_shared() {
    let place = Place::new();
    place.next_process(u32::MAX);
    for wr_id in 10..13 {
        post(&place.segment, Object::Qp(QP), &request(wr_id)).expect("there is room");
        post(&place.segment, Object::Srq(SRQ), &request(wr_id + 10)).expect("there is room");
    }
    assert_eq!(place.carry(ClaimRequest::new(QP, SRQ)), Some(Claimed::Request));
    let (claim, held) = reset(&place.segment, QP).expect("a request is held");
    assert_eq!((claim.srq, held), (SRQ, request(20)));
    assert_eq!(place.waiting(false), 0);
    assert_eq!(place.waiting(true), 2);
    assert!(reset(&place.segment, QP).is_none());
    post(&place.segment, Object::Qp(QP), &request(30)).expect("there is room");
    assert_eq!(next_in_ring(&place.segment, QP), Next::Request(request(30)));
}

#[test]
fn an_older_fence_says_nothing_of_a_later_claim() {
    let place = Place::new();
    place.next_process(u32::MAX);
    post(&place.segment, Object::Srq(SRQ), &request(20)).expect("there is room");
    place.segment.store(Word::Qp(QP, QpWord::Fence), Fence::Claim { srq: SRQ, held: false }.pack());
    place.lock(Object::Qp(QP)).expect("nobody dies");
    assert_eq!(place.carry(ClaimRequest::new(QP, SRQ)), Some(Claimed::Request));
    // It dies, and whoever comes next repairs.
    place.next_process(u32::MAX);
    place.lock(Object::Qp(QP)).expect("nobody dies");
    assert_eq!(place.waiting(true), 1);
    assert_eq!(place.load(Word::Qp(QP, QpWord::Fence)), 0);
}

#[test]
fn a_bell_that_was_not_rung_is_rung_by_the_next_entry() {
    for flush in [false, true] {
        let place = Place::new();
        place.next_process(u32::MAX);
        for wr_id in 10..12 {
            post(&place.segment, Object::Qp(QP), &request(wr_id)).expect("there is room");
        }
        let deliver = || match flush {
            true => place.carry(Flush::new(&place.segment, QP, 1, CQ, false)),
            false => place.deliver(false, 1),
        };
        place.deaf.set(true);
        deliver().expect("nobody dies");
        let armed = || place.load(Word::Cq(CQ, CqWord::Armed));
        assert_eq!((armed(), place.bells.get()), (2, 0));
        place.deaf.set(false);
        post(&place.segment, Object::Qp(QP), &request(12)).expect("there is room");
        deliver().expect("nobody dies");
        assert_eq!((armed(), place.bells.get()), (0, 1));
    }
}

#[test]
// rule: notify-kept
fn a_request_for_a_bell_is_not_forgotten_by_a_delivery() {
    let armed = |place: &Place| place.load(Word::Cq(CQ, CqWord::Armed));
    // Nothing is read or stored before the lock is had: a delivery disarms behind it.
    let place = Place::new();
    place.segment.store(Word::Cq(CQ, CqWord::Armed), 0);
    assert_eq!(Arm::new(CQ, false).step(&place.segment), Progress::Lock(Object::Cq(CQ)));
    assert_eq!(armed(&place), 0);
    for (word, solicited_only, after) in [(2, true, 2), (0, true, 1), (1, false, 2), (0, false, 2)] {
        let place = Place::new();
        place.next_process(u32::MAX);
        place.segment.store(Word::Cq(CQ, CqWord::Armed), word);
        assert_eq!(place.carry(Arm::new(CQ, solicited_only)), Some(()));
        assert_eq!(armed(&place), after);
        assert!(place.locks.borrow().is_empty());
    }
}

#[test]
// rule: event-overrun
fn a_full_completion_queue_overruns_once_and_for_all() {
    let place = Place::new();
    place.next_process(u32::MAX);
    let entry = Completion::flushed(1, WcOpcode::Send, 1);
    for _ in 0..4 {
        assert_eq!(place.carry(Deliver::append(CQ, &entry)), Some(Delivered::Published));
    }
    assert_eq!(place.carry(Deliver::append(CQ, &entry)), Some(Delivered::Overrun));
    assert_eq!(place.completions().len(), 4);
    assert_eq!(place.carry(Deliver::append(CQ, &entry)), Some(Delivered::Overrun));
    assert_eq!(place.completions().len(), 0);
}

#[test]
// rule: overrun-ignored
fn a_queue_that_does_not_mind_goes_on_after_an_overrun() {
    let place = Place::new();
    place.next_process(u32::MAX);
    place.segment.store(Word::Attribute { object: Object::Cq(CQ), word: 0 }, wants::IGNORE_OVERRUN);
    for wr_id in 0..6 {
        let entry = Completion::flushed(wr_id, WcOpcode::Send, 1);
        let expected = if wr_id < 4 { Delivered::Published } else { Delivered::Dropped };
        assert_eq!(place.carry(Deliver::append(CQ, &entry)), Some(expected));
    }
    assert_eq!(place.completions().len(), 4);
    let entry = Completion::flushed(6, WcOpcode::Send, 1);
    assert_eq!(place.carry(Deliver::append(CQ, &entry)), Some(Delivered::Published));
    assert_eq!(place.completions(), [entry]);
}

#[test]
fn completions_of_a_queue_pair_can_be_taken_out() {
    for (before, waiting) in (0..9).flat_map(|before| (0..16).map(move |waiting| (before, waiting))) {
        let place = Place::new();
        place.next_process(u32::MAX);
        let entry = |wr_id, qp_num| Completion::flushed(wr_id, WcOpcode::Send, qp_num);
        for wr_id in 0..before {
            place.carry(Deliver::append(CQ, &entry(wr_id, 1))).expect("nobody dies");
            assert_eq!(place.completions().len(), 1);
        }
        // Four entries, of queue pair 1 or 2 by the bits of a number.
        let all: Vec<_> = (0..4).map(|n| entry(n, 1 + (waiting >> n & 1))).collect();
        for entry in &all {
            place.carry(Deliver::append(CQ, entry)).expect("nobody dies");
        }
        let rest: Vec<_> = all.iter().filter(|entry| entry.qp_num == 2).copied().collect();
        assert_eq!(remove(&place.segment, CQ, 1) as usize, 4 - rest.len());
        place.carry(Deliver::append(CQ, &entry(9, 3))).filter(|_| rest.len() < 4);
        let left = place.completions();
        assert_eq!(left[..rest.len()], rest);
        assert_eq!(left.len(), (rest.len() + 1).min(4));
    }
}
