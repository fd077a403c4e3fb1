//! Completion queues.

mod direct;
mod own;
mod reader;
mod take;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ironverbs_os::growth::{TryPush, try_arc};
use ironverbs_os::processors;
use queue_lock::{QueueGuard, QueueLock};

use crate::carrier::near::direct::Settled;
use crate::queues::completion::{Arm, HEAD_WORDS, remove, wants};
use crate::queues::shared::{Memory as _, Object, Word, slot};
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport, run};
use crate::rules::completion::Completion;
use crate::rules::verbs::{QpState, Status, WcOpcode};
use crate::shm;
use crate::shm::lock::Owner;
use crate::shm::memory::Memory;
use crate::shm::objects::{Host, Shape};

use super::comp_counter::Receives;
use super::stuck::{BRIEFLY, acquire_with};
use super::{Channel, Device, Error, EventQueue, LIMITS, MANY_DOMAINS, Result, busy};
use crate::carrier::near::bytes;
use crate::carrier::near::completion_order::OwnQueue;
use crate::carrier::near::entries::not_placed;
use crate::carrier::near::number::place_of;
use crate::carrier::near::permissions::{Permissions, Placement};

pub(super) use reader::Reader;

/// Polls in vain after which a program that polls gives way to others now and then: some tens of microseconds.
const PATIENT: u32 = 2000;
/// Every so many polls it does.
const YIELDS: u32 = 64;
/// Every so many polls in vain it is looked whether a peer keeps others from completing something.
const LOOKS: u32 = 32;
/// Polls in vain after which some make a pause, which takes some tens of nanoseconds.
const EAGER: u32 = 256;
/// One of so many does. A power of two.
const PAUSES: u32 = 4;
/// Polls in vain of which one looks at the network.
const EACH: u32 = 4;
/// Polls in vain between two sleeps of a thread that slept the last time.
const AWAKE: u32 = 4;
/// Polls that one counts for which tried requests again that wait.
const TRIED: u32 = 32;
/// Every so many completions that stand in a queue it is looked whether messages wait in direct rings. A power
/// of two.
const TURN: u32 = 4;

/// What a poll leaves to be done when it does not hold the queue any more: a number that is below
/// [`After::BROKEN`], or that and the index of a queue pair that broke, or has datagrams for the general way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct After(u32);

impl After {
    const NOTHING: Self = Self(0);
    /// To look whether a peer keeps others from completing something.
    const LOOK: Self = Self(1);
    /// The same, and to give way to others.
    const YIELD: Self = Self(2);
    /// The same, and to sleep for a moment: nothing came for long, and others want the processors.
    const SLEEP: Self = Self(3);
    /// To take what came from other hosts.
    const NETWORK: Self = Self(4);
    const BROKEN: u32 = 5;

    /// This queue pair is in error, or about to be: whoever broke it may also have died over it.
    #[cold]
    fn broken(qp_num: u32) -> Self {
        place_of(qp_num).map_or(Self::NOTHING, |(_, index)| Self(Self::BROKEN + index))
    }
}

/// Flags of a completion queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CqFlags {
    /// Completions carry the time (`IBV_WC_EX_WITH_COMPLETION_TIMESTAMP` and the like).
    pub timestamps: bool,
    /// An overrun is no error: what had no room is lost (`IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`).
    pub ignore_overrun: bool,
}

/// A completion queue (`struct ibv_cq`).
#[derive(Debug)]
pub struct CompletionQueue {
    pub(super) device: Arc<Device>,
    index: u32,
    cqe: AtomicU32,
    channel: Option<Arc<Channel>>,
    events: Arc<EventQueue>,
    cookie: usize,
    users: AtomicU32,
    ended: AtomicBool,
    reader: QueueLock<Reader>,
    /// For completions of this process's own.
    pub(super) own: OwnQueue,
    /// Protection domains of XRC shared receive queues that completed here.
    xrc_domains: Mutex<Vec<u32>>,
    /// Those that are counted.
    pub(super) receives: Receives,
    /// Requests of all queues that complete here, as many as they can have at a time.
    pub(super) promised: AtomicU64,
    /// Send requests among them.
    sends: AtomicU64,
    /// Shared receive queues of queue pairs that complete here: index, and how many of those there are.
    srqs: Mutex<Vec<(u32, u32)>>,
}

