//! Writes and reads of one piece of memory, where nothing stands in their way: as for a
//! [plain send](super::plain), what all requests have in common is passed by.

use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::wr::OneSided;
use crate::rules::requester::Outcome;

use super::send::Sending;

impl Sending<'_> {
    /// Whether [`Sending::post_one_sided`] is worth a try: one went before.
    #[inline(always)]
    #[must_use]
    pub fn takes_one_sided(&self) -> bool {
        self.side.carrier.is_prepared_for_access()
    }

    /// Posts a write or a read as one before it went, where that is possible; `false`: nothing happened, and it
    /// is to be accepted and posted as any other.
    #[inline(never)]
    pub fn post_one_sided(&mut self, access: &OneSided) -> bool {
        let (qp, side) = (self.qp, &mut *self.side);
        if self.accepted > 0 || !qp.takes_at_once(side, access.flags, access.sge.length) {
            return false;
        }
        match side.carrier.access(&qp.device().endpoint, &side.initiator, access) {
            Some(Outcome::Done(bytes)) => {
                side.at_once -= 1;
                match side.requester.done_at_once(&access.posted(), bytes) {
                    None => side.silent += 1,
                    Some(completion) => qp.complete_here(side, completion, &CompletionOrder::new(None)),
                }
                true
            }
            Some(outcome) => {
                side.at_once = 0;
                let request = access.posted();
                let action = side.requester.outcome(&request, outcome, qp.device().now());
                qp.follow_outcome(side, &request, action, &CompletionOrder::new(None));
                true
            }
            None => false,
        }
    }
}
