//! Queue pairs, shared receive queues and work queues.

use super::address::ibv_ah_attr;
use super::completion::ibv_cq;
use super::context::ibv_context;
use super::memory::{ibv_pd, ibv_xrcd};
use super::scalars::{
    ibv_mig_state_t, ibv_mtu_t, ibv_qp_state_t, ibv_qp_type_t, ibv_srq_type_t, ibv_wq_state_t, ibv_wq_type_t,
};
use super::work::ibv_recv_wr;
use libc::{c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t};

/// Service of a queue pair.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_type {
    /// Reliable connection.
    IBV_QPT_RC = 2,
    /// Unreliable connection.
    IBV_QPT_UC = 3,
    /// Unreliable datagram.
    IBV_QPT_UD = 4,
    /// Raw Ethernet packets.
    IBV_QPT_RAW_PACKET = 8,
    /// Initiator of an extended reliable connection.
    IBV_QPT_XRC_SEND = 9,
    /// Target of an extended reliable connection.
    IBV_QPT_XRC_RECV = 10,
    /// Defined by the vendor.
    IBV_QPT_DRIVER = 0xff,
}
pub use ibv_qp_type::*;

/// State of a queue pair.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_state {
    /// Created, not usable.
    IBV_QPS_RESET = 0,
    /// Receives may be posted.
    IBV_QPS_INIT = 1,
    /// Ready to receive.
    IBV_QPS_RTR = 2,
    /// Ready to send.
    IBV_QPS_RTS = 3,
    /// Send queue drains.
    IBV_QPS_SQD = 4,
    /// Send queue failed (not for reliable connections).
    IBV_QPS_SQE = 5,
    /// Error; outstanding requests are flushed.
    IBV_QPS_ERR = 6,
    /// Not known.
    IBV_QPS_UNKNOWN = 7,
}
pub use ibv_qp_state::*;

/// Path migration state.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_mig_state {
    /// Primary path in use, none loaded.
    IBV_MIG_MIGRATED = 0,
    /// Rearming.
    IBV_MIG_REARM = 1,
    /// Alternate path ready.
    IBV_MIG_ARMED = 2,
}
pub use ibv_mig_state::*;

/// Valid fields of `ibv_qp_init_attr_ex`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_init_attr_mask {
    /// `pd`.
    IBV_QP_INIT_ATTR_PD = 1 << 0,
    /// `xrcd`.
    IBV_QP_INIT_ATTR_XRCD = 1 << 1,
    /// `create_flags`.
    IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
    /// `max_tso_header`.
    IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
    /// `rwq_ind_tbl`.
    IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
    /// `rx_hash_conf`.
    IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
    /// `send_ops_flags`.
    IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
}
pub use ibv_qp_init_attr_mask::*;

/// Bits of `ibv_qp_init_attr_ex::create_flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_create_flags {
    /// Own multicast packets are not looped back.
    IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1,
    /// Deliver the frame check sequence.
    IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
    /// Strip the customer VLAN tag.
    IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
    /// Send with `source_qpn` as the source.
    IBV_QP_CREATE_SOURCE_QPN = 1 << 10,
    /// Pad PCI writes to a cache line.
    IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
}
pub use ibv_qp_create_flags::*;

/// Operations that an extended queue pair shall offer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_create_send_ops_flags {
    /// RDMA write.
    IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
    /// RDMA write with immediate data.
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
    /// Send.
    IBV_QP_EX_WITH_SEND = 1 << 2,
    /// Send with immediate data.
    IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
    /// RDMA read.
    IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
    /// Compare and swap.
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
    /// Fetch and add.
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
    /// Local invalidate.
    IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
    /// Memory window bind.
    IBV_QP_EX_WITH_BIND_MW = 1 << 8,
    /// Send with invalidate.
    IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
    /// Segmented send.
    IBV_QP_EX_WITH_TSO = 1 << 10,
    /// Flush.
    IBV_QP_EX_WITH_FLUSH = 1 << 11,
    /// Atomic write.
    IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
}
pub use ibv_qp_create_send_ops_flags::*;

/// Valid fields of `ibv_qp_open_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_open_attr_mask {
    /// `qp_num`.
    IBV_QP_OPEN_ATTR_NUM = 1 << 0,
    /// `xrcd`.
    IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
    /// `qp_context`.
    IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
    /// `qp_type`.
    IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
    /// First bit without a meaning.
    IBV_QP_OPEN_ATTR_RESERVED = 1 << 4,
}
pub use ibv_qp_open_attr_mask::*;

