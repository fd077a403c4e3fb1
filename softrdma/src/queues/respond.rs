//! One request at its target, from the first look to the answer: the order in which the responder's rules and
//! the transactions follow one another.
//!
//! The initiator runs it behind the lock of the target queue pair. Whatever moves bytes is left to the caller
//! ([`Want::Move`]); everything else is here, so that a death at any step leaves what the parts promise:
//!
//! - a queue pair that breaks is alerted first, then in ERR, then its requests are flushed; one that breaks
//!   with a completion that tells why is in ERR when that was delivered, whichever process dies; a queue pair
//!   that is found in ERR is flushed by the process that finds it;
//! - a payload is moved before its completion is delivered; one that was moved in part leaves no trace but the
//!   bytes;
//! - a small payload of a send travels in the completion entry, and is there when that is;
//! - a key that a send invalidates is invalid before the send's completion is seen, and is invalidated only
//!   when nothing but death can prevent the completion: a send that met a lock which could not be had is tried
//!   again, and finds the key as it was.

use super::breaks::{Break, RaiseOnce};
use super::claim::{ClaimRequest, Claimed};
use super::deliver::{Deliver, Delivered};
use super::flush::Flush;
use super::shared::{Memory, Object, QpWord, Take, Word};
use super::transaction::{Machine, Progress};
use crate::queues::completion::{Stage, stage_room};
use crate::queues::receive::{claim_of, next_in_claim, next_in_ring};
use crate::rules::completion::Completion;
use crate::rules::keys::Key;
use crate::rules::receive::{Next, ReceiveRequest};
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::responder::{Fit, Incoming, Plan, RemoteAccess, TargetQp, Verdict, failed, fit, judge};
use crate::rules::verbs::{Event, QpState, Status};

/// Where the target's queues are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queues {
    /// Index of the queue pair.
    pub qp: u32,
    /// Its receive completion queue; for an XRC target that of the shared receive queue the request names.
    pub cq: u32,
    /// The shared receive queue it receives from; for an XRC target the one the request names.
    pub srq: Option<u32>,
}

/// What is needed next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Want {
    /// As a transaction: see [`Progress`]. Never [`Progress::Done`].
    Transport(Progress<core::convert::Infallible>),
    /// Bytes moved; then [`Respond::moved`].
    Move(Payload),
    /// This key of the target invalidated; then another step.
    Invalidate(u32),
    /// Finished: give the queue pair's lock back and report this to the send queue.
    Done(Outcome),
}

/// Where the bytes go, or come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// From the sender's memory into these buffers of the target; a datagram's first 40 bytes are left free.
    Receive(ReceiveRequest),
    /// Between the sender's memory and the remote memory that the request names.
    Remote(RemoteAccess),
}

/// Why bytes were not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveError {
    /// The sender's memory is not there.
    Sender,
    /// The target's memory is not there, though it was registered.
    Target,
    /// The target died, or does not move its part.
    Gone,
    /// Another process keeps a lock that it takes.
    Held,
    /// Nobody knows whether it happened, and it must not happen twice (atomics).
    Unclear,
    /// Those of a part of the message were; the rest is still to come, and nothing is to follow from it before.
    Unfinished,
}

/// The execution. See the module.
#[derive(Clone, Debug)]
pub struct Respond<'a> {
    target: TargetQp,
    request: Incoming,
    queues: Queues,
    key: Option<&'a Key>,
    inv_key: Option<&'a Key>,
    payload: Option<&'a [u8]>,
    stage: Option<Stage<'a>>,
    /// The key to invalidate with the delivery.
    invalidate: Option<u32>,
    /// The transaction under way, and the one that follows it.
    part: Option<Part<'a>>,
    next_part: Option<Part<'a>>,
    /// What the rules said.
    plan: Plan,
    /// The receive request that is used up, and its completion.
    receive: Option<(Take, Completion)>,
    /// What the sender is told.
    outcome: Outcome,
    phase: Phase,
}

