//! A send request as it is posted: borrowed, without allocation.

use crate::core::receive::Sge;
use crate::core::request::Operands;
use crate::core::verbs::{Opcode, SendFlags};

/// A send request.
#[derive(Clone, Copy, Debug)]
pub struct Wr<'a> {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Operation.
    pub opcode: Opcode,
    /// Flags.
    pub flags: SendFlags,
    /// Local memory.
    pub data: Data<'a>,
    /// What the operation needs beyond.
    pub operands: Operands,
    /// Immediate data as posted (network order), or the key to invalidate at the receiver.
    pub imm_or_key: u32,
    /// XRC: the shared receive queue at the target, by number.
    pub srq_num: u32,
    /// Datagrams: where it goes.
    pub datagram: Option<Datagram<'a>>,
}

/// Local memory of a request.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Registered memory.
    Sges(&'a [Sge]),
    /// Posted inline, the bytes gathered already.
    Inline(&'a [u8]),
    /// Posted inline, still at these addresses, whose keys do not count.
    InlineSges(&'a [Sge]),
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Queue pair number, or 0xffffff for multicast.
    pub qp_num: u32,
    /// `remote_qkey`. With the top bit set, the sender's own key is sent instead.
    pub qkey: u32,
    /// The 40 bytes that stand in front of the payload, prepared by the address handle.
    pub grh: &'a [u8; 40],
    /// Address of the receiver.
    pub dgid: [u8; 16],
}