impl CompletionQueue {
    /// A queue of at least `cqe` entries. `cookie` comes back with the events of `channel` and of `events`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no entries or more than [`Limits::max_cqe`](super::Limits::max_cqe),
    /// [`Error::NoMemory`].
    pub fn new(
        device: &Arc<Device>,
        cqe: u32,
        channel: Option<&Arc<Channel>>,
        events: &Arc<EventQueue>,
        cookie: usize,
        flags: CqFlags,
    ) -> Result<Arc<Self>> {
        let capacity = capacity(cqe)?;
        let (bell, alert) = (channel.map(|channel| channel.bell()), Some(events.bell()));
        let shape = Shape { capacity, receive_words: 0, bell, alert };
        device.finish_deferred();
        let object = device.endpoint.objects.create(Object::Cq(0), shape)?;
        let Object::Cq(index) = object else { return Err(Error::Host(shm::Error::OutOfBounds)) };
        let sides = OwnQueue::new(&device.endpoint, index)
            .and_then(|(own, taken)| Ok((own, Reader::new(device, index, 0, capacity, taken)?)));
        let (own, reader) = sides.inspect_err(|_| {
            let _ = device.endpoint.objects.destroy(object);
        })?;
        let wants =
            flag(flags.timestamps, wants::TIMESTAMPS) | flag(flags.ignore_overrun, wants::IGNORE_OVERRUN);
        device.endpoint.own.store(Word::Attribute { object, word: 0 }, wants);
        // Where this fails, everything ends with what was made.
        let made = try_arc(Self {
            device: device.clone(),
            index,
            cqe: cqe.into(),
            channel: channel.cloned(),
            events: events.clone(),
            cookie,
            users: 0.into(),
            ended: false.into(),
            reader: QueueLock::new(reader),
            own,
            xrc_domains: Mutex::default(),
            receives: Receives::new(),
            promised: 0.into(),
            sends: 0.into(),
            srqs: Mutex::default(),
        })?;
        device.deferred.make_room(object)?;
        if let Some(channel) = channel {
            channel.add(index, cookie)?;
        }
        device.subscribers.add(object, events, cookie)?;
        super::remember(&device.completion_queues, index, &made)?;
        Ok(made)
    }

    /// Its index in the segment.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Entries that it holds, at least as many as were asked for.
    #[must_use]
    pub fn cqe(&self) -> u32 {
        self.cqe.load(Ordering::Relaxed)
    }

    /// Hands out up to `max` completions, oldest first, and tells how many. Requests that wait are tried again.
    ///
    /// The queue is locked meanwhile: `take` must not poll it.
    #[inline]
    pub fn poll(&self, max: u32, take: &mut impl FnMut(&Completion)) -> u32 {
        if self.receives.are_counted() { self.poll_and_count(max, take) } else { self.poll_anew(max, take) }
    }

    /// As [`CompletionQueue::poll`], without what was taken before for counters.
    #[inline(always)]
    pub(super) fn poll_anew(&self, max: u32, take: &mut impl FnMut(&Completion)) -> u32 {
        let waits = self.device.retries.try_some(&self.device);
        let mut left = max;
        while left > 0 {
            let (taken, after) = self.take(left, waits, take);
            left -= taken;
            if after == After::NOTHING {
                break;
            }
            self.follow(after);
            // Behind a completion of a queue pair that broke there may be others. And what came while another
            // had the processor is taken now: a program that finds nothing, and then that its peer has gone,
            // would drop it.
            if after == After::LOOK {
                break;
            }
        }
        max - left
    }

    /// What a poll leaves to be done without the queue.
    #[cold]
    fn follow(&self, after: After) {
        if after == After::YIELD {
            // Whoever is to complete something here shares the processors with this program.
            std::thread::yield_now();
        } else if after == After::SLEEP {
            processors::give_way();
        }
        self.device.look_at_network();
        if after == After::NETWORK {
            return;
        }
        if after.0 < After::BROKEN {
            self.device.free_if_stuck();
        } else if let Some(qp) = self.device.queue_pair(after.0 - After::BROKEN) {
            let settled = qp.settle_datagrams(BRIEFLY);
            if settled == Settled::Left {
                qp.settle_datagrams_later();
            }
            if settled == Settled::Nothing || qp.state() == QpState::Err {
                qp.flush_if_broken();
            }
        }
    }

    /// The completion in an entry whose first word was published, and what it leaves to be done. Payload that
    /// came with it goes to its buffer.
    #[inline(always)]
    fn read(&self, first: u64, words: &[AtomicU64]) -> Option<(Completion, After)> {
        if let Some(permissions) = &self.device.endpoint.permissions {
            return self.read_numbered(permissions, first, words);
        }
        let head = head(first, words)?;
        let (mut completion, bytes) = Completion::unpack(&head)?;
        if completion.opcode < WcOpcode::Recv {
            self.device.polled(completion.qp_num, completion.places);
        } else if bytes > 0 {
            let payload = words.get(HEAD_WORDS as usize..).filter(|payload| bytes <= 8 * payload.len())?;
            if self.place(completion.qp_num, head[6], head[2] as u32, payload, bytes).is_none() {
                completion = not_placed(&completion);
            }
        } else if !matches!(completion.status, Status::Success | Status::WrFlushErr) {
            return Some((completion, After::broken(completion.qp_num)));
        }
        Some((completion, After::NOTHING))
    }

