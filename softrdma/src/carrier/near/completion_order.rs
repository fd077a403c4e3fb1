//! Own completions, and why one comes before the answer of the peer that its message wakes.
//!
//! On a wire an acknowledgement arrives before anything that the peer sends after it, and programs rely on it:
//! iSCSI targets end a login by the completion of its last answer and refuse commands that come before. Here
//! the peer is told first, and a peer that was asleep may run, answer, and have its message completed before
//! this thread runs again. So the lock of the own completion queue is taken before the bell is rung, and given
//! back behind the own completion.

use std::cell::Cell;
use std::fmt::{Debug, Formatter, Result as FmtResult};
use std::hint::spin_loop;
use std::sync::Arc;
use std::time::Instant;

use ironverbs_os::clock::now;
use queue_lock::{QueueGuard, QueueLock};

use crate::error::Error;
use crate::queues::completion::{Armed, wanted, wants};
use crate::queues::deliver::{Deliver, Delivered};
use crate::queues::shared::{CqWord, Memory, Object, Word};
use crate::queues::transaction::LockError;
use crate::queues::transport::{Operation, Transport as _, run};
use crate::rules::completion::Completion;
use crate::shm::objects::{Held, Host, LOCK_LIMIT, Lane};

use super::endpoint::Endpoint;
use super::own_ring::{OwnReader, OwnRing, SharedWords};
use super::permissions::Permissions;

/// Tries before the order is given up: longer than anybody has the lock who runs.
const TRIES: u32 = 256;
/// Every so many it gives way: who has the lock may share its processor.
const YIELDS: u32 = 32;

/// An own completion queue, as completions of this process go there.
#[derive(Debug)]
pub struct OwnQueue {
    own: Host,
    permissions: Option<Arc<Permissions>>,
    index: u32,
    /// Where completions of successes go that need nothing of the queue.
    ring: Arc<OwnRing>,
    /// Where it stands in the segment.
    held: QueueLock<Held>,
}

/// The completion queue of one request that tells of its success, not kept at first.
pub struct CompletionOrder<'a> {
    queue: Option<&'a OwnQueue>,
    /// Where the queue is, behind the process's own lock, which comes before the queue's.
    kept: Cell<Option<QueueGuard<'a, Held>>>,
}

impl Debug for CompletionOrder<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.debug_struct("CompletionOrder").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl<'a> CompletionOrder<'a> {
    /// `None`: there will be no completion, or its order does not matter.
    #[inline]
    pub fn new(queue: Option<&'a OwnQueue>) -> Self {
        Self { queue, kept: Cell::new(None) }
    }

    /// Keeps the queue from others, unless somebody has it for long: whoever waited here with the target's
    /// locks might wait for one who waits for them.
    #[cold]
    pub(crate) fn keep(&self) {
        let Some(queue) = self.queue else { return };
        let mut kept = self.kept.take();
        for n in 1..=TRIES {
            if kept.is_some() {
                break;
            }
            if n % YIELDS == 0 {
                std::thread::yield_now();
            }
            kept = queue.try_keep();
            spin_loop();
        }
        self.kept.set(kept);
    }

    /// Gives the queue back when it is kept.
    #[inline]
    pub(crate) fn give_back(&self) {
        if let Some(queue) = self.queue
            && let Some(held) = self.kept.take()
        {
            queue.give_back(&held);
        }
    }

    /// Where the queue is, if it is kept; who asks gives it back.
    #[inline]
    pub(crate) fn take(&self) -> Option<QueueGuard<'a, Held>> {
        self.kept.take()
    }
}

