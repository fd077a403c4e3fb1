//! What posting leaves for the completion: which request stands at which place of a ring. Posting and polling
//! threads share it.
//!
//! The device is not trusted with memory: a place that a completion names is cut to the ring, and data that
//! it holds goes to a request's memory only while that request is posted.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::cqe::Cqe;
use super::srq::Srq;
use super::wqe::{self, Segment};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};

/// As many slots as asked for, all empty; ENOMEM.
fn slots<T>(count: usize, empty: impl Fn() -> T) -> Result<Box<[T]>> {
    let mut slots = Vec::new();
    slots.try_reserve_exact(count).map_err(|_| Errno::ENOMEM.also_set())?;
    slots.resize_with(count, empty);
    Ok(slots.into_boxed_slice())
}

/// Data that a completion holds goes to the memory that a request names, a list of `most` segments at `list`;
/// the status of the completion. `null_key` is the key of memory that is not there.
///
/// # Safety
/// The segments were written by posting, and the program's memory that they name is its request's until this
/// completion.
unsafe fn scatter(list: Segment, most: usize, data: &[u8], null_key: Option<u32>) -> Option<usize> {
    let mut left = data;
    for at in 0..most {
        if left.is_empty() {
            break;
        }
        // SAFETY: by the contract.
        let (address, length, key) = unsafe { list.add(at * wqe::UNIT).read_memory() };
        let (piece, rest) = left.split_at(left.len().min(length as usize));
        if Some(key) != null_key {
            let to = core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
            // SAFETY: by the contract the program's memory has so many bytes; the data is a copy of ours.
            unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len()) };
        }
        left = rest;
    }
    (!left.is_empty()).then_some(data.len() - left.len())
}

/// Data in a completion for a list of memory: see [`scatter`].
///
/// # Safety
/// See [`scatter`].
pub unsafe fn take_data(
    list: Segment,
    most: usize,
    cqe: Cqe,
    length: u32,
    null_key: Option<u32>,
) -> ibv_wc_status_t {
    let data = cqe.data();
    let length = length as usize;
    // SAFETY: by the contract.
    let missing = unsafe { scatter(list, most, &data[..length.min(data.len())], null_key) };
    let status = if missing.is_some() || length > data.len() { IBV_WC_LOC_LEN_ERR } else { IBV_WC_SUCCESS };
    status as ibv_wc_status_t
}

/// A request to send that was posted, at its first block.
#[derive(Default)]
struct SendSlot {
    wr_id: AtomicU64,
    /// From the low bits on: its number among all (32), flags of its completion (16), operation of that (16).
    rest: AtomicU64,
}

/// What the completion of a request to send says that the device does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The program's number.
    pub wr_id: u64,
    /// `IBV_WC_*`.
    pub opcode: u16,
    /// `IBV_WC_WITH_IMM` or 0.
    pub flags: u16,
    /// Its number among all that were posted.
    number: u32,
}

/// The send queue of a queue pair.
pub struct Sends {
    slots: Box<[SendSlot]>,
    mask: u32,
    /// The blocks.
    ring: NonNull<u8>,
    /// Requests that were posted.
    posted: AtomicU32,
    /// Requests that are done.
    done: AtomicU32,
    /// Completions may hold data.
    reliable: bool,
}

// SAFETY: atomics, and a pointer to libmlx5's ring, which lives as long as the queue pair.
unsafe impl Send for Sends {}
// SAFETY: as above.
unsafe impl Sync for Sends {}

impl Sends {
    /// An empty queue over `blocks` blocks, a power of two; ENOMEM.
    ///
    /// # Safety
    /// The ring has so many blocks, as long as the value is used.
    pub unsafe fn new(ring: NonNull<u8>, blocks: u32, reliable: bool) -> Result<Self> {
        if !blocks.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        Ok(Self {
            slots: slots(blocks as usize, SendSlot::default)?,
            mask: blocks - 1,
            ring,
            posted: AtomicU32::new(0),
            done: AtomicU32::new(0),
            reliable,
        })
    }

