//! Rules that a program's calls must keep, which devices do not enforce at once: what `ironverbs check` finds.
//!
//! | file | what |
//! |---|---|
//! | [`rules`] | the table of rules |
//! | [`objects`], [`table`] | the ledger of objects: what there is, and where it was made |
//! | [`queue_pair`] | the ledger of work requests |
//! | [`controls`] | what control verbs do to both, and rules at them |
//! | [`posts`], [`builder`], [`completions`] | rules at posts and polls |
//! | [`paths`], [`leaks`], [`forks`] | rules about peers, about what is left, and of forks |
//! | [`gids`] | the GIDs of a device |
//! | [`buffers`] | checksums of the program's bytes |
//! | [`place`], [`report`] | where something was done, and what the command reads of it |
//! | [`sites`] | where requests are posted, and which of them have their buffers looked at |
//!
//! [`observe`](crate::observe) tells each call, before the verb and after it; this module knows layouts and the
//! system, asks a provider for GIDs and whether it pins memory, and changes nothing for the program. One lock
//! guards the ledgers. It is held in no call of a provider, of the dynamic loader or of the unwinder, and a
//! call within another is not told, so that a handler of a signal never waits for it.
//!
//! What the ledgers do not know is not judged: a rule that might be wrong is silent, or a note.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

mod buffers;
mod builder;
mod completions;
mod controls;
mod forks;
mod gids;
mod leaks;
mod objects;
mod paths;
mod place;
mod posts;
mod queue_pair;
pub mod report;
pub mod rules;
mod sites;
mod table;

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use ironverbs_os::environment::trusted;
use ironverbs_os::errno::Errno;
use ironverbs_os::fork::ProcessMutex;
use ironverbs_os::guard::uncancelled;

pub use completions::Completion;
use controls::{Call, Facts};
use objects::Ledger;
use place::Place;
pub use posts::Receives;
use report::Findings;
use sites::{Look, Walked};

use crate::abi::verbs::*;

static LEDGER: ProcessMutex<Option<Ledger>> = ProcessMutex::new(None);
/// Posts or polls were not told.
static MISSED: AtomicBool = AtomicBool::new(false);

/// Whether all posts and polls were told.
fn is_complete() -> bool {
    !MISSED.load(Ordering::Relaxed)
}

/// A data call came within another, in a handler of a signal: the ledgers do not know it.
#[cold]
pub fn missed() {
    MISSED.store(true, Ordering::Relaxed);
}

/// A number that the calling thread has alone while it lives, never 0.
fn thread() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    MARK.with(|mark| mark as *const u8 as usize)
}

/// Whether the environment asks for it: the folder of `ironverbs check`. Looked at once.
pub fn start() -> bool {
    let Some(folder) = trusted("IRONVERBS_CHECK") else { return false };
    if folder.as_encoded_bytes().first() != Some(&b'/') {
        return false;
    }
    report::open(folder);
    extern "C" fn at_exit() {
        if report::is_noted() {
            ending();
        }
    }
    forks::watch();
    // SAFETY: registers a function of this library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
    true
}

/// Judges within the lock, and writes what was found outside of it. `errno` is as it was.
#[inline]
fn with(verb: &str, body: impl FnOnce(&mut Ledger, &mut Findings)) {
    let before = Errno::last();
    let mut found = Findings::default();
    // Waiting sleeps, where a thread could be cancelled.
    let locked = LEDGER.try_lock().or_else(|| uncancelled(|| LEDGER.lock().ok()));
    if let Some(mut ledger) = locked {
        let ledger = ledger.get_or_insert_default();
        if ledger.own().is_some() {
            body(ledger, &mut found);
        }
    }
    found.report(verb);
    before.set();
}

/// The process is about to fork. A fork within a verb, in a handler of a signal, is not looked at.
fn forking() {
    let before = Errno::last();
    let mut found = Findings::default();
    if let Some(mut ledger) = LEDGER.try_lock()
        && let Some(ledger) = ledger.as_mut()
        && ledger.own().is_some()
    {
        forks::judge(ledger, &mut found);
    }
    found.report("fork");
    before.set();
}

/// The process ends. Programs do that in handlers of signals, too, which may have interrupted who has the lock.
fn ending() {
    let mut found = Findings::default();
    if let Some(mut ledger) = LEDGER.lock_in_time()
        && let Some(ledger) = ledger.as_mut()
        && ledger.own().is_some()
    {
        leaks::left(ledger, &mut found);
    }
    found.report("exit");
}

/// A control verb begins.
pub fn begins(verb: &'static str, arguments: &[(&'static str, u64)]) {
    with(verb, |ledger, found| controls::begins(ledger, found, &Call { verb, arguments }));
}

/// A control verb has ended. `made` is the address of what it made, or 0.
pub fn ended(verb: &'static str, arguments: &[(&'static str, u64)], made: u64, failed: bool) {
    let before = Errno::last();
    let call = Call { verb, arguments };
    // SAFETY: what the program has passed, as the verb takes it, and what it has answered.
    let facts = unsafe { Facts::of(&call, made) };
    before.set();
    with(verb, |ledger, found| {
        // SAFETY: as above.
        unsafe { controls::ended(ledger, found, &call, made, failed, &facts) }
    });
}