impl Drop for CompletionOrder<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl OwnQueue {
    /// The queue with this index, and the side of its private ring for who polls.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn new(endpoint: &Endpoint, index: u32) -> Result<(Self, OwnReader), Error> {
        let (own, permissions) = (endpoint.own.within(LOCK_LIMIT), endpoint.permissions.clone());
        let held = own.find([None, None, Some(Object::Cq(index))]);
        let shared = shared_words(&own, index).ok_or(Error::NoMemory)?;
        let (ring, reader) = OwnRing::new(Some(shared))?;
        Ok((Self { own, permissions, index, ring, held: QueueLock::new(held) }, reader))
    }

    /// Looks where it is now.
    pub(crate) fn follow(&self) {
        *self.held.lock() = self.own.find([None, None, Some(Object::Cq(self.index))]);
        self.moved();
    }

    /// As [`OwnQueue::follow`], for who may be about to append.
    pub(crate) fn moved(&self) {
        self.ring.follow(shared_words(&self.own, self.index));
    }

    /// Whether completions may go to the private ring; asked while none does.
    pub(crate) fn open_if(&self, is_open: impl FnOnce() -> bool) {
        self.ring.open_if(|| {
            let is_open = self.permissions.is_none() && is_open();
            is_open.then(|| self.count(CqWord::Tail))
        });
    }

    /// The queue was armed: completions ring from now on.
    pub(crate) fn arm(&self) {
        self.ring.arm();
    }

    /// Completions were taken out of the queue, so that others stand elsewhere. Behind its lock.
    pub(crate) fn shifted(&self) {
        self.ring.shifted(self.count(CqWord::Tail));
    }

    /// Appends a completion of this process's own whose order nobody keeps, where it goes to the private ring,
    /// and no lock is taken that others want.
    #[inline(always)]
    pub(crate) fn append_alone(&self, completion: &Completion) -> bool {
        self.ring.append_alone(completion, || self.count(CqWord::Head))
    }

    /// Appends a completion of this process's own, in its turn.
    #[inline(always)]
    pub(crate) fn append(
        &self,
        completion: &Completion,
        order: &CompletionOrder<'_>,
    ) -> Result<Delivered, LockError> {
        if self.ring.append(completion, || self.count(CqWord::Head)) {
            order.give_back();
            return Ok(Delivered::Published);
        }
        self.append_shared(completion, order)
    }

    /// As [`OwnQueue::append`], where others append, too.
    #[inline(never)]
    fn append_shared(
        &self,
        completion: &Completion,
        order: &CompletionOrder<'_>,
    ) -> Result<Delivered, LockError> {
        let delivered = match &self.permissions {
            None => self.publish(completion, order),
            Some(permissions) => self.publish_under_number(permissions, completion, order),
        };
        self.ring.passed_by(|| {
            let armed = self.own.load(Word::Cq(self.index, CqWord::Armed));
            (self.count(CqWord::Tail), armed != Armed::No as u64)
        });
        delivered
    }

    fn count(&self, word: CqWord) -> u32 {
        self.own.load(Word::Cq(self.index, word)) as u32
    }

    /// Appends a completion that names its request by a number of the permissions: others could write one that
    /// names any.
    #[cold]
    fn publish_under_number(
        &self,
        permissions: &Permissions,
        completion: &Completion,
        order: &CompletionOrder<'_>,
    ) -> Result<Delivered, LockError> {
        // Without memory for it the completion is lost, as in a queue that has no room.
        let Some(number) = permissions.sent(completion.qp_num, completion.wr_id) else {
            return Ok(Delivered::Overrun);
        };
        let numbered = Completion { wr_id: number, ..*completion };
        let delivered = self.publish(&numbered, order);
        if delivered != Ok(Delivered::Published) {
            permissions.forget(&numbered);
        }
        delivered
    }

    #[inline(always)]
    fn publish(&self, completion: &Completion, order: &CompletionOrder<'_>) -> Result<Delivered, LockError> {
        if let Some(held) = order.take() {
            let appended = complete_kept(&self.own, &held, self.index, completion);
            drop(held);
            return self.or_anew(appended, completion);
        }
        let held = self.held.lock();
        let appended = complete(&self.own, &held, self.index, completion);
        drop(held);
        self.or_anew(appended, completion)
    }

    /// What came of a completion, or comes of it where the queue is now.
    #[inline(always)]
    fn or_anew(
        &self,
        appended: Result<Delivered, LockError>,
        completion: &Completion,
    ) -> Result<Delivered, LockError> {
        if appended == Err(LockError::Gone) { self.publish_anew(completion) } else { appended }
    }

    /// Where the queue was resized or moved meanwhile. It may be moved again, by who waits here, too: each time
    /// from another holder that was stopped.
    #[cold]
    fn publish_anew(&self, completion: &Completion) -> Result<Delivered, LockError> {
        let (own, object, begun) = (&self.own, Object::Cq(self.index), Instant::now());
        loop {
            let now = own.find([None, None, Some(object)]);
            *self.held.lock() = now.clone();
            match complete(&self.own, &now, self.index, completion) {
                Err(LockError::Gone) if own.exists(object) && begun.elapsed() < LOCK_LIMIT => {}
                appended => return appended,
            }
        }
    }

    /// Takes the queue's lock when nobody has it.
    fn try_keep(&self) -> Option<QueueGuard<'_, Held>> {
        let held = self.held.try_lock()?;
        let view = self.own.with(&held);
        let is_kept = Lane::alone(&view, self.index).is_some_and(|lane| lane.try_lock_cq());
        is_kept.then_some(held)
    }

    /// Gives back what [`OwnQueue::try_keep`] took.
    #[cold]
    fn give_back(&self, held: &Held) {
        let object = Object::Cq(self.index);
        let view = self.own.with(held);
        // Where it was moved meanwhile, the old one's lock is nobody's.
        if let Some(lane) = Lane::alone(&view, self.index).filter(|lane| lane.is_current(object)) {
            lane.unlock(object);
        }
    }
}

/// Appends a completion to an own completion queue, bell included. `held` is where the queue is
/// ([`Host::find`](crate::shm::objects::Host::find)), looked up again after it was resized.
///
/// # Errors
/// When the queue's lock could not be had.
#[inline]
pub fn complete(own: &Host, held: &Held, cq: u32, completion: &Completion) -> Result<Delivered, LockError> {
    let view = own.with(held);
    let Some(lane) = Lane::alone(&view, cq) else { return Err(LockError::Gone) };
    run(&lane, Deliver::append(cq, &stamped(&lane, cq, completion)))
}

/// As [`complete`], where the caller has the queue's lock, which is given back.
///
/// # Errors
/// The queue was moved meanwhile.
#[cold]
#[inline(never)]
fn complete_kept(own: &Host, held: &Held, cq: u32, completion: &Completion) -> Result<Delivered, LockError> {
    let view = own.with(held);
    if !view.is_current(Object::Cq(cq)) {
        return Err(LockError::Gone);
    }
    // Not by a lane: the compiler inlines that machine into `complete` only while nobody else calls it.
    let mut operation = Operation::new(&view);
    operation.adopt(Object::Cq(cq));
    operation.run(Deliver::append(cq, &stamped(&view, cq, completion)).behind_lock())
}

/// The words of the queue that its private ring looks at.
fn shared_words(own: &Host, cq: u32) -> Option<SharedWords> {
    let word = |word| own.hold_word(own.offset(Word::Cq(cq, word))?);
    Some(SharedWords { events: word(CqWord::Events)?, tail: word(CqWord::Tail)? })
}

/// With the time, in a queue that wants it.
#[inline(always)]
fn stamped(memory: &impl Memory, cq: u32, completion: &Completion) -> Completion {
    if wanted(memory, cq) & wants::TIMESTAMPS == 0 {
        *completion
    } else {
        Completion { timestamp: now(), ..*completion }
    }
}
