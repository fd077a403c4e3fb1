//! Devices, ports and GID tables: what a program can learn about an adapter.

use super::context::ibv_context;
use super::scalars::{
    __be64, ibv_atomic_cap_t, ibv_mtu_t, ibv_node_type_t, ibv_port_state_t, ibv_transport_type_t,
};
use libc::{c_char, c_int, c_uint};

/// Kind of node that a device is on its fabric.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_node_type {
    /// The kernel reported a kind that this library does not know.
    IBV_NODE_UNKNOWN = -1,
    /// InfiniBand or RoCE channel adapter.
    IBV_NODE_CA = 1,
    /// InfiniBand switch.
    IBV_NODE_SWITCH = 2,
    /// InfiniBand router.
    IBV_NODE_ROUTER = 3,
    /// iWARP network interface.
    IBV_NODE_RNIC = 4,
    /// usNIC with its own Ethernet protocol.
    IBV_NODE_USNIC = 5,
    /// usNIC over UDP.
    IBV_NODE_USNIC_UDP = 6,
    /// Device with a vendor protocol.
    IBV_NODE_UNSPECIFIED = 7,
}
pub use ibv_node_type::*;

/// Wire protocol family of a device, derived from its node type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_transport_type {
    /// Not known.
    IBV_TRANSPORT_UNKNOWN = -1,
    /// InfiniBand transport, on InfiniBand links or as RoCE.
    IBV_TRANSPORT_IB = 0,
    /// iWARP.
    IBV_TRANSPORT_IWARP = 1,
    /// usNIC.
    IBV_TRANSPORT_USNIC = 2,
    /// usNIC over UDP.
    IBV_TRANSPORT_USNIC_UDP = 3,
    /// Vendor protocol.
    IBV_TRANSPORT_UNSPECIFIED = 4,
}
pub use ibv_transport_type::*;

/// Network protocol that a GID table entry stands for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_gid_type {
    /// InfiniBand link.
    IBV_GID_TYPE_IB = 0,
    /// RoCE directly over Ethernet.
    IBV_GID_TYPE_ROCE_V1 = 1,
    /// RoCE over UDP and IP.
    IBV_GID_TYPE_ROCE_V2 = 2,
}
pub use ibv_gid_type::*;

/// Capability bits in `ibv_device_attr::device_cap_flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_device_cap_flags {
    /// The number of work requests of a queue pair can be changed after creation.
    IBV_DEVICE_RESIZE_MAX_WR = 1,
    /// Ports count packets with a wrong P_Key.
    IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,
    /// Ports count packets with a wrong Q_Key.
    IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
    /// Raw packets can be multicast.
    IBV_DEVICE_RAW_MULTI = 1 << 3,
    /// Automatic path migration.
    IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,
    /// The primary port can change while the queue pair moves from SQD to RTS.
    IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
    /// Address handles of datagram queue pairs are checked against the port.
    IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,
    /// The current-state modifier of modify-QP is honoured.
    IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,
    /// A port can be shut down.
    IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
    /// The port initialisation type can be set.
    IBV_DEVICE_INIT_TYPE = 1 << 9,
    /// A port that becomes active raises an event.
    IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,
    /// The system image GUID is reported.
    IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
    /// Reliable connections answer "receiver not ready".
    IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
    /// Shared receive queues can be resized.
    IBV_DEVICE_SRQ_RESIZE = 1 << 13,
    /// Notification after N completions can be requested.
    IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
    /// Memory windows of type 1.
    IBV_DEVICE_MEM_WINDOW = 1 << 17,
    /// IP checksum offload on datagram queue pairs.
    IBV_DEVICE_UD_IP_CSUM = 1 << 18,
    /// Extended reliable connections.
    IBV_DEVICE_XRC = 1 << 20,
    /// Send with invalidate, local invalidate and fast registration.
    IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21,
    /// Memory windows of type 2A.
    IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
    /// Memory windows of type 2B.
    IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24,
    /// IP checksum offload on reliable connections.
    IBV_DEVICE_RC_IP_CSUM = 1 << 25,
    /// IP checksum offload on raw packet queue pairs.
    IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
    /// Flow steering rules are managed by the device.
    IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
}
pub use ibv_device_cap_flags::*;

