//! The owner's side of direct rings: a poll of a completion queue takes from both.
//!
//! Messages in a ring and completions in the shared queue are handed out in the order of [`Receiver::turn`] and
//! [`Receiver::before`], and both behind own completions ([`OwnReader::lets_pass`]).

mod datagrams;
mod early;
mod next_slot;
mod pooled;
mod soon;
mod watched;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::entries::{Entries, not_placed};
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::near::own_ring::OwnReader;
use crate::queues::direct::{Arrived, Close, MAX_DIRECT, MAX_POOLED, Receiver};
use crate::queues::shared::slot;
use crate::queues::transaction::{Machine as _, Progress};
use crate::rules::completion::Completion;
use crate::rules::verbs::{Status, WcFlags, WcOpcode};
use crate::shm::objects::{DirectRing, HeldWords};

use super::doorbell::Doorbell;
use super::{DatagramReader, Direct, MOST, Pools, Rings, SharedRequests, WATCHED};
use next_slot::NextSlot;

/// A ring that messages are taken from.
#[derive(Debug)]
pub(crate) struct RingReader {
    direct: Arc<Direct>,
    qp_num: u32,
    src_qp: u32,
    ring: HeldWords,
    receiver: Receiver,
    /// Messages that were taken out of the ring before their turn, and their completions.
    early: VecDeque<(Arrived, Completion)>,
    /// The receive requests: words of each, entries.
    requests: (HeldWords, usize, u32),
    /// Those of a shared receive queue, in their place.
    shared: Option<Arc<SharedRequests>>,
    /// Where the next message is seen.
    next: NextSlot,
    /// The key of the memory that messages went to last.
    key_cache: KeyCache,
    /// Own completions come before the next message that were there when it was first seen: up to this count.
    own_first: Option<u32>,
    /// The request of a shared receive queue that the next message most likely gets, and bytes of the last one,
    /// which was a long one.
    soon: Option<(u32, u32)>,
    /// Its bit of the doorbell.
    bit: u32,
    /// Slots that were taken when it was looked last whether nothing comes.
    taken_then: u32,
}

/// Moves the payload of a message to the buffer of a request with these words; its completion.
macro_rules! delivered {
    ($reader:ident, $endpoint:ident, $message:ident, $imm:expr, $word:ident) => {{
        let ring = DirectRing::of(&$reader.ring);
        let (imm_or_key, flags) = $imm.map_or((0, WcFlags::NONE), |imm| (imm, WcFlags::WITH_IMM));
        let mut completion = Completion {
            wr_id: $word(0),
            status: Status::Success,
            opcode: WcOpcode::Recv,
            vendor_err: 0,
            byte_len: $message.bytes,
            imm_or_key,
            qp_num: $reader.qp_num,
            src_qp: $reader.src_qp,
            flags,
            timestamp: 0,
            places: 0,
        };
        if $message.bytes > 0 {
            let length_key = if $word(1) > 0 { $word(3) } else { 0 };
            let (addr, length, lkey) = ($word(2), length_key as u32, (length_key >> 32) as u32);
            let fits = $message.bytes <= length;
            let is_placed = match $reader.receiver.piece($message) {
                _ if $message.pooled.is_some() => {
                    $reader.place_pooled($endpoint, $message, (addr, lkey), fits)?
                }
                _ if !fits => false,
                Some((first, words)) => {
                    let (payload, bytes) = (ring.words(first, words), $message.bytes as usize);
                    let (key_cache, pd) = (&mut $reader.key_cache, $reader.direct.pd);
                    bytes::place_again($endpoint, key_cache, pd, (addr, lkey), payload, bytes).is_some()
                }
                None => $reader.place($endpoint, $message, addr, lkey),
            };
            if !is_placed {
                completion = not_placed(&completion);
            }
        }
        completion
    }};
}

