//! Transactions, one death at a time: whoever dies after any step, and whoever dies within the repair of that, what is
//! left is all or nothing. And transactions on memory full of lies: they end, inside of the memory.

#[path = "sim/segment.rs"]
mod segment;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use proptest::prelude::*;
use softrdma::core::breaks::collect;
use softrdma::core::claim::{Claim, Claimed};
use softrdma::core::completion::{self, Arm, Completion, CqBroken, Stage, Staged, remove, stage_room, wants};
use softrdma::core::deliver::{Deliver, Delivered};
use softrdma::core::flush::{Flush, reset};
use softrdma::core::keys::{Key, Kind};
use softrdma::core::receive::{
    Next, PostError, ReceiveRequest, Sge, next_in_claim, next_in_ring, post, post_or_repair, ring_capacity,
};
use softrdma::core::repair::Repair;
use softrdma::core::requester::{Outcome, Syndrome};
use softrdma::core::respond::{MoveError, Queues, Respond, Want};
use softrdma::core::responder::{Incoming, Target};
use softrdma::core::shared::{CqWord, Memory, Object, QpWord, SrqWord, Take, Word, held};
use softrdma::core::transport::{LockError, Locked, Machine, Operation, Progress, Transport, acquire, run};
use softrdma::core::verbs::{Access, Event, Opcode, QpState, QpType, Status, WcOpcode};

use segment::Segment;

/// One segment, its locks, and how many steps the running process still lives.
struct Place {
    segment: Segment,
    locks: RefCell<HashMap<Object, u32>>,
    actor: Cell<u32>,
    life: Cell<u32>,
    bells: Cell<u32>,
    /// Bells cannot be rung.
    deaf: Cell<bool>,
}

const QP: u32 = 0;
const CQ: u32 = 0;
const SRQ: u32 = 0;

impl Place {
    fn new() -> Self {
        let mut segment = Segment::default();
        segment.add_qp(4);
        segment.add_cq(4);
        segment.add_srq(4);
        segment.store(Word::Cq(CQ, CqWord::Armed), 2);
        Self {
            segment,
            locks: RefCell::default(),
            actor: Cell::new(0),
            life: Cell::new(u32::MAX),
            bells: Cell::new(0),
            deaf: Cell::new(false),
        }
    }

    /// Starts another process that lives for so many steps. Those before it are dead.
    fn next_process(&self, life: u32) {
        self.actor.set(self.actor.get() + 1);
        self.life.set(life);
    }

    fn tick(&self) -> Option<()> {
        self.life.set(self.life.get().checked_sub(1)?);
        Some(())
    }

    /// `None`: it died.
    fn lock(&self, object: Object) -> Option<()> {
        self.tick()?;
        let before = self.locks.borrow_mut().insert(object, self.actor.get());
        assert_ne!(before, Some(self.actor.get()), "{object:?} is locked twice");
        if before.is_some() { self.carry(Repair::new(object)) } else { Some(()) }
    }

    fn unlock(&self, object: Object) -> Option<()> {
        self.tick()?;
        assert_eq!(self.locks.borrow_mut().remove(&object), Some(self.actor.get()));
        Some(())
    }

    fn carry<M: Machine>(&self, mut machine: M) -> Option<M::Outcome> {
        loop {
            self.tick()?;
            match machine.step(&self.segment) {
                Progress::Continue | Progress::Alert(_) => {}
                Progress::Lock(object) => self.lock(object)?,
                Progress::Unlock(object) => self.unlock(object)?,
                Progress::Bell(_) if self.deaf.get() => machine.unheard(),
                Progress::Bell(_) => self.bells.set(self.bells.get() + 1),
                Progress::Done(outcome) => return Some(outcome),
            }
        }
    }

