//! Structures and flags inside attributes of the uverbs ioctl.
//!
//! Source: linux-libc-dev, `rdma/ib_user_ioctl_verbs.h`. Sizes and offsets are those that a C compiler gave for
//! that header on a 64-bit machine; flexible arrays at the end of a C structure are left out.

use super::ib_user_verbs::ib_uverbs_query_port_resp;
use super::layout;

// What the kernel core offers, as GET_CONTEXT tells.
pub const IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS: u64 = 1;

// Access rights of memory.
pub const IB_UVERBS_ACCESS_LOCAL_WRITE: u32 = 0x1;
pub const IB_UVERBS_ACCESS_REMOTE_WRITE: u32 = 0x2;
pub const IB_UVERBS_ACCESS_REMOTE_READ: u32 = 0x4;
pub const IB_UVERBS_ACCESS_REMOTE_ATOMIC: u32 = 0x8;
pub const IB_UVERBS_ACCESS_MW_BIND: u32 = 0x10;
pub const IB_UVERBS_ACCESS_ZERO_BASED: u32 = 0x20;
pub const IB_UVERBS_ACCESS_ON_DEMAND: u32 = 0x40;
pub const IB_UVERBS_ACCESS_HUGETLB: u32 = 0x80;
pub const IB_UVERBS_ACCESS_RELAXED_ORDERING: u32 = 0x100000;
pub const IB_UVERBS_ACCESS_OPTIONAL_RANGE: u32 = 0x3ff00000;

// Kinds of shared receive queue.
pub const IB_UVERBS_SRQT_BASIC: u32 = 0;
pub const IB_UVERBS_SRQT_XRC: u32 = 1;
pub const IB_UVERBS_SRQT_TM: u32 = 2;

// Kinds of queue pair.
pub const IB_UVERBS_QPT_RC: u32 = 2;
pub const IB_UVERBS_QPT_UC: u32 = 3;
pub const IB_UVERBS_QPT_UD: u32 = 4;
pub const IB_UVERBS_QPT_RAW_PACKET: u32 = 8;
pub const IB_UVERBS_QPT_XRC_INI: u32 = 9;
pub const IB_UVERBS_QPT_XRC_TGT: u32 = 10;
pub const IB_UVERBS_QPT_DRIVER: u32 = 255;

// Flags of QP_CREATE.
pub const IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK: u32 = 0x2;
pub const IB_UVERBS_QP_CREATE_SCATTER_FCS: u32 = 0x100;
pub const IB_UVERBS_QP_CREATE_CVLAN_STRIPPING: u32 = 0x200;
pub const IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING: u32 = 0x800;
pub const IB_UVERBS_QP_CREATE_SQ_SIG_ALL: u32 = 0x1000;

// Advice of ADVISE_MR.
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH: u32 = 0;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE: u32 = 1;
pub const IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: u32 = 2;

// Flags of QUERY_PORT.
pub const IB_UVERBS_QPF_GRH_REQUIRED: u32 = 1;

// Kernel drivers, as the ioctl header and RDMA netlink name them.
pub const RDMA_DRIVER_UNKNOWN: u32 = 0;
pub const RDMA_DRIVER_MLX5: u32 = 1;
pub const RDMA_DRIVER_MLX4: u32 = 2;
pub const RDMA_DRIVER_CXGB3: u32 = 3;
pub const RDMA_DRIVER_CXGB4: u32 = 4;
pub const RDMA_DRIVER_MTHCA: u32 = 5;
pub const RDMA_DRIVER_BNXT_RE: u32 = 6;
pub const RDMA_DRIVER_OCRDMA: u32 = 7;
pub const RDMA_DRIVER_NES: u32 = 8;
pub const RDMA_DRIVER_I40IW: u32 = 9;
pub const RDMA_DRIVER_IRDMA: u32 = 9;
pub const RDMA_DRIVER_VMW_PVRDMA: u32 = 10;
pub const RDMA_DRIVER_QEDR: u32 = 11;
pub const RDMA_DRIVER_HNS: u32 = 12;
pub const RDMA_DRIVER_USNIC: u32 = 13;
pub const RDMA_DRIVER_RXE: u32 = 14;
pub const RDMA_DRIVER_HFI1: u32 = 15;
pub const RDMA_DRIVER_QIB: u32 = 16;
pub const RDMA_DRIVER_EFA: u32 = 17;
pub const RDMA_DRIVER_SIW: u32 = 18;
pub const RDMA_DRIVER_ERDMA: u32 = 19;
// Newer than the header above.
pub const RDMA_DRIVER_MANA: u32 = 20;
pub const RDMA_DRIVER_IONIC: u32 = 21;

// Kinds of GID.
pub const IB_UVERBS_GID_TYPE_IB: u32 = 0;
pub const IB_UVERBS_GID_TYPE_ROCE_V1: u32 = 1;
pub const IB_UVERBS_GID_TYPE_ROCE_V2: u32 = 2;

layout! {
    /// Answer of the QUERY_PORT method.
    pub struct ib_uverbs_query_port_resp_ex(48) {
        legacy_resp: ib_uverbs_query_port_resp => 0,
        port_cap_flags2: u16 => 40,
        reserved: [u8; 2] => 42,
        active_speed_ex: u32 => 44,
    }

    /// Queue sizes of QP_CREATE; same layout as `ibv_qp_cap`.
    pub struct ib_uverbs_qp_cap(20) {
        max_send_wr: u32 => 0,
        max_recv_wr: u32 => 4,
        max_send_sge: u32 => 8,
        max_recv_sge: u32 => 12,
        max_inline_data: u32 => 16,
    }

    /// One entry of a GID table; same layout as `ibv_gid_entry`.
    pub struct ib_uverbs_gid_entry(32) {
        gid: [u64; 2] => 0,
        gid_index: u32 => 16,
        port_num: u32 => 20,
        gid_type: u32 => 24,
        netdev_ifindex: u32 => 28,
    }
}