/// Bit of `device_cap_flags_ex`: raw packets can be received with their frame check sequence.
pub const IBV_DEVICE_RAW_SCATTER_FCS: u64 = 1 << 34;

/// Bit of `device_cap_flags_ex`: PCI writes can be padded to a full cache line.
pub const IBV_DEVICE_PCI_WRITE_END_PADDING: u64 = 1 << 36;

/// Reach of atomic operations.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_atomic_cap {
    /// No atomics.
    IBV_ATOMIC_NONE = 0,
    /// Atomic among operations of this device.
    IBV_ATOMIC_HCA = 1,
    /// Atomic also with respect to processors and other devices.
    IBV_ATOMIC_GLOB = 2,
}
pub use ibv_atomic_cap::*;

/// Whether registered memory survives `fork`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_fork_status {
    /// Protection was not asked for.
    IBV_FORK_DISABLED = 0,
    /// The library marks registered pages so that children do not inherit them.
    IBV_FORK_ENABLED = 1,
    /// The kernel copies pinned pages at fork, nothing needs doing.
    IBV_FORK_UNNEEDED = 2,
}
pub use ibv_fork_status::*;

/// Path or port MTU; payload bytes per packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_mtu {
    /// 256 bytes.
    IBV_MTU_256 = 1,
    /// 512 bytes.
    IBV_MTU_512 = 2,
    /// 1024 bytes.
    IBV_MTU_1024 = 3,
    /// 2048 bytes.
    IBV_MTU_2048 = 4,
    /// 4096 bytes.
    IBV_MTU_4096 = 5,
}
pub use ibv_mtu::*;

/// Logical state of a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_port_state {
    /// No state change (only meaningful in requests).
    IBV_PORT_NOP = 0,
    /// No link.
    IBV_PORT_DOWN = 1,
    /// Link is up, the subnet manager has not configured it.
    IBV_PORT_INIT = 2,
    /// Configured, waiting to become active.
    IBV_PORT_ARMED = 3,
    /// Ready for data.
    IBV_PORT_ACTIVE = 4,
    /// Active, with the link temporarily lost.
    IBV_PORT_ACTIVE_DEFER = 5,
}
pub use ibv_port_state::*;

/// Link layer of a port (`ibv_port_attr::link_layer`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_link_layer_anon1 {
    /// Old kernel: InfiniBand is meant for InfiniBand transport.
    IBV_LINK_LAYER_UNSPECIFIED = 0,
    /// InfiniBand.
    IBV_LINK_LAYER_INFINIBAND = 1,
    /// Ethernet.
    IBV_LINK_LAYER_ETHERNET = 2,
}
pub use ibv_link_layer_anon1::*;

/// Bits of `ibv_port_attr::port_cap_flags`, the port's CapabilityMask.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_port_cap_flags {
    /// A subnet manager runs on the port.
    IBV_PORT_SM = 1 << 1,
    /// Notices.
    IBV_PORT_NOTICE_SUP = 1 << 2,
    /// Traps.
    IBV_PORT_TRAP_SUP = 1 << 3,
    /// Optional inter-packet delay values.
    IBV_PORT_OPT_IPD_SUP = 1 << 4,
    /// Automatic path migration.
    IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
    /// Service level mapping table.
    IBV_PORT_SL_MAP_SUP = 1 << 6,
    /// M_Key kept in non-volatile memory.
    IBV_PORT_MKEY_NVRAM = 1 << 7,
    /// P_Keys kept in non-volatile memory.
    IBV_PORT_PKEY_NVRAM = 1 << 8,
    /// Port LED information.
    IBV_PORT_LED_INFO_SUP = 1 << 9,
    /// System image GUID.
    IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
    /// P_Key violations at external switch ports raise traps.
    IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
    /// Extended link speeds (FDR and faster).
    IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
    /// `port_cap_flags2` is valid.
    IBV_PORT_CAP_MASK2_SUP = 1 << 15,
    /// Communication management.
    IBV_PORT_CM_SUP = 1 << 16,
    /// SNMP tunnelling.
    IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
    /// Reinitialisation.
    IBV_PORT_REINIT_SUP = 1 << 18,
    /// Device management.
    IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
    /// Vendor-specific management class.
    IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
    /// Directed-route notices.
    IBV_PORT_DR_NOTICE_SUP = 1 << 21,
    /// Notices about capability changes.
    IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
    /// Boot management.
    IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
    /// Link round-trip latency.
    IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
    /// Client reregistration.
    IBV_PORT_CLIENT_REG_SUP = 1 << 25,
    /// GIDs of an Ethernet port come from IP addresses.
    IBV_PORT_IP_BASED_GIDS = 1 << 26,
}
pub use ibv_port_cap_flags::*;

