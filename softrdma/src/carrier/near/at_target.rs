//! A request at its target, whoever brings it there: behind the target's lock, by the rules of a responder.
//!
//! What moves the bytes is the caller's ([`MoveBytes`]): an initiator of this folder moves them from its own
//! memory.

use std::cell::Cell;

use ironverbs_os::clock::now;

use crate::queues::claim::Claimed;
use crate::queues::completion::{wanted, wants};
use crate::queues::deliver::Delivered;
use crate::queues::plain::{Found, Plain};
use crate::queues::respond::{MoveError, Payload, Queues, Respond, Want};
use crate::queues::shared::{Memory, Object, QpWord, Word};
use crate::queues::transaction::{LockError, Progress};
use crate::queues::transport::{Operation as Locks, Transport as _};
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::responder::{Incoming, TargetQp};
use crate::rules::verbs::{Opcode, QpState, QpType};
use crate::shm::keys::Lookup;
use crate::shm::objects::{Lane, View};

use super::attributes::{FAR, QP_WORDS, QpAttributes, load};
use super::bytes::{self, Use};
use super::completion_order::CompletionOrder;
use super::direct::{RingWriter, enter, is_settled, left, move_older};
use super::endpoint::Endpoint;
use super::peers::Remote;
use super::target::Target;

/// Moves the bytes of a request between where they are and its target's memory.
pub(crate) trait MoveBytes {
    /// Moves them. The target is locked meanwhile.
    ///
    /// # Errors
    /// Why they were not moved.
    fn move_to(&self, place: &Place<'_>, payload: &Payload) -> Result<(), MoveError>;

    /// All bytes of a send that came from another host, where they are in one place.
    #[inline(always)]
    fn whole(&self) -> Option<&[u8]> {
        None
    }
}

/// The target, as who moves bytes needs it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The process that carries the request out.
    pub(crate) endpoint: &'a Endpoint,
    /// The target's process.
    pub(crate) remote: &'a Remote,
    pub(crate) target: &'a TargetQp,
    /// The remote memory that the request names, in use.
    pub(crate) used: Option<&'a Use<'a>>,
}

/// A request that is at its target.
pub(crate) struct AtTarget<'a, 'q, M> {
    /// The process that carries it out.
    pub(crate) endpoint: &'a Endpoint,
    /// As the responder's rules look at it.
    pub(crate) incoming: Incoming,
    /// It came from another host: the queue pair is connected to one.
    pub(crate) is_from_afar: bool,
    /// The key of the remote memory that it names.
    pub(crate) rkey: u32,
    /// XRC: the shared receive queue that it names.
    pub(crate) srq_num: u32,
    pub(crate) is_datagram: bool,
    /// What a send brings, when that is little and at hand.
    pub(crate) payload: Option<&'a [u8]>,
    /// Asked behind the target's lock, before anything happens: whether it is to be carried out still.
    pub(crate) begins: Option<&'a dyn Fn() -> bool>,
    /// Puts its sender's completion in order, where that is of this process.
    pub(crate) order: &'a CompletionOrder<'q>,
    pub(crate) bytes: M,
}

