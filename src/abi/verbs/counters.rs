//! Flow counters, clock values and connection enhancements.

use super::context::ibv_context;
use super::scalars::ibv_counter_description_t;
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
