//! A send where nothing stands in its way, at its target: what most messages of other hosts are.
//!
//! It is judged, and delivered, as [`Respond`](super::respond::Respond) has it, which sees to all others. A
//! request of a shared receive queue is taken so, too, and [held](super::claim) until somebody delivers to it.

use super::claim::{ClaimRequest, Claimed};
use super::deliver::{Deliver, Delivered};
use super::receive::{claim_of, first_in_claim, first_in_ring};
use super::respond::Queues;
use super::shared::{QpWord, Take, Word};
use super::transaction::{LockError, Machine, Progress};
use super::transport::{Operation, Transport, acquire};
use crate::rules::receive::Sge;
use crate::rules::responder::{Incoming, Plan, RemoteAccess, TargetQp, Verdict, judge, success};

/// Carries a machine through that takes one lock: by these steps of it, which come before, with and after that.
macro_rules! carry {
    ($near:ident, $operation:ident, $machine:expr, $before:ident, $with:ident, $after:ident) => {{
        let mut machine = $machine;
        let mut progress = machine.$before($near);
        if let Progress::Lock(object) = progress {
            acquire($near, object)?;
            $operation.adopt(object);
            progress = machine.$with($near);
            if let Progress::Unlock(object) = progress {
                $operation.give_back(object)?;
                progress = machine.$after($near);
            }
        }
        match progress {
            Progress::Done(outcome) => outcome,
            progress => $operation.go_on(machine, progress)?,
        }
    }};
}

/// A send whose request starts with a piece of memory that has room for all of it.
#[derive(Clone, Debug)]
pub struct Plain<'a> {
    /// That piece. Whether its key allows that is not looked at yet.
    pub to: Sge,
    /// Completes the request, once the bytes are there.
    deliver: Deliver<'a>,
}

/// What a send is found to be.
#[derive(Clone, Debug)]
pub enum Found<'a> {
    /// A plain one.
    Plain(Plain<'a>),
    /// The shared receive queue was asked for a request, and gave none, which a
    /// [`Respond`](super::respond::Respond) is to be [told](super::respond::Respond::without_request).
    NoRequest(Claimed),
    /// Anything is in the way of it, or follows from it besides: a `Respond` says what.
    Other,
}

impl Plain<'_> {
    /// Looks at a send. The queue pair may hold a request of its shared receive queue afterwards, taken
    /// as [`Plain::deliver`] completes one.
    ///
    /// # Errors
    /// As those of [`Operation::run`].
    #[inline(always)]
    pub fn find<T: Transport>(
        near: &impl Transport,
        operation: &mut Operation<'_, T>,
        target: &TargetQp,
        queues: Queues,
        request: &Incoming,
    ) -> Result<Found<'static>, LockError> {
        let Queues { qp, cq, srq } = queues;
        let plan = Plan { remote: RemoteAccess::None, receive: true, invalidate: None, established: false };
        if judge(target, request, None, None) != Verdict::Accept(plan) {
            return Ok(Found::Other);
        }
        let head = near.load(Word::Qp(qp, QpWord::Head)) as u32;
        let (take, first) = match srq {
            None => (Take::Head(head), first_in_ring(near, qp, head)),
            Some(srq) => {
                if claim_of(near, qp).is_none() {
                    let claim = ClaimRequest::new(qp, srq);
                    let claimed = carry!(near, operation, claim, unfence, hold_up, step);
                    if claimed != Claimed::Request {
                        return Ok(Found::NoRequest(claimed));
                    }
                }
                (Take::Claim(head), first_in_claim(near, qp, srq))
            }
        };
        let Some((wr_id, to)) = first.filter(|(_, to)| request.length <= u64::from(to.length)) else {
            return Ok(Found::Other);
        };
        let completion = success(target, request, wr_id);
        let deliver = Deliver::receive(qp, take, cq, &completion, request.solicited);
        Ok(Found::Plain(Plain { to, deliver }))
    }

    /// Completes the request, as [`Operation::run`] would: as one piece of code by `near`, which is the memory
    /// of the operation's transport, as long as nothing but the locks of its queues are asked for.
    ///
    /// # Errors
    /// As those of [`Operation::run`].
    #[inline(always)]
    pub fn deliver<T: Transport>(
        self,
        near: &impl Transport,
        operation: &mut Operation<'_, T>,
    ) -> Result<Delivered, LockError> {
        Ok(carry!(near, operation, self.deliver, arm, check, take))
    }
}
