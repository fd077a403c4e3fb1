//! Repair: what to do with an object whose lock was taken over from a process that died.
//!
//! Each repair may itself be cut short by death at any step; the next holder of the lock starts it again.

use super::burst::MAX_BURST;
use super::claim::After;
use super::deliver::take_request;
use super::fence::Settle;
use super::shared::{
    Claim, CqJournal, CqWord, Memory, Object, QpJournal, QpWord, SrqJournal, SrqWord, Word, slot,
};
use super::transaction::{Machine, Progress};
use crate::rules::verbs::QpState;

/// Makes an object whole: what its last owner was doing has then either happened or not. The holder of the lock
/// runs it before anything else.
#[derive(Clone, Debug)]
pub struct Repair {
    object: Object,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    /// Completion queue: so many entries were published, and are to be counted.
    CqCount(CqJournal, u32),
    /// Completion queue: its queue pair is to know.
    CqMark {
        qp: u32,
        journal: QpJournal,
    },
    CqClear,
    /// Shared receive queue: the claim happened.
    SrqAfter(After),
    SrqClear,
    /// Queue pair: the shared receive queue in question was locked, so it is whole.
    QpClaim(u32),
    QpClaimFence(u32, Settle),
    QpSrqUnlock(u32),
    QpJournal,
    /// Queue pair: the completion queue in question was locked, so a fence is there, if there is one.
    QpFence(u32, Settle),
    /// Queue pair: the completion queue in question was locked, so the journal is true.
    QpResolve(u32),
    /// Queue pair: what was delivered breaks it. With the completion queue to give back afterwards.
    QpBreak(Option<u32>),
    QpClear(Option<u32>),
    QpCqUnlock(u32),
    /// Queue pair: nobody asks for a request of a shared receive queue any more.
    QpUnask,
    /// Queue pair: a fence that is left says nothing any more.
    QpUnfence,
    Done,
}

impl Repair {
    /// The repair of this object.
    #[must_use]
    pub fn new(object: Object) -> Self {
        Self { object, step: Step::Start }
    }

    fn start(&mut self, memory: &impl Memory) -> Progress<()> {
        match self.object {
            Object::Cq(cq) => {
                self.step = Step::CqClear;
                let Some(journal) = CqJournal::unpack(memory.load(Word::Cq(cq, CqWord::Journal))) else {
                    self.step = Step::Done;
                    return Progress::Continue;
                };
                let capacity = memory.capacity(self.object);
                let published = |count: u32| {
                    let slot = slot(journal.tail.wrapping_add(count).wrapping_sub(1), capacity);
                    let first = memory.load(Word::Entry { cq, slot, word: 0 }) as u32;
                    first == journal.tail.wrapping_add(count)
                };
                // No honest burst is longer than that, nor goes round the ring.
                let most = capacity.min(MAX_BURST);
                let count = (0..most).take_while(|count| published(*count)).count() as u32;
                if count > 0 {
                    self.step = Step::CqCount(journal, count);
                }
            }
            Object::Srq(srq) => {
                self.step = Step::SrqClear;
                let Some(journal) = SrqJournal::unpack(memory.load(Word::Srq(srq, SrqWord::Journal))) else {
                    self.step = Step::Done;
                    return Progress::Continue;
                };
                if memory.exists(Object::Qp(journal.qp)) {
                    let claim = Claim::unpack(memory.load(Word::Qp(journal.qp, QpWord::Claim)));
                    if claim == Some(Claim { srq, count: journal.count }) {
                        self.step = Step::SrqAfter(After::new(srq, journal));
                    }
                }
            }
            Object::Qp(qp) => {
                self.step = Step::QpJournal;
                if let Some(claim) = Claim::unpack(memory.load(Word::Qp(qp, QpWord::Claim)))
                    && memory.exists(Object::Srq(claim.srq))
                {
                    self.step = Step::QpClaim(claim.srq);
                    return Progress::Lock(Object::Srq(claim.srq));
                }
            }
        }
        Progress::Continue
    }

    /// Finishes a delivery whose journal is true: it happened, or it did not.
    fn settle(&mut self, memory: &impl Memory, qp: u32, journal: QpJournal, cq: Option<u32>) {
        self.step = Step::QpClear(cq);
        if journal.published {
            take_request(memory, qp, journal.take);
            if journal.breaks {
                self.step = Step::QpBreak(cq);
            }
        }
    }
}