impl RingReader {
    /// That of a queue pair with this number, connected to that one, whose receive requests stand there.
    pub(crate) fn new(
        direct: &Arc<Direct>,
        qp_num: u32,
        src_qp: u32,
        requests: (HeldWords, usize, u32),
        shared: Option<Arc<SharedRequests>>,
    ) -> Self {
        let receiver = Receiver::new(direct.qp, direct.place.slots, direct.completed());
        let (ring, direct) = (direct.ring.clone(), direct.clone());
        // SAFETY: the ring is kept beside it.
        let next = unsafe { NextSlot::of(&ring, &receiver) };
        let (early, key_cache) = (VecDeque::new(), KeyCache::default());
        let (own_first, soon, bit, taken_then) = (None, None, 0, 0);
        Self {
            direct,
            qp_num,
            src_qp,
            ring,
            receiver,
            early,
            requests,
            shared,
            next,
            key_cache,
            own_first,
            soon,
            bit,
            taken_then,
        }
    }

    /// Whether there may be a message.
    #[inline(always)]
    fn is_there(&self) -> bool {
        self.next.is_written() || !self.early.is_empty()
    }

    #[inline(always)]
    fn look_for_next(&mut self) {
        // SAFETY: the ring is kept beside it.
        self.next = unsafe { NextSlot::of(&self.ring, &self.receiver) };
    }

    /// The message whose turn it is, if `head` completions of the shared queue were taken.
    #[inline(always)]
    fn turn(
        &mut self,
        head: u32,
        others_wait: impl Fn() -> bool,
        tail: impl FnOnce() -> u32,
    ) -> Option<Arrived> {
        if !self.is_there() {
            return None;
        }
        self.receiver.turn(&DirectRing::of(&self.ring), head, others_wait, tail)
    }

    /// The completion of the message whose turn it is, with its payload where it belongs.
    #[inline(always)]
    fn complete(&mut self, endpoint: &Endpoint, message: &Arrived) -> Option<Completion> {
        if !self.early.is_empty() {
            return self.complete_early();
        }
        let completion = self.deliver(endpoint, message)?;
        self.receiver.take(&DirectRing::of(&self.ring), message);
        self.look_for_next();
        self.publish_completed();
        Some(completion)
    }

    /// Hands out the next message where it is [as nearly all are](Receiver::plain), and no completion waits in
    /// the shared queue, nor an own one that was there before: `next` is the word where the next one is seen,
    /// `head` were taken.
    #[inline(always)]
    fn take_plain<const SHARED: bool>(
        &mut self,
        endpoint: &Endpoint,
        next: &AtomicU64,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        let slot = self.next.words();
        let first = slot[0].load(Ordering::Acquire);
        match self.receiver.plain(first, || slot[1].load(Ordering::Relaxed)) {
            Some(message) => self.hand_out_plain::<SHARED>(endpoint, &message, next, head, own, take),
            None => self.take_pooled::<SHARED>(endpoint, next, head, own, take),
        }
    }

    /// As [`RingReader::take_plain`], where the payload is in the pool.
    #[inline(never)]
    fn take_pooled<const SHARED: bool>(
        &mut self,
        endpoint: &Endpoint,
        next: &AtomicU64,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        match self.receiver.plain_pooled(&DirectRing::of(&self.ring)) {
            Some(message) => {
                let is_taken = self.hand_out_plain::<SHARED>(endpoint, &message, next, head, own, take);
                self.fetch_next_pooled();
                is_taken
            }
            None => false,
        }
    }

    #[inline(always)]
    fn hand_out_plain<const SHARED: bool>(
        &mut self,
        endpoint: &Endpoint,
        message: &Arrived,
        next: &AtomicU64,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        // Looked at after the message was seen: what stands there, or completed here, comes first.
        if next.load(Ordering::Acquire) as u32 == head.wrapping_add(1) || !own.lets_pass(&mut self.own_first)
        {
            return false;
        }
        let Some(completion) = self.deliver_to::<SHARED>(endpoint, message) else { return false };
        self.receiver.take(&DirectRing::of(&self.ring), message);
        self.look_for_next();
        self.direct.completed.store(self.receiver.completed(), Ordering::Release);
        take(&completion);
        true
    }