    /// Number of blocks minus one.
    #[inline(always)]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Where the blocks are.
    #[inline(always)]
    pub fn ring(&self) -> NonNull<u8> {
        self.ring
    }

    /// Requests that are not done.
    #[inline(always)]
    pub fn in_flight(&self, posted: u32) -> u32 {
        posted.wrapping_sub(self.done.load(Ordering::Relaxed))
    }

    /// Notes a request that begins at a block.
    #[inline(always)]
    pub fn note(&self, block: u32, wr_id: u64, number: u32, flags: u16, opcode: u16) {
        let slot = &self.slots[(block & self.mask) as usize];
        slot.wr_id.store(wr_id, Ordering::Relaxed);
        let rest = u64::from(number) | u64::from(flags) << 32 | u64::from(opcode) << 48;
        slot.rest.store(rest, Ordering::Relaxed);
    }

    /// Requests up to this number are posted.
    #[inline(always)]
    pub fn publish(&self, posted: u32) {
        self.posted.store(posted, Ordering::Relaxed);
    }

    /// The queue was reset.
    pub fn reset(&self) {
        self.posted.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    /// The request at a place that a completion names, which with all before it is done.
    #[inline(always)]
    pub fn complete(&self, counter: u16) -> Sent {
        let slot = &self.slots[(u32::from(counter) & self.mask) as usize];
        let rest = slot.rest.load(Ordering::Relaxed);
        let sent = Sent {
            wr_id: slot.wr_id.load(Ordering::Relaxed),
            opcode: (rest >> 48) as u16,
            flags: (rest >> 32) as u16,
            number: rest as u32,
        };
        self.done.store(sent.number.wrapping_add(1), Ordering::Relaxed);
        sent
    }

    /// What a read or an atomic brought, where the completion holds it. `before` is how many requests were
    /// done when it came.
    #[cold]
    pub fn take_answer(&self, sent: Sent, before: u32, cqe: Cqe, null_key: Option<u32>) -> ibv_wc_status_t {
        let posted = self.posted.load(Ordering::Relaxed);
        if !self.reliable || sent.number.wrapping_sub(before) >= posted.wrapping_sub(before) {
            return IBV_WC_GENERAL_ERR as ibv_wc_status_t;
        }
        let ring_end = (self.mask as usize + 1) * wqe::BLOCK;
        let block = (u32::from(cqe.counter()) & self.mask) as usize * wqe::BLOCK;
        // SAFETY: a block of the ring, which begins with a control segment as the request is posted.
        let (operation, units) = unsafe { Segment(self.ring).add(block).read_control() };
        let (skip, length) = match operation {
            wqe::RDMA_READ => (2, cqe.byte_len()),
            wqe::ATOMIC_CS | wqe::ATOMIC_FA => (3, 8),
            _ => return IBV_WC_REM_INV_REQ_ERR as ibv_wc_status_t,
        };
        let data = cqe.data();
        let mut left = &data[..(length as usize).min(data.len())];
        let mut at = block + skip * wqe::UNIT;
        for _ in skip..units {
            // SAFETY: a place of the ring, at a unit before its end; the request's memory is the program's
            // until this completion.
            let missing = unsafe {
                let list = Segment(self.ring).add(at % ring_end);
                scatter(list, 1, left, null_key)
            };
            match missing {
                None => left = &[],
                Some(taken) => left = &left[taken..],
            }
            at += wqe::UNIT;
        }
        let fits = left.is_empty() && length as usize <= data.len();
        (if fits { IBV_WC_SUCCESS } else { IBV_WC_LOC_LEN_ERR }) as ibv_wc_status_t
    }

    /// Requests that are done.
    #[inline(always)]
    pub fn done(&self) -> u32 {
        self.done.load(Ordering::Relaxed)
    }
}

/// The receive queue of a queue pair.
pub struct Receives {
    slots: Box<[AtomicU64]>,
    mask: u32,
    /// The requests.
    ring: NonNull<u8>,
    /// Bytes of each are 2 to this power.
    shift: u32,
    posted: AtomicU32,
    done: AtomicU32,
}

// SAFETY: as for Sends.
unsafe impl Send for Receives {}
// SAFETY: as above.
unsafe impl Sync for Receives {}

impl Receives {
    /// An empty queue of `count` requests, a power of two, of `stride` bytes each, another of 16 at least.
    ///
    /// # Safety
    /// The ring has so many bytes, as long as the value is used.
    pub unsafe fn new(ring: NonNull<u8>, count: u32, stride: u32) -> Result<Self> {
        if !count.is_power_of_two() || !stride.is_power_of_two() || (stride as usize) < wqe::UNIT {
            return Err(Errno::EINVAL);
        }
        Ok(Self {
            slots: slots(count as usize, || AtomicU64::new(0))?,
            mask: count - 1,
            ring,
            shift: stride.trailing_zeros(),
            posted: AtomicU32::new(0),
            done: AtomicU32::new(0),
        })
    }