    /// As [`CompletionQueue::read`], where the entry may be anybody's and the permissions say what it is about.
    #[cold]
    fn read_numbered(
        &self,
        permissions: &Permissions,
        first: u64,
        words: &[AtomicU64],
    ) -> Option<(Completion, After)> {
        let (mut completion, bytes) = Completion::unpack(&head(first, words)?)?;
        let placement = permissions.completed(&mut completion, bytes)?;
        if completion.opcode < WcOpcode::Recv {
            self.device.polled(completion.qp_num, completion.places);
        } else if bytes > 0 {
            let payload = words.get(HEAD_WORDS as usize..).filter(|payload| bytes <= 8 * payload.len());
            let placed = placement.zip(payload).and_then(|(Placement { pd, sge }, payload)| {
                bytes::place(&self.device.endpoint, pd, sge.addr, sge.lkey, payload, bytes)
            });
            if placed.is_none() {
                completion = not_placed(&completion);
            }
        } else if !matches!(completion.status, Status::Success | Status::WrFlushErr) {
            return Some((completion, After::broken(completion.qp_num)));
        }
        Some((completion, After::NOTHING))
    }

    /// Moves payload to the buffer that it came for, by this process's own table of keys.
    fn place(&self, qp_num: u32, addr: u64, lkey: u32, payload: &[AtomicU64], bytes: usize) -> Option<()> {
        let pd = match self.device.receive_pd(qp_num).filter(|pd| *pd != 0)? {
            MANY_DOMAINS => {
                let of_key = self.device.endpoint.keys.local(lkey)?.key.pd;
                self.xrc_domains().contains(&of_key).then_some(of_key)?
            }
            pd => pd,
        };
        bytes::place(&self.device.endpoint, pd, addr, lkey, payload, bytes)
    }

    /// Asks for an event when the next completion comes, or the next that is solicited or an error.
    ///
    /// # Errors
    /// [`Error::Host`] when the queue's lock cannot be had; [`Error::NoMemory`] for an event that waits.
    pub fn arm(&self, solicited_only: bool) -> Result<()> {
        match &self.channel {
            Some(channel) => channel.arm(self.index, solicited_only)?,
            None => run(&self.device.endpoint.own, Arm::new(self.index, solicited_only)).map_err(busy)?,
        }
        self.arm_own();
        // Who sends by a direct ring looks at this afterwards, and who polls now at the ring.
        fence(Ordering::SeqCst);
        if self.channel.is_some() && self.device.is_mine() {
            self.reader().direct.fence();
        }
        Ok(())
    }

    /// Changes the number of entries to at least `cqe`; the number it then has.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `cqe` is out of range or less than what waits to be polled, [`Error::NoMemory`].
    pub fn resize(&self, cqe: u32) -> Result<u32> {
        let capacity = capacity(cqe)?;
        let object = Object::Cq(self.index);
        let endpoint = &self.device.endpoint;
        let kept = self.receives.kept();
        let mut reader = acquire_with(&endpoint.own, object, || self.reader()).map_err(busy)?;
        let resized = (|| {
            let waiting = reader.waiting();
            if cqe < waiting + reader.direct.waiting() + reader.own.waiting() + kept {
                return Err(Error::Invalid("fewer entries than wait to be polled"));
            }
            reader.own.make_room(self.sends.load(Ordering::Acquire).min(cqe.into()) as u32)?;
            if capacity != reader.capacity {
                let (from, stride) = (&*reader, reader.stride);
                endpoint.objects.resize(object, capacity, (stride / 8) as u32, |memory, ring| {
                    for count in (0..waiting).map(|n| from.head.wrapping_add(n)) {
                        let to = ring + stride * u64::from(slot(count, capacity));
                        copy(memory, from.entry(count), to, stride);
                    }
                })?;
                let own = reader.own.clone();
                let now = Reader::new(&self.device, self.index, reader.head, capacity, own)?;
                reader.follow(now);
            }
            Ok(())
        })();
        endpoint.own.unlock(object);
        resized?;
        // Who holds what is waited for here may wait for a peer to let go, from which the queue is moved by
        // this side.
        drop(reader);
        self.own.follow();
        self.open_own();
        self.cqe.store(cqe, Ordering::Relaxed);
        Ok(cqe)
    }

