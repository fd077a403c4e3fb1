/* SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef INFINIBAND_TM_TYPES_H
#define INFINIBAND_TM_TYPES_H

#include <linux/types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Generated from src/abi/tm_types.rs; do not edit. */

/* Operation in a tag matching header. */
enum ibv_tmh_op {
	/* Message without a tag. */
	IBV_TMH_NO_TAG = 0,
	/* Rendezvous request. */
	IBV_TMH_RNDV = 1,
	/* End of a rendezvous. */
	IBV_TMH_FIN = 2,
	/* Message with its data. */
	IBV_TMH_EAGER = 3,
};

/* Tag matching header. */
struct ibv_tmh {
	/* A value of ibv_tmh_op. */
	uint8_t opcode;
	/* Zero. */
	uint8_t reserved[3];
	/* The program's opaque data. */
	__be32 app_ctx;
	/* Tag. */
	__be64 tag;
};

/* Rendezvous header. */
struct ibv_rvh {
	/* Address of the sender's data. */
	__be64 va;
	/* Key for reading it. */
	__be32 rkey;
	/* Length in bytes. */
	__be32 len;
};

/* End of what is generated. */

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_TM_TYPES_H */
