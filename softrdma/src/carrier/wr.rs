//! Send requests as a program posts them: borrowed, nothing is allocated.

use crate::carrier::far::way::Route;
pub use crate::rules::receive::Sge;
pub use crate::rules::request::{BindWindow, Operands};
use crate::rules::requester::Posted;
use crate::rules::verbs::{Opcode, SendFlags};

/// A send request (`struct ibv_send_wr`).
#[derive(Clone, Copy, Debug)]
pub struct Wr<'a> {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Operation.
    pub opcode: Opcode,
    /// Flags.
    pub flags: SendFlags,
    /// Local memory, or data taken when posting.
    pub data: Data<'a>,
    /// What the operation needs beyond.
    pub operands: Operands,
    /// Immediate data as posted (network order), or the key to invalidate at the receiver.
    pub imm_or_key: u32,
    /// XRC: the shared receive queue at the target, by number.
    pub srq_num: u32,
    /// Datagrams: where to.
    pub datagram: Option<Datagram<'a>>,
}

impl Wr<'_> {
    /// Whether it leaves by the network, or does so as well.
    #[must_use]
    #[inline(always)]
    pub(crate) fn leaves(&self) -> bool {
        self.route().is_some()
    }

    /// The way that it leaves by.
    #[inline(always)]
    pub(crate) fn route(&self) -> Option<&Route> {
        self.datagram.as_ref()?.route
    }

    /// What a send queue must know of it.
    #[must_use]
    #[inline(always)]
    pub fn posted(&self) -> Posted {
        let signaled = self.flags.has(SendFlags::SIGNALED);
        Posted { wr_id: self.wr_id, opcode: self.opcode, signaled, length: self.data.length() }
    }
}

/// A send of one piece of memory, the most frequent request of all.
#[derive(Clone, Copy, Debug)]
pub struct PlainSend {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Flags. With [`SendFlags::INLINE`] the memory need not be registered.
    pub flags: SendFlags,
    /// The memory.
    pub sge: Sge,
    /// Immediate data, as posted (network order).
    pub imm: Option<u32>,
}

impl PlainSend {
    /// Whether it is eight bytes without immediate data.
    #[inline(always)]
    pub(crate) fn is_word(&self) -> bool {
        self.sge.length == 8 && self.imm.is_none()
    }

    /// Whether the memory need not be registered.
    #[inline(always)]
    pub(crate) fn is_inline(&self) -> bool {
        self.flags.has(SendFlags::INLINE)
    }

    /// The request, where it is one.
    #[inline(always)]
    #[must_use]
    pub fn of(wr: &Wr<'_>) -> Option<Self> {
        if wr.datagram.is_none() { Self::of_any(wr) } else { None }
    }

    /// The same of a datagram, and where it goes.
    #[inline(always)]
    #[must_use]
    pub fn of_datagram<'a>(wr: &'a Wr<'_>) -> Option<(Self, &'a Datagram<'a>)> {
        Self::of_any(wr).zip(wr.datagram.as_ref())
    }

    #[inline(always)]
    fn of_any(wr: &Wr<'_>) -> Option<Self> {
        let imm = match wr.opcode {
            Opcode::Send => None,
            Opcode::SendWithImm => Some(wr.imm_or_key),
            _ => return None,
        };
        let (Data::Sges([sge]) | Data::InlineSges([sge])) = wr.data else { return None };
        let is_inline = matches!(wr.data, Data::InlineSges(_));
        let is_plain = is_inline == wr.flags.has(SendFlags::INLINE);
        is_plain.then_some(Self { wr_id: wr.wr_id, flags: wr.flags, sge: *sge, imm })
    }
}

impl<'a> From<&'a PlainSend> for Wr<'a> {
    fn from(send: &'a PlainSend) -> Self {
        let sges = std::slice::from_ref(&send.sge);
        let is_inline = send.flags.has(SendFlags::INLINE);
        Self {
            wr_id: send.wr_id,
            opcode: if send.imm.is_some() { Opcode::SendWithImm } else { Opcode::Send },
            flags: send.flags,
            data: if is_inline { Data::InlineSges(sges) } else { Data::Sges(sges) },
            operands: Operands::None,
            imm_or_key: send.imm.unwrap_or(0),
            srq_num: 0,
            datagram: None,
        }
    }
}

/// A write to remote memory, or a read of it, of one piece of local memory.
#[derive(Clone, Copy, Debug)]
pub struct OneSided {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Flags. With [`SendFlags::INLINE`], which a read never has, the local memory need not be registered.
    pub flags: SendFlags,
    /// The local memory.
    pub sge: Sge,
    /// Whether it is a read.
    pub is_read: bool,
    /// Remote address.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
}

impl OneSided {
    /// The request, where it is one.
    #[inline(always)]
    #[must_use]
    pub fn of(wr: &Wr<'_>) -> Option<Self> {
        let is_read = match wr.opcode {
            Opcode::RdmaWrite => false,
            Opcode::RdmaRead => true,
            _ => return None,
        };
        let Operands::Remote { addr, rkey, .. } = wr.operands else { return None };
        let sge = match wr.data {
            Data::Sges([sge]) if !wr.flags.has(SendFlags::INLINE) => *sge,
            Data::InlineSges([sge]) if !is_read && wr.flags.has(SendFlags::INLINE) => *sge,
            _ => return None,
        };
        let (wr_id, flags) = (wr.wr_id, wr.flags);
        wr.datagram.is_none().then_some(Self { wr_id, flags, sge, is_read, addr, rkey })
    }

    /// What a send queue must know of it.
    #[must_use]
    #[inline(always)]
    pub fn posted(&self) -> Posted {
        Posted {
            wr_id: self.wr_id,
            opcode: if self.is_read { Opcode::RdmaRead } else { Opcode::RdmaWrite },
            signaled: self.flags.has(SendFlags::SIGNALED),
            length: self.sge.length.into(),
        }
    }
}

/// Local memory of a request.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Pieces of registered memory.
    Sges(&'a [Sge]),
    /// Bytes that were taken when the request was posted.
    Inline(&'a [u8]),
    /// Bytes to be taken now: addresses of the program whose keys do not count.
    InlineSges(&'a [Sge]),
}

impl Data<'_> {
    /// Bytes.
    #[must_use]
    #[inline(always)]
    pub fn length(&self) -> u64 {
        match self {
            // What most requests have, without the loop.
            Self::Sges([sge]) | Self::InlineSges([sge]) => u64::from(sge.length),
            Self::Sges(sges) | Self::InlineSges(sges) => sges.iter().map(|sge| u64::from(sge.length)).sum(),
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Queue pair number, or 0xffffff for multicast.
    pub qp_num: u32,
    /// `remote_qkey`. With the top bit set, the sender's own key is sent instead (IBA §10.2.5).
    pub qkey: u32,
    /// The 40 bytes that stand in front of the payload at the receiver.
    pub grh: &'a [u8; 40],
    /// The address that the address handle names.
    pub dgid: [u8; 16],
    /// The way to that, where it is another host's, or a group's.
    pub route: Option<&'a Route>,
}
