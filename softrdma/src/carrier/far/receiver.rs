//! What a connected queue pair's receive queue keeps for a peer on another host.
//!
//! The process that receives carries requests out itself, behind the queue pair's lock, by the same rules as an
//! initiator of its folder. A message of several packets fills the memory that it is for as they come, and what
//! follows from it follows with the last one: until then its receive request is looked at and not taken.

use std::cell::Cell;

use super::Peer;
use super::batch::Batch;
use super::datagram::Arrived;
use crate::carrier::near::at_target::{AtTarget, MoveBytes, Place};
use crate::carrier::near::bytes::{self, PARTS};
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::target::Target;
use crate::error::Result;
use crate::queues::respond::{MoveError, Payload};
use crate::queues::transaction::LockError;
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::responder::{Incoming, RemoteAccess};
use crate::rules::verbs::{Opcode, QpType};
use crate::shm::atomics;
use crate::shm::bounce::{self, Origin};
use crate::wire::identification::Identifications;
use crate::wire::opcode::{Operation, Transport};
use crate::wire::packet::Packet;
use crate::wire::responder::Responder;
use crate::wire::responder::step::{Executed, Piece, Step};

/// The largest `max_dest_rd_atomic`.
pub(crate) const MOST_READS: u8 = 128;

/// How often the queue pair is looked at anew whose queues were moved just then.
const TRIES: u32 = 3;

/// What came of a peer.
#[derive(Debug, Default)]
struct Fresh {
    /// Packets, of which those that [join](Responder::join) count as one.
    pieces: u32,
    /// With the last of them a message was complete that took a receive request.
    is_message: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) peer: Peer,
    pub(crate) responder: Responder,
    identifications: Identifications,
    /// A request was carried out.
    has_heard: bool,
    /// What came since it was asked.
    fresh: Fresh,
    /// An acknowledgement that came while the program kept the send queue, and since when (the device's clock,
    /// nanoseconds): what comes behind it is taken after it.
    pub(crate) missed: Option<(Packet<'static>, u64)>,
    /// The own queue pair.
    target: Target,
}

impl Receiver {
    /// That of the own queue pair with this number and index; the first packet has this PSN, and so many reads
    /// and atomic operations may be under way.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory); [`Error::Host`](crate::error::Error::Host).
    pub(crate) fn new(
        endpoint: &Endpoint,
        (qp_num, qp): (u32, u32),
        peer: Peer,
        psn: u32,
        max_dest_rd_atomic: u8,
    ) -> Result<Self> {
        // As many as it may be changed to.
        let mut responder = Responder::new(MOST_READS)?;
        responder.start(peer.connection(psn), max_dest_rd_atomic);
        let (identifications, has_heard, fresh) = (Identifications::default(), false, Fresh::default());
        let target = Target::own(endpoint, qp_num, qp)?;
        Ok(Self { peer, responder, identifications, has_heard, fresh, missed: None, target })
    }

    /// Whether a packet that came from the peer's address is the peer's.
    #[inline]
    pub(crate) fn admits(&mut self, arrived: &Arrived<'_>) -> bool {
        self.identifications.admits(arrived.identification)
    }

    /// Whether the peer takes an acknowledgement first that comes in one train with requests before it, as an
    /// ironverbs host does. With IPv6 nothing shows another.
    #[inline]
    pub(crate) fn takes_acknowledgements_first(&self) -> bool {
        self.identifications.are_of_trains()
    }

    /// Takes the first of some requests from the peer with those that [join](Responder::join) it, and does what
    /// it asks for: whether the queue pair broke over it, and how many they were.
    #[inline(never)]
    pub(crate) fn take(&mut self, endpoint: &Endpoint, requests: &[&Arrived<'_>]) -> (bool, usize) {
        let Some(Arrived { packet: first, .. }) = requests.first() else { return (false, 0) };
        self.fresh.pieces = self.fresh.pieces.saturating_add(1);
        let mut piece = match self.responder.take(first) {
            Step::Nothing => return (false, 1),
            Step::Refused => return (true, 1),
            Step::Execute(piece) => piece,
        };
        let mut payload = Batch::<_, PARTS>::new();
        payload.push(first.payload);
        for Arrived { packet: next, .. } in &requests[1..requests.len().min(PARTS)] {
            let Some(longer) = self.responder.join(next) else { break };
            piece = longer;
            payload.push(next.payload);
        }
        let (payload, count) = (payload.all(), payload.all().len());
        // Without an answer it is as if the first packet had not come, and those behind it are behind a gap.
        let Some(executed) = self.carry_out(endpoint, &piece, payload) else { return (false, 1) };
        self.responder.executed(executed);
        self.fresh.is_message = executed == Executed::Done && takes_request(&piece);
        self.has_heard |= matches!(executed, Executed::Done | Executed::Original(_)) && !piece.again;
        (matches!(executed, Executed::Refused(_)) && !piece.again, count)
    }

    /// Whether all that came since the last call is one piece of a message, with which the program has that.
    pub(crate) fn take_is_one_message(&mut self) -> bool {
        let Fresh { pieces, is_message } = std::mem::take(&mut self.fresh);
        pieces == 1 && is_message
    }

    /// Whether a request was carried out since the last call.
    pub(crate) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.has_heard)
    }

    #[inline(never)]
    fn carry_out(&mut self, endpoint: &Endpoint, piece: &Piece, payload: &[&[u8]]) -> Option<Executed> {
        let length = payload.iter().map(|part| part.len()).sum();
        let memory = piece.memory.map(|memory| memory.rkey);
        let request = AtTarget {
            endpoint,
            incoming: incoming(&self.peer, piece, length),
            is_from_afar: true,
            rkey: memory.or(piece.atomic.map(|atomic| atomic.rkey)).unwrap_or(0),
            srq_num: 0,
            is_datagram: false,
            payload: None,
            begins: None,
            order: &CompletionOrder::new(None),
            bytes: Bytes { piece, payload, is_unfinished: Cell::new(false), original: Cell::new(None) },
        };
        for _ in 0..TRIES {
            let outcome = match request.carry_out(&mut self.target, &mut None) {
                Ok(Some(outcome)) => outcome,
                Ok(None) => continue,
                Err(LockError::Gone) => {
                    if !self.target.find_queues_again() {
                        return None;
                    }
                    continue;
                }
                Err(LockError::Unclear) => Outcome::Refused(Syndrome::Operational),
                // Somebody has its lock and does not go on: the peer asks again.
                Err(LockError::Busy | LockError::Held) => return None,
            };
            let bytes = &request.bytes;
            return match outcome {
                Outcome::Done(_) => Some(bytes.original.get().map_or(Executed::Done, Executed::Original)),
                Outcome::NoAnswer if bytes.is_unfinished.get() => Some(Executed::Done),
                Outcome::ReceiverNotReady(code) => Some(Executed::NotReady(code)),
                Outcome::Refused(syndrome) => Some(Executed::Refused(syndrome)),
                Outcome::NoAnswer | Outcome::Held | Outcome::Local(_) => None,
            };
        }
        None
    }
}

