//! What each thread of an observed process has: its ring, and room for a record.
//!
//! It lies in a mapping of its own, so that a verb within an allocator's hook or a handler of a signal is no
//! matter, and goes with the thread.

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::size_of;
use core::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ironverbs_os::errno::Errno;
use ironverbs_os::fork;
use ironverbs_os::guard::uncancelled;

use super::Observer;
use super::line::Line;
use super::record::{EMPTY_PLACES, Empty, Header, LARGEST, Text, data, flag, kind};
use super::ring::Ring;
use super::state::{folder, lose};

/// Words of a data record behind its header.
pub const WORDS: usize = (LARGEST - size_of::<Header>()) / 8;

/// A thread's.
pub struct Thread {
    ring: Option<Ring>,
    /// The process that it belongs to: a forked child makes its own.
    process: u64,
    /// Whether a call of this thread is being observed: what that calls itself is not.
    pub within: bool,
    /// The text of a call.
    pub line: Line,
    /// The words of a data call.
    pub words: [u64; WORDS],
}

thread_local! {
    static THREAD: Cell<*mut Thread> = const { Cell::new(null_mut()) };
}

/// The key whose destructor ends a thread's, plus one; 0: none yet.
static KEY: AtomicU32 = AtomicU32::new(0);
/// The process whose rings could not be made: nothing more is tried there.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// What this thread has, made where it is the first time. None where nothing can be written.
pub fn this(observer: &Observer) -> Option<NonNull<Thread>> {
    let found = THREAD.get();
    // SAFETY: null, or this thread's own until its end.
    if let Some(thread) = unsafe { found.as_mut() } {
        if fork::same_process(thread.process) {
            return (thread.ring.is_some() || (observer.is_anyway)()).then(|| NonNull::from(thread));
        }
        // The parent's, whose ring stays the parent's.
        if let Some(mut ring) = thread.ring.take() {
            ring.unmap();
        }
        return unnoticed(|| fill(thread, observer)).then(|| NonNull::from(thread));
    }
    unnoticed(|| make(observer))
}

/// Rare work outside of a guarded call: no cancellation acts within it, and `errno` is as it was.
fn unnoticed<R>(body: impl FnOnce() -> R) -> R {
    let before = Errno::last();
    let result = uncancelled(body);
    before.set();
    result
}

#[cold]
fn make(observer: &Observer) -> Option<NonNull<Thread>> {
    // SAFETY: a new mapping, which the kernel fills with zeros.
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            size_of::<Thread>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    let thread = memory.cast::<Thread>();
    // SAFETY: as large as a Thread, of which zeros are a value but for the option, which is written here.
    let thread = unsafe {
        (&raw mut (*thread).ring).write(None);
        &mut *thread
    };
    THREAD.set(thread);
    at_the_end(thread);
    fill(thread, observer).then(|| NonNull::from(thread))
}

/// Gives it a ring of this process.
fn fill(thread: &mut Thread, observer: &Observer) -> bool {
    thread.within = false;
    let Ok(process) = fork::token() else { return false };
    thread.process = process;
    if GIVEN_UP.load(Ordering::Relaxed) == process {
        return (observer.is_anyway)();
    }
    let Some(folder) = folder() else { return (observer.is_anyway)() };
    thread.ring = Ring::create(folder, observer.library).ok();
    if thread.ring.is_none() {
        lose();
        GIVEN_UP.store(process, Ordering::Relaxed);
    }
    thread.ring.is_some() || (observer.is_anyway)()
}

/// Has the thread's end seen. Without a key, its memory stays until the process ends.
fn at_the_end(thread: *mut Thread) {
    let mut key = KEY.load(Ordering::Acquire);
    if key == 0 {
        let mut fresh = 0;
        // SAFETY: there is room for a key; the function lives as long as the library, which is never unloaded.
        if unsafe { libc::pthread_key_create(&raw mut fresh, Some(ended)) } != 0 {
            return;
        }
        key = match KEY.compare_exchange(0, fresh + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh + 1,
            Err(other) => {
                // SAFETY: just made, and nobody uses it.
                unsafe { libc::pthread_key_delete(fresh) };
                other
            }
        };
    }
    // SAFETY: a key of this library; its value is this thread's memory.
    unsafe { libc::pthread_setspecific(key - 1, thread.cast()) };
}

