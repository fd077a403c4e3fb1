//! What the programs asked for and what they saw, in memory that all processes share: it outlives them.

use std::cell::Cell;

use softrdma::rules::verbs::Status;

use crate::plan::{BUFFER_WORDS, End};

/// Most of what a run has.
pub const PROCESSES: usize = 4;
pub const QPS: usize = 16;
pub const MESSAGES: usize = 512;
pub const RECEIVES: usize = 2048;
pub const POLLED: usize = 2048;
/// Words of a message's place.
pub const SPACE: usize = 64;
const _: () = assert!(BUFFER_WORDS < SPACE as u64);

/// What became of a send request.
#[derive(Default)]
pub struct Sent {
    /// When it was posted; 0: it was not.
    pub posted: Cell<u64>,
    /// How often its queue pair had been reset.
    pub life: Cell<u32>,
    /// Its completion, when it was polled.
    pub status: Cell<Option<Status>>,
    pub completed: Cell<u64>,
    /// Its queue pair was reset or destroyed before it was polled.
    pub forgotten: Cell<bool>,
    /// Completions that the receiver polled for it, and when the first of them.
    pub received: Cell<u32>,
    pub arrived: Cell<u64>,
    /// When the call that posted it returned.
    pub returned: Cell<u64>,
    /// The key that a window is bound with, which it is to invalidate, and whether it is bound.
    pub window: Cell<u32>,
    pub bound: Cell<bool>,
}

/// A receive request.
#[derive(Default)]
pub struct Receive {
    /// Process, queue, and whether that is a shared one.
    pub queue: Cell<(usize, usize, bool)>,
    /// The buffer that it has.
    pub buffer: Cell<usize>,
    pub status: Cell<Option<Status>>,
    pub forgotten: Cell<bool>,
}

/// A completion that a program polled.
#[derive(Clone, Copy, Default)]
pub struct Polled {
    pub qp: usize,
    pub wr_id: u64,
    pub status: Option<Status>,
    /// A receive request's message, where it succeeded.
    pub message: Option<usize>,
}

/// A queue pair as its owner has it.
#[derive(Default)]
pub struct Pair {
    pub number: Cell<u32>,
    /// How often it was reset, and when last.
    pub lives: Cell<u32>,
    pub reset: Cell<Option<u64>>,
    pub destroyed: Cell<bool>,
    pub broken: Cell<bool>,
}

/// Of one process.
pub struct Seen {
    pub polled: [Cell<Polled>; POLLED],
    pub count: Cell<usize>,
    pub pairs: [Pair; QPS],
    /// Numbers of the shared receive queues of the XRC domain.
    pub xrc_srqs: [Cell<u32>; QPS],
    /// One of its completion queues overran.
    pub overran: Cell<bool>,
    /// Threads that came to their end.
    pub ended: Cell<usize>,
    pub dead: Cell<bool>,
    /// The key of all memory.
    pub rkey: Cell<u32>,
}

/// See the module. All zeroes is a value.
pub struct Ledger {
    /// How many processes are ready; those below go on.
    pub stage: Cell<usize>,
    /// Nobody has anything to do any more: each thread looks once more, and ends.
    pub over: Cell<bool>,
    pub sent: [Sent; MESSAGES],
    pub receives: [Receive; RECEIVES],
    pub posted: Cell<usize>,
    pub seen: [Seen; PROCESSES],
    pub totals: Totals,
    /// What requests send, what receive requests take, what is written by requests, and what they answer.
    pub sends: [[Cell<u64>; SPACE]; MESSAGES],
    pub buffers: [[Cell<u64>; SPACE]; RECEIVES],
    pub written: [[Cell<u64>; SPACE]; MESSAGES],
    pub results: [[Cell<u64>; SPACE]; MESSAGES],
    /// By process: what others read, what they add to, and what they swap.
    pub source: [[Cell<u64>; SPACE]; PROCESSES],
    pub counter: [Cell<u64>; PROCESSES],
    pub swapped: [Cell<u64>; PROCESSES],
}

/// What all runs together saw: a simulator that never gets somewhere proves nothing there.
#[derive(Default, Debug)]
pub struct Totals {
    pub slept: Cell<u64>,
    pub resized: Cell<u64>,
    pub reset: Cell<u64>,
    pub destroyed: Cell<u64>,
    pub events: Cell<u64>,
    pub full: Cell<u64>,
}

impl Totals {
    pub fn add(cell: &Cell<u64>, more: u64) {
        cell.set(cell.get() + more);
    }
}

impl Ledger {
    /// Fills what is sent and read, of memory that is all zeroes.
    pub fn fill(&self, messages: usize) {
        self.sent.iter().for_each(|sent| sent.status.set(None));
        self.receives.iter().for_each(|receive| receive.status.set(None));
        self.seen.iter().flat_map(|seen| &seen.pairs).for_each(|pair| pair.reset.set(None));
        for (message, space) in self.sends[..messages].iter().enumerate() {
            space.iter().zip(0..).for_each(|(place, at)| place.set(word(message as u64, at)));
        }
        for (process, space) in self.source.iter().enumerate() {
            space.iter().zip(0..).for_each(|(place, at)| place.set(word(process as u64, at)));
        }
    }

    pub fn pair(&self, end: End) -> &Pair {
        &self.seen[end.0].pairs[end.1]
    }

    /// The queue pair with this number.
    pub fn end_of(&self, number: u32) -> Option<End> {
        (0..PROCESSES)
            .flat_map(|process| (0..QPS).map(move |qp| (process, qp)))
            .find(|end| self.pair(*end).number.get() == number && number != 0)
    }
}

/// Content of a message, word by word. The first is its number.
pub fn word(message: u64, index: u64) -> u64 {
    if index == 0 {
        return message;
    }
    let mixed = (message ^ index.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
