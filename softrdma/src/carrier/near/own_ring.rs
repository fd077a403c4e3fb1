//! Own completions of successful send requests, in the process's own memory: nobody else reads or writes them.
//!
//! Whoever completes a request appends behind a lock; whoever polls the completion queue takes, behind the lock
//! of its reader. What does not go this way goes to the shared queue, and a request after one that did goes
//! there, too, until that was polled: completions of a send queue come in the order of its requests.
//!
//! Each says how many completions stood in the shared queue before it ([`OwnReader::is_first`]). A message of a
//! direct ring comes after every own completion that was there when it was first seen
//! ([`OwnReader::lets_pass`]), as an answer does on a wire.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ironverbs_os::growth::{try_arc, try_filled};
use queue_lock::QueueLock;

use crate::error::Result;
use crate::queues::shared::Events;
use crate::rules::completion::Completion;
use crate::rules::verbs::{Event, Status, WcFlags, WcOpcode};
use crate::shm::objects::HeldWord;

use self::sync::{AtomicU32, AtomicU64};

/// Most completions that wait here; beyond that they go to the shared queue.
const MOST: u32 = 4096;
/// The queue pair of a completion that nobody is to see: no number of one.
const GONE: u32 = 0;

/// A completion: number of the request; bytes moved, queue pair in the high half; places, what it was in the
/// high half; completions in the shared queue before it.
type Entry = [AtomicU64; 4];
type Entries = Arc<Box<[Entry]>>;

/// A count in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU32);

/// Where own completions wait.
#[derive(Debug)]
pub(crate) struct OwnRing {
    side: QueueLock<Side>,
    /// Completions appended so far.
    tail: Count,
    /// Those that were taken.
    head: Count,
}

/// The side of who appends.
#[derive(Debug)]
struct Side {
    /// Nothing but the other fields keeps completions from going here.
    is_open: bool,
    /// Somebody may sleep until a completion stands in the shared queue.
    is_armed: bool,
    /// The count up to which the shared queue is to be polled before completions go here again.
    behind: Option<u32>,
    tail: u32,
    /// [`OwnRing::head`], as seen last.
    head: u32,
    entries: Entries,
    /// Words of the shared queue, if there is one behind it.
    shared: Option<SharedWords>,
}

/// What is looked at of the shared queue.
#[derive(Debug, Clone)]
pub(crate) struct SharedWords {
    /// What was raised about the completion queue.
    pub(crate) events: HeldWord,
    /// Completions that stand or stood there.
    pub(crate) tail: HeldWord,
}

/// The side of who polls.
#[derive(Debug, Clone)]
pub(crate) struct OwnReader {
    ring: Arc<OwnRing>,
    entries: Entries,
    head: u32,
}

impl OwnRing {
    /// Both sides of a fresh one, without room, and closed.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory).
    pub(crate) fn new(shared: Option<SharedWords>) -> Result<(Arc<Self>, OwnReader)> {
        let entries: Entries = try_arc(try_filled(0, Entry::default)?)?;
        let (is_open, is_armed, behind, tail, head) = (false, false, None, 0, 0);
        let side = Side { is_open, is_armed, behind, tail, head, entries: entries.clone(), shared };
        let ring =
            try_arc(Self { side: QueueLock::new(side), tail: Count::default(), head: Count::default() })?;
        let reader = OwnReader { ring: ring.clone(), entries, head: 0 };
        Ok((ring, reader))
    }

    /// Opens or closes it, by what is asked while nobody appends: so many stand or stood in the shared queue if
    /// completions may go here.
    pub(crate) fn open_if(&self, tail: impl FnOnce() -> Option<u32>) {
        let mut side = self.side.lock();
        let tail = tail();
        if !side.is_open {
            side.behind = tail;
        }
        side.is_open = tail.is_some();
    }

    /// The words of the shared queue stand there now; `None`: nobody knows where.
    pub(crate) fn follow(&self, shared: Option<SharedWords>) {
        let mut side = self.side.lock();
        side.is_open &= shared.is_some();
        side.shared = shared;
    }

