//! Subnet administration records (sa.h) and the kernel form of a path record.

use super::verbs::ibv_gid;
use super::verbs::{__be16, __be32, __be64};
use libc::c_int;

/// Path record with unpacked fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_sa_path_rec {
    /// Destination GID.
    pub dgid: ibv_gid,
    /// Source GID.
    pub sgid: ibv_gid,
    /// Destination local identifier.
    pub dlid: __be16,
    /// Source local identifier.
    pub slid: __be16,
    /// Nonzero: raw packets are allowed.
    pub raw_traffic: c_int,
    /// Flow label.
    pub flow_label: __be32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Nonzero: the path works in both directions.
    pub reversible: c_int,
    /// Paths wanted or found.
    pub numb_path: u8,
    /// Partition key.
    pub pkey: __be16,
    /// Service level.
    pub sl: u8,
    /// How `mtu` compares: 0 greater, 1 less, 2 exact, 3 largest.
    pub mtu_selector: u8,
    /// A value of `ibv_mtu`.
    pub mtu: u8,
    /// How `rate` compares.
    pub rate_selector: u8,
    /// A value of `ibv_rate`.
    pub rate: u8,
    /// How `packet_life_time` compares.
    pub packet_life_time_selector: u8,
    /// 4.096 µs * 2^value.
    pub packet_life_time: u8,
    /// Lower numbers are preferred.
    pub preference: u8,
}

/// Multicast member record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_sa_mcmember_rec {
    /// Multicast GID.
    pub mgid: ibv_gid,
    /// Member port's GID.
    pub port_gid: ibv_gid,
    /// Q_Key.
    pub qkey: u32,
    /// Multicast local identifier.
    pub mlid: u16,
    /// How `mtu` compares.
    pub mtu_selector: u8,
    /// A value of `ibv_mtu`.
    pub mtu: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition key.
    pub pkey: u16,
    /// How `rate` compares.
    pub rate_selector: u8,
    /// A value of `ibv_rate`.
    pub rate: u8,
    /// How `packet_life_time` compares.
    pub packet_life_time_selector: u8,
    /// 4.096 µs * 2^value.
    pub packet_life_time: u8,
    /// Service level.
    pub sl: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Scope of the group.
    pub scope: u8,
    /// Membership bits: full, non-member, send-only.
    pub join_state: u8,
    /// Nonzero: joined on behalf of another port.
    pub proxy_join: c_int,
}

/// Service record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_sa_service_rec {
    /// Service identifier.
    pub id: u64,
    /// Port that offers it.
    pub gid: ibv_gid,
    /// Partition key.
    pub pkey: u16,
    /// Lease in seconds.
    pub lease: u32,
    /// Service key.
    pub key: [u8; 16],
    /// Service name.
    pub name: [u8; 64],
    /// Data as bytes.
    pub data8: [u8; 16],
    /// Data as 16-bit words.
    pub data16: [u16; 8],
    /// Data as 32-bit words.
    pub data32: [u32; 4],
    /// Data as 64-bit words.
    pub data64: [u64; 2],
}

/// Bit of `ibv_path_record::reversible_numpath`.
pub const IBV_PATH_RECORD_REVERSIBLE: c_int = 0x80;

/// Path for management datagrams.
pub const IBV_PATH_FLAG_GMP: c_int = 1 << 0;

/// Primary path.
pub const IBV_PATH_FLAG_PRIMARY: c_int = 1 << 1;

/// Alternate path.
pub const IBV_PATH_FLAG_ALTERNATE: c_int = 1 << 2;

/// From here to the peer.
pub const IBV_PATH_FLAG_OUTBOUND: c_int = 1 << 3;

/// From the peer to here.
pub const IBV_PATH_FLAG_INBOUND: c_int = 1 << 4;

/// From the peer to here, as the reverse of the outbound path.
pub const IBV_PATH_FLAG_INBOUND_REVERSE: c_int = 1 << 5;

/// OUTBOUND and INBOUND_REVERSE.
pub const IBV_PATH_FLAG_BIDIRECTIONAL: c_int = 40;

/// Path record as on the wire.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_path_record {
    /// Service identifier.
    pub service_id: __be64,
    /// Destination GID.
    pub dgid: ibv_gid,
    /// Source GID.
    pub sgid: ibv_gid,
    /// Destination local identifier.
    pub dlid: __be16,
    /// Source local identifier.
    pub slid: __be16,
    /// Bits 27:8 flow label, 7:0 hop limit.
    pub flowlabel_hoplimit: __be32,
    /// Traffic class.
    pub tclass: u8,
    /// Bit 7 reversible, 6:0 number of paths.
    pub reversible_numpath: u8,
    /// Partition key.
    pub pkey: __be16,
    /// Bits 15:4 quality of service class, 3:0 service level.
    pub qosclass_sl: __be16,
    /// Bits 7:6 selector, 5:0 value.
    pub mtu: u8,
    /// Bits 7:6 selector, 5:0 value.
    pub rate: u8,
    /// Bits 7:6 selector, 5:0 value.
    pub packetlifetime: u8,
    /// Lower numbers are preferred.
    pub preference: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

/// Path record with its role.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_path_data {
    /// `IBV_PATH_FLAG_*` bits.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// The record.
    pub path: ibv_path_record,
}
