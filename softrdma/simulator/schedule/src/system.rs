//! Functions of the C library, in whose place these are linked: where a thread waits, asks for the time or for
//! random numbers, begins, and where it does what others see. Threads that take no turns get the kernel's.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::AtomicU32;

use crate::turn::{self, await_word, give_way, happened, sleep_until, step, takes_turns, waiters};
use crate::{Board, NEVER, board, shared_memory};

/// What a run's clocks show at its beginning.
const EPOCH: u64 = 1_000_000_000_000;

/// A system call: its result, or the negative number of an error.
pub fn raw(number: c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: as the caller's call of the C library would be: what the kernel does follows from the arguments.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number as usize,
            inlateout("x0") a as isize => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
        );
    }
    result
}

fn answer(result: isize) -> c_long {
    if (-4095..0).contains(&result) {
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as c_long
}

fn failed(errno: c_int) -> c_long {
    answer(-(errno as isize))
}

/// Nanoseconds of a time that the caller has.
///
/// # Safety
/// NULL, or a time.
unsafe fn nanoseconds(time: *const libc::timespec) -> Option<u64> {
    // SAFETY: by the contract.
    unsafe { time.as_ref() }.map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn here() -> Option<&'static Board> {
    board().filter(|_| takes_turns())
}

/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let Some(board) = here() else {
        return answer(raw(libc::SYS_clock_gettime, [clock as usize, time as usize, 0, 0, 0, 0])) as c_int;
    };
    step();
    let now = EPOCH + board.now();
    let shown =
        libc::timespec { tv_sec: (now / 1_000_000_000) as i64, tv_nsec: (now % 1_000_000_000) as i64 };
    // SAFETY: by the contract.
    unsafe { time.write(shown) };
    0
}

/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int {
    // SAFETY: by the contract.
    match (here(), unsafe { nanoseconds(time) }) {
        (Some(board), Some(time)) => {
            sleep_until(board.now().saturating_add(time));
            0
        }
        _ => answer(raw(libc::SYS_nanosleep, [time as usize, left as usize, 0, 0, 0, 0])) as c_int,
    }
}

/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    // SAFETY: by the contract.
    match (here(), unsafe { nanoseconds(time) }) {
        (Some(board), Some(time)) => {
            let absolute = flags & libc::TIMER_ABSTIME != 0;
            sleep_until(if absolute { time.saturating_sub(EPOCH) } else { board.now().saturating_add(time) });
            0
        }
        _ => {
            let arguments = [clock as usize, flags as usize, time as usize, left as usize, 0, 0];
            -raw(libc::SYS_clock_nanosleep, arguments) as c_int
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    give_way();
    0
}

/// All its arguments are whole numbers and pointers, which travel alike whether the callee's list of them has
/// an end.
///
/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let Some(board) = here() else { return answer(raw(number, [a, b, c, d, e, f])) };
    match number {
        libc::SYS_futex => {
            let command = b as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
            match command {
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
                    step();
                    // SAFETY: by the contract: a word, and NULL or a time.
                    let (word, time) = unsafe {
                        (AtomicU32::from_ptr(a as *mut u32), nanoseconds(d as *const libc::timespec))
                    };
                    if word.load(std::sync::atomic::Ordering::SeqCst) != c as u32 {
                        return failed(libc::EAGAIN);
                    }
                    let until = match time {
                        None => NEVER,
                        Some(time) if command == libc::FUTEX_WAIT => board.now().saturating_add(time),
                        Some(time) => time.saturating_sub(EPOCH),
                    };
                    await_word(a, until);
                    if board.now() >= until { failed(libc::ETIMEDOUT) } else { 0 }
                }
                libc::FUTEX_WAKE => {
                    let woken = waiters(a).min(c);
                    happened();
                    step();
                    woken as c_long
                }
                // Others ask whether the kernel reaches a word, and wake nobody.
                _ => answer(raw(number, [a, b, c, d, e, f])),
            }
        }
        libc::SYS_nanosleep => {
            // SAFETY: by the contract.
            let time = unsafe { nanoseconds(a as *const libc::timespec) }.unwrap_or(0);
            sleep_until(board.now().saturating_add(time));
            0
        }
        libc::SYS_getrandom => {
            // SAFETY: by the contract.
            unsafe { fill(board, a as *mut u8, b) };
            b as c_long
        }
        _ => {
            step();
            answer(raw(number, [a, b, c, d, e, f]))
        }
    }
}

/// # Safety
/// So many bytes may be written there.
unsafe fn fill(board: &Board, to: *mut u8, length: usize) {
    for at in 0..length {
        // SAFETY: by the contract.
        unsafe { to.add(at).write(board.random.next() as u8) };
    }
}

/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(to: *mut c_void, length: usize, flags: c_uint) -> isize {
    let Some(board) = here() else {
        return answer(raw(libc::SYS_getrandom, [to as usize, length, flags as usize, 0, 0, 0])) as isize;
    };
    // SAFETY: by the contract.
    unsafe { fill(board, to.cast(), length) };
    length as isize
}

/// Rings, where it is a bell.
///
/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, length: usize) -> isize {
    step();
    let written = answer(raw(libc::SYS_write, [fd as usize, from as usize, length, 0, 0, 0])) as isize;
    if takes_turns() {
        happened();
    }
    written
}

/// Notes what is mapped of memory that processes share.
///
/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    length: usize,
    rights: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let arguments = [at as usize, length, rights as usize, flags as usize, fd as usize, offset as usize];
    let mapped = answer(raw(libc::SYS_mmap, arguments));
    if mapped != -1 && flags & libc::MAP_SHARED != 0 {
        shared_memory::add(mapped as usize, length);
    }
    mapped as *mut c_void
}

macro_rules! copies {
    ($name:ident, $number:expr) => {
        /// # Safety
        /// As those of the C library.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            process: libc::pid_t,
            here: *const libc::iovec,
            pieces: usize,
            there: *const libc::iovec,
            others: usize,
            flags: usize,
        ) -> isize {
            step();
            let arguments = [process as usize, here as usize, pieces, there as usize, others, flags];
            let copied = answer(raw($number, arguments)) as isize;
            step();
            copied
        }
    };
}

copies!(process_vm_readv, libc::SYS_process_vm_readv);
copies!(process_vm_writev, libc::SYS_process_vm_writev);

type Work = extern "C" fn(*mut c_void) -> *mut c_void;

struct Start {
    place: usize,
    work: Work,
    argument: *mut c_void,
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` gave it up.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    if let Some(board) = board() {
        turn::take(board, start.place);
    }
    let result = (start.work)(start.argument);
    turn::leave();
    result
}

/// A thread of a run has a place, and its turn some time.
///
/// # Safety
/// As those of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    work: Work,
    argument: *mut c_void,
) -> c_int {
    type Create =
        unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Work, *mut c_void) -> c_int;
    // SAFETY: the C library has a function of this name and type behind this one.
    let create: Create = unsafe {
        std::mem::transmute(libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr().cast::<c_char>()))
    };
    let Some(board) = here() else {
        // SAFETY: by the contract.
        return unsafe { create(thread, attributes, work, argument) };
    };
    let place = turn::add(board, turn::process());
    let start = Box::into_raw(Box::new(Start { place, work, argument }));
    // SAFETY: by the contract, and `run` takes what it is given.
    unsafe { create(thread, attributes, run, start.cast()) }
}