/// A transaction within.
#[derive(Clone, Debug)]
enum Part<'a> {
    Raise(RaiseOnce),
    Break(Break),
    Claim(ClaimRequest),
    Deliver(Deliver<'a>),
    Flush(Flush),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Judge,
    Find,
    Fit,
    /// Waits for [`Respond::moved`].
    Moving,
    Deliver,
    Delivered,
    Done,
}

impl<'a> Respond<'a> {
    /// The execution of this request. `key` is the entry of the remote key, `inv_key` that of the key to
    /// invalidate.
    #[must_use]
    #[inline(always)]
    pub fn new(
        target: TargetQp,
        queues: Queues,
        request: Incoming,
        key: Option<&'a Key>,
        inv_key: Option<&'a Key>,
    ) -> Self {
        let plan = Plan { remote: RemoteAccess::None, receive: false, invalidate: None, established: false };
        Self {
            target,
            request,
            queues,
            key,
            inv_key,
            payload: None,
            stage: None,
            invalidate: None,
            part: None,
            next_part: None,
            plan,
            receive: None,
            outcome: Outcome::NoAnswer,
            phase: Phase::Judge,
        }
    }

    /// With the bytes of a send at hand, in front of them the 40 of a datagram: they travel in the completion
    /// entry when they have room there and in the first buffer of the receive request.
    #[must_use]
    #[inline(always)]
    pub fn with_payload(self, payload: Option<&'a [u8]>) -> Self {
        Self { payload, ..self }
    }

    /// Of a [plain](super::plain) send whose completion overran the queue.
    #[must_use]
    #[cold]
    pub fn overrun(self, memory: &impl Memory) -> Self {
        let mut overrun = Self { phase: Phase::Delivered, ..self };
        overrun.part_ended(memory, End::Overrun);
        overrun
    }

    /// Of a [plain](super::plain) send for which the shared receive queue gave no request.
    #[must_use]
    #[cold]
    pub fn without_request(self, memory: &impl Memory, claimed: Claimed) -> Self {
        let plan = Plan { receive: true, ..self.plan };
        let mut without = Self { plan, phase: Phase::Fit, ..self };
        without.part_ended(memory, End::of(claimed));
        without
    }

    /// The next step. `lookup` finds keys of the target.
    pub fn step(&mut self, memory: &impl Memory, lookup: impl Fn(u32) -> Option<Key>) -> Want {
        if let Some(part) = self.part.as_mut() {
            if self.invalidate.is_some()
                && let Part::Deliver(deliver) = part
                && deliver.is_certain()
                && let Some(key) = self.invalidate.take()
            {
                return Want::Invalidate(key);
            }
            return Want::Transport(match part.step(memory) {
                Progress::Done(end) => {
                    self.part = self.next_part.take();
                    self.part_ended(memory, end);
                    Progress::Continue
                }
                Progress::Continue => Progress::Continue,
                Progress::Lock(object) => Progress::Lock(object),
                Progress::Unlock(object) => Progress::Unlock(object),
                Progress::Bell(cq) => Progress::Bell(cq),
                Progress::Alert(object) => Progress::Alert(object),
            });
        }
        match self.phase {
            Phase::Judge => return self.judge(memory),
            Phase::Find => self.find(memory),
            Phase::Fit => return self.fit(memory, lookup),
            Phase::Moving => {}
            Phase::Deliver => {
                self.phase = Phase::Delivered;
                if let Some((take, completion)) = &self.receive {
                    let deliver = self.deliver(*take, completion).with(self.stage);
                    self.part = Some(Part::Deliver(deliver.halting(self.invalidate.is_some())));
                }
            }
            Phase::Delivered => return Want::Done(Outcome::Done(self.request.length as u32)),
            Phase::Done => return Want::Done(self.outcome),
        }
        Want::Transport(Progress::Continue)
    }

    /// Learns that the bell it asked for in its last step was not rung.
    pub fn unheard(&mut self) {
        if let Some(part) = &mut self.part {
            part.unheard();
        }
    }

