//! What the programs asked for and what they saw: the ledger that the invariants are read from.

use softrdma::rules::requester::Outcome;
use softrdma::rules::verbs::{Opcode, Status};

/// A queue pair: process and index.
pub type End = (usize, u32);

/// A send request.
pub struct Sent {
    pub from: End,
    pub to: End,
    pub opcode: Opcode,
    pub signalled: bool,
    pub words: u64,
    /// The program could not post it.
    pub dropped: bool,
    /// The sender's completion, when one was polled.
    pub status: Option<Status>,
    /// Completions that the receiver polled for it.
    pub received: u32,
    /// Receiver-not-ready answers so far.
    pub not_ready: u32,
    /// When an answer was missing for the first time since the last answer.
    pub unanswered_since: Option<u64>,
    /// Missing answers since the last answer.
    pub unanswered: u32,
    /// Whether it came nobody knows but its target, which died.
    pub unknown: bool,
    /// How often its send queue had begun anew when it was posted.
    pub life: u32,
    /// When the last attempt began.
    pub begun: u64,
    /// What the last attempt met.
    pub waits: Option<Outcome>,
}

impl Sent {
    /// Whether it uses up a receive request.
    pub fn receives(&self) -> bool {
        use Opcode::{RdmaWriteWithImm, Send, SendWithImm, SendWithInv};
        matches!(self.opcode, Send | SendWithImm | SendWithInv | RdmaWriteWithImm)
    }
}

/// Where receive requests are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posted {
    Ring(End),
    Shared(usize, u32),
}

/// A receive request.
pub struct Receive {
    pub queue: Posted,
    pub buffer: Vec<u64>,
    pub status: Option<Status>,
    /// Its queue pair was reset before a message came.
    pub forgotten: bool,
}

/// The ledger of one run.
#[derive(Default)]
pub struct Ledger {
    pub sent: Vec<Sent>,
    pub receives: Vec<Receive>,
}

/// Content of a message, word by word. The first is its number.
pub fn word(message: u64, index: u64) -> u64 {
    if index == 0 {
        return message;
    }
    let mixed = (message ^ index.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
