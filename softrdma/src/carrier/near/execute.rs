//! One request, carried out at its target by the process that posted it.
//!
//! What the rules need of the target is read behind the lock of its queue pair; where its queues are is looked
//! up once per connection and kept. A connection stays with the queue pair that it met first: one that has the
//! same number later is another one.

use std::cell::Cell;

use ironverbs_os::growth::try_box;

use crate::queues::completion::MAX_STAGED;
use crate::queues::respond::{MoveError, Payload};
use crate::queues::transaction::LockError;
use crate::rules::request::{Operands, Outline, Sender, start};
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::responder::{GRH_BYTES, Incoming, RemoteAccess};
use crate::rules::verbs::{Opcode, QpType, Status};
use crate::shm::atomics::Operation;
use crate::shm::bounce::{Origin, Piece, Purpose};

use super::at_target::{AtTarget, MoveBytes, Place};
use super::bytes::{self, Gathered};
use super::direct::RingWriter;
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
    let connected = wr.datagram.is_none();
    let call = AtTarget {
        endpoint,
        incoming,
        is_from_afar: false,
        rkey,
        srq_num: wr.srq_num,
        is_datagram: !connected,
        payload,
        begins: None,
        order: out.order,
        bytes: Call { out, incoming, rkey, payload, before: Cell::new(None) },
    };
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
            Ok(Some(outcome)) => return call.bytes.answered(outcome),
            Ok(None) => {}
            Err(LockError::Busy) => return Outcome::NoAnswer,
            Err(LockError::Held) => return Outcome::Held,
            Err(LockError::Unclear) => return Outcome::Refused(Syndrome::Operational),
            Err(LockError::Gone) => {
                if !target.find_queues_again() {
                    if connected {
                        return Outcome::NoAnswer;
                    }
                    *place = None;
                }
            }
        }
    }
    Outcome::NoAnswer
}

/// The bytes of a request that this process sends.
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
}

impl MoveBytes for Call<'_, '_> {
    #[inline(never)]
    fn move_to(&self, place: &Place<'_>, payload: &Payload) -> Result<(), MoveError> {
        let Place { endpoint, remote, target, used } = *place;
        let Call { out: Outgoing { wr, .. }, incoming, .. } = self;
        let (src_qp, srq_num) = (incoming.src_qp, wr.srq_num);
        let origin = Origin { qp_num: target.qp_num, src_qp, srq_num, wr_id: 0 };
        let access = match payload {
            Payload::Receive(receive) => {
                let header = if target.qp_type == QpType::Ud { GRH_BYTES } else { 0 };
                let length = incoming.length + header;
                let pd = target.receive_pd;
                return bytes::into_receive(endpoint, remote, wr, origin, pd, receive, length);
            }
            Payload::Remote(access) => *access,
        };
        let Some(used) = used.filter(|_| self.incoming.length > 0) else { return Ok(()) };
        let addr = used.entry.translate(self.incoming.addr);
        let piece = Piece { key: self.rkey, addr, len: self.incoming.length };
        let copy = |purpose| {
            bytes::with_local(endpoint, self.out.wr, |here| {
                bytes::transfer_used(endpoint, remote, origin, purpose, used, here, piece)
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
                let before = bytes::atomic(endpoint, remote, origin, used, piece, operation)?;
                self.before.set(Some(before));
                Ok(())
            }
            RemoteAccess::AtomicWrite => {
                let value = match self.payload {
                    Some(bytes) => bytes.try_into().map_err(|_| MoveError::Sender)?,
                    None => bytes::word(endpoint, self.out.wr)?,
                };
                let operation = Operation::Write(u64::from_ne_bytes(value));
                bytes::atomic(endpoint, remote, origin, used, piece, operation).map(|_| ())
            }
        }
    }
}
