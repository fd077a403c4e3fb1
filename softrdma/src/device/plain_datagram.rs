//! A datagram of one piece of memory, where nothing stands in its way: as [`plain`](super::plain).

use crate::carrier::started::Sent;
use crate::carrier::wr::{Datagram, PlainSend, Wr};
use crate::rules::requester::Outcome;
use crate::rules::verbs::SendFlags;

use super::QueuePair;
use super::plain::posted;
use super::send::{SendSide, Sending};

impl Sending<'_> {
    /// Whether [`Sending::post_plain_datagram`] is worth a try: some went that way before.
    #[inline(always)]
    #[must_use]
    pub fn takes_plain_datagram(&self) -> bool {
        self.side.carrier.is_prepared_for_datagrams()
    }

    /// As [`Sending::post_plain`], of a datagram.
    #[inline(always)]
    pub fn post_plain_datagram(&mut self, send: &PlainSend, to: &Datagram<'_>) -> bool {
        let (qp, side) = (self.qp, &mut *self.side);
        let is_near = to.route.is_none();
        if !is_near || self.accepted > 0 || !qp.takes_at_once(side, send.flags, send.sge.length) {
            return false;
        }
        let endpoint = &qp.device().endpoint;
        match side.carrier.send_plain_datagram(endpoint, &side.initiator, send, to) {
            Sent::Done(false) => {
                qp.end_plain(side, send);
                true
            }
            Sent::NotTaken => false,
            sent => qp.clear_up_datagram(side, send, to, sent),
        }
    }
}

impl QueuePair {
    /// As [`QueuePair::clear_up_plain`].
    #[cold]
    #[inline(never)]
    fn clear_up_datagram(
        &self,
        side: &mut SendSide,
        send: &PlainSend,
        to: &Datagram<'_>,
        sent: Sent,
    ) -> bool {
        let (wr, request) = (Wr { datagram: Some(*to), ..Wr::from(send) }, posted(send));
        let order = self.completion_order(&wr);
        side.at_once = 0;
        let solicited = send.flags.has(SendFlags::SOLICITED);
        if !side.carrier.clear_up_datagram(sent, to, solicited, &order) {
            return false;
        }
        let action = side.requester.outcome(&request, Outcome::Done(send.sge.length), 0);
        self.follow_outcome(side, &request, action, &order);
        true
    }
}
