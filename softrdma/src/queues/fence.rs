//! Fences: a queue that others share is moved away from a holder of its lock that lives and does not go on.
//!
//! A process that is stopped while it has the lock of a completion queue or shared receive queue cannot be
//! waited for, since others are behind that lock, and cannot be repaired after as one that died, since it may
//! go on at any step. So the owner of the queue
//!
//! 1. takes the lock word over, so that the holder, should it go on, finds out when it unlocks;
//! 2. looks what has happened up to one moment ([`cut`]), and tells the queue pair that the holder works for:
//!    its [`Fence`];
//! 3. gives the queue another place, as it was at that moment, with a free lock. What the holder still stores
//!    in the queue reaches the old place, which nobody reads.
//!
//! The holder keeps its queue pair, which nobody else needs. When it finds out, or has died and its queue pair
//! is [repaired](super::repair), the queue pair is set to what the fence says ([`Resolve`]): what the holder
//! stored there since that moment is not so.
//!
//! A queue pair says that it asks for a request, or in its journal that it is about to publish, from before the
//! lock of the other queue is waited for until its work there is done, and never when that lock was given back.
//! So a holder that has written nothing in the queue yet works for one of the queue pairs of its process that
//! say so; the others of them meet a queue that is not there any more, and are repaired.

use super::burst::MAX_BURST;
use super::deliver::take_request;
use super::shared::{
    Claim, CqJournal, CqWord, Fence, Memory, Object, QpJournal, QpWord, SrqJournal, SrqWord, Take, Word, slot,
};
use super::transaction::{Machine, Progress};

/// Looks in vain for a moment at which nothing changes, after which the holder is not believed to be honest.
const LOOKS: u32 = 10_000;

/// What a queue was like at one moment, but for what its owner writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// The words that others write, by number; [`CqWord`] or [`SrqWord`].
    pub words: Vec<u64>,
    /// Queue pairs that are to know what they have done and what not.
    pub fences: Vec<(u32, Fence)>,
}

/// Looks at a queue whose lock was taken from a living holder: whole, as if the holder had died at one moment.
/// `held` are the queue pairs whose locks that process has. `None` when it is repairing after somebody else, or
/// its journal lies: nothing can be said of what it writes.
#[must_use]
pub fn cut(memory: &impl Memory, queue: Object, held: &[u32]) -> Option<Cut> {
    let mut before = look(memory, queue, held);
    for _ in 0..LOOKS {
        // A holder goes on for a few steps at most, none of which undoes another: what was twice the same was
        // so in between.
        let now = look(memory, queue, held);
        if now == before {
            return judge(memory, queue, held, &now);
        }
        before = now;
    }
    None
}

/// Everything that a holder of the lock may be changing.
#[derive(PartialEq, Eq)]
struct Look {
    words: Vec<u64>,
    /// Counts of the entries from the tail on.
    entries: Vec<u32>,
    /// Journals and claims of the queue pairs.
    journals: Vec<[u64; 3]>,
}

#[expect(clippy::disallowed_methods, reason = "few, and gone when the queue was moved")]
fn look(memory: &impl Memory, queue: Object, held: &[u32]) -> Look {
    let words: Vec<u64> = match queue {
        Object::Cq(cq) => [CqWord::Journal, CqWord::Tail, CqWord::Armed, CqWord::Events, CqWord::Seen]
            .map(|word| memory.load(Word::Cq(cq, word)))
            .to_vec(),
        Object::Srq(srq) => [SrqWord::Journal, SrqWord::Head, SrqWord::Limit, SrqWord::Events, SrqWord::Seen]
            .map(|word| memory.load(Word::Srq(srq, word)))
            .to_vec(),
        Object::Qp(_) => Vec::new(),
    };
    let mut entries = Vec::new();
    if let (Object::Cq(cq), Some(journal)) = (queue, words.first().copied().and_then(CqJournal::unpack)) {
        let capacity = memory.capacity(queue);
        for count in 0..capacity.min(MAX_BURST) {
            let slot = slot(journal.tail.wrapping_add(count).wrapping_sub(1), capacity);
            entries.push(memory.load(Word::Entry { cq, slot, word: 0 }) as u32);
        }
    }
    let of = |qp: &u32| {
        [QpWord::Journal, QpWord::Claim, QpWord::Fence].map(|word| memory.load(Word::Qp(*qp, word)))
    };
    Look { words, entries, journals: held.iter().map(of).collect() }
}

