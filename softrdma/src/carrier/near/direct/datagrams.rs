//! The owner's side of direct rings of datagrams
//! ([`queues::direct::datagram`](crate::queues::direct::datagram)).
//!
//! A datagram queue pair tells of a table, which says whose datagrams come by which ring. A sender gets one
//! when several datagrams of it came another way: to nobody else a ring is given, and there are as many as a
//! poll looks at ([`MOST`]). Where there are no more, one goes to another sender whose writer has left, or
//! died.
//!
//! Who polls takes the next datagram behind the lock of the queue pair, with the request at its head. All that
//! is out of the ordinary - a request of several pieces, or of memory that may not be there - is left to the
//! general way ([`DatagramReader::leaves`]), which carries it out as if it came just then
//! ([`DatagramReader::waiting`]).

mod requests;
mod taking;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ironverbs_os::growth::{TryPush, try_arc, try_room};

use crate::carrier::near::attributes::Place;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::near::mapped::Locked;
use crate::carrier::near::number::place_of;
use crate::queues::direct::datagram::{Datagram, Receiver};
use crate::queues::direct::{DirectWord, MAX_DIRECT};
use crate::queues::shared::{Memory as _, Word};
use crate::rules::completion::Completion;
use crate::rules::verbs::Status;
use crate::shm::lock::{Liveness as _, Owner};
use crate::shm::objects::{DirectRing, HeldWords};

use super::{LOOKS, Rings, SLOTS};
use requests::Own;
use taking::Ready;

/// Most rings of a completion queue's datagrams.
pub(super) const MOST: usize = 8;
/// Words of a table: a cache line.
pub(super) const TABLE_WORDS: usize = MOST;
/// Words of a datagram.
pub(crate) const WORDS: usize = MAX_DIRECT.div_ceil(8);
/// Datagrams of a sender that came another way, until it gets a ring.
const HEARD: u32 = 2;
/// As many until it is looked for one again.
const AGAIN: u32 = 64;
/// Completions that are taken while a datagram waits, until it is seen to.
const PATIENT: u32 = 64;
/// Every so many polls it is seen to that what waits goes on, while the lock cannot be had.
const SELDOM: u32 = 4096;

/// An entry of a table: the sender, and its ring.
pub(super) fn entry(src_qp: u32, place: Place) -> u64 {
    u64::from(src_qp) << 32 | u64::from(place.pack())
}

/// The rings of a datagram queue pair, as its owner knows them.
#[derive(Debug)]
pub(crate) struct Datagrams {
    /// The table.
    pub(crate) place: Place,
    table: HeldWords,
    /// The key of the queue pair.
    qkey: AtomicU32,
}

impl Datagrams {
    /// A table without rings.
    pub(crate) fn new(rings: &Rings, endpoint: &Endpoint, qkey: u32) -> Option<Arc<Self>> {
        let place = Place { at: rings.take_table(&endpoint.segment)?, slots: Place::TABLE };
        let made = endpoint
            .own
            .hold(place.at, TABLE_WORDS)
            .and_then(|table| try_arc(Self { place, table, qkey: qkey.into() }).ok());
        if made.is_none() {
            rings.give_back_table(place.at);
        }
        made
    }

    /// Another key counts from now on. Behind the queue pair's lock.
    pub(crate) fn set_key(&self, qkey: u32) {
        self.qkey.store(qkey, Ordering::Release);
    }

    /// Its memory may serve another queue pair.
    pub(crate) fn give_back(&self, rings: &Rings) {
        rings.give_back_table(self.place.at);
    }
}

/// A ring, and whose datagrams come by it.
#[derive(Debug)]
struct DatagramRing {
    src_qp: u32,
    place: Place,
    ring: HeldWords,
    receiver: Receiver,
    /// The word of the ring where the next one is seen, and from what count on.
    watched: (u32, u32),
    /// What that word said when there was none after all; no word says 0.
    in_vain: u64,
}

impl DatagramRing {
    /// Whether there may be a datagram.
    #[inline(always)]
    fn is_there(&self) -> bool {
        let word =
            self.ring.get().get(self.watched.0 as usize).map_or(0, |word| word.load(Ordering::Relaxed));
        // Its sender may have taken some back, and come round since.
        (word as u32).wrapping_sub(self.watched.1) as i32 >= 0 && word != self.in_vain
    }

