/* SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <linux/if_ether.h>
#include <linux/types.h>
#include <infiniband/verbs_api.h>

#ifdef __cplusplus
/* Programs have come to rely on this header including it. */
#include <limits>

extern "C" {
#endif

/* Whether a struct of `sz` bytes, as its maker knew it, reaches to the member `fld`. */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/* ibv_context.abi_compat of a context that lies inside a verbs_context. */
#define __VERBS_ABI_IS_EXTENDED ((void *)~(uintptr_t)0)

/* Bits of ibv_device_attr_ex.device_cap_flags_ex that no enumerator can hold. */
#define IBV_DEVICE_RAW_SCATTER_FCS (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
#define IBV_DEVICE_CC_DMA_BOUNCE (1ULL << 41)

/* Answer of a parent domain's allocator: use the provider's own. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

/* Bytes of an Ethernet address. */
#define ETHERNET_LL_SIZE ETH_ALEN

/* UDP source ports of RoCE v2, and the bits of a flow label. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK (0x000FFFFF)

struct _compat_ibv_port_attr;
struct ibv_buf;
struct verbs_ex_private;

/* Generated from src/abi by `cargo run -p xtask -- headers`; do not edit. */

/* Kind of node that a device is on its fabric. */
enum ibv_node_type {
	/* The kernel reported a kind that this library does not know. */
	IBV_NODE_UNKNOWN = -1,
	/* InfiniBand or RoCE channel adapter. */
	IBV_NODE_CA = 1,
	/* InfiniBand switch. */
	IBV_NODE_SWITCH = 2,
	/* InfiniBand router. */
	IBV_NODE_ROUTER = 3,
	/* iWARP network interface. */
	IBV_NODE_RNIC = 4,
	/* usNIC with its own Ethernet protocol. */
	IBV_NODE_USNIC = 5,
	/* usNIC over UDP. */
	IBV_NODE_USNIC_UDP = 6,
	/* Device with a vendor protocol. */
	IBV_NODE_UNSPECIFIED = 7,
};

/* Wire protocol family of a device, derived from its node type. */
enum ibv_transport_type {
	/* Not known. */
	IBV_TRANSPORT_UNKNOWN = -1,
	/* InfiniBand transport, on InfiniBand links or as RoCE. */
	IBV_TRANSPORT_IB = 0,
	/* iWARP. */
	IBV_TRANSPORT_IWARP = 1,
	/* usNIC. */
	IBV_TRANSPORT_USNIC = 2,
	/* usNIC over UDP. */
	IBV_TRANSPORT_USNIC_UDP = 3,
	/* Vendor protocol. */
	IBV_TRANSPORT_UNSPECIFIED = 4,
};

/* Network protocol that a GID table entry stands for. */
enum ibv_gid_type {
	/* InfiniBand link. */
	IBV_GID_TYPE_IB = 0,
	/* RoCE directly over Ethernet. */
	IBV_GID_TYPE_ROCE_V1 = 1,
	/* RoCE over UDP and IP. */
	IBV_GID_TYPE_ROCE_V2 = 2,
};

/* Capability bits in ibv_device_attr::device_cap_flags. */
enum ibv_device_cap_flags {
	/* The number of work requests of a queue pair can be changed after creation. */
	IBV_DEVICE_RESIZE_MAX_WR = 1,
	/* Ports count packets with a wrong P_Key. */
	IBV_DEVICE_BAD_PKEY_CNTR = (1 << 1),
	/* Ports count packets with a wrong Q_Key. */
	IBV_DEVICE_BAD_QKEY_CNTR = (1 << 2),
	/* Raw packets can be multicast. */
	IBV_DEVICE_RAW_MULTI = (1 << 3),
	/* Automatic path migration. */
	IBV_DEVICE_AUTO_PATH_MIG = (1 << 4),
	/* The primary port can change while the queue pair moves from SQD to RTS. */
	IBV_DEVICE_CHANGE_PHY_PORT = (1 << 5),
	/* Address handles of datagram queue pairs are checked against the port. */
	IBV_DEVICE_UD_AV_PORT_ENFORCE = (1 << 6),
	/* The current-state modifier of modify-QP is honoured. */
	IBV_DEVICE_CURR_QP_STATE_MOD = (1 << 7),
	/* A port can be shut down. */
	IBV_DEVICE_SHUTDOWN_PORT = (1 << 8),
	/* The port initialisation type can be set. */
	IBV_DEVICE_INIT_TYPE = (1 << 9),
	/* A port that becomes active raises an event. */
	IBV_DEVICE_PORT_ACTIVE_EVENT = (1 << 10),
	/* The system image GUID is reported. */
	IBV_DEVICE_SYS_IMAGE_GUID = (1 << 11),
	/* Reliable connections answer "receiver not ready". */
	IBV_DEVICE_RC_RNR_NAK_GEN = (1 << 12),
	/* Shared receive queues can be resized. */
	IBV_DEVICE_SRQ_RESIZE = (1 << 13),
	/* Notification after N completions can be requested. */
	IBV_DEVICE_N_NOTIFY_CQ = (1 << 14),
	/* Memory windows of type 1. */
	IBV_DEVICE_MEM_WINDOW = (1 << 17),
	/* IP checksum offload on datagram queue pairs. */
	IBV_DEVICE_UD_IP_CSUM = (1 << 18),
	/* Extended reliable connections. */
	IBV_DEVICE_XRC = (1 << 20),
	/* Send with invalidate, local invalidate and fast registration. */
	IBV_DEVICE_MEM_MGT_EXTENSIONS = (1 << 21),
	/* Memory windows of type 2A. */
	IBV_DEVICE_MEM_WINDOW_TYPE_2A = (1 << 23),
	/* Memory windows of type 2B. */
	IBV_DEVICE_MEM_WINDOW_TYPE_2B = (1 << 24),
	/* IP checksum offload on reliable connections. */
	IBV_DEVICE_RC_IP_CSUM = (1 << 25),
	/* IP checksum offload on raw packet queue pairs. */
	IBV_DEVICE_RAW_IP_CSUM = (1 << 26),
	/* Flow steering rules are managed by the device. */
	IBV_DEVICE_MANAGED_FLOW_STEERING = (1 << 29),
};

/* Reach of atomic operations. */
enum ibv_atomic_cap {
	/* No atomics. */
	IBV_ATOMIC_NONE = 0,
	/* Atomic among operations of this device. */
	IBV_ATOMIC_HCA = 1,
	/* Atomic also with respect to processors and other devices. */
	IBV_ATOMIC_GLOB = 2,
};

/* Whether registered memory survives fork. */
enum ibv_fork_status {
	/* Protection was not asked for. */
	IBV_FORK_DISABLED = 0,
	/* The library marks registered pages so that children do not inherit them. */
	IBV_FORK_ENABLED = 1,
	/* The kernel copies pinned pages at fork, nothing needs doing. */
	IBV_FORK_UNNEEDED = 2,
};

/* Path or port MTU; payload bytes per packet. */
enum ibv_mtu {
	/* 256 bytes. */
	IBV_MTU_256 = 1,
	/* 512 bytes. */
	IBV_MTU_512 = 2,
	/* 1024 bytes. */
	IBV_MTU_1024 = 3,
	/* 2048 bytes. */
	IBV_MTU_2048 = 4,
	/* 4096 bytes. */
	IBV_MTU_4096 = 5,
};

/* Logical state of a port. */
enum ibv_port_state {
	/* No state change (only meaningful in requests). */
	IBV_PORT_NOP = 0,
	/* No link. */
	IBV_PORT_DOWN = 1,
	/* Link is up, the subnet manager has not configured it. */
	IBV_PORT_INIT = 2,
	/* Configured, waiting to become active. */
	IBV_PORT_ARMED = 3,
	/* Ready for data. */
	IBV_PORT_ACTIVE = 4,
	/* Active, with the link temporarily lost. */
	IBV_PORT_ACTIVE_DEFER = 5,
};

/* Link layer of a port (ibv_port_attr::link_layer). */
enum {
	/* Old kernel: InfiniBand is meant for InfiniBand transport. */
	IBV_LINK_LAYER_UNSPECIFIED = 0,
	/* InfiniBand. */
	IBV_LINK_LAYER_INFINIBAND = 1,
	/* Ethernet. */
	IBV_LINK_LAYER_ETHERNET = 2,
};

/* Bits of ibv_port_attr::port_cap_flags, the port's CapabilityMask. */
enum ibv_port_cap_flags {
	/* A subnet manager runs on the port. */
	IBV_PORT_SM = (1 << 1),
	/* Notices. */
	IBV_PORT_NOTICE_SUP = (1 << 2),
	/* Traps. */
	IBV_PORT_TRAP_SUP = (1 << 3),
	/* Optional inter-packet delay values. */
	IBV_PORT_OPT_IPD_SUP = (1 << 4),
	/* Automatic path migration. */
	IBV_PORT_AUTO_MIGR_SUP = (1 << 5),
	/* Service level mapping table. */
	IBV_PORT_SL_MAP_SUP = (1 << 6),
	/* M_Key kept in non-volatile memory. */
	IBV_PORT_MKEY_NVRAM = (1 << 7),
	/* P_Keys kept in non-volatile memory. */
	IBV_PORT_PKEY_NVRAM = (1 << 8),
	/* Port LED information. */
	IBV_PORT_LED_INFO_SUP = (1 << 9),
	/* System image GUID. */
	IBV_PORT_SYS_IMAGE_GUID_SUP = (1 << 11),
	/* P_Key violations at external switch ports raise traps. */
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = (1 << 12),
	/* Extended link speeds (FDR and faster). */
	IBV_PORT_EXTENDED_SPEEDS_SUP = (1 << 14),
	/* port_cap_flags2 is valid. */
	IBV_PORT_CAP_MASK2_SUP = (1 << 15),
	/* Communication management. */
	IBV_PORT_CM_SUP = (1 << 16),
	/* SNMP tunnelling. */
	IBV_PORT_SNMP_TUNNEL_SUP = (1 << 17),
	/* Reinitialisation. */
	IBV_PORT_REINIT_SUP = (1 << 18),
	/* Device management. */
	IBV_PORT_DEVICE_MGMT_SUP = (1 << 19),
	/* Vendor-specific management class. */
	IBV_PORT_VENDOR_CLASS_SUP = (1 << 20),
	/* Directed-route notices. */
	IBV_PORT_DR_NOTICE_SUP = (1 << 21),
	/* Notices about capability changes. */
	IBV_PORT_CAP_MASK_NOTICE_SUP = (1 << 22),
	/* Boot management. */
	IBV_PORT_BOOT_MGMT_SUP = (1 << 23),
	/* Link round-trip latency. */
	IBV_PORT_LINK_LATENCY_SUP = (1 << 24),
	/* Client reregistration. */
	IBV_PORT_CLIENT_REG_SUP = (1 << 25),
	/* GIDs of an Ethernet port come from IP addresses. */
	IBV_PORT_IP_BASED_GIDS = (1 << 26),
};

/* Bits of ibv_port_attr::port_cap_flags2, the port's CapabilityMask2. */
enum ibv_port_cap_flags2 {
	/* The node description can be set. */
	IBV_PORT_SET_NODE_DESC_SUP = (1 << 0),
	/* Extended port information. */
	IBV_PORT_INFO_EXT_SUP = (1 << 1),
	/* Virtualisation. */
	IBV_PORT_VIRT_SUP = (1 << 2),
	/* Switch port state table. */
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = (1 << 3),
	/* 2x link width. */
	IBV_PORT_LINK_WIDTH_2X_SUP = (1 << 4),
	/* HDR link speed. */
	IBV_PORT_LINK_SPEED_HDR_SUP = (1 << 5),
	/* NDR link speed. */
	IBV_PORT_LINK_SPEED_NDR_SUP = (1 << 10),
	/* XDR link speed. */
	IBV_PORT_LINK_SPEED_XDR_SUP = (1 << 12),
};

/* Operations that may touch on-demand-paged memory. */
enum ibv_odp_transport_cap_bits {
	/* Send. */
	IBV_ODP_SUPPORT_SEND = (1 << 0),
	/* Receive. */
	IBV_ODP_SUPPORT_RECV = (1 << 1),
	/* RDMA write. */
	IBV_ODP_SUPPORT_WRITE = (1 << 2),
	/* RDMA read. */
	IBV_ODP_SUPPORT_READ = (1 << 3),
	/* Atomics. */
	IBV_ODP_SUPPORT_ATOMIC = (1 << 4),
	/* Receive through a shared receive queue. */
	IBV_ODP_SUPPORT_SRQ_RECV = (1 << 5),
	/* Flush. */
	IBV_ODP_SUPPORT_FLUSH = (1 << 6),
	/* Atomic write. */
	IBV_ODP_SUPPORT_ATOMIC_WRITE = (1 << 7),
};

/* Bits of ibv_odp_caps::general_caps. */
enum ibv_odp_general_caps {
	/* On-demand paging exists. */
	IBV_ODP_SUPPORT = (1 << 0),
	/* A region may cover the whole address space. */
	IBV_ODP_SUPPORT_IMPLICIT = (1 << 1),
};

/* Hash functions for spreading received packets. */
enum ibv_rx_hash_function_flags {
	/* Toeplitz hash. */
	IBV_RX_HASH_FUNC_TOEPLITZ = (1 << 0),
};

/* Packet fields that take part in the receive hash. IPv4 excludes IPv6, TCP excludes UDP. */
__extension__ enum ibv_rx_hash_fields {
	/* IPv4 source address. */
	IBV_RX_HASH_SRC_IPV4 = (1 << 0),
	/* IPv4 destination address. */
	IBV_RX_HASH_DST_IPV4 = (1 << 1),
	/* IPv6 source address. */
	IBV_RX_HASH_SRC_IPV6 = (1 << 2),
	/* IPv6 destination address. */
	IBV_RX_HASH_DST_IPV6 = (1 << 3),
	/* TCP source port. */
	IBV_RX_HASH_SRC_PORT_TCP = (1 << 4),
	/* TCP destination port. */
	IBV_RX_HASH_DST_PORT_TCP = (1 << 5),
	/* UDP source port. */
	IBV_RX_HASH_SRC_PORT_UDP = (1 << 6),
	/* UDP destination port. */
	IBV_RX_HASH_DST_PORT_UDP = (1 << 7),
	/* IPsec security parameter index. */
	IBV_RX_HASH_IPSEC_SPI = (1 << 8),
	/* Hash the inner headers of a tunnelled packet. */
	IBV_RX_HASH_INNER = (1U << 31),
};

/* Bits of ibv_device_attr_ex::raw_packet_caps. */
enum ibv_raw_packet_caps {
	/* The customer VLAN tag can be stripped on receive. */
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = (1 << 0),
	/* The frame check sequence can be delivered. */
	IBV_RAW_PACKET_CAP_SCATTER_FCS = (1 << 1),
	/* IP checksum offload. */
	IBV_RAW_PACKET_CAP_IP_CSUM = (1 << 2),
	/* Packets wait for a receive buffer instead of being dropped at once. */
	IBV_RAW_PACKET_CAP_DELAY_DROP = (1 << 3),
};

/* Bits of ibv_tm_caps::flags. */
enum ibv_tm_cap_flags {
	/* Tag matching on reliable connections. */
	IBV_TM_CAP_RC = (1 << 0),
};

/* Operand sizes of PCIe atomics, for the masks in ibv_pci_atomic_caps. */
enum ibv_pci_atomic_op_size {
	/* 4 bytes. */
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = (1 << 0),
	/* 8 bytes. */
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = (1 << 1),
	/* 16 bytes. */
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = (1 << 2),
};

/* Sizes, with the terminating NUL, of the strings in ibv_device. */
enum {
	/* Device names. */
	IBV_SYSFS_NAME_MAX = 64,
	/* Paths. */
	IBV_SYSFS_PATH_MAX = 256,
};

/* What happened. */
enum ibv_event_type {
	/* A completion queue overran or failed. */
	IBV_EVENT_CQ_ERR = 0,
	/* A queue pair failed. */
	IBV_EVENT_QP_FATAL = 1,
	/* A queue pair received an invalid request. */
	IBV_EVENT_QP_REQ_ERR = 2,
	/* A queue pair received a request without the access right. */
	IBV_EVENT_QP_ACCESS_ERR = 3,
	/* The first packet arrived before the connection reached RTS. */
	IBV_EVENT_COMM_EST = 4,
	/* A send queue in SQD finished its outstanding requests. */
	IBV_EVENT_SQ_DRAINED = 5,
	/* The connection moved to its alternate path. */
	IBV_EVENT_PATH_MIG = 6,
	/* Moving to the alternate path failed. */
	IBV_EVENT_PATH_MIG_ERR = 7,
	/* The device failed or was removed. */
	IBV_EVENT_DEVICE_FATAL = 8,
	/* A port became active. */
	IBV_EVENT_PORT_ACTIVE = 9,
	/* A port lost its link. */
	IBV_EVENT_PORT_ERR = 10,
	/* A port got another local identifier. */
	IBV_EVENT_LID_CHANGE = 11,
	/* A port's partition table changed. */
	IBV_EVENT_PKEY_CHANGE = 12,
	/* Another subnet manager took over. */
	IBV_EVENT_SM_CHANGE = 13,
	/* A shared receive queue failed. */
	IBV_EVENT_SRQ_ERR = 14,
	/* A shared receive queue fell below its limit. */
	IBV_EVENT_SRQ_LIMIT_REACHED = 15,
	/* A queue pair in error took its last request from the shared receive queue. */
	IBV_EVENT_QP_LAST_WQE_REACHED = 16,
	/* The subnet manager asks clients to register again. */
	IBV_EVENT_CLIENT_REREGISTER = 17,
	/* A port's GID table changed. */
	IBV_EVENT_GID_CHANGE = 18,
	/* A work queue failed. */
	IBV_EVENT_WQ_FATAL = 19,
	/* The speed of the device's link has changed. */
	IBV_EVENT_DEVICE_SPEED_CHANGE = 20,
};

/* Result of a work request. */
enum ibv_wc_status {
	/* Done. */
	IBV_WC_SUCCESS = 0,
	/* Local buffers are too short or the message too long. */
	IBV_WC_LOC_LEN_ERR = 1,
	/* The request is inconsistent with the queue pair. */
	IBV_WC_LOC_QP_OP_ERR = 2,
	/* The request is inconsistent with the end-to-end context. */
	IBV_WC_LOC_EEC_OP_ERR = 3,
	/* A local key, range or right is wrong. */
	IBV_WC_LOC_PROT_ERR = 4,
	/* The queue pair went to the error state first. */
	IBV_WC_WR_FLUSH_ERR = 5,
	/* Binding a memory window failed. */
	IBV_WC_MW_BIND_ERR = 6,
	/* The responder answered with an unexpected opcode. */
	IBV_WC_BAD_RESP_ERR = 7,
	/* Writing to a local buffer failed while receiving. */
	IBV_WC_LOC_ACCESS_ERR = 8,
	/* The responder found the request invalid. */
	IBV_WC_REM_INV_REQ_ERR = 9,
	/* The responder refused access to its memory. */
	IBV_WC_REM_ACCESS_ERR = 10,
	/* The responder failed to carry the request out. */
	IBV_WC_REM_OP_ERR = 11,
	/* No acknowledgement after all retries. */
	IBV_WC_RETRY_EXC_ERR = 12,
	/* The receiver was never ready. */
	IBV_WC_RNR_RETRY_EXC_ERR = 13,
	/* Reliable datagram domain mismatch. */
	IBV_WC_LOC_RDD_VIOL_ERR = 14,
	/* The responder found a reliable datagram request invalid. */
	IBV_WC_REM_INV_RD_REQ_ERR = 15,
	/* The responder aborted. */
	IBV_WC_REM_ABORT_ERR = 16,
	/* Invalid end-to-end context number. */
	IBV_WC_INV_EECN_ERR = 17,
	/* Invalid state of the end-to-end context. */
	IBV_WC_INV_EEC_STATE_ERR = 18,
	/* Fatal error of the device. */
	IBV_WC_FATAL_ERR = 19,
	/* The response took too long. */
	IBV_WC_RESP_TIMEOUT_ERR = 20,
	/* Any other error. */
	IBV_WC_GENERAL_ERR = 21,
	/* Tag matching failed. */
	IBV_WC_TM_ERR = 22,
	/* Software must finish a rendezvous transfer. */
	IBV_WC_TM_RNDV_INCOMPLETE = 23,
};

/* Operation that completed. */
enum ibv_wc_opcode {
	/* Send. */
	IBV_WC_SEND = 0,
	/* RDMA write. */
	IBV_WC_RDMA_WRITE = 1,
	/* RDMA read. */
	IBV_WC_RDMA_READ = 2,
	/* Compare and swap. */
	IBV_WC_COMP_SWAP = 3,
	/* Fetch and add. */
	IBV_WC_FETCH_ADD = 4,
	/* Memory window bind. */
	IBV_WC_BIND_MW = 5,
	/* Local invalidate. */
	IBV_WC_LOCAL_INV = 6,
	/* Segmented send. */
	IBV_WC_TSO = 7,
	/* Flush. */
	IBV_WC_FLUSH = 8,
	/* Atomic write. */
	IBV_WC_ATOMIC_WRITE = 9,
	/* Receive. Every receive-side opcode has this bit, no other has. */
	IBV_WC_RECV = (1 << 7),
	/* Receive consumed by an RDMA write with immediate data. */
	IBV_WC_RECV_RDMA_WITH_IMM = 129,
	/* Tag added to the matching list. */
	IBV_WC_TM_ADD = 130,
	/* Tag removed from the matching list. */
	IBV_WC_TM_DEL = 131,
	/* Matching list synchronised. */
	IBV_WC_TM_SYNC = 132,
	/* Tagged message received. */
	IBV_WC_TM_RECV = 133,
	/* Message without a tag received. */
	IBV_WC_TM_NO_TAG = 134,
	/* Vendor operation. */
	IBV_WC_DRIVER1 = 135,
	/* Vendor operation. */
	IBV_WC_DRIVER2 = 136,
	/* Vendor operation. */
	IBV_WC_DRIVER3 = 137,
};

/* Position of the checksum bit in ibv_wc_flags. */
enum {
	/* Shift count of IBV_WC_IP_CSUM_OK. */
	IBV_WC_IP_CSUM_OK_SHIFT = 2,
};

/* Completion fields that an extended completion queue shall offer. */
enum ibv_create_cq_wc_flags {
	/* Length. */
	IBV_WC_EX_WITH_BYTE_LEN = (1 << 0),
	/* Immediate data. */
	IBV_WC_EX_WITH_IMM = (1 << 1),
	/* Local queue pair number. */
	IBV_WC_EX_WITH_QP_NUM = (1 << 2),
	/* Sender's queue pair number. */
	IBV_WC_EX_WITH_SRC_QP = (1 << 3),
	/* Sender's local identifier. */
	IBV_WC_EX_WITH_SLID = (1 << 4),
	/* Service level. */
	IBV_WC_EX_WITH_SL = (1 << 5),
	/* Destination path bits. */
	IBV_WC_EX_WITH_DLID_PATH_BITS = (1 << 6),
	/* Timestamp in device clock ticks. */
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = (1 << 7),
	/* Customer VLAN tag. */
	IBV_WC_EX_WITH_CVLAN = (1 << 8),
	/* Tag of the flow rule. */
	IBV_WC_EX_WITH_FLOW_TAG = (1 << 9),
	/* Tag matching information. */
	IBV_WC_EX_WITH_TM_INFO = (1 << 10),
	/* Timestamp in nanoseconds of the real-time clock. */
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = (1 << 11),
};

/* Fields that a plain ibv_wc has. */
enum {
	/* Mask of the IBV_WC_EX_WITH_* bits from BYTE_LEN to DLID_PATH_BITS. */
	IBV_WC_STANDARD_FLAGS = 127,
};

/* Fields that extended completion queues know. */
enum {
	/* Mask of all IBV_WC_EX_WITH_* bits. */
	IBV_CREATE_CQ_SUP_WC_FLAGS = 4095,
};

/* Bits of ibv_wc::wc_flags. */
enum ibv_wc_flags {
	/* A global routing header precedes the data. */
	IBV_WC_GRH = (1 << 0),
	/* Immediate data is valid. */
	IBV_WC_WITH_IMM = (1 << 1),
	/* IP and transport checksums were verified. */
	IBV_WC_IP_CSUM_OK = (1 << 2),
	/* A key was invalidated. */
	IBV_WC_WITH_INV = (1 << 3),
	/* The matching list needs synchronising. */
	IBV_WC_TM_SYNC_REQ = (1 << 4),
	/* The message matched a tag. */
	IBV_WC_TM_MATCH = (1 << 5),
	/* The message's data is in the buffer. */
	IBV_WC_TM_DATA_VALID = (1 << 6),
};

/* Valid fields of ibv_modify_cq_attr. */
enum ibv_cq_attr_mask {
	/* moderate. */
	IBV_CQ_ATTR_MODERATE = (1 << 0),
	/* First bit without a meaning. */
	IBV_CQ_ATTR_RESERVED = (1 << 1),
};

/* Valid fields of ibv_cq_init_attr_ex. */
enum ibv_cq_init_attr_mask {
	/* flags. */
	IBV_CQ_INIT_ATTR_MASK_FLAGS = (1 << 0),
	/* parent_domain. */
	IBV_CQ_INIT_ATTR_MASK_PD = (1 << 1),
};

/* Bits of ibv_cq_init_attr_ex::flags. */
enum ibv_create_cq_attr_flags {
	/* One thread at a time uses the queue; no lock is needed. */
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = (1 << 0),
	/* The queue cannot overrun; the device need not check. */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = (1 << 1),
};

/* Rights of a memory region, a window or a queue pair. */
enum ibv_access_flags {
	/* The local device may write. */
	IBV_ACCESS_LOCAL_WRITE = 1,
	/* Peers may write. */
	IBV_ACCESS_REMOTE_WRITE = (1 << 1),
	/* Peers may read. */
	IBV_ACCESS_REMOTE_READ = (1 << 2),
	/* Peers may run atomics. */
	IBV_ACCESS_REMOTE_ATOMIC = (1 << 3),
	/* Memory windows may be bound to the region. */
	IBV_ACCESS_MW_BIND = (1 << 4),
	/* Addresses count from 0 at the start of the region. */
	IBV_ACCESS_ZERO_BASED = (1 << 5),
	/* Pages are not pinned but faulted in. */
	IBV_ACCESS_ON_DEMAND = (1 << 6),
	/* The memory consists of huge pages. */
	IBV_ACCESS_HUGETLB = (1 << 7),
	/* Peers may flush for everybody to see. */
	IBV_ACCESS_FLUSH_GLOBAL = (1 << 8),
	/* Peers may flush to persistent memory. */
	IBV_ACCESS_FLUSH_PERSISTENT = (1 << 9),
	/* PCI writes may pass each other; optional right, ignored where unknown. */
	IBV_ACCESS_RELAXED_ORDERING = (1 << 20),
};

/* What ibv_rereg_mr changes. */
enum ibv_rereg_mr_flags {
	/* Address and length. */
	IBV_REREG_MR_CHANGE_TRANSLATION = (1 << 0),
	/* Protection domain. */
	IBV_REREG_MR_CHANGE_PD = (1 << 1),
	/* Rights. */
	IBV_REREG_MR_CHANGE_ACCESS = (1 << 2),
	/* Mask of the known bits. */
	IBV_REREG_MR_FLAGS_SUPPORTED = 7,
};

/* Negative results of ibv_rereg_mr: whether the region is still usable. */
enum ibv_rereg_mr_err_code {
	/* Invalid argument; the old region is intact. */
	IBV_REREG_MR_ERR_INPUT = -1,
	/* The new range could not be protected against fork; the old region is intact. */
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
	/* The old range is still protected against fork; the new region is valid. */
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
	/* The kernel refused; the region must not be used. */
	IBV_REREG_MR_ERR_CMD = -4,
	/* As ERR_CMD, and the new range stays protected against fork. */
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
};

/* Kind of memory window. */
enum ibv_mw_type {
	/* Bound by ibv_bind_mw. */
	IBV_MW_TYPE_1 = 1,
	/* Bound by a work request. */
	IBV_MW_TYPE_2 = 2,
};

/* Valid fields of ibv_xrcd_init_attr. */
enum ibv_xrcd_init_attr_mask {
	/* fd. */
	IBV_XRCD_INIT_ATTR_FD = (1 << 0),
	/* oflags. */
	IBV_XRCD_INIT_ATTR_OFLAGS = (1 << 1),
	/* First bit without a meaning. */
	IBV_XRCD_INIT_ATTR_RESERVED = (1 << 2),
};

/* Valid extra fields of ibv_dm. */
enum ibv_dm_mask {
	/* handle. */
	IBV_DM_MASK_HANDLE = (1 << 0),
};

/* Valid fields of ibv_parent_domain_init_attr. */
enum ibv_parent_domain_init_attr_mask {
	/* alloc and free. */
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = (1 << 0),
	/* pd_context. */
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = (1 << 1),
	/* Buffers may lie in memory that a confidential guest shares with its host. */
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = (1 << 2),
};

/* Valid fields of ibv_mr_init_attr. */
enum ibv_mr_init_attr_mask {
	/* iova. */
	IBV_REG_MR_MASK_IOVA = (1 << 0),
	/* addr. */
	IBV_REG_MR_MASK_ADDR = (1 << 1),
	/* fd. */
	IBV_REG_MR_MASK_FD = (1 << 2),
	/* fd_offset. */
	IBV_REG_MR_MASK_FD_OFFSET = (1 << 3),
	/* dmah. */
	IBV_REG_MR_MASK_DMAH = (1 << 4),
	/* buf. */
	IBV_REG_MR_MASK_BUF = (1 << 5),
};

/* Kind of memory that hints for direct memory access are about. */
enum ibv_tph_mem_type {
	/* Volatile. */
	IBV_TPH_MEM_TYPE_VM = 0,
	/* Persistent. */
	IBV_TPH_MEM_TYPE_PM = 1,
};

/* Valid fields of ibv_dmah_init_attr. */
enum ibv_dmah_init_attr_mask {
	/* cpu_id. */
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = (1 << 0),
	/* ph. */
	IBV_DMAH_INIT_ATTR_MASK_PH = (1 << 1),
	/* tph_mem_type. */
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = (1 << 2),
};

/* Static rate limit. */
enum ibv_rate {
	/* Rate of the port. */
	IBV_RATE_MAX = 0,
	/* 2.5 Gbit/s. */
	IBV_RATE_2_5_GBPS = 2,
	/* 5 Gbit/s. */
	IBV_RATE_5_GBPS = 5,
	/* 10 Gbit/s. */
	IBV_RATE_10_GBPS = 3,
	/* 20 Gbit/s. */
	IBV_RATE_20_GBPS = 6,
	/* 30 Gbit/s. */
	IBV_RATE_30_GBPS = 4,
	/* 40 Gbit/s. */
	IBV_RATE_40_GBPS = 7,
	/* 60 Gbit/s. */
	IBV_RATE_60_GBPS = 8,
	/* 80 Gbit/s. */
	IBV_RATE_80_GBPS = 9,
	/* 120 Gbit/s. */
	IBV_RATE_120_GBPS = 10,
	/* 14 Gbit/s. */
	IBV_RATE_14_GBPS = 11,
	/* 56 Gbit/s. */
	IBV_RATE_56_GBPS = 12,
	/* 112 Gbit/s. */
	IBV_RATE_112_GBPS = 13,
	/* 168 Gbit/s. */
	IBV_RATE_168_GBPS = 14,
	/* 25 Gbit/s. */
	IBV_RATE_25_GBPS = 15,
	/* 100 Gbit/s. */
	IBV_RATE_100_GBPS = 16,
	/* 200 Gbit/s. */
	IBV_RATE_200_GBPS = 17,
	/* 300 Gbit/s. */
	IBV_RATE_300_GBPS = 18,
	/* 28 Gbit/s. */
	IBV_RATE_28_GBPS = 19,
	/* 50 Gbit/s. */
	IBV_RATE_50_GBPS = 20,
	/* 400 Gbit/s. */
	IBV_RATE_400_GBPS = 21,
	/* 600 Gbit/s. */
	IBV_RATE_600_GBPS = 22,
	/* 800 Gbit/s. */
	IBV_RATE_800_GBPS = 23,
	/* 1200 Gbit/s. */
	IBV_RATE_1200_GBPS = 24,
};

/* Service of a queue pair. */
enum ibv_qp_type {
	/* Reliable connection. */
	IBV_QPT_RC = 2,
	/* Unreliable connection. */
	IBV_QPT_UC = 3,
	/* Unreliable datagram. */
	IBV_QPT_UD = 4,
	/* Raw Ethernet packets. */
	IBV_QPT_RAW_PACKET = 8,
	/* Initiator of an extended reliable connection. */
	IBV_QPT_XRC_SEND = 9,
	/* Target of an extended reliable connection. */
	IBV_QPT_XRC_RECV = 10,
	/* Defined by the vendor. */
	IBV_QPT_DRIVER = 255,
};

/* State of a queue pair. */
enum ibv_qp_state {
	/* Created, not usable. */
	IBV_QPS_RESET = 0,
	/* Receives may be posted. */
	IBV_QPS_INIT = 1,
	/* Ready to receive. */
	IBV_QPS_RTR = 2,
	/* Ready to send. */
	IBV_QPS_RTS = 3,
	/* Send queue drains. */
	IBV_QPS_SQD = 4,
	/* Send queue failed (not for reliable connections). */
	IBV_QPS_SQE = 5,
	/* Error; outstanding requests are flushed. */
	IBV_QPS_ERR = 6,
	/* Not known. */
	IBV_QPS_UNKNOWN = 7,
};

/* Path migration state. */
enum ibv_mig_state {
	/* Primary path in use, none loaded. */
	IBV_MIG_MIGRATED = 0,
	/* Rearming. */
	IBV_MIG_REARM = 1,
	/* Alternate path ready. */
	IBV_MIG_ARMED = 2,
};

/* Valid fields of ibv_qp_init_attr_ex. */
enum ibv_qp_init_attr_mask {
	/* pd. */
	IBV_QP_INIT_ATTR_PD = (1 << 0),
	/* xrcd. */
	IBV_QP_INIT_ATTR_XRCD = (1 << 1),
	/* create_flags. */
	IBV_QP_INIT_ATTR_CREATE_FLAGS = (1 << 2),
	/* max_tso_header. */
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = (1 << 3),
	/* rwq_ind_tbl. */
	IBV_QP_INIT_ATTR_IND_TABLE = (1 << 4),
	/* rx_hash_conf. */
	IBV_QP_INIT_ATTR_RX_HASH = (1 << 5),
	/* send_ops_flags. */
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = (1 << 6),
};

/* Bits of ibv_qp_init_attr_ex::create_flags. */
enum ibv_qp_create_flags {
	/* Own multicast packets are not looped back. */
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = (1 << 1),
	/* Deliver the frame check sequence. */
	IBV_QP_CREATE_SCATTER_FCS = (1 << 8),
	/* Strip the customer VLAN tag. */
	IBV_QP_CREATE_CVLAN_STRIPPING = (1 << 9),
	/* Send with source_qpn as the source. */
	IBV_QP_CREATE_SOURCE_QPN = (1 << 10),
	/* Pad PCI writes to a cache line. */
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = (1 << 11),
};

/* Operations that an extended queue pair shall offer. */
enum ibv_qp_create_send_ops_flags {
	/* RDMA write. */
	IBV_QP_EX_WITH_RDMA_WRITE = (1 << 0),
	/* RDMA write with immediate data. */
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = (1 << 1),
	/* Send. */
	IBV_QP_EX_WITH_SEND = (1 << 2),
	/* Send with immediate data. */
	IBV_QP_EX_WITH_SEND_WITH_IMM = (1 << 3),
	/* RDMA read. */
	IBV_QP_EX_WITH_RDMA_READ = (1 << 4),
	/* Compare and swap. */
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = (1 << 5),
	/* Fetch and add. */
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = (1 << 6),
	/* Local invalidate. */
	IBV_QP_EX_WITH_LOCAL_INV = (1 << 7),
	/* Memory window bind. */
	IBV_QP_EX_WITH_BIND_MW = (1 << 8),
	/* Send with invalidate. */
	IBV_QP_EX_WITH_SEND_WITH_INV = (1 << 9),
	/* Segmented send. */
	IBV_QP_EX_WITH_TSO = (1 << 10),
	/* Flush. */
	IBV_QP_EX_WITH_FLUSH = (1 << 11),
	/* Atomic write. */
	IBV_QP_EX_WITH_ATOMIC_WRITE = (1 << 12),
};

/* Valid fields of ibv_qp_open_attr. */
enum ibv_qp_open_attr_mask {
	/* qp_num. */
	IBV_QP_OPEN_ATTR_NUM = (1 << 0),
	/* xrcd. */
	IBV_QP_OPEN_ATTR_XRCD = (1 << 1),
	/* qp_context. */
	IBV_QP_OPEN_ATTR_CONTEXT = (1 << 2),
	/* qp_type. */
	IBV_QP_OPEN_ATTR_TYPE = (1 << 3),
	/* First bit without a meaning. */
	IBV_QP_OPEN_ATTR_RESERVED = (1 << 4),
};

/* Valid fields of ibv_qp_attr. */
enum ibv_qp_attr_mask {
	/* qp_state. */
	IBV_QP_STATE = (1 << 0),
	/* cur_qp_state. */
	IBV_QP_CUR_STATE = (1 << 1),
	/* en_sqd_async_notify. */
	IBV_QP_EN_SQD_ASYNC_NOTIFY = (1 << 2),
	/* qp_access_flags. */
	IBV_QP_ACCESS_FLAGS = (1 << 3),
	/* pkey_index. */
	IBV_QP_PKEY_INDEX = (1 << 4),
	/* port_num. */
	IBV_QP_PORT = (1 << 5),
	/* qkey. */
	IBV_QP_QKEY = (1 << 6),
	/* ah_attr. */
	IBV_QP_AV = (1 << 7),
	/* path_mtu. */
	IBV_QP_PATH_MTU = (1 << 8),
	/* timeout. */
	IBV_QP_TIMEOUT = (1 << 9),
	/* retry_cnt. */
	IBV_QP_RETRY_CNT = (1 << 10),
	/* rnr_retry. */
	IBV_QP_RNR_RETRY = (1 << 11),
	/* rq_psn. */
	IBV_QP_RQ_PSN = (1 << 12),
	/* max_rd_atomic. */
	IBV_QP_MAX_QP_RD_ATOMIC = (1 << 13),
	/* alt_ah_attr and the other alt_ fields. */
	IBV_QP_ALT_PATH = (1 << 14),
	/* min_rnr_timer. */
	IBV_QP_MIN_RNR_TIMER = (1 << 15),
	/* sq_psn. */
	IBV_QP_SQ_PSN = (1 << 16),
	/* max_dest_rd_atomic. */
	IBV_QP_MAX_DEST_RD_ATOMIC = (1 << 17),
	/* path_mig_state. */
	IBV_QP_PATH_MIG_STATE = (1 << 18),
	/* cap. */
	IBV_QP_CAP = (1 << 19),
	/* dest_qp_num. */
	IBV_QP_DEST_QPN = (1 << 20),
	/* rate_limit. */
	IBV_QP_RATE_LIMIT = (1 << 25),
};

/* Options of ibv_query_qp_data_in_order. */
enum ibv_query_qp_data_in_order_flags {
	/* Answer with bits of ibv_query_qp_data_in_order_caps, not with 0 or 1. */
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = (1 << 0),
	/* What the device alone guarantees, whatever the processor's architecture is. */
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = (1 << 1),
};

/* What is guaranteed to land in memory in order. */
enum ibv_query_qp_data_in_order_caps {
	/* The whole message. */
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = (1 << 0),
	/* Each aligned block of 128 bytes in itself. */
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = (1 << 1),
};

/* Kind of shared receive queue. */
enum ibv_srq_type {
	/* Plain. */
	IBV_SRQT_BASIC = 0,
	/* For extended reliable connections. */
	IBV_SRQT_XRC = 1,
	/* With tag matching. */
	IBV_SRQT_TM = 2,
};

/* Fields that ibv_modify_srq changes. */
enum ibv_srq_attr_mask {
	/* max_wr. */
	IBV_SRQ_MAX_WR = (1 << 0),
	/* srq_limit. */
	IBV_SRQ_LIMIT = (1 << 1),
};

/* Valid fields of ibv_srq_init_attr_ex. */
enum ibv_srq_init_attr_mask {
	/* srq_type. */
	IBV_SRQ_INIT_ATTR_TYPE = (1 << 0),
	/* pd. */
	IBV_SRQ_INIT_ATTR_PD = (1 << 1),
	/* xrcd. */
	IBV_SRQ_INIT_ATTR_XRCD = (1 << 2),
	/* cq. */
	IBV_SRQ_INIT_ATTR_CQ = (1 << 3),
	/* tm_cap. */
	IBV_SRQ_INIT_ATTR_TM = (1 << 4),
	/* First bit without a meaning. */
	IBV_SRQ_INIT_ATTR_RESERVED = (1 << 5),
};

/* Kind of work queue. */
enum ibv_wq_type {
	/* Receive queue. */
	IBV_WQT_RQ = 0,
};

/* Valid fields of ibv_wq_init_attr. */
enum ibv_wq_init_attr_mask {
	/* create_flags. */
	IBV_WQ_INIT_ATTR_FLAGS = (1 << 0),
	/* First bit without a meaning. */
	IBV_WQ_INIT_ATTR_RESERVED = (1 << 1),
};

/* Work queue options. */
enum ibv_wq_flags {
	/* Strip the customer VLAN tag. */
	IBV_WQ_FLAGS_CVLAN_STRIPPING = (1 << 0),
	/* Deliver the frame check sequence. */
	IBV_WQ_FLAGS_SCATTER_FCS = (1 << 1),
	/* Wait for a buffer before dropping. */
	IBV_WQ_FLAGS_DELAY_DROP = (1 << 2),
	/* Pad PCI writes to a cache line. */
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = (1 << 3),
	/* First bit without a meaning. */
	IBV_WQ_FLAGS_RESERVED = (1 << 4),
};

/* State of a work queue. */
enum ibv_wq_state {
	/* Created, not usable. */
	IBV_WQS_RESET = 0,
	/* Ready. */
	IBV_WQS_RDY = 1,
	/* Error. */
	IBV_WQS_ERR = 2,
	/* Not known. */
	IBV_WQS_UNKNOWN = 3,
};

/* Valid fields of ibv_wq_attr. */
enum ibv_wq_attr_mask {
	/* wq_state. */
	IBV_WQ_ATTR_STATE = (1 << 0),
	/* curr_wq_state. */
	IBV_WQ_ATTR_CURR_STATE = (1 << 1),
	/* flags. */
	IBV_WQ_ATTR_FLAGS = (1 << 2),
	/* First bit without a meaning. */
	IBV_WQ_ATTR_RESERVED = (1 << 3),
};

/* Valid extra fields of ibv_rwq_ind_table_init_attr. */
enum ibv_ind_table_init_attr_mask {
	/* First bit without a meaning. */
	IBV_CREATE_IND_TABLE_RESERVED = (1 << 0),
};

/* Operation of a send request. */
enum ibv_wr_opcode {
	/* RDMA write. */
	IBV_WR_RDMA_WRITE = 0,
	/* RDMA write with immediate data. */
	IBV_WR_RDMA_WRITE_WITH_IMM = 1,
	/* Send. */
	IBV_WR_SEND = 2,
	/* Send with immediate data. */
	IBV_WR_SEND_WITH_IMM = 3,
	/* RDMA read. */
	IBV_WR_RDMA_READ = 4,
	/* Compare and swap. */
	IBV_WR_ATOMIC_CMP_AND_SWP = 5,
	/* Fetch and add. */
	IBV_WR_ATOMIC_FETCH_AND_ADD = 6,
	/* Local invalidate. */
	IBV_WR_LOCAL_INV = 7,
	/* Memory window bind. */
	IBV_WR_BIND_MW = 8,
	/* Send with invalidate. */
	IBV_WR_SEND_WITH_INV = 9,
	/* Segmented send. */
	IBV_WR_TSO = 10,
	/* Vendor operation. */
	IBV_WR_DRIVER1 = 11,
	/* Flush. */
	IBV_WR_FLUSH = 14,
	/* Atomic write. */
	IBV_WR_ATOMIC_WRITE = 15,
};

/* Options of a send request. */
enum ibv_send_flags {
	/* Wait for earlier reads and atomics. */
	IBV_SEND_FENCE = (1 << 0),
	/* Produce a completion. */
	IBV_SEND_SIGNALED = (1 << 1),
	/* Raise an event at a receiver that waits for solicited completions. */
	IBV_SEND_SOLICITED = (1 << 2),
	/* Copy the data into the request; buffers are free at once. */
	IBV_SEND_INLINE = (1 << 3),
	/* Compute IP and transport checksums. */
	IBV_SEND_IP_CSUM = (1 << 4),
};

/* How far a flush makes data go. */
enum ibv_placement_type {
	/* Visible to everybody at the peer. */
	IBV_FLUSH_GLOBAL = (1 << 0),
	/* On the peer's persistent memory. */
	IBV_FLUSH_PERSISTENT = (1 << 1),
};

/* What a flush covers. */
enum ibv_selectivity_level {
	/* The range that the request names. */
	IBV_FLUSH_RANGE = 0,
	/* The whole memory region. */
	IBV_FLUSH_MR = 1,
};

/* Operation on a tag matching list. */
enum ibv_ops_wr_opcode {
	/* Add a tag. */
	IBV_WR_TAG_ADD = 0,
	/* Remove a tag. */
	IBV_WR_TAG_DEL = 1,
	/* Synchronise the count of unexpected messages. */
	IBV_WR_TAG_SYNC = 2,
};

/* Options of a list operation. */
enum ibv_ops_flags {
	/* Produce a completion. */
	IBV_OPS_SIGNALED = (1 << 0),
	/* unexpected_cnt is valid. */
	IBV_OPS_TM_SYNC = (1 << 1),
};

/* What a counter counts. */
enum ibv_counter_description {
	/* Packets. */
	IBV_COUNTER_PACKETS = 0,
	/* Bytes. */
	IBV_COUNTER_BYTES = 1,
};

/* Flags of ibv_read_counters. */
enum ibv_read_counters_flags {
	/* Values cached by the driver are good enough. */
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = (1 << 0),
};

/* Values to ask ibv_query_rt_values_ex for. */
enum ibv_values_mask {
	/* The device's clock. */
	IBV_VALUES_MASK_RAW_CLOCK = (1 << 0),
	/* First bit without a meaning. */
	IBV_VALUES_MASK_RESERVED = (1 << 1),
};

/* Operations of a queue pair that a completion counter can count. */
enum ibv_qp_attach_comp_cntr_op {
	/* Sends. */
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = (1 << 0),
	/* Receives. */
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = (1 << 1),
	/* RDMA reads. */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = (1 << 2),
	/* RDMA reads by the peer. */
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = (1 << 3),
	/* RDMA writes. */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = (1 << 4),
	/* RDMA writes by the peer. */
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = (1 << 5),
};

/* What a completion counter counts. */
enum ibv_comp_cntr_type {
	/* Work requests. */
	IBV_COMP_CNTR_TYPE_WRS = 0,
	/* Bytes. */
	IBV_COMP_CNTR_TYPE_BYTES = 1,
};

/* Bits of ibv_flow_attr::flags. */
enum ibv_flow_flags {
	/* Later rules still see the packet. */
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = (1 << 1),
	/* The rule is for sent packets. */
	IBV_FLOW_ATTR_FLAGS_EGRESS = (1 << 2),
};

/* Kind of rule. */
enum ibv_flow_attr_type {
	/* By the filters that follow. */
	IBV_FLOW_ATTR_NORMAL = 0,
	/* All packets that no other rule takes. */
	IBV_FLOW_ATTR_ALL_DEFAULT = 1,
	/* Multicast packets that no other rule takes. */
	IBV_FLOW_ATTR_MC_DEFAULT = 2,
	/* A copy of all traffic of the port. */
	IBV_FLOW_ATTR_SNIFFER = 3,
};

/* Kind of filter or action. */
enum ibv_flow_spec_type {
	/* Ethernet header. */
	IBV_FLOW_SPEC_ETH = 32,
	/* IPv4 addresses. */
	IBV_FLOW_SPEC_IPV4 = 48,
	/* IPv6 header. */
	IBV_FLOW_SPEC_IPV6 = 49,
	/* IPv4 header. */
	IBV_FLOW_SPEC_IPV4_EXT = 50,
	/* IPsec ESP header. */
	IBV_FLOW_SPEC_ESP = 52,
	/* TCP ports. */
	IBV_FLOW_SPEC_TCP = 64,
	/* UDP ports. */
	IBV_FLOW_SPEC_UDP = 65,
	/* VXLAN network identifier. */
	IBV_FLOW_SPEC_VXLAN_TUNNEL = 80,
	/* GRE header. */
	IBV_FLOW_SPEC_GRE = 81,
	/* MPLS label. */
	IBV_FLOW_SPEC_MPLS = 96,
	/* Added to a filter: it is for the inner headers. */
	IBV_FLOW_SPEC_INNER = 256,
	/* Tag the completion. */
	IBV_FLOW_SPEC_ACTION_TAG = 4096,
	/* Drop the packet. */
	IBV_FLOW_SPEC_ACTION_DROP = 4097,
	/* Run a flow action. */
	IBV_FLOW_SPEC_ACTION_HANDLE = 4098,
	/* Count. */
	IBV_FLOW_SPEC_ACTION_COUNT = 4099,
};

/* Valid extra fields of ibv_flow_action_esp_attr. */
enum ibv_flow_action_esp_mask {
	/* esn. */
	IBV_FLOW_ACTION_ESP_MASK_ESN = (1 << 0),
};

/* Limits and abilities of a device. */
struct ibv_device_attr {
	/* Firmware version, NUL-terminated. */
	char fw_ver[64];
	/* Node GUID. */
	__be64 node_guid;
	/* System image GUID. */
	__be64 sys_image_guid;
	/* Largest memory region in bytes. */
	uint64_t max_mr_size;
	/* Mask of supported page sizes. */
	uint64_t page_size_cap;
	/* IEEE vendor identifier. */
	uint32_t vendor_id;
	/* Vendor's part number. */
	uint32_t vendor_part_id;
	/* Vendor's hardware version. */
	uint32_t hw_ver;
	/* Queue pairs. */
	int max_qp;
	/* Outstanding work requests on either queue of a queue pair. */
	int max_qp_wr;
	/* Bits of ibv_device_cap_flags. */
	unsigned int device_cap_flags;
	/* Scatter-gather entries per work request. */
	int max_sge;
	/* Scatter-gather entries per RDMA read. */
	int max_sge_rd;
	/* Completion queues. */
	int max_cq;
	/* Entries per completion queue. */
	int max_cqe;
	/* Memory regions. */
	int max_mr;
	/* Protection domains. */
	int max_pd;
	/* Incoming RDMA reads and atomics in flight per queue pair. */
	int max_qp_rd_atom;
	/* The same per end-to-end context. */
	int max_ee_rd_atom;
	/* Resources for incoming reads and atomics in total. */
	int max_res_rd_atom;
	/* Outgoing RDMA reads and atomics in flight per queue pair. */
	int max_qp_init_rd_atom;
	/* The same per end-to-end context. */
	int max_ee_init_rd_atom;
	/* Reach of atomics. */
	enum ibv_atomic_cap atomic_cap;
	/* End-to-end contexts. */
	int max_ee;
	/* Reliable datagram domains. */
	int max_rdd;
	/* Memory windows. */
	int max_mw;
	/* Raw IPv6 queue pairs. */
	int max_raw_ipv6_qp;
	/* Raw Ethertype queue pairs. */
	int max_raw_ethy_qp;
	/* Multicast groups. */
	int max_mcast_grp;
	/* Queue pairs per multicast group. */
	int max_mcast_qp_attach;
	/* Multicast attachments in total. */
	int max_total_mcast_qp_attach;
	/* Address handles. */
	int max_ah;
	/* Fast memory regions. */
	int max_fmr;
	/* Remaps of a fast memory region before it must be unmapped. */
	int max_map_per_fmr;
	/* Shared receive queues. */
	int max_srq;
	/* Work requests per shared receive queue. */
	int max_srq_wr;
	/* Scatter-gather entries per shared receive request. */
	int max_srq_sge;
	/* Partition keys per port. */
	uint16_t max_pkeys;
	/* Acknowledgement delay: 4.096 µs * 2^value. */
	uint8_t local_ca_ack_delay;
	/* Number of ports. */
	uint8_t phys_port_cnt;
};

/* Protection domain: objects of one domain may use each other. */
struct ibv_pd {
	/* Device context. */
	struct ibv_context *context;
	/* Kernel handle. */
	uint32_t handle;
};

/* Memory window. */
struct ibv_mw {
	/* Device context. */
	struct ibv_context *context;
	/* Its protection domain. */
	struct ibv_pd *pd;
	/* Key for peers. */
	uint32_t rkey;
	/* Kernel handle. */
	uint32_t handle;
	/* Kind of window. */
	enum ibv_mw_type type;
};

/* Completion event channel. */
struct ibv_comp_channel {
	/* Device context. */
	struct ibv_context *context;
	/* File descriptor that becomes readable with an event. */
	int fd;
	/* Completion queues attached. */
	int refcnt;
};

/* Completion queue. */
struct ibv_cq {
	/* Device context. */
	struct ibv_context *context;
	/* Event channel, or null. */
	struct ibv_comp_channel *channel;
	/* The program's pointer. */
	void *cq_context;
	/* Kernel handle. */
	uint32_t handle;
	/* Entries. */
	int cqe;
	/* Guards the event counters. */
	pthread_mutex_t mutex;
	/* Signalled when events are acknowledged. */
	pthread_cond_t cond;
	/* Completion events acknowledged. */
	uint32_t comp_events_completed;
	/* Asynchronous events acknowledged. */
	uint32_t async_events_completed;
};

/* Shared receive queue. */
struct ibv_srq {
	/* Device context. */
	struct ibv_context *context;
	/* The program's pointer. */
	void *srq_context;
	/* Its protection domain. */
	struct ibv_pd *pd;
	/* Kernel handle. */
	uint32_t handle;
	/* Guards the event counter. */
	pthread_mutex_t mutex;
	/* Signalled when events are acknowledged. */
	pthread_cond_t cond;
	/* Asynchronous events acknowledged. */
	uint32_t events_completed;
};

/* Queue pair. */
struct ibv_qp {
	/* Device context. */
	struct ibv_context *context;
	/* The program's pointer. */
	void *qp_context;
	/* Its protection domain. */
	struct ibv_pd *pd;
	/* Completions of the send queue. */
	struct ibv_cq *send_cq;
	/* Completions of the receive queue. */
	struct ibv_cq *recv_cq;
	/* Shared receive queue, or null. */
	struct ibv_srq *srq;
	/* Kernel handle. */
	uint32_t handle;
	/* Number. */
	uint32_t qp_num;
	/* State that the library last saw. */
	enum ibv_qp_state state;
	/* Service. */
	enum ibv_qp_type qp_type;
	/* Guards the event counter. */
	pthread_mutex_t mutex;
	/* Signalled when events are acknowledged. */
	pthread_cond_t cond;
	/* Asynchronous events acknowledged. */
	uint32_t events_completed;
};

/* Memory region. */
struct ibv_mr {
	/* Device context. */
	struct ibv_context *context;
	/* Its protection domain. */
	struct ibv_pd *pd;
	/* Start address. */
	void *addr;
	/* Length in bytes. */
	size_t length;
	/* Kernel handle. */
	uint32_t handle;
	/* Key for local work requests. */
	uint32_t lkey;
	/* Key for peers. */
	uint32_t rkey;
};

/* What a window is bound to. */
struct ibv_mw_bind_info {
	/* The region. */
	struct ibv_mr *mr;
	/* First address that the window opens. */
	uint64_t addr;
	/* Its length in bytes, 0 closes the window. */
	uint64_t length;
	/* Bits of ibv_access_flags. */
	unsigned int mw_access_flags;
};

/* Request of ibv_bind_mw. */
struct ibv_mw_bind {
	/* Identifier returned in the completion. */
	uint64_t wr_id;
	/* Bits of ibv_send_flags. */
	unsigned int send_flags;
	/* What to bind. */
	struct ibv_mw_bind_info bind_info;
};

/* Work completion. */
struct ibv_wc {
	/* The request's identifier. */
	uint64_t wr_id;
	/* Result. Unless it is success, only wr_id, status, qp_num and vendor_err are valid. */
	enum ibv_wc_status status;
	/* Operation. */
	enum ibv_wc_opcode opcode;
	/* Vendor's error code. */
	uint32_t vendor_err;
	/* Bytes transferred. */
	uint32_t byte_len;
	/* Immediate data or key. */
	__extension__ union {
		/* Immediate data, network byte order. */
		__be32 imm_data;
		/* The key that the peer invalidated. */
		uint32_t invalidated_rkey;
	};
	/* Local queue pair number. */
	uint32_t qp_num;
	/* Sender's queue pair number (datagrams). */
	uint32_t src_qp;
	/* Bits of ibv_wc_flags. */
	unsigned int wc_flags;
	/* Partition key index (queue pair 1). */
	uint16_t pkey_index;
	/* Sender's local identifier (datagrams). */
	uint16_t slid;
	/* Service level (datagrams). */
	uint8_t sl;
	/* Destination path bits (datagrams). */
	uint8_t dlid_path_bits;
};

/* Scatter-gather entry. */
struct ibv_sge {
	/* Start address. */
	uint64_t addr;
	/* Length in bytes. */
	uint32_t length;
	/* Key of the memory region. */
	uint32_t lkey;
};

/* Receive request; requests form a list. */
struct ibv_recv_wr {
	/* Identifier returned in the completion. */
	uint64_t wr_id;
	/* Next request, or null. */
	struct ibv_recv_wr *next;
	/* Local buffers. */
	struct ibv_sge *sg_list;
	/* Number of buffers. */
	int num_sge;
};

/* Address handle. */
struct ibv_ah {
	/* Device context. */
	struct ibv_context *context;
	/* Its protection domain. */
	struct ibv_pd *pd;
	/* Kernel handle. */
	uint32_t handle;
};

/* Send request; requests form a list. */
struct ibv_send_wr {
	/* Identifier returned in the completion. */
	uint64_t wr_id;
	/* Next request, or null. */
	struct ibv_send_wr *next;
	/* Local buffers. */
	struct ibv_sge *sg_list;
	/* Number of buffers. */
	int num_sge;
	/* Operation. */
	enum ibv_wr_opcode opcode;
	/* Bits of ibv_send_flags. */
	unsigned int send_flags;
	/* Immediate data or key. */
	__extension__ union {
		/* Immediate data, network byte order. */
		__be32 imm_data;
		/* Key that the peer or the local device invalidates. */
		uint32_t invalidate_rkey;
	};
	/* Part by operation. */
	union {
		/* RDMA read and write. */
		struct {
			/* Peer's address. */
			uint64_t remote_addr;
			/* Peer's key. */
			uint32_t rkey;
		} rdma;
		/* Atomics. */
		struct {
			/* Peer's address, a multiple of 8. */
			uint64_t remote_addr;
			/* Value to compare with or to add. */
			uint64_t compare_add;
			/* Value to store on a match. */
			uint64_t swap;
			/* Peer's key. */
			uint32_t rkey;
		} atomic;
		/* Datagrams. */
		struct {
			/* Address handle. */
			struct ibv_ah *ah;
			/* Peer's queue pair number. */
			uint32_t remote_qpn;
			/* Peer's Q_Key. */
			uint32_t remote_qkey;
		} ud;
	} wr;
	/* Part by service. */
	union {
		/* Extended reliable connection. */
		struct {
			/* Peer's shared receive queue number. */
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	/* Further part by operation. */
	__extension__ union {
		/* Memory window bind. */
		struct {
			/* The window. */
			struct ibv_mw *mw;
			/* Its new key. */
			uint32_t rkey;
			/* What it is bound to. */
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		/* Segmented send. */
		struct {
			/* Header to repeat in front of each segment. */
			void *hdr;
			/* Length of the header in bytes. */
			uint16_t hdr_sz;
			/* Payload bytes per segment. */
			uint16_t mss;
		} tso;
	};
};

/*
 * Operations that the inline functions of verbs.h call. The members starting with _compat_ belong
 * to an older ABI: today's programs call the functions by name.
 */
struct ibv_context_ops {
	/* Old ABI. */
	int (*_compat_query_device)(struct ibv_context *context,
			struct ibv_device_attr *device_attr);
	/* Old ABI. */
	int (*_compat_query_port)(struct ibv_context *context, uint8_t port_num,
			struct _compat_ibv_port_attr *port_attr);
	/* Old ABI. */
	void *(*_compat_alloc_pd)(void);
	/* Old ABI. */
	void *(*_compat_dealloc_pd)(void);
	/* Old ABI. */
	void *(*_compat_reg_mr)(void);
	/* Old ABI. */
	void *(*_compat_rereg_mr)(void);
	/* Old ABI. */
	void *(*_compat_dereg_mr)(void);
	/* Allocates a memory window; null and errno on failure. */
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	/* Binds a window of type 1; 0 or an errno value. */
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	/* Frees a memory window; 0 or an errno value. */
	int (*dealloc_mw)(struct ibv_mw *mw);
	/* Old ABI. */
	void *(*_compat_create_cq)(void);
	/* Takes completions; their number, negative on failure. */
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	/* Asks for an event; 0 or an errno value. */
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	/* Old ABI. */
	void *(*_compat_cq_event)(void);
	/* Old ABI. */
	void *(*_compat_resize_cq)(void);
	/* Old ABI. */
	void *(*_compat_destroy_cq)(void);
	/* Old ABI. */
	void *(*_compat_create_srq)(void);
	/* Old ABI. */
	void *(*_compat_modify_srq)(void);
	/* Old ABI. */
	void *(*_compat_query_srq)(void);
	/* Old ABI. */
	void *(*_compat_destroy_srq)(void);
	/* Posts receives to a shared queue; 0 or an errno value. */
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
			struct ibv_recv_wr **bad_recv_wr);
	/* Old ABI. */
	void *(*_compat_create_qp)(void);
	/* Old ABI. */
	void *(*_compat_query_qp)(void);
	/* Old ABI. */
	void *(*_compat_modify_qp)(void);
	/* Old ABI. */
	void *(*_compat_destroy_qp)(void);
	/* Posts sends; 0 or an errno value. */
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	/* Posts receives; 0 or an errno value. */
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	/* Old ABI. */
	void *(*_compat_create_ah)(void);
	/* Old ABI. */
	void *(*_compat_destroy_ah)(void);
	/* Old ABI. */
	void *(*_compat_attach_mcast)(void);
	/* Old ABI. */
	void *(*_compat_detach_mcast)(void);
	/* Old ABI. */
	void *(*_compat_async_event)(void);
};

/* An open device. */
struct ibv_context {
	/* The device. */
	struct ibv_device *device;
	/* Operations. */
	struct ibv_context_ops ops;
	/* File descriptor for commands. */
	int cmd_fd;
	/* File descriptor that becomes readable with an asynchronous event. */
	int async_fd;
	/* Completion vectors. */
	int num_comp_vectors;
	/* Guards the context's lists. */
	pthread_mutex_t mutex;
	/* All bits set: this context is the last member of a verbs_context. */
	void *abi_compat;
};

/* Two dead function pointers at the start of ibv_device; never called. */
struct _ibv_device_ops {
	/* Unused. */
	struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
	/* Unused. */
	void (*_dummy2)(struct ibv_context *context);
};

/* A device found on this machine. */
struct ibv_device {
	/* Unused. */
	struct _ibv_device_ops _ops;
	/* Kind of node. */
	enum ibv_node_type node_type;
	/* Transport family. */
	enum ibv_transport_type transport_type;
	/* Name of the RDMA device, as "mlx5_0". */
	char name[64];
	/* Name of its verbs device, as "uverbs0". */
	char dev_name[64];
	/* Its directory in /sys/class/infiniband_verbs. */
	char dev_path[256];
	/* Its directory in /sys/class/infiniband. */
	char ibdev_path[256];
};

/* Memory on the device. */
struct ibv_dm {
	/* Device context. */
	struct ibv_context *context;
	/* Copy from host memory; 0 or an errno value. */
	int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
			size_t length);
	/* Copy to host memory; 0 or an errno value. */
	int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
			size_t length);
	/* Bits of ibv_dm_mask. */
	uint32_t comp_mask;
	/* Kernel handle. */
	uint32_t handle;
};

/* Work queue: the receive side of a queue pair as an object of its own. */
struct ibv_wq {
	/* Device context. */
	struct ibv_context *context;
	/* The program's pointer. */
	void *wq_context;
	/* Its protection domain. */
	struct ibv_pd *pd;
	/* Its completion queue. */
	struct ibv_cq *cq;
	/* Number. */
	uint32_t wq_num;
	/* Kernel handle. */
	uint32_t handle;
	/* State. */
	enum ibv_wq_state state;
	/* Kind. */
	enum ibv_wq_type wq_type;
	/* Posts receives; 0 or an errno value. */
	int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
			struct ibv_recv_wr **bad_recv_wr);
	/* Guards the event counter. */
	pthread_mutex_t mutex;
	/* Signalled when events are acknowledged. */
	pthread_cond_t cond;
	/* Asynchronous events acknowledged. */
	uint32_t events_completed;
	/* Reserved. */
	uint32_t comp_mask;
};

