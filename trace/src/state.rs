//! Whether calls are observed: what the environment says, and where rings are made.

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::ffi::{OsStr, OsString};

use ironverbs_os::environment::trusted;
use ironverbs_os::errno::Errno;
use ironverbs_os::guard::uncancelled;
use once_cell::race::OnceBox;

use super::{Observer, demand, ring};

/// Nobody has asked yet.
const UNKNOWN: u8 = 0;
/// Nothing is observed.
const OFF: u8 = 1;
/// Every call is.
const ON: u8 = 2;
/// A trace may begin ([`demand`]).
const WAITS: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The folder in which rings are made.
static FOLDER: OnceBox<OsString> = OnceBox::new();
/// Some calls are not observed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether calls are, or may come to be, observed.
pub fn may_be_seen(observer: &Observer) -> bool {
    settled(observer) != OFF
}

/// Whether a call is to be recorded.
#[inline]
pub fn is_on(observer: &Observer) -> bool {
    match STATE.load(Ordering::Acquire) {
        OFF => false,
        ON => true,
        _ => is_on_now(observer),
    }
}

#[cold]
fn is_on_now(observer: &Observer) -> bool {
    match settled(observer) {
        ON => true,
        WAITS => demand::begin().is_some_and(start),
        _ => false,
    }
}

/// What the environment says, read once. A program with more rights than its caller is not observed.
fn settled(observer: &Observer) -> u8 {
    match STATE.load(Ordering::Acquire) {
        UNKNOWN => uncancelled(|| {
            let before = Errno::last();
            let anyway = (observer.begin)();
            let state = match trusted("IRONVERBS_TRACE") {
                None => OFF,
                // All calls go one way already; a trace that begins later is for programs that are not checked.
                Some(asked) if asked == demand::ASKED && !anyway && demand::offer() => WAITS,
                Some(folder) if folder.as_encoded_bytes().first() == Some(&b'/') => {
                    let _ = FOLDER.set(ironverbs_os::growth::small_box(folder));
                    ON
                }
                Some(_) => OFF,
            };
            let state = if anyway { ON } else { state };
            let _ = STATE.compare_exchange(UNKNOWN, state, Ordering::AcqRel, Ordering::Acquire);
            before.set();
            STATE.load(Ordering::Acquire)
        }),
        known => known,
    }
}

/// Begins a trace into a folder.
fn start(folder: OsString) -> bool {
    let _ = FOLDER.set(ironverbs_os::growth::small_box(folder));
    STATE.store(ON, Ordering::Release);
    if has_lost() {
        lose();
    }
    true
}

/// Has the command say that not all calls are shown, now or when there is one. `errno` is as it was.
#[cold]
pub fn lose() {
    LOST.store(true, Ordering::Release);
    if let Some(folder) = folder() {
        let before = Errno::last();
        uncancelled(|| ring::say_lost(folder));
        before.set();
    }
}

/// Whether some calls are not observed.
#[must_use]
pub fn has_lost() -> bool {
    LOST.load(Ordering::Acquire)
}

/// The folder in which rings are made; None where there is no trace.
pub(crate) fn folder() -> Option<&'static OsStr> {
    FOLDER.get().map(OsString::as_os_str)
}