impl Machine for Repair {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        let (Object::Qp(index) | Object::Srq(index) | Object::Cq(index)) = self.object;
        match self.step {
            Step::Start => return self.start(memory),
            Step::CqCount(journal, count) => {
                self.step = Step::CqClear;
                let tail = journal.tail.wrapping_add(count - 1);
                memory.store(Word::Cq(index, CqWord::Tail), u64::from(tail));
                if memory.exists(Object::Qp(journal.qp)) {
                    let delivery = QpJournal::unpack(memory.load(Word::Qp(journal.qp, QpWord::Journal)));
                    if let Some(delivery) =
                        delivery.filter(|delivery| !delivery.published && delivery.cq == index)
                    {
                        let take = delivery.take.after(count);
                        let journal_now = QpJournal { published: true, take, ..delivery };
                        self.step = Step::CqMark { qp: journal.qp, journal: journal_now };
                    }
                }
            }
            Step::CqMark { qp, journal } => {
                // The queue pair's lock is not held here. Its owner is the dead process, or whoever took it
                // over and now waits for this completion queue before it reads the journal.
                self.step = Step::CqClear;
                memory.store(Word::Qp(qp, QpWord::Journal), journal.pack());
            }
            Step::CqClear => {
                self.step = Step::Done;
                memory.store(Word::Cq(index, CqWord::Journal), 0);
            }
            Step::SrqAfter(ref mut after) => match after.step(memory) {
                Progress::Done(()) => self.step = Step::SrqClear,
                Progress::Alert(object) => return Progress::Alert(object),
                _ => {}
            },
            Step::SrqClear => {
                self.step = Step::Done;
                memory.store(Word::Srq(index, SrqWord::Journal), 0);
            }
            Step::QpClaim(srq) => {
                self.step = Settle::find(memory, index, Object::Srq(srq))
                    .map_or(Step::QpSrqUnlock(srq), |settle| Step::QpClaimFence(srq, settle));
            }
            Step::QpClaimFence(srq, ref mut settle) => {
                if let Progress::Done(_) = settle.step(memory) {
                    self.step = Step::QpSrqUnlock(srq);
                }
            }
            Step::QpSrqUnlock(srq) => {
                self.step = Step::QpJournal;
                return Progress::Unlock(Object::Srq(srq));
            }
            Step::QpJournal => match QpJournal::unpack(memory.load(Word::Qp(index, QpWord::Journal))) {
                None => self.step = Step::QpUnask,
                Some(journal) if memory.exists(Object::Cq(journal.cq)) => {
                    self.step = Step::QpResolve(journal.cq);
                    return Progress::Lock(Object::Cq(journal.cq));
                }
                // Its owner locked it to end it, so the journal is true.
                Some(journal) => self.settle(memory, index, journal, None),
            },
            Step::QpResolve(cq) => {
                if let Some(settle) = Settle::find(memory, index, Object::Cq(cq)) {
                    self.step = Step::QpFence(cq, settle);
                    return Progress::Continue;
                }
                self.step = Step::QpClear(Some(cq));
                if let Some(journal) = QpJournal::unpack(memory.load(Word::Qp(index, QpWord::Journal))) {
                    self.settle(memory, index, journal, Some(cq));
                }
            }
            Step::QpFence(cq, ref mut settle) => {
                if let Progress::Done(_) = settle.step(memory) {
                    self.step = Step::QpResolve(cq);
                }
            }
            Step::QpBreak(cq) => {
                self.step = Step::QpClear(cq);
                memory.store(Word::Qp(index, QpWord::State), QpState::Err as u64);
            }
            Step::QpClear(cq) => {
                self.step = cq.map_or(Step::QpUnask, Step::QpCqUnlock);
                memory.store(Word::Qp(index, QpWord::Journal), 0);
            }
            Step::QpUnask => {
                self.step = Step::QpUnfence;
                let claim = memory.load(Word::Qp(index, QpWord::Claim));
                if claim != 0 && Claim::unpack(claim).is_none() {
                    memory.store(Word::Qp(index, QpWord::Claim), 0);
                }
            }
            Step::QpUnfence => {
                self.step = Step::Done;
                if memory.load(Word::Qp(index, QpWord::Fence)) != 0 {
                    memory.store(Word::Qp(index, QpWord::Fence), 0);
                }
            }
            Step::QpCqUnlock(cq) => {
                self.step = Step::QpUnask;
                return Progress::Unlock(Object::Cq(cq));
            }
            Step::Done => return Progress::Done(()),
        }
        Progress::Continue
    }
}