/// Valid fields of `ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_qp_attr_mask {
    /// `qp_state`.
    IBV_QP_STATE = 1 << 0,
    /// `cur_qp_state`.
    IBV_QP_CUR_STATE = 1 << 1,
    /// `en_sqd_async_notify`.
    IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
    /// `qp_access_flags`.
    IBV_QP_ACCESS_FLAGS = 1 << 3,
    /// `pkey_index`.
    IBV_QP_PKEY_INDEX = 1 << 4,
    /// `port_num`.
    IBV_QP_PORT = 1 << 5,
    /// `qkey`.
    IBV_QP_QKEY = 1 << 6,
    /// `ah_attr`.
    IBV_QP_AV = 1 << 7,
    /// `path_mtu`.
    IBV_QP_PATH_MTU = 1 << 8,
    /// `timeout`.
    IBV_QP_TIMEOUT = 1 << 9,
    /// `retry_cnt`.
    IBV_QP_RETRY_CNT = 1 << 10,
    /// `rnr_retry`.
    IBV_QP_RNR_RETRY = 1 << 11,
    /// `rq_psn`.
    IBV_QP_RQ_PSN = 1 << 12,
    /// `max_rd_atomic`.
    IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
    /// `alt_ah_attr` and the other `alt_` fields.
    IBV_QP_ALT_PATH = 1 << 14,
    /// `min_rnr_timer`.
    IBV_QP_MIN_RNR_TIMER = 1 << 15,
    /// `sq_psn`.
    IBV_QP_SQ_PSN = 1 << 16,
    /// `max_dest_rd_atomic`.
    IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
    /// `path_mig_state`.
    IBV_QP_PATH_MIG_STATE = 1 << 18,
    /// `cap`.
    IBV_QP_CAP = 1 << 19,
    /// `dest_qp_num`.
    IBV_QP_DEST_QPN = 1 << 20,
    /// `rate_limit`.
    IBV_QP_RATE_LIMIT = 1 << 25,
}
pub use ibv_qp_attr_mask::*;

/// Options of `ibv_query_qp_data_in_order`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_query_qp_data_in_order_flags {
    /// Answer with bits of `ibv_query_qp_data_in_order_caps`, not with 0 or 1.
    IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0,
    /// What the device alone guarantees, whatever the processor's architecture is.
    IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1,
}
pub use ibv_query_qp_data_in_order_flags::*;

/// What is guaranteed to land in memory in order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_query_qp_data_in_order_caps {
    /// The whole message.
    IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0,
    /// Each aligned block of 128 bytes in itself.
    IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1,
}
pub use ibv_query_qp_data_in_order_caps::*;

/// Kind of shared receive queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_srq_type {
    /// Plain.
    IBV_SRQT_BASIC = 0,
    /// For extended reliable connections.
    IBV_SRQT_XRC = 1,
    /// With tag matching.
    IBV_SRQT_TM = 2,
}
pub use ibv_srq_type::*;

/// Fields that `ibv_modify_srq` changes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_srq_attr_mask {
    /// `max_wr`.
    IBV_SRQ_MAX_WR = 1 << 0,
    /// `srq_limit`.
    IBV_SRQ_LIMIT = 1 << 1,
}
pub use ibv_srq_attr_mask::*;

/// Valid fields of `ibv_srq_init_attr_ex`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_srq_init_attr_mask {
    /// `srq_type`.
    IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
    /// `pd`.
    IBV_SRQ_INIT_ATTR_PD = 1 << 1,
    /// `xrcd`.
    IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
    /// `cq`.
    IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
    /// `tm_cap`.
    IBV_SRQ_INIT_ATTR_TM = 1 << 4,
    /// First bit without a meaning.
    IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
}
pub use ibv_srq_init_attr_mask::*;

/// Kind of work queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wq_type {
    /// Receive queue.
    IBV_WQT_RQ = 0,
}
pub use ibv_wq_type::*;

/// Valid fields of `ibv_wq_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wq_init_attr_mask {
    /// `create_flags`.
    IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
    /// First bit without a meaning.
    IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
}
pub use ibv_wq_init_attr_mask::*;

