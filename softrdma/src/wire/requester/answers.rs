//! What answers change.
//!
//! An answer to a packet speaks for all packets before it, too: a responder carries requests out in order. But
//! reads and atomic operations end by their own answers alone. Where an answer speaks for what is behind one,
//! the answer to that one was lost (IBA vol. 1 §9.7.5), and it is asked for again.

use super::message::{Asked, Taken, Ticket};
use super::{Requester, is_answered};
use crate::rules::requester::RNR_FOR_EVER;
use crate::rules::timers::rnr_timer;
use crate::rules::verbs::Status;
use crate::wire::opcode::{Opcode, Operation, Transport};
use crate::wire::packet::{Packet, is_positive};

/// What an AETH's syndrome says (IBA vol. 1 §9.7.5.2).
enum Answer {
    Acknowledged,
    /// Not before a time with this code.
    NotReady(u8),
    /// It waits for the packet with the answer's PSN.
    OutOfSequence,
    Refused(Status),
    Reserved,
}

impl Answer {
    fn of(syndrome: u8) -> Self {
        match (syndrome >> 5 & 3, syndrome & 31) {
            (0, _) => Self::Acknowledged,
            (1, code) => Self::NotReady(code),
            (3, 0) => Self::OutOfSequence,
            // rule: status-of-nak
            (3, 1) => Self::Refused(Status::RemInvReqErr),
            (3, 2) => Self::Refused(Status::RemAccessErr),
            (3, 3) => Self::Refused(Status::RemOpErr),
            _ => Self::Reserved,
        }
    }
}

impl Requester {
    /// Takes a packet from the peer. One that is no answer to a packet under way changes nothing.
    pub fn take(&mut self, packet: &Packet<'_>, now: u64) -> Taken {
        let opcode = packet.bth.opcode;
        if opcode == Opcode::CONGESTION_NOTIFICATION {
            self.congested();
            return Taken::Nothing;
        }
        let reliable = self.connection.transport == Transport::Rc && opcode.transport() == Transport::Rc;
        if !reliable || self.is_failed() {
            return Taken::Nothing;
        }
        // Nobody has more under way than half of the circle, so what is behind is old.
        let ahead = packet.bth.psn.ahead_of(self.connection.psn + (self.oldest as u32));
        let Ok(ahead) = u64::try_from(ahead) else { return Taken::Nothing };
        let number = self.oldest + ahead;
        // rule: wire-old-answers
        if number >= self.sent {
            return Taken::Nothing;
        }
        self.tail_loss.heard(now);
        if let Some(aeth) = packet.headers.aeth.filter(|aeth| is_positive(aeth.syndrome)) {
            self.credits.told(aeth);
        }
        let syndrome = packet.headers.aeth.map(|aeth| aeth.syndrome);
        match (opcode.operation(), syndrome) {
            (Operation::Acknowledge, Some(syndrome)) => self.acknowledgement(number, syndrome, now),
            (Operation::ReadResponse, syndrome) => return self.read_response(number, syndrome, packet, now),
            (Operation::AtomicAcknowledge, Some(syndrome)) => {
                return self.atomic_response(number, syndrome, packet, now);
            }
            _ => {}
        }
        Taken::Nothing
    }

    fn acknowledgement(&mut self, number: u64, syndrome: u8, now: u64) {
        match Answer::of(syndrome) {
            Answer::Acknowledged => self.acknowledge(number + 1, now),
            Answer::NotReady(code) => {
                self.acknowledge(number, now);
                // It speaks of this packet, which is under way: one that waits to be sent again was spoken of
                // before.
                if self.oldest == number && self.cursor != number {
                    self.not_ready(code, syndrome, now);
                }
            }
            // rule: wire-gap
            Answer::OutOfSequence => {
                self.acknowledge(number, now);
                self.lost_from(number, now);
            }
            Answer::Refused(status) => {
                self.acknowledge(number, now);
                if self.oldest == number {
                    self.fail_oldest(status, u32::from(syndrome));
                }
            }
            Answer::Reserved => {}
        }
    }

    /// The receiver was not ready for the oldest packet.
    fn not_ready(&mut self, code: u8, syndrome: u8, now: u64) {
        // An answer: the peer lives, so missing answers count from the start.
        (self.retries, self.forgiven, self.probes) = (0, 0, false);
        // rule: rnr-retries, rnr-for-ever
        if self.retry.rnr_retry < RNR_FOR_EVER && self.rnr_retries >= self.retry.rnr_retry {
            return self.fail_oldest(Status::RnrRetryExcErr, u32::from(syndrome));
        }
        self.rnr_retries = self.rnr_retries.saturating_add(1);
        self.go_back(now);
        // What comes of sending it again is told anew.
        self.returned_to = None;
        // rule: rnr-wait
        self.waits_until = Some(now.saturating_add(rnr_timer(code)));
    }