/* An asynchronous event. */
struct ibv_async_event {
	/* Its object. */
	union {
		/* Completion queue. */
		struct ibv_cq *cq;
		/* Queue pair. */
		struct ibv_qp *qp;
		/* Shared receive queue. */
		struct ibv_srq *srq;
		/* Work queue. */
		struct ibv_wq *wq;
		/* Port, counted from 1. */
		int port_num;
	} element;
	/* What happened. */
	enum ibv_event_type event_type;
};

/* Global identifier: a 128-bit address in network byte order. */
union ibv_gid {
	/* As bytes. */
	uint8_t raw[16];
	/* As prefix and identifier. */
	struct {
		/* Upper 64 bits. */
		__be64 subnet_prefix;
		/* Lower 64 bits. */
		__be64 interface_id;
	} global;
};

/* One entry of a GID table. */
struct ibv_gid_entry {
	/* The identifier. */
	union ibv_gid gid;
	/* Its index in the port's table. */
	uint32_t gid_index;
	/* Port, counted from 1. */
	uint32_t port_num;
	/* A value of ibv_gid_type. */
	uint32_t gid_type;
	/* Index of the network interface behind it, 0 if none. */
	uint32_t ndev_ifindex;
};

/* Attributes of a shared receive queue. */
struct ibv_srq_attr {
	/* Outstanding requests. */
	uint32_t max_wr;
	/* Scatter-gather entries per request. */
	uint32_t max_sge;
	/* An event is raised when fewer requests than this remain; 0 is off. */
	uint32_t srq_limit;
};