/// Bits of `ibv_port_attr::port_cap_flags2`, the port's CapabilityMask2.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_port_cap_flags2 {
    /// The node description can be set.
    IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
    /// Extended port information.
    IBV_PORT_INFO_EXT_SUP = 1 << 1,
    /// Virtualisation.
    IBV_PORT_VIRT_SUP = 1 << 2,
    /// Switch port state table.
    IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
    /// 2x link width.
    IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
    /// HDR link speed.
    IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
    /// NDR link speed.
    IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
    /// XDR link speed.
    IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12,
}
pub use ibv_port_cap_flags2::*;

/// Operations that may touch on-demand-paged memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_odp_transport_cap_bits {
    /// Send.
    IBV_ODP_SUPPORT_SEND = 1 << 0,
    /// Receive.
    IBV_ODP_SUPPORT_RECV = 1 << 1,
    /// RDMA write.
    IBV_ODP_SUPPORT_WRITE = 1 << 2,
    /// RDMA read.
    IBV_ODP_SUPPORT_READ = 1 << 3,
    /// Atomics.
    IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
    /// Receive through a shared receive queue.
    IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
    /// Flush.
    IBV_ODP_SUPPORT_FLUSH = 1 << 6,
    /// Atomic write.
    IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
}
pub use ibv_odp_transport_cap_bits::*;

/// Bits of `ibv_odp_caps::general_caps`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_odp_general_caps {
    /// On-demand paging exists.
    IBV_ODP_SUPPORT = 1 << 0,
    /// A region may cover the whole address space.
    IBV_ODP_SUPPORT_IMPLICIT = 1 << 1,
}
pub use ibv_odp_general_caps::*;

/// Hash functions for spreading received packets.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_rx_hash_function_flags {
    /// Toeplitz hash.
    IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
}
pub use ibv_rx_hash_function_flags::*;

/// Packet fields that take part in the receive hash. IPv4 excludes IPv6, TCP excludes UDP.
#[allow(clippy::enum_clike_unportable_variant, reason = "in C it is an unsigned int of 32 bits everywhere")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_rx_hash_fields {
    /// IPv4 source address.
    IBV_RX_HASH_SRC_IPV4 = 1 << 0,
    /// IPv4 destination address.
    IBV_RX_HASH_DST_IPV4 = 1 << 1,
    /// IPv6 source address.
    IBV_RX_HASH_SRC_IPV6 = 1 << 2,
    /// IPv6 destination address.
    IBV_RX_HASH_DST_IPV6 = 1 << 3,
    /// TCP source port.
    IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
    /// TCP destination port.
    IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
    /// UDP source port.
    IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
    /// UDP destination port.
    IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
    /// IPsec security parameter index.
    IBV_RX_HASH_IPSEC_SPI = 1 << 8,
    /// Hash the inner headers of a tunnelled packet.
    IBV_RX_HASH_INNER = 1 << 31,
}
pub use ibv_rx_hash_fields::*;

/// Bits of `ibv_device_attr_ex::raw_packet_caps`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_raw_packet_caps {
    /// The customer VLAN tag can be stripped on receive.
    IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
    /// The frame check sequence can be delivered.
    IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
    /// IP checksum offload.
    IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
    /// Packets wait for a receive buffer instead of being dropped at once.
    IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
}
pub use ibv_raw_packet_caps::*;