    /// The answer to [`Want::Move`].
    pub fn moved(&mut self, memory: &impl Memory, moved: Result<(), MoveError>) {
        if self.phase != Phase::Moving {
            return;
        }
        match (moved, self.receive) {
            (Ok(()), _) => self.payload_done(),
            (Err(MoveError::Sender), _) => self.end(Outcome::Local(Status::LocProtErr)),
            (Err(MoveError::Gone | MoveError::Unfinished), _) => self.end(Outcome::NoAnswer),
            (Err(MoveError::Held), _) => self.end(Outcome::Held),
            (Err(MoveError::Unclear), _) => self.end(Outcome::Refused(Syndrome::Operational)),
            (Err(MoveError::Target), Some((take, completion))) if self.plan.remote == RemoteAccess::None => {
                // The receiver's own buffers: as if their key had been wrong.
                let completion = failed(completion, Status::LocProtErr);
                self.fail(memory, take, &completion, Syndrome::Operational);
            }
            // An unreliable write to memory that is not there is lost, as with a wrong key.
            (Err(MoveError::Target), _) if !self.target.qp_type.is_reliable() => self.end(Outcome::NoAnswer),
            (Err(MoveError::Target), _) => self.refuse(memory, Syndrome::Access, Some(Event::QpAccessErr)),
        }
    }

    fn payload_done(&mut self) {
        self.invalidate = self.plan.invalidate;
        self.phase = if self.receive.is_some() { Phase::Deliver } else { Phase::Delivered };
    }

    /// This is what the sender is told, once the parts are done.
    fn end(&mut self, outcome: Outcome) {
        (self.phase, self.outcome) = (Phase::Done, outcome);
    }

    /// Whether the payload of a send, of which the receiver sees this many bytes, needs no move of its own.
    fn stage(&mut self, memory: &impl Memory, receive: &ReceiveRequest, used: u32) -> bool {
        let Some(bytes) = self.payload.filter(|bytes| bytes.len() == used as usize) else { return used == 0 };
        let Some(first) = receive.sges.iter().find(|sge| sge.length > 0).filter(|_| used > 0) else {
            return used == 0;
        };
        let fits = used <= first.length && bytes.len() <= stage_room(memory, self.queues.cq);
        if fits {
            self.stage = Some(Stage { addr: first.addr, lkey: first.lkey, bytes });
        }
        fits
    }

    fn judge(&mut self, memory: &impl Memory) -> Want {
        match judge(&self.target, &self.request, self.key, self.inv_key) {
            Verdict::Accept(plan) => {
                (self.phase, self.plan) = (Phase::Find, plan);
                // What needs no receive request is moved at once.
                if !plan.receive && !plan.established {
                    self.phase = Phase::Moving;
                    return Want::Move(Payload::Remote(plan.remote));
                }
                if plan.established {
                    let raise = RaiseOnce::new(Object::Qp(self.queues.qp), Event::CommEst);
                    self.part = Some(Part::Raise(raise));
                }
            }
            Verdict::Drop => {
                self.end(Outcome::NoAnswer);
                if self.target.state == QpState::Err {
                    self.part = self.flush(memory);
                }
            }
            Verdict::Refuse(syndrome, breaks) => self.refuse(memory, syndrome, breaks.event),
        }
        Want::Transport(Progress::Continue)
    }

    /// Makes sure of a receive request where one is needed and comes from a shared queue.
    fn find(&mut self, memory: &impl Memory) {
        self.phase = Phase::Fit;
        if let Some(srq) = self.queues.srq.filter(|_| self.plan.receive)
            && claim_of(memory, self.queues.qp).is_none()
        {
            self.part = Some(Part::Claim(ClaimRequest::new(self.queues.qp, srq)));
        }
    }

