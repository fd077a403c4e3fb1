/* SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef _UMAD_STR_H
#define _UMAD_STR_H

#include <infiniband/umad.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Generated from umad/src/abi/umad_str.rs; do not edit. */

/* Name of a management class. */
const char *umad_class_str(uint8_t mgmt_class);

/* Name of a method. */
const char *umad_method_str(uint8_t mgmt_class, uint8_t method);

/* Name of an attribute. */
const char *umad_attribute_str(uint8_t mgmt_class, __be16 attr_id);

/* Text for a status that every class has. */
const char *umad_common_mad_status_str(__be16 status);

/* Text for a status of subnet administration. */
const char *umad_sa_mad_status_str(__be16 status);

/* End of what is generated. */

#ifdef __cplusplus
}
#endif

#endif /* _UMAD_STR_H */
