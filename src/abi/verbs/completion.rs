//! Completion queues and work completions.

use super::context::ibv_context;
use super::memory::ibv_pd;
use super::scalars::{__be32, ibv_wc_opcode_t, ibv_wc_status_t};
use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t};

/// Result of a work request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wc_status {
    /// Done.
    IBV_WC_SUCCESS = 0,
    /// Local buffers are too short or the message too long.
    IBV_WC_LOC_LEN_ERR = 1,
    /// The request is inconsistent with the queue pair.
    IBV_WC_LOC_QP_OP_ERR = 2,
    /// The request is inconsistent with the end-to-end context.
    IBV_WC_LOC_EEC_OP_ERR = 3,
    /// A local key, range or right is wrong.
    IBV_WC_LOC_PROT_ERR = 4,
    /// The queue pair went to the error state first.
    IBV_WC_WR_FLUSH_ERR = 5,
    /// Binding a memory window failed.
    IBV_WC_MW_BIND_ERR = 6,
    /// The responder answered with an unexpected opcode.
    IBV_WC_BAD_RESP_ERR = 7,
    /// Writing to a local buffer failed while receiving.
    IBV_WC_LOC_ACCESS_ERR = 8,
    /// The responder found the request invalid.
    IBV_WC_REM_INV_REQ_ERR = 9,
    /// The responder refused access to its memory.
    IBV_WC_REM_ACCESS_ERR = 10,
    /// The responder failed to carry the request out.
    IBV_WC_REM_OP_ERR = 11,
    /// No acknowledgement after all retries.
    IBV_WC_RETRY_EXC_ERR = 12,
    /// The receiver was never ready.
    IBV_WC_RNR_RETRY_EXC_ERR = 13,
    /// Reliable datagram domain mismatch.
    IBV_WC_LOC_RDD_VIOL_ERR = 14,
    /// The responder found a reliable datagram request invalid.
    IBV_WC_REM_INV_RD_REQ_ERR = 15,
    /// The responder aborted.
    IBV_WC_REM_ABORT_ERR = 16,
    /// Invalid end-to-end context number.
    IBV_WC_INV_EECN_ERR = 17,
    /// Invalid state of the end-to-end context.
    IBV_WC_INV_EEC_STATE_ERR = 18,
    /// Fatal error of the device.
    IBV_WC_FATAL_ERR = 19,
    /// The response took too long.
    IBV_WC_RESP_TIMEOUT_ERR = 20,
    /// Any other error.
    IBV_WC_GENERAL_ERR = 21,
    /// Tag matching failed.
    IBV_WC_TM_ERR = 22,
    /// Software must finish a rendezvous transfer.
    IBV_WC_TM_RNDV_INCOMPLETE = 23,
}
pub use ibv_wc_status::*;

/// Operation that completed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wc_opcode {
    /// Send.
    IBV_WC_SEND = 0,
    /// RDMA write.
    IBV_WC_RDMA_WRITE = 1,
    /// RDMA read.
    IBV_WC_RDMA_READ = 2,
    /// Compare and swap.
    IBV_WC_COMP_SWAP = 3,
    /// Fetch and add.
    IBV_WC_FETCH_ADD = 4,
    /// Memory window bind.
    IBV_WC_BIND_MW = 5,
    /// Local invalidate.
    IBV_WC_LOCAL_INV = 6,
    /// Segmented send.
    IBV_WC_TSO = 7,
    /// Flush.
    IBV_WC_FLUSH = 8,
    /// Atomic write.
    IBV_WC_ATOMIC_WRITE = 9,
    /// Receive. Every receive-side opcode has this bit, no other has.
    IBV_WC_RECV = 1 << 7,
    /// Receive consumed by an RDMA write with immediate data.
    IBV_WC_RECV_RDMA_WITH_IMM = 129,
    /// Tag added to the matching list.
    IBV_WC_TM_ADD = 130,
    /// Tag removed from the matching list.
    IBV_WC_TM_DEL = 131,
    /// Matching list synchronised.
    IBV_WC_TM_SYNC = 132,
    /// Tagged message received.
    IBV_WC_TM_RECV = 133,
    /// Message without a tag received.
    IBV_WC_TM_NO_TAG = 134,
    /// Vendor operation.
    IBV_WC_DRIVER1 = 135,
    /// Vendor operation.
    IBV_WC_DRIVER2 = 136,
    /// Vendor operation.
    IBV_WC_DRIVER3 = 137,
}
pub use ibv_wc_opcode::*;

/// Position of the checksum bit in `ibv_wc_flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wc_consts_anon1 {
    /// Shift count of `IBV_WC_IP_CSUM_OK`.
    IBV_WC_IP_CSUM_OK_SHIFT = 2,
}
pub use ibv_wc_consts_anon1::*;

