/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Generated from umad/src/abi/umad_str.rs; do not edit. */

#ifndef _UMAD_STR_H
#define _UMAD_STR_H

#include <infiniband/umad.h>

#ifdef __cplusplus
extern "C" {
#endif

@DECLARATIONS@

#ifdef __cplusplus
}
#endif

#endif /* _UMAD_STR_H */
