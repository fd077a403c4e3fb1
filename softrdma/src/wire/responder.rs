//! The receiving side of a connection: packets become parts of messages that are to be carried out, in order
//! and once, and answers (IBA vol. 1 §9.7 for RC, §9.8 for UC).
//!
//! | file | what |
//! |---|---|
//! | this | which packet is next, and what is answered |
//! | [`step`] | what it asks of who carries requests out |
//! | `sequence` | whether packets make a message |
//! | `memory` | the last reads and atomic operations, and their answers that wait |
//! | `pace` | how fast those leave on a congested network |
//!
//! A packet changes nothing before its caller has said what came of it; of packets that are [joined](
//! Responder::join) that is said once. Acknowledgements are coalesced: one
//! speaks for all packets that were taken since the last call of [`Responder::next_response`]. They are sent
//! behind answers to reads and atomic operations, as those speak for what was before them.

mod memory;
mod pace;
mod sequence;
pub mod step;

use std::collections::TryReserveError;

use super::connection::{Connection, Mtu};
use super::opcode::{Opcode, Operation, Position, Transport};
use super::packet::{Aeth, Bth, Head, Headers, Packet, Reth, pad_of};
use super::psn::Psn;
use crate::rules::requester::Syndrome;
use memory::{Asked, Memory};
use pace::Pace;
use sequence::Progress;
use step::{Executed, Part, Piece, Response, Step};

/// Syndromes of AETHs (IBA vol. 1 §9.7.5.2).
pub(super) mod syndrome {
    /// Acknowledged; receive requests are not counted.
    pub const ACKNOWLEDGED: u8 = 0x1f;
    /// Receiver not ready, plus the timer's code.
    pub const NOT_READY: u8 = 0x20;
    /// PSN sequence error.
    pub const OUT_OF_SEQUENCE: u8 = 0x60;
    /// Invalid request.
    // rule: nak-codes
    pub const INVALID_REQUEST: u8 = 0x61;
    /// Remote access error.
    pub const ACCESS: u8 = 0x62;
    /// Remote operational error.
    pub const OPERATIONAL: u8 = 0x63;
}

/// A UC packet that is behind by no more is late or came twice. One that is behind by more is of a sender that
/// has begun anew, or of a connection before: nothing but time tells them apart, so that the number of a UC
/// queue pair must not be used again at once.
const LATE: u32 = 1024;

/// Time between two congestion notifications of a queue pair, in nanoseconds, as of adapters: what comes with a
/// mark in between is of the same congestion, of which the peer knows.
const BETWEEN_NOTIFICATIONS: u64 = 50_000;

/// An acknowledgement that waits.
#[derive(Clone, Copy, Debug)]
struct Answer {
    psn: Psn,
    syndrome: u8,
}

/// A packet whose piece is being carried out.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Of several the last one's.
    bth: Bth,
    piece: Piece,
    /// How far the message is with it.
    after: Progress,
}

/// The receiving side of an RC or UC queue pair.
#[derive(Debug)]
pub struct Responder {
    connection: Connection,
    /// The PSN of the next packet.
    expected: Psn,
    /// The PSN of the last packet of a send or write. Only such are acknowledged alone: soft-RoCE takes an
    /// acknowledgement with the PSN of a read for the end of that.
    received: Psn,
    /// Messages that were completed: 24 bits.
    msn: u32,
    progress: Progress,
    memory: Memory,
    pending: Option<Pending>,
    answer: Option<Answer>,
    /// The peer was told that the expected packet is missing, or to send it later: what is behind that is
    /// dropped without a word.
    told: bool,
    failed: bool,
    pace: Pace,
    /// A congestion notification waits.
    notifies: bool,
    /// Not before that time is another one made.
    notified_until: u64,
}