/// Completion fields that an extended completion queue shall offer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_create_cq_wc_flags {
    /// Length.
    IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
    /// Immediate data.
    IBV_WC_EX_WITH_IMM = 1 << 1,
    /// Local queue pair number.
    IBV_WC_EX_WITH_QP_NUM = 1 << 2,
    /// Sender's queue pair number.
    IBV_WC_EX_WITH_SRC_QP = 1 << 3,
    /// Sender's local identifier.
    IBV_WC_EX_WITH_SLID = 1 << 4,
    /// Service level.
    IBV_WC_EX_WITH_SL = 1 << 5,
    /// Destination path bits.
    IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
    /// Timestamp in device clock ticks.
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
    /// Customer VLAN tag.
    IBV_WC_EX_WITH_CVLAN = 1 << 8,
    /// Tag of the flow rule.
    IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
    /// Tag matching information.
    IBV_WC_EX_WITH_TM_INFO = 1 << 10,
    /// Timestamp in nanoseconds of the real-time clock.
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
}
pub use ibv_create_cq_wc_flags::*;

/// Fields that a plain `ibv_wc` has.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wc_consts_anon2 {
    /// Mask of the `IBV_WC_EX_WITH_*` bits from BYTE_LEN to DLID_PATH_BITS.
    IBV_WC_STANDARD_FLAGS = 0x7f,
}
pub use ibv_wc_consts_anon2::*;

/// Fields that extended completion queues know.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wc_consts_anon3 {
    /// Mask of all `IBV_WC_EX_WITH_*` bits.
    IBV_CREATE_CQ_SUP_WC_FLAGS = 0xfff,
}
pub use ibv_wc_consts_anon3::*;

/// Bits of `ibv_wc::wc_flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wc_flags {
    /// A global routing header precedes the data.
    IBV_WC_GRH = 1 << 0,
    /// Immediate data is valid.
    IBV_WC_WITH_IMM = 1 << 1,
    /// IP and transport checksums were verified.
    IBV_WC_IP_CSUM_OK = 1 << 2,
    /// A key was invalidated.
    IBV_WC_WITH_INV = 1 << 3,
    /// The matching list needs synchronising.
    IBV_WC_TM_SYNC_REQ = 1 << 4,
    /// The message matched a tag.
    IBV_WC_TM_MATCH = 1 << 5,
    /// The message's data is in the buffer.
    IBV_WC_TM_DATA_VALID = 1 << 6,
}
pub use ibv_wc_flags::*;

/// Valid fields of `ibv_modify_cq_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_cq_attr_mask {
    /// `moderate`.
    IBV_CQ_ATTR_MODERATE = 1 << 0,
    /// First bit without a meaning.
    IBV_CQ_ATTR_RESERVED = 1 << 1,
}
pub use ibv_cq_attr_mask::*;

/// Valid fields of `ibv_cq_init_attr_ex`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_cq_init_attr_mask {
    /// `flags`.
    IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
    /// `parent_domain`.
    IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
}
pub use ibv_cq_init_attr_mask::*;

/// Bits of `ibv_cq_init_attr_ex::flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_create_cq_attr_flags {
    /// One thread at a time uses the queue; no lock is needed.
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0,
    /// The queue cannot overrun; the device need not check.
    IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,
}
pub use ibv_create_cq_attr_flags::*;

/// Immediate data or invalidated key; `wc_flags` says which.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_wc_anon1 {
    /// Immediate data, network byte order.
    pub imm_data: __be32,
    /// The key that the peer invalidated.
    pub invalidated_rkey: u32,
}

/// Work completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_wc {
    /// The request's identifier.
    pub wr_id: u64,
    /// Result. Unless it is success, only `wr_id`, `status`, `qp_num` and `vendor_err` are valid.
    pub status: ibv_wc_status_t,
    /// Operation.
    pub opcode: ibv_wc_opcode_t,
    /// Vendor's error code.
    pub vendor_err: u32,
    /// Bytes transferred.
    pub byte_len: u32,
    /// Immediate data or key.
    pub anon1: ibv_wc_anon1,
    /// Local queue pair number.
    pub qp_num: u32,
    /// Sender's queue pair number (datagrams).
    pub src_qp: u32,
    /// Bits of `ibv_wc_flags`.
    pub wc_flags: c_uint,
    /// Partition key index (queue pair 1).
    pub pkey_index: u16,
    /// Sender's local identifier (datagrams).
    pub slid: u16,
    /// Service level (datagrams).
    pub sl: u8,
    /// Destination path bits (datagrams).
    pub dlid_path_bits: u8,
}

