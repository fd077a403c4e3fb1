//! A queue pair that breaks: its state, and the receive requests that are flushed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::device::stuck::SOON;
use crate::queues::flush::Flush;
use crate::queues::receive::claim_of;
use crate::queues::shared::{Memory, Object, QpWord, Word};
use crate::queues::transaction::LockError;
use crate::queues::transport::{Operation, Transport, acquire};
use crate::rules::verbs::{QpState, QpType};
use crate::shm::memory::fence_after_exchange;
use crate::shm::objects::Host;

use super::QueuePair;

impl QueuePair {
    /// Flushes what is posted to a queue pair that broke; `false` where it cannot be had now.
    #[cold]
    pub(in crate::device) fn flush_if_broken(&self) -> bool {
        self.flush_within(SOON)
    }

    /// As [`QueuePair::flush_if_broken`], without waiting for longer than that.
    #[cold]
    pub(in crate::device) fn flush_within(&self, limit: Duration) -> bool {
        // Whoever holds it up flushes it, or the next who looks.
        let own = self.device.endpoint.own.within(limit);
        let mut operation = Operation::new(&own);
        let object = Object::Qp(self.index);
        if operation.lock(object).is_err() {
            return false;
        }
        if self.state() == QpState::Err {
            self.broke();
            if self.flush_receives(&mut operation).is_err() {
                return false;
            }
        }
        operation.unlock(object);
        true
    }

    /// Flushes the receive side, behind the queue pair's lock.
    pub(super) fn flush_receives(
        &self,
        operation: &mut Operation<'_, Host>,
    ) -> std::result::Result<(), LockError> {
        self.close_direct();
        let own = &self.device.endpoint.own;
        let shared = self.init.srq.is_some() || self.init.qp_type == QpType::XrcRecv;
        let cq = match &self.init.recv_cq {
            Some(cq) => Some(cq.index()),
            // XRC: where the request completes that a sender left here.
            None => claim_of(own, self.index)
                .and_then(|claim| self.device.shared_queue(claim.srq))
                .and_then(|srq| srq.cq()),
        };
        operation.run(Flush::new(own, self.index, self.qp_num, cq.unwrap_or(0), shared))
    }

    /// The send queue failed: the queue pair goes to ERR, or to SQE. What is posted is flushed afterwards: see
    /// [`QueuePair::flush_if_broken`].
    #[cold]
    pub(in crate::device) fn fail(&self, next: QpState) {
        let object = Object::Qp(self.index);
        // The send side is held: all that this thread sends or polls waits with it.
        let own = &self.device.endpoint.own.within(SOON);
        if acquire(own, object).is_ok() {
            if self.state() != QpState::Err {
                own.store(Word::Qp(self.index, QpWord::State), next as u64);
            }
            if next == QpState::Err {
                self.close_direct();
                self.broke();
            }
            own.unlock(object);
        } else {
            // A peer that was stopped has the lock, and what it began it may end yet: as if it had come before.
            // It writes no state but ERR. Whoever finds that one flushes what is not taken, so first it is said
            // what is.
            if next == QpState::Err {
                self.close_direct_beside_holder();
            }
            let leave = |state: u64| (state != QpState::Err as u64).then_some(next as u64);
            let _ = self.state_word.get().fetch_update(Ordering::SeqCst, Ordering::SeqCst, leave);
            // As behind the lock: who posts looks at the state afterwards, and this side at what was posted.
            fence_after_exchange();
            if next == QpState::Err {
                self.broke();
            }
        }
    }
}
