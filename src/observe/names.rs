//! The names of flags and enumerators.

use core::fmt::Write;

use super::line::Line;
use crate::abi::verbs::*;

/// Names of the bits of a word, or of the values of an enumeration.
pub struct Names {
    /// What all begin with, which is left out of an enumerator's name.
    pub prefix: &'static str,
    /// Value and whole name.
    pub all: &'static [(u64, &'static str)],
}

macro_rules! names {
    ($(#[$doc:meta] $table:ident $prefix:literal: $($name:ident)+;)+) => {
        $(
            #[$doc]
            pub static $table: Names =
                Names { prefix: $prefix, all: &[$(($name as u64, stringify!($name))),+] };
        )+
    };
}

names! {
    /// Rights of a region, a window or a queue pair.
    ACCESS "IBV_ACCESS_": IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ
        IBV_ACCESS_REMOTE_ATOMIC IBV_ACCESS_MW_BIND IBV_ACCESS_ZERO_BASED IBV_ACCESS_ON_DEMAND
        IBV_ACCESS_HUGETLB IBV_ACCESS_FLUSH_GLOBAL IBV_ACCESS_FLUSH_PERSISTENT IBV_ACCESS_RELAXED_ORDERING;
    /// Attributes of a queue pair.
    QP_MASK "IBV_QP_": IBV_QP_STATE IBV_QP_CUR_STATE IBV_QP_EN_SQD_ASYNC_NOTIFY IBV_QP_ACCESS_FLAGS
        IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_QKEY IBV_QP_AV IBV_QP_PATH_MTU IBV_QP_TIMEOUT IBV_QP_RETRY_CNT
        IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC IBV_QP_ALT_PATH IBV_QP_MIN_RNR_TIMER
        IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC IBV_QP_PATH_MIG_STATE IBV_QP_CAP IBV_QP_DEST_QPN
        IBV_QP_RATE_LIMIT;
    /// States of a queue pair.
    QP_STATE "IBV_QPS_": IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQD IBV_QPS_SQE IBV_QPS_ERR
        IBV_QPS_UNKNOWN;
    /// Services of a queue pair.
    QP_TYPE "IBV_QPT_": IBV_QPT_RC IBV_QPT_UC IBV_QPT_UD IBV_QPT_RAW_PACKET IBV_QPT_XRC_SEND IBV_QPT_XRC_RECV
        IBV_QPT_DRIVER;
    /// States of path migration.
    MIG_STATE "IBV_MIG_": IBV_MIG_MIGRATED IBV_MIG_REARM IBV_MIG_ARMED;
    /// Extended attributes of a new queue pair.
    QP_INIT_MASK "IBV_QP_INIT_ATTR_": IBV_QP_INIT_ATTR_PD IBV_QP_INIT_ATTR_XRCD IBV_QP_INIT_ATTR_CREATE_FLAGS
        IBV_QP_INIT_ATTR_MAX_TSO_HEADER IBV_QP_INIT_ATTR_IND_TABLE IBV_QP_INIT_ATTR_RX_HASH
        IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    /// Flags of a new queue pair.
    QP_CREATE "IBV_QP_CREATE_": IBV_QP_CREATE_BLOCK_SELF_MCAST_LB IBV_QP_CREATE_SCATTER_FCS
        IBV_QP_CREATE_CVLAN_STRIPPING IBV_QP_CREATE_SOURCE_QPN IBV_QP_CREATE_PCI_WRITE_END_PADDING;
    /// Operations that a queue pair has builders for.
    SEND_OPS "IBV_QP_EX_WITH_": IBV_QP_EX_WITH_RDMA_WRITE IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        IBV_QP_EX_WITH_SEND IBV_QP_EX_WITH_SEND_WITH_IMM IBV_QP_EX_WITH_RDMA_READ
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD IBV_QP_EX_WITH_LOCAL_INV
        IBV_QP_EX_WITH_BIND_MW IBV_QP_EX_WITH_SEND_WITH_INV IBV_QP_EX_WITH_TSO IBV_QP_EX_WITH_FLUSH
        IBV_QP_EX_WITH_ATOMIC_WRITE;
    /// What names a queue pair to open.
    QP_OPEN_MASK "IBV_QP_OPEN_ATTR_": IBV_QP_OPEN_ATTR_NUM IBV_QP_OPEN_ATTR_XRCD IBV_QP_OPEN_ATTR_CONTEXT
        IBV_QP_OPEN_ATTR_TYPE;
    /// Flags of the order of data.
    IN_ORDER "IBV_QUERY_QP_DATA_IN_ORDER_": IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS
        IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY;
    /// Attributes of a shared receive queue.
    SRQ_MASK "IBV_SRQ_": IBV_SRQ_MAX_WR IBV_SRQ_LIMIT;
    /// Kinds of shared receive queues.
    SRQ_TYPE "IBV_SRQT_": IBV_SRQT_BASIC IBV_SRQT_XRC IBV_SRQT_TM;
    /// Extended attributes of a new shared receive queue.
    SRQ_INIT_MASK "IBV_SRQ_INIT_ATTR_": IBV_SRQ_INIT_ATTR_TYPE IBV_SRQ_INIT_ATTR_PD IBV_SRQ_INIT_ATTR_XRCD
        IBV_SRQ_INIT_ATTR_CQ IBV_SRQ_INIT_ATTR_TM;
    /// Fields of an extended completion.
    WC_EX "IBV_WC_EX_WITH_": IBV_WC_EX_WITH_BYTE_LEN IBV_WC_EX_WITH_IMM IBV_WC_EX_WITH_QP_NUM
        IBV_WC_EX_WITH_SRC_QP IBV_WC_EX_WITH_SLID IBV_WC_EX_WITH_SL IBV_WC_EX_WITH_DLID_PATH_BITS
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP IBV_WC_EX_WITH_CVLAN IBV_WC_EX_WITH_FLOW_TAG
        IBV_WC_EX_WITH_TM_INFO IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    /// Flags of a new completion queue.
    CQ_FLAGS "IBV_CREATE_CQ_ATTR_": IBV_CREATE_CQ_ATTR_SINGLE_THREADED IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    /// Extended attributes of a new completion queue.
    CQ_INIT_MASK "IBV_CQ_INIT_ATTR_MASK_": IBV_CQ_INIT_ATTR_MASK_FLAGS IBV_CQ_INIT_ATTR_MASK_PD;
    /// Flags of a completion.
    WC_FLAGS "IBV_WC_": IBV_WC_GRH IBV_WC_WITH_IMM IBV_WC_IP_CSUM_OK IBV_WC_WITH_INV IBV_WC_TM_SYNC_REQ
        IBV_WC_TM_MATCH IBV_WC_TM_DATA_VALID;
    /// What a completion is of.
    WC_OPCODE "IBV_WC_": IBV_WC_SEND IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ IBV_WC_COMP_SWAP IBV_WC_FETCH_ADD
        IBV_WC_BIND_MW IBV_WC_LOCAL_INV IBV_WC_TSO IBV_WC_FLUSH IBV_WC_ATOMIC_WRITE IBV_WC_RECV
        IBV_WC_RECV_RDMA_WITH_IMM IBV_WC_TM_ADD IBV_WC_TM_DEL IBV_WC_TM_SYNC IBV_WC_TM_RECV IBV_WC_TM_NO_TAG
        IBV_WC_DRIVER1 IBV_WC_DRIVER2 IBV_WC_DRIVER3;
    /// Operations of a send request.
    WR_OPCODE "IBV_WR_": IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND IBV_WR_SEND_WITH_IMM
        IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD IBV_WR_LOCAL_INV
        IBV_WR_BIND_MW IBV_WR_SEND_WITH_INV IBV_WR_TSO IBV_WR_DRIVER1 IBV_WR_FLUSH IBV_WR_ATOMIC_WRITE;
    /// Flags of a send request.
    SEND_FLAGS "IBV_SEND_": IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED IBV_SEND_INLINE
        IBV_SEND_IP_CSUM;
    /// Operations on a list of tags.
    OPS_OPCODE "IBV_WR_": IBV_WR_TAG_ADD IBV_WR_TAG_DEL IBV_WR_TAG_SYNC;
    /// Flags of those.
    OPS_FLAGS "IBV_OPS_": IBV_OPS_SIGNALED IBV_OPS_TM_SYNC;
    /// What a registration changes.
    REREG "IBV_REREG_MR_CHANGE_": IBV_REREG_MR_CHANGE_TRANSLATION IBV_REREG_MR_CHANGE_PD
        IBV_REREG_MR_CHANGE_ACCESS;
    /// What a registration says.
    REG_MASK "IBV_REG_MR_MASK_": IBV_REG_MR_MASK_IOVA IBV_REG_MR_MASK_ADDR IBV_REG_MR_MASK_FD
        IBV_REG_MR_MASK_FD_OFFSET IBV_REG_MR_MASK_DMAH IBV_REG_MR_MASK_BUF;
    /// Kinds of memory windows.
    MW_TYPE "IBV_MW_": IBV_MW_TYPE_1 IBV_MW_TYPE_2;
    /// Kinds of asynchronous events.
    EVENT "IBV_EVENT_": IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR IBV_EVENT_QP_ACCESS_ERR
        IBV_EVENT_COMM_EST IBV_EVENT_SQ_DRAINED IBV_EVENT_PATH_MIG IBV_EVENT_PATH_MIG_ERR
        IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR IBV_EVENT_LID_CHANGE
        IBV_EVENT_PKEY_CHANGE IBV_EVENT_SM_CHANGE IBV_EVENT_SRQ_ERR IBV_EVENT_SRQ_LIMIT_REACHED
        IBV_EVENT_QP_LAST_WQE_REACHED IBV_EVENT_CLIENT_REREGISTER IBV_EVENT_GID_CHANGE IBV_EVENT_WQ_FATAL
        IBV_EVENT_DEVICE_SPEED_CHANGE;
    /// States of a port.
    PORT_STATE "IBV_PORT_": IBV_PORT_NOP IBV_PORT_DOWN IBV_PORT_INIT IBV_PORT_ARMED IBV_PORT_ACTIVE
        IBV_PORT_ACTIVE_DEFER;
    /// Kinds of links.
    LINK_LAYER "IBV_LINK_LAYER_": IBV_LINK_LAYER_UNSPECIFIED IBV_LINK_LAYER_INFINIBAND IBV_LINK_LAYER_ETHERNET;
    /// Kinds of GIDs.
    GID_TYPE "IBV_GID_TYPE_": IBV_GID_TYPE_IB IBV_GID_TYPE_ROCE_V1 IBV_GID_TYPE_ROCE_V2;
    /// How atomic a device is.
    ATOMIC_CAP "IBV_ATOMIC_": IBV_ATOMIC_NONE IBV_ATOMIC_HCA IBV_ATOMIC_GLOB;
    /// States of a work queue.
    WQ_STATE "IBV_WQS_": IBV_WQS_RESET IBV_WQS_RDY IBV_WQS_ERR IBV_WQS_UNKNOWN;
    /// Attributes of a work queue.
    WQ_MASK "IBV_WQ_ATTR_": IBV_WQ_ATTR_STATE IBV_WQ_ATTR_CURR_STATE IBV_WQ_ATTR_FLAGS;
    /// Whether forks are made safe.
    FORK_STATUS "IBV_FORK_": IBV_FORK_DISABLED IBV_FORK_ENABLED IBV_FORK_UNNEEDED;
    /// What a completion counter counts.
    COMP_CNTR_OPS "IBV_QP_ATTACH_COMP_CNTR_OP_": IBV_QP_ATTACH_COMP_CNTR_OP_SEND
        IBV_QP_ATTACH_COMP_CNTR_OP_RECV IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
        IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
        IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;
}

impl Names {
    /// The name of an enumerator without what all begin with; None for a value that has none.
    #[must_use]
    pub fn of(&self, value: u64) -> Option<&'static str> {
        let (_, name) = self.all.iter().find(|(known, _)| *known == value)?;
        Some(name.strip_prefix(self.prefix).unwrap_or(name))
    }

    /// Writes the flags of a word by their whole names, `0` for none; what has no name as a number.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn flags(&self, to: &mut impl Write, mut word: u64) -> core::fmt::Result {
        if word == 0 {
            return to.write_str("0");
        }
        let mut between = "";
        for (bit, name) in self.all.iter().filter(|(bit, _)| *bit != 0) {
            if word & bit == *bit {
                write!(to, "{between}{name}")?;
                word &= !bit;
                between = "|";
            }
        }
        if word != 0 { write!(to, "{between}{word:#x}") } else { Ok(()) }
    }

    /// Writes an enumerator's short name, or its number.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn value(&self, to: &mut impl Write, value: u64) -> core::fmt::Result {
        match self.of(value) {
            Some(name) => to.write_str(name),
            None => write!(to, "{value}"),
        }
    }
}

/// Bits of a word.
pub struct Flags(pub &'static Names, pub u64);
/// An enumerator.
pub struct Named(pub &'static Names, pub u64);

impl super::shown::Shown for Flags {
    unsafe fn show(&self, line: &mut Line) {
        let _ = self.0.flags(line, self.1);
    }

    fn word(&self) -> u64 {
        self.1
    }
}

impl super::shown::Shown for Named {
    unsafe fn show(&self, line: &mut Line) {
        let _ = self.0.value(line, self.1);
    }

    fn word(&self) -> u64 {
        self.1
    }
}