/// Work queue options.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wq_flags {
    /// Strip the customer VLAN tag.
    IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
    /// Deliver the frame check sequence.
    IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
    /// Wait for a buffer before dropping.
    IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
    /// Pad PCI writes to a cache line.
    IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
    /// First bit without a meaning.
    IBV_WQ_FLAGS_RESERVED = 1 << 4,
}
pub use ibv_wq_flags::*;

/// State of a work queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wq_state {
    /// Created, not usable.
    IBV_WQS_RESET = 0,
    /// Ready.
    IBV_WQS_RDY = 1,
    /// Error.
    IBV_WQS_ERR = 2,
    /// Not known.
    IBV_WQS_UNKNOWN = 3,
}
pub use ibv_wq_state::*;

/// Valid fields of `ibv_wq_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_wq_attr_mask {
    /// `wq_state`.
    IBV_WQ_ATTR_STATE = 1 << 0,
    /// `curr_wq_state`.
    IBV_WQ_ATTR_CURR_STATE = 1 << 1,
    /// `flags`.
    IBV_WQ_ATTR_FLAGS = 1 << 2,
    /// First bit without a meaning.
    IBV_WQ_ATTR_RESERVED = 1 << 3,
}
pub use ibv_wq_attr_mask::*;

/// Valid extra fields of `ibv_rwq_ind_table_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_ind_table_init_attr_mask {
    /// First bit without a meaning.
    IBV_CREATE_IND_TABLE_RESERVED = 1 << 0,
}
pub use ibv_ind_table_init_attr_mask::*;

/// Attributes of a shared receive queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_attr {
    /// Outstanding requests.
    pub max_wr: u32,
    /// Scatter-gather entries per request.
    pub max_sge: u32,
    /// An event is raised when fewer requests than this remain; 0 is off.
    pub srq_limit: u32,
}

/// Attributes of a new shared receive queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_init_attr {
    /// The program's pointer.
    pub srq_context: *mut c_void,
    /// Sizes; on return what was allocated.
    pub attr: ibv_srq_attr,
}

/// Tag matching sizes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_tm_cap {
    /// Tags in the matching list.
    pub max_num_tags: u32,
    /// Outstanding list operations.
    pub max_ops: u32,
}

/// Attributes of a new shared receive queue, extended. Starts as `ibv_srq_init_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq_init_attr_ex {
    /// The program's pointer.
    pub srq_context: *mut c_void,
    /// Sizes; on return what was allocated.
    pub attr: ibv_srq_attr,
    /// Bits of `ibv_srq_init_attr_mask`.
    pub comp_mask: u32,
    /// Kind.
    pub srq_type: ibv_srq_type_t,
    /// Protection domain.
    pub pd: *mut ibv_pd,
    /// Extended connection domain.
    pub xrcd: *mut ibv_xrcd,
    /// Completion queue.
    pub cq: *mut ibv_cq,
    /// Tag matching.
    pub tm_cap: ibv_tm_cap,
}

/// Shared receive queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_srq {
    /// Device context.
    pub context: *mut ibv_context,
    /// The program's pointer.
    pub srq_context: *mut c_void,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// Kernel handle.
    pub handle: u32,
    /// Guards the event counter.
    pub mutex: pthread_mutex_t,
    /// Signalled when events are acknowledged.
    pub cond: pthread_cond_t,
    /// Asynchronous events acknowledged.
    pub events_completed: u32,
}

/// Attributes of a new work queue.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_wq_init_attr {
    /// The program's pointer.
    pub wq_context: *mut c_void,
    /// Kind.
    pub wq_type: ibv_wq_type_t,
    /// Outstanding requests; on return what was allocated.
    pub max_wr: u32,
    /// Scatter-gather entries per request; on return what was allocated.
    pub max_sge: u32,
    /// Protection domain.
    pub pd: *mut ibv_pd,
    /// Completion queue.
    pub cq: *mut ibv_cq,
    /// Bits of `ibv_wq_init_attr_mask`.
    pub comp_mask: u32,
    /// Bits of `ibv_wq_flags`.
    pub create_flags: u32,
}

/// Attributes of `ibv_modify_wq`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_wq_attr {
    /// Bits of `ibv_wq_attr_mask`.
    pub attr_mask: u32,
    /// State to move to.
    pub wq_state: ibv_wq_state_t,
    /// State assumed now.
    pub curr_wq_state: ibv_wq_state_t,
    /// Bits of `ibv_wq_flags`.
    pub flags: u32,
    /// Which of them to change.
    pub flags_mask: u32,
}

