//! Objects that were destroyed while a peer had their lock: one that was stopped, or takes long over a payload.
//! It may still write where their rings are, so those are given back, and their numbers used again, only when
//! the lock was had.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::protocol::flush::reset;
use crate::protocol::shared::{Memory, Object, QpWord, Word};
use crate::protocol::transport::{Transport, acquire};
use crate::protocol::verbs::QpState;
use crate::shm::objects::Host;

use super::stuck::SOON;
use super::{CompletionQueue, Device, SharedReceiveQueue};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    any: AtomicBool,
    all: Mutex<Vec<Object>>,
    queue_pairs: Mutex<Vec<DeferredQp>>,
}

/// A queue pair whose end is not finished.
#[derive(Debug)]
pub(super) struct DeferredQp {
    pub(super) index: u32,
    pub(super) qp_num: u32,
    /// Its lock was had, and it is not there for peers any more.
    pub(super) is_retired: bool,
    /// Where completions of it may be left.
    pub(super) cqs: Vec<Weak<CompletionQueue>>,
    /// Where a request goes back to that it held.
    pub(super) srq: Option<Weak<SharedReceiveQueue>>,
}

impl Device {
    /// Ends an object in the segment that is no queue pair.
    pub(super) fn end(&self, object: Object) {
        self.finish_deferred();
        if acquire(&self.site.own.within(SOON), object).is_ok() {
            let _ = self.site.objects.destroy(object);
            self.site.own.unlock(object);
        } else if self.site.objects.retire(object).is_ok() {
            self.deferred.all.lock().unwrap_or_else(PoisonError::into_inner).push(object);
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
            self.site.own.store(Word::Qp(qp.index, QpWord::State), QpState::Reset as u64);
        }
        self.deferred.queue_pairs.lock().unwrap_or_else(PoisonError::into_inner).push(qp);
        self.deferred.any.store(true, Ordering::Release);
    }

    /// Gives back what can be given back by now. One load when there is nothing.
    pub(super) fn finish_deferred(&self) {
        self.site.objects.settle_moved();
        if self.deferred.any.swap(false, Ordering::AcqRel) && self.is_mine() {
            self.finish_all();
        }
    }

    #[cold]
    fn finish_all(&self) {
        let own = self.site.own.within(Duration::ZERO);
        let mut queue_pairs = take(&self.deferred.queue_pairs);
        queue_pairs.retain_mut(|qp| !self.finish_queue_pair(&own, qp));
        let mut all = take(&self.deferred.all);
        all.retain(|object| self.site.objects.try_free(*object) == Ok(false));
        if !queue_pairs.is_empty() || !all.is_empty() {
            put_back(&self.deferred.queue_pairs, queue_pairs);
            put_back(&self.deferred.all, all);
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
            let _ = self.site.objects.retire(object);
            own.unlock(object);
            qp.is_retired = true;
            if let (Some((claim, request)), Some(srq)) = (held, qp.srq.as_ref().and_then(Weak::upgrade))
                && claim.srq == srq.index()
            {
                srq.put_back(request.wr_id, &request.sges);
            }
        }
        qp.cqs.retain(|cq| cq.upgrade().is_some_and(|cq| !cq.clean(own, qp.qp_num)));
        qp.cqs.is_empty() && self.site.objects.free(object).is_ok()
    }
}

fn take<T>(list: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
}

fn put_back<T>(list: &Mutex<Vec<T>>, rest: Vec<T>) {
    list.lock().unwrap_or_else(PoisonError::into_inner).extend(rest);
}
