/* SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef _UMAD_H
#define _UMAD_H

#include <arpa/inet.h>
#include <endian.h>
#include <linux/types.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Older names of integers in network byte order. */
typedef __be16 __attribute__((deprecated)) be16_t;
typedef __be32 __attribute__((deprecated)) be32_t;
typedef __be64 __attribute__((deprecated)) be64_t;

/* A GID on the wire. Other than union ibv_gid it is aligned to 4 bytes. */
union umad_gid {
	uint8_t raw[16];
	__be16 raw_be16[8];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
} __attribute__((aligned(4))) __attribute__((packed));

/* CAs that are looked at. */
#define UMAD_MAX_DEVICES 128
/* Any port of a CA. */
#define UMAD_ANY_PORT 0

/* The kernel's interface. */
#define IB_UMAD_ABI_VERSION 5
#define IB_UMAD_ABI_DIR "/sys/class/infiniband_mad"
#define IB_UMAD_ABI_FILE "abi_version"

#define IB_IOCTL_MAGIC 0x1b
#define IB_USER_MAD_REGISTER_AGENT _IOWR(IB_IOCTL_MAGIC, 1, struct ib_user_mad_reg_req)
#define IB_USER_MAD_UNREGISTER_AGENT _IOW(IB_IOCTL_MAGIC, 2, uint32_t)
#define IB_USER_MAD_ENABLE_PKEY _IO(IB_IOCTL_MAGIC, 3)
#define IB_USER_MAD_REGISTER_AGENT2 _IOWR(IB_IOCTL_MAGIC, 4, struct ib_user_mad_reg_req2)

/* Bytes of a CA's name with its NUL. */
#define UMAD_CA_NAME_LEN 20
/* Ports of a CA: 0 to 9. */
#define UMAD_CA_MAX_PORTS 10
/* Agents of a CA. */
#define UMAD_CA_MAX_AGENTS 32

/* Where sysfs has CAs and ports. */
#define SYS_INFINIBAND "/sys/class/infiniband"
#define SYS_INFINIBAND_MAD "/sys/class/infiniband_mad"
#define SYS_IB_MAD_PORT "port"
#define SYS_IB_MAD_DEV "ibdev"

/* Device files that are looked for. */
#define UMAD_MAX_PORTS 192

#define SYS_CA_PORTS_DIR "ports"

#define SYS_NODE_TYPE "node_type"
#define SYS_CA_FW_VERS "fw_ver"
#define SYS_CA_HW_VERS "hw_rev"
#define SYS_CA_TYPE "hca_type"
#define SYS_CA_NODE_GUID "node_guid"
#define SYS_CA_SYS_GUID "sys_image_guid"

#define SYS_PORT_LMC "lid_mask_count"
#define SYS_PORT_SMLID "sm_lid"
#define SYS_PORT_SMSL "sm_sl"
#define SYS_PORT_LID "lid"
#define SYS_PORT_STATE "state"
#define SYS_PORT_PHY_STATE "phys_state"
#define SYS_PORT_CAPMASK "cap_mask"
#define SYS_PORT_RATE "rate"
#define SYS_PORT_GUID "port_guid"
#define SYS_PORT_GID "gids/0"
#define SYS_PORT_LINK_LAYER "link_layer"

/* Flags of umad_reg_attr. */
enum {
	/* The program cuts and joins datagrams of several packets itself. */
	UMAD_USER_RMPP = (1 << 0)
};

typedef struct ib_mad_addr ib_mad_addr_t;
typedef struct ib_user_mad ib_user_mad_t;
typedef struct umad_port umad_port_t;
typedef struct umad_ca umad_ca_t;

/* Generated from umad/src/abi/umad.rs and prototypes.rs; do not edit. */

/* A port as sysfs has it. */
struct umad_port {
	/* Name of the CA. */
	char ca_name[UMAD_CA_NAME_LEN];
	/* Number of the port. */
	int portnum;
	/* Local identifier. */
	unsigned int base_lid;
	/* How many lower bits of the local identifier are free. */
	unsigned int lmc;
	/* Local identifier of the subnet manager. */
	unsigned int sm_lid;
	/* Service level to the subnet manager. */
	unsigned int sm_sl;
	/* 1 down, 2 initialized, 3 armed, 4 active. */
	unsigned int state;
	/* 2 polling, 3 disabled, 5 link up. */
	unsigned int phys_state;
	/* In Gbit/s, without what is behind the point. */
	unsigned int rate;
	/* Capability mask. */
	__be32 capmask;
	/* Subnet prefix of the first GID. */
	__be64 gid_prefix;
	/* Port's GUID, from the first GID. */
	__be64 port_guid;
	/* How many partition keys there are. */
	unsigned int pkeys_size;
	/* The partition keys, in host byte order. */
	uint16_t *pkeys;
	/* InfiniBand or Ethernet; IB where the kernel does not say. */
	char link_layer[UMAD_CA_NAME_LEN];
};

