//! One request, carried out at its target by the process that posted it.
//!
//! What the rules need of the target is read behind the lock of its queue pair; where its queues are is looked
//! up once per connection and kept. A connection stays with the queue pair that it met first: one that has the
//! same number later is another one.

use std::cell::Cell;

use crate::growth::try_box;
use crate::protocol::completion::{Completion, wanted, wants};
use crate::protocol::deliver::{Deliver, Delivered};
use crate::protocol::keys::{Key, Kind, check_bind, check_invalidate};
use crate::protocol::request::{BindWindow, Operands, Outline, Sender, start};
use crate::protocol::requester::{Outcome, Syndrome};
use crate::protocol::respond::{MoveError, Payload, Queues, Respond, Want};
use crate::protocol::responder::{GRH_BYTES, Incoming, Remote as Memory, Target};
use crate::protocol::shared::{Memory as Words, Object, QpWord, Word};
use crate::protocol::transport::{LockError, Operation as Locks, Progress, Transport as _, run};
use crate::protocol::verbs::{Access, Opcode, QpState, QpType, Status};
use crate::shm::atomics::Operation;
use crate::shm::bounce::{Origin, Piece, Purpose};
use crate::shm::keys::{Entry, Lookup};
use crate::shm::objects::{Held, Lane, View};

use super::attributes::{QP_WORDS, QpAttributes, load};
use super::direct::{Outlet, enter, is_settled, left};
use super::gathered::Gathered;
use super::payload::{self, STAGED, Use};
use super::peers::Remote;
use super::route::{Initiator, Route};
use super::site::{Site, now};
use super::turn::Turn;
use super::wr::{Data, Wr};

/// Carries out one request now; never waits for anything but short locks.
pub fn attempt(site: &Site, from: &mut Initiator, wr: &Wr<'_>, turn: &Turn<'_>) -> Outcome {
    debug_assert!(!from.is_holding(), "a target is held");
    let sges = match wr.data {
        Data::Sges(sges) => sges,
        Data::Inline(_) | Data::InlineSges(_) => &[],
    };
    let length = wr.data.length();
    let sender =
        Sender { qp_type: from.qp_type, pd: from.pd, max_rd_atomic: from.max_rd_atomic, mtu: from.mtu };
    let outline = Outline { opcode: wr.opcode, operands: wr.operands, sges, length };
    if let Err(status) = start(&outline, &sender, |key| site.keys.local(key).map(|entry| entry.key)) {
        return Outcome::Local(status);
    }
    let (addr, rkey, length) = match wr.operands {
        Operands::Key(key) => return local_invalidate(site, from, key),
        Operands::Bind(window) => return bind(site, from, &window),
        Operands::None => (0, 0, length),
        Operands::Remote { addr, rkey, length } if wr.opcode == Opcode::Flush => (addr, rkey, length),
        Operands::Remote { addr, rkey, .. } | Operands::Atomic { addr, rkey, .. } => (addr, rkey, length),
    };
    let (qp_num, dgid) = from.destination(wr);
    let incoming = Incoming { addr, ..from.incoming(wr, length) };
    let mut bytes = [0; STAGED];
    let payload = match wr.opcode {
        Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv | Opcode::AtomicWrite => {
            Gathered::new(&mut bytes).fill(site, wr, length, None)
        }
        _ => None,
    };
    let call = Call { site, wr, incoming, rkey, payload, turn, before: Cell::new(None) };
    let connected = wr.datagram.is_none();
    let place = from.place_of(qp_num);
    let place = &mut from.routes[place];
    // What changed at the target since it was looked at is looked up anew: the queues once, then the queue
    // pair.
    for _ in 0..3 {
        let known = place.as_ref().is_some_and(|route| route.leads_to(qp_num, &dgid));
        if !known {
            let generation = place.as_ref().filter(|route| route.qp_num == qp_num).map(|r| r.generation);
            let found = Route::find(site, qp_num, dgid);
            // A connection outlives a change of addresses, and nothing else.
            if connected && generation.is_some() && generation != found.as_ref().map(|r| r.generation) {
                return Outcome::NoAnswer;
            }
            // Without memory for it the request is tried again.
            *place = found.and_then(|route| try_box(route).ok());
        }
        let Some(route) = place else { return Outcome::NoAnswer };
        if !route.remote.lives() {
            if !connected {
                // His successor is found next time.
                *place = None;
                continue;
            }
            return Outcome::NoAnswer;
        }
        match call.carry_out(route, &mut from.outlet) {
            Ok(Some(outcome)) => return call.answered(outcome),
            Ok(None) => {}
            Err(LockError::Busy) => return Outcome::NoAnswer,
            Err(LockError::Held) => return Outcome::Held,
            Err(LockError::Unclear) => return Outcome::Refused(Syndrome::Operational),
            Err(LockError::Gone) => {
                let same = route.remote.host.find([Some(Object::Qp(route.qp)), None, None]);
                if same.generation(Object::Qp(route.qp)) != Some(route.generation) {
                    if connected {
                        return Outcome::NoAnswer;
                    }
                    *place = None;
                } else {
                    route.held.add(&same);
                    route.words = [0; QP_WORDS];
                }
            }
        }
    }
    Outcome::NoAnswer
}

