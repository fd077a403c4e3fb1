//! The conventions by which verbs report failure. Every C entry point names its own by the function it calls
//! here, with the verb's name and arguments ([`call!`](crate::observe::call!)), and no panic passes these
//! functions.

use core::ffi::{c_int, c_void};
use libc::{nfds_t, pollfd};

use ironverbs_os::convention;

use crate::abi::verbs::ibv_mr;
use crate::errno::{Errno, Result};
use crate::guard::{guarded, making};
use crate::observe::line::Line;
use crate::observe::shown::{Address, NewRegion, Shown};
use crate::observe::{Call, Seen, UNNAMED};
use crate::provider::object::Handle;
use crate::provider::verbs::EventSource;

unsafe extern "C-unwind" {
    /// Waits where the thread may be cancelled: the stack unwinds from here through frames with nothing to
    /// drop.
    #[link_name = "read"]
    fn cancellable_read(fd: c_int, place: *mut c_void, length: usize) -> isize;

    /// The same.
    #[link_name = "poll"]
    fn cancellable_poll(places: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int;
}

/// A pointer, or NULL with the error in `errno`.
pub fn pointer<T>(call: Call<'_>, body: impl FnOnce() -> Result<Handle<T>>) -> *mut T
where
    *mut T: Shown,
{
    pointer_shown(call, body, |made| made)
}

/// The same, where what was made is shown in another way than by its type.
pub fn pointer_shown<T, S: Shown>(
    call: Call<'_>,
    body: impl FnOnce() -> Result<Handle<T>>,
    shown: impl Fn(*mut T) -> S,
) -> *mut T {
    let seen = call.begin();
    let (made, failed) = match making(body) {
        Ok(handle) => (handle.as_ptr(), None),
        Err(errno) => {
            errno.set();
            (core::ptr::null_mut(), Some(errno))
        }
    };
    // SAFETY: null, or what was just made.
    call.end(seen, failed, made as u64, &|line| unsafe {
        if made.is_null() { line.put("NULL") } else { shown(made).show(line) }
    });
    made
}

/// The same for a function that calls another entry point, which shows itself.
pub fn unseen<T>(body: impl FnOnce() -> Result<Handle<T>>) -> *mut T {
    pointer_shown(UNNAMED, body, |made| Address(made.cast_const()))
}

/// The same of a memory region, whose keys are shown.
pub fn region(call: Call<'_>, body: impl FnOnce() -> Result<Handle<ibv_mr>>) -> *mut ibv_mr {
    pointer_shown(call, body, NewRegion)
}

/// 0, or the error as a positive number; `errno` stays as the failed operation left it.
pub fn value(call: Call<'_>, body: impl FnOnce() -> Result<()>) -> c_int {
    let seen = call.begin();
    let answer = convention::value(guarded(body));
    answered(call, seen, answer, (answer != 0).then_some(Errno(answer)));
    answer
}

/// 0, or -1 with the error in `errno`.
pub fn minus_one(call: Call<'_>, body: impl FnOnce() -> Result<()>) -> c_int {
    let seen = call.begin();
    let answer = convention::minus_one(guarded(body));
    answered(call, seen, answer, (answer != 0).then(Errno::last));
    answer
}

#[inline]
fn answered(call: Call<'_>, seen: Option<Seen>, answer: impl Shown, failed: Option<Errno>) {
    // SAFETY: what the verb answers.
    call.end(seen, failed, 0, &|line| unsafe { answer.show(line) });
}

/// A number of its own kind (a count, an index, an enumerator), or `otherwise` of the error.
pub fn number<R: Shown>(
    call: Call<'_>,
    body: impl FnOnce() -> Result<R>,
    otherwise: impl FnOnce(Errno) -> R,
) -> R {
    number_shown(call, body, otherwise, |answer, line| {
        // SAFETY: what the verb answers.
        unsafe { answer.show(line) }
    })
}

/// The same, where the answer is shown in another way than by its type.
pub fn number_shown<R>(
    call: Call<'_>,
    body: impl FnOnce() -> Result<R>,
    otherwise: impl FnOnce(Errno) -> R,
    shown: impl Fn(&R, &mut Line),
) -> R {
    let seen = call.begin();
    let (answer, failed) = match guarded(body) {
        Ok(answer) => (answer, None),
        Err(errno) => (otherwise(errno), Some(errno)),
    };
    call.end(seen, failed, 0, &|line| shown(&answer, line));
    answer
}

/// Nothing to report: a failure has no way to the program.
pub fn nothing(call: Call<'_>, body: impl FnOnce() -> Result<()>) {
    let seen = call.begin();
    let failed = guarded(body).err();
    answered(call, seen, (), failed);
}

/// What cannot fail, and does not panic.
#[inline]
pub fn plain<R: Shown + Copy>(call: Call<'_>, body: impl FnOnce() -> R) -> R {
    let seen = call.begin();
    let answer = body();
    answered(call, seen, answer, None);
    answer
}

/// The convention of [`minus_one`] for a verb that waits for an event: `source` says what to read, `take` makes
/// an event of it, or `false` where there is none behind it. The thread may be cancelled while it waits, and at
/// once if it was before.
///
/// `take` is told besides whether the descriptor was readable when the program came, and blocks: a program that
/// came for that reason must not be made to wait.
///
/// The closures hold nothing that wants to be dropped.
#[inline]
pub fn next_event(
    call: Call<'_>,
    source: impl FnOnce() -> Result<EventSource>,
    take: impl Fn(&[u8], bool) -> Result<bool>,
) -> c_int {
    let begin = call.begin_waiting();
    let answer = wait_for_event(source, take);
    // SAFETY: a number.
    call.end_waiting(begin, (answer != 0).then(Errno::last), &|line| unsafe { answer.show(line) });
    answer
}

#[inline]
fn wait_for_event(
    source: impl FnOnce() -> Result<EventSource>,
    take: impl Fn(&[u8], bool) -> Result<bool>,
) -> c_int {
    const { assert!(!core::mem::needs_drop::<EventSource>()) };
    let source = match guarded(source) {
        Ok(source) => source,
        Err(errno) => {
            errno.set();
            return -1;
        }
    };
    let (mut waits, mut at_once) = (true, true);
    loop {
        let mut record = [0u8; EventSource::MOST];
        let length = source.record.min(record.len());
        let got = if length == 0 {
            readable(source.fd, &mut waits, &mut at_once)
        } else {
            // SAFETY: `record` is writable for `length` bytes.
            unsafe { cancellable_read(source.fd, record.as_mut_ptr().cast(), length) == length as isize }
        };
        if !got {
            // A short read leaves `errno` alone.
            return -1;
        }
        match guarded(|| take(&record[..length], waits && at_once)) {
            Ok(true) => return 0,
            Ok(false) if waits => {}
            // What it was readable for is gone.
            Ok(false) => {
                Errno::EAGAIN.set();
                return -1;
            }
            Err(errno) => {
                errno.set();
                return -1;
            }
        }
    }
}

/// Waits until a descriptor is readable as `read` would, or looks once where that would not wait, which `waits`
/// says afterwards. `at_once` asks for a look before, and says afterwards whether that was enough. `false` with
/// `errno`: EAGAIN, EINTR, or what is wrong with the descriptor.
fn readable(fd: c_int, waits: &mut bool, at_once: &mut bool) -> bool {
    // SAFETY: reads flags; any number may be asked for.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return false;
    }
    *waits = flags & libc::O_NONBLOCK == 0;
    loop {
        let mut place = pollfd { fd, events: libc::POLLIN, revents: 0 };
        let milliseconds = if *waits && !*at_once { -1 } else { 0 };
        // SAFETY: one writable entry.
        match unsafe { cancellable_poll(&raw mut place, 1, milliseconds) } {
            1.. => return true,
            0 if *waits => *at_once = false,
            0 => {
                Errno::EAGAIN.set();
                return false;
            }
            // The kernel never goes on with `poll` after a signal, as it would with `read`.
            _ if Errno::last().0 == libc::EINTR && restarts() => {}
            _ => return false,
        }
    }
}

/// Whether every signal handler of the program wants calls to go on that it interrupts (SA_RESTART). Which one
/// ran is not known.
#[cold]
fn restarts() -> bool {
    let wants_end = |signal: c_int| {
        // SAFETY: sigaction is made of integers and a pointer to a function that may be null.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: only reads the action; the place is writable. A number that is no signal's is refused.
        let known = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) } == 0;
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        known && is_handled && action.sa_flags & libc::SA_RESTART == 0
    };
    let restarts = !(1..=64).any(wants_end);
    Errno(libc::EINTR).set();
    restarts
}

/// An array of the program's as a slice; null counts as empty.
///
/// # Safety
/// A non-null `first` is followed by `count` elements that nobody else touches during the call.
pub unsafe fn array<'a, T>(first: *mut T, count: usize) -> &'a mut [T] {
    if first.is_null() {
        return &mut [];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts_mut(first, count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::verbs::ibv_pd;

    #[test]
    fn each_convention_reports_as_it_says() {
        Errno(0).set();
        assert_eq!(value(UNNAMED, || Err(Errno::EBUSY)), libc::EBUSY);
        assert_eq!(Errno::last(), Errno(0));
        assert_eq!(minus_one(UNNAMED, || Err(Errno::EINVAL)), -1);
        assert_eq!(Errno::last(), Errno::EINVAL);
        assert!(pointer::<ibv_pd>(UNNAMED, || Err(Errno::ENOMEM)).is_null());
        assert_eq!(Errno::last(), Errno::ENOMEM);
        assert_eq!(number(UNNAMED, || Err(Errno::EINVAL), |errno| -errno.0), -libc::EINVAL);
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(value(UNNAMED, || panic!("inside")), libc::EIO);
    }
}
