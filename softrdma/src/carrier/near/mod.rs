//! The way to processes of this folder, and to the own one: what a queue pair's sending side keeps for it.
//!
//! | file | what |
//! |---|---|
//! | [`endpoint`], [`peers`] | the own segment with its tables; other processes |
//! | [`number`], [`attributes`] | what numbers mean; what a queue's owner set, as peers read it |
//! | [`target`] | the queue pairs that one sends to |
//! | [`execute`](mod@execute), [`windows`] | a request at its target; one that leaves no process |
//! | [`bytes`], [`key_cache`] | the bytes of messages; a key that is asked for again and again |
//! | [`direct`] | small messages of a connection, without a lock |
//! | [`burst`] | small messages to one target, many behind one pair of locks |
//! | [`completion_order`] | own completions, before the answer of a peer that is woken |
//! | [`entries`] | the entries of an own completion queue |
//! | [`multicast`] | the members of multicast groups |
//! | [`permissions`] | what the own process goes by in the folder of a group |

pub mod attributes;
pub mod burst;
pub mod bytes;
pub mod completion_order;
pub mod direct;
pub mod endpoint;
pub mod entries;
pub mod execute;
pub mod key_cache;
pub mod multicast;
pub mod number;
pub mod peers;
pub mod permissions;
pub mod target;
pub mod windows;

use crate::rules::requester::Outcome;
use crate::rules::verbs::QpType;

use self::burst::{BurstOutcome, Lost, OpenBurst};
use self::completion_order::CompletionOrder;
use self::direct::{RingWriter, Sent, send, wake, was_delivered};
use self::endpoint::Endpoint;
use self::execute::execute;
use self::multicast::each_member;
use self::target::{Targets, is_hopeless};
use crate::carrier::initiator::Initiator;
use crate::carrier::wr::{Datagram, Wr};
use crate::error::Result;

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
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
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

    /// Sends a datagram to every member of its group, to the sender too where it is one, unless `blocks_own`.
    pub fn multicast(
        &mut self,
        endpoint: &Endpoint,
        from: &Initiator,
        wr: &Wr<'_>,
        datagram: &Datagram<'_>,
        blocks_own: bool,
    ) -> Outcome {
        // Several are woken, one after the other.
        let (order, mut outcome) = (CompletionOrder::new(None), None);
        // The sender has no lock of its own that a member's side needs: it is reached as by its number.
        each_member(endpoint, &datagram.dgid, |qp_num| {
            let is_refused = matches!(outcome, Some(Outcome::Local(_)));
            if !is_refused && (qp_num != from.qp_num || !blocks_own) {
                let wr = Wr { datagram: Some(Datagram { qp_num, ..*datagram }), ..*wr };
                let one = self.execute(endpoint, from, &wr, &order);
                if outcome.is_none() || matches!(one, Outcome::Local(_)) {
                    outcome = Some(one);
                }
            }
        });
        // Nobody is in the group: the request is checked as any other, and lost.
        outcome.unwrap_or_else(|| self.execute(endpoint, from, wr, &order))
    }

    /// Whether a request that met a receiver without a receive request would meet the same now.
    #[must_use]
    pub fn is_hopeless(&self, wr: &Wr<'_>) -> bool {
        is_hopeless(&self.targets, wr)
    }

    /// Whether there is a direct ring to try.
    #[inline(always)]
    pub(crate) fn has_ring(&self) -> bool {
        self.writer.is_some() && !self.burst.is_open()
    }

    /// Sends a message by the direct ring, if it goes that way.
    #[inline(always)]
    pub(crate) fn send(&mut self, endpoint: &Endpoint, from: &Initiator, wr: &Wr<'_>) -> Sent {
        send(&mut self.writer, endpoint, from, self.targets.get(0), self.burst.bytes(), wr)
    }

    /// Wakes the peer for a message that is in its direct ring: [`wake`].
    #[cold]
    pub(crate) fn wake(&self, solicited: bool, order: &CompletionOrder<'_>) {
        if let Some(target) = self.targets.get(0) {
            wake(target, solicited, order);
        }
    }

    /// Whether the message is there that was [unclear](Sent::Unclear): [`was_delivered`].
    #[cold]
    pub(crate) fn was_delivered(&mut self) -> Option<bool> {
        was_delivered(&mut self.writer, self.targets.get(0))
    }

    /// Delivers a message in the burst that is open, or opens one: [`OpenBurst::deliver`].
    #[inline(always)]
    pub(crate) fn deliver(&mut self, endpoint: &Endpoint, from: &Initiator, wr: &Wr<'_>) -> BurstOutcome {
        self.burst.deliver(endpoint, from, &self.targets, &mut self.writer, wr)
    }

    /// Gives back the target that is held for more messages: [`OpenBurst::end`].
    #[inline(always)]
    pub(crate) fn end_burst(&mut self) -> std::result::Result<(), Lost> {
        self.burst.end(&self.targets, &mut self.writer)
    }

    /// The burst under way, or that was lost.
    #[inline(always)]
    pub(crate) fn burst(&self) -> &OpenBurst {
        &self.burst
    }
}
