//! Layouts of the private provider ABI that have been the same since rdma-core 25 and that our own providers share.

use core::ffi::c_uint;
use core::mem::{offset_of, size_of};

use super::verbs::ibv_mr;

/// What kind of memory a region stands for (`enum ibv_mr_type` of rdma-core's `driver.h`).
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

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<verbs_mr>() == 56);
    assert!(offset_of!(verbs_mr, mr_type) == 48);
    assert!(offset_of!(verbs_mr, access) == 52);
};
