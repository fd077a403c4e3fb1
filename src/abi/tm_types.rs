//! Headers that tag matching puts on the wire (tm_types.h).

use super::verbs::{__be32, __be64};

/// Operation in a tag matching header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_tmh_op {
    /// Message without a tag.
    IBV_TMH_NO_TAG = 0,
    /// Rendezvous request.
    IBV_TMH_RNDV = 1,
    /// End of a rendezvous.
    IBV_TMH_FIN = 2,
    /// Message with its data.
    IBV_TMH_EAGER = 3,
}
pub use ibv_tmh_op::*;

/// Tag matching header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_tmh {
    /// A value of `ibv_tmh_op`.
    pub opcode: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The program's opaque data.
    pub app_ctx: __be32,
    /// Tag.
    pub tag: __be64,
}

/// Rendezvous header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_rvh {
    /// Address of the sender's data.
    pub va: __be64,
    /// Key for reading it.
    pub rkey: __be32,
    /// Length in bytes.
    pub len: __be32,
}
