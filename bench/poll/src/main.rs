//! Cycles per completion of `ibv_poll_cq` over a soft-RoCE ring: the library's ring code beside the provider of the
//! rdma-core that is installed, in one run and over the same memory.
//!
//! The ring lies in a memfd. For every figure both sides empty a full ring of 255 completions, poll by poll; the
//! figure is the best round of many, as other work on the machine only ever adds. Both poll functions are called by
//! pointer, as `verbs.h` does. The time of refilling (one store) is not counted.

#[path = "../../../src/provider/rxe/copy.rs"]
mod copy;
mod rdma_core;
#[path = "../../../src/provider/rxe/ring.rs"]
#[allow(dead_code)]
mod ring;

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use queue_lock::QueueLock;
use ring::{CompletionRing, ENTRY};

const SLOTS: u32 = 256;
const SLOT_SHIFT: u32 = 6;
const RING_BYTES: usize = ring::DATA + ((SLOTS as usize) << SLOT_SHIFT);
const ROUNDS: u32 = 400;
const LAPS: u32 = 16;
const EMPTY_POLLS: u32 = 2000;
const MOST: usize = 64;

/// How programs poll: a function of the device, found through the queue's context.
type PollCq = unsafe extern "C" fn(cq: *mut c_void, num_entries: c_int, wc: *mut c_void) -> c_int;

/// One side of the comparison.
struct Contestant {
    cq: *mut c_void,
    poll_cq: PollCq,
}

/// The library's queue, as `provider/rxe/cq.rs` has it behind its public part.
struct Cq {
    single_threaded: bool,
    queue: QueueLock<CompletionRing>,
}

/// `poll_cq` of `provider/rxe/cq.rs` for this `Cq`.
unsafe extern "C" fn poll_cq(cq: *mut c_void, num_entries: c_int, wc: *mut c_void) -> c_int {
    // SAFETY: called with a live Cq only.
    let Some(cq) = (unsafe { cq.cast::<Cq>().as_ref() }) else { return -1 };
    let max = num_entries.max(0) as usize;
    let taken = if cq.single_threaded {
        // SAFETY: the lock was left held at creation, and this process polls from one thread; there is room for
        // `max`.
        unsafe { cq.queue.held_mut().take(wc.cast(), max) }
    } else if let Some(mut ring) = cq.queue.try_lock() {
        // SAFETY: there is room for `max` completions.
        unsafe { ring.take(wc.cast(), max) }
    } else {
        // SAFETY: there is room for `max` completions.
        unsafe { poll_after_wait(cq, wc, max) }
    };
    taken as c_int
}

/// # Safety
/// There is room for `max` completions at `wc`.
#[cold]
#[inline(never)]
unsafe fn poll_after_wait(cq: &Cq, wc: *mut c_void, max: usize) -> usize {
    // SAFETY: by the contract.
    unsafe { cq.queue.lock().take(wc.cast(), max) }
}

/// The memory of the ring, and the part of the driver that fills it.
struct Driver {
    file: OwnedFd,
    base: NonNull<u8>,
}

impl Driver {
    fn new() -> Self {
        // SAFETY: the name is a NUL-terminated string.
        let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        // SAFETY: just opened, and nobody else has it.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: an open file of ours.
        assert_eq!(unsafe { libc::ftruncate(fd, RING_BYTES as libc::off_t) }, 0);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), RING_BYTES, protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(base, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let driver = Self { file, base: NonNull::new(base.cast()).expect("mmap gives no null page") };
        driver.word(ring::LOG2_SLOT_SIZE).store(SLOT_SHIFT, Ordering::Relaxed);
        driver.word(ring::INDEX_MASK).store(SLOTS - 1, Ordering::Relaxed);
        for slot in 0..SLOTS as usize {
            // SAFETY: every slot lies inside the mapping, whose size was computed from their number.
            unsafe {
                let at = driver.base.add(ring::DATA + (slot << SLOT_SHIFT)).cast::<u64>();
                at.write(1000 + slot as u64);
            }
        }
        driver
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: a multiple of four inside the head of the mapping, which lives as long as the process.
        unsafe { AtomicU32::from_ptr(self.base.add(offset).as_ptr().cast()) }
    }

    /// Makes the ring full, wherever the consumer is.
    fn fill(&self) {
        let consumer = self.word(ring::CONSUMER).load(Ordering::Relaxed);
        self.word(ring::PRODUCER).store(consumer.wrapping_sub(1) & (SLOTS - 1), Ordering::Release);
    }

    fn empty(&self) {
        let consumer = self.word(ring::CONSUMER).load(Ordering::Relaxed);
        self.word(ring::PRODUCER).store(consumer, Ordering::Release);
    }

