//! What `ironverbs trace` shows of commands: each by the name of the librdmacm function that writes it.
//!
//! | file | subject |
//! |---|---|
//! | [`arguments`] | what a command says, and what its answer is |
//! | [`words`] | numbers of the connection manager in words |
//!
//! A command is read from the program's memory before it is executed, and its answer when it was. Nothing is
//! decided by either: what stands there is shown. No lock of the device is held meanwhile.

mod arguments;
mod words;

use core::cell::Cell;
use core::ffi::c_int;

use ironverbs_os::errno::Errno;
use ironverbs_os::guard::uncancelled;
use ironverbs_trace::line::Line;
use ironverbs_trace::record::{Header, flag};
use ironverbs_trace::{Observer, now, only_traced, state, thread};
use zerocopy::FromZeros;

use crate::abi::layout;
use crate::memory;

/// This library.
static OBSERVER: Observer = only_traced("cm");

thread_local! {
    /// When the command began for which this thread waits.
    static BEGIN: Cell<u64> = const { Cell::new(0) };
}

/// Bytes of a command that are read: as many as the longest has.
const LONGEST: usize = size_of::<layout::Header>() + size_of::<layout::WriteEvent>();

/// A command as the program wrote it, and when.
pub struct Seen {
    begin: u64,
    channel: c_int,
    length: usize,
    header: layout::Header,
    /// Behind it are zeros.
    body: [u8; LONGEST],
}

/// Whether something is observed.
fn is_on() -> bool {
    state::is_on(&OBSERVER)
}

/// Begins to observe a command; `again` where it has waited.
#[inline]
pub fn begin(channel: c_int, from: u64, length: usize, again: bool) -> Option<Seen> {
    is_on().then(|| begun(channel, from, length, again))
}

#[cold]
fn begun(channel: c_int, from: u64, length: usize, again: bool) -> Seen {
    const HEAD: usize = size_of::<layout::Header>();
    if !again {
        BEGIN.set(now());
    }
    let mut seen = Seen {
        begin: BEGIN.get(),
        channel,
        length,
        header: layout::Header::new_zeroed(),
        body: [0; LONGEST],
    };
    let mut head = [0; HEAD];
    if length >= HEAD && memory::read(from, &mut head).is_ok() {
        seen.header = zerocopy::transmute!(head);
        let rest = (length - HEAD).min(LONGEST);
        if memory::read(from.wrapping_add(HEAD as u64), &mut seen.body[..rest]).is_err() {
            seen.body = [0; LONGEST];
        }
    }
    seen
}

/// Records a command that is over, with its error number where it failed.
#[inline]
pub fn end(seen: Option<&Seen>, failed: Option<i32>) {
    if let Some(seen) = seen {
        ended(seen, failed);
    }
}

#[cold]
fn ended(seen: &Seen, failed: Option<i32>) {
    let call = Call { name: arguments::name(seen), begin: seen.begin, ends: arguments::ends(seen) };
    record(&call, failed, &|line| arguments::show(seen, failed, line), &|line| {
        if failed.is_some() {
            return line.put("-1");
        }
        line.put("0");
        arguments::answer(seen, line);
    });
}

/// When a channel is about to be opened or closed; None where nothing is observed.
pub fn channel_begins() -> Option<u64> {
    is_on().then(now)
}

/// Records that a channel was opened: its descriptor, or an error number.
pub fn opened(begin: Option<u64>, fd: Result<c_int, i32>) {
    let Some(begin) = begin else { return };
    let call = Call { name: "rdma_create_event_channel", begin, ends: false };
    record(&call, fd.err(), &|_| {}, &|line| match fd {
        Ok(fd) => arguments::channel(line, fd),
        Err(_) => line.put("NULL"),
    });
}

/// Records that a channel was closed.
pub fn closed(begin: Option<u64>, fd: c_int) {
    let Some(begin) = begin else { return };
    let call = Call { name: "rdma_destroy_event_channel", begin, ends: false };
    let show = |line: &mut Line| line.argument("channel", || 0, |line| arguments::channel(line, fd));
    record(&call, None, &show, &|line| line.put("void"));
}

struct Call {
    name: &'static str,
    begin: u64,
    /// Whether it makes an end of its first argument.
    ends: bool,
}

/// `errno` is as it was.
fn record(call: &Call, failed: Option<i32>, show: &dyn Fn(&mut Line), answer: &dyn Fn(&mut Line)) {
    let nanos = now().saturating_sub(call.begin);
    uncancelled(|| {
        let before = Errno::last();
        if let Some(mut thread) = thread::this(&OBSERVER) {
            // SAFETY: this thread's own, which has signals wait as long as it is here.
            let thread = unsafe { thread.as_mut() };
            thread.line.before(show, true);
            thread.line.after(show, failed.is_some(), answer);
            let header = Header {
                begin: call.begin,
                nanos,
                errno: failed.unwrap_or(0),
                flags: if failed.is_some() { flag::FAILED } else { 0 },
                ..Header::default()
            };
            thread.write_line(call.name, call.ends && failed.is_none(), header);
        }
        before.set();
    });
}