    fn fit(&mut self, memory: &impl Memory, lookup: impl Fn(u32) -> Option<Key>) -> Want {
        let remote = self.plan.remote;
        if !self.plan.receive {
            self.phase = Phase::Moving;
            return Want::Move(Payload::Remote(remote));
        }
        let head = memory.load(Word::Qp(self.queues.qp, QpWord::Head)) as u32;
        let (take, next) = if let Some(srq) = self.queues.srq {
            let next = match next_in_claim(memory, self.queues.qp) {
                None => Next::Empty,
                Some((claim, next)) if claim.srq == srq => next,
                // XRC: held for a message to another shared queue, whose sender died within. The connection
                // died with it, so that no honest message follows.
                Some(_) => Next::Broken,
            };
            (Take::Claim(head), next)
        } else {
            (Take::Head(head), next_in_ring(memory, self.queues.qp))
        };
        match fit(&self.target, &self.request, next, lookup) {
            Fit::Accept(receive, completion, is_there) => {
                self.receive = Some((take, completion));
                let stays = remote == RemoteAccess::None && (is_there || completion.byte_len == 0);
                if stays && self.stage(memory, &receive, completion.byte_len) {
                    self.payload_done();
                    return Want::Transport(Progress::Continue);
                }
                self.phase = Phase::Moving;
                return Want::Move(match remote {
                    RemoteAccess::None => Payload::Receive(receive),
                    remote => Payload::Remote(remote),
                });
            }
            Fit::Answer(outcome) => self.end(outcome),
            Fit::Drop => self.end(Outcome::NoAnswer),
            Fit::Fail(completion, syndrome) => self.fail(memory, take, &completion, syndrome),
            Fit::Broken(syndrome) => self.refuse(memory, syndrome, Some(Event::QpFatal)),
        }
        Want::Transport(Progress::Continue)
    }

    /// The queue pair breaks with an event.
    fn refuse(&mut self, memory: &impl Memory, syndrome: Syndrome, event: Option<Event>) {
        self.end(Outcome::Refused(syndrome));
        self.part = Some(Part::Break(Break::new(self.queues.qp, event)));
        self.next_part = self.flush(memory);
    }

    /// The queue pair breaks with a completion that tells why.
    fn fail(&mut self, memory: &impl Memory, take: Take, completion: &Completion, syndrome: Syndrome) {
        self.end(Outcome::Refused(syndrome));
        // rule: flush-after-cause
        self.part = Some(Part::Deliver(self.deliver(take, completion).breaking()));
        self.next_part = self.flush(memory);
    }

    fn part_ended(&mut self, memory: &impl Memory, end: End) {
        match (end, self.phase) {
            // rule: overrun-breaks
            (End::Overrun, Phase::Delivered) | (End::BrokenSrq, _) => {
                self.refuse(memory, Syndrome::Operational, Some(Event::QpFatal));
            }
            _ => {}
        }
    }

    fn deliver(&self, take: Take, completion: &Completion) -> Deliver<'a> {
        Deliver::receive(self.queues.qp, take, self.queues.cq, completion, self.request.solicited)
    }

    fn flush(&self, memory: &impl Memory) -> Option<Part<'a>> {
        let Queues { qp, cq, srq } = self.queues;
        // A request of another shared queue (XRC) completes elsewhere: its owner flushes it.
        let elsewhere = claim_of(memory, qp).is_some_and(|claim| srq != Some(claim.srq));
        (!elsewhere).then(|| Part::Flush(Flush::new(memory, qp, self.target.qp_num, cq, srq.is_some())))
    }
}

/// How a part ended, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Fine,
    Overrun,
    BrokenSrq,
}

impl End {
    fn of(claimed: Claimed) -> Self {
        match claimed {
            Claimed::Broken => Self::BrokenSrq,
            Claimed::Request | Claimed::Empty => Self::Fine,
        }
    }
}

impl Machine for Part<'_> {
    type Outcome = End;

    fn step(&mut self, memory: &impl Memory) -> Progress<End> {
        match self {
            Self::Raise(part) => part.step(memory).map(|()| End::Fine),
            Self::Break(part) => part.step(memory).map(|()| End::Fine),
            Self::Flush(part) => part.step(memory).map(|()| End::Fine),
            Self::Claim(part) => part.step(memory).map(End::of),
            Self::Deliver(part) => part.step(memory).map(|delivered| match delivered {
                Delivered::Overrun => End::Overrun,
                Delivered::Published | Delivered::Dropped => End::Fine,
            }),
        }
    }

    fn unheard(&mut self) {
        match self {
            Self::Flush(part) => part.unheard(),
            Self::Deliver(part) => part.unheard(),
            Self::Raise(_) | Self::Break(_) | Self::Claim(_) => {}
        }
    }
}
