//! Receive requests in rings that peers read: the owner's side.

use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Duration;

use crate::queues::receive::ring_capacity;

use crate::queues::shared::{Fence, Object, QpJournal, QpWord, SrqWord, Take, Word, held, slot};
use crate::queues::transport::{Transport, acquire};
use crate::rules::receive::{MAX_SGE, Sge};
use crate::shm;
use crate::shm::memory::fence_after_exchange;
use crate::shm::objects::HeldWords;

use super::{Device, Error, Rejected, Result};
use crate::carrier::near::direct::{Direct, Promise, SharedPromise, SharedRequests};
use crate::carrier::near::permissions::Permissions;
use crate::queues::direct::shared::Head as SharedHead;

/// The owner's side of a receive ring.
#[derive(Debug)]
pub(super) struct ReceiveRing {
    queue: Object,
    /// Requests posted so far. The owner's own count: what stands in shared memory is for others.
    tail: u32,
    /// Requests taken, as far as was seen when it mattered: others write that word all the time.
    seen: u32,
    max_wr: u32,
    max_sge: u32,
    capacity: u32,
    /// The ring, and the word of it that says how many were posted.
    requests: HeldWords,
    tail_word: HeldWords,
    /// Offsets in the segment, in bytes.
    ring: u64,
    stride: u64,
    head_at: u64,
    /// Queue pairs: where the fence stands.
    fence_at: Option<u64>,
    /// Queue pairs with a direct ring.
    promise: Option<Promise>,
    /// Shared receive queues with direct rings.
    shared: Option<SharedPromise>,
}

/// Entries and words per entry of a ring for requests of this size.
pub(super) fn ring(max_wr: u32, max_sge: u32) -> Result<(u32, u32)> {
    let capacity = ring_capacity(max_wr).ok_or(Error::Invalid("number of receive requests"))?;
    Ok((capacity, 2 + 2 * max_sge.clamp(1, MAX_SGE as u32)))
}

impl ReceiveRing {
    /// The ring of this queue, which has just been made or changed.
    pub(super) fn new(device: &Device, queue: Object, tail: u32, max_wr: u32, max_sge: u32) -> Result<Self> {
        let at = |word| device.endpoint.own.offset(word).ok_or(Error::NoMemory);
        let (head, tail_word) = match queue {
            Object::Qp(qp) => (Word::Qp(qp, QpWord::Head), Word::Qp(qp, QpWord::Tail)),
            Object::Srq(srq) => (Word::Srq(srq, SrqWord::Head), Word::Srq(srq, SrqWord::Tail)),
            Object::Cq(_) => return Err(Error::Host(shm::Error::OutOfBounds)),
        };
        let fence_at = if let Object::Qp(qp) = queue { Some(at(Word::Qp(qp, QpWord::Fence))?) } else { None };
        let (capacity, words) = ring(max_wr, max_sge)?;
        let hold = |at, words| device.endpoint.own.hold(at, words).ok_or(Error::NoMemory);
        let (ring, tail_word) = (at(Word::Receive { queue, slot: 0, word: 0 })?, hold(at(tail_word)?, 1)?);
        let poster = Self {
            queue,
            tail,
            seen: tail,
            max_wr,
            max_sge,
            capacity,
            requests: hold(ring, words as usize * capacity as usize)?,
            tail_word,
            ring,
            stride: 8 * u64::from(words),
            head_at: at(head)?,
            fence_at,
            promise: None,
            shared: None,
        };
        poster.with_capacity(device, capacity)
    }

    /// In a ring of more entries than its requests need.
    pub(super) fn with_capacity(self, device: &Device, capacity: u32) -> Result<Self> {
        let requests = device.endpoint.own.hold(self.ring, self.words() * capacity as usize);
        let mut poster = Self { capacity, requests: requests.ok_or(Error::NoMemory)?, ..self };
        poster.seen = poster.tail.wrapping_sub(poster.waiting(device));
        Ok(poster)
    }

    /// Words of a request in the ring.
    #[inline(always)]
    fn words(&self) -> usize {
        (self.stride / 8) as usize
    }