    /// Moves the queue away from a holder of its lock that does not go on; whether it is elsewhere now.
    #[cold]
    pub(super) fn relocate(&self, holder: Owner) -> bool {
        // Whoever polls just now, perhaps the caller, is to find the queue where it is.
        let Some(mut reader) = self.reader.try_lock() else { return false };
        if self.ended.load(Ordering::Acquire) {
            return false;
        }
        let (endpoint, object) = (&self.device.endpoint, Object::Cq(self.index));
        let is_moved = endpoint.objects.relocate(&endpoint.own, object, holder, reader.head) == Ok(true);
        let (head, capacity, own) = (reader.head, reader.capacity, reader.own.clone());
        if is_moved && let Ok(now) = Reader::new(&self.device, self.index, head, capacity, own) {
            reader.follow(now);
        }
        self.own.moved();
        is_moved
    }

    /// Ends the queue. Events of it that nobody has taken are gone.
    ///
    /// # Errors
    /// [`Error::Busy`] while a queue pair or shared receive queue uses it.
    pub fn destroy(&self) -> Result<()> {
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy);
        }
        if !self.ended.swap(true, Ordering::AcqRel) {
            if let Some(channel) = &self.channel {
                channel.remove(self.index);
            }
            if self.device.is_mine() {
                self.reader().direct.end(&self.device.rings);
            }
            let object = Object::Cq(self.index);
            self.device.unsubscribe(object, &self.events, self.cookie);
            self.device.end(object);
        }
        Ok(())
    }

    /// Removes the completions of a queue pair that nobody polled; `false` when the queue's lock cannot be had
    /// now. `own` is the own segment.
    pub(super) fn clean(&self, own: &Host, qp_num: u32) -> bool {
        if self.receives.are_counted() {
            self.forget_kept(qp_num);
        }
        self.reader().own.forget(qp_num);
        let object = Object::Cq(self.index);
        let mut reader = match acquire_with(own, object, || self.reader()) {
            Ok(reader) => reader,
            Err(why) => return why == LockError::Gone,
        };
        // Its place may be another queue's by now.
        if self.ended.load(Ordering::Acquire) {
            own.unlock(object);
            return true;
        }
        if let Some(permissions) = &self.device.endpoint.permissions {
            self.forget_numbers(permissions, &reader, qp_num);
        }
        remove(own, self.index, qp_num);
        reader.look_at_head();
        self.own.shifted();
        own.unlock(object);
        true
    }

    /// An XRC shared receive queue of this protection domain completes here.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn serve(&self, pd: u32) -> Result<()> {
        let mut domains = self.xrc_domains();
        if !domains.contains(&pd) {
            domains.try_push(pd)?;
        }
        Ok(())
    }

    fn xrc_domains(&self) -> MutexGuard<'_, Vec<u32>> {
        self.xrc_domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The completions of a queue pair are about to be removed, and their requests with them.
    fn forget_numbers(&self, permissions: &Permissions, reader: &Reader, qp_num: u32) {
        for count in (0..reader.waiting()).map(|n| reader.head.wrapping_add(n)) {
            let Some(words) = reader.entries.at(count) else { return };
            let Some(head) = head(reader.entries.first(count), words) else { return };
            if let Some((completion, _)) = Completion::unpack(&head).filter(|c| c.0.qp_num == qp_num) {
                permissions.forget(&completion);
            }
        }
    }

    pub(super) fn reader(&self) -> QueueGuard<'_, Reader> {
        self.reader.lock()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        self.users.store(0, Ordering::Release);
        let _ = self.destroy();
        super::forget(&self.device.completion_queues, self.index, self);
    }
}

/// Whether the first word of an entry says that it is there once so many were taken.
#[inline(always)]
fn is_next(first: u64, head: u32) -> bool {
    first as u32 == head.wrapping_add(1)
}

/// The first words of an entry, copied, if it has so many. The first was read before.
#[inline(always)]
fn head(first: u64, words: &[AtomicU64]) -> Option<[u64; HEAD_WORDS as usize]> {
    let words: &[AtomicU64; HEAD_WORDS as usize] = words.first_chunk()?;
    let mut head = [first; HEAD_WORDS as usize];
    for (value, word) in head.iter_mut().zip(words).skip(1) {
        *value = word.load(Ordering::Relaxed);
    }
    Some(head)
}

fn flag(set: bool, flag: u64) -> u64 {
    if set { flag } else { 0 }
}

fn capacity(cqe: u32) -> Result<u32> {
    if cqe == 0 || cqe > LIMITS.max_cqe {
        return Err(Error::Invalid("number of entries"));
    }
    Ok(cqe.next_power_of_two())
}

/// Copies an entry of a ring.
pub(super) fn copy(memory: &Memory, from: u64, to: u64, bytes: u64) {
    let words = |at| memory.words(at, (bytes / 8) as usize);
    if let (Ok(from), Ok(to)) = (words(from), words(to)) {
        for (to, from) in to.iter().zip(from) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
