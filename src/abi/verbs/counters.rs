//! Flow counters, clock values and connection enhancements.

use super::context::ibv_context;
use super::scalars::{ibv_comp_cntr_type_t, ibv_counter_description_t};
use libc::timespec;

/// What a counter counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_counter_description {
    /// Packets.
    IBV_COUNTER_PACKETS = 0,
    /// Bytes.
    IBV_COUNTER_BYTES = 1,
}
pub use ibv_counter_description::*;

/// Flags of `ibv_read_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_read_counters_flags {
    /// Values cached by the driver are good enough.
    IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0,
}
pub use ibv_read_counters_flags::*;

/// Values to ask `ibv_query_rt_values_ex` for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_values_mask {
    /// The device's clock.
    IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
    /// First bit without a meaning.
    IBV_VALUES_MASK_RESERVED = 1 << 1,
}
pub use ibv_values_mask::*;

/// Attributes of a new counters object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_counters_init_attr {
    /// Must be 0.
    pub comp_mask: u32,
}

/// A set of counters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_counters {
    /// Device context.
    pub context: *mut ibv_context,
}

/// Where a counter goes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_counter_attach_attr {
    /// What to count.
    pub counter_desc: ibv_counter_description_t,
    /// Position in the array that `ibv_read_counters` fills.
    pub index: u32,
    /// Must be 0.
    pub comp_mask: u32,
}

/// Operations of a queue pair that a completion counter can count.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_attach_comp_cntr_op {
    /// Sends.
    IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,
    /// Receives.
    IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,
    /// RDMA reads.
    IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,
    /// RDMA reads by the peer.
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,
    /// RDMA writes.
    IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,
    /// RDMA writes by the peer.
    IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5,
}
pub use ibv_qp_attach_comp_cntr_op::*;

/// What a completion counter counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_comp_cntr_type {
    /// Work requests.
    IBV_COMP_CNTR_TYPE_WRS = 0,
    /// Bytes.
    IBV_COMP_CNTR_TYPE_BYTES = 1,
}
pub use ibv_comp_cntr_type::*;

/// What a device's completion counters can do.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_comp_cntr_caps {
    /// Highest value of a counter.
    pub max_value: u64,
    /// Number of counters.
    pub max_counters: u32,
    /// Bits of `ibv_qp_attach_comp_cntr_op`.
    pub supported_qp_attach_ops: u32,
}

/// Counts the completed operations of the queue pairs that it is attached to, and those that failed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_comp_cntr {
    /// Device context.
    pub context: *mut ibv_context,
    /// Kernel handle.
    pub handle: u32,
}

/// Attributes of a new completion counter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_comp_cntr_init_attr {
    /// Must be 0.
    pub comp_mask: u32,
    /// What it counts.
    pub type_: ibv_comp_cntr_type_t,
    /// Must be 0.
    pub flags: u32,
}

/// How a completion counter is attached to a queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_attach_comp_cntr_attr {
    /// Must be 0.
    pub comp_mask: u32,
    /// Bits of `ibv_qp_attach_comp_cntr_op`.
    pub op_mask: u32,
}

/// Real-time values of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_values_ex {
    /// Bits of `ibv_values_mask`: asked for on input, answered on output.
    pub comp_mask: u32,
    /// Device clock; its ticks are in `tv_nsec`.
    pub raw_clock: timespec,
}

/// Enhanced connection establishment options.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ece {
    /// IEEE identifier of the vendor that gives `options` their meaning.
    pub vendor_id: u32,
    /// The vendor's option bits.
    pub options: u32,
    /// Must be 0.
    pub comp_mask: u32,
}