/// One request on its way.
struct Call<'a, 't> {
    site: &'a Site,
    wr: &'a Wr<'a>,
    incoming: Incoming,
    rkey: u32,
    /// What a send brings, when that is little.
    payload: Option<&'a [u8]>,
    turn: &'a Turn<'t>,
    /// What an atomic operation found, for [`Call::answered`].
    before: Cell<Option<u64>>,
}

impl Call<'_, '_> {
    /// The outcome, once the answer of an atomic operation is in the sender's memory. The target is given back
    /// by then: that memory may not be there, and a program that goes on after the fault must not keep it.
    #[inline]
    fn answered(&self, outcome: Outcome) -> Outcome {
        let (Outcome::Done(_), Some(before)) = (outcome, self.before.take()) else { return outcome };
        match self.wr.data {
            Data::Sges(sges) if payload::answer(self.site, sges, before).is_ok() => outcome,
            _ => Outcome::Local(Status::LocProtErr),
        }
    }

    /// `Ok(None)`: the target's queues were looked up anew; try again.
    fn carry_out(
        &self,
        route: &mut Route,
        outlet: &mut Option<Outlet>,
    ) -> Result<Option<Outcome>, LockError> {
        let remote = &*route.remote;
        let view = remote.host.with(&route.held);
        let qp = Object::Qp(route.qp);
        let mut operation = Locks::new(&view);
        route.lock(self.wr.datagram.is_some(), || operation.lock(qp))?;
        let words: [u64; QP_WORDS] = load(&view, qp);
        // Queues that were resized since they were looked up, or just then: noticed before anything has
        // happened.
        let outdated = match route.queues {
            Some(Queues { cq, srq, .. }) => {
                let is_old = |object| !view.is_current(object);
                is_old(Object::Cq(cq)) || srq.is_some_and(|srq| is_old(Object::Srq(srq)))
            }
            None => route.xrc.is_some() || route.attributes.is_some_and(|known| known.cq.is_some()),
        };
        let xrc_changed = route.attributes.is_some_and(|attributes| attributes.qp_type == QpType::XrcRecv)
            && route.xrc.is_none_or(|xrc| xrc.srq_num != self.wr.srq_num);
        let differ = words.iter().zip(&route.words).fold(0, |all, (now, then)| all | (now ^ then)) != 0;
        if differ || xrc_changed || outdated {
            operation.unlock(qp);
            drop(operation);
            let before = (route.words, route.xrc.map(|xrc| xrc.srq_num));
            route.refresh(words, self.wr.srq_num);
            if route.attributes.is_some_and(|attributes| attributes.qp_type == QpType::XrcRecv)
                && route.xrc.is_none()
                && before == (words, None)
            {
                if route.is_moving {
                    return Ok(Some(Outcome::NoAnswer));
                }
                // No such queue in the domain (IBA annex A14: XRC domain violation).
                return Ok(Some(Outcome::Refused(Syndrome::InvalidRequest)));
            }
            return Ok(None);
        }
        // Only a reliable connection has a ring, whatever the target says whom it is connected to.
        let settled =
            self.incoming.qp_type != QpType::Rc || is_settled(outlet, route, self.incoming.needs_receive());
        if !settled {
            enter(outlet, self.site, route, self.incoming.src_qp, &view);
        }
        let outcome = match (route.attributes, route.queues) {
            (Some(attributes), Some(queues)) => {
                let pd = route.xrc.map(|xrc| xrc.pd);
                self.respond(remote, &view, &mut operation, route.qp_num, &attributes, queues, pd)?
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
            left(outlet);
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
        let target = Target {
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
            let entry = payload::lookup(self.site, remote, key);
            torn.set(torn.get() || entry == Err(Lookup::Torn));
            entry.ok().map(|entry| entry.key)
        };
        // In use from here on, so that what the rules look at is what is used.
        let names_memory = incoming.needs_access().is_some() && incoming.length > 0;
        let pin = match names_memory.then(|| payload::pin(self.site, remote, self.rkey)) {
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
                        Progress::Bell(_) => self.turn.keep(),
                        // Others may wait for the own queue who have this one.
                        Progress::Lock(_) => self.turn.give_back(),
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
        target: &Target,
        payload: &Payload,
        used: Option<&Use<'_>>,
    ) -> Result<(), MoveError> {
        let Call { incoming, wr, .. } = self;
        let (src_qp, srq_num) = (incoming.src_qp, wr.srq_num);
        let origin = Origin { qp_num: target.qp_num, src_qp, srq_num, wr_id: 0 };
        let memory = match payload {
            Payload::Receive(receive) => {
                let header = if target.qp_type == QpType::Ud { GRH_BYTES } else { 0 };
                let length = incoming.length + header;
                let pd = target.receive_pd;
                return payload::into_receive(self.site, remote, wr, origin, pd, receive, length);
            }
            Payload::Remote(memory) => memory,
        };
        let Some(used) = used.filter(|_| self.incoming.length > 0) else { return Ok(()) };
        let addr = used.entry.translate(self.incoming.addr);
        let piece = Piece { key: self.rkey, addr, len: self.incoming.length };
        let copy = |purpose| {
            payload::with_local(self.site, self.wr, |here| {
                payload::transfer_used(self.site, remote, origin, purpose, used, here, piece)
            })
        };
        match memory {
            Memory::None | Memory::Flush => Ok(()),
            Memory::Write => copy(Purpose::Write),
            Memory::Read => copy(Purpose::Read),
            Memory::Atomic => {
                let Operands::Atomic { compare_add, swap, .. } = self.wr.operands else {
                    return Err(MoveError::Sender);
                };
                let operation = match self.wr.opcode {
                    Opcode::CmpAndSwp => Operation::CompareSwap { compare: compare_add, swap },
                    _ => Operation::FetchAdd(compare_add),
                };
                self.before.set(Some(payload::atomic(self.site, remote, origin, used, piece, operation)?));
                Ok(())
            }
            Memory::AtomicWrite => {
                let value = match self.payload {
                    Some(bytes) => bytes.try_into().map_err(|_| MoveError::Sender)?,
                    None => payload::word(self.site, self.wr)?,
                };
                let operation = Operation::Write(u64::from_ne_bytes(value));
                payload::atomic(self.site, remote, origin, used, piece, operation).map(|_| ())
            }
        }
    }
}

/// Invalidates an own window (IBA §10.8.2.3.4, local invalidate).
fn local_invalidate(site: &Site, from: &Initiator, key: u32) -> Outcome {
    let window = site.keys.window(key);
    let checked = check_invalidate(window.as_ref().map(|entry| &entry.key), from.pd, from.qp_num);
    let (Some(entry), Ok(())) = (window, checked) else { return Outcome::Local(Status::MwBindErr) };
    let ended = Entry { key: Key { valid: false, ..entry.key }, ..entry };
    if site.keys.change(key, key as u8, &ended).is_err() {
        return Outcome::Local(Status::MwBindErr);
    }
    // Who found it valid before is done with it afterwards.
    let ended = site.keys.end_use(key, &*site.segment).is_ok();
    if ended { Outcome::Done(0) } else { Outcome::Local(Status::MwBindErr) }
}

/// Binds an own window (IBA §10.6.7.2).
fn bind(site: &Site, from: &Initiator, wish: &BindWindow) -> Outcome {
    let refused = Outcome::Local(Status::MwBindErr);
    let Some(window) = site.keys.window(wish.window) else { return refused };
    let region = site.keys.local(wish.region);
    let checked =
        check_bind(&window.key, region.as_ref().map(|region| &region.key), from.qp_type, from.pd, wish.bind);
    if checked.is_err() {
        return refused;
    }
    let rights = region.as_ref().map_or(Access::NONE, |region| region.key.access);
    let kind = match window.key.kind {
        Kind::Window2 { .. } => Kind::Window2 { qp_num: from.qp_num },
        other => other,
    };
    let start = if wish.bind.access.has(Access::ZERO_BASED) { 0 } else { wish.bind.addr };
    let key = Key {
        kind,
        valid: wish.bind.length > 0,
        pd: window.key.pd,
        start,
        length: wish.bind.length,
        // The kernel reaches the window's memory where it reaches the region's.
        access: wish.bind.access.union(Access(rights.0 & Access::UNPINNABLE.0)),
    };
    let base = region.map_or(0, |region| region.translate(wish.bind.addr));
    if window.key.valid {
        let ended = Entry { key: Key { valid: false, ..window.key }, ..window };
        if site.keys.change(wish.window, wish.window as u8, &ended).is_err() {
            return refused;
        }
    }
    // Who uses it as it was is done first: also where a peer invalidated it.
    if site.keys.end_use(wish.window, &*site.segment).is_err()
        || site.keys.change(wish.window, wish.key8, &Entry { key, base }).is_err()
    {
        return refused;
    }
    Outcome::Done(0)
}

/// Appends a completion to an own completion queue, bell included. `held` is where the queue is
/// ([`Host::find`](crate::shm::objects::Host::find)), looked up again after it was resized.
///
/// # Errors
/// When the queue's lock could not be had.
#[inline]
pub fn complete(site: &Site, held: &Held, cq: u32, completion: &Completion) -> Result<Delivered, LockError> {
    let view = site.own.with(held);
    let Some(lane) = Lane::alone(&view, cq) else { return Err(LockError::Gone) };
    run(&lane, Deliver::append(cq, &stamped(&lane, cq, completion)))
}

/// As [`complete`], where the caller has the queue's lock, which is given back.
///
/// # Errors
/// The queue was moved meanwhile.
#[cold]
#[inline(never)]
pub fn complete_kept(
    site: &Site,
    held: &Held,
    cq: u32,
    completion: &Completion,
) -> Result<Delivered, LockError> {
    let view = site.own.with(held);
    if !view.is_current(Object::Cq(cq)) {
        return Err(LockError::Gone);
    }
    // Not by a lane: the compiler inlines that machine into `complete` only while nobody else calls it.
    let mut operation = Locks::new(&view);
    operation.adopt(Object::Cq(cq));
    operation.run(Deliver::append(cq, &stamped(&view, cq, completion)).behind_lock())
}

/// With the time, in a queue that wants it.
#[inline(always)]
fn stamped(memory: &impl Words, cq: u32, completion: &Completion) -> Completion {
    if wanted(memory, cq) & wants::TIMESTAMPS == 0 {
        *completion
    } else {
        Completion { timestamp: now(), ..*completion }
    }
}