/// Bits of `ibv_tm_caps::flags`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_tm_cap_flags {
    /// Tag matching on reliable connections.
    IBV_TM_CAP_RC = 1 << 0,
}
pub use ibv_tm_cap_flags::*;

/// Operand sizes of PCIe atomics, for the masks in `ibv_pci_atomic_caps`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_pci_atomic_op_size {
    /// 4 bytes.
    IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
    /// 8 bytes.
    IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
    /// 16 bytes.
    IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
}
pub use ibv_pci_atomic_op_size::*;

/// Sizes, with the terminating NUL, of the strings in `ibv_device`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ibv_sysfs_anon1 {
    /// Device names.
    IBV_SYSFS_NAME_MAX = 64,
    /// Paths.
    IBV_SYSFS_PATH_MAX = 256,
}
pub use ibv_sysfs_anon1::*;

/// The two halves of a GID.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_gid_global {
    /// Upper 64 bits.
    pub subnet_prefix: __be64,
    /// Lower 64 bits.
    pub interface_id: __be64,
}

/// Global identifier: a 128-bit address in network byte order.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_gid {
    /// As bytes.
    pub raw: [u8; 16],
    /// As prefix and identifier.
    pub global: ibv_gid_global,
}

/// One entry of a GID table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_gid_entry {
    /// The identifier.
    pub gid: ibv_gid,
    /// Its index in the port's table.
    pub gid_index: u32,
    /// Port, counted from 1.
    pub port_num: u32,
    /// A value of `ibv_gid_type`.
    pub gid_type: u32,
    /// Index of the network interface behind it, 0 if none.
    pub ndev_ifindex: u32,
}

/// Two dead function pointers at the start of `ibv_device`; never called.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct _ibv_device_ops {
    /// Unused.
    pub _dummy1: Option<unsafe extern "C" fn(device: *mut ibv_device, cmd_fd: c_int) -> *mut ibv_context>,
    /// Unused.
    pub _dummy2: Option<unsafe extern "C" fn(context: *mut ibv_context)>,
}

/// A device found on this machine.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_device {
    /// Unused.
    pub _ops: _ibv_device_ops,
    /// Kind of node.
    pub node_type: ibv_node_type_t,
    /// Transport family.
    pub transport_type: ibv_transport_type_t,
    /// Name of the RDMA device, as "mlx5_0".
    pub name: [c_char; 64],
    /// Name of its verbs device, as "uverbs0".
    pub dev_name: [c_char; 64],
    /// Its directory in /sys/class/infiniband_verbs.
    pub dev_path: [c_char; 256],
    /// Its directory in /sys/class/infiniband.
    pub ibdev_path: [c_char; 256],
}

