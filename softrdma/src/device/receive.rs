//! Receive requests in rings that peers read: the owner's side.

use std::sync::atomic::Ordering;

use crate::core::receive::{MAX_SGE, Sge, ring_capacity};
use crate::core::shared::{Object, QpWord, SrqWord, Word, held, slot};
use crate::core::transport::{Transport, acquire};
use crate::host;

use super::{Device, Error, Rejected, Result};

/// The owner's side of a receive ring.
#[derive(Debug)]
pub(super) struct Poster {
    queue: Object,
    /// Requests posted so far. The owner's own count: what stands in shared memory is for others.
    tail: u32,
    max_wr: u32,
    max_sge: u32,
    capacity: u32,
    /// Offsets in the segment, in bytes.
    ring: u64,
    stride: u64,
    head_at: u64,
    tail_at: u64,
}

/// Entries and words per entry of a ring for requests of this size.
pub(super) fn ring(max_wr: u32, max_sge: u32) -> Result<(u32, u32)> {
    let capacity = ring_capacity(max_wr).ok_or(Error::Invalid("number of receive requests"))?;
    Ok((capacity, 2 + 2 * max_sge.clamp(1, MAX_SGE as u32)))
}

impl Poster {
    /// The ring of this queue, which has just been made or changed.
    pub(super) fn new(device: &Device, queue: Object, tail: u32, max_wr: u32, max_sge: u32) -> Result<Self> {
        let at = |word| device.site.own.offset(word).ok_or(Error::Host(host::Error::OutOfBounds));
        let (head, tail_word) = match queue {
            Object::Qp(qp) => (Word::Qp(qp, QpWord::Head), Word::Qp(qp, QpWord::Tail)),
            Object::Srq(srq) => (Word::Srq(srq, SrqWord::Head), Word::Srq(srq, SrqWord::Tail)),
            Object::Cq(_) => return Err(Error::Host(host::Error::OutOfBounds)),
        };
        let (capacity, words) = ring(max_wr, max_sge)?;
        Ok(Self {
            queue,
            tail,
            max_wr,
            max_sge,
            capacity,
            ring: at(Word::Receive { queue, slot: 0, word: 0 })?,
            stride: 8 * u64::from(words),
            head_at: at(head)?,
            tail_at: at(tail_word)?,
        })
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
        let head = device.site.segment.memory().u64(self.head_at).map_or(0, |w| w.load(Ordering::Acquire));
        // A head that cannot be true was damaged: nothing fits any more.
        held(head, u64::from(self.tail), self.capacity).unwrap_or(self.capacity)
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
        if self.waiting(device) >= self.max_wr && !self.has_room_after_all(device) {
            return Err(Rejected::Full);
        }
        self.put(device, wr_id, sges).ok_or(Rejected::Full)
    }

    /// A completion is seen before its request is taken, and a sender may have died in between: whoever holds the queue's
    /// lock is done or gone once it was ours.
    #[cold]
    fn has_room_after_all(&self, device: &Device) -> bool {
        if acquire(&device.site.own, self.queue).is_err() {
            return false;
        }
        device.site.own.unlock(self.queue);
        self.waiting(device) < self.max_wr
    }

    /// Puts a request into the ring, as long as there is a free entry.
    pub(super) fn put(&mut self, device: &Device, wr_id: u64, sges: &[Sge]) -> Option<()> {
        if self.waiting(device) >= self.capacity {
            return None;
        }
        let memory = device.site.segment.memory();
        let words = memory.words(self.entry(self.tail), 2 + 2 * sges.len()).ok()?;
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
        memory.u64(self.tail_at).ok()?.store(u64::from(self.tail), Ordering::Release);
        Some(())
    }
}
