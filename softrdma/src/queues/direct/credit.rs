//! What the owner of a direct ring promises to its sender.

use super::{DirectWord, MAX_POOLED, at, reached};
use crate::queues::shared::Memory;

/// What the requests have in common that were posted and are not completed: the least that fits, and the
/// key.
///
/// It is known for those up to some count and for those behind it, so that what was true of requests that
/// are completed is forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    older: Common,
    newer: Common,
    /// The first request of the newer ones, and that behind them.
    since: u32,
    tail: u32,
    /// What [a request](alike) like all that wait says; [`UNLIKE`] where they differ.
    alike: u64,
    /// What was stored last.
    key: u32,
    least: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Common {
    least: u32,
    /// `None` for none yet, `Some(0)` for several.
    key: Option<u32>,
}

/// Of a request with so much room, by this key.
#[inline(always)]
fn alike(least: u32, key: u32) -> u64 {
    u64::from(least) | u64::from(key) << 32
}

/// What no request says: it has more than [`MAX_POOLED`] bytes.
const UNLIKE: u64 = u64::MAX;

impl Common {
    const NONE: Self = Self { least: MAX_POOLED, key: None };

    fn and(self, other: Self) -> Self {
        let key = match (self.key, other.key) {
            (None, key) | (key, None) => key,
            (Some(one), Some(other)) => Some(if one == other { one } else { 0 }),
        };
        Self { least: self.least.min(other.least), key }
    }
}

impl Credit {
    /// That of a queue pair of which so many requests were posted and all are completed, in a fresh ring.
    #[must_use]
    pub fn new(memory: &impl Memory, qp: u32, tail: u32) -> Self {
        memory.store(at(qp, DirectWord::Credit), u64::from(tail));
        let (older, newer) = (Common::NONE, Common::NONE);
        Self { older, newer, since: tail, tail, alike: UNLIKE, key: 0, least: 0 }
    }

    /// A request was posted whose first piece of memory has so many bytes, by this key; 0 bytes when there
    /// is no such memory. So many requests are completed. Stores what is promised from now on, after the
    /// request itself: where it is like all others that wait, their count alone.
    #[inline(always)]
    pub fn posted(
        &mut self,
        memory: &impl Memory,
        qp: u32,
        bytes: u32,
        key: u32,
        completed: impl FnOnce() -> u32,
    ) {
        let least = bytes.min(MAX_POOLED);
        if alike(least, key) != self.alike {
            self.add(memory, qp, Common { least, key: (bytes > 0).then_some(key) }, completed());
        }
        self.tail = self.tail.wrapping_add(1);
        memory.store(at(qp, DirectWord::Credit), u64::from(self.tail) | u64::from(self.least) << 32);
    }

    /// A request is about to be posted that is not as all others are.
    #[inline(never)]
    fn add(&mut self, memory: &impl Memory, qp: u32, now: Common, completed: u32) {
        if self.alike != UNLIKE {
            // All that wait are like the newer ones, also those that were not noted.
            (self.older, self.newer, self.since) = (self.newer, Common::NONE, self.tail);
        }
        if reached(completed, self.since) {
            (self.older, self.newer, self.since) = (self.newer, Common::NONE, self.tail);
        }
        if reached(completed, self.since) {
            self.older = Common::NONE;
        }
        self.newer = self.newer.and(now);
        let common = self.older.and(self.newer);
        let (least, key) = (common.least, common.key.unwrap_or(0));
        self.alike = if common == self.newer && self.newer == now { alike(least, key) } else { UNLIKE };
        self.least = least;
        // Before the request can be used.
        if key != self.key {
            self.key = key;
            memory.store(at(qp, DirectWord::Key), u64::from(key));
        }
    }
}