impl<M: MoveBytes> AtTarget<'_, '_, M> {
    /// Carries it out at this target, whose direct ring `writer` writes, if it does. `Ok(None)`: the target's
    /// queues were looked up anew; try again.
    ///
    /// # Errors
    /// As those of the target's locks.
    pub(crate) fn carry_out(
        &self,
        target: &mut Target,
        writer: &mut Option<RingWriter>,
    ) -> Result<Option<Outcome>, LockError> {
        let remote = &*target.remote;
        let view = remote.host.with(&target.held);
        let qp = Object::Qp(target.qp);
        let mut operation = Locks::new(&view);
        target.lock(self.is_datagram, || operation.lock(qp))?;
        let words: [u64; QP_WORDS] = load(&view, qp);
        // Queues that were resized since they were looked up, or just then: noticed before anything has
        // happened.
        let outdated = match target.queues {
            Some(Queues { cq, srq, .. }) => {
                let is_old = |object| !view.is_current(object);
                is_old(Object::Cq(cq)) || srq.is_some_and(|srq| is_old(Object::Srq(srq)))
            }
            None => target.xrc.is_some() || target.attributes.is_some_and(|known| known.cq.is_some()),
        };
        let xrc_changed = target.attributes.is_some_and(|attributes| attributes.qp_type == QpType::XrcRecv)
            && target.xrc.is_none_or(|xrc| xrc.srq_num != self.srq_num);
        let differ = words.iter().zip(&target.words).fold(0, |all, (now, then)| all | (now ^ then)) != 0;
        if differ || xrc_changed || outdated {
            operation.unlock(qp);
            drop(operation);
            let before = (target.words, target.xrc.map(|xrc| xrc.srq_num));
            target.refresh(words, self.srq_num);
            if target.attributes.is_some_and(|attributes| attributes.qp_type == QpType::XrcRecv)
                && target.xrc.is_none()
                && before == (words, None)
            {
                if target.is_moving {
                    return Ok(Some(Outcome::NoAnswer));
                }
                // No such queue in the domain (IBA annex A14: XRC domain violation).
                return Ok(Some(Outcome::Refused(Syndrome::InvalidRequest)));
            }
            return Ok(None);
        }
        if self.begins.is_some_and(|begins| !begins()) {
            operation.unlock(qp);
            return Ok(Some(Outcome::NoAnswer));
        }
        // Only a reliable connection has a ring, whatever the target says whom it is connected to.
        let settled =
            self.incoming.qp_type != QpType::Rc || is_settled(writer, target, self.incoming.needs_receive());
        if !settled {
            enter(writer, self.endpoint, target, self.incoming.src_qp, &view);
        }
        let outcome = match (target.attributes, target.queues) {
            (Some(attributes), Some(queues)) => {
                move_older(writer, self.endpoint, target, &view, attributes.receive_pd)?;
                let pd = target.xrc.map(|xrc| xrc.pd);
                self.respond(remote, &view, &mut operation, target.qp_num, &attributes, queues, pd)?
            }
            _ => Outcome::NoAnswer,
        };
        match outcome {
            // Without the lock, the queue pair may be another one's by now, or have been reset, before it
            // happened.
            Outcome::Done(_) => operation.give_back(qp)?,
            _ if operation.give_back(qp).is_err() => return Ok(Some(outcome)),
            _ => {}
        }
        if !settled {
            left(writer);
        }
        Ok(Some(outcome))
    }

    /// The responder's part, behind the target's lock.
    #[allow(clippy::too_many_arguments, reason = "all of it is what the target is")]
    fn respond(
        &self,
        remote: &Remote,
        view: &View<'_>,
        operation: &mut Locks<'_, View<'_>>,
        qp_num: u32,
        attributes: &QpAttributes,
        queues: Queues,
        xrc_pd: Option<u32>,
    ) -> Result<Outcome, LockError> {
        let state = QpState::from_number(view.load(Word::Qp(queues.qp, QpWord::State)) as u32);
        let state = state.unwrap_or(QpState::Err);
        let target = TargetQp {
            // XRC: the domain is that of the shared receive queue.
            pd: xrc_pd.unwrap_or(attributes.pd),
            receive_pd: xrc_pd.unwrap_or(attributes.receive_pd),
            srq: queues.srq.is_some(),
            ..attributes.target(qp_num, state)
        };
        let target = match (self.is_from_afar, attributes.dest_qp_num) {
            (true, FAR) => TargetQp { dest_qp_num: self.incoming.src_qp, ..target },
            (true, _) => return Ok(Outcome::NoAnswer),
            (false, _) => target,
        };
        let mut incoming = self.incoming;
        if incoming.needs_receive() && wanted(view, queues.cq) & wants::TIMESTAMPS != 0 {
            incoming.timestamp = now();
        }
        let plain = self.try_plain(view, operation, &target, queues, &incoming)?;
        if let Tried::Delivered(Delivered::Published | Delivered::Dropped) = plain {
            return Ok(Outcome::Done(incoming.length as u32));
        }
        // A key whose entry is being changed: its owner may have been stopped over it, which is no fault of the
        // key.
        let torn = Cell::new(false);
        let lookup = |key| {
            let entry = bytes::lookup(self.endpoint, remote, key);
            torn.set(torn.get() || entry == Err(Lookup::Torn));
            entry.ok().map(|entry| entry.key)
        };
        // In use from here on, so that what the rules look at is what is used.
        let names_memory = incoming.needs_access().is_some() && incoming.length > 0;
        let pin = match names_memory.then(|| bytes::pin(self.endpoint, remote, self.rkey)) {
            Some(Err(Lookup::Torn | Lookup::Busy)) => return Ok(Outcome::NoAnswer),
            Some(Ok(pin)) => Some(pin),
            Some(Err(Lookup::NoKey)) | None => None,
        };
        let key = pin.as_ref().map(|pin| &pin.entry.key);
        let ends = incoming.opcode == Opcode::SendWithInv;
        let inv_key = ends.then(|| lookup(incoming.imm_or_key)).flatten();
        let mut respond =
            Respond::new(target, queues, incoming, key, inv_key.as_ref()).with_payload(self.payload);
        match plain {
            Tried::Delivered(_) => respond = respond.overrun(view),
            Tried::NoRequest(claimed) => respond = respond.without_request(view, claimed),
            Tried::Other => {}
        }
        loop {
            let want = respond.step(view, lookup);
            if torn.get() {
                // Nothing came of it yet.
                return Ok(Outcome::NoAnswer);
            }
            match want {
                Want::Transport(progress) => {
                    match progress {
                        Progress::Bell(_) => self.order.keep(),
                        // Others may wait for the own queue who have this one.
                        Progress::Lock(_) => self.order.give_back(),
                        _ => {}
                    }
                    if !operation.proceed(&progress)? {
                        respond.unheard();
                    }
                }
                Want::Move(payload) => {
                    let place =
                        Place { endpoint: self.endpoint, remote, target: &target, used: pin.as_ref() };
                    let moved = self.bytes.move_to(&place, &payload);
                    if moved == Err(MoveError::Gone) && remote.overhears(queues.cq) {
                        // It may sleep for this queue's next event. A bell for nothing is one too many for a
                        // program that looks at the descriptor first, so it is not rung again for each try.
                        view.bell(queues.cq);
                    }
                    respond.moved(view, moved);
                }
                Want::Invalidate(key) => {
                    remote.keys().invalidate(key);
                }
                Want::Done(outcome) => return Ok(outcome),
            }
        }
    }

