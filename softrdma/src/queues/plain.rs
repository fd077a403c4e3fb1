//! A send where nothing stands in its way, at its target: what most messages of other hosts are.
//!
//! It is judged, and delivered, as [`Respond`](super::respond::Respond) has it, which sees to all others.

use super::deliver::{Deliver, Delivered};
use super::receive::first_in_ring;
use super::respond::Queues;
use super::shared::{Memory, QpWord, Take, Word};
use super::transaction::{LockError, Progress};
use super::transport::{Operation, Transport, acquire};
use crate::rules::receive::Sge;
use crate::rules::responder::{Incoming, Plan, RemoteAccess, TargetQp, Verdict, judge, success};

/// A send for the request at the head of the own ring, whose first piece of memory has room for all of it.
#[derive(Clone, Debug)]
pub struct Plain<'a> {
    /// That piece. Whether its key allows that is not looked at yet.
    pub to: Sge,
    /// Completes the request, once the bytes are there.
    deliver: Deliver<'a>,
}

impl Plain<'_> {
    /// `None` where anything is in the way of it, or follows from it besides: a
    /// [`Respond`](super::respond::Respond) says what.
    #[must_use]
    #[inline(always)]
    pub fn find(memory: &impl Memory, target: &TargetQp, queues: Queues, request: &Incoming) -> Option<Self> {
        let Queues { qp, cq, srq: None } = queues else { return None };
        let plan = Plan { remote: RemoteAccess::None, receive: true, invalidate: None, established: false };
        if judge(target, request, None, None) != Verdict::Accept(plan) {
            return None;
        }
        let head = memory.load(Word::Qp(qp, QpWord::Head)) as u32;
        let (wr_id, to) = first_in_ring(memory, qp, head)?;
        if request.length > u64::from(to.length) {
            return None;
        }
        let completion = success(target, request, wr_id);
        Some(Self { to, deliver: Deliver::receive(qp, Take::Head(head), cq, &completion, request.solicited) })
    }

    /// Completes the request, as [`Operation::run`] would: as one piece of code by `near`, which is the memory
    /// of the operation's transport, as long as nothing but the completion queue's lock is asked for.
    ///
    /// # Errors
    /// As those of [`Operation::run`].
    #[inline(always)]
    pub fn deliver<T: Transport>(
        self,
        near: &impl Transport,
        operation: &mut Operation<'_, T>,
    ) -> Result<Delivered, LockError> {
        let mut deliver = self.deliver;
        let mut progress = deliver.arm(near);
        if let Progress::Lock(cq) = progress {
            acquire(near, cq)?;
            operation.adopt(cq);
            progress = deliver.check(near);
            if let Progress::Unlock(cq) = progress {
                operation.give_back(cq)?;
                progress = deliver.take(near);
            }
        }
        match progress {
            Progress::Done(delivered) => Ok(delivered),
            progress => operation.go_on(deliver, progress),
        }
    }
}
