//! Locks that a living process keeps too long: the operation ends, and whoever locks next repairs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use softrdma::queues::burst::Burst;
use softrdma::queues::claim::{ClaimRequest, Claimed};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::receive::{next_in_claim, next_in_ring, ring_capacity};
use softrdma::queues::shared::{Memory, Object, QpWord, SrqWord, Take, Word, held};
use softrdma::queues::transaction::{LockError, Locked};
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::queues::transport::{Operation, Transport, acquire};
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::Next;
use softrdma::rules::responder::Incoming;
use softrdma::rules::verbs::WcOpcode;
use softrdma_testing::pass_on;
use softrdma_testing::post::{PostError, post, post_or_repair};
use softrdma_testing::segment::Segment;

use crate::burst::{QUEUES, SEND, TARGET, key};
use crate::place::{CQ, Place, QP, SRQ, poll, request};

/// A segment of which locks cannot be had after a while.
struct Stubborn {
    segment: Segment,
    /// Locks that are not free, and whether they were abandoned.
    locks: RefCell<HashMap<Object, bool>>,
    /// How many locks can still be had.
    left: Cell<u32>,
}

impl Memory for Stubborn {
    pass_on!(segment: load store shape);
}

impl Transport for Stubborn {
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        self.left.set(self.left.get().checked_sub(1).ok_or(LockError::Busy)?);
        match self.locks.borrow_mut().insert(object, false) {
            None => Ok(Locked::Clean),
            Some(abandoned) => {
                assert!(abandoned, "{object:?} is locked twice");
                Ok(Locked::Recovered)
            }
        }
    }

    fn unlock(&self, object: Object) -> bool {
        assert_eq!(self.locks.borrow_mut().remove(&object), Some(false));
        true
    }

    fn abandon(&self, object: Object) {
        assert_eq!(self.locks.borrow_mut().insert(object, true), Some(false));
    }

    fn bell(&self, _: u32) -> bool {
        true
    }

    fn alert(&self, _: Object) {}
}