/// Work queue: the receive side of a queue pair as an object of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_wq {
    /// Device context.
    pub context: *mut ibv_context,
    /// The program's pointer.
    pub wq_context: *mut c_void,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// Its completion queue.
    pub cq: *mut ibv_cq,
    /// Number.
    pub wq_num: u32,
    /// Kernel handle.
    pub handle: u32,
    /// State.
    pub state: ibv_wq_state_t,
    /// Kind.
    pub wq_type: ibv_wq_type_t,
    /// Posts receives; 0 or an errno value.
    pub post_recv: Option<
        unsafe extern "C" fn(
            current: *mut ibv_wq,
            recv_wr: *mut ibv_recv_wr,
            bad_recv_wr: *mut *mut ibv_recv_wr,
        ) -> c_int,
    >,
    /// Guards the event counter.
    pub mutex: pthread_mutex_t,
    /// Signalled when events are acknowledged.
    pub cond: pthread_cond_t,
    /// Asynchronous events acknowledged.
    pub events_completed: u32,
    /// Reserved.
    pub comp_mask: u32,
}

/// Indirection table: spreads packets over work queues.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_rwq_ind_table {
    /// Device context.
    pub context: *mut ibv_context,
    /// Kernel handle.
    pub ind_tbl_handle: c_int,
    /// Number.
    pub ind_tbl_num: c_int,
    /// Reserved.
    pub comp_mask: u32,
}

/// Attributes of a new indirection table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_rwq_ind_table_init_attr {
    /// Logarithm to base 2 of the number of entries.
    pub log_ind_tbl_size: u32,
    /// The entries.
    pub ind_tbl: *mut *mut ibv_wq,
    /// Must be 0.
    pub comp_mask: u32,
}

/// Sizes of a queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_cap {
    /// Outstanding send requests.
    pub max_send_wr: u32,
    /// Outstanding receive requests.
    pub max_recv_wr: u32,
    /// Scatter-gather entries per send.
    pub max_send_sge: u32,
    /// Scatter-gather entries per receive.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
}

/// Attributes of a new queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_init_attr {
    /// The program's pointer.
    pub qp_context: *mut c_void,
    /// Completions of the send queue.
    pub send_cq: *mut ibv_cq,
    /// Completions of the receive queue.
    pub recv_cq: *mut ibv_cq,
    /// Shared receive queue, or null.
    pub srq: *mut ibv_srq,
    /// Sizes; on return what was allocated.
    pub cap: ibv_qp_cap,
    /// Service.
    pub qp_type: ibv_qp_type_t,
    /// Nonzero: every send completes with an entry.
    pub sq_sig_all: c_int,
}

/// Receive hash of a queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_rx_hash_conf {
    /// A bit of `ibv_rx_hash_function_flags`.
    pub rx_hash_function: u8,
    /// Length of the key in bytes.
    pub rx_hash_key_len: u8,
    /// The key.
    pub rx_hash_key: *mut u8,
    /// Bits of `ibv_rx_hash_fields`.
    pub rx_hash_fields_mask: u64,
}

/// Attributes of a new queue pair, extended. Starts as `ibv_qp_init_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_init_attr_ex {
    /// The program's pointer.
    pub qp_context: *mut c_void,
    /// Completions of the send queue.
    pub send_cq: *mut ibv_cq,
    /// Completions of the receive queue.
    pub recv_cq: *mut ibv_cq,
    /// Shared receive queue, or null.
    pub srq: *mut ibv_srq,
    /// Sizes; on return what was allocated.
    pub cap: ibv_qp_cap,
    /// Service.
    pub qp_type: ibv_qp_type_t,
    /// Nonzero: every send completes with an entry.
    pub sq_sig_all: c_int,
    /// Bits of `ibv_qp_init_attr_mask`.
    pub comp_mask: u32,
    /// Protection domain.
    pub pd: *mut ibv_pd,
    /// Extended connection domain.
    pub xrcd: *mut ibv_xrcd,
    /// Bits of `ibv_qp_create_flags`.
    pub create_flags: u32,
    /// Longest header of a segmented send in bytes.
    pub max_tso_header: u16,
    /// Indirection table.
    pub rwq_ind_tbl: *mut ibv_rwq_ind_table,
    /// Receive hash.
    pub rx_hash_conf: ibv_rx_hash_conf,
    /// Source queue pair number to send with.
    pub source_qpn: u32,
    /// Bits of `ibv_qp_create_send_ops_flags`.
    pub send_ops_flags: u64,
}

