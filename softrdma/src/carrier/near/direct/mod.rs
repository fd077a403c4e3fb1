//! Direct rings of connected queue pairs ([`queues::direct`](crate::queues::direct)).
//!
//! | file | what |
//! |---|---|
//! | this | the memory of rings, and the owner's part of one |
//! | `doorbell` | the doorbell of rings that are not looked at with each poll |
//! | `pools`, `pooled` | payload of longer messages: the owner's memory for it, and the initiator's side |
//! | `reader` | messages taken from rings and completions from the shared queue, in order |
//! | `writer`, `prepared`, `prepared_send` | the initiator's side; messages sent as the last one was |
//! | [`datagrams`], `datagram_writer` | the two sides of rings of datagrams |
//! | `shared_requests`, `shared_writer`, `shared_send` | the two sides of rings into a shared receive queue |
//!
//! A queue pair gets a ring when it goes to RTR, where its completion queue has room for all that may
//! complete there: what waits in a ring does not overrun a queue. It gets none where a reset left completions
//! there, since messages are put in order by how many receive requests were completed. The ring stays until
//! the queue pair is reset or ends; in ERR it is closed, and what is in it is handed out before what was
//! flushed.

mod datagram_writer;
mod datagrams;
mod doorbell;
mod pooled;
mod pools;
mod prepared;
mod prepared_send;
mod reader;
mod shared_requests;
mod shared_send;
mod shared_writer;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ironverbs_os::growth::{TryPush, try_arc};

use crate::queues::direct::{Credit, DirectWord, Receiver, ring_words};
use crate::queues::shared::{Memory as _, Word};
use crate::rules::receive::Sge;
use crate::shm::lock::{Liveness as _, Owner};
use crate::shm::objects::{DirectRing, HeldWords};
use crate::shm::segment::Segment;

use crate::carrier::near::attributes::Place;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;

pub(crate) use datagram_writer::DatagramWriters;
pub(crate) use datagrams::{DatagramReader, Datagrams, Settled, WORDS as DATAGRAM_WORDS, Waiting};
use pools::Pool;
pub(crate) use pools::Pools;
pub(crate) use prepared_send::{find_room, send_prepared, send_word};
pub(crate) use reader::{Before, RingReader, RingReaders};
pub(crate) use shared_requests::{Boards, SharedPromise, SharedRequests};
pub(crate) use shared_send::send_shared_prepared;
pub(crate) use writer::{
    RingWriter, enter, has_older, is_settled, left, move_older, send, wake, was_delivered,
};

/// Slots of a ring.
const SLOTS: u32 = 64;
/// Most rings of a completion queue: a poll looks at each by which messages come.
const MOST: usize = 256;
/// Where there are no more than so many, each is looked at.
const WATCHED: usize = if cfg!(simulated) { 1 } else { 8 };
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Looks for room in a full ring, or pool, before a message goes another way: some microseconds.
const LOOKS: u32 = 150;
/// Most rings that wait for their writers to leave.
const RESTING: usize = 256;

/// Rings that no queue pair has. What was a ring is never anything else, as its writer may have been
/// stopped when it was about to write; and it serves again only when that has left it, or died.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    resting: Mutex<Vec<u64>>,
    /// Tables of datagram queue pairs.
    tables: Mutex<Vec<u64>>,
    /// Doorbells of completion queues.
    doorbells: Mutex<Vec<u64>>,
}

impl Rings {
    /// A ring, all zero.
    fn take(&self, segment: &Segment) -> Option<Place> {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        // For the day when all are given back.
        resting.try_reserve(RESTING + 1).ok()?;
        let (memory, bytes) = (segment.memory(), 8 * u64::from(ring_words(SLOTS)));
        let is_left = |at: u64| {
            let ring = DirectRing::at(memory, at, SLOTS);
            let writer = ring.map(|ring| ring.load(Word::Direct { qp: 0, word: DirectWord::Writer as u32 }));
            writer.is_some_and(|word| Owner::from_word(word).is_none_or(|writer| !segment.lives(writer)))
        };
        let at = match resting.iter().position(|at| is_left(*at)) {
            Some(place) => {
                let at = resting.swap_remove(place);
                memory.clear(at, bytes).ok()?;
                at
            }
            None if resting.len() < RESTING => segment.alloc(bytes, 64).ok()?.offset,
            None => return None,
        };
        Some(Place { at, slots: SLOTS })
    }

