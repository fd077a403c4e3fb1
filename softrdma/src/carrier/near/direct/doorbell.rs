//! The doorbell of a completion queue's rings ([`Doorbell`](direct::Doorbell)): the owner's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::mapped::Mapped;
use crate::queues::direct;
use crate::shm::objects::HeldWords;
use crate::shm::segment::Segment;

use super::Rings;

/// Nobody rings it.
static NOBODYS: AtomicU64 = AtomicU64::new(0);

/// See the module. There is none until the first ring is [given](Doorbell::give) a bit.
#[derive(Debug)]
pub(super) struct Doorbell {
    word: Mapped<AtomicU64>,
    /// Its offset in the segment, and what keeps it mapped.
    place: Option<(u64, HeldWords)>,
    segment: Option<Arc<Segment>>,
    /// Bits that were given to rings, each again after all others.
    given: u32,
}

impl Default for Doorbell {
    fn default() -> Self {
        // SAFETY: nothing need be kept for what is static.
        let word = unsafe { Mapped::new(&NOBODYS) };
        Self { word, place: None, segment: None, given: 0 }
    }
}

impl Doorbell {
    /// For a ring that is new here.
    pub(super) fn give(&mut self, endpoint: &Endpoint, rings: &Rings) -> Option<direct::Doorbell> {
        let at = match &self.place {
            Some((at, _)) => *at,
            None => self.find(endpoint, rings)?,
        };
        let bit = self.given % direct::Doorbell::BITS;
        self.given = self.given.wrapping_add(1);
        Some(direct::Doorbell { at, bit })
    }

    #[cold]
    fn find(&mut self, endpoint: &Endpoint, rings: &Rings) -> Option<u64> {
        let at = rings.take_doorbell(&endpoint.segment)?;
        let Some(held) = endpoint.own.hold(at, 1) else {
            rings.give_back_doorbell(at);
            return None;
        };
        if let Some(word) = held.get().first() {
            // SAFETY: what keeps the word's mapping is kept beside it.
            self.word = unsafe { Mapped::new(word) };
        }
        (self.place, self.segment) = (Some((at, held)), Some(endpoint.segment.clone()));
        Some(at)
    }

    #[inline(always)]
    pub(super) fn is_rung(&self) -> bool {
        self.word.get().load(Ordering::Relaxed) != 0
    }

    /// Whether this process is the one that gave it to rings, and no forked child of it.
    pub(super) fn is_mine(&self) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.is_mine())
    }

    /// The bits that were set, which are not any more. What was written before they were is seen from now on.
    pub(super) fn answer(&self) -> u64 {
        self.word.get().swap(0, Ordering::AcqRel)
    }

    /// It may be another queue's.
    pub(super) fn give_back(&mut self, rings: &Rings) {
        if let Some((at, _words)) = std::mem::take(self).place {
            rings.give_back_doorbell(at);
        }
    }
}
