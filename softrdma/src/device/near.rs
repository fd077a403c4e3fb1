//! The way to processes of this folder: what a queue pair's sending side keeps for it.

use crate::rules::requester::Outcome;
use crate::rules::verbs::QpType;

use super::Result;
use super::burst::{BurstOutcome, Lost, OpenBurst};
use super::completion_order::CompletionOrder;
use super::direct::{RingWriter, Sent, send, wake, was_delivered};
use super::endpoint::Endpoint;
use super::execute::execute;
use super::initiator::Initiator;
use super::target::{Targets, is_hopeless};
use super::wr::Wr;

/// See the module. Its queue pair holds it alone while a request is under way.
#[derive(Debug)]
pub struct Near {
    targets: Targets,
    burst: OpenBurst,
    /// Connected queue pairs: the peer's direct ring.
    writer: Option<RingWriter>,
}

impl Near {
    /// That of a fresh queue pair.
    ///
    /// # Errors
    /// [`Error::NoMemory`](super::Error::NoMemory).
    pub fn new(qp_type: QpType) -> Result<Self> {
        Ok(Self { targets: Targets::new(qp_type)?, burst: OpenBurst::default(), writer: None })
    }

    /// Forgets whom it talked to: on RESET, and on RTR after the attributes were set.
    pub fn reconnect(&mut self) {
        self.writer = None;
        self.targets.clear();
    }

    /// Carries out one request now; never waits for anything but short locks. No burst is open.
    pub fn execute(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        wr: &Wr<'_>,
        order: &CompletionOrder<'_>,
    ) -> Outcome {
        debug_assert!(!self.burst.is_open(), "a target is held");
        execute(endpoint, from, &mut self.targets, &mut self.writer, wr, order)
    }

    /// Whether a request that met a receiver without a receive request would meet the same now.
    #[must_use]
    pub fn is_hopeless(&self, wr: &Wr<'_>) -> bool {
        is_hopeless(&self.targets, wr)
    }

    /// Whether there is a direct ring to try.
    #[inline(always)]
    pub(super) fn has_ring(&self) -> bool {
        self.writer.is_some() && !self.burst.is_open()
    }

    /// Sends a message by the direct ring, if it goes that way.
    #[inline(always)]
    pub(super) fn send(&mut self, endpoint: &Endpoint, from: &Initiator, wr: &Wr<'_>) -> Sent {
        send(&mut self.writer, endpoint, from, self.targets.get(0), self.burst.bytes(), wr)
    }

    /// Wakes the peer for a message that is in its direct ring: [`wake`].
    #[cold]
    pub(super) fn wake(&self, solicited: bool, order: &CompletionOrder<'_>) {
        if let Some(target) = self.targets.get(0) {
            wake(target, solicited, order);
        }
    }

    /// Whether the message is there that was [unclear](Sent::Unclear): [`was_delivered`].
    #[cold]
    pub(super) fn was_delivered(&mut self) -> Option<bool> {
        was_delivered(&mut self.writer, self.targets.get(0))
    }

    /// Delivers a message in the burst that is open, or opens one: [`OpenBurst::deliver`].
    #[inline(always)]
    pub(super) fn deliver(&mut self, endpoint: &Endpoint, from: &Initiator, wr: &Wr<'_>) -> BurstOutcome {
        self.burst.deliver(endpoint, from, &self.targets, &mut self.writer, wr)
    }

    /// Gives back the target that is held for more messages: [`OpenBurst::end`].
    #[inline(always)]
    pub(super) fn end_burst(&mut self) -> std::result::Result<(), Lost> {
        self.burst.end(&self.targets, &mut self.writer)
    }

    /// The burst under way, or that was lost.
    #[inline(always)]
    pub(super) fn burst(&self) -> &OpenBurst {
        &self.burst
    }
}
