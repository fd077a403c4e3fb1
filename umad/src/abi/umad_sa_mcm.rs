//! The struct of umad_sa_mcm.h: members of multicast groups.

use super::{__be16, __be32};

/// Member record of a multicast group.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_sa_mcmember_record {
    /// GID of the group, in network byte order.
    pub mgid: [u8; 16],
    /// GID of the port, in network byte order.
    pub portgid: [u8; 16],
    /// Q_Key.
    pub qkey: __be32,
    /// Local identifier of the group.
    pub mlid: __be16,
    /// MTU, its two highest bits how it compares.
    pub mtu: u8,
    /// Traffic class.
    pub tclass: u8,
    /// Partition key.
    pub pkey: __be16,
    /// Rate, its two highest bits how it compares.
    pub rate: u8,
    /// Packet lifetime, its two highest bits how it compares.
    pub pkt_life: u8,
    /// 4 bits service level, 20 bits flow label, 8 bits hop limit.
    pub sl_flow_hop: __be32,
    /// 4 bits scope, 4 bits join state.
    pub scope_state: u8,
    /// The highest bit: the port was joined by another one.
    pub proxy_join: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// Fills the record up to a multiple of 8 bytes.
    pub pad: [u8; 4],
}
