//! Messages that are taken out of a ring before their turn.

use ironverbs_os::growth::TryPush;

use super::RingReader;
use crate::carrier::near::endpoint::Endpoint;
use crate::queues::direct::Arrived;
use crate::rules::completion::Completion;
use crate::shm::objects::DirectRing;

/// Turns that a sender gets which moves a message, where its request is wanted: some hundred microseconds.
const TURNS: u32 = 1000;

impl RingReader {
    #[cold]
    pub(super) fn complete_early(&mut self) -> Option<Completion> {
        let (message, completion) = self.early.pop_front()?;
        self.receiver.handed_out(&message, self.early.front().map(|(next, _)| *next));
        self.publish_completed();
        Some(completion)
    }

    /// Takes the messages that are in the ring out of it before their turn; the number behind them. `None`
    /// where there is no memory for all of them.
    #[cold]
    #[inline(never)]
    pub(super) fn take_early(&mut self, endpoint: &Endpoint) -> Option<u32> {
        // As many as there can be at a time: others may come meanwhile.
        let mut left = self.direct.place.slots;
        while left > 0
            && let Some(message) = self.receiver.early(&DirectRing::of(&self.ring))
        {
            self.early.try_reserve(1).ok()?;
            let completion = self.deliver_soon(endpoint, &message)?;
            self.early.push_reserved((message, completion));
            self.receiver.take_out(&DirectRing::of(&self.ring), &message);
            self.look_for_next();
            left -= 1;
        }
        Some(self.receiver.behind())
    }

    /// As [`RingReader::deliver`], after a sender that moves the message just now.
    #[cold]
    fn deliver_soon(&mut self, endpoint: &Endpoint, message: &Arrived) -> Option<Completion> {
        for _ in 0..TURNS {
            let found = self.deliver(endpoint, message);
            if found.is_some() {
                return found;
            }
            // It may wait for this processor.
            std::thread::yield_now();
        }
        None
    }
}