    /// A table of a datagram queue pair, all zero: its offset.
    fn take_table(&self, segment: &Segment) -> Option<u64> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.try_reserve(1).ok()?;
        let bytes = 8 * datagrams::TABLE_WORDS as u64;
        let Some(at) = tables.pop() else { return Some(segment.alloc(bytes, 64).ok()?.offset) };
        segment.memory().clear(at, bytes).ok()?;
        Some(at)
    }

    /// Gives a table back that nobody is told of any more.
    fn give_back_table(&self, at: u64) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        // There are no more of them than there were queue pairs at a time.
        if tables.len() < tables.capacity() {
            tables.push_reserved(at);
        }
    }

    /// A doorbell, which may have been rung: its offset.
    fn take_doorbell(&self, segment: &Segment) -> Option<u64> {
        let mut doorbells = self.doorbells.lock().unwrap_or_else(PoisonError::into_inner);
        // For the day when it is given back.
        doorbells.try_reserve(1).ok()?;
        match doorbells.pop() {
            Some(at) => Some(at),
            None => Some(segment.alloc(LINE, LINE).ok()?.offset),
        }
    }

    /// Gives a doorbell back. It is never anything else: a sender may be about to ring it.
    fn give_back_doorbell(&self, at: u64) {
        let mut doorbells = self.doorbells.lock().unwrap_or_else(PoisonError::into_inner);
        if doorbells.len() < doorbells.capacity() {
            doorbells.push_reserved(at);
        }
    }

    /// Gives a ring back that is closed.
    fn give_back(&self, place: Place) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if resting.len() < resting.capacity() {
            resting.push_reserved(place.at);
        }
    }
}

/// The ring of a queue pair.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) place: Place,
    ring: HeldWords,
    /// The pool of its writer, once that sent a longer message.
    pool: OnceLock<Arc<Pool>>,
    qp: u32,
    pd: u32,
    /// Receive requests of the queue pair that are completed, as far as was polled.
    completed: AtomicU32,
    /// As many whose memory nobody looks at any more, when that was found out last.
    freed: AtomicU32,
    /// It is closed, and all of its messages were taken.
    is_over: AtomicBool,
}

impl Direct {
    /// A ring for a queue pair of which so many receive requests are completed.
    pub(crate) fn new(rings: &Rings, endpoint: &Endpoint, qp: u32, pd: u32, head: u32) -> Option<Arc<Self>> {
        let place = rings.take(&endpoint.segment)?;
        let Some(ring) = endpoint.own.hold_ring(place.at, place.slots) else {
            rings.give_back(place);
            return None;
        };
        let (completed, freed, is_over) = (head.into(), head.into(), false.into());
        let pool = OnceLock::new();
        let made = try_arc(Self { place, ring, pool, qp, pd, completed, freed, is_over });
        made.inspect_err(|_| rings.give_back(place)).ok()
    }

    /// Its memory may serve another queue pair.
    pub(crate) fn give_back(&self, rings: &Rings) {
        rings.give_back(self.place);
    }

    #[inline(always)]
    pub(crate) fn completed(&self) -> u32 {
        self.completed.load(Ordering::Acquire)
    }

    /// Whether the process that writes there lives.
    #[cold]
    fn is_written(&self, endpoint: &Endpoint) -> bool {
        let word = self.ring().load(Word::Direct { qp: self.qp, word: DirectWord::Writer as u32 });
        Owner::from_word(word).is_some_and(|writer| endpoint.segment.lives(writer))
    }