/// Limits and abilities of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_device_attr {
    /// Firmware version, NUL-terminated.
    pub fw_ver: [c_char; 64],
    /// Node GUID.
    pub node_guid: __be64,
    /// System image GUID.
    pub sys_image_guid: __be64,
    /// Largest memory region in bytes.
    pub max_mr_size: u64,
    /// Mask of supported page sizes.
    pub page_size_cap: u64,
    /// IEEE vendor identifier.
    pub vendor_id: u32,
    /// Vendor's part number.
    pub vendor_part_id: u32,
    /// Vendor's hardware version.
    pub hw_ver: u32,
    /// Queue pairs.
    pub max_qp: c_int,
    /// Outstanding work requests on either queue of a queue pair.
    pub max_qp_wr: c_int,
    /// Bits of `ibv_device_cap_flags`.
    pub device_cap_flags: c_uint,
    /// Scatter-gather entries per work request.
    pub max_sge: c_int,
    /// Scatter-gather entries per RDMA read.
    pub max_sge_rd: c_int,
    /// Completion queues.
    pub max_cq: c_int,
    /// Entries per completion queue.
    pub max_cqe: c_int,
    /// Memory regions.
    pub max_mr: c_int,
    /// Protection domains.
    pub max_pd: c_int,
    /// Incoming RDMA reads and atomics in flight per queue pair.
    pub max_qp_rd_atom: c_int,
    /// The same per end-to-end context.
    pub max_ee_rd_atom: c_int,
    /// Resources for incoming reads and atomics in total.
    pub max_res_rd_atom: c_int,
    /// Outgoing RDMA reads and atomics in flight per queue pair.
    pub max_qp_init_rd_atom: c_int,
    /// The same per end-to-end context.
    pub max_ee_init_rd_atom: c_int,
    /// Reach of atomics.
    pub atomic_cap: ibv_atomic_cap_t,
    /// End-to-end contexts.
    pub max_ee: c_int,
    /// Reliable datagram domains.
    pub max_rdd: c_int,
    /// Memory windows.
    pub max_mw: c_int,
    /// Raw IPv6 queue pairs.
    pub max_raw_ipv6_qp: c_int,
    /// Raw Ethertype queue pairs.
    pub max_raw_ethy_qp: c_int,
    /// Multicast groups.
    pub max_mcast_grp: c_int,
    /// Queue pairs per multicast group.
    pub max_mcast_qp_attach: c_int,
    /// Multicast attachments in total.
    pub max_total_mcast_qp_attach: c_int,
    /// Address handles.
    pub max_ah: c_int,
    /// Fast memory regions.
    pub max_fmr: c_int,
    /// Remaps of a fast memory region before it must be unmapped.
    pub max_map_per_fmr: c_int,
    /// Shared receive queues.
    pub max_srq: c_int,
    /// Work requests per shared receive queue.
    pub max_srq_wr: c_int,
    /// Scatter-gather entries per shared receive request.
    pub max_srq_sge: c_int,
    /// Partition keys per port.
    pub max_pkeys: u16,
    /// Acknowledgement delay: 4.096 µs * 2^value.
    pub local_ca_ack_delay: u8,
    /// Number of ports.
    pub phys_port_cnt: u8,
}

/// Input of `ibv_query_device_ex`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_query_device_ex_input {
    /// Must be 0.
    pub comp_mask: u32,
}

/// On-demand paging by transport; bits of `ibv_odp_transport_cap_bits`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_odp_caps_per_transport_caps {
    /// Reliable connection.
    pub rc_odp_caps: u32,
    /// Unreliable connection.
    pub uc_odp_caps: u32,
    /// Datagram.
    pub ud_odp_caps: u32,
}

/// On-demand paging abilities.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_odp_caps {
    /// Bits of `ibv_odp_general_caps`.
    pub general_caps: u64,
    /// Operations by transport.
    pub per_transport_caps: ibv_odp_caps_per_transport_caps,
}

/// TCP segmentation offload abilities.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_tso_caps {
    /// Largest payload in bytes that the device segments, 0 if none.
    pub max_tso: u32,
    /// Mask of `1 << ibv_qp_type`.
    pub supported_qpts: u32,
}

/// Receive-side scaling abilities.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_rss_caps {
    /// Mask of `1 << ibv_qp_type`.
    pub supported_qpts: u32,
    /// Indirection tables.
    pub max_rwq_indirection_tables: u32,
    /// Entries per indirection table.
    pub max_rwq_indirection_table_size: u32,
    /// Bits of `ibv_rx_hash_fields`.
    pub rx_hash_fields_mask: u64,
    /// Bits of `ibv_rx_hash_function_flags`.
    pub rx_hash_function: u8,
}

/// Rate limiting abilities.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_packet_pacing_caps {
    /// Lowest rate in kbit/s.
    pub qp_rate_limit_min: u32,
    /// Highest rate in kbit/s.
    pub qp_rate_limit_max: u32,
    /// Mask of `1 << ibv_qp_type`.
    pub supported_qpts: u32,
}

/// Tag matching abilities.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_tm_caps {
    /// Largest rendezvous request header in bytes.
    pub max_rndv_hdr_size: u32,
    /// Tagged buffers per matching list.
    pub max_num_tags: u32,
    /// Bits of `ibv_tm_cap_flags`.
    pub flags: u32,
    /// Outstanding list operations.
    pub max_ops: u32,
    /// Scatter-gather entries per tagged buffer.
    pub max_sge: u32,
}