    /// Appends a completion, if it goes this way.
    #[inline(always)]
    pub(crate) fn append(&self, completion: &Completion, polled: impl FnOnce() -> u32) -> bool {
        if completion.status != Status::Success {
            return false;
        }
        self.append_by(&mut self.side.lock(), completion, polled)
    }

    /// The same, where the lock is taken without a locked instruction.
    #[inline(always)]
    pub(crate) fn append_alone(&self, completion: &Completion, polled: impl FnOnce() -> u32) -> bool {
        match self.side.try_lock_alone() {
            Some(mut side) => self.append_by(&mut side, completion, polled),
            None => false,
        }
    }

    /// The same of a success, behind the lock.
    #[inline(always)]
    fn append_by(&self, side: &mut Side, completion: &Completion, polled: impl FnOnce() -> u32) -> bool {
        if !side.is_open || side.is_armed || side.overran() || !side.is_next(polled) {
            return false;
        }
        let (tail, entries) = (side.tail, &**side.entries);
        if tail.wrapping_sub(side.head) as usize >= entries.len() {
            side.head = self.head.0.load(Ordering::Acquire);
            if tail.wrapping_sub(side.head) as usize >= entries.len() {
                return false;
            }
        }
        let Some(entry) = entries.get(tail as usize & entries.len().wrapping_sub(1)) else { return false };
        let before = side.shared.as_ref().map_or(0, |shared| shared.tail.get().load(Ordering::Acquire));
        let [wr_id, bytes, kind] = pack(completion);
        for (word, value) in entry.iter().zip([wr_id, bytes, kind, before]) {
            word.store(value, Ordering::Relaxed);
        }
        side.tail = tail.wrapping_add(1);
        self.tail.0.store(side.tail, Ordering::Release);
        true
    }

    /// A completion went to the shared queue, or may have: so many were appended there, and whether anybody
    /// sleeps until another is. Looked up behind the lock.
    #[cold]
    pub(crate) fn passed_by(&self, look: impl FnOnce() -> (u32, bool)) {
        let mut side = self.side.lock();
        if side.is_open {
            let (tail, is_armed) = look();
            side.behind = Some(tail);
            side.is_armed &= is_armed;
        }
    }

    /// The shared queue was armed: what completes from now on goes there, where it rings. What went here before
    /// is found by who polls once more afterwards.
    pub(crate) fn arm(&self) {
        self.side.lock().is_armed = true;
    }

    /// Places in the shared queue changed, of which so many were used.
    pub(crate) fn shifted(&self, tail: u32) {
        let mut side = self.side.lock();
        side.behind = side.behind.map(|_| tail);
    }
}

impl Side {
    /// Whether nothing that was completed before is still to be polled in the shared queue.
    #[inline(always)]
    fn is_next(&mut self, polled: impl FnOnce() -> u32) -> bool {
        self.behind.is_none_or(|until| {
            let is_next = reached(polled(), until);
            if is_next {
                self.behind = None;
            }
            is_next
        })
    }

    /// Whether the completion queue takes no more.
    #[inline(always)]
    fn overran(&self) -> bool {
        let events = self.shared.as_ref().map_or(0, |shared| shared.events.get().load(Ordering::Acquire));
        Events(events).was_raised(Event::CqErr)
    }
}

impl OwnReader {
    /// Whether completions wait. What was seen before by an acquiring load comes after those that were there
    /// then.
    #[inline(always)]
    pub(crate) fn waits(&self) -> bool {
        self.ring.tail.0.load(Ordering::Acquire) != self.head
    }

    /// Whether the oldest completion comes before the next one of the shared queue, of which so many were
    /// taken: it was there before. A count that cannot be true, of a queue with so many entries, says so.
    #[inline(always)]
    pub(crate) fn is_first(&self, head: u32, capacity: u32) -> bool {
        let before = self.at(self.head).filter(|_| self.waits());
        before.is_some_and(|entry| {
            let before = entry[3].load(Ordering::Relaxed) as u32;
            !(1..=capacity).contains(&before.wrapping_sub(head))
        })
    }

