//! The most frequent request of all, a send of one piece of memory, where nothing stands in its way.
//!
//! It goes past what all requests have in common: it is not copied, waits for nothing, and settles with no
//! others.

use crate::carrier::outgoing::Outgoing;
use crate::carrier::started::Sent;
use crate::carrier::wr::{PlainSend, Wr};
use crate::rules::requester::{Outcome, Posted};
use crate::rules::verbs::{Opcode, QpState, SendFlags};

use super::QueuePair;
use super::send::{SendSide, Sending};

impl Sending<'_> {
    /// Whether [`Sending::post_plain`] is worth a try: a message went that way before.
    #[inline(always)]
    #[must_use]
    pub fn takes_plain(&self) -> bool {
        self.side.carrier.is_prepared()
    }

    /// Posts a send as the last one went, where that is possible; `false`: nothing happened, and it is to be
    /// accepted and posted as any other.
    #[inline(always)]
    pub fn post_plain(&mut self, send: &PlainSend) -> bool {
        let (qp, side) = (self.qp, &mut *self.side);
        if self.accepted > 0 || !qp.takes_at_once(side, send.flags, send.sge.length) {
            return false;
        }
        match side.carrier.send_plain(&qp.device().endpoint, side.initiator.pd, send) {
            Sent::Done(false) => {
                qp.end_plain(side, send);
                true
            }
            Sent::NotTaken => qp.post_plain_shared(side, send),
            sent => qp.clear_up_plain(side, send, sent),
        }
    }
}

impl QueuePair {
    /// Whether a request of one piece of memory of this length is accepted, and starts at once.
    #[inline(always)]
    pub(super) fn takes_at_once(&self, side: &mut SendSide, flags: SendFlags, length: u32) -> bool {
        (side.at_once > 0 || self.looks_at_side(side))
            && self.state() == QpState::Rts
            && !(flags.has(SendFlags::INLINE) && length > self.limits().max_inline)
            && self.device().is_mine()
    }

    /// The part of it that only who has the sending side can change: for so many requests as there is room for
    /// now, since polls only make more.
    #[inline(never)]
    fn looks_at_side(&self, side: &mut SendSide) -> bool {
        if side.starts_at_once() && self.limits().max_send_sge > 0 {
            side.requester.rest();
            side.at_once = self.limits().max_send_wr.saturating_sub(self.queued(side));
        }
        side.at_once > 0
    }

    /// As [`Sending::post_plain`], by a ring that leads into a shared receive queue.
    #[inline(never)]
    fn post_plain_shared(&self, side: &mut SendSide, send: &PlainSend) -> bool {
        match side.carrier.send_plain_shared(&self.device().endpoint, side.initiator.pd, send) {
            Sent::Done(false) => {
                self.end_plain(side, send);
                true
            }
            Sent::NotTaken => false,
            sent => self.clear_up_plain(side, send, sent),
        }
    }

    /// What follows from a send that is with its target.
    #[inline(always)]
    pub(super) fn end_plain(&self, side: &mut SendSide, send: &PlainSend) {
        side.at_once -= 1;
        match side.requester.done_at_once(&posted(send), send.sge.length) {
            None => side.silent += 1,
            Some(completion) => {
                let wr = Wr::from(send);
                self.complete(side, completion, &self.completion_order(&wr));
            }
        }
    }

    /// The same where the target is to be woken, or it is not known whether the message is there; `false`:
    /// nothing happened.
    #[cold]
    #[inline(never)]
    fn clear_up_plain(&self, side: &mut SendSide, send: &PlainSend, sent: Sent) -> bool {
        let (wr, request) = (Wr::from(send), posted(send));
        let order = self.completion_order(&wr);
        side.at_once = 0;
        let endpoint = &self.device().endpoint;
        let from = side.initiator;
        let out = Outgoing { endpoint, from: &from, wr: &wr, request: &request, order: &order };
        let Some(outcome) = side.carrier.clear_up(sent, &out) else { return false };
        let now = if matches!(outcome, Outcome::Done(_)) { 0 } else { self.device().now() };
        let action = side.requester.outcome(&request, outcome, now);
        self.follow_outcome(side, &request, action, &order);
        true
    }
}

pub(super) fn posted(send: &PlainSend) -> Posted {
    Posted {
        wr_id: send.wr_id,
        opcode: if send.imm.is_some() { Opcode::SendWithImm } else { Opcode::Send },
        signaled: send.flags.has(SendFlags::SIGNALED),
        length: send.sge.length.into(),
    }
}
