//! What a responder asks of who carries requests out, and what it is told.

use crate::rules::requester::Syndrome;
use crate::wire::opcode::Operation;
use crate::wire::packet::{AtomicEth, Head, Reth};

/// What a packet asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Carry this out and [say](super::Responder::executed) what came of it.
    Execute(Piece),
    /// The peer broke the rules, and is told so ([`Syndrome::InvalidRequest`]): the queue pair goes to ERR.
    Refused,
}

/// A part of a message, or all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// A send, a write, the request of a read, a compare and swap, or a fetch and add.
    pub operation: Operation,
    /// Whether it begins a message. One that was in progress is given up then (UC).
    pub begins: bool,
    /// Whether it ends it.
    pub ends: bool,
    /// Where the payload goes in the message.
    pub offset: u32,
    /// Writes and reads: the memory that the whole message is about.
    pub memory: Option<Reth>,
    /// Atomic operations: what to do.
    pub atomic: Option<AtomicEth>,
    /// At the end: immediate data, as it stands in the program's memory.
    pub imm: Option<u32>,
    /// At the end: the key that is to be invalidated.
    pub invalidate: Option<u32>,
    /// At the end: whether who waits for solicited completions is to be woken.
    pub solicited: bool,
    /// A read that was carried out before, of which the answer was lost. Its memory is to be checked again.
    pub again: bool,
}

/// What came of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Executed {
    /// It was carried out. Of a read: its memory may be read.
    Done,
    /// An atomic operation was carried out; what stood there before.
    Original(u64),
    /// There is no receive request: the peer is to try again after the time with this `min_rnr_timer` code.
    /// Nothing happened.
    NotReady(u8),
    /// It was refused: the queue pair goes to ERR. Of a read that was carried out before: the packet is
    /// dropped.
    Refused(Syndrome),
}

/// A packet that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// Its headers.
    pub head: Head,
    /// Its payload: of which memory, as the request named it.
    pub payload: Option<Part>,
}

/// A part of the memory that a read asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Address.
    pub va: u64,
    /// Key.
    pub rkey: u32,
    /// Bytes.
    pub length: u32,
}
