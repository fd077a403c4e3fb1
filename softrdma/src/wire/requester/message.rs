//! What is posted, and what a requester keeps of it.

use crate::rules::verbs::{Opcode, Status};
use crate::wire::opcode::{Extra, Operation};
use crate::wire::packet::Head;

/// Longest message (IBA vol. 1 §9.7.4.1): 2^31 bytes.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Names a message: they are numbered from 0 on as they are posted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Ticket(pub u64);

/// A message to be sent, without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// A send, write, read, compare and swap, or fetch and add.
    pub opcode: Opcode,
    /// Bytes; 8 for atomic operations.
    pub length: u32,
    /// Writes, reads and atomic operations: address at the peer.
    pub va: u64,
    /// Writes, reads and atomic operations: its key.
    pub rkey: u32,
    /// Immediate data, as it stands in the program's memory, or the key that the peer is to invalidate.
    pub imm_or_key: u32,
    /// What is swapped in, or added.
    pub swap_or_add: u64,
    /// What a compare and swap compares with.
    pub compare: u64,
    /// Whether the peer is woken that waits for solicited completions.
    pub solicited: bool,
    /// Whether it starts after all reads and atomic operations before it have been answered.
    pub fence: bool,
}

impl Message {
    /// One that asks for nothing else.
    #[must_use]
    pub const fn new(opcode: Opcode, length: u32) -> Self {
        Self {
            opcode,
            length,
            va: 0,
            rkey: 0,
            imm_or_key: 0,
            swap_or_add: 0,
            compare: 0,
            solicited: false,
            fence: false,
        }
    }

    /// What its packets are, and what its last one hands over ([`operation`]).
    pub(super) const fn operation(&self) -> Option<(Operation, Extra)> {
        operation(self.opcode)
    }
}

/// What the packets of a request are, and what its last one hands over; `None` for operations that the wire has
/// not.
pub(crate) const fn operation(opcode: Opcode) -> Option<(Operation, Extra)> {
    Some(match opcode {
        Opcode::Send => (Operation::Send, Extra::Nothing),
        Opcode::SendWithImm => (Operation::Send, Extra::Immediate),
        Opcode::SendWithInv => (Operation::Send, Extra::Invalidate),
        Opcode::RdmaWrite => (Operation::Write, Extra::Nothing),
        Opcode::RdmaWriteWithImm => (Operation::Write, Extra::Immediate),
        Opcode::RdmaRead => (Operation::ReadRequest, Extra::Nothing),
        Opcode::CmpAndSwp => (Operation::CompareSwap, Extra::Nothing),
        Opcode::FetchAndAdd => (Operation::FetchAdd, Extra::Nothing),
        _ => return None,
    })
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// All places of the queue are taken.
    Full,
    /// Longer than 2^31 bytes, or an atomic operation that is not of 8 bytes.
    Length,
    /// The transport has no such operation, or none may be under way (`max_rd_atomic`).
    Operation,
}

/// How a message ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Which.
    pub ticket: Ticket,
    /// Its status.
    pub status: Status,
    /// The syndrome of the answer that is to blame, or 0 where none is.
    pub vendor_err: u32,
}

/// A message in the queue. Packets are counted from the queue pair's first on, without wrapping around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub message: Message,
    pub operation: Operation,
    pub extra: Extra,
    /// Its first packet; of a read the first of the answer.
    pub first: u64,
    /// The packet behind its last.
    pub end: u64,
}

impl Pending {
    /// What stands where none is.
    pub const NONE: Self = Self {
        message: Message::new(Opcode::Send, 0),
        operation: Operation::Send,
        extra: Extra::Nothing,
        first: 0,
        end: 0,
    };
}

/// A request that the peer answers with more than an acknowledgement: an atomic operation, a read, or a part of
/// one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub ticket: u64,
    /// The first packet of the answer.
    pub first: u64,
    /// The one behind its last.
    pub end: u64,
}

/// A packet to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its headers.
    pub head: Head,
    /// Its message.
    pub ticket: Ticket,
    /// Where its payload begins in the message.
    pub offset: u32,
    /// Bytes of payload.
    pub length: u32,
}

/// What an answer brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Nothing to be stored. Messages may have [ended](super::Requester::done), and packets may
    /// [go](super::Requester::next).
    Nothing,
    /// The packet's payload is a part of what a read asked for.
    Read {
        /// The read.
        ticket: Ticket,
        /// Where it goes in the message.
        offset: u32,
    },
    /// An atomic operation was carried out.
    Atomic {
        /// Which.
        ticket: Ticket,
        /// What stood there before.
        original: u64,
    },
}
