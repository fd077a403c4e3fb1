//! What the other threads of a process do that is about to end.
//!
//! The kernel says in which system call each sleeps. One that waits there for a file, another process or
//! thread, or a signal is at no work of the engine's, and finds at its next call into it that the process has
//! left. One that runs may be at work in another process's memory, and so may one that is in a call that soon
//! ends, pauses, or waits for a word that processes share. The engine's pauses are short: one that lasts is the
//! program's.
//!
//! Nothing here asks for memory, since the process may end in a signal handler that interrupted the allocator.

use std::arch::global_asm;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ironverbs_os::listing;
use ironverbs_os::thread::{self, List, is_own_thread};
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use nix::time::ClockId;
use nix::unistd::{gettid, read};
use softrdma::shm::Error;

// What `ironverbs run` preloads has the list (`cli/preload/ucma.h`); elsewhere the loader leaves 0 here. Rust
// has no weak references, and dlsym would take away what dlerror has for the program.
global_asm!(
    ".weak ironverbs_service_threads",
    ".hidden ironverbs_service_threads_are_at",
    ".globl ironverbs_service_threads_are_at",
    ".pushsection .data.rel.ro.ironverbs_service_threads_are_at,\"aw\"",
    ".balign 8",
    "ironverbs_service_threads_are_at:",
    ".quad ironverbs_service_threads",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "ironverbs_service_threads_are_at"]
    safe static SERVICE_THREADS: Option<&'static List>;
}

/// Has the threads of the connection manager known for no threads of the program, and the engine's there.
pub fn know_connection_manager() {
    if let Some(list) = SERVICE_THREADS {
        thread::share(list);
    }
}

/// What they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Others {
    /// Each is the engine's own, or sleeps where the engine never does while it is at work.
    AtRest,
    /// Some pause, or are in a call that soon ends.
    Pause,
    /// Some run.
    Run,
    /// Some may be at work, and that will not end soon; or it cannot be seen.
    Unknown,
}

/// The other threads, and which of them were seen to pause.
#[derive(Debug, Default)]
pub struct Threads {
    pauses: [Option<Pause>; PAUSES],
}

/// A thread that pauses, how much it had run by then, and when that was seen first.
#[derive(Clone, Copy, Debug)]
struct Pause {
    thread: libc::pid_t,
    ran: [u64; 2],
    since: Instant,
}

/// Threads that pause at a time: of others it is not seen that their pauses last.
const PAUSES: usize = 16;
/// The engine's pauses end before.
const LASTS: Duration = Duration::from_millis(40);

impl Threads {
    /// What those do that do most.
    pub fn look(&mut self) -> Others {
        let Ok(threads) = open(AT_FDCWD, c"/proc/self/task", OFlag::O_DIRECTORY) else {
            return Others::Unknown;
        };
        let own = gettid().as_raw();
        let mut most = Others::AtRest;
        let told = listing::each_name(threads.as_fd(), |name| {
            let number = name.to_str().ok().and_then(|name| name.parse().ok());
            if number.is_none_or(|number| number != own && !is_own_thread(number)) {
                let thread = open(threads.as_fd(), name, OFlag::O_DIRECTORY);
                let number = number.unwrap_or(0);
                most = thread.map_or_else(without, |thread| self.does(number, &thread)).max(most);
            }
            // Nothing is more than that.
            if most == Others::Unknown { Err(Error::Gone) } else { Ok(()) }
        });
        if told.is_ok() { most } else { Others::Unknown }
    }

