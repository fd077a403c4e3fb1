//! The owner's side of direct rings into a shared receive queue: which requests their messages have.
//!
//! A message says the count of its request, which stands in the queue's ring until the message is polled. Where
//! another request is to have that place before, the older one is put aside: rings are polled, and closed,
//! behind the locks of their completion queues' readers, and so is that.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ironverbs_os::growth::{TryPush, try_arc, try_collect};

use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;
use crate::queues::direct::shared::{BEHIND_LOCK, Board, Head, board_words, signature, taker, touch, unsent};
use crate::queues::direct::{Credit, HEADER_WORDS};
use crate::queues::shared::{Memory as _, SrqWord, Word, slot};
use crate::rules::receive::Sge;
use crate::shm::objects::{HeldWords, SharedWords};
use crate::shm::segment::Segment;

/// Boards that no queue has. What was one is never anything else, as a sender may have been stopped when it was
/// about to write there; what it then finds is never what it had read before.
#[derive(Debug, Default)]
pub(crate) struct Boards {
    resting: Mutex<Vec<Board>>,
    /// How many were given out.
    count: AtomicU32,
}

/// Boards that are kept for other queues.
const RESTING: usize = 256;
/// Most requests that are put aside at a time: there is an end to what a program may leave unpolled.
const MOST_ASIDE: usize = 1 << 16;

impl Boards {
    /// One with so many records, and a number that the last ones did not have.
    fn take(&self, segment: &Segment, slots: u32) -> Option<(Board, u32)> {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        // For the day when all are given back.
        resting.try_reserve(RESTING).ok()?;
        let number = self.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let board = match resting.iter().position(|board| board.slots == slots) {
            Some(place) => resting.swap_remove(place),
            None => {
                let at = segment.alloc(8 * u64::from(board_words(slots)), 64).ok()?.offset;
                Board { at, slots }
            }
        };
        let words = segment.memory().words(board.at, board_words(slots) as usize).ok()?;
        // No record, and nothing that stood there before.
        let nothing = 1 << 62 | u64::from(number);
        for (word, value) in words.iter().zip((0..HEADER_WORDS).map(|_| 0).chain(std::iter::repeat(nothing)))
        {
            word.store(value, Ordering::Release);
        }
        Some((board, number))
    }

    fn give_back(&self, board: Board) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.len() < RESTING && resting.len() < resting.capacity() {
            resting.push_reserved(board);
        }
    }
}

/// A request whose place another one has.
#[derive(Debug)]
struct Aside {
    count: u32,
    /// The ring whose sender took it, where that is recorded.
    by: Option<u32>,
    words: Vec<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedRequests {
    srq: u32,
    board: Board,
    words: SharedWords,
    /// The ring: words of each request, entries.
    requests: (HeldWords, usize, u32),
    /// By entry, the count behind the last request that stood there and is completed.
    done: Vec<AtomicU32>,
    /// Requests posted, or about to be.
    posted: AtomicU32,
    /// [`Head`] when rings ceased to take requests; 0 before.
    frozen: AtomicU64,
    /// The ring is not there any more: all that is not completed is aside.
    is_left: AtomicBool,
    aside: Mutex<Vec<Aside>>,
}

impl SharedRequests {
    /// Those of a queue whose ring is this one, of which `head` are taken and `tail` posted; with a number for
    /// [`Head::open`], which makes rings take them. Behind the queue's lock.
    pub(crate) fn new(
        endpoint: &Endpoint,
        boards: &Boards,
        srq: u32,
        requests: (HeldWords, usize, u32),
        (head, tail): (u32, u32),
    ) -> Option<(Arc<Self>, u32)> {
        let capacity = requests.2;
        let done = (0..capacity).map(|place| {
            // The last count before the tail that stands in this place.
            let back = tail.wrapping_sub(1).wrapping_sub(place) & (capacity - 1);
            let count = tail.wrapping_sub(1).wrapping_sub(back);
            let waits = (count.wrapping_sub(head) as i32) >= 0;
            let done = if waits { count.wrapping_sub(capacity) } else { count };
            done.wrapping_add(1).into()
        });
        let done = try_collect(done).ok()?;
        let (board, number) = boards.take(&endpoint.segment, capacity)?;
        let Some(words) = endpoint.own.hold_shared(srq, board) else {
            boards.give_back(board);
            return None;
        };
        let made = Self {
            srq,
            board,
            words,
            requests,
            done,
            posted: tail.into(),
            frozen: 0.into(),
            is_left: false.into(),
            aside: Mutex::default(),
        };
        let made = try_arc(made).inspect_err(|_| boards.give_back(board)).ok()?;
        Some((made, number))
    }

    /// The board, for peers.
    pub(crate) fn board(&self) -> Board {
        self.board
    }

