//! Functions in the place of a provider's data calls: each records what was asked and answered, and calls the
//! provider's.
//!
//! A table of functions is one of few that the providers of a process have. Each different one gets a number,
//! and each function here is there once for each number, so that it knows the provider's without asking which
//! object it is called for: `ibv_context.ops` ([`context`]), `ibv_cq_ex` ([`walk`]), `ibv_qp_ex` ([`builder`]),
//! and the functions of `ibv_wq` and `ibv_dm` ([`context`]). Where a process has more of them than there are
//! numbers, the rest is not observed, and the command says so.

pub mod builder;
pub mod context;
pub mod walk;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use ironverbs_os::errno::Errno;
use ironverbs_os::fork::ProcessMutex;

use super::record::{Header, flag};
use super::thread::{self, Thread, WORDS};
use super::{OBSERVER, is_checked, is_on, lose, now};
use crate::check;

/// The providers' tables of one kind.
pub(crate) struct Originals<T, const MOST: usize> {
    tables: [UnsafeCell<Option<T>>; MOST],
    count: AtomicUsize,
    changes: ProcessMutex<()>,
}

// SAFETY: a table is written once, under the lock, before the count says that it is there.
unsafe impl<T: Send + Sync, const MOST: usize> Sync for Originals<T, MOST> {}

impl<T: Copy + PartialEq, const MOST: usize> Originals<T, MOST> {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            tables: [const { UnsafeCell::new(None) }; MOST],
            count: AtomicUsize::new(0),
            changes: ProcessMutex::new(()),
        }
    }

    /// The table of that number, which [`Originals::number`] gave.
    #[inline]
    pub fn get(&self, number: usize) -> &T {
        // SAFETY: written before the number was given, and never again.
        match unsafe { &*self.tables[number].get() } {
            Some(table) => table,
            None => unreachable!("a number is given with its table"),
        }
    }

    /// The number of a table; None where there are too many.
    pub fn number(&self, table: T) -> Option<usize> {
        let _changes = self.changes.lock().ok()?;
        let count = self.count.load(Ordering::Acquire);
        if let Some(known) = (0..count).find(|number| *self.get(*number) == table) {
            return Some(known);
        }
        if count == MOST {
            lose();
            return None;
        }
        // SAFETY: nobody reads it yet, and the lock keeps others from writing.
        unsafe { *self.tables[count].get() = Some(table) };
        self.count.store(count + 1, Ordering::Release);
        Some(count)
    }
}

/// A data call that is being observed.
pub(crate) struct Observed<'a> {
    thread: &'a mut Thread,
    /// Words of the record.
    count: usize,
    begin: u64,
    /// How long the call took, once it is over.
    nanos: Option<u64>,
    cut: bool,
}

/// Begins to observe; None where nothing is recorded, and within another call.
#[inline]
pub(crate) fn begin<'a>() -> Option<Observed<'a>> {
    if !is_on() {
        return None;
    }
    let mut thread = thread::this(&OBSERVER)?;
    // SAFETY: this thread's own.
    let thread = unsafe { thread.as_mut() };
    if core::mem::replace(&mut thread.within, true) {
        if is_checked() {
            check::missed();
        }
        return None;
    }
    let begin = if thread.records() { now() } else { 0 };
    Some(Observed { thread, count: 0, begin, nanos: None, cut: false })
}

impl Observed<'_> {
    /// Whether the call is recorded; if not, it is over here.
    #[inline]
    pub fn records(&mut self) -> bool {
        let records = self.thread.records();
        if !records {
            self.thread.within = false;
        }
        records
    }

    /// Another word of the record.
    #[inline]
    pub fn word(&mut self, word: u64) {
        if let Some(place) = self.thread.words.get_mut(self.count) {
            *place = word;
            self.count += 1;
        } else {
            self.cut = true;
        }
    }

    /// Two halves of a word.
    #[inline]
    pub fn halves(&mut self, low: u32, high: u32) {
        self.word(u64::from(low) | u64::from(high) << 32);
    }

    /// Whether there is room for so many words.
    pub fn has_room(&self, words: usize) -> bool {
        self.count + words <= WORDS
    }

    /// What has no room is not shown.
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// The call is over; what is written from here on takes no time of it.
    #[inline]
    pub fn stop(&mut self) {
        self.nanos = Some(now().saturating_sub(self.begin));
    }

    fn flags(&self, failed: bool) -> u32 {
        (if failed { flag::FAILED } else { 0 }) | (if self.cut { flag::CUT } else { 0 })
    }

    /// Writes a part of a record that goes on.
    pub fn part(&mut self, call: u16) {
        let flags = flag::GOES_ON;
        let header = Header { call, begin: self.begin, flags, ..Header::default() };
        self.thread.write_words(self.count, header);
        self.count = 0;
    }

    /// Writes the record. `errno` is as it was.
    #[inline]
    pub fn end(self, call: u16, answer: i64, failed: Option<i32>) {
        let nanos = self.nanos.unwrap_or_else(|| now().saturating_sub(self.begin));
        let header = Header {
            call,
            begin: self.begin,
            nanos,
            answer,
            errno: failed.unwrap_or(0),
            flags: self.flags(failed.is_some()),
            ..Header::default()
        };
        let before = Errno::last();
        self.thread.write_words(self.count, header);
        self.thread.within = false;
        before.set();
    }

    /// Counts a poll that found nothing.
    #[inline]
    pub fn end_empty(self, call: u16, queue: u64) {
        let nanos = now().saturating_sub(self.begin);
        let before = Errno::last();
        self.thread.found_nothing(call, queue, self.begin, nanos);
        self.thread.within = false;
        before.set();
    }
}

/// Whether the call is judged by rules.
#[inline]
pub(crate) fn is_judged(seen: &Option<Observed<'_>>) -> bool {
    seen.is_some() && is_checked()
}

/// An array of a function for each number.
macro_rules! each_number {
    ($function:ident) => {
        [
            $function::<0>,
            $function::<1>,
            $function::<2>,
            $function::<3>,
            $function::<4>,
            $function::<5>,
            $function::<6>,
            $function::<7>,
            $function::<8>,
            $function::<9>,
            $function::<10>,
            $function::<11>,
            $function::<12>,
            $function::<13>,
            $function::<14>,
            $function::<15>,
        ]
    };
}
pub(crate) use each_number;

/// How many tables of a kind there can be.
pub(crate) const MOST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_number_as_long_as_there_are_some() {
        let tables = Originals::<u32, 2>::new();
        assert_eq!([7, 8, 7].map(|table| tables.number(table)), [Some(0), Some(1), Some(0)]);
        assert_eq!((tables.number(9), tables.number(8)), (None, Some(1)));
        assert_eq!((*tables.get(0), *tables.get(1)), (7, 8));
        assert!(ironverbs_trace::state::has_lost());
    }
}
