//! Requests that are looked at. Each is carried out by itself, by the way that all can take: as packets in a
//! [capture](crate::capture), or with [faults](crate::faults).
//!
//! A queue pair is made so or not. Then nothing of it goes by a short way, since none is open to it: queue
//! pairs that are not looked at have no instruction of this.

mod behind;

use std::ops::Range;

use crate::capture::{self, Batch, Capture};
use crate::carrier::Carrier;
use crate::carrier::initiator::Initiator;
use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::wr::{Data, Operands, Wr};
use crate::faults::{self, Fate};
use crate::rules::request::{Outline, Sender, start};
use crate::rules::requester::Outcome;
use crate::rules::verbs::{Opcode, QpType, SendFlags, Status};
use crate::wire::connection::Mtu;
use crate::wire::datagram::{Datagram, IPV4_AT};
use crate::wire::exchange::{Answer, Exchange, Kind, MAX_SHOWN_HEAD, Service, ShownHead};
use crate::wire::flow::Flow;
use crate::wire::packet::{AtomicEth, Reth};
use crate::wire::psn::Psn;
use crate::wire::requester::message::operation;

use super::qp_attributes::Attributes;
use behind::Behind;

/// What a send queue keeps for it.
#[derive(Debug)]
pub(super) struct Alone {
    /// The number of the next packet.
    next: Psn,
    /// Messages that were answered.
    answered: u32,
    /// The request at the head was tried.
    is_tried: bool,
    /// The last try was lost: none is made before its time.
    is_lost: bool,
    /// A datagram that comes behind the next.
    behind: Option<Box<Behind>>,
}

impl Default for Alone {
    fn default() -> Self {
        Self { next: Psn::new(0), answered: 0, is_tried: false, is_lost: false, behind: None }
    }
}

impl Alone {
    /// Whether queue pairs that are made now are looked at.
    pub(super) fn is_wanted() -> bool {
        capture::active().is_some() || faults::active().is_some()
    }

    /// The queue pair begins to send, with this number.
    pub(super) fn begin(&mut self, psn: u32) {
        *self = Self { next: Psn::new(psn), ..Self::default() };
    }

    /// Carries out a request. `is_early`: it is tried before its time, so nobody would have sent it.
    #[cold]
    #[inline(never)]
    pub(super) fn carry_out(
        &mut self,
        carrier: &mut Carrier,
        attributes: &Attributes,
        out: &Outgoing<'_, '_>,
        is_early: bool,
    ) -> Outcome {
        let is_first = !std::mem::replace(&mut self.is_tried, true);
        if is_early && self.is_lost {
            return Outcome::NoAnswer;
        }
        let fate = faults::active().map_or(Fate::Carried, |faults| {
            faults.request(out.wr.opcode, out.request.length, out.wr.datagram.is_some(), is_first)
        });
        self.is_lost = fate == Fate::Lost;
        if fate == Fate::Behind && self.behind.is_none() && is_sent(out) {
            self.is_tried = false;
            self.behind = Behind::new(out);
            // What could not be kept is lost on the way.
            return Outcome::NoAnswer;
        }
        let outcome = match fate {
            Fate::Fails(status) => Outcome::Local(status),
            Fate::Carried | Fate::Behind | Fate::Lost => {
                self.show(carrier, attributes, out, is_early, fate == Fate::Lost)
            }
            Fate::Twice => {
                self.show(carrier, attributes, out, is_early, false);
                self.show(carrier, attributes, out, is_early, false)
            }
        };
        if let Some(behind) = self.behind.take_if(|_| fate != Fate::Lost) {
            self.send_behind(carrier, attributes, out.endpoint, out.from, &behind);
        }
        // Who is not answered tries again, if it is of those that are answered.
        let waits = matches!(outcome, Outcome::NoAnswer | Outcome::Held | Outcome::ReceiverNotReady(_));
        self.is_tried = waits && out.from.qp_type.is_reliable();
        outcome
    }

    /// Whether a datagram waits for the next.
    pub(super) fn holds_back(&self) -> bool {
        self.behind.is_some()
    }

    /// Sends one that has waited for the next long enough.
    pub(super) fn release(
        &mut self,
        carrier: &mut Carrier,
        attributes: &Attributes,
        endpoint: &Endpoint,
        from: &Initiator,
    ) {
        if let Some(behind) = self.behind.take_if(|behind| behind.is_due()) {
            self.send_behind(carrier, attributes, endpoint, from, &behind);
        }
    }