/* Attributes of a new shared receive queue. */
struct ibv_srq_init_attr {
	/* The program's pointer. */
	void *srq_context;
	/* Sizes; on return what was allocated. */
	struct ibv_srq_attr attr;
};

/* Sizes of a queue pair. */
struct ibv_qp_cap {
	/* Outstanding send requests. */
	uint32_t max_send_wr;
	/* Outstanding receive requests. */
	uint32_t max_recv_wr;
	/* Scatter-gather entries per send. */
	uint32_t max_send_sge;
	/* Scatter-gather entries per receive. */
	uint32_t max_recv_sge;
	/* Bytes of inline data. */
	uint32_t max_inline_data;
};

/* Attributes of a new queue pair. */
struct ibv_qp_init_attr {
	/* The program's pointer. */
	void *qp_context;
	/* Completions of the send queue. */
	struct ibv_cq *send_cq;
	/* Completions of the receive queue. */
	struct ibv_cq *recv_cq;
	/* Shared receive queue, or null. */
	struct ibv_srq *srq;
	/* Sizes; on return what was allocated. */
	struct ibv_qp_cap cap;
	/* Service. */
	enum ibv_qp_type qp_type;
	/* Nonzero: every send completes with an entry. */
	int sq_sig_all;
};

/* A piece of host memory. */
struct ibv_data_buf {
	/* Start. */
	void *addr;
	/* Length in bytes. */
	size_t length;
};

