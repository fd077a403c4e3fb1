//! The mailboxes in the target's segment.
//!
//! The block starts with the bell (a counter, which the service sleeps on) and the word that says that it
//! sleeps, each on a cache line of its own, then come the mailboxes and then their rings. A mailbox:
//!
//! | offset | size | writer | meaning |
//! |---|---|---|---|
//! | 0 | 8 | initiators | lock |
//! | 64 | 8 | both | number of the job, and its [`Phase`] in the low 8 bits |
//! | 72 | 8 | initiator | number and phase of a job that must not go on |
//! | 80 | 8 | service | how the job ended |
//! | 88 | 8 | service | value that an atomic operation found |
//! | 128 | 8 | the side that fills the ring | bytes put in since the job began |
//! | 192 | 8 | the side that empties it | bytes taken out |
//! | 256 | 4 | service | counts its steps; the initiator sleeps on it |
//! | 320 | 4 | initiator | it sleeps |
//! | 384 | 64 | initiator | the job: purpose and operation, length, pieces, two operands, what it is part of |
//! | 448 | 768 | initiator | the pieces of memory: address, length, key |
//!
//! | phase | goes to | by |
//! |---|---|---|
//! | free, done, cancelled | posted | the holder of the lock |
//! | posted | active | the service: from now on only it ends the job |
//! | posted | cancelled | the holder of the lock, or the next one |
//! | active | done | the service |

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::error::Result;
use super::super::lock::Lock;
use super::super::memory::Memory;
use super::{Origin, Piece, Purpose};
use crate::shm::atomics::Operation;

/// States of the segment's word for the copy service: nobody asked, somebody did, there is one.
const NONE: u32 = 0;
pub(super) const WANTED: u32 = 1;
pub(super) const SERVING: u32 = 2;

/// Jobs that can be under way at the same time.
pub(super) const MAILBOXES: usize = 4;
/// Bytes of a ring.
pub(super) const RING: u64 = 128 << 10;
/// Bytes copied at once at most: small enough that both sides soon have something to do.
pub(super) const STEP: u64 = 16 << 10;
/// Pieces of memory of a job: as many as a work request may have.
pub(super) const PIECES: usize = 32;

const FIRST: u64 = 128;
const STRIDE: u64 = 1280;
const RINGS: u64 = 8192;
const _: () = assert!(FIRST + MAILBOXES as u64 * STRIDE <= RINGS);
const _: () = assert!(448 + 24 * PIECES as u64 <= STRIDE);
/// Bytes of the whole block.
pub(super) const BYTES: u64 = RINGS + MAILBOXES as u64 * RING;

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Posted = 1,
    Active = 2,
    Done = 3,
    Cancelled = 4,
}

const PHASE: u64 = 0xff;

/// The state word of the same job in this phase.
pub(super) fn in_phase(state: u64, phase: Phase) -> u64 {
    state & !PHASE | phase as u64
}

/// The state word of the next job when it is posted.
pub(super) fn next_job(state: u64) -> u64 {
    in_phase(state.wrapping_add(PHASE + 1), Phase::Posted)
}

pub(super) fn is_in(state: u64, phase: Phase) -> bool {
    state & PHASE == phase as u64
}

/// How a job ended. Values above [`Ending::Errno`] are that plus an `errno` value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Done,
    Fault,
    Refused,
    /// By the initiator, or because the service ended.
    Cancelled,
    /// The lock of the atomic operations was not to be had.
    Busy,
    Errno(i32),
}

const ERRNO: u64 = 1 << 32;

impl Ending {
    pub(super) fn to_word(self) -> u64 {
        match self {
            Ending::Done => 1,
            Ending::Fault => 2,
            Ending::Refused => 3,
            Ending::Cancelled => 4,
            Ending::Busy => 5,
            Ending::Errno(e) => ERRNO | u64::from(e as u32),
        }
    }

