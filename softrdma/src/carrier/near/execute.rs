//! One request, carried out at its target by the process that posted it.
//!
//! What the rules need of the target is read behind the lock of its queue pair; where its queues are is looked
//! up once per connection and kept. A connection stays with the queue pair that it met first: one that has the
//! same number later is another one.

use std::cell::Cell;

use ironverbs_os::clock::now;
use ironverbs_os::growth::try_box;

use crate::queues::completion::{MAX_STAGED, wanted, wants};
use crate::queues::respond::{MoveError, Payload, Queues, Respond, Want};
use crate::queues::shared::{Memory, Object, QpWord, Word};
use crate::queues::transaction::LockError;
use crate::queues::transaction::Progress;
use crate::queues::transport::{Operation as Locks, Transport as _};
use crate::rules::request::{Operands, Outline, Sender, start};
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::responder::{GRH_BYTES, Incoming, RemoteAccess, TargetQp};
use crate::rules::verbs::{Opcode, QpState, QpType, Status};
use crate::shm::atomics::Operation;
use crate::shm::bounce::{Origin, Piece, Purpose};
use crate::shm::keys::Lookup;
use crate::shm::objects::View;

use super::attributes::{QP_WORDS, QpAttributes, load};
use super::bytes::{self, Gathered, Use};
use super::direct::{RingWriter, enter, is_settled, left, move_older};
use super::peers::Remote;
use super::target::{Target, Targets};
use super::windows::{bind, local_invalidate};
use crate::carrier::outgoing::Outgoing;
use crate::carrier::wr::Data;

/// Carries out one request now; never waits for anything but short locks.
#[inline]
pub(crate) fn execute(
    out: &Outgoing<'_, '_>,
    targets: &mut Targets,
    writer: &mut Option<RingWriter>,
    room: &mut [u8; MAX_STAGED],
) -> Outcome {
    let Outgoing { endpoint, from, wr, request, .. } = *out;
    let sges = match wr.data {
        Data::Sges(sges) => sges,
        Data::Inline(_) | Data::InlineSges(_) => &[],
    };
    let length = request.length;
    let sender =
        Sender { qp_type: from.qp_type, pd: from.pd, max_rd_atomic: from.max_rd_atomic, mtu: from.mtu };
    let outline = Outline { opcode: wr.opcode, operands: wr.operands, sges, length };
    if let Err(status) = start(&outline, &sender, |key| endpoint.keys.local(key).map(|entry| entry.key)) {
        return Outcome::Local(status);
    }
    let (addr, rkey, length) = match wr.operands {
        Operands::Key(key) => return local_invalidate(endpoint, from, key),
        Operands::Bind(window) => return bind(endpoint, from, &window),
        Operands::None => (0, 0, length),
        Operands::Remote { addr, rkey, length } if wr.opcode == Opcode::Flush => (addr, rkey, length),
        Operands::Remote { addr, rkey, .. } | Operands::Atomic { addr, rkey, .. } => (addr, rkey, length),
    };
    let (qp_num, dgid) = from.destination(wr);
    let incoming = Incoming { addr, ..from.incoming(wr, length) };
    let payload = match wr.opcode {
        Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv | Opcode::AtomicWrite => {
            Gathered::new(room).fill(endpoint, wr, length, None)
        }
        _ => None,
    };
    let call = Call { out, incoming, rkey, payload, before: Cell::new(None) };
    let connected = wr.datagram.is_none();
    let place = targets.place(qp_num);
    // What changed at the target since it was looked at is looked up anew: the queues once, then the queue
    // pair.
    for _ in 0..3 {
        let known = place.as_ref().is_some_and(|target| target.is(qp_num, &dgid));
        if !known {
            let generation =
                place.as_ref().filter(|target| target.qp_num == qp_num).map(|target| target.generation);
            let found = Target::find(endpoint, qp_num, dgid);
            // A connection outlives a change of addresses, and nothing else.
            if connected
                && generation.is_some()
                && generation != found.as_ref().map(|target| target.generation)
            {
                return Outcome::NoAnswer;
            }
            // Without memory for it the request is tried again.
            *place = found.and_then(|target| try_box(target).ok());
        }
        let Some(target) = place else { return Outcome::NoAnswer };
        if !target.remote.lives() {
            if !connected {
                // His successor is found next time.
                *place = None;
                continue;
            }
            return Outcome::NoAnswer;
        }
        match call.carry_out(target, writer) {
            Ok(Some(outcome)) => return call.answered(outcome),
            Ok(None) => {}
            Err(LockError::Busy) => return Outcome::NoAnswer,
            Err(LockError::Held) => return Outcome::Held,
            Err(LockError::Unclear) => return Outcome::Refused(Syndrome::Operational),
            Err(LockError::Gone) => {
                let same = target.remote.host.find([Some(Object::Qp(target.qp)), None, None]);
                if same.generation(Object::Qp(target.qp)) != Some(target.generation) {
                    if connected {
                        return Outcome::NoAnswer;
                    }
                    *place = None;
                } else {
                    target.held.add(&same);
                    target.words = [0; QP_WORDS];
                }
            }
        }
    }
    Outcome::NoAnswer
}