/* Queue pair with functions that build send requests one by one. */
struct ibv_qp_ex {
	/* The queue pair. */
	struct ibv_qp qp_base;
	/* Reserved. */
	uint64_t comp_mask;
	/* Identifier for the next request. */
	uint64_t wr_id;
	/* Options for the next request, bits of ibv_send_flags. */
	unsigned int wr_flags;
	/* Compare and swap. */
	void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			uint64_t compare, uint64_t swap);
	/* Fetch and add. */
	void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			uint64_t add);
	/* Memory window bind. */
	void (*wr_bind_mw)(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			const struct ibv_mw_bind_info *bind_info);
	/* Local invalidate. */
	void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	/* RDMA read. */
	void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	/* RDMA write. */
	void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	/* RDMA write with immediate data. */
	void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			__be32 imm_data);
	/* Send. */
	void (*wr_send)(struct ibv_qp_ex *qp);
	/* Send with immediate data. */
	void (*wr_send_imm)(struct ibv_qp_ex *qp, __be32 imm_data);
	/* Send with invalidate. */
	void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	/* Segmented send. */
	void (*wr_send_tso)(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss);
	/* Destination of the last datagram. */
	void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey);
	/* Peer's shared receive queue for the last request. */
	void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t remote_srqn);
	/* Inline data of the last request. */
	void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
	/* Inline data from several pieces. */
	void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t num_buf,
			const struct ibv_data_buf *buf_list);
	/* Buffer of the last request. */
	void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
	/* Buffers of the last request. */
	void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t num_sge,
			const struct ibv_sge *sg_list);
	/* Begins a batch. */
	void (*wr_start)(struct ibv_qp_ex *qp);
	/* Posts the batch; 0 or an errno value. */
	int (*wr_complete)(struct ibv_qp_ex *qp);
	/* Drops the batch. */
	void (*wr_abort)(struct ibv_qp_ex *qp);
	/* Atomic write of 8 bytes. */
	void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			const void *atomic_wr);
	/* Flush of len bytes, bits of ibv_placement_type and a value of ibv_selectivity_level. */
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			uint8_t type, uint8_t level);
};