    /// Moves the payload of a message to the buffer of its request; its completion. `None` where its sender
    /// moves it just now.
    #[inline(always)]
    fn deliver(&mut self, endpoint: &Endpoint, message: &Arrived) -> Option<Completion> {
        if self.shared.is_some() {
            self.deliver_to::<true>(endpoint, message)
        } else {
            self.deliver_to::<false>(endpoint, message)
        }
    }

    /// As [`RingReader::deliver`], of a ring that is known to lead into a shared receive queue or not.
    #[inline(always)]
    fn deliver_to<const SHARED: bool>(
        &mut self,
        endpoint: &Endpoint,
        message: &Arrived,
    ) -> Option<Completion> {
        if SHARED { self.deliver_shared(endpoint, message) } else { self.deliver_own(endpoint, message) }
    }

    /// As [`RingReader::deliver`], for a request of the queue pair.
    #[inline(always)]
    fn deliver_own(&mut self, endpoint: &Endpoint, message: &Arrived) -> Option<Completion> {
        let (requests, stride, capacity) = &self.requests;
        let request = requests.get().get(stride * slot(message.number, *capacity) as usize..)?;
        let request: &[AtomicU64; 4] = request.first_chunk()?;
        let word = |n: usize| request[n].load(Ordering::Relaxed);
        Some(delivered!(self, endpoint, message, message.imm, word))
    }

    /// As [`RingReader::deliver`], for a request of a shared receive queue.
    #[inline(always)]
    fn deliver_shared(&mut self, endpoint: &Endpoint, message: &Arrived) -> Option<Completion> {
        let ring = DirectRing::of(&self.ring);
        let count = self.receiver.request(&ring, message);
        let Some(request) = self.shared.as_ref()?.request(count) else {
            // Nobody honest wrote that.
            self.receiver.refuse();
            return None;
        };
        let (imm, word) = (self.receiver.imm_beside(&ring, message), |n: usize| request[n]);
        let completion = delivered!(self, endpoint, message, imm, word);
        self.shared.as_ref()?.finish(count);
        if message.pooled.is_some() {
            self.soon = Some((count.wrapping_add(1), message.bytes));
        }
        Some(completion)
    }

    /// Moves a payload that stands in several slots.
    #[inline(never)]
    fn place(&mut self, endpoint: &Endpoint, message: &Arrived, addr: u64, lkey: u32) -> bool {
        let ring = DirectRing::of(&self.ring);
        let pieces = self.receiver.pieces(message).map(|(first, words)| ring.words(first, words));
        let (key_cache, pd) = (&mut self.key_cache, self.direct.pd);
        bytes::place_pieces(endpoint, key_cache, pd, (addr, lkey), pieces, message.bytes).is_some()
    }

    /// Who posts receive requests learns how many are completed.
    #[inline(always)]
    fn publish_completed(&self) {
        self.direct.completed.store(self.receiver.completed(), Ordering::Release);
        if self.receiver.is_over() {
            self.direct.is_over.store(true, Ordering::Release);
        }
    }
}

/// What there is before a completion of the shared queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// A message, which was handed out.
    Taken,
    /// A message, before which own completions come, or whose payload is not there yet.
    Waits,
}

/// The rings that messages are taken from when a completion queue is polled.
#[derive(Debug, Default)]
pub(crate) struct RingReaders {
    /// Those that each poll looks at.
    watched: Vec<RingReader>,
    /// The others, whose senders ring the doorbell.
    others: Vec<RingReader>,
    doorbell: Doorbell,
    /// Since it was looked last by which of them nothing comes: polls in vain, and messages of another ring
    /// than the one that was looked at first.
    age: u32,
    /// The one whose completion was taken from the shared queue last.
    latest: usize,
    /// Senders fence, each for itself.
    fenced: bool,
    /// The one to look at first.
    first: usize,
    /// One of them leads, or led, into a shared receive queue.
    leads_to_shared: bool,
    /// Those of datagrams, and whose are looked at first.
    datagrams: Vec<DatagramReader>,
    next_datagram: usize,
    /// A datagram was taken last.
    after_datagram: bool,
}

