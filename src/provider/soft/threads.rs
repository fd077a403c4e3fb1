//! What the other threads of a process do that is about to end.
//!
//! The kernel says in which system call each sleeps. One that waits there for a file, another process or
//! thread, or a signal is at no work of the engine's, and finds at its next call into it that the process has
//! left. One that runs may be at work in another process's memory, and so may one that pauses, or waits for a
//! word that processes share.
//!
//! Nothing here asks for memory, since the process may end in a signal handler that interrupted the allocator.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ironverbs_os::listing;
use ironverbs_os::thread::is_own_thread;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::time::ClockId;
use nix::unistd::{gettid, read};
use softrdma::shm::Error;

/// What they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Others {
    /// Each is the engine's own, or sleeps where the engine never does while it is at work.
    AtRest,
    /// Some run.
    Run,
    /// Some may be at work, and that will not end soon; or it cannot be seen.
    Unknown,
}

/// What those do that do most.
pub fn others() -> Others {
    let Ok(threads) = open(AT_FDCWD, c"/proc/self/task", OFlag::O_DIRECTORY) else { return Others::Unknown };
    let own = gettid().as_raw();
    let mut most = Others::AtRest;
    let told = listing::each_name(threads.as_fd(), |name| {
        let number = name.to_str().ok().and_then(|name| name.parse().ok());
        if number.is_none_or(|number| number != own && !is_own_thread(number)) {
            let thread = open(threads.as_fd(), name, OFlag::O_DIRECTORY);
            most = thread.map_or_else(without, |thread| does(&thread)).max(most);
        }
        // Nothing is more than that.
        if most == Others::Unknown { Err(Error::Gone) } else { Ok(()) }
    });
    if told.is_ok() { most } else { Others::Unknown }
}

fn open(folder: BorrowedFd<'_>, name: &CStr, flags: OFlag) -> nix::Result<OwnedFd> {
    openat(folder, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC | flags, Mode::empty())
}

/// The beginning of a thread's file, in `room`.
fn text<'a>(thread: &OwnedFd, name: &CStr, room: &'a mut [u8; 256]) -> nix::Result<&'a [u8]> {
    let file = open(thread.as_fd(), name, OFlag::empty())?;
    let length = read(&file, room)?;
    Ok(&room[..length])
}

/// Of a thread whose files are not there.
fn without(why: nix::Error) -> Others {
    if matches!(why, nix::Error::ENOENT | nix::Error::ESRCH) { Others::AtRest } else { Others::Unknown }
}

/// The same, when those that run have had some time to come to rest: threads that the end of the program's work
/// has woken mostly sleep again soon.
pub fn others_after_a_moment() -> Others {
    /// Of processor time: one that runs on has used it up, and one that waits for a processor has it yet.
    const MOMENT: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_secs(1);
    const PAUSE: Duration = Duration::from_micros(50);
    let used = || ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map(Duration::from).unwrap_or(Duration::MAX);
    let (begun, before) = (Instant::now(), used());
    loop {
        let found = others();
        if found != Others::Run || used().saturating_sub(before) > MOMENT || begun.elapsed() > LONGEST {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

fn does(thread: &OwnedFd) -> Others {
    match text(thread, c"syscall", &mut [0; 256]) {
        Ok(call) if call.starts_with(b"running") => Others::Run,
        Ok(call) if str::from_utf8(call).is_ok_and(waits) => Others::AtRest,
        // Of what has ended, not everybody may read the call.
        _ if has_ended(thread) => Others::AtRest,
        _ => Others::Unknown,
    }
}

/// Whether a thread is gone, or no more than its number: the first of a process has that as long as there are
/// others.
fn has_ended(thread: &OwnedFd) -> bool {
    match text(thread, c"stat", &mut [0; 256]) {
        // Behind the name, which may have any character in it.
        Ok(line) => line
            .rsplit(|byte| *byte == b')')
            .next()
            .is_some_and(|rest| matches!(rest.trim_ascii_start(), [b'Z' | b'X', ..])),
        Err(why) => without(why) == Others::AtRest,
    }
}

/// Waits that end by somebody else's doing. Of pauses, the engine makes some while it has a lock.
const WAITS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
];

/// Those that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_WAITS: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait, libc::SYS_pause];
#[cfg(not(target_arch = "x86_64"))]
const OLD_WAITS: &[libc::c_long] = &[];

/// Whether a thread waits so, by the line of its file `syscall`: the number and the arguments, or that it runs.
fn waits(call: &str) -> bool {
    let mut words = call.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse().ok()) else { return false };
    if number != libc::SYS_futex {
        return WAITS.contains(&number) || OLD_WAITS.contains(&number);
    }
    let operation = words.nth(1).and_then(|word| word.strip_prefix("0x"));
    let Some(operation) = operation.and_then(|word| i32::from_str_radix(word, 16).ok()) else { return false };
    // The engine's on shared words are FUTEX_WAIT; pthread_join waits by a bit set.
    let kind = operation & libc::FUTEX_CMD_MASK;
    kind == libc::FUTEX_WAIT_BITSET || (kind == libc::FUTEX_WAIT && operation & libc::FUTEX_PRIVATE_FLAG != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_the_engine_at_work_are_none() {
        let futex = |operation: i32| format!("{} 0x7f00 {operation:#x} 0x2 0x0\n", libc::SYS_futex);
        let private = libc::FUTEX_PRIVATE_FLAG;
        let bits = libc::FUTEX_WAIT_BITSET;
        assert!(waits(&format!("{} 0x3 0x1 0xffffffffffffffff\n", libc::SYS_ppoll)));
        for operation in [libc::FUTEX_WAIT | private, bits | private, bits | libc::FUTEX_CLOCK_REALTIME] {
            assert!(waits(&futex(operation)), "{operation:#x}");
        }
        assert!(!waits(&futex(libc::FUTEX_WAIT)));
        for pause in [libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_process_vm_writev] {
            assert!(!waits(&format!("{pause} 0x0 0x0\n")));
        }
        let cut = [format!("{}", libc::SYS_futex), format!("{} 0x1", libc::SYS_futex)];
        for unknown in ["running\n", "-1 0x7f00 0x7f01\n", "", &cut[0], &cut[1]] {
            assert!(!waits(unknown), "{unknown}");
        }
    }

    #[test]
    fn a_thread_that_runs_is_seen_by_any_name() {
        use std::sync::atomic::{AtomicBool, Ordering};
        for name in ["worker", "ironverbs", "ironverbs-bench"] {
            let ends = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let spins = || {
                    while !ends.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, spins);
                let found = (others(), others_after_a_moment());
                ends.store(true, Ordering::Relaxed);
                assert!(thread.is_ok() && found.0 >= Others::Run && found.1 >= Others::Run, "{name}");
            });
        }
    }
}