    /// Its requests: where they are, words of each, entries.
    pub(super) fn requests(&self) -> (HeldWords, usize, u32) {
        (self.requests.clone(), self.words(), self.capacity)
    }

    /// Tells of requests by this ring from now on, and of those that wait now.
    pub(super) fn open_direct(&mut self, device: &Device, direct: &Arc<Direct>) {
        let mut promise = Promise::new(direct);
        self.each_first(device, self.waiting(device), |first| promise.posted(&device.endpoint, first));
        self.promise = Some(promise);
    }

    /// The first pieces of memory of the last so many requests.
    fn each_first(&self, device: &Device, waiting: u32, mut each: impl FnMut(Option<&Sge>)) {
        let memory = device.endpoint.segment.memory();
        for count in (0..waiting).rev().map(|back| self.tail.wrapping_sub(back + 1)) {
            let word =
                |n: u64| memory.u64(self.entry(count) + 8 * n).map_or(0, |w| w.load(Ordering::Relaxed));
            let (elements, addr, length_key) = (word(1), word(2), word(3));
            let sge = Sge { addr, length: length_key as u32, lkey: (length_key >> 32) as u32 };
            each((elements > 0).then_some(&sge));
        }
    }

    /// Tells of requests of a shared receive queue, of this protection domain, from now on. Behind the queue's
    /// lock.
    pub(super) fn open_shared(&mut self, device: &Device, shared: &Arc<SharedRequests>, pd: u32) {
        let waiting = self.waiting(device);
        let mut promise = SharedPromise::new(shared, pd, self.tail.wrapping_sub(waiting));
        self.each_first(device, waiting, |first| promise.posted(&device.endpoint, first));
        self.shared = Some(promise);
    }

    /// What rings take of a shared receive queue, where some do or did.
    pub(super) fn shared(&self) -> Option<&SharedPromise> {
        self.shared.as_ref()
    }

    /// No ring takes requests any more, where the head was this one.
    pub(super) fn close_shared(&mut self, head: SharedHead) {
        if let Some(promise) = &mut self.shared {
            promise.shared().freeze(head);
            promise.close(head.count());
        }
    }

    /// Tells of requests as before.
    pub(super) fn end_direct(&mut self) {
        self.promise = None;
        self.seen = self.tail.wrapping_sub(self.capacity);
    }

    /// Where the next request has no place only because nobody polled what a direct ring brought, makes one.
    /// Behind the locks of all readers that take messages for this queue.
    #[cold]
    pub(super) fn make_free(&self) -> Option<()> {
        let shared = self.shared.as_ref()?;
        // Another thread may have polled it meanwhile.
        if shared.is_free(self.tail) { Some(()) } else { shared.make_free(self.tail) }
    }

    /// Tells of no requests to rings any more.
    pub(super) fn end_shared(&mut self) {
        self.shared = None;
    }

