//! How a C entry point names itself and its arguments.

use core::ptr::NonNull;

use ironverbs_os::errno::Errno;
use ironverbs_os::guard::uncancelled;

use super::line::Line;
use super::record::{Header, flag};
use super::thread::{self, Thread};
use super::{OBSERVER, is_checked, is_on, now};
use crate::check;

/// A verb and its arguments. What shows them runs only while calls are observed.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The verb's name; empty for a function that calls another entry point, which shows itself.
    pub name: &'static str,
    /// Shows the arguments.
    pub show: &'a dyn Fn(&mut Line),
}

/// A function of the library's own that calls another entry point, which shows itself.
pub const UNNAMED: Call<'static> = Call { name: "", show: &|_| {} };

/// A call that is being observed.
#[derive(Clone, Copy)]
pub struct Seen {
    thread: NonNull<Thread>,
    begin: u64,
}

/// A verb's arguments: `call!("ibv_create_cq", context, cqe)`. An argument stands by its name, with
/// `= expression` where it is shown otherwise than its type is, and behind `out` where the verb sets it.
macro_rules! call {
    ($name:literal $(, $($arguments:tt)*)?) => {
        $crate::observe::Call {
            name: $name,
            #[allow(unused_variables, clippy::unnecessary_cast, reason = "a verb may have no arguments")]
            show: &|line: &mut $crate::observe::line::Line| {
                $($crate::observe::call!(@ line $($arguments)*);)?
            },
        }
    };
    (@ $line:ident) => {};
    (@ $line:ident out $argument:ident = $shown:expr $(, $($more:tt)*)?) => {
        $line.result(stringify!($argument), $argument as *const () as usize, |line| {
            // SAFETY: what the verb has just written.
            #[allow(unused_unsafe, reason = "not all need it")]
            unsafe { $crate::observe::shown::Shown::show(&$shown, line) }
        });
        $($crate::observe::call!(@ $line $($more)*);)?
    };
    (@ $line:ident out $argument:ident $(, $($more:tt)*)?) => {
        $crate::observe::call!(@ $line out $argument = $argument $(, $($more)*)?);
    };
    (@ $line:ident $argument:ident = $shown:expr $(, $($more:tt)*)?) => {
        $line.argument(
            stringify!($argument),
            || {
                // SAFETY: what the program passes, as the verb takes it.
                #[allow(unused_unsafe, reason = "not all need it")]
                unsafe { $crate::observe::shown::Shown::word(&$shown) }
            },
            |line| {
                // SAFETY: as above.
                #[allow(unused_unsafe, reason = "not all need it")]
                unsafe { $crate::observe::shown::Shown::show(&$shown, line) }
            },
        );
        $($crate::observe::call!(@ $line $($more)*);)?
    };
    (@ $line:ident $argument:ident $(, $($more:tt)*)?) => {
        $crate::observe::call!(@ $line $argument = $argument $(, $($more)*)?);
    };
}
pub(crate) use call;

impl Call<'_> {
    /// Begins to observe, before the verb does anything.
    #[inline]
    pub fn begin(&self) -> Option<Seen> {
        if is_on() { self.begin_observed() } else { None }
    }

    #[cold]
    fn begin_observed(&self) -> Option<Seen> {
        if self.name.is_empty() {
            return None;
        }
        uncancelled(|| {
            let before = Errno::last();
            let seen = thread::this(&OBSERVER).and_then(|mut thread| {
                // SAFETY: this thread's own.
                let thread = unsafe { thread.as_mut() };
                if core::mem::replace(&mut thread.within, true) {
                    return None;
                }
                thread.line.before(self.show, thread.records());
                if is_checked() {
                    check::begins(self.name, thread.line.words());
                }
                Some(Seen { thread: NonNull::from(thread), begin: now() })
            });
            before.set();
            seen
        })
    }

    /// Begins to observe a verb that waits, where the thread may be cancelled: nothing is changed yet.
    #[inline]
    pub fn begin_waiting(&self) -> Option<u64> {
        if is_on() { Some(now()) } else { None }
    }

    /// Ends what [`Call::begin_waiting`] began.
    #[inline]
    pub fn end_waiting(&self, begin: Option<u64>, failed: Option<Errno>, answer: &dyn Fn(&mut Line)) {
        if let Some(begin) = begin {
            let seen = self.begin_observed().map(|seen| Seen { begin, ..seen });
            self.end(seen, failed, 0, answer);
        }
    }

    /// Records the call with what it answered, and why where it failed; `word` is the address of what it made,
    /// or 0. `errno` is as it was.
    #[inline]
    pub fn end(&self, seen: Option<Seen>, failed: Option<Errno>, word: u64, answer: &dyn Fn(&mut Line)) {
        if let Some(seen) = seen {
            self.end_observed(seen, failed, word, answer);
        }
    }

    #[cold]
    fn end_observed(&self, seen: Seen, failed: Option<Errno>, word: u64, answer: &dyn Fn(&mut Line)) {
        let nanos = now().saturating_sub(seen.begin);
        uncancelled(|| {
            let before = Errno::last();
            let mut thread = seen.thread;
            // SAFETY: this thread's own, as long as it is within the call.
            let thread = unsafe { thread.as_mut() };
            if is_checked() {
                check::ended(self.name, thread.line.words(), word, failed.is_some());
            }
            if !thread.records() {
                thread.within = false;
                return before.set();
            }
            thread.line.after(self.show, failed.is_some(), answer);
            let header = Header {
                begin: seen.begin,
                nanos,
                errno: failed.map_or(0, |errno| errno.0),
                flags: if failed.is_some() { flag::FAILED } else { 0 },
                ..Header::default()
            };
            let ends = failed.is_none() && ends_an_object(self.name);
            thread.write_line(self.name, ends, header);
            thread.within = false;
            before.set();
        });
    }
}

/// Whether the verb makes an end of its first argument.
fn ends_an_object(name: &str) -> bool {
    let verb = name.strip_prefix("ibv_").unwrap_or(name);
    ["destroy_", "dealloc_", "close_", "dereg_", "free_", "unimport_"]
        .iter()
        .any(|begin| verb.starts_with(begin))
}
