//! What happens when no answer comes (IBA vol. 1 §9.7.6.1.3).

use super::Requester;
use crate::rules::timers::ack_timeout;
use crate::rules::verbs::Status;

impl Requester {
    /// When [`Requester::expire`] is to be called; `None` where nothing is waited for. Later than that does no
    /// harm.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        if self.is_failed() {
            return None;
        }
        if self.waits_until.is_some() {
            return self.waits_until;
        }
        if self.oldest == self.sent {
            return None;
        }
        // rule: ack-timeout
        Some(self.since.saturating_add(ack_timeout(self.retry.timeout)?))
    }

    /// A wait may be over. Answers that are there are to be [taken](Requester::take) before.
    pub fn expire(&mut self, now: u64) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if self.waits_until.take().is_some() {
            self.since = now;
            return;
        }
        if self.cursor == self.oldest {
            // There was no room to send it again.
            self.since = now;
            return;
        }
        // rule: ack-retries
        if self.retries >= self.retry.retry_cnt {
            return self.fail_oldest(Status::RetryExcErr, 0);
        }
        self.retries += 1;
        self.window.lost(self.oldest, self.sent);
        self.go_back(now);
        self.probes = true;
    }
    /// A request of the peer was carried out, so it is there. That its answers are missing is the way's fault,
    /// which its own packets may have filled: time-outs count from the start.
    pub fn heard(&mut self) {
        self.retries = 0;
    }
}
