//! Posting a request whose message goes by a direct ring.

use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::wr::Wr;
use crate::device::QueuePair;
use crate::device::send::{SendSide, posted};
use crate::rules::requester::{Outcome, Syndrome};
use crate::rules::verbs::{Opcode, SendFlags};

use crate::carrier::near::direct::Sent;

impl QueuePair {
    /// Carries a request out by the direct ring; `false` when it does not go that way, and nothing happened.
    #[inline(always)]
    pub(super) fn post_directly(&self, side: &mut SendSide, wr: &Wr<'_>) -> bool {
        matches!(wr.opcode, Opcode::Send | Opcode::SendWithImm)
            && side.near.has_ring()
            && self.try_directly(side, wr)
    }

    #[inline(never)]
    fn try_directly(&self, side: &mut SendSide, wr: &Wr<'_>) -> bool {
        match side.near.send(&self.device().endpoint, &side.initiator, wr) {
            Sent::Done(is_armed) => self.sent(side, wr, is_armed),
            Sent::Unclear => match side.near.was_delivered() {
                Some(true) => self.sent(side, wr, true),
                Some(false) => return false,
                None => self.lose_one(side, wr),
            },
            Sent::NotTaken => return false,
        }
        true
    }

    /// The message is there. The peer is woken before anybody learns that it was sent: who dies in between has
    /// told nobody.
    #[inline]
    fn sent(&self, side: &mut SendSide, wr: &Wr<'_>, is_armed: bool) {
        let order = if is_armed { self.completion_order(wr) } else { CompletionOrder::new(None) };
        if is_armed {
            side.near.wake(wr.flags.has(SendFlags::SOLICITED), &order);
        }
        let request = posted(wr);
        let action = side.requester.outcome(&request, Outcome::Done(request.length as u32), 0);
        self.follow_outcome(side, &request, action, &order);
    }

    /// Nobody knows whether the message came to its target: the connection breaks.
    #[cold]
    fn lose_one(&self, side: &mut SendSide, wr: &Wr<'_>) {
        let request = posted(wr);
        let outcome = Outcome::Refused(Syndrome::Operational);
        let action = side.requester.outcome(&request, outcome, self.device().now());
        self.follow_outcome(side, &request, action, &CompletionOrder::new(None));
    }
}
