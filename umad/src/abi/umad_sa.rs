//! The struct of umad_sa.h: datagrams of subnet administration.

use super::umad_types::{umad_hdr, umad_rmpp_hdr};
use super::{__be16, __be64};

/// Bytes of records in a packet.
pub const UMAD_LEN_SA_DATA: usize = 200;

/// A packet of subnet administration.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_sa_packet {
    /// Header.
    pub mad_hdr: umad_hdr,
    /// Header of the packet.
    pub rmpp_hdr: umad_rmpp_hdr,
    /// Key of the subnet manager, in network byte order; bytes, because it is not aligned.
    pub sm_key: [u8; 8],
    /// Distance of records (8 bytes).
    pub attr_offset: __be16,
    /// Zero.
    pub reserved: __be16,
    /// Which fields of the record count.
    pub comp_mask: __be64,
    /// In network byte order.
    pub data: [u8; UMAD_LEN_SA_DATA],
}