impl Responder {
    /// One that can remember so many reads and atomic operations.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(reads: u8) -> Result<Self, TryReserveError> {
        Ok(Self {
            connection: Connection {
                transport: Transport::Rc,
                mtu: Mtu::LEAST,
                dest_qp: 0,
                p_key: 0,
                psn: Psn::new(0),
            },
            expected: Psn::new(0),
            received: Psn::new(0),
            msn: 0,
            progress: Progress::Idle,
            memory: Memory::new(reads)?,
            pending: None,
            answer: None,
            told: false,
            failed: false,
            pace: Pace::new(),
            notifies: false,
            notified_until: 0,
        })
    }

    /// Begins a connection, and forgets the one before. So many reads and atomic operations of the peer may be
    /// under way.
    pub fn start(&mut self, connection: Connection, max_dest_rd_atomic: u8) {
        self.connection = connection;
        (self.expected, self.received) = (connection.psn, connection.psn.previous());
        (self.msn, self.progress) = (0, Progress::Idle);
        self.memory.start(max_dest_rd_atomic);
        (self.pending, self.answer, self.told, self.failed) = (None, None, false, false);
        (self.notifies, self.notified_until) = (false, 0);
        self.pace = Pace::new();
    }

    /// Sets how many reads and atomic operations of the peer may be under way, at most as many as it can
    /// remember. Those that are remembered stay.
    pub fn set_max_dest_rd_atomic(&mut self, reads: u8) {
        self.memory.keep(reads);
    }

    /// A packet of the peer came with a mark of congestion, at this time in nanoseconds: the peer is told.
    // rule: wire-congestion
    pub fn marked(&mut self, now: u64) {
        if now >= self.notified_until {
            (self.notifies, self.notified_until) = (true, now.saturating_add(BETWEEN_NOTIFICATIONS));
        }
    }

    /// The peer says that the network is congested on the way to it: fewer packets of answers leave at a time.
    // rule: wire-congestion
    pub fn congested(&mut self, now: u64) {
        self.pace.congested(now);
    }

    /// Where answers wait that are not to leave at once, when they may.
    #[must_use]
    pub fn resumes(&mut self, now: u64) -> Option<u64> {
        (!self.pace.allows(now) && self.memory.waits()).then(|| self.pace.resumes())
    }

    /// Whether it has refused a request, so that nothing is taken any more. What it had to answer until then is
    /// still to be sent.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// Takes a packet from the peer.
    #[inline]
    pub fn take(&mut self, packet: &Packet<'_>) -> Step {
        self.pending = None;
        let opcode = packet.bth.opcode;
        if self.failed || opcode.transport() != self.connection.transport || opcode.is_response() {
            return Step::Nothing;
        }
        if self.connection.transport != Transport::Rc {
            return self.take_unreliable(packet);
        }
        match packet.bth.psn.ahead_of(self.expected) {
            0 => match self.next_piece(packet) {
                Some(step) => step,
                None => {
                    self.refuse(self.expected, Syndrome::InvalidRequest);
                    Step::Refused
                }
            },
            1.. => {
                // rule: wire-gap
                if !self.told {
                    self.told = true;
                    self.answer(self.expected, syndrome::OUT_OF_SEQUENCE);
                }
                Step::Nothing
            }
            _ => self.take_duplicate(packet),
        }
    }

    /// The piece of the packet that is next; `None` where it is none that can follow.
    #[inline(always)]
    fn next_piece(&mut self, packet: &Packet<'_>) -> Option<Step> {
        let (piece, after) = self.progress.follow(packet, self.connection.mtu)?;
        let answered = !matches!(piece.operation, Operation::Send | Operation::Write);
        if answered && !self.memory.has_room() {
            return None;
        }
        self.pending = Some(Pending { bth: packet.bth, piece, after });
        Some(Step::Execute(piece))
    }

    /// Joins the packet that comes next to the piece that [`Responder::take`] gave, or this did, where both are
    /// of the same send or write: they are carried out by one look at queues and keys then, and answered as one
    /// packet is. The longer piece; `None` where the packet is to be taken by itself, as that is with the
    /// immediate data of a write.
    // rule: wire-sequence
    pub fn join(&mut self, packet: &Packet<'_>) -> Option<Piece> {
        let Pending { bth, piece, after } = self.pending?;
        let follows = packet.bth.psn == bth.psn.next()
            && packet.bth.opcode.transport() == self.connection.transport
            && !piece.ends;
        // Where it finds no receive request, it alone is to be sent again.
        let is_write_with_imm = piece.operation == Operation::Write && packet.headers.imm.is_some();
        if !follows || is_write_with_imm {
            return None;
        }
        let (next, after) = after.follow(packet, self.connection.mtu)?;
        let Piece { ends, imm, invalidate, solicited, .. } = next;
        let piece = Piece { ends, imm, invalidate, solicited, ..piece };
        let bth = Bth { ack_req: bth.ack_req || packet.bth.ack_req, ..packet.bth };
        self.pending = Some(Pending { bth, piece, after });
        Some(piece)
    }

    #[inline(never)]
    fn take_unreliable(&mut self, packet: &Packet<'_>) -> Step {
        let psn = packet.bth.psn;
        let behind = self.expected.steps_from(psn);
        if behind != 0 && behind <= LATE {
            return Step::Nothing;
        }
        // rule: wire-unreliable-gap
        if behind != 0 || packet.bth.opcode.position().begins() {
            // What is between was lost, and with it the message that was in progress.
            self.progress = Progress::Idle;
        }
        self.expected = psn;
        self.next_piece(packet).unwrap_or_else(|| {
            self.skip(psn);
            Step::Nothing
        })
    }

    /// UC: the message that the packet belongs to is lost.
    fn skip(&mut self, psn: Psn) {
        (self.progress, self.expected) = (Progress::Idle, psn.next());
    }

    /// A packet that was taken before: its answer was lost, or it came twice.
    // rule: wire-duplicates
    fn take_duplicate(&mut self, packet: &Packet<'_>) -> Step {
        let psn = packet.bth.psn;
        match packet.bth.opcode.operation() {
            Operation::Send | Operation::Write => {
                // A negative one says the same and more.
                if self.answer.is_none_or(|answer| answer.syndrome == syndrome::ACKNOWLEDGED) {
                    self.answer(self.received, syndrome::ACKNOWLEDGED);
                }
            }
            Operation::ReadRequest => {
                let Some(reth) = packet.headers.reth else { return Step::Nothing };
                return self.take_read_again(packet, &reth);
            }
            _ => {
                if let Some((number, record, 0)) = self.memory.find(psn)
                    && matches!(record.asked, Asked::Atomic(_))
                    && !self.memory.will_be_sent(&record, 0)
                {
                    self.memory.repeat(number, 0, 0, self.connection.mtu);
                }
            }
        }
        Step::Nothing
    }

    /// A read that was carried out, or the rest of one, from the first packet on that is missing (IBA vol. 1
    /// §9.7.5).
    fn take_read_again(&mut self, packet: &Packet<'_>, reth: &Reth) -> Step {
        let Some((_, record, at)) = self.memory.find(packet.bth.psn) else { return Step::Nothing };
        let Asked::Read(original) = record.asked else { return Step::Nothing };
        let offset = self.connection.mtu.offset(at);
        let is_part = reth.va == original.va.wrapping_add(u64::from(offset))
            && reth.rkey == original.rkey
            && u64::from(offset) + u64::from(reth.length) <= u64::from(original.length);
        if !is_part || self.memory.will_be_sent(&record, at) {
            return Step::Nothing;
        }
        let piece = Piece { again: true, ..Piece::read(*reth) };
        self.pending = Some(Pending { bth: packet.bth, piece, after: self.progress });
        Step::Execute(piece)
    }

    /// What came of the piece that [`Responder::take`] gave last. Without one, nothing.
    pub fn executed(&mut self, executed: Executed) {
        let Some(pending) = self.pending.take() else { return };
        if self.connection.transport != Transport::Rc {
            match executed {
                Executed::Done => {
                    (self.progress, self.expected) = (pending.after, pending.bth.psn.next());
                }
                _ => self.skip(pending.bth.psn),
            }
            return;
        }
        match executed {
            Executed::Done | Executed::Original(_) if pending.piece.again => self.read_again(&pending),
            Executed::Done => self.advance(&pending, 0),
            Executed::Original(original) => self.advance(&pending, original),
            // A read that was carried out before was no more than asked for twice.
            Executed::NotReady(_) | Executed::Refused(_) if pending.piece.again => {}
            // rule: rsp-not-ready
            Executed::NotReady(code) => {
                self.told = true;
                self.answer(self.expected, syndrome::NOT_READY | code & 31);
            }
            Executed::Refused(syndrome) => self.refuse(self.expected, syndrome),
        }
    }

    /// The expected packet was carried out.
    fn advance(&mut self, pending: &Pending, original: u64) {
        let piece = &pending.piece;
        let psn = pending.bth.psn;
        self.told = false;
        self.progress = pending.after;
        if piece.ends {
            self.msn = (self.msn + 1) & 0xff_ffff;
        }
        let (asked, packets) = match (piece.operation, piece.memory) {
            (Operation::Send | Operation::Write, _) => {
                (self.expected, self.received) = (psn.next(), psn);
                // rule: wire-acknowledge
                // One that waits speaks for this packet, too.
                if pending.bth.ack_req || self.answer.is_some() {
                    self.answer(psn, syndrome::ACKNOWLEDGED);
                }
                return;
            }
            (Operation::ReadRequest, Some(reth)) => {
                (Asked::Read(reth), self.connection.mtu.packets(reth.length))
            }
            _ => (Asked::Atomic(original), 1),
        };
        self.expected = psn + packets;
        // Its own answer speaks for all before it.
        self.answer = None;
        self.memory.remember(asked, psn, packets, self.msn);
    }

    fn read_again(&mut self, pending: &Pending) {
        let Some((number, _, at)) = self.memory.find(pending.bth.psn) else { return };
        let Some(reth) = pending.piece.memory else { return };
        let mtu = self.connection.mtu;
        self.memory.repeat(number, at, mtu.offset(at) + reth.length, mtu);
    }

    /// The memory that an answer to a read needs is not there any more: the peer is told so in its place, and
    /// the queue pair goes to ERR.
    pub fn refuse_response(&mut self, response: &Response, syndrome: Syndrome) {
        self.memory.silence();
        self.refuse(response.head.bth.psn, syndrome);
    }

    fn refuse(&mut self, psn: Psn, syndrome: Syndrome) {
        self.failed = true;
        if self.connection.transport == Transport::Rc {
            self.answer(
                psn,
                match syndrome {
                    Syndrome::InvalidRequest => syndrome::INVALID_REQUEST,
                    Syndrome::Access => syndrome::ACCESS,
                    Syndrome::Operational => syndrome::OPERATIONAL,
                },
            );
        }
    }

    fn answer(&mut self, psn: Psn, syndrome: u8) {
        self.answer = Some(Answer { psn, syndrome });
    }

    /// The next packet that is to be sent to the peer, which counts as sent from now on. Called when all
    /// packets that are there have been taken, it sends the fewest acknowledgements. None where the network is
    /// congested, until it [goes on](Responder::resumes).
    pub fn next_response(&mut self, now: u64) -> Option<Response> {
        if std::mem::take(&mut self.notifies) {
            let bth = Bth { p_key: self.connection.p_key, ..Bth::notification(self.connection.dest_qp) };
            let headers = Headers { reserved: true, ..Headers::NONE };
            return Some(Response { head: Head { bth, headers }, payload: None });
        }
        if self.resumes(now).is_some() {
            // What else is to be answered would say that these were lost.
            return None;
        }
        let mtu = self.connection.mtu;
        let Some(packet) = self.memory.next(mtu) else {
            let answer = self.answer.take()?;
            let aeth = Aeth { syndrome: answer.syndrome, msn: self.msn };
            return Some(self.response(
                Opcode::ACKNOWLEDGE,
                answer.psn,
                Headers { aeth: Some(aeth), ..Headers::NONE },
            ));
        };
        self.pace.leaves();
        let record = &packet.record;
        let aeth = Aeth { syndrome: syndrome::ACKNOWLEDGED, msn: record.msn };
        let psn = record.first + packet.number;
        match record.asked {
            Asked::Atomic(original) => Some(self.response(
                Opcode::ATOMIC_ACKNOWLEDGE,
                psn,
                Headers { aeth: Some(aeth), atomic_ack: Some(original), ..Headers::NONE },
            )),
            Asked::Read(reth) => {
                let position = Position::of(packet.begins, packet.ends);
                let headers =
                    Headers { aeth: (position != Position::Middle).then_some(aeth), ..Headers::NONE };
                let mut response = self.response(Opcode::read_response(position), psn, headers);
                response.head.bth.pad = pad_of(packet.length as usize);
                let va = reth.va.wrapping_add(u64::from(packet.offset));
                response.payload = Some(Part { va, rkey: reth.rkey, length: packet.length });
                Some(response)
            }
        }
    }

    /// Whether something waits to be sent.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        self.answer.is_some() || self.notifies || self.memory.waits()
    }

    /// Whether an acknowledgement waits to be sent, a positive one, and nothing else does.
    #[must_use]
    pub fn has_lone_acknowledgement(&self) -> bool {
        let is_positive = self.answer.is_some_and(|answer| answer.syndrome == syndrome::ACKNOWLEDGED);
        is_positive && !self.notifies && !self.memory.waits()
    }

    /// There was no room for a packet after all, which is sent later. Of several the last comes first.
    pub fn unsend(&mut self, response: &Response) {
        let Bth { opcode, psn, .. } = response.head.bth;
        if opcode == Opcode::CONGESTION_NOTIFICATION {
            self.notifies = true;
        } else if opcode != Opcode::ACKNOWLEDGE {
            self.memory.unsend(psn);
        } else if let Some(aeth) = response.head.headers.aeth
            && self.answer.is_none()
        {
            self.answer(psn, aeth.syndrome);
        }
    }

    fn response(&self, opcode: Opcode, psn: Psn, headers: Headers) -> Response {
        let bth = Bth { p_key: self.connection.p_key, ..Bth::new(opcode, self.connection.dest_qp, psn) };
        Response { head: Head { bth, headers }, payload: None }
    }
}

#[cfg(test)]
mod tests;
