//! What providers and the library share since rdma-core 59 to 65, besides the public types: the library's part
//! of hints for direct memory access, and bits by the names that commands have for them.

use core::mem::size_of;

use crate::abi::verbs::*;

/// Hints for direct memory access, with what the library itself remembers.
#[repr(C)]
pub struct verbs_dmah {
    /// What the program sees.
    pub dmah: ibv_dmah,
    /// The kernel's number.
    pub handle: u32,
}

/// Bits of [`ibv_mr_init_attr::comp_mask`]: which of the fields are set.
pub mod mr_init_mask {
    use super::*;

    /// `iova`.
    pub const IOVA: u64 = IBV_REG_MR_MASK_IOVA as u64;
    /// `addr`.
    pub const ADDR: u64 = IBV_REG_MR_MASK_ADDR as u64;
    /// `fd`.
    pub const FD: u64 = IBV_REG_MR_MASK_FD as u64;
    /// `fd_offset`.
    pub const FD_OFFSET: u64 = IBV_REG_MR_MASK_FD_OFFSET as u64;
    /// `dmah`.
    pub const DMAH: u64 = IBV_REG_MR_MASK_DMAH as u64;
    /// `buf`.
    pub const BUF: u64 = IBV_REG_MR_MASK_BUF as u64;
}

/// The bits of [`ibv_qp_attach_comp_cntr_attr::op_mask`] that have a meaning; the kernel's are the same.
pub const QP_ATTACH_COMP_CNTR_OPS: u32 = 0x3f;

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<verbs_dmah>() == 16);
