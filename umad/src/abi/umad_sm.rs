//! The struct of umad_sm.h: subnet management packets.

use super::{__be16, __be32, __be64};

/// Bytes of the attribute in a subnet management packet.
pub const UMAD_LEN_SMP_DATA: usize = 64;
/// Places of a directed route.
pub const UMAD_SMP_MAX_HOPS: usize = 64;

/// A subnet management packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umad_smp {
    /// 1.
    pub base_version: u8,
    /// Management class: by local identifier or by directed route.
    pub mgmt_class: u8,
    /// Version of the management class.
    pub class_version: u8,
    /// Method.
    pub method: u8,
    /// Status; its highest bit is the direction of a directed route.
    pub status: __be16,
    /// Place on the route.
    pub hop_ptr: u8,
    /// Length of the route.
    pub hop_cnt: u8,
    /// Transaction.
    pub tid: __be64,
    /// Attribute.
    pub attr_id: __be16,
    /// Zero.
    pub resv: __be16,
    /// The attribute says what it is.
    pub attr_mod: __be32,
    /// Management key.
    pub mkey: __be64,
    /// Local identifier where the directed route begins.
    pub dr_slid: __be16,
    /// Local identifier where it ends.
    pub dr_dlid: __be16,
    /// Zero.
    pub reserved: [u8; 28],
    /// The attribute.
    pub data: [u8; UMAD_LEN_SMP_DATA],
    /// Ports of the way there.
    pub initial_path: [u8; UMAD_SMP_MAX_HOPS],
    /// Ports of the way back.
    pub return_path: [u8; UMAD_SMP_MAX_HOPS],
}