    /// What a sender does: a claim where there is a shared queue, then a delivery.
    fn deliver(&self, shared: bool, src_qp: u32) -> Option<()> {
        self.lock(Object::Qp(QP))?;
        let take = if shared {
            if next_in_claim(&self.segment, QP).is_none() {
                assert_eq!(self.carry(Claim::new(QP, SRQ))?, Claimed::Request);
            }
            Take::Claim
        } else {
            Take::Head(self.load(Word::Qp(QP, QpWord::Head)) as u32)
        };
        let next = match take {
            Take::Claim => next_in_claim(&self.segment, QP).map(|(_, next)| next),
            Take::Head(_) => Some(next_in_ring(&self.segment, QP)),
        };
        let Some(Next::Request(request)) = next else { panic!("{next:?}") };
        let flushed = Completion::flushed(request.wr_id, WcOpcode::Recv, 1);
        let completion = Completion { src_qp, ..flushed };
        // As much payload as an entry takes.
        let bytes: Vec<u8> = (0..12).flat_map(|n| (request.wr_id + n).to_ne_bytes()).collect();
        assert_eq!(stage_room(&self.segment, CQ), bytes.len());
        let stage = Stage { addr: request.wr_id, lkey: 1, bytes: &bytes };
        let deliver = Deliver::receive(QP, take, CQ, &completion, false).with(Some(stage));
        assert_eq!(self.carry(deliver)?, Delivered::Published);
        self.unlock(Object::Qp(QP))
    }

    fn load(&self, word: Word) -> u64 {
        self.segment.load(word)
    }

    fn queue(shared: bool) -> Object {
        if shared { Object::Srq(SRQ) } else { Object::Qp(QP) }
    }

    fn waiting(&self, shared: bool) -> u32 {
        let (head, tail) = if shared {
            (Word::Srq(SRQ, SrqWord::Head), Word::Srq(SRQ, SrqWord::Tail))
        } else {
            (Word::Qp(QP, QpWord::Head), Word::Qp(QP, QpWord::Tail))
        };
        let queue = held(self.load(head), self.load(tail), 4).expect("the counts are true");
        queue + u32::from(next_in_claim(&self.segment, QP).is_some())
    }

    fn completions(&self) -> Vec<Completion> {
        let mut staged = Staged::default();
        let mut next = || {
            let completion = completion::poll(&self.segment, CQ, &mut staged).expect("the queue is whole")?;
            if !staged.is_empty() {
                assert_eq!((staged.addr, staged.lkey, staged.len()), (completion.wr_id, 1, 96));
                assert!((0..12).eq(staged.words().iter().map(|word| word - completion.wr_id)));
            }
            Some(completion)
        };
        std::iter::from_fn(&mut next).collect()
    }
}

fn poll(memory: &impl Memory, cq: u32) -> Result<Option<Completion>, CqBroken> {
    completion::poll(memory, cq, &mut Staged::default())
}

fn request(wr_id: u64) -> ReceiveRequest {
    ReceiveRequest { wr_id, sges: [Sge { addr: wr_id, length: 8, lkey: 1 }].into() }
}

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

