//! Whether threads of this machine wait for a processor, and giving one of them this thread's for a moment.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::uncancelled;

/// Nanoseconds for which an answer holds: to ask again costs some microseconds.
const HOLDS: u64 = 1_000_000;
/// And after which it no longer counts with the next.
const COUNTS: u64 = 100_000_000;
/// So many answers that follow each other are an answer for a while.
const WHILE: u64 = 5;
/// More threads than processors that may run for moments: one of this process, and one of its peer's.
const MOMENTARY: u64 = 2;
/// How long a thread gives its processor away. To this the kernel adds the thread's timer slack, by default
/// 50 µs.
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };

/// Whether more threads of the machine want to run than it has processors, as `/proc/loadavg` counts them; a
/// container that has fewer processors than the machine is not seen. `now` is the time of `CLOCK_MONOTONIC` in
/// nanoseconds. False where the kernel does not tell.
pub fn are_short(now: u64) -> bool {
    are_short_again(now) > 0
}

/// The same, and they have been for some milliseconds, or by more than two threads: one that runs for some
/// microseconds now and then waits for a processor no longer than that, and takes none from anybody.
pub fn have_been_short(now: u64) -> bool {
    are_short_again(now) == WHILE
}

fn are_short_again(now: u64) -> u64 {
    static ANSWERS: Answers = Answers(AtomicU64::new(0));
    ANSWERS.at(now, || running().map_or(0, |running| running.saturating_sub(count())))
}

/// When it was asked last, in nanoseconds but the lowest bits, and in these how many answers said so one after
/// the other.
struct Answers(AtomicU64);

impl Answers {
    const BITS: u64 = 7;

    /// How many answers until now say so, at most [`WHILE`]. An answer is by how many threads.
    fn at(&self, now: u64, ask: impl FnOnce() -> u64) -> u64 {
        let known = self.0.load(Ordering::Relaxed);
        let (age, mut answers) = (now.saturating_sub(known & !Self::BITS), known & Self::BITS);
        if age >= HOLDS {
            let before = if age < COUNTS { answers } else { 0 };
            answers = match ask() {
                0 => 0,
                1..=MOMENTARY => WHILE.min(before + 1),
                _ => WHILE,
            };
            self.0.store(now & !Self::BITS | answers, Ordering::Relaxed);
        }
        answers
    }
}

/// Sleeps for some tens of microseconds, so that another thread has this one's processor.
pub fn give_way() {
    // Not the C library's: a thread may be cancelled there.
    // SAFETY: reads a time that lives on, and writes nothing.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const PAUSE, std::ptr::null_mut::<libc::timespec>()) };
}

/// Threads of the machine that run or want to, the calling one among them.
fn running() -> Option<u64> {
    let mut text = [0; 64];
    let len = uncancelled(|| File::open("/proc/loadavg")?.read(&mut text)).ok()?;
    running_in(&text[..len])
}

/// The fourth word of `/proc/loadavg` is "running/all" (proc_loadavg(5)).
fn running_in(text: &[u8]) -> Option<u64> {
    let word = std::str::from_utf8(text).ok()?.split(' ').nth(3)?;
    word.split_once('/')?.0.parse().ok()
}

/// Processors of the machine that are on.
fn count() -> u64 {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(count).map_or(u64::MAX, |count| count.max(1))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn running_threads_are_the_fourth_word() {
        assert_eq!(running_in(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running_in(b"0.20 0.18 0.12 80\n"), None);
        assert_eq!(running_in(b""), None);
        assert_eq!(running_in(&[0xff; 64]), None);
        assert!(running().is_some_and(|running| running > 0), "this thread runs");
    }

    #[test]
    fn an_answer_holds_for_a_while_and_counts_with_those_before() {
        let (answers, asked) = (Answers(AtomicU64::new(0)), Cell::new(0));
        let by = |now, threads| answers.at(now, || (asked.set(asked.get() + 1), threads).1);
        let at = |now, short| by(now, if short { MOMENTARY } else { 0 });
        let often =
            |from: u64, short| (0..WHILE + 2).map(|n| at((from + n) * HOLDS, short)).collect::<Vec<_>>();
        assert_eq!(often(100, true), [1, 2, 3, 4, WHILE, WHILE, WHILE]);
        assert_eq!(asked.get(), WHILE + 2);
        assert_eq!(at((102 + WHILE) * HOLDS - 1, false), WHILE);
        assert_eq!(asked.get(), WHILE + 2);
        assert!(often(200, false).iter().all(|answers| *answers == 0));
        // One that does not say so begins the count anew, and so does a long time.
        assert!((0..100).all(|n| at((300 + n) * HOLDS, !n.is_multiple_of(WHILE)) < WHILE));
        assert!((0..100).all(|n| at(1000 * HOLDS + n * COUNTS, true) == 1));
        // Many threads do not run for a moment.
        assert_eq!([by(1 << 60, MOMENTARY + 1), by((1 << 60) + HOLDS, 0)], [WHILE, 0]);
    }
}