    /// A send of another host as a plain one, if all of it is in one place.
    #[inline(always)]
    fn try_plain(
        &self,
        view: &View<'_>,
        operation: &mut Locks<'_, View<'_>>,
        target: &TargetQp,
        queues: Queues,
        incoming: &Incoming,
    ) -> Result<Tried, LockError> {
        // The sender has no completion here that would have its turn.
        let Some(bytes) = self.bytes.whole() else { return Ok(Tried::Other) };
        let whole = Whole { endpoint: self.endpoint, target, queues, incoming, bytes };
        match queues.srq {
            Some(srq) => whole.receive_shared(Lane::shared(view, queues.qp, srq, queues.cq), operation),
            None => whole.receive(Lane::new(view, queues.qp, queues.cq), operation),
        }
    }
}

/// A send of another host that has come with all its bytes in one place.
struct Whole<'a> {
    endpoint: &'a Endpoint,
    target: &'a TargetQp,
    queues: Queues,
    incoming: &'a Incoming,
    bytes: &'a [u8],
}

impl Whole<'_> {
    /// Receives it where nothing stands in its way.
    #[inline(always)]
    fn receive(
        &self,
        lane: Option<Lane<'_>>,
        operation: &mut Locks<'_, View<'_>>,
    ) -> Result<Tried, LockError> {
        let Some(lane) = lane else { return Ok(Tried::Other) };
        let plain = match Plain::find(&lane, operation, self.target, self.queues, self.incoming)? {
            Found::Plain(plain) => plain,
            Found::NoRequest(claimed) => return Ok(Tried::NoRequest(claimed)),
            Found::Other => return Ok(Tried::Other),
        };
        if bytes::put_whole(self.endpoint, self.target.receive_pd, &plain.to, self.bytes).is_err() {
            return Ok(Tried::Other);
        }
        plain.deliver(&lane, operation).map(Tried::Delivered)
    }

    /// The same where the queue pair has a shared receive queue: code of its own, so that there is little
    /// where it has none.
    #[inline(never)]
    fn receive_shared(
        &self,
        lane: Option<Lane<'_>>,
        operation: &mut Locks<'_, View<'_>>,
    ) -> Result<Tried, LockError> {
        self.receive(lane, operation)
    }
}

/// What came of a send that was tried as a plain one.
enum Tried {
    Delivered(Delivered),
    /// The shared receive queue gave no request.
    NoRequest(Claimed),
    /// Nothing but that memory was written which is for the message, and that the queue pair may hold a request
    /// of its shared receive queue.
    Other,
}