    /// Its board may serve another queue.
    pub(crate) fn give_back(&self, boards: &Boards) {
        boards.give_back(self.board);
    }

    fn aside(&self) -> MutexGuard<'_, Vec<Aside>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    fn done(&self, count: u32) -> Option<&AtomicU32> {
        self.done.get(slot(count, self.requests.2) as usize)
    }

    #[inline(always)]
    fn is_done(&self, count: u32) -> bool {
        self.done(count).is_none_or(|done| done.load(Ordering::Acquire) == count.wrapping_add(1))
    }

    /// Whether its place is another's, or its ring was left.
    #[inline(always)]
    fn is_aside(&self, count: u32) -> bool {
        self.posted.load(Ordering::Acquire).wrapping_sub(count) > self.requests.2
            || self.is_left.load(Ordering::Relaxed)
    }

    /// The first words of the request with this count; `None` where no message can have it. Behind the reader's
    /// lock.
    #[inline(always)]
    pub(super) fn request(&self, count: u32) -> Option<[u64; 4]> {
        if self.is_aside(count) {
            return self.request_aside(count);
        }
        if self.is_done(count) || self.posted.load(Ordering::Relaxed) == count {
            return None;
        }
        let words: &[AtomicU64; 4] = self.entry(count)?.first_chunk()?;
        Some(std::array::from_fn(|n| words[n].load(Ordering::Relaxed)))
    }

    fn entry(&self, count: u32) -> Option<&[AtomicU64]> {
        let (requests, words, capacity) = &self.requests;
        requests.get().get(words * slot(count, *capacity) as usize..)?.get(..*words)
    }

    #[cold]
    #[inline(never)]
    fn request_aside(&self, count: u32) -> Option<[u64; 4]> {
        let aside = self.aside();
        aside.iter().find(|aside| aside.count == count)?.words.first_chunk().copied()
    }