    /// How many requests there is room for.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.mask + 1
    }

    /// Segments of a request.
    #[inline(always)]
    pub fn segments(&self) -> usize {
        1 << (self.shift - 4)
    }

    /// Where the request of a number lies.
    #[inline(always)]
    pub fn at(&self, number: u32) -> Segment {
        // SAFETY: the number is cut to the ring.
        unsafe { Segment(self.ring).add(((number & self.mask) as usize) << self.shift) }
    }

    /// Requests that are not done.
    #[inline(always)]
    pub fn in_flight(&self, posted: u32) -> u32 {
        posted.wrapping_sub(self.done.load(Ordering::Relaxed))
    }

    /// Notes a request.
    #[inline(always)]
    pub fn note(&self, number: u32, wr_id: u64) {
        self.slots[(number & self.mask) as usize].store(wr_id, Ordering::Relaxed);
    }

    /// Requests up to this number are posted.
    #[inline(always)]
    pub fn publish(&self, posted: u32) {
        self.posted.store(posted, Ordering::Relaxed);
    }

    /// The queue was reset.
    pub fn reset(&self) {
        self.posted.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    /// The oldest request is done: the program's number, and the request's.
    #[inline(always)]
    pub fn complete(&self) -> (u64, u32) {
        let number = self.done.load(Ordering::Relaxed);
        self.done.store(number.wrapping_add(1), Ordering::Relaxed);
        (self.slots[(number & self.mask) as usize].load(Ordering::Relaxed), number)
    }

    /// Data in the completion of a request.
    #[cold]
    pub fn take(&self, number: u32, cqe: Cqe, null_key: Option<u32>) -> ibv_wc_status_t {
        // What is done ran ahead of what was posted: the completion is of no request.
        let before = self.posted.load(Ordering::Relaxed).wrapping_sub(number);
        if before == 0 || before > self.count() {
            return IBV_WC_GENERAL_ERR as ibv_wc_status_t;
        }
        // SAFETY: the request is posted, so its segments were written, and its memory is the program's.
        unsafe { take_data(self.at(number), self.segments(), cqe, cqe.byte_len(), null_key) }
    }
}

/// Where the receives of a queue pair or of XRC come from.
pub enum Source {
    /// There are none.
    None,
    /// libmlx5, which posted them.
    Plugin,
    /// The queue pair's own queue.
    Own(Receives),
    /// A shared queue, which lives as long as what names it.
    Shared(NonNull<Srq>),
}

/// What a user index stands for: a queue pair, or a shared receive queue of XRC.
pub struct Origin {
    /// The index as completions have it.
    pub tag: u32,
    /// None where libmlx5 posts, or nobody does.
    pub sends: Option<Sends>,
    /// libmlx5 posts sends.
    pub plugins_sends: bool,
    /// Where receives come from.
    pub receives: Source,
}

// SAFETY: the shared queue may be used by any thread.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    /// Nothing of it is ours.
    pub fn is_plugins(&self) -> bool {
        self.sends.is_none() && matches!(self.receives, Source::Plugin | Source::None)
    }

    /// libmlx5 posts some of it.
    pub fn has_plugins(&self) -> bool {
        self.plugins_sends || matches!(self.receives, Source::Plugin)
    }
}
