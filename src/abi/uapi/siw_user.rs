//! Queues and answers of the soft-iWARP driver.
//!
//! Source: linux-libc-dev, `rdma/siw-abi.h`. Sizes and offsets are those that a C compiler gave for that header
//! on a 64-bit machine; of a union the widest member stands here.

use super::layout;

pub const SIW_ABI_VERSION: u32 = 1;
pub const SIW_MAX_SGE: usize = 6;
pub const SIW_UOBJ_MAX_KEY: u64 = 0x08_FFFF;
pub const SIW_INVAL_UOBJ_KEY: u64 = SIW_UOBJ_MAX_KEY + 1;
/// Bytes that fit a send request in the place of all entries but the first.
pub const SIW_MAX_INLINE: usize = size_of::<siw_sge>() * (SIW_MAX_SGE - 1);

pub const SIW_OP_WRITE: u8 = 0;
pub const SIW_OP_READ: u8 = 1;
pub const SIW_OP_READ_LOCAL_INV: u8 = 2;
pub const SIW_OP_SEND: u8 = 3;
pub const SIW_OP_SEND_WITH_IMM: u8 = 4;
pub const SIW_OP_SEND_REMOTE_INV: u8 = 5;
pub const SIW_OP_FETCH_AND_ADD: u8 = 6;
pub const SIW_OP_COMP_AND_SWAP: u8 = 7;
pub const SIW_OP_RECEIVE: u8 = 8;
pub const SIW_NUM_OPCODES: usize = 12;

pub const SIW_WQE_VALID: u16 = 1;
pub const SIW_WQE_INLINE: u16 = 1 << 1;
pub const SIW_WQE_SIGNALLED: u16 = 1 << 2;
pub const SIW_WQE_SOLICITED: u16 = 1 << 3;
pub const SIW_WQE_READ_FENCE: u16 = 1 << 4;

pub const SIW_NOTIFY_NOT: u32 = 0;
pub const SIW_NOTIFY_SOLICITED: u32 = 1 << 0;
pub const SIW_NOTIFY_NEXT_COMPLETION: u32 = 1 << 1;

pub const SIW_WC_SUCCESS: u16 = 0;
pub const SIW_WC_LOC_LEN_ERR: u16 = 1;
pub const SIW_WC_LOC_PROT_ERR: u16 = 2;
pub const SIW_WC_LOC_QP_OP_ERR: u16 = 3;
pub const SIW_WC_WR_FLUSH_ERR: u16 = 4;
pub const SIW_WC_BAD_RESP_ERR: u16 = 5;
pub const SIW_WC_LOC_ACCESS_ERR: u16 = 6;
pub const SIW_WC_REM_ACCESS_ERR: u16 = 7;
pub const SIW_WC_REM_INV_REQ_ERR: u16 = 8;
pub const SIW_WC_GENERAL_ERR: u16 = 9;
pub const SIW_NUM_WC_STATUS: usize = 10;

layout! {
    /// Driver part of the answer of GET_CONTEXT.
    pub struct siw_uresp_alloc_ctx(8) {
        dev_id: u32 => 0,
        pad: u32 => 4,
    }

    /// Driver part of the answer of CREATE_CQ; the key is the place in the device file.
    pub struct siw_uresp_create_cq(16) {
        cq_id: u32 => 0,
        num_cqe: u32 => 4,
        cq_key: u64 => 8,
    }

    /// Driver part of the answer of CREATE_QP.
    pub struct siw_uresp_create_qp(32) {
        qp_id: u32 => 0,
        num_sqe: u32 => 4,
        num_rqe: u32 => 8,
        pad: u32 => 12,
        sq_key: u64 => 16,
        rq_key: u64 => 24,
    }

    /// Driver part of the answer of CREATE_SRQ.
    pub struct siw_uresp_create_srq(16) {
        num_rqe: u32 => 0,
        pad: u32 => 4,
        srq_key: u64 => 8,
    }

    /// Driver part of REG_MR.
    pub struct siw_ureq_reg_mr(8) {
        stag_key: u8 => 0,
        reserved: [u8; 3] => 1,
        pad: u32 => 4,
    }

    /// Driver part of the answer of REG_MR.
    pub struct siw_uresp_reg_mr(8) {
        stag: u32 => 0,
        pad: u32 => 4,
    }

    /// One scatter/gather entry.
    pub struct siw_sge(16) {
        laddr: u64 => 0,
        length: u32 => 8,
        lkey: u32 => 12,
    }

    /// Entry of a send queue. Inline bytes stand in the place of all scatter/gather entries but the first.
    pub struct siw_sqe(120) {
        id: u64 => 0,
        flags: u16 => 8,
        num_sge: u8 => 10,
        opcode: u8 => 11,
        rkey: u32 => 12,
        raddr: u64 => 16,
        sge: [siw_sge; SIW_MAX_SGE] => 24,
    }

    /// Entry of a receive queue.
    pub struct siw_rqe(112) {
        id: u64 => 0,
        flags: u16 => 8,
        num_sge: u8 => 10,
        opcode: u8 => 11,
        unused: u32 => 12,
        sge: [siw_sge; SIW_MAX_SGE] => 16,
    }

    /// Entry of a completion queue.
    pub struct siw_cqe(32) {
        id: u64 => 0,
        flags: u8 => 8,
        opcode: u8 => 9,
        status: u16 => 10,
        bytes: u32 => 12,
        imm_data: u64 => 16,
        qp_id: u64 => 24,
    }

    /// Behind the entries of a completion queue: which completion the program wants an event for.
    pub struct siw_cq_ctrl(8) {
        flags: u32 => 0,
        pad: u32 => 4,
    }
}