/// Limits of completion moderation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_cq_moderation_caps {
    /// Completions per event.
    pub max_cq_count: u16,
    /// Waiting time in microseconds.
    pub max_cq_period: u16,
}

/// PCIe atomics that the device can issue; masks of `ibv_pci_atomic_op_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_pci_atomic_caps {
    /// Fetch and add.
    pub fetch_add: u16,
    /// Swap.
    pub swap: u16,
    /// Compare and swap.
    pub compare_swap: u16,
}

/// Extended device properties.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_device_attr_ex {
    /// The basic properties.
    pub orig_attr: ibv_device_attr,
    /// Reserved for further fields.
    pub comp_mask: u32,
    /// On-demand paging.
    pub odp_caps: ibv_odp_caps,
    /// Valid bits of completion timestamps, 0 if there are none.
    pub completion_timestamp_mask: u64,
    /// Frequency of the device clock in kHz.
    pub hca_core_clock: u64,
    /// All capability bits, the low 32 as in `device_cap_flags`.
    pub device_cap_flags_ex: u64,
    /// Segmentation offload.
    pub tso_caps: ibv_tso_caps,
    /// Receive-side scaling.
    pub rss_caps: ibv_rss_caps,
    /// Work queues of type receive.
    pub max_wq_type_rq: u32,
    /// Rate limiting.
    pub packet_pacing_caps: ibv_packet_pacing_caps,
    /// Bits of `ibv_raw_packet_caps`.
    pub raw_packet_caps: u32,
    /// Tag matching.
    pub tm_caps: ibv_tm_caps,
    /// Completion moderation.
    pub cq_mod_caps: ibv_cq_moderation_caps,
    /// Device memory in bytes, the largest allocation.
    pub max_dm_size: u64,
    /// PCIe atomics.
    pub pci_atomic_caps: ibv_pci_atomic_caps,
    /// On-demand paging on extended reliable connections.
    pub xrc_odp_caps: u32,
    /// Number of ports, without the 8-bit limit.
    pub phys_port_cnt_ex: u32,
}

/// Properties of a port.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_port_attr {
    /// Logical state.
    pub state: ibv_port_state_t,
    /// Largest MTU of the port.
    pub max_mtu: ibv_mtu_t,
    /// MTU in use.
    pub active_mtu: ibv_mtu_t,
    /// Entries in the GID table.
    pub gid_tbl_len: c_int,
    /// Bits of `ibv_port_cap_flags`.
    pub port_cap_flags: u32,
    /// Largest message in bytes.
    pub max_msg_sz: u32,
    /// Packets with a wrong P_Key.
    pub bad_pkey_cntr: u32,
    /// Packets with a wrong Q_Key.
    pub qkey_viol_cntr: u32,
    /// Entries in the partition key table.
    pub pkey_tbl_len: u16,
    /// Base local identifier.
    pub lid: u16,
    /// Local identifier of the subnet manager.
    pub sm_lid: u16,
    /// Low bits of the local identifier that select a path.
    pub lmc: u8,
    /// Code for the number of virtual lanes.
    pub max_vl_num: u8,
    /// Service level of the subnet manager.
    pub sm_sl: u8,
    /// Subnet propagation delay: 4.096 µs * 2^value.
    pub subnet_timeout: u8,
    /// Initialisation that the subnet manager made.
    pub init_type_reply: u8,
    /// Link width code: 1, 2, 4, 8, 16 stand for 1x, 4x, 8x, 12x, 2x.
    pub active_width: u8,
    /// Link speed code.
    pub active_speed: u8,
    /// Physical link state code.
    pub phys_state: u8,
    /// One of the `IBV_LINK_LAYER_*` values.
    pub link_layer: u8,
    /// `IBV_QPF_*` bits.
    pub flags: u8,
    /// Bits of `ibv_port_cap_flags2`.
    pub port_cap_flags2: u16,
    /// Link speed code of more than 8 bits; 0 where the kernel tells `active_speed` alone.
    pub active_speed_ex: u32,
}
