//! How many packets leave by one call of the host, which cuts them apart (`UDP_SEGMENT`).
//!
//! Where it does so behind a queue, that drops them together, and of flows that share it one suffers for all.
//! So they are no more than the window lets go in a millisecond, as with TCP (`tcp_tso_autosize` of Linux): on
//! a network that is fast that is as many as a call takes, and where one is slow a call more costs little. What
//! is sent again leaves no faster than that.

use super::Requester;
use crate::wire::window::MOST;

/// That time, in nanoseconds.
const TOGETHER: u64 = 1_000_000;

/// What is sent again: packets that may leave in a stretch of time, and when that ends.
///
/// Of packets behind a lost one nobody acknowledges any, so nothing says how fast they leave again. All of a
/// window at once overruns the queue that has just lost one, and is lost in its turn: of flows that meet there
/// the one that lost something loses most of its share.
#[derive(Debug, Default)]
pub(super) struct Again {
    left: u32,
    ends: u64,
}

impl Requester {
    /// Whether the next packet was sent before, and as many as the window lets go in a millisecond have left in
    /// this one.
    #[inline]
    pub(super) fn is_paced(&mut self, now: u64) -> bool {
        if !self.is_sent_again() {
            return false;
        }
        if now >= self.again.ends {
            self.again = Again { left: self.train(), ends: now.saturating_add(TOGETHER) };
        }
        self.again.left == 0
    }

    /// The next packet leaves.
    #[inline]
    pub(super) fn leaves_again(&mut self) {
        if self.cursor < self.sent {
            self.again.left = self.again.left.saturating_sub(1);
        }
    }

    /// When the next packet may be sent again, where that is what it waits for.
    pub(super) fn resumes_at(&self) -> Option<u64> {
        let is_paced = self.is_sent_again() && self.again.left == 0;
        let has_room = self.cursor - self.oldest < u64::from(self.window.size());
        let is_over = self.failed.is_some_and(|failed| self.at >= failed.ticket.0);
        (is_paced && has_room && !self.probes && !is_over).then_some(self.again.ends)
    }

    /// Whether the next packet was sent before, on a way on which a call's packets may be too many.
    fn is_sent_again(&self) -> bool {
        self.cursor < self.sent && self.tail_loss.round_trip() >= TOGETHER
    }

    /// How many packets are to leave by one call at most: at least one, [`MOST`] where nothing speaks for
    /// fewer.
    #[must_use]
    pub fn train(&self) -> u32 {
        match self.tail_loss.round_trip() {
            0..TOGETHER => MOST,
            long => (u64::from(self.window.size()) * TOGETHER / long).max(1) as u32,
        }
    }
}
