//! The structs of umad_types.h: datagrams on the wire.

use super::umad_gid::umad_gid;
use super::{__be16, __be32, __be64};

/// Bytes behind the header of a datagram.
pub const UMAD_LEN_DATA: usize = 232;
/// Bytes behind the headers of a datagram of several packets.
pub const UMAD_LEN_RMPP_DATA: usize = 220;
/// Bytes behind the header of device management.
pub const UMAD_LEN_DM_DATA: usize = 192;
/// Bytes behind the headers of a vendor's datagram.
pub const UMAD_LEN_VENDOR_DATA: usize = 216;

/// Header that every datagram has.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_hdr {
    /// 1.
    pub base_version: u8,
    /// Management class.
    pub mgmt_class: u8,
    /// Version of the management class.
    pub class_version: u8,
    /// Method.
    pub method: u8,
    /// Status.
    pub status: __be16,
    /// The class says what it is.
    pub class_specific: __be16,
    /// Transaction.
    pub tid: __be64,
    /// Attribute.
    pub attr_id: __be16,
    /// Zero.
    pub resv: __be16,
    /// The attribute says what it is.
    pub attr_mod: __be32,
}

/// Header of datagrams of several packets.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_rmpp_hdr {
    /// 1.
    pub rmpp_version: u8,
    /// Kind of packet.
    pub rmpp_type: u8,
    /// Response time and flags.
    pub rmpp_rtime_flags: u8,
    /// Status.
    pub rmpp_status: u8,
    /// Number of the packet.
    pub seg_num: __be32,
    /// Length of the payload, or the last packet that may be sent.
    pub paylen_newwin: __be32,
}

/// A datagram.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_packet {
    /// Header.
    pub mad_hdr: umad_hdr,
    /// In network byte order.
    pub data: [u8; UMAD_LEN_DATA],
}

/// A packet of a datagram of several.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_rmpp_packet {
    /// Header.
    pub mad_hdr: umad_hdr,
    /// Header of the packet.
    pub rmpp_hdr: umad_rmpp_hdr,
    /// In network byte order.
    pub data: [u8; UMAD_LEN_RMPP_DATA],
}

/// A datagram of device management.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_dm_packet {
    /// Header.
    pub mad_hdr: umad_hdr,
    /// Zero.
    pub reserved: [u8; 40],
    /// In network byte order.
    pub data: [u8; UMAD_LEN_DM_DATA],
}

/// A vendor's datagram, of the classes 0x30 to 0x4f.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_vendor_packet {
    /// Header.
    pub mad_hdr: umad_hdr,
    /// Header of the packet.
    pub rmpp_hdr: umad_rmpp_hdr,
    /// Zero.
    pub reserved: u8,
    /// Vendor's identifier, in network byte order.
    pub oui: [u8; 3],
    /// In network byte order.
    pub data: [u8; UMAD_LEN_VENDOR_DATA],
}

/// A GID, also under an older name.
#[repr(C)]
#[derive(Clone, Copy)]
pub union umad_class_port_info_anon0 {
    /// Its bytes in network order.
    pub redir_gid: [u8; 16],
    /// The same.
    pub redirgid: umad_gid,
}

/// A GID, also under an older name.
#[repr(C)]
#[derive(Clone, Copy)]
pub union umad_class_port_info_anon1 {
    /// Its bytes in network order.
    pub trap_gid: [u8; 16],
    /// The same.
    pub trapgid: umad_gid,
}

/// What an agent of a class can do, and where requests and traps go.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_class_port_info {
    /// 1.
    pub base_ver: u8,
    /// Version of the class.
    pub class_ver: u8,
    /// Capabilities.
    pub cap_mask: __be16,
    /// 27 bits of further capabilities and 5 of the response time.
    pub cap_mask2_resp_time: __be32,
    /// Where requests go instead.
    pub anon0: umad_class_port_info_anon0,
    /// Traffic class, service level and flow label there.
    pub redir_tc_sl_fl: __be32,
    /// Local identifier there.
    pub redir_lid: __be16,
    /// Partition key there.
    pub redir_pkey: __be16,
    /// Queue pair there.
    pub redir_qp: __be32,
    /// Q_Key there.
    pub redir_qkey: __be32,
    /// Where traps go.
    pub anon1: umad_class_port_info_anon1,
    /// Traffic class, service level and flow label there.
    pub trap_tc_sl_fl: __be32,
    /// Local identifier there.
    pub trap_lid: __be16,
    /// Partition key there.
    pub trap_pkey: __be16,
    /// Hop limit and queue pair there.
    pub trap_hl_qp: __be32,
    /// Q_Key there.
    pub trap_qkey: __be32,
}
