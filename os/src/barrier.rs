//! One barrier for all processors in place of many (membarrier(2)): who stores seldom and then looks pays for
//! it, and who stores often and then looks pays nothing.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

use crate::errno::Errno;

/// A store waits in a processor for less than this, whatever that does.
const STORED: Duration = Duration::from_millis(1);

static REGISTERED: AtomicBool = AtomicBool::new(false);

/// `None` where the kernel, or a filter, refuses. `errno` is as it was: the verb that asks succeeds either way.
fn command(command: libc::c_int) -> Option<libc::c_long> {
    let before = Errno::last();
    // SAFETY: the call takes numbers, and changes nothing in this process's memory.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    before.set();
    (answer >= 0).then_some(answer)
}

/// Whether [`everywhere`] can be relied on in this process.
#[must_use]
pub fn is_there() -> bool {
    command(libc::MEMBARRIER_CMD_QUERY)
        .is_some_and(|known| known & libc::c_long::from(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0)
}

/// Has other processes' barriers be this one's, too; whether they are from now on. Cheap for a process with one
/// thread; with several it may take some tens of milliseconds, the first time.
#[must_use]
pub fn register() -> bool {
    let is_registered = command(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED).is_some();
    if is_registered {
        REGISTERED.store(true, Ordering::Relaxed);
    }
    is_registered
}

/// Whether this process has [registered](register).
#[must_use]
pub fn is_registered() -> bool {
    REGISTERED.load(Ordering::Relaxed)
}

/// All threads of processes that [registered](register) have made their stores of before visible, and load
/// later what they load afterwards. Takes some microseconds.
pub fn everywhere() {
    fence(Ordering::SeqCst);
    if command(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED).is_none() {
        // It was there, so that something keeps this process from it by now.
        wait(STORED);
        fence(Ordering::SeqCst);
    }
}

/// By the bare system call: at the C library's the thread may be cancelled, which unwinds through its callers.
fn wait(time: Duration) {
    let (errno, until) = (Errno::last(), Instant::now() + time);
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        let left = libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(left.subsec_nanos() as i32) };
        // SAFETY: nanosleep reads the time, and writes nothing without a second one.
        unsafe {
            libc::syscall(libc::SYS_nanosleep, &raw const left, std::ptr::null_mut::<libc::timespec>())
        };
    }
    errno.set();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_leaves_errno() {
        Errno(libc::EBUSY).set();
        assert_eq!((command(-1), Errno::last()), (None, Errno(libc::EBUSY)));
    }

    #[test]
    fn a_process_that_registered_may_call_it() {
        assert!(is_there() && register() && register() && is_registered());
        everywhere();
    }
}
