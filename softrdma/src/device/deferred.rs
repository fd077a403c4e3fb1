//! Objects that were destroyed while a peer had their lock: one that was stopped, or takes long over a payload.
//! It may still write where their rings are, so those are given back, and their numbers used again, only when
//! the lock was had.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ironverbs_os::growth::TryPush;

use crate::queues::flush::reset;
use crate::queues::shared::{Memory, Object, QpWord, Word};
use crate::queues::transport::{Transport, acquire};
use crate::rules::verbs::QpState;
use crate::shm::objects::Host;

use super::stuck::SOON;
use super::{CompletionQueue, Device, Result, SharedReceiveQueue};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    any: AtomicBool,
    completion_queues: Later<Object>,
    shared_queues: Later<Object>,
    queue_pairs: Later<DeferredQp>,
}

/// What is tried again, the longest untried first. There is room for all objects at once, so that ending one
/// needs no memory.
#[derive(Debug)]
struct Later<T>(Mutex<VecDeque<T>>);

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Later<T> {
    fn list(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_room(&self, index: u32) -> Result<()> {
        let mut list = self.list();
        let more = (index as usize + 1).saturating_sub(list.len());
        Ok(list.try_reserve(more)?)
    }

    fn add(&self, one: T) {
        self.list().push_reserved(one);
    }

    /// Tries each once, and keeps those that did not come to their end; whether there are any.
    fn try_each(&self, mut is_over: impl FnMut(&mut T) -> bool) -> bool {
        let (mut stays, count) = (false, self.list().len());
        for _ in 0..count {
            // Not behind the lock of the list: others are ended meanwhile.
            let first = self.list().pop_front();
            let Some(mut one) = first else { break };
            if !is_over(&mut one) {
                self.add(one);
                stays = true;
            }
        }
        stays
    }
}

/// A queue pair whose end is not finished.
#[derive(Debug)]
pub(super) struct DeferredQp {
    pub(super) index: u32,
    pub(super) qp_num: u32,
    /// Its lock was had, and it is not there for peers any more.
    pub(super) is_retired: bool,
    /// Where completions of it may be left.
    pub(super) cqs: [Option<Weak<CompletionQueue>>; 2],
    /// Where a request goes back to that it held.
    pub(super) srq: Option<Weak<SharedReceiveQueue>>,
}

impl Deferred {
    /// Memory for the day when all objects of this one's kind with its index and below end later.
    ///
    /// # Errors
    /// [`Error::NoMemory`](super::Error::NoMemory).
    pub(super) fn make_room(&self, object: Object) -> Result<()> {
        match object {
            Object::Qp(index) => self.queue_pairs.make_room(index),
            Object::Cq(index) => self.completion_queues.make_room(index),
            Object::Srq(index) => self.shared_queues.make_room(index),
        }
    }
}

impl Device {
    /// Ends an object in the segment that is no queue pair.
    pub(super) fn end(&self, object: Object) {
        self.finish_deferred();
        if acquire(&self.endpoint.own.within(SOON), object).is_ok() {
            let _ = self.endpoint.objects.destroy(object);
            self.endpoint.own.unlock(object);
        } else if self.endpoint.objects.retire(object).is_ok() {
            match object {
                Object::Cq(_) => self.deferred.completion_queues.add(object),
                Object::Srq(_) => self.deferred.shared_queues.add(object),
                Object::Qp(_) => {}
            }
            self.deferred.any.store(true, Ordering::Release);
        }
    }

    /// Finishes the end of a queue pair later.
    pub(super) fn defer(&self, qp: DeferredQp) {
        if !self.is_mine() {
            return;
        }
        if !qp.is_retired {
            // Nobody begins anything with it. The rest needs the lock.
            self.endpoint.own.store(Word::Qp(qp.index, QpWord::State), QpState::Reset as u64);
        }
        self.deferred.queue_pairs.add(qp);
        self.deferred.any.store(true, Ordering::Release);
    }

    /// Gives back what can be given back by now. One load when there is nothing.
    pub(super) fn finish_deferred(&self) {
        self.endpoint.objects.settle_moved();
        if self.deferred.any.swap(false, Ordering::AcqRel) && self.is_mine() {
            self.finish_all();
        }
    }

    #[cold]
    fn finish_all(&self) {
        let own = self.endpoint.own.within(Duration::ZERO);
        let is_free = |object: &mut Object| self.endpoint.objects.try_free(*object) != Ok(false);
        let mut stays = self.deferred.queue_pairs.try_each(|qp| self.finish_queue_pair(&own, qp));
        stays |= self.deferred.completion_queues.try_each(is_free);
        stays |= self.deferred.shared_queues.try_each(is_free);
        if stays {
            self.deferred.any.store(true, Ordering::Release);
        }
    }

    /// Whether a queue pair came to its end.
    fn finish_queue_pair(&self, own: &Host, qp: &mut DeferredQp) -> bool {
        let object = Object::Qp(qp.index);
        if !qp.is_retired {
            if acquire(own, object).is_err() {
                return false;
            }
            let held = reset(own, qp.index);
            let _ = self.endpoint.objects.retire(object);
            own.unlock(object);
            qp.is_retired = true;
            if let (Some((claim, request)), Some(srq)) = (held, qp.srq.as_ref().and_then(Weak::upgrade))
                && claim.srq == srq.index()
            {
                srq.put_back(request.wr_id, &request.sges);
            }
        }
        for left in &mut qp.cqs {
            let is_left =
                |cq: &Weak<CompletionQueue>| cq.upgrade().is_some_and(|cq| !cq.clean(own, qp.qp_num));
            *left = left.take().filter(is_left);
        }
        qp.cqs.iter().all(Option::is_none) && self.endpoint.objects.free(object).is_ok()
    }
}
