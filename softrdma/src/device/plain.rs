//! The most frequent request of all, a send of one piece of memory, where nothing stands in its way.
//!
//! It goes past what all requests have in common: it is not copied, waits for nothing, and settles with no
//! others.

use crate::carrier::outgoing::Outgoing;
use crate::carrier::started::Sent;
use crate::carrier::wr::{PlainSend, Sge, Wr};
use crate::rules::completion::Completion;
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
        self.accepted == 0
            && ((self.tries_word && qp.post_word_of(side, send)) || qp.post_plain_any(side, send))
    }
}

impl QueuePair {
    /// Posts a send of eight bytes by itself, as [`Sending::post_plain`], where that takes no lock that others
    /// want; `false`: nothing happened, and it is to be posted as any other.
    #[inline(always)]
    #[must_use]
    pub fn post_word(&self, send: &PlainSend) -> bool {
        let PlainSend { wr_id, flags, sge: Sge { addr, lkey, .. }, .. } = *send;
        send.is_word() && self.post_word_alone(wr_id, flags, addr, lkey)
    }

    /// The same. It is given numbers, and little is called here: so all of it is in registers.
    #[inline(never)]
    fn post_word_alone(&self, wr_id: u64, flags: SendFlags, addr: u64, lkey: u32) -> bool {
        match self.send_side_alone() {
            Some(mut side) => self.post_word_by(&mut side, wr_id, flags, addr, lkey),
            None => false,
        }
    }

    /// The same behind the lock.
    #[inline(never)]
    fn post_word_of(&self, side: &mut SendSide, send: &PlainSend) -> bool {
        let PlainSend { wr_id, flags, sge: Sge { addr, lkey, .. }, .. } = *send;
        send.is_word() && self.post_word_by(side, wr_id, flags, addr, lkey)
    }

    #[inline(always)]
    fn post_word_by(&self, side: &mut SendSide, wr_id: u64, flags: SendFlags, addr: u64, lkey: u32) -> bool {
        let is_known = side.at_once > 0 && side.carrier.has_room_for_word();
        if !(is_known || self.look_ahead(side)) || !self.takes(flags, 8) {
            return false;
        }
        match side.carrier.send_word(&self.device().endpoint, flags, addr, lkey) {
            Sent::Done(false) => {
                side.at_once -= 1;
                if side.requester.tells(flags) {
                    self.complete_word(side, wr_id, flags);
                } else {
                    side.silent += 1;
                }
                true
            }
            Sent::NotTaken => false,
            sent => self.clear_up_word(side, wr_id, flags, sent),
        }
    }

    /// Looks for how many sends of eight bytes, as far as is known now, nothing stands in the way.
    #[inline(never)]
    fn look_ahead(&self, side: &mut SendSide) -> bool {
        (side.at_once > 0 || self.looks_at_side(side)) && side.carrier.find_room_for_word()
    }

    /// As [`QueuePair::post_word`], any send, behind the lock.
    #[inline(never)]
    fn post_plain_any(&self, side: &mut SendSide, send: &PlainSend) -> bool {
        if !self.takes_at_once(side, send.flags, send.sge.length) {
            return false;
        }
        match side.carrier.send_plain(&self.device().endpoint, &side.initiator, send) {
            Sent::Done(false) => {
                self.end_plain(side, send);
                true
            }
            Sent::NotTaken => false,
            sent => self.clear_up_plain(side, send, sent),
        }
    }

    /// Whether a request of one piece of memory of this length is accepted, and starts at once.
    #[inline(always)]
    pub(super) fn takes_at_once(&self, side: &mut SendSide, flags: SendFlags, length: u32) -> bool {
        (side.at_once > 0 || self.looks_at_side(side)) && self.takes(flags, length)
    }

    #[inline(always)]
    fn takes(&self, flags: SendFlags, length: u32) -> bool {
        self.state() == QpState::Rts
            && !(flags.has(SendFlags::INLINE) && length > self.limits().max_inline)
            && self.device().is_mine()
    }

    /// The part of it that only who has the sending side can change: for so many requests as there is room for
    /// now, since polls only make more.
    #[inline]
    fn looks_at_side(&self, side: &mut SendSide) -> bool {
        if side.starts_at_once() && self.limits().max_send_sge > 0 {
            side.requester.rest();
            side.at_once = self.limits().max_send_wr.saturating_sub(self.queued(side));
        }
        side.at_once > 0
    }

    /// The completion of a send of eight bytes that is with its target.
    #[inline(never)]
    fn complete_word(&self, side: &mut SendSide, wr_id: u64, flags: SendFlags) {
        let Some(completion) = side.requester.done_at_once(&posted(&word(wr_id, flags)), 8) else { return };
        let places = self.add_places(side);
        let completion = Completion { places, ..completion };
        let is_appended = match self.send_cq() {
            Some(cq) => cq.own.append_alone(&completion),
            None => true,
        };
        if !is_appended {
            self.complete_word_elsewhere(side, wr_id, flags, places);
        }
    }

    /// The same where the private ring does not take it.
    #[cold]
    #[inline(never)]
    fn complete_word_elsewhere(&self, side: &mut SendSide, wr_id: u64, flags: SendFlags, places: u32) {
        let send = word(wr_id, flags);
        if let Some(completion) = side.requester.done_at_once(&posted(&send), 8) {
            let order = self.completion_order(&Wr::from(&send));
            self.append(side, Completion { places, ..completion }, &order);
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

    /// As [`QueuePair::clear_up_plain`] of eight bytes.
    #[cold]
    #[inline(never)]
    fn clear_up_word(&self, side: &mut SendSide, wr_id: u64, flags: SendFlags, sent: Sent) -> bool {
        self.clear_up_plain(side, &word(wr_id, flags), sent)
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

/// A send of eight bytes that were taken from where they stood, which nobody asks for any more.
#[inline(always)]
fn word(wr_id: u64, flags: SendFlags) -> PlainSend {
    PlainSend { wr_id, flags, sge: Sge { addr: 0, length: 8, lkey: 0 }, imm: None }
}

#[inline(always)]
pub(super) fn posted(send: &PlainSend) -> Posted {
    Posted {
        wr_id: send.wr_id,
        opcode: if send.imm.is_some() { Opcode::SendWithImm } else { Opcode::Send },
        signaled: send.flags.has(SendFlags::SIGNALED),
        length: send.sge.length.into(),
    }
}