    fn contestant(&self, single_threaded: bool) -> Contestant {
        // SAFETY: the mapping lives as long as the process; the other users are this file, through atomics, and the
        // other contestants, which never run at the same time.
        let ring =
            unsafe { CompletionRing::over(self.base, RING_BYTES) }.expect("the head was written above");
        let cq = Box::leak(Box::new(Cq { single_threaded, queue: QueueLock::new(ring) }));
        if single_threaded {
            cq.queue.lock().leave_held();
        }
        Contestant { cq: std::ptr::from_mut(cq).cast(), poll_cq }
    }
}

/// The processor's constant-rate counter.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: both instructions only read; the fence keeps the counter behind what came before.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let now = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        now
    }
}

/// Nanoseconds, where there is no counter that a program may read.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

const UNIT: &str = if cfg!(target_arch = "x86_64") { "TSC cycles" } else { "ns" };

/// Room for the completions of a poll.
struct Array([u64; MOST * ENTRY / 8]);

/// Per completion, in one round of several full rings.
#[inline(never)]
fn round(driver: &Driver, side: &Contestant, per_poll: usize, array: &mut Array) -> f64 {
    let poll = black_box(side.poll_cq);
    let mut spent = 0;
    for _ in 0..LAPS {
        driver.fill();
        let mut left = (SLOTS - 1) as c_int;
        let start = ticks();
        while left > 0 {
            // SAFETY: a live queue, its own poll function, and room for MOST completions, at least `per_poll`.
            let n = unsafe { poll(side.cq, per_poll as c_int, array.0.as_mut_ptr().cast()) };
            assert!(n > 0, "a completion was lost");
            left -= n;
        }
        spent += ticks() - start;
        assert!(left == 0, "a completion came twice");
    }
    spent as f64 / f64::from(LAPS * (SLOTS - 1))
}

/// Per poll of an empty ring.
#[inline(never)]
fn empty_round(driver: &Driver, side: &Contestant, array: &mut Array) -> f64 {
    let poll = black_box(side.poll_cq);
    driver.empty();
    let start = ticks();
    for _ in 0..EMPTY_POLLS {
        // SAFETY: as in `round`.
        let n = unsafe { poll(side.cq, MOST as c_int, array.0.as_mut_ptr().cast()) };
        assert_eq!(n, 0);
    }
    (ticks() - start) as f64 / f64::from(EMPTY_POLLS)
}

/// The best of many rounds for every side, taken in turns.
fn best<const N: usize>(sides: [&Contestant; N], mut measure: impl FnMut(&Contestant) -> f64) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (best, side) in best.iter_mut().zip(sides) {
            *best = best.min(measure(side));
        }
    }
    best
}

fn report(driver: &Driver, threads: &str, theirs: &Contestant, ours: &Contestant, unlocked: &Contestant) {
    let mut array = Box::new(Array([0; MOST * ENTRY / 8]));
    println!("\n{threads}, {UNIT} per completion (empty: per poll)");
    println!(
        "{:>18} {:>10} {:>10} {:>7} {:>22}",
        "entries per poll", "rdma-core", "ironverbs", "ratio", "SINGLE_THREADED ratio"
    );
    let line = |name: &str, [theirs, ours, unlocked]: [f64; 3]| {
        println!(
            "{name:>18} {theirs:>10.2} {ours:>10.2} {:>6.2}x {unlocked:>15.2} {:>5.2}x",
            theirs / ours,
            theirs / unlocked
        );
    };
    let sides = [theirs, ours, unlocked];
    for per_poll in [1, 16, MOST] {
        line(&per_poll.to_string(), best(sides, |side| round(driver, side, per_poll, &mut array)));
    }
    line("empty", best(sides, |side| empty_round(driver, side, &mut array)));
}

fn main() -> ExitCode {
    let driver = Driver::new();
    let theirs = match rdma_core::contestant(driver.file.as_raw_fd(), RING_BYTES as u32) {
        Ok((cq, poll_cq)) => Contestant { cq, poll_cq },
        Err(reason) => {
            eprintln!("bench-poll: rdma-core's provider (Debian: ibverbs-providers) is needed: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let (ours, unlocked) = (driver.contestant(false), driver.contestant(true));

    report(&driver, "one thread in the process", &theirs, &ours, &unlocked);
    // From here on the C library knows that the process has had a second thread, and locks must be taken in full.
    std::thread::spawn(|| ()).join().expect("a thread that does nothing");
    report(&driver, "several threads in the process", &theirs, &ours, &unlocked);
    ExitCode::SUCCESS
}
