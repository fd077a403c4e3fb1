//! Whether threads of this machine wait for a processor, and giving one of them this thread's for a moment.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::uncancelled;

/// Nanoseconds for which an answer holds: to ask again costs some microseconds.
const HOLDS: u64 = 1_000_000;
/// How long a thread gives its processor away. To this the kernel adds the thread's timer slack, by default
/// 50 µs.
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };

/// Whether more threads of the machine want to run than it has processors, as `/proc/loadavg` counts them; a
/// container that has fewer processors than the machine is not seen. `now` is the time of `CLOCK_MONOTONIC` in
/// nanoseconds. False where the kernel does not tell.
pub fn are_short(now: u64) -> bool {
    static ANSWER: Answer = Answer(AtomicU64::new(0));
    ANSWER.at(now, || running().is_some_and(|running| running > count()))
}

/// When it was asked last, in even nanoseconds, and in the lowest bit the answer.
struct Answer(AtomicU64);

impl Answer {
    fn at(&self, now: u64, ask: impl FnOnce() -> bool) -> bool {
        let known = self.0.load(Ordering::Relaxed);
        if now.saturating_sub(known) < HOLDS {
            return known & 1 != 0;
        }
        let answer = ask();
        self.0.store(now & !1 | u64::from(answer), Ordering::Relaxed);
        answer
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
    fn an_answer_holds_for_a_while() {
        let (answer, asked) = (Answer(AtomicU64::new(0)), Cell::new(0));
        let at = |now, short| answer.at(now, || (asked.set(asked.get() + 1), short).1);
        assert!(at(10 * HOLDS, true));
        assert!(at(11 * HOLDS - 1, false));
        assert_eq!(asked.get(), 1);
        assert!(!at(11 * HOLDS + 1, false));
        assert!(!at(12 * HOLDS - 1, true));
        assert_eq!(asked.get(), 2);
    }
}
