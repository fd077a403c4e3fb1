//! Verbs objects with what the library remembers of them behind the public struct.

use core::ffi::c_uint;
#[cfg(target_arch = "x86_64")]
use core::mem::{offset_of, size_of};

use crate::abi::verbs::*;

/// What kind of memory a region stands for (`enum ibv_mr_type`).
pub mod mr_type {
    /// Ordinary memory of the process.
    pub const MR: u32 = 0;
    /// The region that answers reads with zeros and drops writes.
    pub const NULL_MR: u32 = 1;
    /// A region imported from another process.
    pub const IMPORTED_MR: u32 = 2;
    /// A dma-buf.
    pub const DMABUF_MR: u32 = 3;
}

/// Bit of `verbs_qp.comp_mask`: `xrcd` is set.
pub const VERBS_QP_XRCD: u32 = 1 << 0;
/// Bit of `verbs_qp.comp_mask`: the queue pair has the `ibv_wr_*` functions.
pub const VERBS_QP_EX: u32 = 1 << 1;
/// Bit of `verbs_xrcd.comp_mask`: `handle` is set.
pub const VERBS_XRCD_HANDLE: u32 = 1 << 0;
/// Flag of `ibv_cmd_create_cq_ex`: the provider ignores a request for timestamps, so the kernel need not know
/// of it.
pub const CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX: u32 = 1 << 0;
/// Flag of `ibv_cmd_create_cq_ex`: the provider brings memory of the process for the entries.
pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_VA: u32 = 1 << 1;
/// Flag of `ibv_cmd_create_cq_ex`: the provider brings a dma-buf for the entries.
pub const CREATE_CQ_CMD_FLAGS_WITH_MEM_DMABUF: u32 = 1 << 2;

/// A memory region with what the library itself remembers of it.
#[repr(C)]
pub struct verbs_mr {
    /// What the program sees.
    pub ibv_mr: ibv_mr,
    /// One of [`mr_type`].
    pub mr_type: c_uint,
    /// The rights (`IBV_ACCESS_*`) given at registration.
    pub access: c_uint,
}

/// An XRC domain.
#[repr(C)]
pub struct verbs_xrcd {
    /// What the program sees.
    pub xrcd: ibv_xrcd,
    /// [`VERBS_XRCD_HANDLE`].
    pub comp_mask: u32,
    /// The kernel's number.
    pub handle: u32,
}

/// A shared receive queue.
#[repr(C)]
pub struct verbs_srq {
    /// What the program sees.
    pub srq: ibv_srq,
    /// `enum ibv_srq_type`.
    pub srq_type: ibv_srq_type_t,
    /// For the XRC type.
    pub xrcd: *mut verbs_xrcd,
    /// For the types that complete receives themselves.
    pub cq: *mut ibv_cq,
    /// What peers of an XRC queue name it by.
    pub srq_num: u32,
}

/// A completion queue in either form.
#[repr(C)]
pub union verbs_cq {
    /// As made by `ibv_create_cq`.
    pub cq: ibv_cq,
    /// As made by `ibv_create_cq_ex`.
    pub cq_ex: ibv_cq_ex,
}

/// Device memory.
#[repr(C)]
pub struct verbs_dm {
    /// What the program sees.
    pub dm: ibv_dm,
    /// The kernel's number.
    pub handle: u32,
}

/// A set of counters.
#[repr(C)]
pub struct verbs_counters {
    /// What the program sees.
    pub counters: ibv_counters,
    /// The kernel's number.
    pub handle: u32,
}

/// A flow action.
#[repr(C)]
pub struct verbs_flow_action {
    /// What the program sees.
    pub action: ibv_flow_action,
    /// The kernel's number.
    pub handle: u32,
    /// 1 for ESP (`enum ibv_flow_action_type`).
    pub type_: c_uint,
}

#[cfg(target_arch = "x86_64")]
const _: () = {
    assert!(size_of::<verbs_mr>() == 56);
    assert!(offset_of!(verbs_mr, mr_type) == 48);
    assert!(offset_of!(verbs_mr, access) == 52);
    assert!(size_of::<verbs_xrcd>() == 16);
    assert!(size_of::<verbs_srq>() == 160);
    assert!(offset_of!(verbs_srq, srq_type) == 128);
    assert!(offset_of!(verbs_srq, srq_num) == 152);
    assert!(size_of::<verbs_cq>() == 288);
    assert!(size_of::<verbs_dm>() == 40);
    assert!(offset_of!(verbs_dm, handle) == 32);
    assert!(size_of::<verbs_counters>() == 16);
    assert!(size_of::<verbs_flow_action>() == 16);
};
