//! What programs and providers share since rdma-core 59 to 65: hints for direct memory access, registrations
//! with all their options, counters of completions.

use core::ffi::{c_int, c_void};
use core::mem::size_of;

use crate::abi::verbs::ibv_context;

/// A handle of hints for direct memory access (rdma-core 59).
#[repr(C)]
pub struct ibv_dmah {
    /// Its context.
    pub context: *mut ibv_context,
}

/// The same with what the library itself remembers.
#[repr(C)]
pub struct verbs_dmah {
    /// What the program sees.
    pub dmah: ibv_dmah,
    /// The kernel's number.
    pub handle: u32,
}

/// Bit of [`ibv_dmah_init_attr::comp_mask`]: `cpu_id` is set.
pub const IBV_DMAH_INIT_ATTR_MASK_CPU_ID: u32 = 1 << 0;
/// Bit of [`ibv_dmah_init_attr::comp_mask`]: `ph` is set.
pub const IBV_DMAH_INIT_ATTR_MASK_PH: u32 = 1 << 1;
/// Bit of [`ibv_dmah_init_attr::comp_mask`]: `tph_mem_type` is set.
pub const IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE: u32 = 1 << 2;

/// What such a handle is made of (rdma-core 59).
#[repr(C)]
pub struct ibv_dmah_init_attr {
    /// `IBV_DMAH_INIT_ATTR_MASK_*`.
    pub comp_mask: u32,
    /// The processor whose cache is meant.
    pub cpu_id: u32,
    /// Processing hint.
    pub ph: u8,
    /// `enum ibv_tph_mem_type`.
    pub tph_mem_type: u8,
}

/// Bits of [`ibv_mr_init_attr::comp_mask`]: which of the fields are set.
pub mod mr_init_mask {
    /// `iova`.
    pub const IOVA: u64 = 1 << 0;
    /// `addr`.
    pub const ADDR: u64 = 1 << 1;
    /// `fd`.
    pub const FD: u64 = 1 << 2;
    /// `fd_offset`.
    pub const FD_OFFSET: u64 = 1 << 3;
    /// `dmah`.
    pub const DMAH: u64 = 1 << 4;
}

/// A registration with all its options (rdma-core 59); later releases have more fields behind these.
#[repr(C)]
pub struct ibv_mr_init_attr {
    /// Bytes.
    pub length: usize,
    /// `IBV_ACCESS_*`.
    pub access: c_int,
    /// [`mr_init_mask`].
    pub comp_mask: u64,
    /// Address by which peers name the first byte.
    pub iova: u64,
    /// First byte in the process.
    pub addr: *mut c_void,
    /// A dma-buf.
    pub fd: c_int,
    /// First byte in it.
    pub fd_offset: u64,
    /// Hints.
    pub dmah: *mut ibv_dmah,
}

/// A counter of completions (rdma-core 65).
#[repr(C)]
pub struct ibv_comp_cntr {
    /// Its context.
    pub context: *mut ibv_context,
    /// The kernel's number.
    pub handle: u32,
}

/// What such counters of a device can do (rdma-core 65).
#[repr(C)]
pub struct ibv_comp_cntr_caps {
    /// Highest value.
    pub max_value: u64,
    /// How many there may be.
    pub max_counters: u32,
    /// What a counter can count of a queue pair, as in [`ibv_qp_attach_comp_cntr_attr::op_mask`].
    pub supported_qp_attach_ops: u32,
}

/// The bits of [`ibv_qp_attach_comp_cntr_attr::op_mask`] that have a meaning; the kernel's are the same.
pub const QP_ATTACH_COMP_CNTR_OPS: u32 = 0x3f;

/// What such a counter counts of a queue pair (rdma-core 65).
#[repr(C)]
pub struct ibv_qp_attach_comp_cntr_attr {
    /// Which later fields are set.
    pub comp_mask: u32,
    /// `IBV_QP_ATTACH_COMP_CNTR_OP_*`.
    pub op_mask: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<verbs_dmah>() == 16);
    assert!(size_of::<ibv_dmah_init_attr>() == 12);
    assert!(size_of::<ibv_mr_init_attr>() == 64);
    assert!(size_of::<ibv_comp_cntr>() == 16);
    assert!(size_of::<ibv_comp_cntr_caps>() == 16);
};
