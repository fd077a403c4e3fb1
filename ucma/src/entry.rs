//! What the shim calls (`cli/preload/ucma.h`).

use core::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use softrdma::device::Management;

use crate::device::{Device, Outcome};
use crate::network::Waits;
use crate::shim::{self, Shim};
use crate::sides::Rule;
use crate::{mail, memory, network, observe};

/// `IRONVERBS_UCMA_WAIT`.
const WAIT: isize = 4096;

/// How often, and how long in between, the device is asked for where the process ends: whoever has it may wait
/// for a processor.
const ATTEMPTS: u32 = 5000;
const PAUSE: Duration = Duration::from_micros(200);

/// `struct ironverbs_ucma`.
#[repr(C)]
pub struct Ucma {
    open: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    command: extern "C" fn(c_int, *const c_void, usize, c_int) -> isize,
    given_up: extern "C" fn(c_int, *const c_void, usize, c_int),
    duplicated: extern "C" fn(c_int, c_int) -> c_int,
    closed: extern "C" fn(c_int),
    has_event: extern "C" fn(c_int) -> c_int,
    forked: extern "C" fn(),
    ending: extern "C" fn(),
}

static UCMA: Ucma = Ucma { open, command, given_up, duplicated, closed, has_event, forked, ending };

/// This process's device. A child of `fork` leaves its parent's where it is, with a lock that a thread may have
/// held that the child does not have.
static DEVICE: AtomicPtr<Mutex<Device>> = AtomicPtr::new(null_mut());

/// Hands over what the shim and this library offer each other; null where their versions differ.
///
/// # Safety
/// `shim` is null or the shim's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ironverbs_ucma(shim: *const Shim) -> *const Ucma {
    // SAFETY: by the contract; the version stands first in every one.
    match unsafe { shim.as_ref() } {
        Some(shim) if shim.version == shim::VERSION => {
            shim::set(*shim);
            &raw const UCMA
        }
        _ => null(),
    }
}

fn device() -> &'static Mutex<Device> {
    let mut device = DEVICE.load(Ordering::Acquire);
    if device.is_null() {
        let fresh = Box::into_raw(Box::new(Mutex::new(Device::new(Rule::from_env()))));
        device = match DEVICE.compare_exchange(device, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: just made, and nobody else knows it.
                drop(unsafe { Box::from_raw(fresh) });
                other
            }
        };
    }
    // SAFETY: it came from a box that is never freed.
    unsafe { &*device }
}

/// Does something with the device; no panic gets out.
fn with<R>(after_panic: R, body: impl FnOnce(&mut Device) -> R) -> R {
    let body = AssertUnwindSafe(|| body(&mut device().lock().unwrap_or_else(PoisonError::into_inner)));
    catch_unwind(body).unwrap_or(after_panic)
}

/// What the thread does that takes messages of other hosts, until the process is not on the network any more.
pub fn look_at_network() {
    // After a panic it goes on, but not at once, as the same may happen again.
    let look = || with(Some(Waits::a_while()), Device::look_at_network);
    while let Some(waits) = look() {
        network::wait(&waits);
    }
}

/// What the thread does that sends again what was lost on request, until there is nothing.
pub fn repeat_lost() {
    let look = || with(Some(Waits::a_while()), Device::repeat_lost);
    while let Some(waits) = look() {
        network::wait(&waits);
    }
}

/// Opens the way to other hosts. Who has the port may be stopped: nobody waits for that one who does not ask
/// for the port.
fn open_network() {
    if with(false, |device| device.wants_network()) {
        let port = catch_unwind(Management::open).ok().and_then(Result::ok);
        with((), |device| device.open_network(port));
    }
}

/// # Safety
/// `member` can be written.
unsafe extern "C" fn open(flags: c_int, member: *mut c_int) -> c_int {
    let seen = observe::channel_begins();
    open_network();
    let opened = with(Err(libc::EIO), |device| device.open(flags));
    observe::opened(seen, opened.map(|(fd, _)| fd));
    match opened {
        Ok((fd, own)) => {
            // SAFETY: by the contract.
            unsafe { member.write(own) };
            fd
        }
        Err(errno) => -errno,
    }
}

extern "C" fn command(fd: c_int, command: *const c_void, length: usize, again: c_int) -> isize {
    let seen = observe::begin(fd, command as u64, length, again != 0);
    let done = |done: Result<(), i32>| match done {
        Ok(()) => length.cast_signed(),
        Err(errno) => -(errno as isize),
    };
    let mut errand = None;
    let mut answer = with(-(libc::EIO as isize), |device| match device.write(fd, command as u64, length) {
        Ok(Outcome::Done) => done(Ok(())),
        Ok(Outcome::Wait) => -WAIT,
        Ok(Outcome::Kernel(found)) => {
            errand = Some(found);
            0
        }
        Err(errno) => done(Err(errno)),
    });
    // The kernel may sleep, for which nobody else waits.
    if let Some(mut errand) = errand {
        let answered = errand.run();
        answer = with(-(libc::EIO as isize), |device| done(device.returned(&errand, answered)));
    }
    if answer != -WAIT {
        observe::end(seen.as_ref(), i32::try_from(-answer).ok().filter(|errno| *errno > 0));
    }
    answer
}

extern "C" fn given_up(fd: c_int, command: *const c_void, length: usize, errno: c_int) {
    observe::end(observe::begin(fd, command as u64, length, true).as_ref(), Some(errno));
}

extern "C" fn duplicated(fd: c_int, copy: c_int) -> c_int {
    with(-libc::EIO, |device| {
        device.copied(fd, copy);
        0
    })
}

extern "C" fn closed(fd: c_int) {
    let seen = observe::channel_begins();
    let closed = with(None, |device| device.close(fd));
    let was_last = closed.is_some();
    // Closed here, where nobody waits for it.
    drop(closed);
    if was_last {
        observe::closed(seen, fd);
    }
}

extern "C" fn has_event(fd: c_int) -> c_int {
    with(0, |device| device.has_event(fd).into())
}

extern "C" fn forked() {
    memory::forked();
    mail::forked();
    DEVICE.store(null_mut(), Ordering::Release);
}

extern "C" fn ending() {
    let device = DEVICE.load(Ordering::Acquire);
    // SAFETY: it is null or came from a box that is never freed.
    let Some(device) = (unsafe { device.as_ref() }) else { return };
    // A thread may have it for a moment, or this one, which a signal interrupted.
    for _ in 0..ATTEMPTS {
        match device.try_lock() {
            Ok(mut device) => {
                let _ = catch_unwind(AssertUnwindSafe(|| device.end()));
                return;
            }
            Err(TryLockError::Poisoned(_)) => return,
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}