#[test]
fn a_reset_forgets_and_hands_back_what_was_shared() {
    let place = Place::new();
    place.next_process(u32::MAX);
    for wr_id in 10..13 {
        post(&place.segment, Object::Qp(QP), &request(wr_id)).expect("there is room");
        post(&place.segment, Object::Srq(SRQ), &request(wr_id + 10)).expect("there is room");
    }
    assert_eq!(place.carry(Claim::new(QP, SRQ)), Some(Claimed::Request));
    let (claim, held) = reset(&place.segment, QP).expect("a request is held");
    assert_eq!((claim.srq, held), (SRQ, request(20)));
    assert_eq!(place.waiting(false), 0);
    assert_eq!(place.waiting(true), 2);
    assert!(reset(&place.segment, QP).is_none());
    post(&place.segment, Object::Qp(QP), &request(30)).expect("there is room");
    assert_eq!(next_in_ring(&place.segment, QP), Next::Request(request(30)));
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

/// A segment whose locks are always free; every other one was somebody's who died.
struct Bare {
    segment: Segment,
    steps: Cell<u32>,
    recovered: Cell<bool>,
}

impl Memory for Bare {
    fn load(&self, word: Word) -> u64 {
        self.steps.set(self.steps.get() + 1);
        assert!(self.steps.get() < 100_000, "a transaction does not end");
        self.segment.load(word)
    }

    fn store(&self, word: Word, value: u64) {
        self.segment.store(word, value);
    }

    fn exists(&self, object: Object) -> bool {
        self.segment.exists(object)
    }

    fn capacity(&self, object: Object) -> u32 {
        self.segment.capacity(object)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.segment.receive_words(queue)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.segment.entry_words(cq)
    }
}

impl Transport for Bare {
    fn lock(&self, object: Object) -> Result<Locked, LockError> {
        assert!(self.exists(object));
        Ok(if self.recovered.replace(!self.recovered.get()) { Locked::Recovered } else { Locked::Clean })
    }

    fn unlock(&self, _: Object) {}

    fn abandon(&self, _: Object) {}

    fn bell(&self, _: u32) -> bool {
        true
    }

    fn alert(&self, _: Object) {}
}

/// A segment of which locks cannot be had after a while.
struct Stubborn {
    segment: Segment,
    /// Locks that are not free, and whether they were abandoned.
    locks: RefCell<HashMap<Object, bool>>,
    /// How many locks can still be had.
    left: Cell<u32>,
}

impl Memory for Stubborn {
    fn load(&self, word: Word) -> u64 {
        self.segment.load(word)
    }

    fn store(&self, word: Word, value: u64) {
        self.segment.store(word, value);
    }

    fn exists(&self, object: Object) -> bool {
        self.segment.exists(object)
    }

    fn capacity(&self, object: Object) -> u32 {
        self.segment.capacity(object)
    }

    fn receive_words(&self, queue: Object) -> u32 {
        self.segment.receive_words(queue)
    }

    fn entry_words(&self, cq: u32) -> u32 {
        self.segment.entry_words(cq)
    }
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

    fn unlock(&self, object: Object) {
        assert_eq!(self.locks.borrow_mut().remove(&object), Some(false));
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
            assert_eq!(operation.run(Claim::new(QP, SRQ))?, Claimed::Request);
        }
        Take::Claim
    } else {
        Take::Head(place.load(Word::Qp(QP, QpWord::Head)) as u32)
    };
    let next = match take {
        Take::Claim => next_in_claim(place, QP).map(|(_, next)| next),
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

/// A word as a vandal would write it: plausible, or anything.
fn lie() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        0..8u64,
        any::<u64>(),
        any::<u64>().prop_map(|word| word | 1 << 63),
        any::<u64>().prop_map(|word| 0b11 << 62 | word & 0xff_ffff),
    ]
}

/// Carries a request out at one of the queue pairs.
fn respond(place: &Bare, qp: u32, opcode: Opcode, moved: Result<(), MoveError>) -> Outcome {
    let state = QpState::from_number(place.load(Word::Qp(qp, QpWord::State)) as u32).unwrap_or(QpState::Rts);
    let target = Target {
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
        srq: qp == 0,
    };
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
    let mut respond = Respond::new(target, queues, request, Some(key), Some(window));
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lies_in_shared_memory_do_no_harm(lies in prop::collection::vec(lie(), 64), recovered: bool) {
        let mut segment = Segment::default();
        for _ in 0..2 {
            segment.add_qp(4);
            segment.add_srq(2);
            segment.add_cq(4);
        }
        segment.fill(&lies);
        let place = Bare { segment, steps: Cell::new(0), recovered: Cell::new(recovered) };
        let entry = Completion::flushed(1, WcOpcode::Recv, 1);
        for object in place.segment.objects() {
            acquire(&place, object).expect("locks are free");
        }
        for index in 0..2 {
            let _ = run(&place, Claim::new(index, 1 - index));
            let _ = next_in_claim(&place, index);
            let _ = next_in_ring(&place, index);
            let _ = run(&place, Deliver::receive(index, Take::Claim, index, &entry, true));
            let _ = run(&place, Flush::new(&place, index, 1, index, index == 0));
            for opcode in [Opcode::SendWithImm, Opcode::RdmaWriteWithImm, Opcode::RdmaRead] {
                respond(&place, index, opcode, Err(MoveError::Target));
            }
            let _ = post(&place, Object::Srq(index), &request(1));
            for _ in 0..8 {
                let _ = poll(&place, index);
            }
        }
    }
}
