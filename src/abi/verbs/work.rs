//! Work requests, and the queue pair that builds them by function calls.

use super::address::ibv_ah;
use super::memory::{ibv_mw, ibv_mw_bind_info};
use super::queue::ibv_qp;
use super::scalars::{__be32, ibv_ops_wr_opcode_t, ibv_wr_opcode_t};
use libc::{c_int, c_uint, c_void};

/// Operation of a send request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wr_opcode {
    /// RDMA write.
    IBV_WR_RDMA_WRITE = 0,
    /// RDMA write with immediate data.
    IBV_WR_RDMA_WRITE_WITH_IMM = 1,
    /// Send.
    IBV_WR_SEND = 2,
    /// Send with immediate data.
    IBV_WR_SEND_WITH_IMM = 3,
    /// RDMA read.
    IBV_WR_RDMA_READ = 4,
    /// Compare and swap.
    IBV_WR_ATOMIC_CMP_AND_SWP = 5,
    /// Fetch and add.
    IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
    /// Local invalidate.
    IBV_WR_LOCAL_INV = 7,
    /// Memory window bind.
    IBV_WR_BIND_MW = 8,
    /// Send with invalidate.
    IBV_WR_SEND_WITH_INV = 9,
    /// Segmented send.
    IBV_WR_TSO = 10,
    /// Vendor operation.
    IBV_WR_DRIVER1 = 11,
    /// Flush.
    IBV_WR_FLUSH = 14,
    /// Atomic write.
    IBV_WR_ATOMIC_WRITE = 15,
}
pub use ibv_wr_opcode::*;

/// Options of a send request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_send_flags {
    /// Wait for earlier reads and atomics.
    IBV_SEND_FENCE = 1 << 0,
    /// Produce a completion.
    IBV_SEND_SIGNALED = 1 << 1,
    /// Raise an event at a receiver that waits for solicited completions.
    IBV_SEND_SOLICITED = 1 << 2,
    /// Copy the data into the request; buffers are free at once.
    IBV_SEND_INLINE = 1 << 3,
    /// Compute IP and transport checksums.
    IBV_SEND_IP_CSUM = 1 << 4,
}
pub use ibv_send_flags::*;

/// How far a flush makes data go.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_placement_type {
    /// Visible to everybody at the peer.
    IBV_FLUSH_GLOBAL = 1 << 0,
    /// On the peer's persistent memory.
    IBV_FLUSH_PERSISTENT = 1 << 1,
}
pub use ibv_placement_type::*;

/// What a flush covers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_selectivity_level {
    /// The range that the request names.
    IBV_FLUSH_RANGE = 0,
    /// The whole memory region.
    IBV_FLUSH_MR = 1,
}
pub use ibv_selectivity_level::*;

/// File descriptors.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_fd_arr {
    /// The first of them.
    pub arr: *mut c_int,
    /// How many there are.
    pub count: u32,
}

/// Operation on a tag matching list.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_ops_wr_opcode {
    /// Add a tag.
    IBV_WR_TAG_ADD = 0,
    /// Remove a tag.
    IBV_WR_TAG_DEL = 1,
    /// Synchronise the count of unexpected messages.
    IBV_WR_TAG_SYNC = 2,
}
pub use ibv_ops_wr_opcode::*;

/// Options of a list operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_ops_flags {
    /// Produce a completion.
    IBV_OPS_SIGNALED = 1 << 0,
    /// `unexpected_cnt` is valid.
    IBV_OPS_TM_SYNC = 1 << 1,
}
pub use ibv_ops_flags::*;

/// A piece of host memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_data_buf {
    /// Start.
    pub addr: *mut c_void,
    /// Length in bytes.
    pub length: usize,
}

/// Scatter-gather entry.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_sge {
    /// Start address.
    pub addr: u64,
    /// Length in bytes.
    pub length: u32,
    /// Key of the memory region.
    pub lkey: u32,
}

/// Immediate data or key; the opcode says which.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_anon1 {
    /// Immediate data, network byte order.
    pub imm_data: __be32,
    /// Key that the peer or the local device invalidates.
    pub invalidate_rkey: u32,
}

/// Target of RDMA read and write.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_wr_rdma {
    /// Peer's address.
    pub remote_addr: u64,
    /// Peer's key.
    pub rkey: u32,
}

/// Operands of an atomic.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_wr_atomic {
    /// Peer's address, a multiple of 8.
    pub remote_addr: u64,
    /// Value to compare with or to add.
    pub compare_add: u64,
    /// Value to store on a match.
    pub swap: u64,
    /// Peer's key.
    pub rkey: u32,
}

/// Destination of a datagram.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_wr_ud {
    /// Address handle.
    pub ah: *mut ibv_ah,
    /// Peer's queue pair number.
    pub remote_qpn: u32,
    /// Peer's Q_Key.
    pub remote_qkey: u32,
}

/// Part that depends on the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_wr {
    /// RDMA read and write.
    pub rdma: ibv_send_wr_wr_rdma,
    /// Atomics.
    pub atomic: ibv_send_wr_wr_atomic,
    /// Datagrams.
    pub ud: ibv_send_wr_wr_ud,
}

/// Extended reliable connection part.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_qp_type_xrc {
    /// Peer's shared receive queue number.
    pub remote_srqn: u32,
}

/// Part that depends on the service.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_qp_type {
    /// Extended reliable connection.
    pub xrc: ibv_send_wr_qp_type_xrc,
}

/// Memory window bind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_anon2_bind_mw {
    /// The window.
    pub mw: *mut ibv_mw,
    /// Its new key.
    pub rkey: u32,
    /// What it is bound to.
    pub bind_info: ibv_mw_bind_info,
}

