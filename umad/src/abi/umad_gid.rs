//! A GID as umad.h has it. What is packed to a number of bytes the header generator cannot spell, so the header
//! declares it by hand.

use super::{__be16, __be64};

/// A GID on the wire. Other than `ibv_gid` it is aligned to 4 bytes.
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub union umad_gid {
    /// Its bytes.
    pub raw: [u8; 16],
    /// Its 16-bit words.
    pub raw_be16: [__be16; 8],
    /// Its halves.
    pub global: umad_gid_global,
}

/// The halves of a GID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_gid_global {
    /// Subnet prefix.
    pub subnet_prefix: __be64,
    /// Port's identifier.
    pub interface_id: __be64,
}