impl RingReaders {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.others.is_empty()
    }

    /// Whether there may be a message in a ring, `DATAGRAMS` included.
    #[inline(always)]
    pub(crate) fn may_have_message<const DATAGRAMS: bool>(&self) -> bool {
        self.watched.iter().any(RingReader::is_there) || DATAGRAMS && self.may_have_datagram()
    }

    /// Hands out the message whose turn it is when `head` completions of the shared queue were taken, which has
    /// these entries; whether there was one.
    #[inline(always)]
    pub(crate) fn take_message(
        &mut self,
        endpoint: &Endpoint,
        entries: &Entries,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        if self.leads_to_shared {
            self.take_from_either(endpoint, entries, head, own, take)
        } else {
            self.take_from::<false>(endpoint, entries, head, own, take)
        }
    }

    #[inline(never)]
    fn take_from_either(
        &mut self,
        endpoint: &Endpoint,
        entries: &Entries,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        if self.watched.get(self.first).is_some_and(|reader| reader.shared.is_some()) {
            self.take_from::<true>(endpoint, entries, head, own, take)
        } else {
            self.take_from::<false>(endpoint, entries, head, own, take)
        }
    }

    /// The same, where the ring to look at first leads into a shared receive queue or not.
    #[inline(never)]
    fn take_from<const SHARED: bool>(
        &mut self,
        endpoint: &Endpoint,
        entries: &Entries,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        if !endpoint.segment.is_mine() {
            return false;
        }
        if let (Some(next), Some(reader)) = (entries.word(head), self.watched.get_mut(self.first))
            && reader.take_plain::<SHARED>(endpoint, next, head, own, take)
        {
            self.first = if self.first + 1 < self.watched.len() { self.first + 1 } else { 0 };
            return true;
        }
        self.take_any(endpoint, entries, head, own, take)
    }

    /// As [`RingReaders::take_message`], whichever ring it is in and whatever it is.
    #[inline(never)]
    fn take_any(
        &mut self,
        endpoint: &Endpoint,
        entries: &Entries,
        head: u32,
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        self.grow_older(1);
        match self.turn(entries, head, own) {
            Some((place, message)) => self.hand_out(endpoint, place, &message, take),
            None => false,
        }
    }

    /// Hands out a message that comes before the completion of a receive request with these words, if there is
    /// one.
    #[inline(never)]
    pub(crate) fn take_before(
        &mut self,
        endpoint: &Endpoint,
        words: &[AtomicU64],
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> Before {
        let Some(qp_num) = words.get(3).map(|word| (word.load(Ordering::Relaxed) >> 32) as u32) else {
            return Before::Nothing;
        };
        let Some(reader) = self.of_number(qp_num) else { return Before::Nothing };
        let Some(message) = reader.receiver.before(&DirectRing::of(&reader.ring)) else {
            return Before::Nothing;
        };
        if !own.lets_pass(&mut reader.own_first) {
            return Before::Waits;
        }
        match reader.complete(endpoint, &message) {
            Some(completion) => {
                take(&completion);
                Before::Taken
            }
            None if message.pooled.is_some() => Before::Waits,
            None => Before::Nothing,
        }
    }

    #[inline(always)]
    fn hand_out(
        &mut self,
        endpoint: &Endpoint,
        place: usize,
        message: &Arrived,
        take: &mut impl FnMut(&Completion),
    ) -> bool {
        let Some(reader) = self.watched.get_mut(place) else { return false };
        let Some(completion) = reader.complete(endpoint, message) else { return false };
        take(&completion);
        true
    }

    /// The message whose turn it is among all rings, and the place of its ring.
    #[inline(always)]
    fn turn(&mut self, entries: &Entries, head: u32, own: &OwnReader) -> Option<(usize, Arrived)> {
        let next = entries.word(head)?;
        let others_wait = || next.load(Ordering::Acquire) as u32 == head.wrapping_add(1);
        // What cannot be true is not waited for.
        let tail = || head.wrapping_add(entries.waiting(head).unwrap_or(0));
        let count = self.watched.len();
        for n in 0..count {
            let place = if self.first + n < count { self.first + n } else { self.first + n - count };
            let reader = self.watched.get_mut(place)?;
            if let Some(found) = reader.turn(head, others_wait, tail)
                && own.lets_pass(&mut reader.own_first)
            {
                self.first = if place + 1 < count { place + 1 } else { 0 };
                return Some((place, found));
            }
        }
        None
    }

    /// A completion of a receive request was taken from the shared queue. Where it could have come by a pool,
    /// there is one from now on.
    #[inline(never)]
    pub(crate) fn passed(
        &mut self,
        completion: &Completion,
        endpoint: &Endpoint,
        (pools, rings): (&Pools, &Rings),
    ) {
        if let Some(reader) = self.of_number(completion.qp_num) {
            reader.receiver.passed();
            reader.publish_completed();
            let is_new = reader.direct.pool.get().is_none();
            let is_long = (MAX_DIRECT as u32 + 1..=MAX_POOLED).contains(&completion.byte_len);
            if is_long && is_new && completion.status == Status::Success {
                reader.direct.open_pool(endpoint, pools);
            }
        }
        if !self.datagrams.is_empty() {
            self.passed_datagrams(completion, endpoint, rings);
        }
    }

    /// Closes a ring, behind the lock of its queue pair, where that took `head` receive requests by what stands
    /// there; how many are taken then. `None` when it is not among them.
    pub(crate) fn close(&mut self, direct: &Direct, head: u32) -> Option<u32> {
        let ring = self.of(direct)?;
        let closed = Close::new(&mut ring.receiver, head).step(&DirectRing::of(&ring.ring));
        ring.publish_completed();
        // Nobody rings for what is there.
        self.watch(|ring| std::ptr::eq(&*ring.direct, direct));
        if let Progress::Done(taken) = closed { Some(taken) } else { None }
    }

    /// Takes the messages that wait in a ring out of it before their turn: [`RingReader::take_early`].
    pub(crate) fn take_early(&mut self, endpoint: &Endpoint, direct: &Direct) -> Option<u32> {
        self.of(direct)?.take_early(endpoint)
    }

    /// Forgets a ring, and the messages in it that nobody polled, if they are this process's.
    pub(crate) fn remove(&mut self, direct: &Direct, is_mine: bool) {
        if let Some(reader) = self.of(direct) {
            if is_mine {
                reader.forget_pooled();
            }
            if let Some(shared) = &reader.shared {
                let ring = DirectRing::of(&reader.ring);
                reader.receiver.each_request(&ring, |request| shared.finish(request));
            }
        }
        self.forget(direct);
    }

    /// Whether a message of this ring waits that has this request of a shared receive queue.
    pub(crate) fn has_message(&self, direct: &Direct, request: u32) -> bool {
        let Some(reader) = self.all().find(|ring| std::ptr::eq(&*ring.direct, direct)) else {
            return false;
        };
        let mut is_there = false;
        reader.receiver.each_request(&DirectRing::of(&reader.ring), |other| is_there |= other == request);
        is_there
    }

    fn of(&mut self, direct: &Direct) -> Option<&mut RingReader> {
        let mut all = self.watched.iter_mut().chain(&mut self.others);
        all.find(|ring| std::ptr::eq(&*ring.direct, direct))
    }

    /// Messages that nobody polled.
    pub(crate) fn waiting(&self) -> u32 {
        let waiting = |reader: &RingReader| {
            reader.receiver.waiting(&DirectRing::of(&reader.ring)) + reader.early.len() as u32
        };
        let datagrams = self.datagrams.iter().map(DatagramReader::count_waiting);
        self.all().map(waiting).chain(datagrams).sum()
    }
}
