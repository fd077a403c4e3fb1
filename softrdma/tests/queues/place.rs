//! The place where transactions run: one segment, and processes that live for some steps.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use softrdma::queues::claim::{ClaimRequest, Claimed};
use softrdma::queues::completion::{Stage, stage_room};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::receive::{next_in_claim, next_in_ring};
use softrdma::queues::repair::Repair;
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, SrqWord, Take, Word, held};
use softrdma::queues::transaction::{Machine, Progress};
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::{Next, ReceiveRequest, Sge};
use softrdma::rules::verbs::WcOpcode;
use softrdma_testing::poll::{self, CqBroken, Staged};
use softrdma_testing::segment::Segment;

/// One segment, its locks, and how many steps the running process still lives.
pub struct Place {
    pub segment: Segment,
    pub locks: RefCell<HashMap<Object, u32>>,
    actor: Cell<u32>,
    life: Cell<u32>,
    pub bells: Cell<u32>,
    /// Bells cannot be rung.
    pub deaf: Cell<bool>,
}

pub const QP: u32 = 0;
pub const CQ: u32 = 0;
pub const SRQ: u32 = 0;

impl Place {
    pub fn new() -> Self {
        Self::with_rings(4, 4)
    }

    /// With so many receive requests and completions.
    pub fn with_rings(receives: u32, completions: u32) -> Self {
        let mut segment = Segment::default();
        segment.add_qp(receives);
        segment.add_cq(completions);
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
    pub fn next_process(&self, life: u32) {
        self.actor.set(self.actor.get() + 1);
        self.life.set(life);
    }

    pub fn tick(&self) -> Option<()> {
        self.life.set(self.life.get().checked_sub(1)?);
        Some(())
    }

    /// `None`: it died.
    pub fn lock(&self, object: Object) -> Option<()> {
        self.tick()?;
        let before = self.locks.borrow_mut().insert(object, self.actor.get());
        assert_ne!(before, Some(self.actor.get()), "{object:?} is locked twice");
        if before.is_some() { self.carry(Repair::new(object)) } else { Some(()) }
    }

    pub fn unlock(&self, object: Object) -> Option<()> {
        self.tick()?;
        assert_eq!(self.locks.borrow_mut().remove(&object), Some(self.actor.get()));
        Some(())
    }

    pub fn carry<M: Machine>(&self, mut machine: M) -> Option<M::Outcome> {
        self.drive(&mut machine)
    }

    /// As above, of a machine that goes on afterwards.
    pub fn drive<M: Machine>(&self, machine: &mut M) -> Option<M::Outcome> {
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
    pub fn deliver(&self, shared: bool, src_qp: u32) -> Option<()> {
        self.lock(Object::Qp(QP))?;
        let take = if shared {
            if next_in_claim(&self.segment, QP).is_none() {
                assert_eq!(self.carry(ClaimRequest::new(QP, SRQ))?, Claimed::Request);
            }
            Take::Claim(0)
        } else {
            Take::Head(self.load(Word::Qp(QP, QpWord::Head)) as u32)
        };
        let next = match take {
            Take::Claim(_) => next_in_claim(&self.segment, QP).map(|(_, next)| next),
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

    pub fn load(&self, word: Word) -> u64 {
        self.segment.load(word)
    }

    pub fn queue(shared: bool) -> Object {
        if shared { Object::Srq(SRQ) } else { Object::Qp(QP) }
    }

    pub fn waiting(&self, shared: bool) -> u32 {
        let (head, tail) = if shared {
            (Word::Srq(SRQ, SrqWord::Head), Word::Srq(SRQ, SrqWord::Tail))
        } else {
            (Word::Qp(QP, QpWord::Head), Word::Qp(QP, QpWord::Tail))
        };
        let queue = held(self.load(head), self.load(tail), 4).expect("the counts are true");
        queue + u32::from(next_in_claim(&self.segment, QP).is_some())
    }

    pub fn completions(&self) -> Vec<Completion> {
        let mut staged = Staged::default();
        let mut next = || {
            let completion = poll::poll(&self.segment, CQ, &mut staged).expect("the queue is whole")?;
            if !staged.is_empty() {
                assert_eq!((staged.addr, staged.lkey, staged.len()), (completion.wr_id, 1, 96));
                assert!((0..12).eq(staged.words().iter().map(|word| word - completion.wr_id)));
            }
            Some(completion)
        };
        std::iter::from_fn(&mut next).collect()
    }
}

pub fn poll(memory: &impl Memory, cq: u32) -> Result<Option<Completion>, CqBroken> {
    poll::poll(memory, cq, &mut Staged::default())
}

pub fn request(wr_id: u64) -> ReceiveRequest {
    ReceiveRequest { wr_id, sges: [Sge { addr: wr_id, length: 8, lkey: 1 }].into() }
}
