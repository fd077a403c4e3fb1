/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Generated from src/abi by `cargo run -p xtask -- headers`; do not edit. */

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

@DECLARATIONS@

#ifdef __cplusplus
}
#endif

#include <infiniband/verbs_inline.h>

#endif /* INFINIBAND_VERBS_H */