/// One delivery that is given up after so many steps.
fn deliver_in_part(place: &Stubborn, shared: bool, steps: u32) -> Result<bool, LockError> {
    let mut operation = Operation::new(place);
    operation.lock(Object::Qp(QP))?;
    let take = if shared {
        if next_in_claim(place, QP).is_none() {
            assert_eq!(operation.run(ClaimRequest::new(QP, SRQ))?, Claimed::Request);
        }
        Take::Claim(0)
    } else {
        Take::Head(place.load(Word::Qp(QP, QpWord::Head)) as u32)
    };
    let next = match take {
        Take::Claim(_) => next_in_claim(place, QP).map(|(_, next)| next),
        Take::Head(_) => Some(next_in_ring(place, QP)),
    };
    let Some(Next::Request(request)) = next else { panic!("{next:?}") };
    let completion = Completion::flushed(request.wr_id, WcOpcode::Recv, 1);
    let mut deliver = Deliver::receive(QP, take, CQ, &completion, false);
    for _ in 0..steps {
        let progress = deliver.step(place);
        assert!(operation.proceed(&progress)?);
        if let Progress::Done(delivered) = progress {
            assert_eq!(delivered, Delivered::Published);
            operation.unlock(Object::Qp(QP));
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn a_lock_that_cannot_be_had_ends_the_operation_and_the_next_repairs() {
    for shared in [false, true] {
        for (steps, left) in (0..40).flat_map(|steps| (0..6).map(move |left| (steps, left))) {
            let mut segment = Segment::default();
            segment.add_qp(4);
            segment.add_cq(4);
            segment.add_srq(4);
            let place = Stubborn { segment, locks: RefCell::default(), left: Cell::new(u32::MAX) };
            for wr_id in 10..13 {
                post(&place, Place::queue(shared), &request(wr_id)).expect("there is room");
            }
            let whole = deliver_in_part(&place, shared, steps) == Ok(true);
            assert!(whole || place.locks.borrow().get(&Object::Qp(QP)) == Some(&true));
            // Another meets a lock that it cannot have, in its repair or in its delivery.
            place.left.set(left);
            if !whole {
                let delivered = deliver_in_part(&place, shared, u32::MAX);
                assert!(delivered == Ok(true) || delivered == Err(LockError::Busy));
            }
            assert!(place.locks.borrow().values().all(|abandoned| *abandoned), "a lock is still held");
            place.left.set(u32::MAX);
            let held = |place: &Stubborn| {
                acquire(place, Object::Qp(QP)).expect("locks can be had");
                place.unlock(Object::Qp(QP));
                let (head, tail) = if shared {
                    (Word::Srq(SRQ, SrqWord::Head), Word::Srq(SRQ, SrqWord::Tail))
                } else {
                    (Word::Qp(QP, QpWord::Head), Word::Qp(QP, QpWord::Tail))
                };
                held(place.load(head), place.load(tail), 4).expect("the counts are true")
                    + u32::from(next_in_claim(place, QP).is_some())
            };
            while held(&place) > 0 {
                assert_eq!(deliver_in_part(&place, shared, u32::MAX), Ok(true));
            }
            let numbers: Vec<_> =
                std::iter::from_fn(|| poll(&place, CQ).expect("whole")).map(|entry| entry.wr_id).collect();
            assert_eq!(numbers, [10, 11, 12], "shared {shared}, steps {steps}, locks {left}");
        }
    }
}

/// As above, of a burst of all messages that there are requests for.
fn burst_in_part(place: &Stubborn, steps: u32) -> Result<bool, LockError> {
    let mut operation = Operation::new(place);
    operation.lock(Object::Qp(QP))?;
    let mut burst = Burst::default();
    burst.open(place, &QUEUES);
    for _ in 0..steps {
        match burst.step(place) {
            Progress::Done(true) => {
                if !burst.offer(place, &TARGET, &Incoming { length: 8, ..SEND }, key) {
                    burst.close();
                }
            }
            Progress::Done(false) => {
                operation.unlock(Object::Qp(QP));
                return Ok(true);
            }
            progress => assert!(operation.proceed(&progress)?),
        }
    }
    Ok(false)
}

#[test]
fn a_lock_that_cannot_be_had_ends_a_burst_and_the_next_repairs() {
    for (steps, left) in (0..60).flat_map(|steps| (0..6).map(move |left| (steps, left))) {
        let mut segment = Segment::default();
        segment.add_qp(4);
        segment.add_cq(4);
        let place = Stubborn { segment, locks: RefCell::default(), left: Cell::new(u32::MAX) };
        for wr_id in 10..13 {
            post(&place, Object::Qp(QP), &request(wr_id)).expect("there is room");
        }
        let whole = burst_in_part(&place, steps) == Ok(true);
        assert!(whole || place.locks.borrow().get(&Object::Qp(QP)) == Some(&true));
        assert!(whole || steps < 40);
        // Another meets a lock that it cannot have, in its repair or in its burst.
        place.left.set(left);
        let other = burst_in_part(&place, u32::MAX);
        assert!(other == Ok(true) || other == Err(LockError::Busy));
        assert!(place.locks.borrow().values().all(|abandoned| *abandoned), "a lock is still held");
        place.left.set(u32::MAX);
        assert_eq!(burst_in_part(&place, u32::MAX), Ok(true));
        let numbers: Vec<_> =
            std::iter::from_fn(|| poll(&place, CQ).expect("whole")).map(|entry| entry.wr_id).collect();
        assert_eq!(numbers, [10, 11, 12], "steps {steps}, locks {left}");
    }
}

#[test]
fn what_was_completed_makes_room() {
    assert_eq!((ring_capacity(0), ring_capacity(3), ring_capacity(4)), (Some(1), Some(4), Some(8)));
    assert_eq!(ring_capacity(u32::MAX), None);
    let mut spurious = false;
    for (shared, steps) in [false, true].into_iter().flat_map(|shared| (0..40).map(move |n| (shared, n))) {
        for posted in [3, 4] {
            let mut segment = Segment::default();
            segment.add_qp(4);
            segment.add_cq(4);
            segment.add_srq(4);
            let place = Stubborn { segment, locks: RefCell::default(), left: Cell::new(u32::MAX) };
            let queue = Place::queue(shared);
            for wr_id in 0..posted {
                post(&place, queue, &request(wr_id)).expect("there is room");
            }
            deliver_in_part(&place, shared, steps).expect("locks can be had");
            if poll(&place, CQ).expect("whole").is_none() {
                continue;
            }
            // As many as the ring was made for.
            if ring_capacity(posted as u32) == Some(4) {
                assert_eq!(post(&place, queue, &request(posted)), Ok(()));
                continue;
            }
            // As many as it has places.
            if post(&place, queue, &request(posted)) == Err(PostError::Full) {
                spurious = true;
                assert_eq!(post_or_repair(&place, queue, &request(posted)), Ok(()));
            }
            assert_eq!(post_or_repair(&place, queue, &request(posted)), Err(PostError::Full));
        }
    }
    assert!(spurious);
}
