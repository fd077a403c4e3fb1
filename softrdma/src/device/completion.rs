//! Completion queues.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::completion::{Arm, Completion};
use crate::core::shared::{CqWord, Object, Word, held, slot};
use crate::core::transport::{Transport, acquire, run};
use crate::core::verbs::WcOpcode;
use crate::host;
use crate::host::memory::Memory;
use crate::host::objects::Shape;

use super::attributes::CqAttributes;
use super::{Channel, Device, Error, EventQueue, LIMITS, Result, busy};

/// Flags of a completion queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CqFlags {
    /// Completions carry the time (`IBV_WC_EX_WITH_COMPLETION_TIMESTAMP` and the like).
    pub timestamps: bool,
}

/// A completion queue (`struct ibv_cq`).
#[derive(Debug)]
pub struct CompletionQueue {
    device: Arc<Device>,
    index: u32,
    cqe: AtomicU32,
    channel: Option<Arc<Channel>>,
    events: Arc<EventQueue>,
    cookie: usize,
    users: AtomicU32,
    ended: AtomicBool,
    reader: Mutex<Reader>,
}

/// The owner's side of the ring.
#[derive(Debug)]
struct Reader {
    /// Entries taken so far. The owner's own count: what stands in shared memory is for others.
    head: u32,
    capacity: u32,
    /// Offsets in the segment, in bytes.
    ring: u64,
    stride: u64,
    head_at: u64,
    tail_at: u64,
}

impl Reader {
    fn new(device: &Device, cq: u32, head: u32, capacity: u32) -> Result<Self> {
        let at = |word| device.site.own.offset(word).ok_or(Error::Host(host::Error::OutOfBounds));
        let ring = at(Word::Entry { cq, slot: 0, word: 0 })?;
        let stride = at(Word::Entry { cq, slot: 1, word: 0 })? - ring;
        let (head_at, tail_at) = (at(Word::Cq(cq, CqWord::Head))?, at(Word::Cq(cq, CqWord::Tail))?);
        Ok(Self { head, capacity, ring, stride, head_at, tail_at })
    }

    /// Entries that wait; none when the count cannot be true.
    fn waiting(&self, memory: &Memory) -> u32 {
        let tail = memory.u64(self.tail_at).map_or(0, |tail| tail.load(Ordering::Acquire));
        held(u64::from(self.head), tail, self.capacity).unwrap_or(0)
    }

    /// Where the entry with this count stands.
    fn entry(&self, count: u32) -> u64 {
        self.ring + self.stride * u64::from(slot(count, self.capacity))
    }

    fn move_head(&mut self, memory: &Memory, head: u32) {
        self.head = head;
        if let Ok(word) = memory.u64(self.head_at) {
            word.store(u64::from(head), Ordering::Release);
        }
    }
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
        let object = device.site.objects.create(Object::Cq(0), shape)?;
        let Object::Cq(index) = object else { return Err(Error::Host(host::Error::OutOfBounds)) };
        let reader = Reader::new(device, index, 0, capacity).inspect_err(|_| {
            let _ = device.site.objects.destroy(object);
        })?;
        CqAttributes { timestamps: flags.timestamps }.store(&device.site.own, index);
        if let Some(channel) = channel {
            channel.add(index, cookie);
        }
        device.subscribers.add(object, events, cookie);
        Ok(Arc::new(Self {
            device: device.clone(),
            index,
            cqe: cqe.into(),
            channel: channel.cloned(),
            events: events.clone(),
            cookie,
            users: 0.into(),
            ended: false.into(),
            reader: Mutex::new(reader),
        }))
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
    pub fn poll(&self, max: u32, take: &mut impl FnMut(&Completion)) -> u32 {
        self.device.progress.make(&self.device);
        let mut reader = self.reader();
        let memory = self.device.site.segment.memory();
        let count = reader.waiting(memory).min(max);
        if count == 0 {
            return 0;
        }
        let mut taken = 0;
        let mut head = reader.head;
        for _ in 0..count {
            let entry = read(memory, reader.entry(head));
            head = head.wrapping_add(1);
            // Words that cannot be true were written by somebody else than a peer's engine.
            let Some(completion) = entry else { continue };
            if (completion.opcode as u32) < WcOpcode::Recv as u32 {
                self.device.polled(completion.qp_num);
            }
            take(&completion);
            taken += 1;
        }
        reader.move_head(memory, head);
        taken
    }

