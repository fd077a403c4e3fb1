//! Send requests under way: from before a message is published to its target until the own completion is there.
//!
//! What the target does in between may be in the completion queue before the own completion, and no adapter
//! shows it so. Who polls while a request is under way does not hand out what was published since it began,
//! which may be the answer: [`Frontier`].
//!
//! One request or the other is under way all the time where many threads send. So they are counted by turns, of
//! two kinds: whoever is kept waiting has those that begin from now on counted as the other kind, and waits for
//! the end of those that began before.

use std::sync::atomic::Ordering;

use super::sync::{AtomicBool, AtomicU32, AtomicU64, fence};

/// The requests under way that complete in one queue.
#[derive(Debug)]
pub(in crate::device) struct Sends {
    /// How many: of the one kind in the low half, of the other in the high half.
    count: AtomicU64,
    /// The kind of those that begin.
    kind: AtomicU32,
    /// Somebody who polled was kept from an entry.
    kept: AtomicBool,
}

/// The share of a request in the count: 1 in the half of its kind.
pub(in crate::device) type Share = u64;

/// The shares of both kinds.
const SHARES: [Share; 2] = [1, 1 << 32];

impl Sends {
    pub(in crate::device) fn new() -> Self {
        Self { count: AtomicU64::new(0), kind: AtomicU32::new(0), kept: AtomicBool::new(false) }
    }

    /// One begins; nothing is published yet.
    #[inline(always)]
    pub(in crate::device) fn begin(&self) -> Share {
        let share = SHARES[(self.kind.load(Ordering::Acquire) & 1) as usize];
        if one_thread() {
            // A signal handler that comes in between leaves the count as it was.
            self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(share), Ordering::Relaxed);
        } else {
            self.count.fetch_add(share, Ordering::Relaxed);
        }
        share
    }

    /// It ends; the own completion is in its ring, or there is none.
    #[inline(always)]
    pub(in crate::device) fn end(&self, share: Share) {
        if one_thread() {
            self.count.store(self.count.load(Ordering::Relaxed).wrapping_sub(share), Ordering::Release);
        } else {
            self.count.fetch_sub(share, Ordering::Release);
        }
    }

    /// Whether none of this kind is under way.
    fn is_over(&self, kind: u32) -> bool {
        let count = self.count.load(Ordering::Acquire);
        (if kind & 1 == 0 { count as u32 } else { (count >> 32) as u32 }) == 0
    }

    /// Whether who polled last was kept from an entry, and may sleep over it. Behind a fence after the end of a
    /// request.
    pub(in crate::device) fn kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn one_thread() -> bool {
    queue_lock::single_threaded()
}

#[cfg(loom)]
fn one_thread() -> bool {
    false
}

/// The side of who polls, one at a time.
#[derive(Debug, Default)]
pub(in crate::device) struct Frontier {
    /// Entries below this count, [`MOST`] of them at most, were published before any request that is under way
    /// began.
    free: Option<u32>,
    /// Entries below this count are free when no request of this kind is under way.
    waits: Option<(u32, u32)>,
    /// [`Sends::kept`] is set.
    keeps: bool,
}

impl Frontier {
    /// Whether the entry with the count `head`, which was found published, is not the answer to a request that
    /// is under way. Own completions are to be looked for afterwards. `published` says the same of others.
    #[inline(always)]
    pub(in crate::device) fn frees(
        &mut self,
        sends: &Sends,
        head: u32,
        published: impl Fn(u32) -> bool,
    ) -> bool {
        // Whoever answered had seen the message, and who sees the answer sees that the request began.
        if sends.count.load(Ordering::Acquire) == 0 && !self.keeps {
            return true;
        }
        self.look(sends, head, &published)
    }

    /// No entry waits any more: what was kept back has gone.
    pub(in crate::device) fn forget(&mut self, sends: &Sends) {
        self.keeps = false;
        sends.kept.store(false, Ordering::Relaxed);
    }