    pub(super) fn from_word(word: u64) -> Self {
        match word {
            1 => Ending::Done,
            2 => Ending::Fault,
            3 => Ending::Refused,
            4 => Ending::Cancelled,
            5 => Ending::Busy,
            _ if word & ERRNO != 0 && word as i32 > 0 => Ending::Errno(word as i32),
            _ => Ending::Errno(libc::EPROTO),
        }
    }
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Into the target's memory, for an RDMA write or a receive request.
    Put(Purpose),
    /// Out of it.
    Get,
    Atomic(Operation),
}

impl Action {
    pub(super) fn purpose(self) -> Purpose {
        match self {
            Action::Put(purpose) => purpose,
            Action::Get => Purpose::Read,
            Action::Atomic(Operation::Write(_)) => Purpose::Write,
            Action::Atomic(_) => Purpose::Atomic,
        }
    }

    fn to_words(self) -> [u64; 3] {
        match self {
            Action::Put(Purpose::Receive) => [1, 0, 0],
            Action::Put(_) => [2, 0, 0],
            Action::Get => [3, 0, 0],
            Action::Atomic(Operation::FetchAdd(n)) => [4, n, 0],
            Action::Atomic(Operation::CompareSwap { compare, swap }) => [5, compare, swap],
            Action::Atomic(Operation::Write(n)) => [6, n, 0],
        }
    }

    fn from_words(words: [u64; 3]) -> Option<Self> {
        Some(match words[0] {
            1 => Action::Put(Purpose::Receive),
            2 => Action::Put(Purpose::Write),
            3 => Action::Get,
            4 => Action::Atomic(Operation::FetchAdd(words[1])),
            5 => Action::Atomic(Operation::CompareSwap { compare: words[1], swap: words[2] }),
            6 => Action::Atomic(Operation::Write(words[1])),
            _ => return None,
        })
    }
}

/// A job, in the reader's own memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) action: Action,
    pub(super) origin: Origin,
    pub(super) len: u64,
    pieces: [Piece; PIECES],
    count: usize,
}

impl Job {
    /// A job on the pieces as far as they reach, at most [`PIECES`] of them and `limit` bytes.
    pub(super) fn new(action: Action, origin: Origin, pieces: &[Piece], limit: u64) -> Self {
        let mut job = Job { action, origin, len: 0, pieces: [NO_PIECE; PIECES], count: 0 };
        for piece in pieces.iter().take(PIECES) {
            let len = piece.len.min(limit - job.len);
            job.pieces[job.count] = Piece { len, ..*piece };
            job.count += 1;
            job.len += len;
        }
        job
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.count]
    }
}

const NO_PIECE: Piece = Piece { key: 0, addr: 0, len: 0 };

/// A mailbox of a segment: references that are inside the mapping, to words that may say anything.
#[derive(Clone, Copy)]
pub(super) struct Mailbox<'a> {
    pub(super) lock: &'a Lock,
    pub(super) state: &'a AtomicU64,
    pub(super) cancel: &'a AtomicU64,
    pub(super) ending: &'a AtomicU64,
    pub(super) value: &'a AtomicU64,
    /// Bytes that were put into the ring.
    pub(super) filled: &'a AtomicU64,
    /// Bytes that were taken out.
    pub(super) emptied: &'a AtomicU64,
    /// What the initiator waits for.
    pub(super) turn: Signal<'a>,
    job: &'a [AtomicU64],
    /// Where the ring starts in the segment.
    pub(super) ring: u64,
}

/// The words of a serving segment.
#[derive(Clone, Copy)]
pub(super) struct Mailboxes<'a> {
    /// What the service waits for.
    pub(super) bell: Signal<'a>,
    pub(super) all: [Mailbox<'a>; MAILBOXES],
}

impl<'a> Mailboxes<'a> {
    /// The block at `offset`, when it is inside of the segment.
    pub(super) fn at(memory: &'a Memory, offset: u64) -> Result<Self> {
        memory.words(offset, (BYTES / 8) as usize)?;
        let first = Mailbox::at(memory, offset, 0)?;
        let mut all = [first; MAILBOXES];
        for (i, mailbox) in all.iter_mut().enumerate() {
            *mailbox = Mailbox::at(memory, offset, i as u64)?;
        }
        let bell = Signal { count: memory.u32(offset)?, asleep: memory.u32(offset + 64)? };
        Ok(Mailboxes { bell, all })
    }
}