/* A channel adapter, switch or router as sysfs has it. */
struct umad_ca {
	/* Its name. */
	char ca_name[UMAD_CA_NAME_LEN];
	/* 1 channel adapter, 2 switch, 3 router. */
	unsigned int node_type;
	/* The highest port number. */
	int numports;
	/* Firmware version. */
	char fw_ver[20];
	/* Type, such as MT4123. */
	char ca_type[40];
	/* Hardware version. */
	char hw_ver[20];
	/* Node GUID. */
	__be64 node_guid;
	/* System image GUID. */
	__be64 system_guid;
	/* Ports by number; null where there is none. */
	struct umad_port *ports[UMAD_CA_MAX_PORTS];
};

/* Where a datagram goes to or came from. */
struct ib_mad_addr {
	/* Queue pair's number. */
	__be32 qpn;
	/* Q_Key. */
	__be32 qkey;
	/* Local identifier. */
	__be16 lid;
	/* Service level. */
	uint8_t sl;
	/* Lower bits of the local identifier. */
	uint8_t path_bits;
	/* Nonzero: the fields behind it count. */
	uint8_t grh_present;
	/* Index into the port's GID table. */
	uint8_t gid_index;
	/* Hop limit. */
	uint8_t hop_limit;
	/* Traffic class. */
	uint8_t traffic_class;
	/* The GID. */
	__extension__ union {
		/* Its bytes in network order. */
		uint8_t gid[16];
		/* The same. */
		union umad_gid ib_gid;
	};
	/* Flow label. */
	__be32 flow_label;
	/*
	 * Index into the port's partition key table; not there before the kernel is asked for it.
	 */
	uint16_t pkey_index;
	/* Zero. */
	uint8_t reserved[6];
};

/* An element of the list of CAs. */
struct umad_device_node {
	/* The next one, or null. */
	struct umad_device_node *next;
	/* Name of the CA. */
	const char *ca_name;
};

/* What an agent wants to get. */
struct umad_reg_attr {
	/* Management class. */
	uint8_t mgmt_class;
	/* Version of the management class. */
	uint8_t mgmt_class_version;
	/* UMAD_USER_RMPP or 0; after a refusal those that the kernel knows. */
	uint32_t flags;
	/* A bit for each method of which unsolicited datagrams are wanted. */
	uint64_t method_mask[2];
	/* Vendor's identifier, for the classes 0x30 to 0x4f. */
	uint32_t oui;
	/* 1: the kernel cuts and joins datagrams of several packets. */
	uint8_t rmpp_version;
};

/* The CA for subnet management and the CA for general services of one port. */
struct umad_ca_pair {
	/* CA for subnet management datagrams; empty where there is none. */
	char smi_name[UMAD_CA_NAME_LEN];
	/* Port of it to use. */
	uint32_t smi_preferred_port;
	/* CA for general services; empty where there is none. */
	char gsi_name[UMAD_CA_NAME_LEN];
	/* Port of it to use. */
	uint32_t gsi_preferred_port;
};

/* A datagram with what the kernel says or wants to know of it. */
struct ib_user_mad {
	/* Agent that sent it or gets it. */
	uint32_t agent_id;
	/* 0, or an errno value such as ETIMEDOUT of a request without an answer. */
	uint32_t status;
	/* How long the kernel waits for an answer (ms). */
	uint32_t timeout_ms;
	/* How often the kernel repeats the request. */
	uint32_t retries;
	/* Bytes of header and datagram, where it is read. */
	uint32_t length;
	/* The other side. */
	struct ib_mad_addr addr;
	/* The datagram. */
	__extension__ uint8_t data[0];
};

/* Has no effect. 0. */
int umad_init(void);

/* Has no effect. 0. */
int umad_done(void);

/*
 * Writes the names of at most max CAs, sorted; how many they are. Without the folder of sysfs 1, of
 * a name that used to be common.
 */
int umad_get_cas_names(char (*cas)[UMAD_CA_NAME_LEN], int max);

/*
 * Writes the GUIDs of a CA's ports, from port 0 on, 0 where there is none; how many they are, or
 * -errno.
 */
int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max);

/*
 * Reads a CA, by default the first one with an active port. 0 or -errno. Release it with
 * umad_release_ca.
 */
int umad_get_ca(const char *ca_name, struct umad_ca *ca);

/* Frees the ports of a CA. 0 or -errno. */
int umad_release_ca(struct umad_ca *ca);

/* Reads a port, by default the first active one. 0 or -errno. Release it with umad_release_port. */
int umad_get_port(const char *ca_name, int portnum, struct umad_port *port);

/* Frees the partition keys of a port. 0 or -errno. */
int umad_release_port(struct umad_port *port);

/*
 * Writes the path of the file that makes a port a subnet manager's while it is open. 0 or -errno.
 */
int umad_get_issm_path(const char *ca_name, int portnum, char *path, int max);

