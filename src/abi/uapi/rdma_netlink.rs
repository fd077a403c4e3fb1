//! RDMA netlink: what discovery asks and reads.
//!
//! Source: linux-libc-dev, `rdma/rdma_netlink.h`. Sizes and offsets are those that a C compiler gave for that
//! header on a 64-bit machine; flexible arrays at the end of a C structure are left out.

// Clients of the RDMA netlink family.
pub const RDMA_NL_NLDEV: u16 = 5;
pub const RDMA_NL_LS: u16 = 4;

// Commands of the NLDEV client.
pub const RDMA_NLDEV_CMD_GET: u16 = 1;
pub const RDMA_NLDEV_CMD_PORT_GET: u16 = 5;
pub const RDMA_NLDEV_CMD_SYS_GET: u16 = 6;
pub const RDMA_NLDEV_CMD_RES_QP_GET: u16 = 10;
pub const RDMA_NLDEV_CMD_RES_CM_ID_GET: u16 = 11;
pub const RDMA_NLDEV_CMD_RES_CQ_GET: u16 = 12;
pub const RDMA_NLDEV_CMD_RES_MR_GET: u16 = 13;
pub const RDMA_NLDEV_CMD_RES_PD_GET: u16 = 14;
pub const RDMA_NLDEV_CMD_GET_CHARDEV: u16 = 15;
pub const RDMA_NLDEV_CMD_RES_SRQ_GET: u16 = 23;

// Attributes of the NLDEV client.
pub const RDMA_NLDEV_ATTR_DEV_INDEX: u16 = 1;
pub const RDMA_NLDEV_ATTR_DEV_NAME: u16 = 2;
pub const RDMA_NLDEV_ATTR_PORT_INDEX: u16 = 3;
pub const RDMA_NLDEV_ATTR_NODE_GUID: u16 = 6;
pub const RDMA_NLDEV_ATTR_DEV_NODE_TYPE: u16 = 14;
pub const RDMA_NLDEV_ATTR_RES_QP: u16 = 19;
pub const RDMA_NLDEV_ATTR_RES_QP_ENTRY: u16 = 20;
pub const RDMA_NLDEV_ATTR_RES_LQPN: u16 = 21;
pub const RDMA_NLDEV_ATTR_RES_RQPN: u16 = 22;
pub const RDMA_NLDEV_ATTR_RES_RQ_PSN: u16 = 23;
pub const RDMA_NLDEV_ATTR_RES_SQ_PSN: u16 = 24;
pub const RDMA_NLDEV_ATTR_RES_TYPE: u16 = 26;
pub const RDMA_NLDEV_ATTR_RES_STATE: u16 = 27;
pub const RDMA_NLDEV_ATTR_RES_PID: u16 = 28;
pub const RDMA_NLDEV_ATTR_RES_KERN_NAME: u16 = 29;
pub const RDMA_NLDEV_ATTR_RES_CM_ID: u16 = 30;
pub const RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY: u16 = 31;
pub const RDMA_NLDEV_ATTR_RES_PS: u16 = 32;
pub const RDMA_NLDEV_ATTR_RES_SRC_ADDR: u16 = 33;
pub const RDMA_NLDEV_ATTR_RES_DST_ADDR: u16 = 34;
pub const RDMA_NLDEV_ATTR_RES_CQ: u16 = 35;
pub const RDMA_NLDEV_ATTR_RES_CQ_ENTRY: u16 = 36;
pub const RDMA_NLDEV_ATTR_RES_CQE: u16 = 37;
pub const RDMA_NLDEV_ATTR_RES_USECNT: u16 = 38;
pub const RDMA_NLDEV_ATTR_RES_MR: u16 = 40;
pub const RDMA_NLDEV_ATTR_RES_MR_ENTRY: u16 = 41;
pub const RDMA_NLDEV_ATTR_RES_RKEY: u16 = 42;
pub const RDMA_NLDEV_ATTR_RES_MRLEN: u16 = 45;
pub const RDMA_NLDEV_ATTR_RES_PD: u16 = 46;
pub const RDMA_NLDEV_ATTR_RES_PD_ENTRY: u16 = 47;
pub const RDMA_NLDEV_ATTR_RES_PDN: u16 = 60;
pub const RDMA_NLDEV_ATTR_RES_CQN: u16 = 61;
pub const RDMA_NLDEV_ATTR_RES_MRN: u16 = 62;
pub const RDMA_NLDEV_ATTR_CHARDEV_TYPE: u16 = 69;
pub const RDMA_NLDEV_ATTR_CHARDEV_NAME: u16 = 70;
pub const RDMA_NLDEV_ATTR_CHARDEV_ABI: u16 = 71;
pub const RDMA_NLDEV_ATTR_CHARDEV: u16 = 72;
pub const RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID: u16 = 73;
pub const RDMA_NLDEV_ATTR_RES_SRQ: u16 = 88;
pub const RDMA_NLDEV_ATTR_RES_SRQ_ENTRY: u16 = 89;
pub const RDMA_NLDEV_ATTR_RES_SRQN: u16 = 90;
pub const RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK: u16 = 93;

/// Netlink message type of command `op` of an RDMA netlink client.
#[must_use]
pub const fn rdma_nl_get_type(client: u16, op: u16) -> u16 {
    (client << 10) + op
}