#[expect(clippy::disallowed_methods, reason = "as above")]
fn judge(memory: &impl Memory, queue: Object, held: &[u32], look: &Look) -> Option<Cut> {
    let mut cut = Cut { words: look.words.clone(), fences: Vec::new() };
    let journal = cut.words.first_mut().map(std::mem::take)?;
    let mut by = held.iter().copied().zip(&look.journals);
    match queue {
        Object::Cq(cq) => {
            let delivery = |journals: &[u64; 3]| {
                QpJournal::unpack(journals[0]).filter(|delivery| delivery.cq == cq && !delivery.published)
            };
            let Some(journal) = CqJournal::unpack(journal) else {
                cut.fences = by
                    // One that has yet to look at an earlier fence: that is what is so.
                    .filter(|(_, journals)| journals[2] == 0)
                    .filter_map(|(qp, journals)| Some((qp, Fence::Delivery(delivery(journals)?))))
                    .collect();
                return Some(cut);
            };
            let published = look
                .entries
                .iter()
                .zip(0..)
                .take_while(|(entry, count)| **entry == journal.tail.wrapping_add(*count))
                .count() as u32;
            if published > 0 {
                cut.words[1] = u64::from(journal.tail.wrapping_add(published - 1));
            }
            match by.find(|(qp, _)| *qp == journal.qp) {
                Some((qp, journals)) => {
                    if let Some(delivery) = delivery(journals) {
                        let take = delivery.take.after(published);
                        let so = QpJournal { published: published > 0, take, ..delivery };
                        cut.fences.push((qp, Fence::Delivery(so)));
                    }
                }
                None if memory.exists(Object::Qp(journal.qp)) => return None,
                None => {}
            }
            Some(cut)
        }
        Object::Srq(srq) => {
            let Some(journal) = SrqJournal::unpack(journal) else {
                // None of them has got anything from here.
                let asks = |journals: &[u64; 3]| journals[1] == Claim::asking(srq) && journals[2] == 0;
                let fence = Fence::Claim { srq, held: false };
                cut.fences = by.filter(|(_, journals)| asks(journals)).map(|(qp, _)| (qp, fence)).collect();
                return Some(cut);
            };
            let (qp, journals) = match by.find(|(qp, _)| *qp == journal.qp) {
                Some(found) => found,
                None if memory.exists(Object::Qp(journal.qp)) => return None,
                None => return Some(cut),
            };
            let happened = Claim::unpack(journals[1]) == Some(Claim { srq, count: journal.count });
            cut.fences.push((qp, Fence::Claim { srq, held: happened }));
            if happened {
                // What follows a claim is done by the repair, in the new place.
                cut.words[0] = journal.pack();
            }
            Some(cut)
        }
        Object::Qp(_) => None,
    }
}

/// Sets a queue pair to what its fence says, and removes the fence. Run by the holder of the queue pair's lock
/// after it has had the lock of the queue, behind which the fence was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    qp: u32,
    fence: Fence,
    step: SettleStep,
}

#[derive(Clone, Copy, Debug)]
enum SettleStep {
    Journal,
    Head,
    Clear,
    Done,
}

impl Settle {
    /// The fence of this queue pair, when it is one of this queue.
    pub(super) fn find(memory: &impl Memory, qp: u32, queue: Object) -> Option<Self> {
        let fence = Fence::unpack(memory.load(Word::Qp(qp, QpWord::Fence)))?;
        let is_its = match (fence, queue) {
            (Fence::Delivery(delivery), Object::Cq(cq)) => delivery.cq == cq,
            (Fence::Claim { srq, .. }, Object::Srq(its)) => srq == its,
            _ => false,
        };
        is_its.then_some(Self { qp, fence, step: SettleStep::Journal })
    }
}

impl Machine for Settle {
    type Outcome = Fence;

    fn step(&mut self, memory: &impl Memory) -> Progress<Fence> {
        match self.step {
            SettleStep::Journal => {
                self.step = SettleStep::Head;
                match self.fence {
                    Fence::Delivery(delivery) => {
                        memory.store(Word::Qp(self.qp, QpWord::Journal), delivery.pack());
                    }
                    Fence::Claim { held: false, .. } => memory.store(Word::Qp(self.qp, QpWord::Claim), 0),
                    Fence::Claim { .. } => {}
                }
            }
            SettleStep::Head => {
                self.step = SettleStep::Clear;
                // A burst moves the head with each message, wherever that went.
                if let Fence::Delivery(QpJournal { take: Take::Head(head), .. }) = self.fence {
                    take_request(memory, self.qp, Take::Head(head));
                }
            }
            SettleStep::Clear => {
                self.step = SettleStep::Done;
                memory.store(Word::Qp(self.qp, QpWord::Fence), 0);
            }
            SettleStep::Done => return Progress::Done(self.fence),
        }
        Progress::Continue
    }
}

/// Finds out what became of a transaction when the lock of its queue turned out to be taken away, by the holder
/// of the queue pair's lock: the fence that it found there, by which the queue pair is set right, or none when
/// all of it had happened.
#[derive(Clone, Copy, Debug)]
pub struct Resolve {
    qp: u32,
    queue: Object,
    step: ResolveStep,
    found: Option<Fence>,
}

#[derive(Clone, Copy, Debug)]
enum ResolveStep {
    Lock,
    Find,
    Settle(Settle),
    Unlock,
    Done,
}

impl Resolve {
    /// For this queue pair and this queue.
    #[must_use]
    pub fn new(qp: u32, queue: Object) -> Self {
        Self { qp, queue, step: ResolveStep::Lock, found: None }
    }
}

impl Machine for Resolve {
    type Outcome = Option<Fence>;

    fn step(&mut self, memory: &impl Memory) -> Progress<Option<Fence>> {
        match self.step {
            ResolveStep::Lock => {
                // Had at its new place: the owner is done with the old one.
                self.step = ResolveStep::Find;
                return Progress::Lock(self.queue);
            }
            ResolveStep::Find => {
                self.step = Settle::find(memory, self.qp, self.queue)
                    .map_or(ResolveStep::Unlock, ResolveStep::Settle);
            }
            ResolveStep::Settle(ref mut settle) => {
                if let Progress::Done(fence) = settle.step(memory) {
                    self.found = Some(fence);
                    self.step = ResolveStep::Unlock;
                }
            }
            ResolveStep::Unlock => {
                self.step = ResolveStep::Done;
                return Progress::Unlock(self.queue);
            }
            ResolveStep::Done => return Progress::Done(self.found),
        }
        Progress::Continue
    }
}