    /// Whether it is the turn of a message that was seen elsewhere: every completion was taken that was here
    /// when it was first seen, which `until` notes.
    #[inline(always)]
    pub(crate) fn lets_pass(&self, until: &mut Option<u32>) -> bool {
        let tail = self.ring.tail.0.load(Ordering::Acquire);
        if tail != self.head && !reached(self.head, *until.get_or_insert(tail)) {
            return false;
        }
        *until = None;
        true
    }

    /// How many were taken, with those of queue pairs that ended.
    #[inline(always)]
    pub(crate) fn taken(&self) -> u32 {
        self.head
    }

    /// Takes the oldest completion.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Completion> {
        while self.waits() {
            let entry = self.at(self.head)?;
            let [wr_id, bytes, kind, _] = entry.each_ref().map(|word| word.load(Ordering::Relaxed));
            let completion = unpack([wr_id, bytes, kind]);
            self.head = self.head.wrapping_add(1);
            self.ring.head.0.store(self.head, Ordering::Release);
            if let Some(completion) = completion.filter(|completion| completion.qp_num != GONE) {
                return Some(completion);
            }
        }
        None
    }

    #[inline(always)]
    fn at(&self, count: u32) -> Option<&Entry> {
        self.entries.get(count as usize & self.entries.len().wrapping_sub(1))
    }

    /// Those that wait.
    fn all(&self) -> impl Iterator<Item = &Entry> {
        let waiting = self.ring.tail.0.load(Ordering::Acquire).wrapping_sub(self.head);
        (0..waiting).filter_map(|n| self.at(self.head.wrapping_add(n)))
    }

    /// Completions that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.all().filter(|entry| qp_num(entry) != GONE).count() as u32
    }

    /// Nobody is to see the completions of this queue pair, which completes nothing meanwhile.
    pub(crate) fn forget(&mut self, number: u32) {
        for entry in self.all().filter(|entry| qp_num(entry) == number) {
            entry[1].store(u64::from(GONE) << 32, Ordering::Relaxed);
        }
    }

    /// Has room for so many completions, as far as they go here at all.
    ///
    /// # Errors
    /// [`Error::NoMemory`](crate::error::Error::NoMemory); nothing has changed then.
    pub(crate) fn make_room(&mut self, count: u32) -> Result<()> {
        let count = count.min(MOST).next_power_of_two() as usize;
        if count <= self.entries.len() {
            return Ok(());
        }
        let entries: Entries = try_arc(try_filled(count, Entry::default)?)?;
        let mut side = self.ring.side.lock();
        for n in (0..side.tail.wrapping_sub(self.head)).map(|n| self.head.wrapping_add(n)) {
            if let (Some(from), Some(to)) = (self.at(n), entries.get(n as usize & (count - 1))) {
                to.iter().zip(from).for_each(|(to, from)| {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                });
            }
        }
        side.entries = entries.clone();
        self.entries = entries;
        Ok(())
    }
}

/// Whether a count has come to another.
#[inline(always)]
fn reached(count: u32, until: u32) -> bool {
    count.wrapping_sub(until) as i32 >= 0
}

#[inline(always)]
fn pack(completion: &Completion) -> [u64; 3] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let packed = [
        completion.wr_id,
        pair(completion.byte_len, completion.qp_num),
        pair(completion.places, completion.opcode as u32),
    ];
    debug_assert_eq!(unpack(packed), Some(*completion));
    packed
}

#[inline(always)]
fn unpack([wr_id, bytes, kind]: [u64; 3]) -> Option<Completion> {
    Some(Completion {
        wr_id,
        status: Status::Success,
        opcode: WcOpcode::from_number((kind >> 32) as u32)?,
        vendor_err: 0,
        byte_len: bytes as u32,
        imm_or_key: 0,
        qp_num: (bytes >> 32) as u32,
        src_qp: 0,
        flags: WcFlags::NONE,
        timestamp: 0,
        places: kind as u32,
    })
}

fn qp_num(entry: &Entry) -> u32 {
    (entry[1].load(Ordering::Relaxed) >> 32) as u32
}

/// What the ring is made of: the standard library, or the model checker in its place.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64};
    #[cfg(not(loom))]
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};
}

#[cfg(all(test, not(loom)))]
mod tests;

/// Every interleaving of who completes and who sleeps (`scripts/models`).
#[cfg(all(test, loom))]
mod model;