    fn send_behind(
        &mut self,
        carrier: &mut Carrier,
        attributes: &Attributes,
        endpoint: &Endpoint,
        from: &Initiator,
        behind: &Behind,
    ) {
        behind.send(endpoint, from, |out| {
            // Its end was told.
            let _ = self.show(carrier, attributes, out, false, false);
        });
    }

    /// The head of the queue, which leaves another way, fails with this status: asked once for each.
    pub(super) fn fails(&mut self, opcode: Opcode) -> Option<Status> {
        let faults = faults::active()?;
        let is_first = !std::mem::replace(&mut self.is_tried, true);
        if is_first { faults.failure(opcode) } else { None }
    }

    /// It has ended.
    pub(super) fn ended(&mut self) {
        self.is_tried = false;
    }

    /// Carries it out, unless it is lost, and writes its packets where there is a capture.
    fn show(
        &mut self,
        carrier: &mut Carrier,
        attributes: &Attributes,
        out: &Outgoing<'_, '_>,
        is_early: bool,
        is_lost: bool,
    ) -> Outcome {
        let mut execute = || if is_lost { Outcome::NoAnswer } else { carrier.execute(out) };
        let shown = capture::active()
            .filter(|_| is_sent(out))
            .and_then(|capture| Some((capture, Message::of(out, attributes, self.next)?)));
        let Some((capture, message)) = shown else { return execute() };
        if !is_early {
            // First: what its receiver does with it comes behind.
            message.requests(&mut capture.batch(), out);
        }
        let outcome = execute();
        let answer = match outcome {
            Outcome::Done(_) => {
                self.answered = self.answered.wrapping_add(1);
                Some(Answer::Done { msn: self.answered, original: message.original(out) })
            }
            Outcome::ReceiverNotReady(code) => Some(Answer::NotReady { msn: self.answered, code }),
            Outcome::Refused(why) => Some(Answer::Refused { msn: self.answered, why }),
            Outcome::NoAnswer | Outcome::Held | Outcome::Local(_) => None,
        };
        let is_over = matches!(answer, Some(Answer::Done { .. })) || !out.from.qp_type.is_reliable();
        self.answer(capture, &message, out, answer, is_early && (answer.is_some() && is_over));
        if is_over {
            self.next = self.next.plus(message.numbers());
        }
        outcome
    }

    fn answer(
        &self,
        capture: &Capture,
        message: &Message,
        out: &Outgoing<'_, '_>,
        answer: Option<Answer>,
        asks_too: bool,
    ) {
        let mut batch = capture.batch();
        if asks_too {
            message.requests(&mut batch, out);
        }
        if let Some(answer) = answer {
            message.answers(&mut batch, out, answer);
        }
    }
}

/// Whether the request would leave: the checks that its sender makes are passed.
fn is_sent(out: &Outgoing<'_, '_>) -> bool {
    let Outgoing { endpoint, from, wr, request, .. } = *out;
    let sges = match wr.data {
        Data::Sges(sges) => sges,
        Data::Inline(_) | Data::InlineSges(_) => &[],
    };
    let Initiator { qp_type, pd, max_rd_atomic, mtu, .. } = *from;
    let outline = Outline { opcode: wr.opcode, operands: wr.operands, sges, length: request.length };
    let sender = Sender { qp_type, pd, max_rd_atomic, mtu };
    start(&outline, &sender, |key| endpoint.keys.local(key).map(|entry| entry.key)).is_ok()
}

/// A message as packets.
enum Message {
    Connected { exchange: Exchange, there: Flow, back: Flow },
    Datagram { datagram: Datagram, there: Flow },
}

