//! What a program's calls are seen by: `ironverbs trace` has each verb say its name, arguments and answer, and
//! `ironverbs check` has them judged.
//!
//! | file | what |
//! |---|---|
//! | [`call`](mod@call) | how a C entry point names itself and its arguments |
//! | [`shown`], [`attributes`], [`names`] | how values are shown |
//! | [`data`] | functions in the place of the provider's data calls |
//!
//! What a call says goes where the crate `ironverbs-trace` has it go: [`line`] is its text, [`record`] what the
//! command reads.
//!
//! Nothing is here of what a verb does: the module knows layouts and the system only, and the C entry points
//! use it. What is judged goes on to [`check`](crate::check). While nothing is observed, a control verb pays
//! for a look at one byte, and a data call for nothing: the tables that programs call have other functions only
//! in a device that was opened while something is observed.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

pub mod attributes;
pub mod call;
pub mod data;
pub mod names;
pub mod shown;

use core::sync::atomic::{AtomicBool, Ordering};

use ironverbs_trace::{Observer, state};

use crate::check;

pub(crate) use call::call;
pub use call::{Call, Seen, UNNAMED};
pub use ironverbs_trace::{line, record};
use ironverbs_trace::{now, state::lose, thread};

/// Whether calls are judged by the rules of `ironverbs check`.
static CHECKED: AtomicBool = AtomicBool::new(false);

/// This library.
static OBSERVER: Observer = Observer { library: "verbs", begin, is_anyway: is_checked };

fn begin() -> bool {
    let checked = check::start();
    CHECKED.store(checked, Ordering::Release);
    checked
}

/// Whether calls are, or may come to be, observed: asked where a device is opened.
pub fn may_be_seen() -> bool {
    state::may_be_seen(&OBSERVER)
}

/// Whether a call is to be recorded.
#[inline]
fn is_on() -> bool {
    state::is_on(&OBSERVER)
}

/// Whether calls are judged by rules. Only within what [`is_on`] lets in.
#[inline]
fn is_checked() -> bool {
    CHECKED.load(Ordering::Relaxed)
}