    fn words(&self) -> DirectRing<'_> {
        DirectRing::of(&self.ring)
    }

    /// The next datagram. Behind the queue pair's lock.
    #[inline(always)]
    fn next(&mut self) -> Option<Datagram> {
        let found = self.receiver.next(&DirectRing::of(&self.ring));
        if found.is_none() {
            self.found_none();
        }
        found
    }

    #[cold]
    fn found_none(&mut self) {
        self.watched = self.receiver.watched();
        let word = self.ring.get().get(self.watched.0 as usize);
        self.in_vain = word.map_or(0, |word| word.load(Ordering::Relaxed));
        // It may have come just now.
        if self.in_vain as u32 == self.watched.1 {
            self.in_vain = 0;
        }
    }

    /// The one behind those that were passed.
    #[inline(always)]
    fn behind(&self) -> Option<Datagram> {
        self.receiver.behind(&DirectRing::of(&self.ring))
    }

    /// The next one was taken.
    #[inline(always)]
    fn take(&mut self, datagram: &Datagram) {
        self.receiver.take(&DirectRing::of(&self.ring), datagram);
        (self.watched, self.in_vain) = (self.receiver.watched(), 0);
    }

    /// The next one goes to this memory, with the request of this number.
    #[inline(always)]
    fn pass<const MOST_WORDS: usize>(
        &mut self,
        datagram: &Datagram,
        wr_id: u64,
        to: u64,
    ) -> Ready<MOST_WORDS> {
        let ring = DirectRing::of(&self.ring);
        let mut words = [0; MOST_WORDS];
        self.receiver.copy(&ring, datagram, &mut words);
        self.receiver.pass(&ring, datagram);
        Ready { wr_id, to, datagram: *datagram, words }
    }

    /// Those that were passed are taken.
    #[inline(always)]
    fn tell(&mut self) {
        self.receiver.tell(&DirectRing::of(&self.ring));
        (self.watched, self.in_vain) = (self.receiver.watched(), 0);
    }

    /// Whether a living process writes there, or may have begun to.
    fn is_written(&self, endpoint: &Endpoint) -> bool {
        let word = self.words().load(Word::Direct { qp: 0, word: DirectWord::Writer as u32 });
        Owner::from_word(word).is_some_and(|writer| endpoint.segment.lives(writer))
    }
}

/// A datagram that waits, for the general way.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Whose it is.
    pub(crate) src_qp: u32,
    /// What it brings, with its place.
    pub(crate) datagram: Datagram,
    /// Its bytes.
    pub(crate) words: [u64; WORDS],
}

/// What became of datagrams that waited in rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// There were none.
    Nothing,
    /// They came, or nobody was to have them.
    All,
    /// Some wait still.
    Left,
}

/// The rings of a queue pair that datagrams are taken from. See the module.
#[derive(Debug)]
pub(crate) struct DatagramReader {
    datagrams: Arc<Datagrams>,
    qp: u32,
    pub(super) qp_num: u32,
    pd: u32,
    own: Own,
    rings: Vec<DatagramRing>,
    /// The one to look at first.
    first: usize,
    /// Senders whose datagrams came another way, and how many.
    heard: [(u32, u32); 4],
    key_cache: KeyCache,
    /// Own completions come before the next one that were there when it was first seen: up to this count.
    own_first: Option<u32>,
    /// Completions that were taken while one waited.
    passed: u32,
    /// Polls that did not get the lock.
    vain: u32,
    /// What waits is to be seen to by the general way.
    pub(super) leaves: bool,
    /// The device's thread [sees](DatagramReader::await_some) to what waits.
    is_awaited: bool,
}

impl DatagramReader {
    /// That of a queue pair whose requests stand there. `None`: it cannot be looked up.
    pub(crate) fn new(
        endpoint: &Endpoint,
        datagrams: &Arc<Datagrams>,
        (qp, qp_num, pd): (u32, u32, u32),
        requests: (HeldWords, usize, u32),
    ) -> Option<Self> {
        let own = Own::find(endpoint, qp, requests)?;
        Some(Self {
            datagrams: datagrams.clone(),
            qp,
            qp_num,
            pd,
            own,
            rings: try_room(TABLE_WORDS).ok()?,
            first: 0,
            heard: [(0, 0); 4],
            key_cache: KeyCache::default(),
            own_first: None,
            passed: 0,
            vain: 0,
            leaves: false,
            is_awaited: false,
        })
    }

    /// Whether it is that of this queue pair.
    pub(super) fn is_of(&self, datagrams: &Datagrams) -> bool {
        std::ptr::eq(&*self.datagrams, datagrams)
    }

    /// Rings that it has.
    pub(super) fn count(&self) -> usize {
        self.rings.len()
    }

    /// Whether there may be a datagram.
    #[inline(always)]
    pub(super) fn is_there(&self) -> bool {
        self.rings.iter().any(DatagramRing::is_there)
    }

    /// The lock could not be had. Who has it does not say when he lets it go.
    #[cold]
    fn is_kept(&mut self, may_sleep: bool) {
        self.vain = self.vain.wrapping_add(1);
        let is_time = self.vain.is_power_of_two() || self.vain.is_multiple_of(SELDOM);
        self.leaves |= is_time || may_sleep && !self.is_awaited;
    }

    /// The device's thread is to see to what waits, until [there is none](DatagramReader::waiting); whether it
    /// was not.
    pub(super) fn await_some(&mut self) -> bool {
        !std::mem::replace(&mut self.is_awaited, true)
    }

    /// A completion of a receive request was taken from the shared queue; whether what waits here has waited
    /// for many. Where it was a datagram's, its sender may get a ring: there are so many others.
    pub(super) fn passed(
        &mut self,
        completion: &Completion,
        endpoint: &Endpoint,
        rings: &Rings,
        others: usize,
        is_light: bool,
    ) {
        if completion.qp_num == self.qp_num && completion.status == Status::Success {
            self.hear(completion.src_qp, endpoint, rings, others, is_light);
        }
        if self.is_there() {
            self.passed += 1;
            self.leaves |= self.passed.is_multiple_of(PATIENT);
        }
    }