impl Message {
    /// `None` of what leaves no process.
    fn of(out: &Outgoing<'_, '_>, attributes: &Attributes, psn: Psn) -> Option<Self> {
        let (wr, from) = (out.wr, out.from);
        let length = u32::try_from(out.request.length).ok()?;
        if let Some(to) = &wr.datagram {
            let (source, destination) = addresses(to.grh);
            let datagram = Datagram {
                psn,
                dest_qp: to.qp_num,
                source_qp: from.qp_num,
                qkey: from.key_to(to.qkey),
                imm: (wr.opcode == Opcode::SendWithImm).then_some(wr.imm_or_key),
                solicited: wr.flags.has(SendFlags::SOLICITED),
                length: length as usize,
            };
            return Some(Self::Datagram { datagram, there: capture::flow(source, destination, from.qp_num) });
        }
        let service = match from.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::XrcSend => Service::Xrc { srq: wr.srq_num },
            QpType::Ud | QpType::XrcRecv => return None,
        };
        let kind = match wr.opcode {
            Opcode::Flush => Kind::Flush,
            Opcode::AtomicWrite => Kind::AtomicWrite,
            opcode => operation(opcode).map(|(operation, extra)| Kind::Common(operation, extra))?,
        };
        let (reth, atomic) = match wr.operands {
            Operands::Remote { addr, rkey, length } if kind == Kind::Flush => {
                // What is longer is refused.
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                (Reth { va: addr, rkey, length }, AtomicEth::default())
            }
            Operands::Remote { addr, rkey, .. } => (Reth { va: addr, rkey, length }, AtomicEth::default()),
            Operands::Atomic { addr, rkey, compare_add, swap } => {
                let (swap_or_add, compare) = match wr.opcode {
                    Opcode::CmpAndSwp => (swap, compare_add),
                    _ => (compare_add, 0),
                };
                (Reth::default(), AtomicEth { va: addr, rkey, swap_or_add, compare })
            }
            _ => (Reth::default(), AtomicEth::default()),
        };
        let shift = attributes.path_mtu.checked_add(7);
        let mtu = shift.and_then(|shift| 1u32.checked_shl(shift)).and_then(Mtu::from_bytes);
        let exchange = Exchange {
            service,
            mtu: mtu.unwrap_or(Mtu::MOST),
            from: from.qp_num,
            to: from.dest_qp_num,
            psn,
            kind,
            imm_or_key: wr.imm_or_key,
            solicited: wr.flags.has(SendFlags::SOLICITED),
            length,
            reth,
            atomic,
        };
        let path = &attributes.path;
        let there = capture::flow(path.sgid, path.dgid, from.qp_num);
        let back = capture::flow(path.dgid, path.sgid, from.dest_qp_num);
        Some(Self::Connected { exchange, there, back })
    }

    /// How many numbers of packets it takes.
    fn numbers(&self) -> u32 {
        match self {
            Self::Connected { exchange, .. } => exchange.numbers(),
            Self::Datagram { .. } => 1,
        }
    }

    /// The packets that ask.
    fn requests(&self, batch: &mut Batch<'_>, out: &Outgoing<'_, '_>) {
        match self {
            Self::Connected { exchange, there, .. } => exchange.requests(|head, range| {
                shown(batch, there, head, out, range);
            }),
            Self::Datagram { datagram, there } => {
                batch.make_common(there, &datagram.head(), datagram.length, |room| {
                    fill(out.endpoint, out.wr, 0, room)
                });
            }
        }
    }

    /// Those that answer.
    fn answers(&self, batch: &mut Batch<'_>, out: &Outgoing<'_, '_>, answer: Answer) {
        if let Self::Connected { exchange, back, .. } = self {
            exchange.answers(answer, |head, range| shown(batch, back, head, out, range));
        }
    }

    /// What an atomic operation found, which is in the program's memory by now.
    fn original(&self, out: &Outgoing<'_, '_>) -> u64 {
        let mut word = [0; 8];
        if matches!(out.wr.operands, Operands::Atomic { .. }) {
            fill(out.endpoint, out.wr, 0, &mut word);
        }
        u64::from_ne_bytes(word)
    }
}

/// Adds a packet with these bytes of the message.
fn shown(batch: &mut Batch<'_>, flow: &Flow, head: &ShownHead, out: &Outgoing<'_, '_>, range: Range<usize>) {
    let mut headers = [0; MAX_SHOWN_HEAD];
    let bytes = head.write(&mut headers);
    batch.make(flow, &headers[..bytes], range.len(), |room| fill(out.endpoint, out.wr, range.start, room));
}

/// Bytes of a message, as they stand in the program's memory; zeros where that is not there.
fn fill(endpoint: &Endpoint, wr: &Wr<'_>, offset: usize, room: &mut [u8]) {
    // What could not be read stays as it is.
    let _ = bytes::take_part(endpoint, wr, offset, room);
}

/// Source and destination of a datagram, by the header that stands before its payload at the receiver.
fn addresses(grh: &[u8; 40]) -> ([u8; 16], [u8; 16]) {
    let part = |at: usize| {
        let mut address = [0; 16];
        address.copy_from_slice(&grh[at..at + 16]);
        address
    };
    let mapped = |at: usize| {
        let mut address = [0; 16];
        address[10..12].fill(0xff);
        address[12..].copy_from_slice(&grh[at..at + 4]);
        address
    };
    match grh[0] >> 4 {
        6 => (part(8), part(24)),
        _ if grh[IPV4_AT] >> 4 == 4 => (mapped(IPV4_AT + 12), mapped(IPV4_AT + 16)),
        _ => ([0; 16], [0; 16]),
    }
}
