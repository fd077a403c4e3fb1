//! A packet that is lost with nothing behind it, which no gap shows: the peer is asked once, early, whether it
//! has it (tail loss probe, RFC 8985 §7).
//!
//! The question is the last packet that was sent, once more, with a request for an acknowledgement. Whoever has
//! it acknowledges it again, whoever has not takes it, and where one before it is missing the peer says so.
//! That it is asked says nothing of the network: the window stays, and no time-out is counted. Where no answer
//! comes to it either, the time-out of the acknowledgement comes as it would have.

use super::message::Transmit;
use super::{Requester, is_answered};
use crate::wire::opcode::Transport;

/// The peer is not asked sooner, in nanoseconds: so long it may wait for a processor.
const LEAST: u64 = 16_000_000;
/// Nor before so many round trips.
const ROUND_TRIPS: u64 = 4;

/// What a requester knows of round trips, and of silence.
#[derive(Debug, Default)]
pub(super) struct TailLoss {
    /// The smoothed round trip in nanoseconds, as TCP has it (RFC 6298 §2): 0 before one was measured.
    round_trip: u64,
    /// The packet behind the one of which it is measured, and when that was sent.
    timed: Option<(u64, u64)>,
    /// When a packet was sent or an answer came last.
    quiet_since: u64,
    /// The peer was asked, or is to be, since it was heard.
    asked: bool,
    /// It is to be.
    is_due: bool,
}

impl TailLoss {
    /// A packet was sent, behind which `end` is. Packets that are sent for the first time and ask for an
    /// acknowledgement are timed, one at a time.
    pub(super) fn sent(&mut self, end: u64, is_timed: bool, now: u64) {
        self.quiet_since = now;
        if is_timed && self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// An answer came to a packet that is under way.
    pub(super) fn heard(&mut self, now: u64) {
        (self.quiet_since, self.asked, self.is_due) = (now, false, false);
    }

    /// All packets before `end` are acknowledged.
    pub(super) fn acknowledged(&mut self, end: u64, now: u64) {
        if let Some((_, at)) = self.timed.filter(|(timed, _)| *timed <= end) {
            self.timed = None;
            let round_trip = now.saturating_sub(at).max(1);
            let known = if self.round_trip == 0 { round_trip } else { self.round_trip };
            self.round_trip = known - known / 8 + round_trip / 8;
        }
    }

    /// Packets are sent again: of whose acknowledgement it is not known which of them it is for.
    pub(super) fn goes_back(&mut self) {
        (self.timed, self.is_due) = (None, false);
    }
}

impl Requester {
    /// When the peer is asked, unless it is heard before.
    pub(super) fn asks_at(&self) -> Option<u64> {
        let tail = &self.tail_loss;
        let is_known = tail.round_trip > 0 && self.connection.transport == Transport::Rc;
        // Where a packet waits to be sent, that one asks.
        let is_quiet = self.oldest < self.sent && self.cursor == self.sent;
        let may_ask = is_known && is_quiet && !self.probes && !tail.asked;
        let patience = tail.round_trip.saturating_mul(ROUND_TRIPS).max(LEAST);
        may_ask.then(|| tail.quiet_since.saturating_add(patience))
    }

    /// The time to ask has come.
    pub(super) fn ask(&mut self) {
        (self.tail_loss.asked, self.tail_loss.is_due) = (true, true);
    }

    /// The question, if it is time for it.
    #[inline]
    pub(super) fn question(&mut self, now: u64) -> Option<Transmit> {
        if self.tail_loss.is_due { self.last_packet_again(now) } else { None }
    }

    #[cold]
    fn last_packet_again(&mut self, now: u64) -> Option<Transmit> {
        self.tail_loss.is_due = false;
        if self.oldest == self.sent || self.cursor != self.sent || self.is_failed() {
            return None;
        }
        let is_in = |ticket| ticket < self.tail && self.place(ticket).first < self.sent;
        let ticket = if is_in(self.at) { self.at } else { self.at.checked_sub(1)? };
        if self.failed.is_some_and(|failed| ticket >= failed.ticket.0) {
            // Its memory is not there.
            return None;
        }
        let pending = *self.place(ticket);
        let mut number = self.sent - 1;
        if is_answered(pending.operation) {
            // What is missing of the last answer, which the peer knows by its bounds.
            let mask = self.asked.len() as u64 - 1;
            let last = self.asked[(self.asked_tail.checked_sub(1)? & mask) as usize];
            number = last.first.max(self.oldest);
        }
        let mut transmit = self.packet(&pending, ticket, number, self.sent)?;
        transmit.head.bth.ack_req = true;
        self.unasked = 0;
        self.tail_loss.sent(self.sent, false, now);
        Some(transmit)
    }
}
