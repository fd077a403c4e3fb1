//! What a program's calls are seen by: `ironverbs trace` has each verb say its name, arguments and answer, and
//! `ironverbs check` has them judged.
//!
//! | file | what |
//! |---|---|
//! | [`call`](mod@call) | how a C entry point names itself and its arguments |
//! | [`shown`], [`attributes`], [`names`] | how values are shown |
//! | [`line`] | the text of a call |
//! | [`record`], [`ring`] | what the command reads |
//! | [`thread`] | what each thread has for that |
//! | [`data`] | functions in the place of the provider's data calls |
//! | [`demand`] | a trace that begins while the program runs |
//!
//! Nothing is here of what a verb does: the module knows layouts and the system only, and the C entry points
//! use it. What is judged goes on to [`check`](crate::check). While nothing is observed, a control verb pays
//! for a look at one byte, and a data call for nothing: the tables that programs call have other functions only
//! in a device that was opened while something is observed.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod attributes;
pub mod call;
pub mod data;
pub mod demand;
pub mod line;
pub mod names;
pub mod record;
pub mod ring;
pub mod shown;
mod thread;

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::ffi::{OsStr, OsString};

use ironverbs_os::environment::trusted;
use ironverbs_os::errno::Errno;
use ironverbs_os::guard::uncancelled;
use once_cell::race::OnceBox;

use crate::check;

pub(crate) use call::call;
pub use call::{Call, Seen, UNNAMED};

/// Nobody has asked yet.
const UNKNOWN: u8 = 0;
/// Nothing is observed.
const OFF: u8 = 1;
/// Every call is.
const ON: u8 = 2;
/// A trace may begin ([`demand`]).
const WAITS: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether calls are judged by the rules of `ironverbs check`.
static CHECKED: AtomicBool = AtomicBool::new(false);
/// The folder in which rings are made.
static FOLDER: OnceBox<OsString> = OnceBox::new();
/// Some calls are not observed.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether calls are, or may come to be, observed: asked where a device is opened.
pub fn may_be_seen() -> bool {
    settled() != OFF
}

/// Whether a call is to be recorded.
#[inline]
fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != OFF && is_on_now()
}

#[cold]
fn is_on_now() -> bool {
    match settled() {
        ON => true,
        WAITS => demand::begin().is_some_and(start),
        _ => false,
    }
}

/// Whether calls are judged by rules. Only within what [`is_on`] lets in.
#[inline]
fn is_checked() -> bool {
    CHECKED.load(Ordering::Relaxed)
}

/// What the environment says, read once. A program with more rights than its caller is not observed.
fn settled() -> u8 {
    match STATE.load(Ordering::Acquire) {
        UNKNOWN => uncancelled(|| {
            let before = Errno::last();
            let checked = check::start();
            CHECKED.store(checked, Ordering::Release);
            let state = match trusted("IRONVERBS_TRACE") {
                None => OFF,
                // All calls go one way already; a trace that begins later is for programs that are not checked.
                Some(asked) if asked == demand::ASKED && !checked => demand::offer(),
                Some(folder) if folder.as_encoded_bytes().first() == Some(&b'/') => {
                    let _ = FOLDER.set(ironverbs_os::growth::small_box(folder));
                    ON
                }
                Some(_) => OFF,
            };
            let state = if checked { ON } else { state };
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
    if LOST.load(Ordering::Acquire) {
        lose();
    }
    true
}

/// Has the command say that not all calls are shown, now or when there is one. `errno` is as it was.
#[cold]
fn lose() {
    LOST.store(true, Ordering::Release);
    if let Some(folder) = folder() {
        let before = Errno::last();
        uncancelled(|| ring::say_lost(folder));
        before.set();
    }
}

fn folder() -> Option<&'static OsStr> {
    FOLDER.get().map(OsString::as_os_str)
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
