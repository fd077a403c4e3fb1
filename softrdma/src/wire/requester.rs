//! The sending side of a connection: messages become packets, and answers end messages (IBA vol. 1 §9.7, RC;
//! §9.8, UC).
//!
//! | file | what |
//! |---|---|
//! | this | the queue of messages, and the next packet to be sent |
//! | [`message`] | what is posted, sent, taken and ended |
//! | `answers` | what an answer changes |
//! | `timer` | what happens when none comes |
//! | `credits` | receive requests that the peer says it has |
//! | `tail_loss` | the question whether the last packets were lost |
//! | `train` | how many packets leave by one call, or again |
//!
//! Packets are counted from the queue pair's first on, without wrapping around; their PSN is the first one plus
//! that, in 24 bits. Answers are held against that count first: what is not an answer to a packet that is under
//! way changes nothing.
//!
//! A packet that was lost is sent again with all behind it (go back N). A requester goes back to a packet once;
//! then it goes on or waits for the time-out. So an answer that comes twice, or late, does not send everything
//! once more.
//!
//! A long read is asked for in parts, no larger than the window is where a round trip is short, so that an
//! answer does not overrun the receive buffer. Each part is a request of its own, and they take the PSNs that
//! one request for all of it would.

mod answers;
mod credits;
pub mod message;
mod tail_loss;
mod timer;
mod train;

use std::collections::TryReserveError;

use ironverbs_os::growth::try_filled;

use super::connection::{Connection, Mtu};
use super::opcode::{Extra, Opcode, Operation, Position, Transport};
use super::packet::{AtomicEth, Bth, Head, Headers, Reth, pad_of};
use super::psn::Psn;
use super::window::{MOST, Window};
use crate::rules::requester::Retry;
use crate::rules::verbs::Status;
use credits::{Credits, takes_request};
use message::{Asked, Done, MAX_MESSAGE, Message, Pending, Refused, Ticket, Transmit};
use tail_loss::TailLoss;
use train::Again;

/// The sending side of an RC or UC queue pair.
#[derive(Debug)]
pub struct Requester {
    connection: Connection,
    retry: Retry,
    max_rd_atomic: u8,
    /// Places of messages: a power of two, of which so many may be taken.
    pending: Box<[Pending]>,
    places: u32,
    /// Places of reads and atomic operations under way: a power of two.
    asked: Box<[Asked]>,
    window: Window,

    // Messages, by number: done with, not all acknowledged, in which the next packet is, not yet posted.
    head: u64,
    unfinished: u64,
    at: u64,
    tail: u64,

    // Reads and atomic operations under way, by number: not all answered, the next to be sent, not yet sent.
    asked_head: u64,
    asked_at: u64,
    asked_tail: u64,

    // Packets, by number.
    /// The oldest that is not acknowledged.
    oldest: u64,
    /// The next to be sent.
    cursor: u64,
    /// The one behind the last that was ever sent.
    sent: u64,
    /// The first of the next message.
    next: u64,
    /// The one to which it went back last.
    returned_to: Option<u64>,
    /// Packets that were sent since one asked for an acknowledgement.
    unasked: u32,

    credits: Credits,
    tail_loss: TailLoss,
    again: Again,
    /// When the wait for an answer began.
    since: u64,
    /// The receiver was not ready; not before that time.
    waits_until: Option<u64>,
    /// No answer came: one packet is sent, and no other before its answer.
    probes: bool,
    retries: u8,
    /// Since something was acknowledged, time-outs counted so often from the start.
    forgiven: u8,
    rnr_retries: u8,
    /// Whether no message is begun (SQD).
    drains: bool,
    failed: Option<Done>,
}