    /// Looks where the queue is now, which was moved with its ring left where it was.
    pub(super) fn follow(&mut self, device: &Device) -> Result<()> {
        let now = Self::new(device, self.queue, self.tail, self.max_wr, self.max_sge)?;
        (self.head_at, self.tail_word) = (now.head_at, now.tail_word);
        Ok(())
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn max_wr(&self) -> u32 {
        self.max_wr
    }

    pub(super) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Where the request with this count stands.
    pub(super) fn entry(&self, count: u32) -> u64 {
        self.ring + self.stride * u64::from(slot(count, self.capacity))
    }

    /// Bytes from one request to the next.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// How many requests are posted and not taken.
    pub(super) fn waiting(&self, device: &Device) -> u32 {
        self.behind(self.head(device))
    }

    /// Requests taken so far.
    fn head(&self, device: &Device) -> u32 {
        let head = self.shared_head(device);
        self.promise.as_ref().map_or(head, |promise| promise.taken(head))
    }

    /// The same, by what stands at the queue. A burst whose completion queue was moved away from it goes on
    /// counting what reaches nobody, until its sender finds out: so long the fence says how many there are.
    fn shared_head(&self, device: &Device) -> u32 {
        let memory = device.endpoint.segment.memory();
        let load = |at| memory.u64(at).map_or(0, |word| word.load(Ordering::Acquire));
        let Some(fence_at) = self.fence_at else { return load(self.head_at) as u32 };
        loop {
            // Whoever finds out sets the head before it takes the fence away.
            let (moves, fence, head) =
                (device.endpoint.objects.moves(), load(fence_at), load(self.head_at) as u32);
            if moves & 1 == 0 && moves == device.endpoint.objects.moves() {
                return match Fence::unpack(fence) {
                    Some(Fence::Delivery(QpJournal { take: Take::Head(head), .. })) => head,
                    _ => head,
                };
            }
            std::thread::yield_now();
        }
    }

    /// Where the next request has no place only because nobody polled what a direct ring brought: how many were
    /// taken by what stands at the queue.
    #[cold]
    pub(super) fn head_where_held_up(&self, device: &Device) -> Option<u32> {
        let is_free = self.promise.as_ref().is_none_or(|promise| promise.is_free(self.tail, self.capacity));
        (!is_free).then(|| self.shared_head(device))
    }

    /// How many requests were posted since that head. One that cannot be true was damaged: nothing fits any
    /// more.
    fn behind(&self, head: u32) -> u32 {
        held(u64::from(head), u64::from(self.tail), self.capacity).unwrap_or(self.capacity)
    }

    /// Whether fewer than so many are posted and not taken.
    #[inline(always)]
    pub(super) fn has_room(&mut self, device: &Device, most: u32) -> bool {
        self.behind(self.seen) < most || self.has_room_now(device, most)
    }

    /// The same, by how many were taken by now.
    #[inline(never)]
    fn has_room_now(&mut self, device: &Device, most: u32) -> bool {
        if let Some(completed) = self.promise.as_ref().map(Promise::completed)
            && self.behind(completed) < most
        {
            self.seen = completed;
            return true;
        }
        let waiting = self.waiting(device);
        self.seen = self.tail.wrapping_sub(waiting);
        waiting < most
    }

    /// Posts a request.
    pub(super) fn post(
        &mut self,
        device: &Device,
        wr_id: u64,
        sges: &[Sge],
    ) -> std::result::Result<(), Rejected> {
        if sges.len() > self.max_sge as usize {
            return Err(Rejected::TooManySges);
        }
        // A forked child's requests are not its parent's.
        if !device.is_mine() {
            return Err(Rejected::State);
        }
        if !self.has_room(device, self.max_wr) && !self.has_room_after_all(device) {
            return Err(Rejected::Full);
        }
        self.put_at(device, wr_id, sges).ok_or(Rejected::Full)
    }

    /// A completion is seen before its request is taken, and a sender may have died in between: whoever holds
    /// the queue's lock is done or gone once it was ours. One that lives is not waited for, as it may be
    /// stopped: what it has completed and not taken is one request, for which the ring has room besides.
    #[cold]
    fn has_room_after_all(&mut self, device: &Device) -> bool {
        let own = device.endpoint.own.within(Duration::ZERO);
        let most = match acquire(&own, self.queue) {
            Ok(()) => {
                own.unlock(self.queue);
                self.max_wr
            }
            Err(_) if self.is_ahead(device) => self.max_wr,
            Err(_) => self.max_wr + 1,
        };
        self.has_room(device, most)
    }

    /// Whether the completion was polled already that its sender has not counted.
    fn is_ahead(&self, device: &Device) -> bool {
        self.promise.as_ref().is_some_and(|promise| promise.is_ahead(self.shared_head(device)))
    }

    /// Puts a request into the ring, as long as there is a free entry. One that was in shared memory meanwhile
    /// may have more elements than an entry.
    pub(super) fn put(&mut self, device: &Device, wr_id: u64, sges: &[Sge]) -> Option<()> {
        if !self.has_room(device, self.capacity) || sges.len() > self.max_sge.max(1) as usize {
            return None;
        }
        self.put_at(device, wr_id, sges)
    }

    /// As [`ReceiveRing::put`], where fewer requests are posted and not taken than there are entries, for a
    /// request of no more elements than an entry has.
    #[inline(always)]
    fn put_at(&mut self, device: &Device, wr_id: u64, sges: &[Sge]) -> Option<()> {
        let is_free = self.promise.as_ref().is_none_or(|promise| promise.is_free(self.tail, self.capacity));
        if !is_free || self.shared.as_ref().is_some_and(|shared| !shared.is_free(self.tail)) {
            return None;
        }
        match &device.endpoint.permissions {
            None => self.store(device, wr_id, sges),
            Some(permissions) => self.put_numbered(device, permissions, wr_id, sges),
        }
    }

    /// Puts a request into the ring under a number of the permissions.
    #[cold]
    fn put_numbered(
        &mut self,
        device: &Device,
        permissions: &Permissions,
        wr_id: u64,
        sges: &[Sge],
    ) -> Option<()> {
        let number = permissions.posted(self.queue, wr_id, sges)?;
        self.store(device, number, sges)
    }

    /// Puts a request back that was in the ring before, under the number that it had there.
    pub(super) fn put_back(&mut self, device: &Device, number: u64, sges: &[Sge]) -> Option<()> {
        match &device.endpoint.permissions {
            None => self.put(device, number, sges),
            Some(permissions) => {
                // What it says by now others may have written.
                let sges = permissions.elements(self.queue, number)?;
                self.has_room(device, self.capacity).then(|| self.store(device, number, &sges))?
            }
        }
    }

    /// Stores a request, for which there is room.
    #[inline(always)]
    fn store(&mut self, device: &Device, wr_id: u64, sges: &[Sge]) -> Option<()> {
        if let Some(shared) = &self.shared {
            shared.post(self.tail);
        }
        let first = self.words() * slot(self.tail, self.capacity) as usize;
        let words = self.requests.get().get(first..)?.get(..2 + 2 * sges.len())?;
        let mut words = words.iter();
        let mut store = |value: u64| {
            if let Some(word) = words.next() {
                word.store(value, Ordering::Relaxed);
            }
        };
        store(wr_id);
        store(sges.len() as u64);
        for sge in sges {
            store(sge.addr);
            store(u64::from(sge.length) | u64::from(sge.lkey) << 32);
        }
        self.tail = self.tail.wrapping_add(1);
        let (word, tail) = (self.tail_word.get().first()?, u64::from(self.tail));
        if let Object::Qp(_) = self.queue {
            // Who breaks a queue pair sets its state and then flushes what is posted; who posts looks at the
            // state afterwards. One side sees the other: the flush has all processors fence first.
            if device.endpoint.has_barriers {
                word.store(tail, Ordering::Release);
                compiler_fence(Ordering::SeqCst);
            } else {
                word.swap(tail, Ordering::SeqCst);
                fence_after_exchange();
            }
            if let Some(promise) = &mut self.promise {
                promise.posted(&device.endpoint, sges.first());
            }
        } else {
            word.store(tail, Ordering::Release);
            if let Some(shared) = &mut self.shared {
                shared.posted(&device.endpoint, sges.first());
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;
    use crate::shm::folder::Config;
    use crate::shm::objects::Shape;

    #[test]
    fn a_request_with_too_many_elements_overwrites_no_other() {
        let path = std::path::PathBuf::from(format!("/dev/shm/ironverbs-receive-{}", std::process::id()));
        let folder = Config { path: path.clone(), group: None };
        let device =
            Device::open(&Settings { folder, copying: super::super::Copying::Auto, network: false }).unwrap();
        let (capacity, receive_words) = ring(3, 1).unwrap();
        let shape = Shape { capacity, receive_words, bell: None, alert: None };
        let queue = device.endpoint.objects.create(Object::Srq(0), shape).unwrap();
        let mut poster = ReceiveRing::new(&device, queue, 0, 3, 1).unwrap();
        assert_eq!(poster.put(&device, 1, &[Sge { addr: 1, length: 1, lkey: 1 }]), Some(()));
        let many = vec![Sge { addr: 9, length: 9, lkey: 9 }; MAX_SGE];
        assert_eq!(poster.put(&device, 2, &many), None);
        assert_eq!((poster.tail(), poster.waiting(&device)), (1, 1));
        let words = device.endpoint.segment.memory().words(poster.entry(1), 8).unwrap();
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        drop(device);
        let _ = std::fs::remove_dir_all(path);
    }
}