    #[cold]
    fn look(&mut self, sends: &Sends, head: u32, published: &dyn Fn(u32) -> bool) -> bool {
        let mut frees = self.look_once(sends, head, published);
        if !frees {
            // First this, then another look; whoever ends a request does it the other way round.
            sends.kept.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            frees = self.look_once(sends, head, published);
            self.keeps = true;
        }
        if frees && self.keeps {
            self.keeps = false;
            sends.kept.store(false, Ordering::Relaxed);
        }
        frees
    }

    fn look_once(&mut self, sends: &Sends, head: u32, published: &dyn Fn(u32) -> bool) -> bool {
        if sends.count.load(Ordering::Acquire) == 0 {
            return true;
        }
        if let Some((_, free)) = self.waits.take_if(|(kind, _)| sends.is_over(*kind)) {
            self.free = Some(free);
        }
        // Not by the sign: a count that was passed long ago comes before this one again.
        if self.free.is_some_and(|free| (1..=MOST).contains(&free.wrapping_sub(head))) {
            return true;
        }
        self.free = None;
        if self.waits.is_some() {
            return false;
        }
        let mut free = head;
        while free.wrapping_sub(head) < MOST && published(free) {
            free = free.wrapping_add(1);
        }
        let kind = sends.kind.load(Ordering::Relaxed) & 1;
        // Some that begin look at the kind just before it changes. After the look at the entries: an answer to
        // one of those may be among them.
        if !sends.is_over(1 - kind) {
            return false;
        }
        sends.kind.store(1 - kind, Ordering::Release);
        self.waits = Some((kind, free));
        false
    }
}

/// So many entries are set free at once.
const MOST: u32 = 64;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// As [`Frontier::frees`], where so many entries were published.
    fn frees(frontier: &mut Frontier, sends: &Sends, head: u32, tail: u32) -> bool {
        frontier.frees(sends, head, |count| (count.wrapping_sub(tail) as i32) < 0)
    }

    #[test]
    fn what_is_published_while_a_request_is_under_way_waits_for_its_end_at_every_count() {
        for head in [0, 1, 64, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX / 2 + 2, 3 << 30, u32::MAX - 5] {
            let (sends, mut frontier) = (Sends::new(), Frontier::default());
            // Entries that nobody waited for.
            assert!(frees(&mut frontier, &sends, head.wrapping_sub(1), head));
            let share = sends.begin();
            assert!(!frees(&mut frontier, &sends, head, head.wrapping_add(1)), "{head:#x}");
            assert!(!frees(&mut frontier, &sends, head, head.wrapping_add(1)), "{head:#x}");
            sends.end(share);
            assert!(frees(&mut frontier, &sends, head, head.wrapping_add(1)), "{head:#x}");
        }
    }

    /// The thread of the second lost the processor between its look at the kind and its share in the count.
    #[test]
    fn a_request_that_begins_as_the_kind_before_the_last_keeps_its_answer_waiting() {
        let (sends, mut frontier) = (Sends::new(), Frontier::default());
        let first = sends.begin();
        assert!(!frees(&mut frontier, &sends, 0, 1));
        // Now those of the other kind begin.
        let second = sends.begin();
        assert_ne!(first, second);
        sends.end(first);
        assert!(frees(&mut frontier, &sends, 0, 1));
        // Entry 2 is the answer to a request that begins, and is answered, while it is looked what is there.
        let has_begun = std::cell::Cell::new(false);
        let begins_late = |count: u32| {
            if count == 2 && !has_begun.replace(true) {
                sends.count.fetch_add(first, Ordering::Relaxed);
            }
            count <= 2
        };
        assert!(!frontier.frees(&sends, 1, begins_late));
        sends.end(second);
        assert!(!frees(&mut frontier, &sends, 2, 3), "the answer to a request that is under way");
        sends.end(first);
        assert!(frees(&mut frontier, &sends, 2, 3));
    }
}