/* Global routing part of an address. */
struct ibv_global_route {
	/* Destination GID, or the multicast GID. */
	union ibv_gid dgid;
	/* IPv6 flow label, 20 bits. */
	uint32_t flow_label;
	/* Index of the source GID in the port's table. */
	uint8_t sgid_index;
	/* Hop limit. */
	uint8_t hop_limit;
	/* Traffic class. */
	uint8_t traffic_class;
};

/* Address vector. */
struct ibv_ah_attr {
	/* Global route, valid when is_global is set. */
	struct ibv_global_route grh;
	/* Destination local identifier. */
	uint16_t dlid;
	/* Service level. */
	uint8_t sl;
	/* Source path bits, added to the port's base identifier. */
	uint8_t src_path_bits;
	/* A value of ibv_rate. */
	uint8_t static_rate;
	/* Whether grh is valid. */
	uint8_t is_global;
	/* Local port, counted from 1. */
	uint8_t port_num;
};

/* Attributes of ibv_modify_qp and ibv_query_qp. */
struct ibv_qp_attr {
	/* State, or state to move to. */
	enum ibv_qp_state qp_state;
	/* State assumed now. */
	enum ibv_qp_state cur_qp_state;
	/* Path MTU. */
	enum ibv_mtu path_mtu;
	/* Path migration state. */
	enum ibv_mig_state path_mig_state;
	/* Q_Key (datagrams). */
	uint32_t qkey;
	/* First packet number to expect, 24 bits. */
	uint32_t rq_psn;
	/* First packet number to send, 24 bits. */
	uint32_t sq_psn;
	/* Peer's queue pair number. */
	uint32_t dest_qp_num;
	/* Remote rights, bits of ibv_access_flags. */
	unsigned int qp_access_flags;
	/* Sizes. */
	struct ibv_qp_cap cap;
	/* Primary path. */
	struct ibv_ah_attr ah_attr;
	/* Alternate path. */
	struct ibv_ah_attr alt_ah_attr;
	/* Partition key index. */
	uint16_t pkey_index;
	/* Partition key index of the alternate path. */
	uint16_t alt_pkey_index;
	/* Nonzero: an event tells when the send queue has drained. */
	uint8_t en_sqd_async_notify;
	/* Nonzero while the send queue drains. */
	uint8_t sq_draining;
	/* Outgoing reads and atomics in flight. */
	uint8_t max_rd_atomic;
	/* Incoming reads and atomics in flight. */
	uint8_t max_dest_rd_atomic;
	/* Code of the shortest "receiver not ready" wait. */
	uint8_t min_rnr_timer;
	/* Local port, counted from 1. */
	uint8_t port_num;
	/* Acknowledgement timeout: 4.096 µs * 2^value, 0 is infinite. */
	uint8_t timeout;
	/* Retries without an answer. */
	uint8_t retry_cnt;
	/* Retries when the receiver is not ready, 7 is infinite. */
	uint8_t rnr_retry;
	/* Local port of the alternate path. */
	uint8_t alt_port_num;
	/* Timeout of the alternate path. */
	uint8_t alt_timeout;
	/* Rate limit in kbit/s. */
	uint32_t rate_limit;
};