/// Ends a thread's ring. What the thread calls later makes another.
unsafe extern "C" fn ended(thread: *mut c_void) {
    let thread = thread.cast::<Thread>();
    THREAD.set(null_mut());
    // SAFETY: this thread's, which nobody else knows.
    unsafe {
        if let Some(ring) = &mut (*thread).ring {
            if fork::same_process((*thread).process) {
                ring.end();
            }
            ring.unmap();
        }
        libc::munmap(thread.cast(), size_of::<Thread>());
    }
}

impl Thread {
    /// Whether calls are recorded for a trace.
    #[inline]
    pub fn records(&self) -> bool {
        self.ring.is_some()
    }

    fn write(&mut self, header: Header, parts: &[&[u8]]) {
        let (Some(ring), Some(folder)) = (&mut self.ring, folder()) else { return };
        if !ring.write(folder, header, parts) {
            self.give_up();
        }
    }

    /// Writes the call that [`Thread::line`] has.
    pub fn write_line(&mut self, name: &str, ends: bool, header: Header) {
        self.flush();
        let Self { ring, line, .. } = self;
        let Some(ring) = ring.as_mut() else { return };
        let Some(folder) = folder() else { return };
        let (arguments, answer) = (line.arguments(), line.answer());
        let text = Text {
            name: name.len() as u16,
            ends: u16::from(ends),
            arguments: arguments.len() as u32,
            answer: answer.len() as u32,
        };
        let cut = if line.is_cut() { flag::CUT } else { 0 };
        let header = Header { kind: kind::TEXT, flags: header.flags | cut, ..header };
        // SAFETY: integers without room between them.
        let text = unsafe { core::slice::from_raw_parts((&raw const text).cast::<u8>(), size_of::<Text>()) };
        if !ring.write(folder, header, &[text, name.as_bytes(), arguments, answer]) {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&mut self) {
        if let Some(mut ring) = self.ring.take() {
            ring.unmap();
        }
        GIVEN_UP.store(self.process, Ordering::Relaxed);
    }

    /// Writes a data call whose words stand in [`Thread::words`].
    pub fn write_words(&mut self, count: usize, header: Header) {
        self.flush();
        let Self { ring, words, .. } = self;
        let (Some(ring), Some(words), Some(folder)) = (ring.as_mut(), words.get(..count), folder()) else {
            return;
        };
        // SAFETY: the words, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), words.len() * 8) };
        if !ring.write(folder, Header { kind: kind::DATA, ..header }, &[bytes]) {
            self.give_up();
        }
    }

    /// Counts a poll that found nothing.
    pub fn found_nothing(&mut self, call: u16, queue: u64, begin: u64, nanos: u64) {
        for _ in 0..2 {
            let Some(ring) = &mut self.ring else { return };
            let same =
                |place: &Empty| place.count > 0 && place.queue == queue && place.call == u64::from(call);
            let places = ring.empties();
            let free = places.iter().position(|place| place.count == 0);
            if let Some(at) = places.iter().position(same) {
                places[at].count += 1;
                places[at].nanos += nanos;
                return;
            }
            if let Some(free) = free {
                places[free] = Empty { count: 0, call: u64::from(call), queue, begin, nanos };
                core::sync::atomic::compiler_fence(Ordering::Release);
                places[free].count = 1;
                return;
            }
            self.flush();
        }
    }

    /// Writes what found nothing until now.
    fn flush(&mut self) {
        for at in 0..EMPTY_PLACES {
            let Some(ring) = &mut self.ring else { return };
            let empty = ring.empties()[at];
            if empty.count == 0 {
                continue;
            }
            ring.empties()[at].count = 0;
            let words = [empty.queue, 0, empty.count];
            // SAFETY: the words, as bytes.
            let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), 24) };
            let answer = if empty.call == u64::from(data::POLL_CQ) { 0 } else { i64::from(libc::ENOENT) };
            let header = Header {
                kind: kind::DATA,
                call: empty.call as u16,
                begin: empty.begin,
                nanos: empty.nanos,
                answer,
                ..Header::default()
            };
            self.write(header, &[bytes]);
        }
    }
}