impl<'a> Mailbox<'a> {
    fn at(memory: &'a Memory, offset: u64, index: u64) -> Result<Self> {
        let at = offset + FIRST + STRIDE * index;
        Ok(Mailbox {
            lock: Lock::of_what_stays(memory.u64(at)?),
            state: memory.u64(at + 64)?,
            cancel: memory.u64(at + 72)?,
            ending: memory.u64(at + 80)?,
            value: memory.u64(at + 88)?,
            filled: memory.u64(at + 128)?,
            emptied: memory.u64(at + 192)?,
            turn: Signal { count: memory.u32(at + 256)?, asleep: memory.u32(at + 320)? },
            job: memory.words(at + 384, 8 + 3 * PIECES)?,
            ring: offset + RINGS + RING * index,
        })
    }

    pub(super) fn write_job(&self, job: &Job) {
        let [action, first, second] = job.action.to_words();
        let Origin { qp_num, src_qp, srq_num, wr_id } = job.origin;
        let pair = u64::from(qp_num) | u64::from(src_qp) << 32;
        let head = [action, job.len, job.count as u64, first, second, pair, srq_num.into(), wr_id];
        let pieces = job.pieces().iter().flat_map(|p| [p.addr, p.len, u64::from(p.key)]);
        let (front, rest) = self.job.split_at(8);
        for (to, from) in front.iter().zip(head).chain(rest.iter().zip(pieces)) {
            to.store(from, Ordering::Relaxed);
        }
    }

    /// `None` for what no initiator of this crate writes.
    pub(super) fn read_job(&self) -> Option<Job> {
        let word = |i: usize| self.job[i].load(Ordering::Relaxed);
        let action = Action::from_words([word(0), word(3), word(4)])?;
        let count = usize::try_from(word(2)).ok().filter(|n| *n <= PIECES)?;
        let (pair, srq_num, wr_id) = (word(5), word(6) as u32, word(7));
        let origin = Origin { qp_num: pair as u32, src_qp: (pair >> 32) as u32, srq_num, wr_id };
        let mut job = Job { action, origin, len: 0, pieces: [NO_PIECE; PIECES], count };
        for (i, piece) in job.pieces[..count].iter_mut().enumerate() {
            let at = 8 + 3 * i;
            *piece = Piece { addr: word(at), len: word(at + 1), key: u32::try_from(word(at + 2)).ok()? };
            piece.addr.checked_add(piece.len)?;
            job.len = job.len.checked_add(piece.len)?;
        }
        let shape = match action {
            Action::Atomic(_) => count == 1 && job.len == 8 && job.pieces[0].addr.is_multiple_of(8),
            _ => true,
        };
        (shape && job.len == word(1)).then_some(job)
    }

    /// Where the ring's byte number `count` is in the segment, and how many follow it without a turn.
    pub(super) fn place(&self, count: u64) -> (u64, u64) {
        let at = count % RING;
        (self.ring + at, RING - at)
    }
}

/// Whether spinning can help: somebody else must be able to run meanwhile.
fn spins() -> bool {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        // SAFETY: cpu_set_t is an array of integers, for which all zeroes is a value; the call writes no more
        // than it.
        let one = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0 && libc::CPU_COUNT(&set) == 1
        };
        known = if one { 1 } else { 2 };
        KNOWN.store(known, Ordering::Relaxed);
    }
    known == 2
}

/// How long to look for news before sleeping: some times what a side of a copy takes for a step.
const SPIN: Duration = Duration::from_micros(20);

/// A counter that one thread sleeps on and others raise.
#[derive(Clone, Copy)]
pub(super) struct Signal<'a> {
    count: &'a AtomicU32,
    asleep: &'a AtomicU32,
}

