/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Generated from src/abi/tm_types.rs; do not edit. */

#ifndef INFINIBAND_TM_TYPES_H
#define INFINIBAND_TM_TYPES_H

#include <linux/types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

@DECLARATIONS@

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_TM_TYPES_H */
