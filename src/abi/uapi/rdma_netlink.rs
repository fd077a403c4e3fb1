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
pub const RDMA_NLDEV_CMD_GET_CHARDEV: u16 = 15;

// Attributes of the NLDEV client.
pub const RDMA_NLDEV_ATTR_DEV_INDEX: u16 = 1;
pub const RDMA_NLDEV_ATTR_DEV_NAME: u16 = 2;
pub const RDMA_NLDEV_ATTR_PORT_INDEX: u16 = 3;
pub const RDMA_NLDEV_ATTR_NODE_GUID: u16 = 6;
pub const RDMA_NLDEV_ATTR_DEV_NODE_TYPE: u16 = 14;
pub const RDMA_NLDEV_ATTR_CHARDEV_TYPE: u16 = 69;
pub const RDMA_NLDEV_ATTR_CHARDEV_NAME: u16 = 70;
pub const RDMA_NLDEV_ATTR_CHARDEV_ABI: u16 = 71;
pub const RDMA_NLDEV_ATTR_CHARDEV: u16 = 72;
pub const RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID: u16 = 73;
pub const RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK: u16 = 93;

/// Netlink message type of command `op` of an RDMA netlink client.
#[must_use]
pub const fn rdma_nl_get_type(client: u16, op: u16) -> u16 {
    (client << 10) + op
}