/* Global routing header as it arrives in front of a datagram. */
struct ibv_grh {
	/* IP version, traffic class, flow label. */
	__be32 version_tclass_flow;
	/* Payload length in bytes. */
	__be16 paylen;
	/* Next header. */
	uint8_t next_hdr;
	/* Hop limit. */
	uint8_t hop_limit;
	/* Source GID. */
	union ibv_gid sgid;
	/* Destination GID. */
	union ibv_gid dgid;
};

/* Hints for direct memory access, which registrations share. */
struct ibv_dmah {
	/* Device context. */
	struct ibv_context *context;
};

/* What ibv_reg_mr_ex registers. */
struct ibv_mr_init_attr {
	/* Length in bytes. */
	size_t length;
	/* Rights, bits of ibv_access_flags. */
	int access;
	/* Bits of ibv_mr_init_attr_mask. */
	uint64_t comp_mask;
	/* Address that peers use for the first byte. */
	uint64_t iova;
	/* First byte. */
	void *addr;
	/* A dma-buf, in place of an address. */
	int fd;
	/* First byte in the dma-buf. */
	uint64_t fd_offset;
	/* Hints for direct memory access. */
	struct ibv_dmah *dmah;
	/* The buffer from ibv_alloc_buf in which addr lies. */
	struct ibv_buf *buf;
};

/* Attributes of new hints. */
struct ibv_dmah_init_attr {
	/* Bits of ibv_dmah_init_attr_mask. */
	uint32_t comp_mask;
	/* Processor near whose caches the data goes. */
	uint32_t cpu_id;
	/* Processing hint (PCIe). */
	uint8_t ph;
	/* A value of ibv_tph_mem_type. */
	uint8_t tph_mem_type;
};

/* What a device's completion counters can do. */
struct ibv_comp_cntr_caps {
	/* Highest value of a counter. */
	uint64_t max_value;
	/* Number of counters. */
	uint32_t max_counters;
	/* Bits of ibv_qp_attach_comp_cntr_op. */
	uint32_t supported_qp_attach_ops;
};

/*
 * Counts the completed operations of the queue pairs that it is attached to, and those that failed.
 */
struct ibv_comp_cntr {
	/* Device context. */
	struct ibv_context *context;
	/* Kernel handle. */
	uint32_t handle;
};

/* Attributes of a new completion counter. */
struct ibv_comp_cntr_init_attr {
	/* Must be 0. */
	uint32_t comp_mask;
	/* What it counts. */
	enum ibv_comp_cntr_type type;
	/* Must be 0. */
	uint32_t flags;
};

/* How a completion counter is attached to a queue pair. */
struct ibv_qp_attach_comp_cntr_attr {
	/* Must be 0. */
	uint32_t comp_mask;
	/* Bits of ibv_qp_attach_comp_cntr_op. */
	uint32_t op_mask;
};

/* Enhanced connection establishment options. */
struct ibv_ece {
	/* IEEE identifier of the vendor that gives options their meaning. */
	uint32_t vendor_id;
	/* The vendor's option bits. */
	uint32_t options;
	/* Must be 0. */
	uint32_t comp_mask;
};

/* Input of ibv_query_device_ex. */
struct ibv_query_device_ex_input {
	/* Must be 0. */
	uint32_t comp_mask;
};

/* On-demand paging abilities. */
struct ibv_odp_caps {
	/* Bits of ibv_odp_general_caps. */
	uint64_t general_caps;
	/* Operations by transport. */
	struct {
		/* Reliable connection. */
		uint32_t rc_odp_caps;
		/* Unreliable connection. */
		uint32_t uc_odp_caps;
		/* Datagram. */
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/* TCP segmentation offload abilities. */
struct ibv_tso_caps {
	/* Largest payload in bytes that the device segments, 0 if none. */
	uint32_t max_tso;
	/* Mask of 1 << ibv_qp_type. */
	uint32_t supported_qpts;
};

/* Receive-side scaling abilities. */
struct ibv_rss_caps {
	/* Mask of 1 << ibv_qp_type. */
	uint32_t supported_qpts;
	/* Indirection tables. */
	uint32_t max_rwq_indirection_tables;
	/* Entries per indirection table. */
	uint32_t max_rwq_indirection_table_size;
	/* Bits of ibv_rx_hash_fields. */
	uint64_t rx_hash_fields_mask;
	/* Bits of ibv_rx_hash_function_flags. */
	uint8_t rx_hash_function;
};

/* Rate limiting abilities. */
struct ibv_packet_pacing_caps {
	/* Lowest rate in kbit/s. */
	uint32_t qp_rate_limit_min;
	/* Highest rate in kbit/s. */
	uint32_t qp_rate_limit_max;
	/* Mask of 1 << ibv_qp_type. */
	uint32_t supported_qpts;
};

/* Tag matching abilities. */
struct ibv_tm_caps {
	/* Largest rendezvous request header in bytes. */
	uint32_t max_rndv_hdr_size;
	/* Tagged buffers per matching list. */
	uint32_t max_num_tags;
	/* Bits of ibv_tm_cap_flags. */
	uint32_t flags;
	/* Outstanding list operations. */
	uint32_t max_ops;
	/* Scatter-gather entries per tagged buffer. */
	uint32_t max_sge;
};

/* Limits of completion moderation. */
struct ibv_cq_moderation_caps {
	/* Completions per event. */
	uint16_t max_cq_count;
	/* Waiting time in microseconds. */
	uint16_t max_cq_period;
};

/* PCIe atomics that the device can issue; masks of ibv_pci_atomic_op_size. */
struct ibv_pci_atomic_caps {
	/* Fetch and add. */
	uint16_t fetch_add;
	/* Swap. */
	uint16_t swap;
	/* Compare and swap. */
	uint16_t compare_swap;
};

/* Extended device properties. */
struct ibv_device_attr_ex {
	/* The basic properties. */
	struct ibv_device_attr orig_attr;
	/* Reserved for further fields. */
	uint32_t comp_mask;
	/* On-demand paging. */
	struct ibv_odp_caps odp_caps;
	/* Valid bits of completion timestamps, 0 if there are none. */
	uint64_t completion_timestamp_mask;
	/* Frequency of the device clock in kHz. */
	uint64_t hca_core_clock;
	/* All capability bits, the low 32 as in device_cap_flags. */
	uint64_t device_cap_flags_ex;
	/* Segmentation offload. */
	struct ibv_tso_caps tso_caps;
	/* Receive-side scaling. */
	struct ibv_rss_caps rss_caps;
	/* Work queues of type receive. */
	uint32_t max_wq_type_rq;
	/* Rate limiting. */
	struct ibv_packet_pacing_caps packet_pacing_caps;
	/* Bits of ibv_raw_packet_caps. */
	uint32_t raw_packet_caps;
	/* Tag matching. */
	struct ibv_tm_caps tm_caps;
	/* Completion moderation. */
	struct ibv_cq_moderation_caps cq_mod_caps;
	/* Device memory in bytes, the largest allocation. */
	uint64_t max_dm_size;
	/* PCIe atomics. */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	/* On-demand paging on extended reliable connections. */
	uint32_t xrc_odp_caps;
	/* Number of ports, without the 8-bit limit. */
	uint32_t phys_port_cnt_ex;
};

/* Properties of a port. */
struct ibv_port_attr {
	/* Logical state. */
	enum ibv_port_state state;
	/* Largest MTU of the port. */
	enum ibv_mtu max_mtu;
	/* MTU in use. */
	enum ibv_mtu active_mtu;
	/* Entries in the GID table. */
	int gid_tbl_len;
	/* Bits of ibv_port_cap_flags. */
	uint32_t port_cap_flags;
	/* Largest message in bytes. */
	uint32_t max_msg_sz;
	/* Packets with a wrong P_Key. */
	uint32_t bad_pkey_cntr;
	/* Packets with a wrong Q_Key. */
	uint32_t qkey_viol_cntr;
	/* Entries in the partition key table. */
	uint16_t pkey_tbl_len;
	/* Base local identifier. */
	uint16_t lid;
	/* Local identifier of the subnet manager. */
	uint16_t sm_lid;
	/* Low bits of the local identifier that select a path. */
	uint8_t lmc;
	/* Code for the number of virtual lanes. */
	uint8_t max_vl_num;
	/* Service level of the subnet manager. */
	uint8_t sm_sl;
	/* Subnet propagation delay: 4.096 µs * 2^value. */
	uint8_t subnet_timeout;
	/* Initialisation that the subnet manager made. */
	uint8_t init_type_reply;
	/* Link width code: 1, 2, 4, 8, 16 stand for 1x, 4x, 8x, 12x, 2x. */
	uint8_t active_width;
	/* Link speed code. */
	uint8_t active_speed;
	/* Physical link state code. */
	uint8_t phys_state;
	/* One of the IBV_LINK_LAYER_* values. */
	uint8_t link_layer;
	/* IBV_QPF_* bits. */
	uint8_t flags;
	/* Bits of ibv_port_cap_flags2. */
	uint16_t port_cap_flags2;
	/* Link speed code of more than 8 bits; 0 where the kernel tells active_speed alone. */
	uint32_t active_speed_ex;
};

/* Attributes of ibv_start_poll. */
struct ibv_poll_cq_attr {
	/* Must be 0. */
	uint32_t comp_mask;
};

/* Tag matching part of a completion. */
struct ibv_wc_tm_info {
	/* Tag of the message. */
	uint64_t tag;
	/* The sender's opaque data. */
	uint32_t priv;
};

/*
 * Extended completion queue. Its first part equals ibv_cq; the functions read the current
 * completion.
 */
struct ibv_cq_ex {
	/* Device context. */
	struct ibv_context *context;
	/* Event channel, or null. */
	struct ibv_comp_channel *channel;
	/* The program's pointer. */
	void *cq_context;
	/* Kernel handle. */
	uint32_t handle;
	/* Entries. */
	int cqe;
	/* Guards the event counters. */
	pthread_mutex_t mutex;
	/* Signalled when events are acknowledged. */
	pthread_cond_t cond;
	/* Completion events acknowledged. */
	uint32_t comp_events_completed;
	/* Asynchronous events acknowledged. */
	uint32_t async_events_completed;
	/* Reserved. */
	uint32_t comp_mask;
	/* Result of the current completion. */
	enum ibv_wc_status status;
	/* Identifier of the current completion. */
	uint64_t wr_id;
	/* Takes the first completion; 0, ENOENT when empty, or an errno value. */
	int (*start_poll)(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr);
	/* Takes the next completion; same results. */
	int (*next_poll)(struct ibv_cq_ex *current);
	/* Ends a batch that start_poll began with success. */
	void (*end_poll)(struct ibv_cq_ex *current);
	/* Operation. */
	enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *current);
	/* Vendor's error code. */
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *current);
	/* Bytes transferred. */
	uint32_t (*read_byte_len)(struct ibv_cq_ex *current);
	/* Immediate data or invalidated key. */
	__be32 (*read_imm_data)(struct ibv_cq_ex *current);
	/* Local queue pair number. */
	uint32_t (*read_qp_num)(struct ibv_cq_ex *current);
	/* Sender's queue pair number. */
	uint32_t (*read_src_qp)(struct ibv_cq_ex *current);
	/* Bits of ibv_wc_flags. */
	unsigned int (*read_wc_flags)(struct ibv_cq_ex *current);
	/* Sender's local identifier. */
	uint32_t (*read_slid)(struct ibv_cq_ex *current);
	/* Service level. */
	uint8_t (*read_sl)(struct ibv_cq_ex *current);
	/* Destination path bits. */
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *current);
	/* Timestamp in device clock ticks. */
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *current);
	/* Customer VLAN tag. */
	uint16_t (*read_cvlan)(struct ibv_cq_ex *current);
	/* Tag of the flow rule. */
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *current);
	/* Tag matching information. */
	void (*read_tm_info)(struct ibv_cq_ex *current, struct ibv_wc_tm_info *tm_info);
	/* Timestamp in nanoseconds of the real-time clock. */
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *current);
};

/* Completion moderation. */
struct ibv_moderate_cq {
	/* Completions per event. */
	uint16_t cq_count;
	/* Longest wait in microseconds. */
	uint16_t cq_period;
};

/* Attributes of ibv_modify_cq. */
struct ibv_modify_cq_attr {
	/* Bits of ibv_cq_attr_mask. */
	uint32_t attr_mask;
	/* Moderation. */
	struct ibv_moderate_cq moderate;
};

/* Attributes of an extended completion queue. */
struct ibv_cq_init_attr_ex {
	/* Entries needed at least. */
	uint32_t cqe;
	/* The program's pointer. */
	void *cq_context;
	/* Event channel, or null. */
	struct ibv_comp_channel *channel;
	/* Completion vector, below num_comp_vectors of the context. */
	uint32_t comp_vector;
	/* Bits of ibv_create_cq_wc_flags. */
	uint64_t wc_flags;
	/* Bits of ibv_cq_init_attr_mask. */
	uint32_t comp_mask;
	/* Bits of ibv_create_cq_attr_flags. */
	uint32_t flags;
	/* Parent domain, or null. */
	struct ibv_pd *parent_domain;
};

