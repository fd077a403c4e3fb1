//! Packets that are lost with nothing behind them, which no gap shows: the peer is asked once, early, whether
//! it has them (tail loss probe, RFC 8985 §7).
//!
//! The question is the oldest packet that is not acknowledged, and behind it the last that was sent, once more,
//! with a request for an acknowledgement. Whoever has one acknowledges it again, whoever has not takes it, and
//! where one before the last is missing the peer says so. The last alone would not do: of a gap the peer speaks
//! once, and what it said, or what was sent again for it, may be lost.
//! That it is asked says nothing of the network: the window stays, and no time-out is counted. Where no answer
//! comes to it either, the time-out of the acknowledgement comes as it would have.

use super::message::Transmit;
use super::{Requester, is_answered};
use crate::wire::opcode::Transport;

/// The peer is not asked sooner, in nanoseconds: so long it may wait for a processor.
const LEAST: u64 = 16_000_000;
/// The same where packets were lost lately, and it is as likely that more are.
const LEAST_OF_LOSSY: u64 = 1_000_000;
/// Nor before so many round trips.
const ROUND_TRIPS: u64 = 4;

/// What a requester knows of round trips, and of silence.
#[derive(Debug, Default)]
pub(super) struct TailLoss {
    /// The smoothed round trip in nanoseconds, as TCP has it (RFC 6298 §2): 0 before one was measured.
    round_trip: u64,
    /// The shortest.
    shortest: u64,
    /// The packet behind the one of which it is measured, and when that was sent.
    timed: Option<(u64, u64)>,
    /// When a packet was sent or an answer came last.
    quiet_since: u64,
    /// The peer was asked, or is to be, since it was heard.
    asked: bool,
    /// Packets of the question that are to be sent: two, or the last alone.
    due: u8,
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
        (self.quiet_since, self.asked, self.due) = (now, false, 0);
    }

    /// How long a round trip takes, in nanoseconds; 0 where that is not known yet.
    pub(super) fn round_trip(&self) -> u64 {
        self.round_trip
    }

    /// The shortest that was measured, likewise.
    pub(super) fn shortest(&self) -> u64 {
        self.shortest
    }

    /// All packets before `end` are acknowledged; whether a round trip was measured.
    pub(super) fn acknowledged(&mut self, end: u64, now: u64) -> bool {
        let Some((_, at)) = self.timed.filter(|(timed, _)| *timed <= end) else { return false };
        self.timed = None;
        let round_trip = now.saturating_sub(at).max(1);
        let is_first = self.round_trip == 0;
        let known = if is_first { round_trip } else { self.round_trip };
        self.round_trip = known - known / 8 + round_trip / 8;
        self.shortest = if is_first { round_trip } else { self.shortest.min(round_trip) };
        true
    }

    /// Packets are sent again: of whose acknowledgement it is not known which of them it is for.
    pub(super) fn goes_back(&mut self) {
        (self.timed, self.due) = (None, 0);
    }
}

impl Requester {
    /// When the peer is asked, unless it is heard before.
    pub(super) fn asks_at(&self) -> Option<u64> {
        let tail = &self.tail_loss;
        let is_known = tail.round_trip > 0 && self.connection.transport == Transport::Rc;
        // Where another packet may be sent, that one asks.
        let is_quiet = self.oldest < self.cursor && self.is_all_sent();
        let may_ask = is_known && is_quiet && !self.probes && !tail.asked;
        let least = if self.window.was_cut() { LEAST_OF_LOSSY } else { LEAST };
        let patience = tail.round_trip.saturating_mul(ROUND_TRIPS).max(least);
        may_ask.then(|| tail.quiet_since.saturating_add(patience))
    }

    /// The time to ask has come.
    pub(super) fn ask(&mut self) {
        (self.tail_loss.asked, self.tail_loss.due) = (true, 2);
    }

    /// Whether packets of the question are to be sent.
    #[inline]
    pub(super) fn is_asking(&self) -> bool {
        self.tail_loss.due > 0
    }

    /// The next packet of the question, if it is time for it.
    #[inline]
    pub(super) fn question(&mut self, now: u64) -> Option<Transmit> {
        if self.is_asking() { self.packet_again(now) } else { None }
    }

    #[cold]
    fn packet_again(&mut self, now: u64) -> Option<Transmit> {
        let is_oldest = std::mem::take(&mut self.tail_loss.due) > 1;
        if self.oldest == self.cursor || !self.is_all_sent() || self.is_failed() {
            return None;
        }
        let last = self.last_again();
        let oldest = self.oldest_again().filter(|_| is_oldest);
        let (ticket, number, end) = oldest.or(last)?;
        // Both may be one.
        self.tail_loss.due = u8::from(oldest.is_some() && oldest != last && last.is_some());
        let pending = *self.place(ticket);
        let mut transmit = self.packet(&pending, ticket, number, end)?;
        transmit.head.bth.ack_req = true;
        self.unasked = 0;
        self.tail_loss.sent(self.sent, false, now);
        Some(transmit)
    }

    /// Whether nothing that was sent before, or nothing at all, may be sent before an answer.
    fn is_all_sent(&self) -> bool {
        self.cursor == self.sent || self.cursor - self.oldest >= u64::from(self.window.size())
    }

    /// Message and bounds of the last packet that was sent; `None` where its memory is not there.
    fn last_again(&self) -> Option<(u64, u64, u64)> {
        let is_in = |ticket| ticket < self.tail && self.place(ticket).first < self.cursor;
        let ticket = if is_in(self.at) { self.at } else { self.at.checked_sub(1)? };
        if self.failed.is_some_and(|failed| ticket >= failed.ticket.0) {
            return None;
        }
        let mut number = self.cursor - 1;
        if is_answered(self.place(ticket).operation) {
            // What is missing of the last answer, which the peer knows by its bounds.
            let mask = self.asked.len() as u64 - 1;
            let last = self.asked[(self.asked_at.checked_sub(1)? & mask) as usize];
            number = last.first.max(self.oldest);
        }
        Some((ticket, number, self.cursor))
    }

    /// The same of the oldest that is not acknowledged.
    fn oldest_again(&self) -> Option<(u64, u64, u64)> {
        let (ticket, number) = (self.unfinished, self.oldest);
        let end = if is_answered(self.place(ticket).operation) {
            let mask = self.asked.len() as u64 - 1;
            self.asked[(self.asked_head & mask) as usize].end
        } else {
            number + 1
        };
        (number < end && end <= self.cursor).then_some((ticket, number, end))
    }
}