/// Whether the program has a completion by the piece.
fn takes_request(piece: &Piece) -> bool {
    piece.ends && (piece.operation == Operation::Send || piece.imm.is_some())
}

/// A piece as the responder's rules look at it.
fn incoming(peer: &Peer, piece: &Piece, bytes: usize) -> Incoming {
    let opcode = match (piece.operation, piece.imm, piece.invalidate) {
        (Operation::Write, Some(_), _) => Opcode::RdmaWriteWithImm,
        (Operation::Write, None, _) => Opcode::RdmaWrite,
        (Operation::ReadRequest, ..) => Opcode::RdmaRead,
        (Operation::CompareSwap, ..) => Opcode::CmpAndSwp,
        (Operation::FetchAdd, ..) => Opcode::FetchAndAdd,
        (_, Some(_), _) => Opcode::SendWithImm,
        (_, None, Some(_)) => Opcode::SendWithInv,
        (_, None, None) => Opcode::Send,
    };
    let (addr, length) = match (piece.memory, piece.atomic) {
        (Some(memory), _) => (memory.va, u64::from(memory.length)),
        (None, Some(atomic)) => (atomic.va, 8),
        // Of a send as much as has come: what is too long is so with the packet that shows it.
        (None, None) => (0, u64::from(piece.offset) + bytes as u64),
    };
    Incoming {
        qp_type: if peer.transport == Transport::Uc { QpType::Uc } else { QpType::Rc },
        opcode,
        src_qp: peer.qp_num,
        path_matches: true,
        qkey: 0,
        ipv4: false,
        length,
        addr,
        imm_or_key: piece.imm.or(piece.invalidate).unwrap_or(0),
        solicited: piece.solicited,
        timestamp: 0,
    }
}

/// The bytes of a packet, or of some that were joined.
struct Bytes<'a> {
    piece: &'a Piece,
    payload: &'a [&'a [u8]],
    /// They are where they belong, and others of the message are still to come.
    is_unfinished: Cell<bool>,
    /// What an atomic operation found.
    original: Cell<Option<u64>>,
}

impl MoveBytes for Bytes<'_> {
    fn move_to(&self, place: &Place<'_>, payload: &Payload) -> std::result::Result<(), MoveError> {
        let Place { endpoint, remote, target, used } = *place;
        match payload {
            Payload::Receive(receive) => {
                let offset = self.piece.offset as usize;
                bytes::put_parts(endpoint, target.receive_pd, &receive.sges, offset, self.payload)?;
            }
            Payload::Remote(RemoteAccess::Write) => {
                if let (Some(used), Some(memory)) = (used, self.piece.memory) {
                    let to = memory.va.wrapping_add(u64::from(self.piece.offset));
                    let payload = self.payload.iter().copied();
                    bytes::put(endpoint, &used.entry, to, payload).map_err(|_| MoveError::Target)?;
                }
            }
            Payload::Remote(RemoteAccess::Atomic) => {
                let (Some(used), Some(atomic)) = (used, self.piece.atomic) else {
                    return Err(MoveError::Sender);
                };
                let operation = match self.piece.operation {
                    Operation::CompareSwap => {
                        atomics::Operation::CompareSwap { compare: atomic.compare, swap: atomic.swap_or_add }
                    }
                    _ => atomics::Operation::FetchAdd(atomic.swap_or_add),
                };
                let there = bounce::Piece { key: atomic.rkey, addr: used.entry.translate(atomic.va), len: 8 };
                let origin = Origin { qp_num: target.qp_num, src_qp: target.dest_qp_num, ..Origin::NONE };
                let original = bytes::atomic(endpoint, remote, origin, used, there, operation)?;
                self.original.set(Some(original));
            }
            // A read: its memory may be read, and is with each answer.
            Payload::Remote(_) => {}
        }
        if self.piece.ends {
            return Ok(());
        }
        self.is_unfinished.set(true);
        Err(MoveError::Unfinished)
    }

    #[inline(always)]
    fn whole(&self) -> Option<&[u8]> {
        match (self.payload, self.piece) {
            ([bytes], Piece { operation: Operation::Send, begins: true, ends: true, .. }) => Some(bytes),
            _ => None,
        }
    }
}