/* Attributes of a new thread domain. */
struct ibv_td_init_attr {
	/* Must be 0. */
	uint32_t comp_mask;
};

/* Thread domain: the promise that its objects are used by one thread at a time. */
struct ibv_td {
	/* Device context. */
	struct ibv_context *context;
};

/* Attributes of a new parent domain. */
struct ibv_parent_domain_init_attr {
	/* Protection domain, required. */
	struct ibv_pd *pd;
	/* Thread domain, or null. */
	struct ibv_td *td;
	/* Bits of ibv_parent_domain_init_attr_mask. */
	uint32_t comp_mask;
	/* Allocator for provider buffers; may answer IBV_ALLOCATOR_USE_DEFAULT. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
			uint64_t resource_type);
	/* Counterpart of alloc. */
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	/* Passed to both. */
	void *pd_context;
};

/* Attributes for opening an extended connection domain. */
struct ibv_xrcd_init_attr {
	/* Bits of ibv_xrcd_init_attr_mask. */
	uint32_t comp_mask;
	/* File whose inode names the domain, -1 for a private one. */
	int fd;
	/* O_CREAT, O_EXCL or 0. */
	int oflags;
};

/* Extended reliable connection domain. */
struct ibv_xrcd {
	/* Device context. */
	struct ibv_context *context;
};

/* Attributes of a device memory allocation. */
struct ibv_alloc_dm_attr {
	/* Length in bytes. */
	size_t length;
	/* Logarithm to base 2 of the alignment. */
	uint32_t log_align_req;
	/* Must be 0. */
	uint32_t comp_mask;
};

/* Tag matching sizes. */
struct ibv_tm_cap {
	/* Tags in the matching list. */
	uint32_t max_num_tags;
	/* Outstanding list operations. */
	uint32_t max_ops;
};

/* Attributes of a new shared receive queue, extended. Starts as ibv_srq_init_attr. */
struct ibv_srq_init_attr_ex {
	/* The program's pointer. */
	void *srq_context;
	/* Sizes; on return what was allocated. */
	struct ibv_srq_attr attr;
	/* Bits of ibv_srq_init_attr_mask. */
	uint32_t comp_mask;
	/* Kind. */
	enum ibv_srq_type srq_type;
	/* Protection domain. */
	struct ibv_pd *pd;
	/* Extended connection domain. */
	struct ibv_xrcd *xrcd;
	/* Completion queue. */
	struct ibv_cq *cq;
	/* Tag matching. */
	struct ibv_tm_cap tm_cap;
};

/* Attributes of a new work queue. */
struct ibv_wq_init_attr {
	/* The program's pointer. */
	void *wq_context;
	/* Kind. */
	enum ibv_wq_type wq_type;
	/* Outstanding requests; on return what was allocated. */
	uint32_t max_wr;
	/* Scatter-gather entries per request; on return what was allocated. */
	uint32_t max_sge;
	/* Protection domain. */
	struct ibv_pd *pd;
	/* Completion queue. */
	struct ibv_cq *cq;
	/* Bits of ibv_wq_init_attr_mask. */
	uint32_t comp_mask;
	/* Bits of ibv_wq_flags. */
	uint32_t create_flags;
};

/* Attributes of ibv_modify_wq. */
struct ibv_wq_attr {
	/* Bits of ibv_wq_attr_mask. */
	uint32_t attr_mask;
	/* State to move to. */
	enum ibv_wq_state wq_state;
	/* State assumed now. */
	enum ibv_wq_state curr_wq_state;
	/* Bits of ibv_wq_flags. */
	uint32_t flags;
	/* Which of them to change. */
	uint32_t flags_mask;
};

/* Indirection table: spreads packets over work queues. */
struct ibv_rwq_ind_table {
	/* Device context. */
	struct ibv_context *context;
	/* Kernel handle. */
	int ind_tbl_handle;
	/* Number. */
	int ind_tbl_num;
	/* Reserved. */
	uint32_t comp_mask;
};

/* Attributes of a new indirection table. */
struct ibv_rwq_ind_table_init_attr {
	/* Logarithm to base 2 of the number of entries. */
	uint32_t log_ind_tbl_size;
	/* The entries. */
	struct ibv_wq **ind_tbl;
	/* Must be 0. */
	uint32_t comp_mask;
};

/* Receive hash of a queue pair. */
struct ibv_rx_hash_conf {
	/* A bit of ibv_rx_hash_function_flags. */
	uint8_t rx_hash_function;
	/* Length of the key in bytes. */
	uint8_t rx_hash_key_len;
	/* The key. */
	uint8_t *rx_hash_key;
	/* Bits of ibv_rx_hash_fields. */
	uint64_t rx_hash_fields_mask;
};

/* Attributes of a new queue pair, extended. Starts as ibv_qp_init_attr. */
struct ibv_qp_init_attr_ex {
	/* The program's pointer. */
	void *qp_context;
	/* Completions of the send queue. */
	struct ibv_cq *send_cq;
	/* Completions of the receive queue. */
	struct ibv_cq *recv_cq;
	/* Shared receive queue, or null. */
	struct ibv_srq *srq;
	/* Sizes; on return what was allocated. */
	struct ibv_qp_cap cap;
	/* Service. */
	enum ibv_qp_type qp_type;
	/* Nonzero: every send completes with an entry. */
	int sq_sig_all;
	/* Bits of ibv_qp_init_attr_mask. */
	uint32_t comp_mask;
	/* Protection domain. */
	struct ibv_pd *pd;
	/* Extended connection domain. */
	struct ibv_xrcd *xrcd;
	/* Bits of ibv_qp_create_flags. */
	uint32_t create_flags;
	/* Longest header of a segmented send in bytes. */
	uint16_t max_tso_header;
	/* Indirection table. */
	struct ibv_rwq_ind_table *rwq_ind_tbl;
	/* Receive hash. */
	struct ibv_rx_hash_conf rx_hash_conf;
	/* Source queue pair number to send with. */
	uint32_t source_qpn;
	/* Bits of ibv_qp_create_send_ops_flags. */
	uint64_t send_ops_flags;
};

/* Attributes for opening a shared queue pair. */
struct ibv_qp_open_attr {
	/* Bits of ibv_qp_open_attr_mask. */
	uint32_t comp_mask;
	/* Queue pair number. */
	uint32_t qp_num;
	/* Domain it lives in. */
	struct ibv_xrcd *xrcd;
	/* The program's pointer. */
	void *qp_context;
	/* Service. */
	enum ibv_qp_type qp_type;
};

/* Attributes of ibv_modify_qp_rate_limit. */
struct ibv_qp_rate_limit_attr {
	/* Rate in kbit/s. */
	uint32_t rate_limit;
	/* Largest burst in bytes. */
	uint32_t max_burst_sz;
	/* Typical packet in bytes. */
	uint16_t typical_pkt_sz;
	/* Must be 0. */
	uint32_t comp_mask;
};

/* File descriptors. */
struct ibv_fd_arr {
	/* The first of them. */
	int *arr;
	/* How many there are. */
	uint32_t count;
};

/* Operation on a shared receive queue's matching list; operations form a list. */
struct ibv_ops_wr {
	/* Identifier returned in the completion. */
	uint64_t wr_id;
	/* Next operation, or null. */
	struct ibv_ops_wr *next;
	/* Operation. */
	enum ibv_ops_wr_opcode opcode;
	/* Bits of ibv_ops_flags. */
	int flags;
	/* Operands. */
	struct {
		/* Unexpected messages that the program has seen. */
		uint32_t unexpected_cnt;
		/* Handle of the tag: output of add, input of del. */
		uint32_t handle;
		/* Tag to add. */
		struct {
			/* Identifier returned when a message matches. */
			uint64_t recv_wr_id;
			/* Buffers for the message. */
			struct ibv_sge *sg_list;
			/* Number of buffers. */
			int num_sge;
			/* Tag to match. */
			uint64_t tag;
			/* Bits of the tag that count. */
			uint64_t mask;
		} add;
	} tm;
};

/* Attributes of a new counters object. */
struct ibv_counters_init_attr {
	/* Must be 0. */
	uint32_t comp_mask;
};

/* A set of counters. */
struct ibv_counters {
	/* Device context. */
	struct ibv_context *context;
};

/* Where a counter goes. */
struct ibv_counter_attach_attr {
	/* What to count. */
	enum ibv_counter_description counter_desc;
	/* Position in the array that ibv_read_counters fills. */
	uint32_t index;
	/* Must be 0. */
	uint32_t comp_mask;
};

/* Real-time values of a device. */
struct ibv_values_ex {
	/* Bits of ibv_values_mask: asked for on input, answered on output. */
	uint32_t comp_mask;
	/* Device clock; its ticks are in tv_nsec. */
	struct timespec raw_clock;
};

/* Ethernet filter. */
struct ibv_flow_eth_filter {
	/* Destination address. */
	uint8_t dst_mac[6];
	/* Source address. */
	uint8_t src_mac[6];
	/* EtherType, network byte order. */
	uint16_t ether_type;
	/* 802.1Q tag, network byte order. */
	uint16_t vlan_tag;
};

/* Ethernet filter specification. */
struct ibv_flow_spec_eth {
	/* IBV_FLOW_SPEC_ETH. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_eth_filter val;
	/* Bits that count. */
	struct ibv_flow_eth_filter mask;
};

/* IPv4 address filter. */
struct ibv_flow_ipv4_filter {
	/* Source, network byte order. */
	uint32_t src_ip;
	/* Destination, network byte order. */
	uint32_t dst_ip;
};

/* IPv4 address filter specification. */
struct ibv_flow_spec_ipv4 {
	/* IBV_FLOW_SPEC_IPV4. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_ipv4_filter val;
	/* Bits that count. */
	struct ibv_flow_ipv4_filter mask;
};

/* IPv4 header filter. */
struct ibv_flow_ipv4_ext_filter {
	/* Source, network byte order. */
	uint32_t src_ip;
	/* Destination, network byte order. */
	uint32_t dst_ip;
	/* Protocol. */
	uint8_t proto;
	/* Type of service. */
	uint8_t tos;
	/* Time to live. */
	uint8_t ttl;
	/* Fragment flags. */
	uint8_t flags;
};

/* IPv4 header filter specification. */
struct ibv_flow_spec_ipv4_ext {
	/* IBV_FLOW_SPEC_IPV4_EXT. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_ipv4_ext_filter val;
	/* Bits that count. */
	struct ibv_flow_ipv4_ext_filter mask;
};

/* IPv6 filter. */
struct ibv_flow_ipv6_filter {
	/* Source. */
	uint8_t src_ip[16];
	/* Destination. */
	uint8_t dst_ip[16];
	/* Flow label. */
	uint32_t flow_label;
	/* Next header. */
	uint8_t next_hdr;
	/* Traffic class. */
	uint8_t traffic_class;
	/* Hop limit. */
	uint8_t hop_limit;
};

/* IPv6 filter specification. */
struct ibv_flow_spec_ipv6 {
	/* IBV_FLOW_SPEC_IPV6. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_ipv6_filter val;
	/* Bits that count. */
	struct ibv_flow_ipv6_filter mask;
};

/* IPsec ESP filter. */
struct ibv_flow_esp_filter {
	/* Security parameter index. */
	uint32_t spi;
	/* Sequence number. */
	uint32_t seq;
};

/* IPsec ESP filter specification. */
struct ibv_flow_spec_esp {
	/* IBV_FLOW_SPEC_ESP. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_esp_filter val;
	/* Bits that count. */
	struct ibv_flow_esp_filter mask;
};

/* Port filter. */
struct ibv_flow_tcp_udp_filter {
	/* Destination port, network byte order. */
	uint16_t dst_port;
	/* Source port, network byte order. */
	uint16_t src_port;
};

/* Port filter specification. */
struct ibv_flow_spec_tcp_udp {
	/* IBV_FLOW_SPEC_TCP or IBV_FLOW_SPEC_UDP. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_tcp_udp_filter val;
	/* Bits that count. */
	struct ibv_flow_tcp_udp_filter mask;
};

/* GRE filter. */
struct ibv_flow_gre_filter {
	/* First 16 bits of the GRE header: checksum, key and sequence flags, version. */
	uint16_t c_ks_res0_ver;
	/* Protocol type. */
	uint16_t protocol;
	/* Key. */
	uint32_t key;
};

/* GRE filter specification. */
struct ibv_flow_spec_gre {
	/* IBV_FLOW_SPEC_GRE. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_gre_filter val;
	/* Bits that count. */
	struct ibv_flow_gre_filter mask;
};

/* MPLS filter. */
struct ibv_flow_mpls_filter {
	/* The whole label word: label, traffic class, bottom of stack, time to live. */
	uint32_t label;
};

/* MPLS filter specification. */
struct ibv_flow_spec_mpls {
	/* IBV_FLOW_SPEC_MPLS. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_mpls_filter val;
	/* Bits that count. */
	struct ibv_flow_mpls_filter mask;
};

/* Tunnel filter. */
struct ibv_flow_tunnel_filter {
	/* Tunnel identifier. */
	uint32_t tunnel_id;
};

/* Tunnel filter specification. */
struct ibv_flow_spec_tunnel {
	/* IBV_FLOW_SPEC_VXLAN_TUNNEL. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Values to match. */
	struct ibv_flow_tunnel_filter val;
	/* Bits that count. */
	struct ibv_flow_tunnel_filter mask;
};

/* Tagging action. */
struct ibv_flow_spec_action_tag {
	/* IBV_FLOW_SPEC_ACTION_TAG. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* Tag reported with completions. */
	uint32_t tag_id;
};