    /// The same, when those that run or pause have had some time to come to rest: threads that the end of the
    /// program's work has woken mostly sleep again soon.
    pub fn look_after_a_moment(&mut self) -> Others {
        /// Of processor time: one that runs on has used it up, and one that waits for a processor has it yet.
        const MOMENT: Duration = Duration::from_millis(5);
        const LONGEST: Duration = Duration::from_secs(1);
        /// Some pause again and again, and the program is not to end later for those.
        const LONGEST_PAUSE: Duration = Duration::from_millis(150);
        /// Between looks: at first, and in the end.
        const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];
        let before = others_ran();
        let [mut nap, longest] = NAPS;
        // The naps' own lengths: a machine that is busy, where they take longer, gives the others as much.
        let mut waited = Duration::ZERO;
        loop {
            let found = self.look();
            let is_enough = match found {
                Others::AtRest | Others::Unknown => true,
                Others::Pause => waited > LONGEST_PAUSE,
                Others::Run => waited > LONGEST || others_ran().saturating_sub(before) > MOMENT,
            };
            if is_enough {
                return found;
            }
            std::thread::sleep(nap);
            waited += nap;
            nap = (2 * nap).min(longest);
        }
    }

    fn does(&mut self, number: libc::pid_t, thread: &OwnedFd) -> Others {
        match text(thread, c"syscall", &mut [0; 256]) {
            Ok(call) if call.starts_with(b"running") => {
                if has_ended(thread) {
                    Others::AtRest
                } else {
                    Others::Run
                }
            }
            Ok(call) => match str::from_utf8(call).map_or(Call::Other, Call::of) {
                Call::Wait => Others::AtRest,
                Call::Pause => self.pauses(number, thread),
                Call::Short => Others::Pause,
                Call::Other if has_ended(thread) => Others::AtRest,
                Call::Other => Others::Unknown,
            },
            // Of what has ended, not everybody may read the call.
            Err(_) if has_ended(thread) => Others::AtRest,
            Err(_) => Others::Unknown,
        }
    }

    /// Of a thread that pauses: whether it has done so for as long as the engine never does.
    fn pauses(&mut self, thread: libc::pid_t, files: &OwnedFd) -> Others {
        let Some(ran) = ran(files) else { return Others::Unknown };
        let now = Instant::now();
        let is_it = |pause: &Option<Pause>| pause.is_none_or(|pause| pause.thread == thread);
        let Some(place) = self.pauses.iter_mut().find(|pause| is_it(pause)) else { return Others::Unknown };
        match place {
            Some(pause) if pause.ran == ran => {
                if now.saturating_duration_since(pause.since) > LASTS {
                    return Others::AtRest;
                }
            }
            _ => *place = Some(Pause { thread, ran, since: now }),
        }
        Others::Pause
    }
}

