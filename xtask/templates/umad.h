/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Generated from umad/src/abi/umad.rs and prototypes.rs; do not edit. */

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

@DECLARATIONS@

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