    /// All packets before `end` were carried out, as far as answers that are more than that came.
    fn acknowledge(&mut self, end: u64, now: u64) {
        match self.unanswered() {
            // rule: wire-lost-answer
            Some(missing) if missing < end => {
                self.progress(missing, now);
                self.lost_from(missing, now);
            }
            _ => self.progress(end, now),
        }
    }

    /// The packet is lost, and so are those behind it. Only what is new: it was not gone back to it before.
    fn lost_from(&mut self, number: u64, now: u64) {
        if self.oldest == number && self.cursor > number && self.returned_to != Some(number) {
            self.window.lost(number, self.sent);
            self.go_back(now);
        }
    }

    /// All packets before `end` are done with.
    fn progress(&mut self, end: u64, now: u64) {
        if end <= self.oldest {
            return;
        }
        let under_way = self.sent - self.oldest;
        self.window.acknowledged((end - self.oldest) as u32, u32::try_from(under_way).unwrap_or(u32::MAX));
        if self.tail_loss.acknowledged(end, now) {
            self.window.set_round_trip(self.tail_loss.shortest());
        }
        self.oldest = end;
        self.cursor = self.cursor.max(end);
        self.finish();
        self.follow_cursor();
        self.since = now;
        (self.retries, self.forgiven, self.rnr_retries) = (0, 0, 0);
        (self.probes, self.waits_until) = (false, None);
    }

    /// The first packet that is missing of the oldest answer to a read or atomic operation.
    fn unanswered(&self) -> Option<u64> {
        self.oldest_asked().map(|asked| asked.first.max(self.oldest))
    }

    fn oldest_asked(&self) -> Option<Asked> {
        let mask = self.asked.len() as u64 - 1;
        (self.asked_head < self.asked_tail).then(|| self.asked[(self.asked_head & mask) as usize])
    }

    /// The request that the packet answers in order: none where one before it is missing.
    fn answered(&mut self, number: u64, now: u64) -> Option<Asked> {
        self.acknowledge(number, now);
        if self.oldest != number {
            return None;
        }
        let asked = self.oldest_asked().filter(|asked| asked.first <= number && number < asked.end);
        if asked.is_none() {
            self.bad_response();
        }
        asked
    }

    fn read_response(&mut self, number: u64, syndrome: Option<u8>, packet: &Packet<'_>, now: u64) -> Taken {
        let Some(asked) = self.answered(number, now) else { return Taken::Nothing };
        let pending = *self.place(asked.ticket);
        let mtu = self.connection.mtu;
        let offset = mtu.offset((number - pending.first) as u32);
        let ends = number + 1 == asked.end;
        let length = (pending.message.length - offset).min(mtu.bytes());
        // It may begin anywhere, as what was asked for again comes beside what was asked for first.
        let fits = pending.operation == Operation::ReadRequest
            && syndrome.is_none_or(|syndrome| matches!(Answer::of(syndrome), Answer::Acknowledged))
            && packet.bth.opcode.position().ends() == ends
            && packet.payload.len() == length as usize;
        if !fits {
            self.bad_response();
            return Taken::Nothing;
        }
        self.progress(number + 1, now);
        Taken::Read { ticket: Ticket(asked.ticket), offset }
    }

    fn atomic_response(&mut self, number: u64, syndrome: u8, packet: &Packet<'_>, now: u64) -> Taken {
        let Some(asked) = self.answered(number, now) else { return Taken::Nothing };
        let operation = self.place(asked.ticket).operation;
        let atomic = is_answered(operation) && operation != Operation::ReadRequest;
        match packet.headers.atomic_ack {
            Some(original) if atomic && matches!(Answer::of(syndrome), Answer::Acknowledged) => {
                self.progress(number + 1, now);
                Taken::Atomic { ticket: Ticket(asked.ticket), original }
            }
            _ => {
                self.bad_response();
                Taken::Nothing
            }
        }
    }

    /// The answer is none to what was asked (IBA vol. 1 §9.9.2).
    fn bad_response(&mut self) {
        self.fail_oldest(Status::BadRespErr, 0);
    }
}
