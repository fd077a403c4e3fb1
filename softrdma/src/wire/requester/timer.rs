//! What happens when no answer comes (IBA vol. 1 §9.7.6.1.3).

use super::Requester;
use crate::rules::timers::ack_timeout;
use crate::rules::verbs::Status;

/// How often time-outs count from the start, until something is acknowledged, because the peer was heard.
const FORGIVEN: u8 = 7;

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
        let times = [self.asks_at(), self.times_out_at(), self.resumes_at()];
        let first = times.map(|time| time.unwrap_or(u64::MAX)).into_iter().fold(u64::MAX, u64::min);
        (first < u64::MAX).then_some(first)
    }

    /// When the oldest packet is sent again.
    fn times_out_at(&self) -> Option<u64> {
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
        if self.resumes_at().is_some() && self.times_out_at().is_none_or(|end| now < end) {
            return;
        }
        // rule: wire-tail-loss
        if self.times_out_at().is_none_or(|end| now < end) {
            return self.ask();
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
    ///
    /// By the specification (IBA vol. 1 §9.7.6.1.3), and in soft-RoCE (`rxe_comp.c`), answers alone do that.
    /// An adapter has no receive buffer that overflows while both sides send as fast as they can, and a UDP
    /// socket has. But not for ever: where a network drops long packets and no others, the peer's short
    /// requests come, and the own ones never end otherwise.
    // rule: ack-retries
    pub fn heard(&mut self) {
        if self.retries > 0 && self.forgiven < FORGIVEN {
            (self.retries, self.forgiven) = (0, self.forgiven + 1);
        }
    }
}