/// Segmented send.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_anon2_tso {
    /// Header to repeat in front of each segment.
    pub hdr: *mut c_void,
    /// Length of the header in bytes.
    pub hdr_sz: u16,
    /// Payload bytes per segment.
    pub mss: u16,
}

/// Further part that depends on the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_anon2 {
    /// Memory window bind.
    pub bind_mw: ibv_send_wr_anon2_bind_mw,
    /// Segmented send.
    pub tso: ibv_send_wr_anon2_tso,
}

/// Send request; requests form a list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr {
    /// Identifier returned in the completion.
    pub wr_id: u64,
    /// Next request, or null.
    pub next: *mut ibv_send_wr,
    /// Local buffers.
    pub sg_list: *mut ibv_sge,
    /// Number of buffers.
    pub num_sge: c_int,
    /// Operation.
    pub opcode: ibv_wr_opcode_t,
    /// Bits of `ibv_send_flags`.
    pub send_flags: c_uint,
    /// Immediate data or key.
    pub anon1: ibv_send_wr_anon1,
    /// Part by operation.
    pub wr: ibv_send_wr_wr,
    /// Part by service.
    pub qp_type: ibv_send_wr_qp_type,
    /// Further part by operation.
    pub anon2: ibv_send_wr_anon2,
}

/// Receive request; requests form a list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_recv_wr {
    /// Identifier returned in the completion.
    pub wr_id: u64,
    /// Next request, or null.
    pub next: *mut ibv_recv_wr,
    /// Local buffers.
    pub sg_list: *mut ibv_sge,
    /// Number of buffers.
    pub num_sge: c_int,
}

/// Tag to add.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ops_wr_tm_add {
    /// Identifier returned when a message matches.
    pub recv_wr_id: u64,
    /// Buffers for the message.
    pub sg_list: *mut ibv_sge,
    /// Number of buffers.
    pub num_sge: c_int,
    /// Tag to match.
    pub tag: u64,
    /// Bits of the tag that count.
    pub mask: u64,
}

/// Tag matching operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ops_wr_tm {
    /// Unexpected messages that the program has seen.
    pub unexpected_cnt: u32,
    /// Handle of the tag: output of add, input of del.
    pub handle: u32,
    /// Tag to add.
    pub add: ibv_ops_wr_tm_add,
}

/// Operation on a shared receive queue's matching list; operations form a list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_ops_wr {
    /// Identifier returned in the completion.
    pub wr_id: u64,
    /// Next operation, or null.
    pub next: *mut ibv_ops_wr,
    /// Operation.
    pub opcode: ibv_ops_wr_opcode_t,
    /// Bits of `ibv_ops_flags`.
    pub flags: c_int,
    /// Operands.
    pub tm: ibv_ops_wr_tm,
}

/// Queue pair with functions that build send requests one by one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_ex {
    /// The queue pair.
    pub qp_base: ibv_qp,
    /// Reserved.
    pub comp_mask: u64,
    /// Identifier for the next request.
    pub wr_id: u64,
    /// Options for the next request, bits of `ibv_send_flags`.
    pub wr_flags: c_uint,
    /// Compare and swap.
    pub wr_atomic_cmp_swp: Option<
        unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, compare: u64, swap: u64),
    >,
    /// Fetch and add.
    pub wr_atomic_fetch_add:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, add: u64)>,
    /// Memory window bind.
    pub wr_bind_mw: Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp_ex,
            mw: *mut ibv_mw,
            rkey: u32,
            bind_info: *const ibv_mw_bind_info,
        ),
    >,
    /// Local invalidate.
    pub wr_local_inv: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, invalidate_rkey: u32)>,
    /// RDMA read.
    pub wr_rdma_read: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64)>,
    /// RDMA write.
    pub wr_rdma_write: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64)>,
    /// RDMA write with immediate data.
    pub wr_rdma_write_imm:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, imm_data: __be32)>,
    /// Send.
    pub wr_send: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex)>,
    /// Send with immediate data.
    pub wr_send_imm: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, imm_data: __be32)>,
    /// Send with invalidate.
    pub wr_send_inv: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, invalidate_rkey: u32)>,
    /// Segmented send.
    pub wr_send_tso:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, hdr: *mut c_void, hdr_sz: u16, mss: u16)>,
    /// Destination of the last datagram.
    pub wr_set_ud_addr:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32)>,
    /// Peer's shared receive queue for the last request.
    pub wr_set_xrc_srqn: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, remote_srqn: u32)>,
    /// Inline data of the last request.
    pub wr_set_inline_data:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize)>,
    /// Inline data from several pieces.
    pub wr_set_inline_data_list:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, num_buf: usize, buf_list: *const ibv_data_buf)>,
    /// Buffer of the last request.
    pub wr_set_sge: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32)>,
    /// Buffers of the last request.
    pub wr_set_sge_list:
        Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex, num_sge: usize, sg_list: *const ibv_sge)>,
    /// Begins a batch.
    pub wr_start: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex)>,
    /// Posts the batch; 0 or an errno value.
    pub wr_complete: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex) -> c_int>,
    /// Drops the batch.
    pub wr_abort: Option<unsafe extern "C" fn(qp: *mut ibv_qp_ex)>,
    /// Atomic write of 8 bytes.
    pub wr_atomic_write: Option<
        unsafe extern "C" fn(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, atomic_wr: *const c_void),
    >,
    /// Flush of `len` bytes, bits of `ibv_placement_type` and a value of `ibv_selectivity_level`.
    pub wr_flush: Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp_ex,
            rkey: u32,
            remote_addr: u64,
            len: usize,
            type_: u8,
            level: u8,
        ),
    >,
}