/// Completion event channel.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_comp_channel {
    /// Device context.
    pub context: *mut ibv_context,
    /// File descriptor that becomes readable with an event.
    pub fd: c_int,
    /// Completion queues attached.
    pub refcnt: c_int,
}

/// Completion queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_cq {
    /// Device context.
    pub context: *mut ibv_context,
    /// Event channel, or null.
    pub channel: *mut ibv_comp_channel,
    /// The program's pointer.
    pub cq_context: *mut c_void,
    /// Kernel handle.
    pub handle: u32,
    /// Entries.
    pub cqe: c_int,
    /// Guards the event counters.
    pub mutex: pthread_mutex_t,
    /// Signalled when events are acknowledged.
    pub cond: pthread_cond_t,
    /// Completion events acknowledged.
    pub comp_events_completed: u32,
    /// Asynchronous events acknowledged.
    pub async_events_completed: u32,
}

/// Attributes of `ibv_start_poll`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_poll_cq_attr {
    /// Must be 0.
    pub comp_mask: u32,
}

/// Tag matching part of a completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_wc_tm_info {
    /// Tag of the message.
    pub tag: u64,
    /// The sender's opaque data.
    pub priv_: u32,
}

/// Extended completion queue. Its first part equals `ibv_cq`; the functions read the current completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_cq_ex {
    /// Device context.
    pub context: *mut ibv_context,
    /// Event channel, or null.
    pub channel: *mut ibv_comp_channel,
    /// The program's pointer.
    pub cq_context: *mut c_void,
    /// Kernel handle.
    pub handle: u32,
    /// Entries.
    pub cqe: c_int,
    /// Guards the event counters.
    pub mutex: pthread_mutex_t,
    /// Signalled when events are acknowledged.
    pub cond: pthread_cond_t,
    /// Completion events acknowledged.
    pub comp_events_completed: u32,
    /// Asynchronous events acknowledged.
    pub async_events_completed: u32,
    /// Reserved.
    pub comp_mask: u32,
    /// Result of the current completion.
    pub status: ibv_wc_status_t,
    /// Identifier of the current completion.
    pub wr_id: u64,
    /// Takes the first completion; 0, ENOENT when empty, or an errno value.
    pub start_poll:
        Option<unsafe extern "C" fn(current: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int>,
    /// Takes the next completion; same results.
    pub next_poll: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> c_int>,
    /// Ends a batch that `start_poll` began with success.
    pub end_poll: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex)>,
    /// Operation.
    pub read_opcode: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> ibv_wc_opcode_t>,
    /// Vendor's error code.
    pub read_vendor_err: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    /// Bytes transferred.
    pub read_byte_len: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    /// Immediate data or invalidated key.
    pub read_imm_data: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> __be32>,
    /// Local queue pair number.
    pub read_qp_num: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    /// Sender's queue pair number.
    pub read_src_qp: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    /// Bits of `ibv_wc_flags`.
    pub read_wc_flags: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> c_uint>,
    /// Sender's local identifier.
    pub read_slid: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    /// Service level.
    pub read_sl: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u8>,
    /// Destination path bits.
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u8>,
    /// Timestamp in device clock ticks.
    pub read_completion_ts: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u64>,
    /// Customer VLAN tag.
    pub read_cvlan: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u16>,
    /// Tag of the flow rule.
    pub read_flow_tag: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u32>,
    /// Tag matching information.
    pub read_tm_info: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex, tm_info: *mut ibv_wc_tm_info)>,
    /// Timestamp in nanoseconds of the real-time clock.
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(current: *mut ibv_cq_ex) -> u64>,
}

/// Completion moderation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_moderate_cq {
    /// Completions per event.
    pub cq_count: u16,
    /// Longest wait in microseconds.
    pub cq_period: u16,
}

/// Attributes of `ibv_modify_cq`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_modify_cq_attr {
    /// Bits of `ibv_cq_attr_mask`.
    pub attr_mask: u32,
    /// Moderation.
    pub moderate: ibv_moderate_cq,
}

/// Attributes of an extended completion queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_cq_init_attr_ex {
    /// Entries needed at least.
    pub cqe: u32,
    /// The program's pointer.
    pub cq_context: *mut c_void,
    /// Event channel, or null.
    pub channel: *mut ibv_comp_channel,
    /// Completion vector, below `num_comp_vectors` of the context.
    pub comp_vector: u32,
    /// Bits of `ibv_create_cq_wc_flags`.
    pub wc_flags: u64,
    /// Bits of `ibv_cq_init_attr_mask`.
    pub comp_mask: u32,
    /// Bits of `ibv_create_cq_attr_flags`.
    pub flags: u32,
    /// Parent domain, or null.
    pub parent_domain: *mut ibv_pd,
}
