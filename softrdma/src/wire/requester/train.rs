//! How many packets leave by one call of the host, which cuts them apart (`UDP_SEGMENT`).
//!
//! Where it does so behind a queue, that drops them together, and of flows that share it one suffers for all.
//! So they are no more than the window lets go in a millisecond, as with TCP (`tcp_tso_autosize` of Linux): on
//! a network that is fast that is as many as a call takes, and where one is slow a call more costs little.

use super::Requester;
use crate::wire::window::MOST;

/// That time, in nanoseconds.
const TOGETHER: u64 = 1_000_000;

impl Requester {
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
