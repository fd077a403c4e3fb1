//! Pollers to which nothing comes, on a machine that has fewer processors than busy threads.
//!
//! Such a thread takes a processor from the one that it waits for. After some tens of microseconds it gives way
//! at every 64th poll (`sched_yield`), which lets a thread in that waits for the same processor, but none that
//! waits for another. So after two milliseconds, while processors are short, it sleeps for a moment instead: an
//! idle processor fetches a thread that waits for another one. Who has slept so sleeps soon the next time, as
//! long as processors were short not long ago; while it sleeps they may seem not to be.
//!
//! A thread that polls several queues finds nothing in some while it works for others: it does not sleep as
//! long as it finds something anywhere. Who finds what is counted only while processors are short.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ironverbs_os::growth::try_filled;

use ironverbs_os::processors;

use super::Result;

/// Nanoseconds of polls in vain, and of counting, before a thread sleeps.
const LONG: u64 = 1_000_000;
/// The same for a thread that has slept so.
const SOON: u64 = 50_000;
/// For how long it has, after processors were short.
const KEEPS: u64 = 100_000_000;
/// Numbers to which threads are spread. Two that meet in one are each taken for finding what the other does.
const THREADS: usize = 64;

/// How often which thread found something in completion queues of the device.
#[derive(Debug)]
pub(super) struct Finders {
    /// Processors are short, so it is counted.
    counted: AtomicBool,
    found: Box<[Count]>,
}

/// A line of its own, as each is written by a thread of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU32);

impl Finders {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { counted: false.into(), found: try_filled(THREADS, Count::default)? })
    }

    /// The calling thread found something.
    #[inline(always)]
    pub(super) fn note(&self) {
        if self.counted.load(Ordering::Relaxed) {
            self.count();
        }
    }

    #[cold]
    fn count(&self) {
        // By a plain store, since hardly ever another thread writes there, whose count may be lost.
        let found = self.of_this_thread();
        found.store(found.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn of_this_thread(&self) -> &AtomicU32 {
        // SAFETY: answers a number, and has no other effect.
        let thread = unsafe { libc::pthread_self() } as u64;
        // Threads stand at like distances; the product's upper bits differ for them (Fibonacci hashing).
        &self.found[(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % THREADS].0
    }
}

/// How long nothing came to one completion queue.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Since when (`CLOCK_MONOTONIC`, nanoseconds); 0: something came.
    since: u64,
    /// What the polling thread had found anywhere then.
    found: u32,
    /// Until when the thread sleeps [`SOON`] (as `since`).
    soon_until: u64,
}

impl Idle {
    /// Something came a short while ago.
    pub(super) fn begin(&mut self) {
        self.since = 0;
    }

    /// Whether the calling thread, which has polled the queue in vain for long, should sleep; to be asked every
    /// now and then while it does. `now` is the time in nanoseconds, `short` says whether processors are.
    pub(super) fn is_long(&mut self, finders: &Finders, now: u64, short: impl FnOnce(u64) -> bool) -> bool {
        let found = || finders.of_this_thread().load(Ordering::Relaxed);
        let sleeps_soon = now < self.soon_until;
        if self.since == 0 {
            self.since = now;
            if sleeps_soon {
                self.found = found();
            }
        }
        if now.saturating_sub(self.since) < if sleeps_soon { SOON } else { LONG } {
            return false;
        }
        let (short, found) = (short(now), found());
        let counted = finders.counted.swap(short || sleeps_soon, Ordering::Relaxed);
        if (short || sleeps_soon) && counted && found == self.found {
            if short {
                self.soon_until = now + KEEPS;
            }
            return true;
        }
        (self.since, self.found) = (now, found);
        false
    }

    /// As [`Idle::is_long`], at this time and on this machine. Where packets of other hosts may come, the
    /// thread that looks after them runs for moments, which is no shortage.
    pub(super) fn is_long_now(&mut self, finders: &Finders, network: bool) -> bool {
        let short = if network { processors::have_been_short } else { processors::are_short };
        self.is_long(finders, ironverbs_os::clock::now(), short)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// How many of `looks`, each a tenth of [`LONG`] after the one before, say that the thread should sleep.
    fn sleeps(
        idle: &mut Idle,
        finders: &Finders,
        looks: Range<u64>,
        short: bool,
        between: impl Fn(),
    ) -> usize {
        let says = |look| {
            between();
            idle.is_long(finders, (look + 1) * LONG / 10, |_| short)
        };
        looks.map(says).filter(|sleeps| *sleeps).count()
    }

    #[test]
    fn nobody_sleeps_while_there_are_processors() {
        let (mut idle, finders) = (Idle::default(), Finders::new().unwrap());
        assert_eq!(sleeps(&mut idle, &finders, 0..1000, false, || ()), 0);
    }

    #[test]
    fn who_finds_nothing_sleeps_after_two_milliseconds() {
        let (mut idle, finders) = (Idle::default(), Finders::new().unwrap());
        // The first millisecond is that of the queue, in the second it is counted what the thread finds.
        assert_eq!(sleeps(&mut idle, &finders, 0..20, true, || ()), 0);
        assert_eq!(sleeps(&mut idle, &finders, 20..50, true, || ()), 30);
    }

    #[test]
    fn who_has_slept_sleeps_soon_the_next_time() {
        let (mut idle, finders) = (Idle::default(), Finders::new().unwrap());
        assert_eq!(sleeps(&mut idle, &finders, 0..30, true, || ()), 10);
        // Something came to the queue; while the thread sleeps, processors are not short.
        idle.begin();
        assert_eq!(sleeps(&mut idle, &finders, 30..50, false, || ()), 19);
        // But not for ever.
        let later = 30 + KEEPS / LONG * 10;
        assert_eq!(sleeps(&mut idle, &finders, later..later + 50, false, || ()), 0);
        // Nor beside what it finds elsewhere.
        assert!(sleeps(&mut idle, &finders, later + 50..later + 100, true, || ()) > 0);
        idle.begin();
        assert_eq!(sleeps(&mut idle, &finders, later + 100..later + 150, true, || finders.note()), 0);
    }

    #[test]
    fn who_finds_something_elsewhere_does_not_sleep() {
        let (mut idle, finders) = (Idle::default(), Finders::new().unwrap());
        assert_eq!(sleeps(&mut idle, &finders, 0..1000, true, || finders.note()), 0);
        let own = finders.of_this_thread();
        let other = &finders.found.iter().find(|count| !std::ptr::eq(&count.0, own)).unwrap().0;
        let others = || {
            other.fetch_add(1, Ordering::Relaxed);
        };
        assert!(sleeps(&mut Idle::default(), &finders, 0..40, true, others) > 0);
    }

    #[test]
    fn threads_are_spread() {
        let (finders, all) = (Finders::new().unwrap(), std::sync::Barrier::new(16));
        std::thread::scope(|scope| {
            let count = || {
                finders.count();
                // So that none takes the place of one that ended.
                all.wait();
            };
            (0..16).for_each(|_| drop(scope.spawn(count)));
        });
        let most = finders.found.iter().map(|count| count.0.load(Ordering::Relaxed)).max().unwrap();
        assert!(most <= 8, "{most} of 16 threads share a number");
    }
}
