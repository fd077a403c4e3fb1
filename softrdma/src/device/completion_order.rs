//! Own completions, and why one comes before the answer of the peer that its message wakes.
//!
//! On a wire an acknowledgement arrives before anything that the peer sends after it, and programs rely on it:
//! iSCSI targets end a login by the completion of its last answer and refuse commands that come before. Here
//! the peer is told first, and a peer that was asleep may run, answer, and have its message completed before
//! this thread runs again. So the lock of the own completion queue is taken before the bell is rung, and given
//! back behind the own completion.

use std::cell::RefCell;
use std::hint::spin_loop;
use std::time::Instant;

use queue_lock::QueueGuard;

use crate::queues::deliver::Delivered;
use crate::queues::shared::{Memory as _, Object};
use crate::queues::transport::{LockError, Transport as _};
use crate::rules::completion::Completion;
use crate::shm::objects::{Held, LOCK_LIMIT, Lane};

use super::CompletionQueue;
use super::execute::{complete, complete_kept};
use super::permissions::Permissions;

/// Tries before the order is given up: longer than anybody has the lock who runs.
const TRIES: u32 = 256;
/// Every so many it gives way: who has the lock may share its processor.
const YIELDS: u32 = 32;

/// The completion queue of one request that tells of its success, not kept at first.
#[derive(Debug)]
pub struct CompletionOrder<'a> {
    cq: Option<&'a CompletionQueue>,
    /// Where the queue is, behind the process's own lock, which comes before the queue's.
    kept: RefCell<Option<QueueGuard<'a, Held>>>,
}

impl<'a> CompletionOrder<'a> {
    /// `None`: there will be no completion, or its order does not matter.
    #[inline]
    pub fn new(cq: Option<&'a CompletionQueue>) -> Self {
        Self { cq, kept: RefCell::new(None) }
    }

    /// Keeps the queue from others, unless somebody has it for long: whoever waited here with the target's
    /// locks might wait for one who waits for them.
    #[cold]
    pub(super) fn keep(&self) {
        let Some(cq) = self.cq else { return };
        let mut kept = self.kept.take();
        for n in 1..=TRIES {
            if kept.is_some() {
                break;
            }
            if n % YIELDS == 0 {
                std::thread::yield_now();
            }
            kept = cq.try_keep();
            spin_loop();
        }
        *self.kept.borrow_mut() = kept;
    }

    /// Gives the queue back when it is kept.
    #[inline]
    pub(super) fn give_back(&self) {
        if let (Some(cq), Some(held)) = (self.cq, self.kept.take()) {
            cq.give_back(&held);
        }
    }

    /// Where the queue is, if it is kept; who asks gives it back.
    #[inline]
    pub(super) fn take(&self) -> Option<QueueGuard<'a, Held>> {
        self.kept.take()
    }
}

impl Drop for CompletionOrder<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl CompletionQueue {
    /// Appends a completion of this process's own, in its turn.
    pub(super) fn append(
        &self,
        completion: &Completion,
        order: &CompletionOrder<'_>,
    ) -> std::result::Result<Delivered, LockError> {
        match &self.device.endpoint.permissions {
            None => self.publish(completion, order),
            Some(permissions) => self.publish_under_number(permissions, completion, order),
        }
    }

    /// Appends a completion that names its request by a number of the permissions: others could write one that
    /// names any.
    #[cold]
    fn publish_under_number(
        &self,
        permissions: &Permissions,
        completion: &Completion,
        order: &CompletionOrder<'_>,
    ) -> std::result::Result<Delivered, LockError> {
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
    fn publish(
        &self,
        completion: &Completion,
        order: &CompletionOrder<'_>,
    ) -> std::result::Result<Delivered, LockError> {
        let endpoint = &self.device.endpoint;
        if let Some(held) = order.take() {
            let appended = complete_kept(endpoint, &held, self.index(), completion);
            drop(held);
            return self.or_anew(appended, completion);
        }
        let held = self.held.lock();
        let appended = complete(endpoint, &held, self.index(), completion);
        drop(held);
        self.or_anew(appended, completion)
    }

    /// What came of a completion, or comes of it where the queue is now.
    #[inline(always)]
    fn or_anew(
        &self,
        appended: std::result::Result<Delivered, LockError>,
        completion: &Completion,
    ) -> std::result::Result<Delivered, LockError> {
        if appended == Err(LockError::Gone) { self.publish_anew(completion) } else { appended }
    }

    /// Where the queue was resized or moved meanwhile. It may be moved again, by who waits here, too: each time
    /// from another holder that was stopped.
    #[cold]
    fn publish_anew(&self, completion: &Completion) -> std::result::Result<Delivered, LockError> {
        let (own, object, begun) = (&self.device.endpoint.own, Object::Cq(self.index()), Instant::now());
        loop {
            let now = own.find([Some(object), None, None]);
            *self.held.lock() = now.clone();
            match complete(&self.device.endpoint, &now, self.index(), completion) {
                Err(LockError::Gone) if own.exists(object) && begun.elapsed() < LOCK_LIMIT => {}
                appended => return appended,
            }
        }
    }

    /// Takes the queue's lock when nobody has it.
    fn try_keep(&self) -> Option<QueueGuard<'_, Held>> {
        let held = self.held.try_lock()?;
        let view = self.device.endpoint.own.with(&held);
        let is_kept = Lane::alone(&view, self.index()).is_some_and(|lane| lane.try_lock_cq());
        is_kept.then_some(held)
    }

    /// Gives back what [`CompletionQueue::try_keep`] took.
    #[cold]
    fn give_back(&self, held: &Held) {
        let object = Object::Cq(self.index());
        let view = self.device.endpoint.own.with(held);
        // Where it was moved meanwhile, the old one's lock is nobody's.
        if let Some(lane) = Lane::alone(&view, self.index()).filter(|lane| lane.is_current(object)) {
            lane.unlock(object);
        }
    }
}
