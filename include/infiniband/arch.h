/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names that old programs take from here; new ones use <endian.h>. */

#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

#ifndef ntohll

#undef htonll

/* Host to network byte order. */
__attribute__((deprecated)) static inline uint64_t htonll(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(value);
#else
	return value;
#endif
}

/* Network to host byte order. */
__attribute__((deprecated)) static inline uint64_t ntohll(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(value);
#else
	return value;
#endif
}

/* Macros of the same name tell other headers that the functions exist. */
#define htonll htonll
#define ntohll ntohll

#endif /* ntohll */

#endif /* INFINIBAND_ARCH_H */