/// Processor time of all threads but the caller, whose looks take much of it themselves.
fn others_ran() -> Duration {
    let time = |clock: ClockId| clock.now().map_or(Duration::ZERO, Duration::from);
    // In this order, since both go on.
    let own = time(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time(ClockId::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(own)
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

/// How long a thread has run, and how often: as long as both stay, it has not. `None` where the kernel does not
/// count.
fn ran(thread: &OwnedFd) -> Option<[u64; 2]> {
    let mut room = [0; 256];
    let mut words =
        str::from_utf8(text(thread, c"schedstat", &mut room).ok()?).ok()?.split_ascii_whitespace();
    let mut number = |skipped| words.nth(skipped)?.parse().ok();
    let ran = [number(0)?, number(1)?];
    (ran[1] > 0).then_some(ran)
}

/// Whether a thread is gone, or no more than its number: the first of a process has that as long as there are
/// others. Or about to be, where it will not come back from the kernel.
fn has_ended(thread: &OwnedFd) -> bool {
    match text(thread, c"stat", &mut [0; 256]) {
        Ok(line) => is_of_ended(line),
        Err(why) => without(why) == Others::AtRest,
    }
}

/// Whether a thread's line `stat` says so.
fn is_of_ended(line: &[u8]) -> bool {
    /// PF_EXITING.
    const EXITS: u64 = 4;
    // Behind the name, which may have any character in it: state, four numbers of processes and terminals, the
    // group in the foreground, flags.
    let behind = line.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    let mut words = behind.trim_ascii().split(u8::is_ascii_whitespace);
    let state = words.next().unwrap_or_default();
    let flags = words.nth(5).and_then(|word| str::from_utf8(word).ok()?.parse::<u64>().ok());
    matches!(state, [b'Z' | b'X', ..]) || flags.is_some_and(|flags| flags & EXITS != 0)
}

/// What a thread sleeps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A wait that ends by somebody else's doing.
    Wait,
    /// A pause: the engine makes some while it has a lock.
    Pause,
    /// A call that ends by itself, and mostly soon: the engine makes such while it has a lock.
    Short,
    /// Any other, or none that is known.
    Other,
}

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

/// To send waits for locks of the kernel, netlink for one that is kept while network namespaces end.
const SHORT: &[libc::c_long] = &[
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
];

impl Call {
    /// By the line of a thread's file `syscall`: the number and the arguments, or that it runs.
    fn of(call: &str) -> Self {
        let mut words = call.split_ascii_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse().ok()) else { return Self::Other };
        match number {
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Self::Pause,
            libc::SYS_futex if is_programs(words) => Self::Wait,
            _ if WAITS.contains(&number) || OLD_WAITS.contains(&number) => Self::Wait,
            _ if SHORT.contains(&number) => Self::Short,
            _ => Self::Other,
        }
    }
}

/// Whether a wait for a word, with these arguments, is none of the engine's: those are for shared words
/// (FUTEX_WAIT) and end after some time. pthread_join waits by a bit set.
fn is_programs<'a>(arguments: impl Iterator<Item = &'a str>) -> bool {
    let mut arguments = arguments.map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    // Behind the word's address, and with what it is compared between them.
    let (Some(Some(operation)), Some(Some(timeout))) = (arguments.nth(1), arguments.nth(1)) else {
        return false;
    };
    let Ok(operation) = i32::try_from(operation) else { return false };
    let kind = operation & libc::FUTEX_CMD_MASK;
    let is_private = operation & libc::FUTEX_PRIVATE_FLAG != 0;
    kind == libc::FUTEX_WAIT_BITSET || kind == libc::FUTEX_WAIT && (is_private || timeout == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn waits_of_the_engine_at_work_are_none() {
        let futex = |operation: i32| format!("{} 0x7f00 {operation:#x} 0x2 0x7ffe 0x0\n", libc::SYS_futex);
        let private = libc::FUTEX_PRIVATE_FLAG;
        let bits = libc::FUTEX_WAIT_BITSET;
        assert_eq!(Call::of(&format!("{} 0x3 0x1 0xffffffffffffffff\n", libc::SYS_ppoll)), Call::Wait);
        for operation in [libc::FUTEX_WAIT | private, bits | private, bits | libc::FUTEX_CLOCK_REALTIME] {
            assert_eq!(Call::of(&futex(operation)), Call::Wait, "{operation:#x}");
        }
        assert_eq!(Call::of(&futex(libc::FUTEX_WAIT)), Call::Other);
        // QEMU's threads wait so.
        let for_ever = format!("{} 0x55b4 0x0 0xffffffff 0x0 0x0 0x0 0x7f01 0x7f02\n", libc::SYS_futex);
        assert_eq!(Call::of(&for_ever), Call::Wait);
        for (number, call) in [
            (libc::SYS_nanosleep, Call::Pause),
            (libc::SYS_clock_nanosleep, Call::Pause),
            (libc::SYS_process_vm_writev, Call::Short),
            (libc::SYS_sendmsg, Call::Short),
            (libc::SYS_flock, Call::Other),
        ] {
            assert_eq!(Call::of(&format!("{number} 0x0 0x0 0x0 0x0\n")), call);
        }
        for unknown in ["running\n", "-1 0x7f00 0x7f01\n", ""] {
            assert_eq!(Call::of(unknown), Call::Other, "{unknown}");
        }
        for cut in ["", " 0x1", " 0x1 0x0", " 0x1 0x0 0x2", " 0x1 0x0 0x2 ", " 0x1 0x0 0x2 0"] {
            assert_eq!(Call::of(&format!("{}{cut}", libc::SYS_futex)), Call::Other, "{cut}");
        }
    }

    #[test]
    fn what_has_ended_is_told_by_its_line() {
        let of = |state: &str, flags: u64| {
            is_of_ended(format!("7 (a) R 4 b) {state} 1 1 1 0 -1 {flags} 3 0 0\n").as_bytes())
        };
        for (state, flags, ended) in [
            ("R", 4_194_368, false),
            ("S", 4_194_368, false),
            ("R", 4_194_372, true),
            ("Z", 0, true),
            ("X", 0, true),
        ] {
            assert_eq!(of(state, flags), ended, "{state} {flags}");
        }
        for cut in ["", "7 (a)", "7 (a) R", "7 (a) R 1 1 1 0 -1", "7 (a) R 1 1 1 0 -1 x"] {
            assert!(!is_of_ended(cut.as_bytes()), "{cut}");
        }
    }

    /// Also while the kernel takes it apart, when nobody may read its call any more.
    #[test]
    fn a_thread_that_was_waited_for_is_at_rest() {
        for _ in 0..2000 {
            let (tell, number) = std::sync::mpsc::channel();
            let (ends, waits) = std::sync::mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                tell.send(gettid().as_raw()).unwrap();
                let _ended = waits.recv();
            });
            let number = number.recv().unwrap();
            let name = std::ffi::CString::new(format!("/proc/self/task/{number}")).unwrap();
            let files = open(AT_FDCWD, &name, OFlag::O_DIRECTORY).unwrap();
            drop(ends);
            thread.join().unwrap();
            assert_eq!(Threads::default().does(number, &files), Others::AtRest);
        }
    }

    #[test]
    fn a_thread_that_runs_is_seen_by_any_name() {
        for name in ["worker", "ironverbs", "ironverbs-bench"] {
            let ends = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let spins = || {
                    while !ends.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, spins);
                let mut threads = Threads::default();
                let found = (threads.look(), threads.look_after_a_moment());
                ends.store(true, Ordering::Relaxed);
                assert!(thread.is_ok() && found.0 >= Others::Run && found.1 >= Others::Run, "{name}");
            });
        }
    }
}