impl Signal<'_> {
    /// The count before a look at what it is about; [`Signal::wait`] returns when it is another.
    pub(super) fn seen(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Says that there are news.
    pub(super) fn raise(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // The sleeper says so before it looks at the count for the last time.
        if self.asleep.load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    /// Says that bytes went through a ring, up to number `now`. The other side, which may sleep because the
    /// ring was full or empty, is woken for every half of the ring, not for every step.
    pub(super) fn moved(&self, before: u64, now: u64) {
        if before / (RING / 2) != now / (RING / 2) {
            self.raise();
        } else {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    /// Wakes a sleeper beforehand, since news are to follow.
    pub(super) fn rouse(&self) {
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.raise();
        }
    }

    /// Wakes whatever the words say.
    pub(super) fn wake(&self) {
        // SAFETY: the word is alive with `self`; waking reads nothing.
        unsafe { libc::syscall(libc::SYS_futex, self.count, libc::FUTEX_WAKE, 1) };
    }

    /// Waits until the count is not `seen`, for about `time` at most: `true` when it is another.
    pub(super) fn wait(&self, seen: u32, time: Option<Duration>) -> bool {
        if spins() {
            let start = Instant::now();
            loop {
                for _ in 0..64 {
                    if self.count.load(Ordering::Acquire) != seen {
                        return true;
                    }
                    std::hint::spin_loop();
                }
                if start.elapsed() >= SPIN {
                    break;
                }
            }
        }
        let time = time.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.asleep.store(1, Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == seen {
            // SAFETY: the word is alive with `self`, and `time` lives across the call. The kernel only compares
            // the word.
            unsafe { libc::syscall(libc::SYS_futex, self.count, libc::FUTEX_WAIT, seen, time) };
        }
        self.asleep.store(0, Ordering::Relaxed);
        self.count.load(Ordering::Acquire) != seen
    }

    /// Nobody sleeps here: the one that said so is dead.
    pub(super) fn nobody_sleeps(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }
}

/// Says that there is a service, and wakes the threads that wait for it.
pub(super) fn say_serving(word: &AtomicU32) {
    word.store(SERVING, Ordering::Release);
    // SAFETY: the word is alive; waking reads nothing.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
}

/// Says that there is none.
pub(super) fn say_ended(word: &AtomicU32) {
    word.store(NONE, Ordering::Release);
}

/// Asks for a service, and whether there is one. The first caller waits a moment for it.
pub(super) fn ask(word: &AtomicU32, patience: Duration) -> bool {
    let seen = word.load(Ordering::Acquire);
    if seen == SERVING {
        return true;
    }
    if seen == WANTED || word.compare_exchange(seen, WANTED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return word.load(Ordering::Acquire) == SERVING;
    }
    let start = Instant::now();
    loop {
        let left = patience.saturating_sub(start.elapsed());
        let seen = word.load(Ordering::Acquire);
        if seen != WANTED || left.is_zero() {
            return seen == SERVING;
        }
        let left = libc::timespec {
            tv_sec: left.as_secs() as libc::time_t,
            tv_nsec: left.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the word is alive, and `left` lives across the call. The kernel only compares the word.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &raw const left) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::memory_of;
    use super::*;
    use proptest::prelude::*;

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![Just(Action::Put(Purpose::Receive)), Just(Action::Put(Purpose::Write)), Just(Action::Get),]
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            any::<u64>().prop_map(Operation::FetchAdd),
            any::<u64>().prop_map(Operation::Write),
            any::<(u64, u64)>().prop_map(|(compare, swap)| Operation::CompareSwap { compare, swap }),
        ]
    }

    fn piece() -> impl Strategy<Value = Piece> {
        (any::<u32>(), 0..u64::MAX / 2, 0..1u64 << 40).prop_map(|(key, addr, len)| Piece { key, addr, len })
    }

    fn same(a: &Job, b: &Job) -> bool {
        (a.action, a.origin, a.len, a.pieces()) == (b.action, b.origin, b.len, b.pieces())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_job_is_read_as_it_was_written(
            action in action(),
            pieces in proptest::collection::vec(piece(), 0..40),
            limit in prop_oneof![Just(u64::MAX), 0..1u64 << 42],
            operation in operation(),
            (qp_num, src_qp, srq_num, wr_id) in any::<(u32, u32, u32, u64)>(),
        ) {
            let origin = Origin { qp_num, src_qp, srq_num, wr_id };
            let (memory, _file) = memory_of(&vec![0x5a; BYTES as usize]);
            let mailboxes = Mailboxes::at(&memory, 0).unwrap();
            let job = Job::new(action, origin, &pieces, limit);
            prop_assert!(job.len <= limit && job.count <= PIECES);
            mailboxes.all[1].write_job(&job);
            prop_assert!(same(&mailboxes.all[1].read_job().unwrap(), &job));
            let one = Piece { key: 1, addr: 64, len: 8 };
            let job = Job::new(Action::Atomic(operation), origin, &[one], 8);
            mailboxes.all[3].write_job(&job);
            prop_assert!(same(&mailboxes.all[3].read_job().unwrap(), &job));
        }

        #[test]
        fn what_nobody_honest_writes_is_no_job(
            words in proptest::collection::vec(prop_oneof![0u64..8, any::<u64>()], 8 + 3 * PIECES),
        ) {
            let (memory, _file) = memory_of(&vec![0; BYTES as usize]);
            let mailbox = Mailboxes::at(&memory, 0).unwrap().all[0];
            for (to, from) in mailbox.job.iter().zip(&words) {
                to.store(*from, Ordering::Relaxed);
            }
            if let Some(job) = mailbox.read_job() {
                let total: u128 = job.pieces().iter().map(|p| u128::from(p.len)).sum();
                prop_assert_eq!(total, u128::from(job.len));
                prop_assert!(job.pieces().iter().all(|p| p.addr.checked_add(p.len).is_some()));
            }
        }
    }

    #[test]
    fn phases_and_endings() {
        let posted = next_job(0);
        assert!(is_in(posted, Phase::Posted) && !is_in(posted, Phase::Active));
        let next = next_job(in_phase(posted, Phase::Done));
        assert!(is_in(next, Phase::Posted) && next != posted);
        assert!(is_in(next_job(u64::MAX), Phase::Posted));
        for ending in [Ending::Done, Ending::Fault, Ending::Refused, Ending::Cancelled, Ending::Busy] {
            assert_eq!(Ending::from_word(ending.to_word()), ending);
        }
        assert_eq!(Ending::from_word(Ending::Errno(libc::EIO).to_word()), Ending::Errno(libc::EIO));
        for lie in [0, 6, ERRNO, ERRNO | 0xffff_ffff, u64::MAX] {
            assert_eq!(Ending::from_word(lie), Ending::Errno(libc::EPROTO));
        }
    }

    #[test]
    fn a_block_beyond_the_end_is_none() {
        let (memory, _file) = memory_of(&vec![0; BYTES as usize]);
        assert!(Mailboxes::at(&memory, 0).is_ok());
        for offset in [8, 4096, u64::MAX, u64::MAX - 7, BYTES] {
            assert!(Mailboxes::at(&memory, offset).is_err());
        }
    }

    #[test]
    fn waiting_ends_with_news_or_with_time() {
        let (count, asleep) = (AtomicU32::new(0), AtomicU32::new(0));
        let signal = Signal { count: &count, asleep: &asleep };
        assert!(!signal.wait(0, Some(Duration::from_millis(5))));
        assert!(signal.wait(1, None));
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..2000 {
                    let seen = signal.seen();
                    if seen.is_multiple_of(2) {
                        signal.wait(seen, None);
                    }
                }
            });
            // As many as are waited for and more, now and then with a pause in which the waiter falls asleep.
            for n in 0..4000u32 {
                signal.raise();
                if n.is_multiple_of(100) {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
            signal.raise();
        });
        assert_eq!(asleep.load(Ordering::Relaxed), 0);
    }
}
