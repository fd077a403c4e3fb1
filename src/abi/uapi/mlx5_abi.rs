//! What libmlx5 and its driver tell each other when queues are made and resized.
//!
//! Source: linux-libc-dev, `rdma/mlx5-abi.h`. Sizes and offsets are those that a C compiler gave for that
//! header on a 64-bit machine. Newer headers add fields behind these.

use super::layout;

/// `mlx5_ib_create_qp.flags`: requests carry a signature.
pub const MLX5_QP_FLAG_SIGNATURE: u32 = 1 << 0;

layout! {
    /// Driver part of CREATE_CQ.
    pub struct mlx5_ib_create_cq(32) {
        buf_addr: u64 => 0,
        db_addr: u64 => 8,
        cqe_size: u32 => 16,
        cqe_comp_en: u8 => 20,
        cqe_comp_res_format: u8 => 21,
        flags: u16 => 22,
        uar_page_index: u16 => 24,
        reserved0: u16 => 26,
        reserved1: u32 => 28,
    }

    /// Driver part of RESIZE_CQ.
    pub struct mlx5_ib_resize_cq(16) {
        buf_addr: u64 => 0,
        cqe_size: u16 => 8,
        reserved0: u16 => 10,
        reserved1: u32 => 12,
    }

    /// Driver part of CREATE_QP, but for those that spread packets over work queues; the start of it, as it
    /// was before it had options for ECE.
    pub struct mlx5_ib_create_qp(48) {
        buf_addr: u64 => 0,
        db_addr: u64 => 8,
        sq_wqe_count: u32 => 16,
        rq_wqe_count: u32 => 20,
        rq_wqe_shift: u32 => 24,
        flags: u32 => 28,
        uidx: u32 => 32,
        bfreg_index: u32 => 36,
        sq_buf_addr: u64 => 40,
    }

    /// Driver part of CREATE_SRQ.
    pub struct mlx5_ib_create_srq(32) {
        buf_addr: u64 => 0,
        db_addr: u64 => 8,
        flags: u32 => 16,
        reserved0: u32 => 20,
        uidx: u32 => 24,
        reserved1: u32 => 28,
    }

    /// Driver part of CREATE_WQ.
    pub struct mlx5_ib_create_wq(48) {
        buf_addr: u64 => 0,
        db_addr: u64 => 8,
        rq_wqe_count: u32 => 16,
        rq_wqe_shift: u32 => 20,
        user_index: u32 => 24,
        flags: u32 => 28,
        comp_mask: u32 => 32,
        single_stride_log_num_of_bytes: u32 => 36,
        single_wqe_log_num_of_strides: u32 => 40,
        two_byte_shift_en: u32 => 44,
    }
}