    /// Longer messages come by the pool of its writer from now on, where there is one.
    #[cold]
    pub(super) fn open_pool(&self, endpoint: &Endpoint, pools: &Pools) {
        let ring = self.ring();
        let word = |word| Word::Direct { qp: self.qp, word: word as u32 };
        let writer = Owner::from_word(ring.load(word(DirectWord::Writer)));
        if let Some(pool) = writer.and_then(|writer| pools.of(endpoint, writer)) {
            ring.store(word(DirectWord::Pool), self.pool.get_or_init(|| pool).at);
        }
    }

    /// All requests before these two counts are completed, or taken with what their messages brought.
    pub(crate) fn free(&self, one: u32, other: u32) {
        let freed = self.freed.load(Ordering::Relaxed);
        self.freed.store(later(later(one, other), freed), Ordering::Release);
    }

    #[inline(always)]
    fn ring(&self) -> DirectRing<'_> {
        DirectRing::of(&self.ring)
    }
}

/// The later of two counts.
fn later(a: u32, b: u32) -> u32 {
    if (b.wrapping_sub(a) as i32) > 0 { b } else { a }
}

/// What the owner promises to the sender, behind the lock of the receive requests.
#[derive(Debug)]
pub(crate) struct Promise {
    direct: Arc<Direct>,
    credit: Credit,
    /// The key that was looked up last.
    key_cache: KeyCache,
}

impl Promise {
    /// Nothing yet: no request waits.
    pub(crate) fn new(direct: &Arc<Direct>) -> Self {
        let credit = Credit::new(&direct.ring(), direct.qp, direct.completed());
        Self { direct: direct.clone(), credit, key_cache: KeyCache::default() }
    }

    /// Whether the memory of the request with this count may be looked at no more, so that another of a
    /// queue of so many entries may have it.
    #[inline(always)]
    pub(crate) fn is_free(&self, tail: u32, capacity: u32) -> bool {
        tail.wrapping_sub(self.direct.completed()) < capacity || self.is_freed(tail, capacity)
    }

    #[cold]
    fn is_freed(&self, tail: u32, capacity: u32) -> bool {
        tail.wrapping_sub(self.direct.freed.load(Ordering::Acquire)) < capacity
            || self.direct.is_over.load(Ordering::Acquire)
    }

    /// Requests that are completed, as far as was polled.
    #[inline]
    pub(crate) fn completed(&self) -> u32 {
        self.direct.completed()
    }

    /// Whether more was polled than is known to be taken, where `head` are by what stands at the queue
    /// pair.
    #[cold]
    pub(crate) fn is_ahead(&self, head: u32) -> bool {
        (self.direct.completed().wrapping_sub(self.seen_taken(head)) as i32) > 0
    }

    fn seen_taken(&self, head: u32) -> u32 {
        let Direct { qp, place, .. } = &*self.direct;
        Receiver::taken(&self.direct.ring(), *qp, place.slots, head)
    }

    /// Requests that are taken, where `head` are by what stands at the queue pair.
    #[cold]
    pub(crate) fn taken(&self, head: u32) -> u32 {
        let known = [self.direct.completed(), self.direct.freed.load(Ordering::Acquire)];
        known.into_iter().fold(self.seen_taken(head), later)
    }

    /// A request was posted.
    #[inline(always)]
    pub(crate) fn posted(&mut self, endpoint: &Endpoint, first: Option<&Sge>) {
        let (bytes, key) = match first {
            Some(sge) if sge.length > 0 && self.is_good(endpoint, sge) => (sge.length, sge.lkey),
            _ => (0, 0),
        };
        let direct = &*self.direct;
        self.credit.posted(&direct.ring(), direct.qp, bytes, key, || direct.completed());
    }

    /// Whether a message may go to this memory as long as its key is as it is.
    #[inline(always)]
    fn is_good(&mut self, endpoint: &Endpoint, sge: &Sge) -> bool {
        let (keys, pd) = (&endpoint.keys, self.direct.pd);
        self.key_cache.find(keys, pd, sge.lkey, sge.addr, sge.length, true).is_some()
    }
}
