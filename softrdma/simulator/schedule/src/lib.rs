//! Runs the threads of several processes one at a time, in an order that follows from one number.
//!
//! The processes are real: forked by the one that plays, with their own memory, descriptors and locks of files.
//! One thread of all of them runs at a time. At each atomic operation of code that was built for it
//! ([`atomics`]), and at each call by which a thread waits, asks for the time or rings ([`system`]), the turn
//! may go to another. That code is the code that ships: nothing in it knows of this.
//!
//! | file | what |
//! |---|---|
//! | this | the board, which all processes share |
//! | [`turn`] | whose turn it is, and time |
//! | [`atomics`] | what the compiler calls in place of atomic instructions (`-Zsanitizer=thread`) |
//! | `shared_memory` | which words others see |
//! | [`system`] | functions of the C library, in whose place these are linked |
//! | [`play`] | the process that plays: it kills, stops, and sees how it ends |

pub mod atomics;
pub mod play;
pub mod random;
mod shared_memory;
pub mod system;
pub mod turn;

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// No process's number.
const NOBODY: u32 = 63;
/// Threads of a run at most; the first place is that of the process that plays.
pub const THREADS: usize = 64;
/// Notes that are kept.
const NOTES: usize = 4000;
/// Bytes of a note.
const NOTE: usize = 120;

/// A thread of the run.
pub struct Place {
    /// 1: it is its turn.
    turn: AtomicU32,
    /// When it goes on; [`NEVER`], or [`GONE`].
    until: Cell<u64>,
    /// Something that happens may have it go on before.
    listens: Cell<bool>,
    /// The word that it waits for, if it does.
    word: Cell<usize>,
    /// Whose it is.
    process: Cell<u32>,
}

/// It goes on when something happens.
pub const NEVER: u64 = u64::MAX - 1;
/// It has ended.
pub const GONE: u64 = u64::MAX;

/// The atomic operations that are steps. Where there are fewer, it is more likely that the turn goes to another
/// at just this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// All.
    All,
    /// Those at words of memory that processes share.
    Shared,
    /// Those that write such a word.
    Written,
}

/// Why the process that plays has its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// What it planned for this step or time is due.
    Due,
    /// Nobody has anything to do.
    Idle,
    /// Something is wrong.
    Wrong,
    /// There were too many steps.
    Endless,
}

/// What all processes of a run share.
pub struct Board {
    places: [Place; THREADS],
    count: Cell<usize>,
    /// Steps until the turn may go on.
    budget: Cell<i64>,
    /// The mean of such steps; 0: the turn is kept as long as the thread does not wait.
    mean: Cell<u64>,
    /// Which steps count.
    counted: Cell<Steps>,
    /// What everything that is left to chance follows from.
    pub random: random::Random,
    now: Cell<u64>,
    steps: Cell<u64>,
    most_steps: Cell<u64>,
    /// The step from which on turns go to others as they come.
    begun: Cell<u64>,
    switches: Cell<u64>,
    /// The step, and the time, at which the process that plays has something to do.
    due_step: Cell<u64>,
    due_time: Cell<u64>,
    why: Cell<Why>,
    /// Processes that are stopped, a bit for each.
    stopped: Cell<u64>,
    notes: [Cell<(u64, u32, [u8; NOTE])>; NOTES],
    noted: Cell<usize>,
    wrong: Cell<[u8; 400]>,
}

// SAFETY: one thread of all processes runs at a time, and hands its turn on with an atomic operation.
unsafe impl Sync for Board {}

static BOARD: AtomicPtr<Board> = AtomicPtr::new(std::ptr::null_mut());

/// The board; `None` outside of a run.
#[inline]
pub fn board() -> Option<&'static Board> {
    // SAFETY: null, or a mapping that is never unmapped.
    unsafe { BOARD.load(Ordering::Relaxed).as_ref() }
}

/// Memory that this process shares with those that it forks.
#[must_use]
pub fn shared(bytes: usize) -> *mut u8 {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
    let p = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
    assert_ne!(p, libc::MAP_FAILED, "memory");
    p.cast()
}

/// Empties the board for a run, of which this is the process that plays.
pub fn begin(seed: u64, most_steps: u64) -> &'static Board {
    let mut p = BOARD.load(Ordering::Relaxed);
    if p.is_null() {
        p = shared(std::mem::size_of::<Board>()).cast();
        BOARD.store(p, Ordering::Relaxed);
    }
    // SAFETY: memory of that size, aligned as pages are; for all of a board zeroes are a value, and no process
    // of an earlier run is left.
    let board = unsafe {
        std::ptr::write_bytes(p, 0, 1);
        &*p
    };
    board.random.set(seed);
    board.count.set(1);
    board.budget.set(i64::MAX);
    board.most_steps.set(most_steps);
    board.begun.set(u64::MAX);
    board.due_step.set(u64::MAX);
    board.due_time.set(u64::MAX);
    board.places[0].until.set(GONE);
    board.places[0].process.set(NOBODY);
    board
}

impl Board {
    /// Nanoseconds since the run began.
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Steps since turns go to others as they come.
    fn played(&self) -> u64 {
        self.steps.get().saturating_sub(self.begun.get())
    }

    /// Steps so far, and how often the turn went to another.
    pub fn steps(&self) -> (u64, u64) {
        (self.steps.get(), self.switches.get())
    }

    /// Notes what happens, for the report on a run that goes wrong.
    pub fn note(&self, text: &str) {
        let mut bytes = [0; NOTE];
        let len = text.len().min(NOTE);
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        let n = self.noted.get();
        self.notes[n % NOTES].set((self.now.get(), turn::process(), bytes));
        self.noted.set(n + 1);
    }

    /// The last notes.
    pub fn notes(&self) -> Vec<String> {
        let end = self.noted.get();
        let text = |n: usize| {
            let (time, process, bytes) = self.notes[n % NOTES].get();
            let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(NOTE);
            format!("{:>12} {process} {}", time, String::from_utf8_lossy(&bytes[..len]))
        };
        (end.saturating_sub(NOTES)..end).map(text).collect()
    }

    /// What each thread does: its process, until when it waits, and whether something may have it go on before.
    pub fn threads(&self) -> Vec<(u32, u64, bool)> {
        let places = &self.places[1..self.count.get()];
        places.iter().map(|place| (place.process.get(), place.until.get(), place.listens.get())).collect()
    }

    /// Something is wrong: the run ends here.
    pub fn violated(&self, what: &str) -> ! {
        self.note(&format!("WRONG: {what}"));
        let mut bytes = [0; 400];
        let len = what.len().min(bytes.len());
        bytes[..len].copy_from_slice(&what.as_bytes()[..len]);
        self.wrong.set(bytes);
        turn::report(self, Why::Wrong)
    }

    /// What is wrong.
    pub fn wrong(&self) -> Option<String> {
        let bytes = self.wrong.get();
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        (len > 0).then(|| String::from_utf8_lossy(&bytes[..len]).into_owned())
    }
}