impl Requester {
    /// One with places for so many messages, of which so many reads and atomic operations may be under way.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(messages: u32, reads: u8) -> Result<Self, TryReserveError> {
        let places = |count: u32| count.max(1).next_power_of_two() as usize;
        Ok(Self {
            connection: Connection {
                transport: Transport::Rc,
                mtu: Mtu::LEAST,
                dest_qp: 0,
                p_key: 0,
                psn: Psn::new(0),
            },
            retry: Retry::default(),
            max_rd_atomic: 0,
            pending: try_filled(places(messages), || Pending::NONE)?,
            places: messages,
            asked: try_filled(places(u32::from(reads)), Asked::default)?,
            window: Window::new(),
            head: 0,
            unfinished: 0,
            at: 0,
            tail: 0,
            asked_head: 0,
            asked_at: 0,
            asked_tail: 0,
            oldest: 0,
            cursor: 0,
            sent: 0,
            next: 0,
            returned_to: None,
            unasked: 0,
            credits: Credits::default(),
            tail_loss: TailLoss::default(),
            again: Again::default(),
            since: 0,
            waits_until: None,
            probes: false,
            retries: 0,
            forgiven: 0,
            rnr_retries: 0,
            drains: false,
            failed: None,
        })
    }

    /// Begins a connection, and forgets all messages of the one before.
    pub fn start(&mut self, connection: Connection, retry: Retry, max_rd_atomic: u8) {
        self.connection = connection;
        self.retry = retry;
        self.set_max_rd_atomic(max_rd_atomic);
        self.window = Window::new();
        (self.head, self.unfinished, self.at, self.tail) = (0, 0, 0, 0);
        (self.asked_head, self.asked_at, self.asked_tail) = (0, 0, 0);
        (self.oldest, self.cursor, self.sent, self.next) = (0, 0, 0, 0);
        (self.returned_to, self.unasked) = (None, 0);
        (self.credits, self.tail_loss) = (Credits::default(), TailLoss::default());
        self.again = Again::default();
        (self.since, self.waits_until, self.probes) = (0, None, false);
        (self.retries, self.forgiven, self.rnr_retries) = (0, 0, 0);
        (self.drains, self.failed) = (false, None);
    }

    /// Sets the retry attributes. A wait for a receiver that has begun ends as it was.
    pub fn set_retry(&mut self, retry: Retry) {
        self.retry = retry;
    }

    /// Sets how many reads and atomic operations may be under way, at most as many as there are places.
    pub fn set_max_rd_atomic(&mut self, reads: u8) {
        self.max_rd_atomic = reads.min(u8::try_from(self.asked.len()).unwrap_or(u8::MAX));
    }

    /// Sets how many packets may be under way: what the peer has room for.
    pub fn set_window_limit(&mut self, packets: u32) {
        self.window.set_limit(packets);
    }

    /// How many packets may be under way now.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.window.size()
    }

    /// The network is congested on the way of its requests, as the peer [says](Requester::take), or on that of
    /// the answers to its reads, as their packets say. The window is halved, once for all that is under way.
    // rule: wire-congestion
    pub fn congested(&mut self) {
        self.window.congested(self.oldest, self.sent);
    }

    /// Whether no message is begun; those that were begun go on (SQD).
    // rule: qp-drains
    pub fn set_draining(&mut self, drains: bool) {
        self.drains = drains;
    }

    /// Whether no message that was begun is left.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.unfinished == self.tail || self.place(self.unfinished).first >= self.sent
    }

    /// Messages that were posted and have not ended.
    #[must_use]
    #[inline]
    pub fn waiting(&self) -> u32 {
        (self.tail - self.head) as u32
    }

    /// Puts a message behind all others. After a failure it is flushed as those before it.
    ///
    /// # Errors
    /// It is refused, and nothing changes.
    pub fn post(&mut self, message: &Message) -> Result<Ticket, Refused> {
        let (operation, extra) = message.operation().ok_or(Refused::Operation)?;
        let answered = is_answered(operation);
        let unreliable = self.connection.transport != Transport::Rc;
        if unreliable && (answered || extra == Extra::Invalidate) || answered && self.max_rd_atomic == 0 {
            return Err(Refused::Operation);
        }
        let atomic = answered && operation != Operation::ReadRequest;
        if message.length > MAX_MESSAGE || atomic && message.length != 8 {
            return Err(Refused::Length);
        }
        if self.waiting() >= self.places {
            return Err(Refused::Full);
        }
        let end = self.next + u64::from(self.connection.mtu.packets(message.length));
        let mask = self.pending.len() - 1;
        self.pending[self.tail as usize & mask] =
            Pending { message: *message, operation, extra, first: self.next, end };
        self.next = end;
        self.tail += 1;
        Ok(Ticket(self.tail - 1))
    }

    /// The next packet that may be sent, which counts as sent from now on.
    #[inline]
    pub fn next(&mut self, now: u64) -> Option<Transmit> {
        if self.is_at_end() { None } else { self.next_packet(now) }
    }

    /// Whether no packet is next, whatever the window.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.tail && !self.is_asking()
    }

    fn next_packet(&mut self, now: u64) -> Option<Transmit> {
        if let Some(question) = self.question(now) {
            return Some(question);
        }
        if self.at == self.tail || self.failed.is_some_and(|failed| self.at >= failed.ticket.0) {
            return None;
        }
        if let Some(until) = self.waits_until {
            if now < until {
                return None;
            }
            self.waits_until = None;
        }
        if self.probes && self.cursor != self.oldest {
            return None;
        }
        let pending = *self.place(self.at);
        let fresh = pending.first >= self.sent;
        if fresh && (self.drains || self.waits(&pending.message)) {
            return None;
        }
        if self.is_paced(now) {
            return None;
        }
        let end = self.end_of_packet(&pending)?;
        self.leaves_again();
        if fresh && !is_answered(pending.operation) {
            self.credits.begins(takes_request(pending.message.opcode));
        }
        if self.cursor == self.oldest {
            self.since = now;
        }
        self.take_next(&pending, end, now)
    }

    /// The next packet, with which the cursor moves on: made where it is asked for, since it is long.
    #[inline(always)]
    fn take_next(&mut self, pending: &Pending, end: u64, now: u64) -> Option<Transmit> {
        let next = self.packet(pending, self.at, self.cursor, end);
        if let Some(transmit) = &next {
            self.leaves(transmit.head.bth.ack_req, end, now);
        }
        next
    }

    /// The next packet, behind which `end` is, leaves.
    #[inline(always)]
    fn leaves(&mut self, asks: bool, end: u64, now: u64) {
        self.unasked = if asks { 0 } else { self.unasked + 1 };
        self.tail_loss.sent(end, asks && self.cursor >= self.sent, now);
        self.cursor = end;
        self.sent = self.sent.max(end);
        if self.connection.transport != Transport::Rc {
            // Nobody answers: it is done when it is sent.
            self.oldest = end;
            self.finish();
        }
        self.follow_cursor();
    }

    /// There was no room for a packet after all, nor for those that [`Requester::next`] gave since: they are
    /// next once more. Nothing was taken between, and no end of their messages was asked for. Their messages
    /// count as begun.
    pub fn unsend(&mut self, transmit: &Transmit) {
        self.unsend_from(transmit.ticket, transmit.head.bth.psn);
    }

    /// The same of the packet of this message with this PSN.
    pub fn unsend_from(&mut self, Ticket(ticket): Ticket, psn: Psn) {
        let next = self.connection.psn + (self.cursor as u32);
        let behind = u64::from(next.steps_from(psn));
        if behind == 0 || behind > self.cursor || ticket < self.head || ticket > self.at {
            return;
        }
        self.cursor -= behind;
        if self.connection.transport != Transport::Rc {
            self.oldest = self.cursor;
            self.unfinished = ticket;
        }
        (self.at, self.asked_at, self.unasked) = (ticket, self.asked_head, 0);
        self.tail_loss.goes_back();
        self.follow_cursor();
    }

    /// Whether the message is not to begin yet.
    fn waits(&self, message: &Message) -> bool {
        let is_alone = self.oldest == self.sent;
        message.fence && self.asked_head != self.asked_tail
            || self.credits.are_spent() && !is_alone && takes_request(message.opcode)
    }

    /// The packet behind the next one, where it may be sent. A request for an answer stands for all packets of
    /// that answer.
    fn end_of_packet(&mut self, pending: &Pending) -> Option<u64> {
        let under_way = self.cursor - self.oldest;
        let room = u64::from(self.window.size()).saturating_sub(under_way);
        if !is_answered(pending.operation) {
            let unlimited = self.connection.transport != Transport::Rc;
            return (unlimited || room > 0).then_some(self.cursor + 1);
        }
        let mask = self.asked.len() as u64 - 1;
        if self.asked_at < self.asked_tail {
            // Again: what is missing of the answer, and no more of the message than was asked for then. The
            // peer knows its requests by their bounds.
            let asked = self.asked[(self.asked_at & mask) as usize];
            return (room > 0).then_some(asked.end);
        }
        if self.asked_tail - self.asked_head >= u64::from(self.max_rd_atomic) {
            return None;
        }
        let left = pending.end - self.cursor;
        // Not in crumbs, each of which takes one of few places.
        let part = self.window.size().min(MOST);
        let worthwhile = left.min(u64::from(part / 2).max(1));
        if room < worthwhile {
            return None;
        }
        let end = self.cursor + left.min(room).min(part.into());
        self.asked[(self.asked_tail & mask) as usize] = Asked { ticket: self.at, first: self.cursor, end };
        self.asked_tail += 1;
        self.credits.begins(false);
        Some(end)
    }

    /// The packet of a message from this one on, where the transport has such packets.
    #[inline(always)]
    fn packet(&self, pending: &Pending, ticket: u64, number: u64, end: u64) -> Option<Transmit> {
        let message = &pending.message;
        let mtu = self.connection.mtu;
        let (begins, ends) = (number == pending.first, end == pending.end);
        let offset = mtu.offset((number - pending.first) as u32);
        let to = if ends { message.length } else { mtu.offset((end - pending.first) as u32) };
        let length = to - offset;
        let answered = is_answered(pending.operation);
        let (mut position, mut extra) = (Position::Only, Extra::Nothing);
        if !answered {
            position = Position::of(begins, ends);
            extra = if ends { pending.extra } else { Extra::Nothing };
        }
        let opcode = Opcode::new(self.connection.transport, pending.operation, position, extra)?;
        let psn = self.connection.psn + (number as u32);
        let payload = if answered { 0 } else { length };
        let bth = Bth {
            solicited: message.solicited && ends && !answered,
            pad: pad_of(payload as usize),
            p_key: self.connection.p_key,
            ack_req: self.asks_for_acknowledgement(answered || ends, end),
            ..Bth::new(opcode, self.connection.dest_qp, psn)
        };
        // Made where it is asked for: it is long, and most have no extended headers.
        let mut made = Some(Transmit {
            head: Head { bth, headers: Headers::NONE },
            ticket: Ticket(ticket),
            offset,
            length: payload,
        });
        if let Some(Transmit { head: Head { headers, .. }, .. }) = &mut made {
            match pending.operation {
                Operation::ReadRequest => {
                    let va = message.va.wrapping_add(u64::from(offset));
                    headers.reth = Some(Reth { va, rkey: message.rkey, length });
                }
                Operation::CompareSwap | Operation::FetchAdd => {
                    headers.atomic = Some(AtomicEth {
                        va: message.va,
                        rkey: message.rkey,
                        swap_or_add: message.swap_or_add,
                        compare: message.compare,
                    });
                }
                Operation::Write if begins => {
                    let (va, rkey, length) = (message.va, message.rkey, message.length);
                    headers.reth = Some(Reth { va, rkey, length });
                }
                _ => {}
            }
            match extra {
                Extra::Nothing => {}
                Extra::Immediate => headers.imm = Some(message.imm_or_key),
                Extra::Invalidate => headers.ieth = Some(message.imm_or_key),
            }
        }
        made
    }

    /// Whether a packet asks for an acknowledgement: at the end of a message, where nothing may be sent behind
    /// it, and at least four times in a window, or in as much of it as there is on a short way: so few leave
    /// together.
    fn asks_for_acknowledgement(&self, ends: bool, end: u64) -> bool {
        let window = self.window.size();
        self.connection.transport == Transport::Rc
            && (ends
                || self.probes
                || end - self.oldest >= u64::from(window)
                || self.unasked + 1 >= window.min(MOST) / 4)
    }

    /// The next message that has ended, oldest first. After one that failed all others are flushed.
    pub fn done(&mut self) -> Option<Done> {
        if self.head == self.tail {
            return None;
        }
        let ticket = Ticket(self.head);
        let done = match self.failed {
            Some(failed) if failed.ticket == ticket && self.is_failed() => failed,
            // rule: flush-all, flush-order, flush-after-cause
            Some(failed) if failed.ticket < ticket => {
                Done { ticket, status: Status::WrFlushErr, vendor_err: 0 }
            }
            _ if self.head < self.unfinished => Done { ticket, status: Status::Success, vendor_err: 0 },
            _ => return None,
        };
        self.head += 1;
        self.unfinished = self.unfinished.max(self.head);
        self.at = self.at.max(self.head);
        Some(done)
    }

    /// Whether one has ended, so that [`Requester::done`] has something.
    #[must_use]
    #[inline]
    pub fn has_done(&self) -> bool {
        let has_failed =
            || self.failed.is_some_and(|failed| failed.ticket.0 <= self.head) && self.is_failed();
        self.head != self.tail && (self.head < self.unfinished || has_failed())
    }

    /// Whether a message has failed with all before it done, so that nothing is sent and nothing taken.
    #[must_use]
    #[inline]
    pub fn is_failed(&self) -> bool {
        self.failed.is_some_and(|failed| failed.ticket.0 <= self.unfinished)
    }

    /// A message failed on this side: its memory is not there. Those before it go on and end first. One that
    /// has ended, or will not end because one before it failed, stays what it is.
    pub fn fail(&mut self, ticket: Ticket, status: Status) {
        self.fail_with(Done { ticket, status, vendor_err: 0 });
    }

    /// Flushes all messages that have not ended (ERR).
    pub fn flush(&mut self) {
        self.fail(Ticket(self.unfinished), Status::WrFlushErr);
    }

    /// Goes on after a failure, once all messages are flushed (SQE to RTS).
    pub fn resume(&mut self) {
        if self.head != self.tail {
            return;
        }
        self.failed = None;
        (self.oldest, self.cursor, self.sent) = (self.next, self.next, self.next);
        (self.asked_head, self.asked_at) = (self.asked_tail, self.asked_tail);
        (self.waits_until, self.probes) = (None, false);
    }

    fn fail_with(&mut self, done: Done) {
        let known = done.ticket.0 >= self.head && done.ticket.0 <= self.tail;
        if known && self.failed.is_none_or(|failed| done.ticket < failed.ticket) {
            self.failed = Some(done);
        }
    }

    /// The oldest message that is not acknowledged fails.
    fn fail_oldest(&mut self, status: Status, vendor_err: u32) {
        self.fail_with(Done { ticket: Ticket(self.unfinished), status, vendor_err });
    }

    #[inline]
    fn place(&self, ticket: u64) -> &Pending {
        &self.pending[ticket as usize & (self.pending.len() - 1)]
    }

    /// Finishes messages and requests of which all packets are acknowledged.
    fn finish(&mut self) {
        while self.unfinished < self.tail && self.place(self.unfinished).end <= self.oldest {
            self.unfinished += 1;
        }
        let mask = self.asked.len() as u64 - 1;
        while self.asked_head < self.asked_tail
            && self.asked[(self.asked_head & mask) as usize].end <= self.oldest
        {
            self.asked_head += 1;
        }
    }

    /// Finds message and request of the packet that is to be sent next.
    fn follow_cursor(&mut self) {
        self.at = self.at.max(self.unfinished);
        while self.at < self.tail && self.place(self.at).end <= self.cursor {
            self.at += 1;
        }
        self.asked_at = self.asked_at.max(self.asked_head);
        let mask = self.asked.len() as u64 - 1;
        while self.asked_at < self.asked_tail
            && self.asked[(self.asked_at & mask) as usize].end <= self.cursor
        {
            self.asked_at += 1;
        }
    }

    /// The next packet is the oldest that is not acknowledged, with all behind it.
    fn go_back(&mut self, now: u64) {
        self.returned_to = Some(self.oldest);
        self.cursor = self.oldest;
        (self.at, self.asked_at) = (self.unfinished, self.asked_head);
        self.unasked = 0;
        self.since = now;
        self.tail_loss.goes_back();
    }
}

/// Whether the answer to it is more than an acknowledgement.
const fn is_answered(operation: Operation) -> bool {
    matches!(operation, Operation::ReadRequest | Operation::CompareSwap | Operation::FetchAdd)
}

#[cfg(test)]
mod tests;