/* Opens a port, by default the first active one. A descriptor or -errno. */
int umad_open_port(const char *ca_name, int portnum);

/* As umad_open_port, but by default only of ports that take subnet management datagrams. */
int umad_open_smi_port(const char *ca_name, int portnum);

/* Closes a port. 0. */
int umad_close_port(int portid);

/* The datagram in a buffer. */
void *umad_get_mad(void *umad);

/* Bytes in front of the datagram: 64, or 56 where the kernel knows no partition key index. */
size_t umad_size(void);

/* 0, or the errno value with which a request ended. */
int umad_status(void *umad);

/* The address in a buffer. */
struct ib_mad_addr *umad_get_mad_addr(void *umad);

/* Takes the GRH of an address whose flow label is in host byte order, or none. 0. */
int umad_set_grh(void *umad, void *mad_addr);

/* Sets the address from network byte order. 0. */
int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey);

/* Sets the address from host byte order. 0. */
int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey);

/* Sets the partition key index, where the kernel knows one. 0. */
int umad_set_pkey(void *umad, int pkey_index);

/* The partition key index, or 0 where the kernel knows none. */
int umad_get_pkey(void *umad);

/*
 * Sends a datagram of length bytes, of which an answer is expected within timeout_ms unless that is
 * 0. 0 or -EIO with the error in errno.
 */
int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries);

/*
 * Waits up to timeout_ms, for ever if that is negative, and takes a datagram of up to length bytes.
 * The agent's number, or -errno with the error in errno; length is then what the datagram needs.
 */
int umad_recv(int portid, void *umad, int *length, int timeout_ms);

/* Waits up to timeout_ms, for ever if that is negative. 0, -ETIMEDOUT or -EIO. */
int umad_poll(int portid, int timeout_ms);

/* The descriptor itself. */
int umad_get_fd(int portid);

/* Registers an agent. Its number or -EPERM. */
int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
		long *method_mask);

/* Registers an agent of a vendor's class from 0x30 to 0x4f. Its number, -EINVAL or -EPERM. */
int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t *oui,
		long *method_mask);

/* Unregisters an agent. 0 or -1. */
int umad_unregister(int portid, int agentid);

/* Sorts a list by name; its length may be 0 for unknown. 0 or an errno value. */
int umad_sort_ca_device_list(struct umad_device_node **head, size_t size);

/*
 * List of CAs; null and errno on failure, null alone where there is none. Free it with
 * umad_free_ca_device_list.
 */
struct umad_device_node *umad_get_ca_device_list(void);

/* Frees a list. */
void umad_free_ca_device_list(struct umad_device_node *head);

/* Registers an agent, with flags. 0 or an errno value. */
int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id);

/*
 * Sets what is written to the standard error, unless level is negative: 0 nothing, 1 what is done,
 * 2 also what is sent. The level.
 */
int umad_debug(int level);

/* Writes an address to the standard error. */
void umad_addr_dump(struct ib_mad_addr *addr);

/* Writes the header of a datagram to the standard error. */
void umad_dump(void *umad);

/*
 * Writes at most max pairs of CAs for subnet management and general services; how many they are, or
 * -1.
 */
int umad_get_smi_gsi_pairs(struct umad_ca_pair *cas, size_t max);

/*
 * The pair that a CA belongs to, and the ports to use, by default active ones. 0, -ENODEV or
 * another number; also 0 where there is no pair at all.
 */
int umad_get_smi_gsi_pair_by_ca_name(const char *devname, uint8_t portnum,
		struct umad_ca_pair *ca_pair, unsigned int enforce_smi);

/* End of what is generated. */

/* Takes the GRH of an address in network byte order; declared, but in no library. */
int umad_set_grh_net(void *umad, void *mad_addr);

/* Zeroed memory for num buffers of size bytes, header included. Null and errno on failure. */
static inline void *umad_alloc(int num, size_t size)
{
	return calloc(num, size);
}

/* Frees buffers. */
static inline void umad_free(void *umad)
{
	free(umad);
}

/* Older names of functions of the C library. */
#ifndef ntohll
static inline __attribute__((deprecated)) uint64_t ntohll(uint64_t x)
{
	return (uint64_t)ntohl((uint32_t)x) << (ntohl(1) == 1 ? 0 : 32) |
	       (uint64_t)ntohl((uint32_t)(x >> 32)) << (ntohl(1) == 1 ? 32 : 0);
}
#define ntohll ntohll
#endif
#ifndef htonll
static inline __attribute__((deprecated)) uint64_t htonll(uint64_t x)
{
	return (uint64_t)htonl((uint32_t)x) << (htonl(1) == 1 ? 0 : 32) |
	       (uint64_t)htonl((uint32_t)(x >> 32)) << (htonl(1) == 1 ? 32 : 0);
}
#define htonll htonll
#endif

#ifdef __cplusplus
}
#endif

#endif /* _UMAD_H */