/// The same of a post: `body` gets where it is, where its buffers are looked at.
#[inline(always)]
fn with_place(verb: &str, call: sites::Call, body: impl Fn(&mut Ledger, &mut Findings, Option<Place>)) {
    let mut look = Look::No;
    with(verb, |ledger, found| {
        look = ledger.sites.look(call);
        match look {
            Look::No => body(ledger, found, None),
            Look::At(place) => body(ledger, found, Some(place)),
            Look::Where => {}
        }
    });
    if let Look::Where = look {
        let walked = Walked::of(call);
        with(verb, |ledger, found| {
            ledger.sites.learn(&walked);
            body(ledger, found, Some(walked.place));
        });
    }
}

/// Sends are about to be posted.
///
/// # Safety
/// As for `ibv_post_send`.
#[inline(never)]
pub unsafe fn send_begins(qp: *mut ibv_qp, first: *const ibv_send_wr) {
    with_place("ibv_post_send", sites::Call::here(0), |ledger, found, place| {
        // SAFETY: handed on to the caller.
        unsafe { posts::send_begins(ledger, found, qp as u64, first, place) }
    });
}

/// They were, or the provider has refused them.
///
/// # Safety
/// As for `ibv_post_send`, which has answered.
pub unsafe fn send_ended(
    qp: *mut ibv_qp,
    first: *const ibv_send_wr,
    bad: *const *mut ibv_send_wr,
    answer: c_int,
) {
    // SAFETY: handed on to the caller.
    with("ibv_post_send", |ledger, _| unsafe { posts::send_ended(ledger, qp as u64, first, bad, answer) });
}

/// Receives are about to be posted.
///
/// # Safety
/// As for `ibv_post_recv`.
pub unsafe fn receive_begins(to: Receives, first: *const ibv_recv_wr) {
    // SAFETY: handed on to the caller.
    with(to.verb(), |ledger, found| unsafe { posts::receive_begins(ledger, found, to, first) });
}

/// They were, or the provider has refused them.
///
/// # Safety
/// As for `ibv_post_recv`, which has answered.
pub unsafe fn receive_ended(
    to: Receives,
    first: *const ibv_recv_wr,
    bad: *const *mut ibv_recv_wr,
    answer: c_int,
) {
    // SAFETY: handed on to the caller.
    with(to.verb(), |ledger, _| unsafe { posts::receive_ended(ledger, to, first, bad, answer) });
}

impl Receives {
    fn verb(self) -> &'static str {
        match self {
            Self::Qp(_) => "ibv_post_recv",
            Self::Srq(_) => "ibv_post_srq_recv",
        }
    }
}

/// A queue is about to be polled.
pub fn poll_begins(cq: *mut ibv_cq) {
    if completions::are_polls_told() {
        with("ibv_poll_cq", |ledger, found| completions::poll_begins(ledger, found, cq as u64));
    }
}

/// A walk over completions is over.
pub fn poll_ends(cq: *mut ibv_cq) {
    if completions::are_polls_told() {
        with("ibv_end_poll", |ledger, _| completions::poll_ends(ledger, cq as u64));
    }
}

/// A queue was polled.
///
/// # Safety
/// `first` has as many completions as `count` says.
pub unsafe fn polled(cq: *mut ibv_cq, first: *const ibv_wc, count: c_int) {
    if count <= 0 && !completions::are_polls_told() {
        return;
    }
    with("ibv_poll_cq", |ledger, found| {
        if completions::are_polls_told() {
            completions::poll_ends(ledger, cq as u64);
        }
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: by the contract.
            let wc = unsafe { &*first.add(at) };
            let completion = Completion {
                wr_id: wc.wr_id,
                status: wc.status,
                opcode: Some(wc.opcode),
                qp_num: Some(wc.qp_num),
            };
            completions::completed(ledger, found, cq as u64, completion);
        }
    });
}

/// The program has walked to a completion.
pub fn completed(cq: *mut ibv_cq, completion: Completion) {
    with("ibv_start_poll", |ledger, found| {
        completions::completed(ledger, found, cq as u64, completion);
    });
}

/// A function of an extended queue pair is called; `request` says whether it begins a request.
///
/// # Safety
/// As for that function, whose arguments `words` are.
pub unsafe fn built(qp: *const ibv_qp_ex, function: &str, request: bool, words: &[u64]) {
    // SAFETY: handed on to the caller.
    with(function, |ledger, found| unsafe { builder::built(ledger, found, qp, function, request, words) });
}

/// What was built is about to be posted.
#[inline(never)]
pub fn complete_begins(qp: *const ibv_qp_ex) {
    with_place("ibv_wr_complete", sites::Call::here(1), |ledger, found, place| {
        builder::complete_begins(ledger, found, qp as u64, place);
    });
}

/// It was, or the provider has refused it.
pub fn complete_ended(qp: *const ibv_qp_ex, answer: c_int) {
    with("ibv_wr_complete", |ledger, _| builder::complete_ended(ledger, qp as u64, answer));
}
