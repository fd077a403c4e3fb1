//! Addresses: routes, headers, address handles and static rates.

use super::context::ibv_context;
use super::device::ibv_gid;
use super::memory::ibv_pd;
use super::scalars::{__be16, __be32};

/// Global routing part of an address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_global_route {
    /// Destination GID, or the multicast GID.
    pub dgid: ibv_gid,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Index of the source GID in the port's table.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
}

/// Global routing header as it arrives in front of a datagram.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_grh {
    /// IP version, traffic class, flow label.
    pub version_tclass_flow: __be32,
    /// Payload length in bytes.
    pub paylen: __be16,
    /// Next header.
    pub next_hdr: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub sgid: ibv_gid,
    /// Destination GID.
    pub dgid: ibv_gid,
}

/// Address vector.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ah_attr {
    /// Global route, valid when `is_global` is set.
    pub grh: ibv_global_route,
    /// Destination local identifier.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// Source path bits, added to the port's base identifier.
    pub src_path_bits: u8,
    /// A value of `ibv_rate`.
    pub static_rate: u8,
    /// Whether `grh` is valid.
    pub is_global: u8,
    /// Local port, counted from 1.
    pub port_num: u8,
}

/// Address handle.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ah {
    /// Device context.
    pub context: *mut ibv_context,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// Kernel handle.
    pub handle: u32,
}

/// Static rate limit.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_rate {
    /// Rate of the port.
    IBV_RATE_MAX = 0,
    /// 2.5 Gbit/s.
    IBV_RATE_2_5_GBPS = 2,
    /// 5 Gbit/s.
    IBV_RATE_5_GBPS = 5,
    /// 10 Gbit/s.
    IBV_RATE_10_GBPS = 3,
    /// 20 Gbit/s.
    IBV_RATE_20_GBPS = 6,
    /// 30 Gbit/s.
    IBV_RATE_30_GBPS = 4,
    /// 40 Gbit/s.
    IBV_RATE_40_GBPS = 7,
    /// 60 Gbit/s.
    IBV_RATE_60_GBPS = 8,
    /// 80 Gbit/s.
    IBV_RATE_80_GBPS = 9,
    /// 120 Gbit/s.
    IBV_RATE_120_GBPS = 10,
    /// 14 Gbit/s.
    IBV_RATE_14_GBPS = 11,
    /// 56 Gbit/s.
    IBV_RATE_56_GBPS = 12,
    /// 112 Gbit/s.
    IBV_RATE_112_GBPS = 13,
    /// 168 Gbit/s.
    IBV_RATE_168_GBPS = 14,
    /// 25 Gbit/s.
    IBV_RATE_25_GBPS = 15,
    /// 100 Gbit/s.
    IBV_RATE_100_GBPS = 16,
    /// 200 Gbit/s.
    IBV_RATE_200_GBPS = 17,
    /// 300 Gbit/s.
    IBV_RATE_300_GBPS = 18,
    /// 28 Gbit/s.
    IBV_RATE_28_GBPS = 19,
    /// 50 Gbit/s.
    IBV_RATE_50_GBPS = 20,
    /// 400 Gbit/s.
    IBV_RATE_400_GBPS = 21,
    /// 600 Gbit/s.
    IBV_RATE_600_GBPS = 22,
    /// 800 Gbit/s.
    IBV_RATE_800_GBPS = 23,
    /// 1200 Gbit/s.
    IBV_RATE_1200_GBPS = 24,
}
pub use ibv_rate::*;