/* Dropping action. */
struct ibv_flow_spec_action_drop {
	/* IBV_FLOW_SPEC_ACTION_DROP. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
};

/* An action that rules refer to. */
struct ibv_flow_action {
	/* Device context. */
	struct ibv_context *context;
};

/* Reference to a flow action. */
struct ibv_flow_spec_action_handle {
	/* IBV_FLOW_SPEC_ACTION_HANDLE. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* The action. */
	const struct ibv_flow_action *action;
};

/* Counting action. */
struct ibv_flow_spec_counter_action {
	/* IBV_FLOW_SPEC_ACTION_COUNT. */
	enum ibv_flow_spec_type type;
	/* Size of this struct in bytes. */
	uint16_t size;
	/* The counters. */
	struct ibv_counters *counters;
};

/* One filter or action of a rule. */
__extension__ struct ibv_flow_spec {
	/* The specification. */
	__extension__ union {
		/* Common start. */
		struct {
			/* Kind. */
			enum ibv_flow_spec_type type;
			/* Size in bytes. */
			uint16_t size;
		} hdr;
		/* Ethernet. */
		struct ibv_flow_spec_eth eth;
		/* IPv4 addresses. */
		struct ibv_flow_spec_ipv4 ipv4;
		/* Ports. */
		struct ibv_flow_spec_tcp_udp tcp_udp;
		/* IPv4 header. */
		struct ibv_flow_spec_ipv4_ext ipv4_ext;
		/* IPv6. */
		struct ibv_flow_spec_ipv6 ipv6;
		/* IPsec ESP. */
		struct ibv_flow_spec_esp esp;
		/* Tunnel. */
		struct ibv_flow_spec_tunnel tunnel;
		/* GRE. */
		struct ibv_flow_spec_gre gre;
		/* MPLS. */
		struct ibv_flow_spec_mpls mpls;
		/* Tagging. */
		struct ibv_flow_spec_action_tag flow_tag;
		/* Dropping. */
		struct ibv_flow_spec_action_drop drop;
		/* Flow action. */
		struct ibv_flow_spec_action_handle handle;
		/* Counting. */
		struct ibv_flow_spec_counter_action flow_count;
	};
};

/* A rule; its specifications follow in memory, packed one after the other. */
struct ibv_flow_attr {
	/* Must be 0. */
	uint32_t comp_mask;
	/* Kind of rule. */
	enum ibv_flow_attr_type type;
	/* Size of this struct and its specifications in bytes. */
	uint16_t size;
	/* Lower numbers win. */
	uint16_t priority;
	/* Number of specifications. */
	uint8_t num_of_specs;
	/* Port, counted from 1. */
	uint8_t port;
	/* Bits of ibv_flow_flags. */
	uint32_t flags;
};

/* An installed rule. */
struct ibv_flow {
	/* Reserved. */
	uint32_t comp_mask;
	/* Device context. */
	struct ibv_context *context;
	/* Kernel handle. */
	uint32_t handle;
};

/* Attributes of an IPsec ESP action. */
struct ibv_flow_action_esp_attr {
	/* Security association. */
	struct ibv_flow_action_esp *esp_attr;
	/* Kind of key material. */
	enum ibv_flow_action_esp_keymat keymat_proto;
	/* Its length in bytes. */
	uint16_t keymat_len;
	/* The key material. */
	void *keymat_ptr;
	/* Kind of replay protection. */
	enum ibv_flow_action_esp_replay replay_proto;
	/* Length of its parameters in bytes. */
	uint16_t replay_len;
	/* The parameters. */
	void *replay_ptr;
	/* Encapsulation. */
	struct ibv_flow_action_esp_encap *esp_encap;
	/* Bits of ibv_flow_action_esp_mask. */
	uint32_t comp_mask;
	/* Upper half of the extended sequence number. */
	uint32_t esn;
};

/*
 * Operations added after the first ABI. It grows at its start; sz says how much of it exists,
 * counted back from the end.
 */
struct verbs_context {
	/* Frees a buffer. */
	void (*free_buf)(struct ibv_buf *buf);
	/* New buffer. */
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
	/* Device memory as a dma-buf. */
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
	/* Region with all options. */
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
	/* Frees hints for direct memory access. */
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
	/* New hints for direct memory access. */
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context,
			struct ibv_dmah_init_attr *attr);
	/* Port properties. */
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			struct ibv_port_attr *port_attr, size_t port_attr_len);
	/* Advice about memory. */
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			struct ibv_sge *sg_list, uint32_t num_sges);
	/* Region that swallows writes and reads as zero. */
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	/* Counter values. */
	int (*read_counters)(struct ibv_counters *counters, uint64_t *counters_value,
			uint32_t ncounters, uint32_t flags);
	/* Attaches a counter to a flow. */
	int (*attach_counters_point_flow)(struct ibv_counters *counters,
			struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
	/* New counters. */
	struct ibv_counters *(*create_counters)(struct ibv_context *context,
			struct ibv_counters_init_attr *init_attr);
	/* Frees counters. */
	int (*destroy_counters)(struct ibv_counters *counters);
	/* Region over device memory. */
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
			size_t length, unsigned int access);
	/* Allocates device memory. */
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
	/* Frees device memory. */
	int (*free_dm)(struct ibv_dm *dm);
	/* Changes an ESP action. */
	int (*modify_flow_action_esp)(struct ibv_flow_action *action,
			struct ibv_flow_action_esp_attr *attr);
	/* Frees a flow action. */
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	/* New ESP action. */
	struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *context,
			struct ibv_flow_action_esp_attr *attr);
	/* Rate limit of a queue pair. */
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	/* New parent domain. */
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
			struct ibv_parent_domain_init_attr *attr);
	/* Frees a thread domain. */
	int (*dealloc_td)(struct ibv_td *td);
	/* New thread domain. */
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
	/* Changes a completion queue. */
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	/* Tag matching operations. */
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
	/* Frees an indirection table. */
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *rwq_ind_table);
	/* New indirection table. */
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(struct ibv_context *context,
			struct ibv_rwq_ind_table_init_attr *init_attr);
	/* Frees a work queue. */
	int (*destroy_wq)(struct ibv_wq *wq);
	/* Changes a work queue. */
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
	/* New work queue. */
	struct ibv_wq *(*create_wq)(struct ibv_context *context,
			struct ibv_wq_init_attr *wq_init_attr);
	/* Clock values. */
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	/* New extended completion queue. */
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
			struct ibv_cq_init_attr_ex *init_attr);
	/* Private data of the library. */
	struct verbs_ex_private *priv;
	/* Extended device properties. */
	int (*query_device_ex)(struct ibv_context *context,
			const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size);
	/* Removes a rule. */
	int (*ibv_destroy_flow)(struct ibv_flow *flow);
	/* Unused slot. */
	void (*ABI_placeholder2)(void);
	/* Installs a rule. */
	struct ibv_flow *(*ibv_create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr);
	/* Unused slot. */
	void (*ABI_placeholder1)(void);
	/* Opens a shared queue pair. */
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	/* New queue pair, extended. */
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
			struct ibv_qp_init_attr_ex *qp_init_attr_ex);
	/* Number of a shared receive queue. */
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	/* New shared receive queue, extended. */
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
			struct ibv_srq_init_attr_ex *srq_init_attr_ex);
	/* Opens an extended connection domain. */
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context,
			struct ibv_xrcd_init_attr *xrcd_init_attr);
	/* Closes an extended connection domain. */
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	/* Unused. */
	uint64_t _ABI_placeholder3;
	/* Size in bytes of this struct as its creator knew it. Directly before context. */
	size_t sz;
	/* The context that programs hold. Last member. */
	struct ibv_context context;
};

/* Text for a completion status; a fixed text for an unknown one. */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/* Multiple of 2.5 Gbit/s that a rate stands for, -1 if it is none. */
__attribute__((const)) int ibv_rate_to_mult(enum ibv_rate rate);

/* Rate for a multiple of 2.5 Gbit/s, IBV_RATE_MAX if there is none. */
__attribute__((const)) enum ibv_rate mult_to_ibv_rate(int mult);

/* Rate in Mbit/s, -1 if unknown. */
__attribute__((const)) int ibv_rate_to_mbps(enum ibv_rate rate);

/* Rate for a number of Mbit/s, IBV_RATE_MAX if there is none. */
__attribute__((const)) enum ibv_rate mbps_to_ibv_rate(int mbps);

/*
 * Devices of this machine, ended by a null pointer. The number goes to num_devices unless that is
 * null. Null and errno on failure. Free the list with ibv_free_device_list.
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

/* Frees a list. Devices that were not opened are gone afterwards. */
void ibv_free_device_list(struct ibv_device **list);

/* Name of the RDMA device. */
const char *ibv_get_device_name(struct ibv_device *device);

/* Kernel's index of the device, -1 if the kernel does not tell. */
int ibv_get_device_index(struct ibv_device *device);

/* Node GUID. */
__be64 ibv_get_device_guid(struct ibv_device *device);

/* Opens a device. Null and errno on failure. */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/* Closes a context; its objects must be gone. 0 or -1. */
int ibv_close_device(struct ibv_context *context);

/*
 * Opens a context over a command descriptor that another process owns. Null and errno on failure.
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/* Protection domain for a kernel handle. Null and errno on failure. */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/* Forgets an imported protection domain without destroying it in the kernel. */
void ibv_unimport_pd(struct ibv_pd *pd);

/* Memory region for a kernel handle; its address is null. Null and errno on failure. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/* Forgets an imported memory region. */
void ibv_unimport_mr(struct ibv_mr *mr);

/* Device memory for a kernel handle. Null and errno on failure. */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/* Forgets imported device memory. */
void ibv_unimport_dm(struct ibv_dm *dm);

/* Waits for the next asynchronous event. 0 or -1 and errno. Each event must be acknowledged. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/* Acknowledges an event. Destroying an object waits for its events to be acknowledged. */
void ibv_ack_async_event(struct ibv_async_event *event);

/* Device properties. 0 or an errno value. */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/*
 * Port properties in their first layout. 0 or an errno value. Programs get the full layout through
 * the macro of the same name.
 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		struct _compat_ibv_port_attr *port_attr);

/* One GID. 0 or -1. */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

/* Worker of ibv_query_gid_ex; entry_size is the size that the program was built with. */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);

/* Worker of ibv_query_gid_table; entry_size is the size that the program was built with. */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
		size_t max_entries, uint32_t flags, size_t entry_size);

/* One partition key. 0 or -1. */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/* Index of a partition key, or -1. */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* New protection domain. Null and errno on failure. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/* Frees a protection domain. 0 or an errno value. */
int ibv_dealloc_pd(struct ibv_pd *pd);

/*
 * Registers memory; keys address it from iova on. Optional rights are dropped when the kernel does
 * not know them. Null and errno on failure.
 */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		unsigned int access);

/* Registers memory. Null and errno on failure. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

/* Registers memory; keys address it from iova on. Null and errno on failure. */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		int access);

/* Registers a part of a dma-buf. Null and errno on failure. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
		int fd, int access);

/* Changes a region as ibv_rereg_mr_flags say. 0 or a value of ibv_rereg_mr_err_code, with errno. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		int access);

/* Frees a memory region. 0 or an errno value. */
int ibv_dereg_mr(struct ibv_mr *mr);

/* New completion event channel. Null and errno on failure. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/* Frees a channel. 0 or an errno value; EBUSY while completion queues use it. */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/* New completion queue with at least cqe entries. Null and errno on failure. */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
		struct ibv_comp_channel *channel, int comp_vector);

/* Changes the number of entries to at least cqe. 0 or an errno value. */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/* Frees a completion queue, after its events were acknowledged. 0 or an errno value. */
int ibv_destroy_cq(struct ibv_cq *cq);

/* Waits for the next completion event. 0 or -1 and errno. Each event must be acknowledged. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/* Acknowledges completion events. */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* New shared receive queue; the sizes made are written back. Null and errno on failure. */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/* Changes size or limit. 0 or an errno value. */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/* Attributes of a shared receive queue. 0 or an errno value. */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/* Frees a shared receive queue, after its events were acknowledged. 0 or an errno value. */
int ibv_destroy_srq(struct ibv_srq *srq);

/* New queue pair; the sizes made are written back. Null and errno on failure. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/* Extended form of a queue pair that was created with send operations, else null. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/* Changes the attributes that the mask names. 0 or an errno value. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/*
 * Whether the data of an operation lands in memory in order: 1 if the whole message does, else 0,
 * or bits of ibv_query_qp_data_in_order_caps as ibv_query_qp_data_in_order_flags ask for.
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/* Attributes of a queue pair; the mask is a hint. 0 or an errno value. */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		struct ibv_qp_init_attr *init_attr);

/* Frees a queue pair, after its events were acknowledged. 0 or an errno value. */
int ibv_destroy_qp(struct ibv_qp *qp);

/* New address handle. Null and errno on failure. */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/*
 * Address of the sender of a received datagram; grh counts only if the completion has the flag. 0
 * or -1.
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
		struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/* Address handle for the sender of a received datagram. Null on failure. */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
		uint8_t port_num);

/* Frees an address handle. 0 or an errno value. */
int ibv_destroy_ah(struct ibv_ah *ah);

/*
 * Lets a datagram queue pair receive from a multicast group; lid is in host byte order. 0 or an
 * errno value.
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Reverse of ibv_attach_mcast. 0 or an errno value. */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* Makes registered memory safe with fork; call it first. 0 or an errno value. */
int ibv_fork_init(void);

/* State of fork protection. */
enum ibv_fork_status ibv_is_fork_initialized(void);

/* Text for a node type. */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/* Text for a port state. */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/* Text for an event type. */
const char *ibv_event_type_str(enum ibv_event_type event);

/* Ethernet address (6 bytes) and VLAN that lead to the GID of an address. 0 or an errno value. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
		uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/* Text for an operation. */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/* Speed of a port in units of 100 Mb/s. 0 or an errno value. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/* New memory region with all options. Null and errno on failure. */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/* New file descriptor of a dma-buf over device memory. -1 and errno on failure. */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* New hints for direct memory access. Null and errno on failure. */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/* Frees hints for direct memory access. 0 or an errno value. */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/*
 * New buffer of the kind that suits the device, at a page's start; buf gets its handle. Null and
 * errno on failure.
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/* New file descriptor of the dma-buf behind a buffer. -1 and errno; ENODATA where there is none. */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

/* Frees a buffer. */
void ibv_free_buf(struct ibv_buf *buf);

/* New memory region in a buffer. Null and errno on failure. */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
		int access);

/* What completion counters can do, the first caps_size bytes. 0 or an errno value. */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
		size_t caps_size);

/* New completion counter. Null and errno on failure. */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
		struct ibv_comp_cntr_init_attr *cc_attr);

/* Frees a completion counter. 0 or an errno value. */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/* Sets the number of completions. 0 or an errno value. */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/* Sets the number of failures. 0 or an errno value. */
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/* Adds to the number of completions. 0 or an errno value. */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/* Adds to the number of failures. 0 or an errno value. */
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/* The number of completions. 0 or an errno value. */
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/* The number of failures. 0 or an errno value. */
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/* Has a counter count operations of a queue pair. 0 or an errno value. */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
		struct ibv_qp_attach_comp_cntr_attr *attr);

/* Sets connection enhancements before the queue pair leaves INIT. 0 or an errno value. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* Connection enhancements in effect. 0 or an errno value. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* End of what is generated. */

#ifdef __cplusplus
}
#endif

#include <infiniband/verbs_inline.h>

#endif /* INFINIBAND_VERBS_H */