    /// Asks for an event when the next completion comes, or the next that is solicited or an error.
    ///
    /// # Errors
    /// [`Error::Host`] when the queue's lock cannot be had.
    pub fn arm(&self, solicited_only: bool) -> Result<()> {
        match &self.channel {
            Some(channel) => channel.arm(self.index, solicited_only),
            None => run(&self.device.site.own, Arm::new(self.index, solicited_only)),
        }
        .map_err(busy)
    }

    /// Changes the number of entries to at least `cqe`; the number it then has.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `cqe` is out of range or less than what waits to be polled, [`Error::NoMemory`].
    pub fn resize(&self, cqe: u32) -> Result<u32> {
        let capacity = capacity(cqe)?;
        let object = Object::Cq(self.index);
        let site = &self.device.site;
        let mut reader = self.reader();
        acquire(&site.own, object).map_err(busy)?;
        let resized = (|| {
            let memory = site.segment.memory();
            let waiting = reader.waiting(memory);
            if cqe < waiting {
                return Err(Error::Invalid("fewer entries than wait to be polled"));
            }
            if capacity != reader.capacity {
                let (from, stride) = (&*reader, reader.stride);
                site.objects.resize(object, capacity, |memory, ring| {
                    for count in (0..waiting).map(|n| from.head.wrapping_add(n)) {
                        let to = ring + stride * u64::from(slot(count, capacity));
                        copy(memory, from.entry(count), to, stride);
                    }
                })?;
                *reader = Reader::new(&self.device, self.index, reader.head, capacity)?;
            }
            Ok(())
        })();
        site.own.unlock(object);
        resized?;
        self.cqe.store(cqe, Ordering::Relaxed);
        Ok(cqe)
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
            let object = Object::Cq(self.index);
            self.device.subscribers.remove(object, &self.events, self.cookie);
            self.device.end(object);
        }
        Ok(())
    }

    /// One more queue completes here.
    pub(super) fn hold(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back one [`CompletionQueue::hold`].
    pub(super) fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    /// Removes the completions of a queue pair that nobody polled.
    pub(super) fn clean(&self, qp_num: u32) {
        let mut reader = self.reader();
        let (memory, own) = (self.device.site.segment.memory(), &self.device.site.own);
        let object = Object::Cq(self.index);
        if acquire(own, object).is_err() {
            return;
        }
        // From the newest to the oldest, those that stay move up.
        let waiting = reader.waiting(memory);
        let mut to = reader.head.wrapping_add(waiting);
        for n in (0..waiting).rev() {
            let from = reader.head.wrapping_add(n);
            let stays = read(memory, reader.entry(from)).is_none_or(|entry| entry.qp_num != qp_num);
            if stays {
                to = to.wrapping_sub(1);
                if to != from {
                    copy(memory, reader.entry(from), reader.entry(to), reader.stride);
                }
            }
        }
        reader.move_head(memory, to);
        own.unlock(object);
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        self.users.store(0, Ordering::Release);
        let _ = self.destroy();
    }
}

fn capacity(cqe: u32) -> Result<u32> {
    if cqe == 0 || cqe > LIMITS.max_cqe {
        return Err(Error::Invalid("number of entries"));
    }
    Ok(cqe.next_power_of_two())
}

/// The completion in an entry.
fn read(memory: &Memory, at: u64) -> Option<Completion> {
    let mut words = [0; 6];
    for (value, word) in words.iter_mut().zip(memory.words(at, 6).ok()?) {
        *value = word.load(Ordering::Relaxed);
    }
    Completion::unpack(&words)
}

pub(super) fn copy(memory: &Memory, from: u64, to: u64, bytes: u64) {
    let words = |at| memory.words(at, (bytes / 8) as usize);
    if let (Ok(from), Ok(to)) = (words(from), words(to)) {
        for (to, from) in to.iter().zip(from) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