/// Attributes for opening a shared queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_open_attr {
    /// Bits of `ibv_qp_open_attr_mask`.
    pub comp_mask: u32,
    /// Queue pair number.
    pub qp_num: u32,
    /// Domain it lives in.
    pub xrcd: *mut ibv_xrcd,
    /// The program's pointer.
    pub qp_context: *mut c_void,
    /// Service.
    pub qp_type: ibv_qp_type_t,
}

/// Attributes of `ibv_modify_qp` and `ibv_query_qp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_attr {
    /// State, or state to move to.
    pub qp_state: ibv_qp_state_t,
    /// State assumed now.
    pub cur_qp_state: ibv_qp_state_t,
    /// Path MTU.
    pub path_mtu: ibv_mtu_t,
    /// Path migration state.
    pub path_mig_state: ibv_mig_state_t,
    /// Q_Key (datagrams).
    pub qkey: u32,
    /// First packet number to expect, 24 bits.
    pub rq_psn: u32,
    /// First packet number to send, 24 bits.
    pub sq_psn: u32,
    /// Peer's queue pair number.
    pub dest_qp_num: u32,
    /// Remote rights, bits of `ibv_access_flags`.
    pub qp_access_flags: c_uint,
    /// Sizes.
    pub cap: ibv_qp_cap,
    /// Primary path.
    pub ah_attr: ibv_ah_attr,
    /// Alternate path.
    pub alt_ah_attr: ibv_ah_attr,
    /// Partition key index.
    pub pkey_index: u16,
    /// Partition key index of the alternate path.
    pub alt_pkey_index: u16,
    /// Nonzero: an event tells when the send queue has drained.
    pub en_sqd_async_notify: u8,
    /// Nonzero while the send queue drains.
    pub sq_draining: u8,
    /// Outgoing reads and atomics in flight.
    pub max_rd_atomic: u8,
    /// Incoming reads and atomics in flight.
    pub max_dest_rd_atomic: u8,
    /// Code of the shortest "receiver not ready" wait.
    pub min_rnr_timer: u8,
    /// Local port, counted from 1.
    pub port_num: u8,
    /// Acknowledgement timeout: 4.096 µs * 2^value, 0 is infinite.
    pub timeout: u8,
    /// Retries without an answer.
    pub retry_cnt: u8,
    /// Retries when the receiver is not ready, 7 is infinite.
    pub rnr_retry: u8,
    /// Local port of the alternate path.
    pub alt_port_num: u8,
    /// Timeout of the alternate path.
    pub alt_timeout: u8,
    /// Rate limit in kbit/s.
    pub rate_limit: u32,
}

/// Attributes of `ibv_modify_qp_rate_limit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_rate_limit_attr {
    /// Rate in kbit/s.
    pub rate_limit: u32,
    /// Largest burst in bytes.
    pub max_burst_sz: u32,
    /// Typical packet in bytes.
    pub typical_pkt_sz: u16,
    /// Must be 0.
    pub comp_mask: u32,
}

/// Queue pair.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp {
    /// Device context.
    pub context: *mut ibv_context,
    /// The program's pointer.
    pub qp_context: *mut c_void,
    /// Its protection domain.
    pub pd: *mut ibv_pd,
    /// Completions of the send queue.
    pub send_cq: *mut ibv_cq,
    /// Completions of the receive queue.
    pub recv_cq: *mut ibv_cq,
    /// Shared receive queue, or null.
    pub srq: *mut ibv_srq,
    /// Kernel handle.
    pub handle: u32,
    /// Number.
    pub qp_num: u32,
    /// State that the library last saw.
    pub state: ibv_qp_state_t,
    /// Service.
    pub qp_type: ibv_qp_type_t,
    /// Guards the event counter.
    pub mutex: pthread_mutex_t,
    /// Signalled when events are acknowledged.
    pub cond: pthread_cond_t,
    /// Asynchronous events acknowledged.
    pub events_completed: u32,
}