    fn hear(&mut self, src_qp: u32, endpoint: &Endpoint, rings: &Rings, others: usize, is_light: bool) {
        let Some(heard) = self.heard.get_mut(src_qp as usize % 4) else { return };
        if heard.0 != src_qp {
            *heard = (src_qp, 0);
        }
        heard.1 = heard.1.wrapping_add(1);
        // There may be a ring later.
        if heard.1 % AGAIN == HEARD {
            let _ = self.open(src_qp, endpoint, rings, others, is_light);
        }
    }

    /// Gives a sender a ring.
    #[cold]
    fn open(
        &mut self,
        src_qp: u32,
        endpoint: &Endpoint,
        rings: &Rings,
        others: usize,
        is_light: bool,
    ) -> Option<()> {
        let is_own = place_of(src_qp).is_none_or(|(slot, _)| slot == endpoint.segment.owner().slot());
        if is_own || !endpoint.segment.is_mine() || self.rings.iter().any(|ring| ring.src_qp == src_qp) {
            return None;
        }
        if self.rings.len() + others >= MOST {
            self.make_room(endpoint, rings)?;
        }
        let place = rings.take(&endpoint.segment)?;
        let Some(ring) = endpoint.own.hold_ring(place.at, place.slots) else {
            rings.give_back(place);
            return None;
        };
        let table = self.datagrams.table.get();
        let Some(word) = table.iter().find(|word| word.load(Ordering::Relaxed) == 0) else {
            rings.give_back(place);
            return None;
        };
        let receiver = Receiver::new(self.qp, place.slots);
        if is_light {
            receiver.lighten(&DirectRing::of(&ring));
        }
        let watched = receiver.watched();
        self.rings.try_push(DatagramRing { src_qp, place, ring, receiver, watched, in_vain: 0 }).ok()?;
        word.store(entry(src_qp, place), Ordering::Release);
        Some(())
    }

    /// Closes a ring that nobody writes any more, and of which all is taken.
    fn make_room(&mut self, endpoint: &Endpoint, rings: &Rings) -> Option<()> {
        // Behind the lock nobody begins to write there.
        let locked = Locked::take(self.own.lock.get(), endpoint.segment.owner())?;
        let is_left =
            |ring: &DatagramRing| !ring.is_written(endpoint) && ring.receiver.waiting(&ring.words()) == 0;
        let place = self.rings.iter().position(is_left);
        if let Some(place) = place {
            let mut ring = self.rings.swap_remove(place);
            self.close(&mut ring);
            rings.give_back(ring.place);
            self.first = 0;
        }
        locked.give_back();
        place.map(|_| ())
    }

    fn close(&self, ring: &mut DatagramRing) {
        let entry = entry(ring.src_qp, ring.place);
        for word in self.datagrams.table.get() {
            let _ = word.compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        ring.receiver.close(&DirectRing::of(&ring.ring));
    }

    /// The queue pair ends, or is reset, and what waits with it: closes all rings, if they are this process's.
    /// `rings`: where they go, behind the queue pair's lock.
    pub(super) fn end(&mut self, is_mine: bool, rings: Option<&Rings>) {
        for mut ring in std::mem::take(&mut self.rings) {
            if is_mine {
                self.close(&mut ring);
                rings.iter().for_each(|rings| rings.give_back(ring.place));
            }
        }
    }

    /// The oldest datagram that waits in some ring.
    pub(super) fn waiting(&mut self) -> Option<Waiting> {
        let found = self.rings.iter_mut().find_map(|ring| {
            let datagram = ring.next()?;
            let mut words = [0; WORDS];
            ring.receiver.copy(&DirectRing::of(&ring.ring), &datagram, &mut words);
            Some(Waiting { src_qp: ring.src_qp, datagram, words })
        });
        self.is_awaited &= found.is_some();
        found
    }

    /// Takes one that [waits](DatagramReader::waiting), behind the queue pair's lock; `false` where its sender
    /// has taken it back.
    pub(super) fn take_out(&mut self, waiting: &Waiting) -> bool {
        let Some(ring) = self.rings.iter_mut().find(|ring| ring.src_qp == waiting.src_qp) else {
            return false;
        };
        let is_there = ring.next().as_ref() == Some(&waiting.datagram);
        if is_there {
            ring.take(&waiting.datagram);
            self.passed = 0;
        }
        is_there
    }

    /// Datagrams that wait.
    pub(super) fn count_waiting(&self) -> u32 {
        self.rings.iter().map(|ring| ring.receiver.waiting(&ring.words())).sum()
    }

    /// Tells senders that they need a fence from now on; whether one has not known that.
    pub(super) fn fence(&self) -> bool {
        self.rings.iter().fold(false, |light, ring| ring.receiver.fence(&ring.words()) | light)
    }
}
