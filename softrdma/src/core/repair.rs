//! Repair: what to do with an object whose lock was taken over from a process that died.
//!
//! Each repair may itself be cut short by death at any step; whoever comes next starts it again.

use super::claim::After;
use super::deliver::take_request;
use super::shared::{
    Claim, CqJournal, CqWord, Memory, Object, QpJournal, QpWord, SrqJournal, SrqWord, Word, slot,
};
use super::transport::{Machine, Progress};
use super::verbs::QpState;

/// Makes an object whole: what its last owner was doing has then either happened or not. Run by whoever holds the
/// lock now, before anything else.
#[derive(Clone, Debug)]
pub struct Repair {
    object: Object,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    /// Completion queue: the entry was published, and is to be counted.
    CqCount(CqJournal),
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
    QpSrqUnlock(u32),
    QpJournal,
    /// Queue pair: the completion queue in question was locked, so the journal is true.
    QpResolve(u32),
    QpBreak(u32),
    QpClear(u32),
    QpCqUnlock(u32),
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
                let last = journal.tail.wrapping_sub(1);
                let slot = slot(last, memory.capacity(self.object));
                if memory.load(Word::Entry { cq, slot, word: 0 }) as u32 == journal.tail {
                    self.step = Step::CqCount(journal);
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
                    self.step = Step::QpSrqUnlock(claim.srq);
                    return Progress::Lock(Object::Srq(claim.srq));
                }
            }
        }
        Progress::Continue
    }
}

impl Machine for Repair {
    type Outcome = ();

    fn step(&mut self, memory: &impl Memory) -> Progress<()> {
        let (Object::Qp(index) | Object::Srq(index) | Object::Cq(index)) = self.object;
        match self.step {
            Step::Start => return self.start(memory),
            Step::CqCount(journal) => {
                self.step = Step::CqClear;
                memory.store(Word::Cq(index, CqWord::Tail), u64::from(journal.tail));
                if memory.exists(Object::Qp(journal.qp)) {
                    let delivery = QpJournal::unpack(memory.load(Word::Qp(journal.qp, QpWord::Journal)));
                    if let Some(delivery) =
                        delivery.filter(|delivery| !delivery.published && delivery.cq == index)
                    {
                        self.step = Step::CqMark { qp: journal.qp, journal: delivery };
                    }
                }
            }
            Step::CqMark { qp, journal } => {
                // The queue pair's lock is not held here. Its owner is the dead process, or whoever took it over and
                // now waits for this completion queue before it reads the journal.
                self.step = Step::CqClear;
                let journal = QpJournal { published: true, ..journal };
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
            Step::QpSrqUnlock(srq) => {
                self.step = Step::QpJournal;
                return Progress::Unlock(Object::Srq(srq));
            }
            Step::QpJournal => match QpJournal::unpack(memory.load(Word::Qp(index, QpWord::Journal))) {
                None => self.step = Step::Done,
                Some(journal) if memory.exists(Object::Cq(journal.cq)) => {
                    self.step = Step::QpResolve(journal.cq);
                    return Progress::Lock(Object::Cq(journal.cq));
                }
                Some(_) => {
                    memory.store(Word::Qp(index, QpWord::Journal), 0);
                    self.step = Step::Done;
                }
            },
            Step::QpResolve(cq) => {
                self.step = Step::QpClear(cq);
                let journal = QpJournal::unpack(memory.load(Word::Qp(index, QpWord::Journal)));
                if let Some(QpJournal { published: true, take, breaks, .. }) = journal {
                    take_request(memory, index, take);
                    if breaks {
                        self.step = Step::QpBreak(cq);
                    }
                }
            }
            Step::QpBreak(cq) => {
                self.step = Step::QpClear(cq);
                memory.store(Word::Qp(index, QpWord::State), QpState::Err as u64);
            }
            Step::QpClear(cq) => {
                self.step = Step::QpCqUnlock(cq);
                memory.store(Word::Qp(index, QpWord::Journal), 0);
            }
            Step::QpCqUnlock(cq) => {
                self.step = Step::Done;
                return Progress::Unlock(Object::Cq(cq));
            }
            Step::Done => return Progress::Done(()),
        }
        Progress::Continue
    }
}