    /// The request is completed, or forgotten. Behind the reader's lock.
    #[inline(always)]
    pub(super) fn finish(&self, count: u32) {
        if self.is_aside(count) {
            self.finish_aside(count);
        } else if let Some(done) = self.done(count) {
            done.store(count.wrapping_add(1), Ordering::Release);
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_aside(&self, count: u32) {
        self.aside().retain(|aside| aside.count != count);
    }

    /// Whether the request with this count is a message's which is not completed, as far as is known.
    fn is_wanted(&self, head: Head, count: u32) -> bool {
        let by = taker(&self.words, self.srq, self.board.slots, head, count);
        !self.is_done(count) && by != Some(BEHIND_LOCK)
    }

    /// Rings take no more requests: the head was this one.
    pub(crate) fn freeze(&self, head: Head) {
        self.frozen.store(head.0, Ordering::Release);
    }

    fn head(&self) -> Head {
        let frozen = self.frozen.load(Ordering::Acquire);
        if frozen != 0 {
            return Head(frozen);
        }
        Head(self.words.load(Word::Srq(self.srq, SrqWord::Head)))
    }

    /// Copies of what messages want of these requests.
    fn copies(&self, head: Head, counts: impl Iterator<Item = u32>) -> Option<Vec<Aside>> {
        let mut copies = Vec::new();
        for count in counts.filter(|count| self.is_wanted(head, *count)) {
            let words = self.entry(count)?.iter().map(|word| word.load(Ordering::Relaxed));
            let by = taker(&self.words, self.srq, self.board.slots, head, count);
            copies.try_push(Aside { count, by, words: try_collect(words).ok()? }).ok()?;
        }
        Some(copies)
    }

    /// Requests that are taken and stand in the ring still, where so many were posted.
    fn taken(&self, head: Head, tail: u32) -> impl Iterator<Item = u32> + use<> {
        let first = tail.wrapping_sub(self.requests.2);
        let count = head.count().wrapping_sub(first).min(self.requests.2);
        (0..count).map(move |n| first.wrapping_add(n))
    }

    fn put_aside(&self, copies: Vec<Aside>) -> Option<()> {
        let mut aside = self.aside();
        if aside.len() + copies.len() > MOST_ASIDE {
            return None;
        }
        aside.try_reserve(copies.len()).ok()?;
        copies.into_iter().for_each(|copy| aside.push_reserved(copy));
        Some(())
    }

    /// The ring is about to be another one: puts aside what messages want of it. Behind the queue's lock, with
    /// no more requests [taken by rings](SharedRequests::freeze), and behind all readers' locks. `None` where
    /// there is no memory for it, and nothing has changed.
    pub(crate) fn leave(&self, tail: u32) -> Option<()> {
        if self.is_left.load(Ordering::Acquire) {
            return Some(());
        }
        let head = self.head();
        let copies = self.copies(head, self.taken(head, tail))?;
        self.put_aside(copies)?;
        self.is_left.store(true, Ordering::Release);
        Some(())
    }

    /// A request that the sender of this queue pair's closed ring has taken, and no message has, as
    /// `has_message` says of those that wait: its words. Nobody takes it for finished any more, so that it is
    /// told once. Behind the lock of the ring's reader, after [`SharedRequests::close`].
    pub(crate) fn lost(&self, qp: u32, head: Head, has_message: impl Fn(u32) -> bool) -> Option<Vec<u64>> {
        let me = signature(qp);
        let mut aside = self.aside();
        let is_lost = |aside: &Aside| aside.by == Some(me) && !has_message(aside.count);
        if let Some(place) = aside.iter().position(is_lost) {
            return Some(aside.swap_remove(place).words);
        }
        drop(aside);
        if self.is_left.load(Ordering::Acquire) {
            return None;
        }
        let counts = self.taken(head, self.posted.load(Ordering::Acquire));
        let is_sent = |count| self.is_done(count) || has_message(count);
        let count = unsent(&self.words, self.srq, self.board.slots, head, counts, qp, is_sent)?;
        let words = try_collect(self.entry(count)?.iter().map(|word| word.load(Ordering::Relaxed))).ok();
        self.finish(count);
        words
    }

    /// A ring was closed: what its sender takes from now on it does not get. The head as it is then.
    pub(crate) fn close(&self) -> Head {
        if self.frozen.load(Ordering::Acquire) == 0 {
            touch(&self.words, self.srq);
        }
        self.head()
    }
}

/// What the owner promises to the senders of all rings, behind the lock of the receive requests.
#[derive(Debug)]
pub(crate) struct SharedPromise {
    shared: Arc<SharedRequests>,
    pd: u32,
    credit: Credit,
    /// The key that was looked up last.
    key_cache: KeyCache,
    /// Requests from this one on no ring takes.
    closed_at: Option<u32>,
}

impl SharedPromise {
    /// Nothing yet: no request waits of those before this count.
    pub(crate) fn new(shared: &Arc<SharedRequests>, pd: u32, head: u32) -> Self {
        let credit = Credit::new(&shared.words, 0, head);
        Self { shared: shared.clone(), pd, credit, key_cache: KeyCache::default(), closed_at: None }
    }

    pub(crate) fn shared(&self) -> &Arc<SharedRequests> {
        &self.shared
    }

    /// From this count on, no ring takes requests.
    pub(crate) fn close(&mut self, head: u32) {
        self.closed_at.get_or_insert(head);
    }

    /// Whether the place of the request with this count may be another's: nobody wants what stood there.
    #[inline(always)]
    pub(crate) fn is_free(&self, tail: u32) -> bool {
        let before = tail.wrapping_sub(self.shared.requests.2);
        self.shared.is_done(before) || !self.is_wanted(before)
    }

    fn is_wanted(&self, count: u32) -> bool {
        let is_open = self.closed_at.is_none_or(|closed| (closed.wrapping_sub(count) as i32) > 0);
        is_open && self.shared.is_wanted(self.shared.head(), count)
    }

    /// Makes the place of the request with this count free. Behind all readers' locks.
    #[cold]
    pub(crate) fn make_free(&self, tail: u32) -> Option<()> {
        let before = tail.wrapping_sub(self.shared.requests.2);
        let copies = self.shared.copies(self.shared.head(), std::iter::once(before))?;
        self.shared.put_aside(copies)?;
        // It is looked for there from now on.
        self.shared.posted.store(tail.wrapping_add(1), Ordering::Release);
        self.shared.done(before)?.store(before.wrapping_add(1), Ordering::Release);
        Some(())
    }

    /// The request with this count is about to be posted, in a place that is free.
    #[inline(always)]
    pub(crate) fn post(&self, tail: u32) {
        self.shared.posted.store(tail.wrapping_add(1), Ordering::Release);
    }

    /// A request was posted, while `head` are taken.
    #[inline(always)]
    pub(crate) fn posted(&mut self, endpoint: &Endpoint, first: Option<&Sge>) {
        let (bytes, key) = match first {
            Some(sge) if sge.length > 0 && self.is_good(endpoint, sge) => (sge.length, sge.lkey),
            _ => (0, 0),
        };
        let shared = &*self.shared;
        self.credit.posted(&shared.words, 0, bytes, key, || shared.head().count());
    }

    /// Whether a message may go to this memory as long as its key is as it is.
    #[inline(always)]
    fn is_good(&mut self, endpoint: &Endpoint, sge: &Sge) -> bool {
        self.key_cache.find(&endpoint.keys, self.pd, sge.lkey, sge.addr, sge.length, true).is_some()
    }
}