/// One request on its way.
struct Call<'a, 'q> {
    out: &'a Outgoing<'a, 'q>,
    incoming: Incoming,
    rkey: u32,
    /// What a send brings, when that is little.
    payload: Option<&'a [u8]>,
    /// What an atomic operation found, for [`Call::answered`].
    before: Cell<Option<u64>>,
}

impl Call<'_, '_> {
    /// The outcome, once the answer of an atomic operation is in the sender's memory. The target is given back
    /// by then: that memory may not be there, and a program that goes on after the fault must not keep it.
    #[inline]
    fn answered(&self, outcome: Outcome) -> Outcome {
        let (Outcome::Done(_), Some(before)) = (outcome, self.before.take()) else { return outcome };
        match self.out.wr.data {
            Data::Sges(sges) if bytes::answer(self.out.endpoint, sges, before).is_ok() => outcome,
            _ => Outcome::Local(Status::LocProtErr),
        }
    }

    /// `Ok(None)`: the target's queues were looked up anew; try again.
    fn carry_out(
        &self,
        target: &mut Target,
        writer: &mut Option<RingWriter>,
    ) -> Result<Option<Outcome>, LockError> {
        let remote = &*target.remote;
        let view = remote.host.with(&target.held);
        let qp = Object::Qp(target.qp);
        let mut operation = Locks::new(&view);
        target.lock(self.out.wr.datagram.is_some(), || operation.lock(qp))?;
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
            && target.xrc.is_none_or(|xrc| xrc.srq_num != self.out.wr.srq_num);
        let differ = words.iter().zip(&target.words).fold(0, |all, (now, then)| all | (now ^ then)) != 0;
        if differ || xrc_changed || outdated {
            operation.unlock(qp);
            drop(operation);
            let before = (target.words, target.xrc.map(|xrc| xrc.srq_num));
            target.refresh(words, self.out.wr.srq_num);
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
        // Only a reliable connection has a ring, whatever the target says whom it is connected to.
        let settled =
            self.incoming.qp_type != QpType::Rc || is_settled(writer, target, self.incoming.needs_receive());
        if !settled {
            enter(writer, self.out.endpoint, target, self.incoming.src_qp, &view);
        }
        let outcome = match (target.attributes, target.queues) {
            (Some(attributes), Some(queues)) => {
                move_older(writer, self.out.endpoint, target, &view, attributes.receive_pd)?;
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
        let mut incoming = self.incoming;
        if incoming.needs_receive() && wanted(view, queues.cq) & wants::TIMESTAMPS != 0 {
            incoming.timestamp = now();
        }
        // A key whose entry is being changed: its owner may have been stopped over it, which is no fault of the
        // key.
        let torn = Cell::new(false);
        let lookup = |key| {
            let entry = bytes::lookup(self.out.endpoint, remote, key);
            torn.set(torn.get() || entry == Err(Lookup::Torn));
            entry.ok().map(|entry| entry.key)
        };
        // In use from here on, so that what the rules look at is what is used.
        let names_memory = incoming.needs_access().is_some() && incoming.length > 0;
        let pin = match names_memory.then(|| bytes::pin(self.out.endpoint, remote, self.rkey)) {
            Some(Err(Lookup::Torn | Lookup::Busy)) => return Ok(Outcome::NoAnswer),
            Some(Ok(pin)) => Some(pin),
            Some(Err(Lookup::NoKey)) | None => None,
        };
        let key = pin.as_ref().map(|pin| &pin.entry.key);
        let ends = incoming.opcode == Opcode::SendWithInv;
        let inv_key = ends.then(|| lookup(incoming.imm_or_key)).flatten();
        let mut respond =
            Respond::new(target, queues, incoming, key, inv_key.as_ref()).with_payload(self.payload);
        loop {
            let want = respond.step(view, lookup);
            if torn.get() {
                // Nothing came of it yet.
                return Ok(Outcome::NoAnswer);
            }
            match want {
                Want::Transport(progress) => {
                    match progress {
                        Progress::Bell(_) => self.out.order.keep(),
                        // Others may wait for the own queue who have this one.
                        Progress::Lock(_) => self.out.order.give_back(),
                        _ => {}
                    }
                    if !operation.proceed(&progress)? {
                        respond.unheard();
                    }
                }
                Want::Move(payload) => {
                    let moved = self.move_bytes(remote, &target, &payload, pin.as_ref());
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

    #[inline(never)]
    fn move_bytes(
        &self,
        remote: &Remote,
        target: &TargetQp,
        payload: &Payload,
        used: Option<&Use<'_>>,
    ) -> Result<(), MoveError> {
        let Call { out: Outgoing { wr, .. }, incoming, .. } = self;
        let (src_qp, srq_num) = (incoming.src_qp, wr.srq_num);
        let origin = Origin { qp_num: target.qp_num, src_qp, srq_num, wr_id: 0 };
        let access = match payload {
            Payload::Receive(receive) => {
                let header = if target.qp_type == QpType::Ud { GRH_BYTES } else { 0 };
                let length = incoming.length + header;
                let pd = target.receive_pd;
                return bytes::into_receive(self.out.endpoint, remote, wr, origin, pd, receive, length);
            }
            Payload::Remote(access) => *access,
        };
        let Some(used) = used.filter(|_| self.incoming.length > 0) else { return Ok(()) };
        let addr = used.entry.translate(self.incoming.addr);
        let piece = Piece { key: self.rkey, addr, len: self.incoming.length };
        let copy = |purpose| {
            bytes::with_local(self.out.endpoint, self.out.wr, |here| {
                bytes::transfer_used(self.out.endpoint, remote, origin, purpose, used, here, piece)
            })
        };
        match access {
            RemoteAccess::None | RemoteAccess::Flush => Ok(()),
            RemoteAccess::Write => copy(Purpose::Write),
            RemoteAccess::Read => copy(Purpose::Read),
            RemoteAccess::Atomic => {
                let Operands::Atomic { compare_add, swap, .. } = self.out.wr.operands else {
                    return Err(MoveError::Sender);
                };
                let operation = match self.out.wr.opcode {
                    Opcode::CmpAndSwp => Operation::CompareSwap { compare: compare_add, swap },
                    _ => Operation::FetchAdd(compare_add),
                };
                let before = bytes::atomic(self.out.endpoint, remote, origin, used, piece, operation)?;
                self.before.set(Some(before));
                Ok(())
            }
            RemoteAccess::AtomicWrite => {
                let value = match self.payload {
                    Some(bytes) => bytes.try_into().map_err(|_| MoveError::Sender)?,
                    None => bytes::word(self.out.endpoint, self.out.wr)?,
                };
                let operation = Operation::Write(u64::from_ne_bytes(value));
                bytes::atomic(self.out.endpoint, remote, origin, used, piece, operation).map(|_| ())
            }
        }
    }
}
