/* SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef _UMAD_TYPES_H
#define _UMAD_TYPES_H

#include <infiniband/umad.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UMAD_BASE_VERSION 1
#define UMAD_QKEY 0x80010000

/* Management classes. */
enum {
	UMAD_CLASS_SUBN_LID_ROUTED = 0x01,
	UMAD_CLASS_SUBN_DIRECTED_ROUTE = 0x81,
	UMAD_CLASS_SUBN_ADM = 0x03,
	UMAD_CLASS_PERF_MGMT = 0x04,
	UMAD_CLASS_BM = 0x05,
	UMAD_CLASS_DEVICE_MGMT = 0x06,
	UMAD_CLASS_CM = 0x07,
	UMAD_CLASS_SNMP = 0x08,
	UMAD_CLASS_VENDOR_RANGE1_START = 0x09,
	UMAD_CLASS_VENDOR_RANGE1_END = 0x0F,
	UMAD_CLASS_APPLICATION_START = 0x10,
	UMAD_CLASS_DEVICE_ADM = UMAD_CLASS_APPLICATION_START,
	UMAD_CLASS_BOOT_MGMT = 0x11,
	UMAD_CLASS_BIS = 0x12,
	UMAD_CLASS_CONG_MGMT = 0x21,
	UMAD_CLASS_APPLICATION_END = 0x2F,
	UMAD_CLASS_VENDOR_RANGE2_START = 0x30,
	UMAD_CLASS_VENDOR_RANGE2_END = 0x4F
};

/* Methods. */
enum {
	UMAD_METHOD_GET = 0x01,
	UMAD_METHOD_SET = 0x02,
	UMAD_METHOD_GET_RESP = 0x81,
	UMAD_METHOD_SEND = 0x03,
	UMAD_METHOD_TRAP = 0x05,
	UMAD_METHOD_REPORT = 0x06,
	UMAD_METHOD_REPORT_RESP = 0x86,
	UMAD_METHOD_TRAP_REPRESS = 0x07,
	UMAD_METHOD_RESP_MASK = 0x80
};

/* Bits and values of the status, in host byte order. */
enum {
	UMAD_STATUS_SUCCESS = 0x0000,
	UMAD_STATUS_BUSY = 0x0001,
	UMAD_STATUS_REDIRECT = 0x0002,
	UMAD_STATUS_BAD_VERSION = (1 << 2),
	UMAD_STATUS_METHOD_NOT_SUPPORTED = (2 << 2),
	UMAD_STATUS_ATTR_NOT_SUPPORTED = (3 << 2),
	UMAD_STATUS_INVALID_ATTR_VALUE = (7 << 2),
	UMAD_STATUS_INVALID_FIELD_MASK = 0x001C,
	UMAD_STATUS_CLASS_MASK = 0xFF00
};

/* Attributes that every class has. */
enum {
	UMAD_ATTR_CLASS_PORT_INFO = 0x0001,
	UMAD_ATTR_NOTICE = 0x0002,
	UMAD_ATTR_INFORM_INFO = 0x0003
};

#define UMAD_RMPP_VERSION 1

/* Flags of umad_rmpp_hdr.rmpp_rtime_flags. */
enum {
	UMAD_RMPP_FLAG_ACTIVE = 1
};

/* Bytes behind the headers of a datagram. */
enum {
	UMAD_LEN_DATA = 232,
	UMAD_LEN_RMPP_DATA = 220,
	UMAD_LEN_DM_DATA = 192,
	UMAD_LEN_VENDOR_DATA = 216
};

/* Vendor's identifier of OpenIB. */
enum {
	UMAD_OPENIB_OUI = 0x001405
};

/* Lower bits of umad_class_port_info.cap_mask2_resp_time. */
enum {
	UMAD_CLASS_RESP_TIME_MASK = 0x1F
};

/* Generated from umad/src/abi/umad_types.rs; do not edit. */

/* Header that every datagram has. */
struct umad_hdr {
	/* 1. */
	uint8_t base_version;
	/* Management class. */
	uint8_t mgmt_class;
	/* Version of the management class. */
	uint8_t class_version;
	/* Method. */
	uint8_t method;
	/* Status. */
	__be16 status;
	/* The class says what it is. */
	__be16 class_specific;
	/* Transaction. */
	__be64 tid;
	/* Attribute. */
	__be16 attr_id;
	/* Zero. */
	__be16 resv;
	/* The attribute says what it is. */
	__be32 attr_mod;
};

/* Header of datagrams of several packets. */
struct umad_rmpp_hdr {
	/* 1. */
	uint8_t rmpp_version;
	/* Kind of packet. */
	uint8_t rmpp_type;
	/* Response time and flags. */
	uint8_t rmpp_rtime_flags;
	/* Status. */
	uint8_t rmpp_status;
	/* Number of the packet. */
	__be32 seg_num;
	/* Length of the payload, or the last packet that may be sent. */
	__be32 paylen_newwin;
};

/* A datagram. */
struct umad_packet {
	/* Header. */
	struct umad_hdr mad_hdr;
	/* In network byte order. */
	uint8_t data[UMAD_LEN_DATA];
};

/* A packet of a datagram of several. */
struct umad_rmpp_packet {
	/* Header. */
	struct umad_hdr mad_hdr;
	/* Header of the packet. */
	struct umad_rmpp_hdr rmpp_hdr;
	/* In network byte order. */
	uint8_t data[UMAD_LEN_RMPP_DATA];
};

/* A datagram of device management. */
struct umad_dm_packet {
	/* Header. */
	struct umad_hdr mad_hdr;
	/* Zero. */
	uint8_t reserved[40];
	/* In network byte order. */
	uint8_t data[UMAD_LEN_DM_DATA];
};

/* A vendor's datagram, of the classes 0x30 to 0x4f. */
struct umad_vendor_packet {
	/* Header. */
	struct umad_hdr mad_hdr;
	/* Header of the packet. */
	struct umad_rmpp_hdr rmpp_hdr;
	/* Zero. */
	uint8_t reserved;
	/* Vendor's identifier, in network byte order. */
	uint8_t oui[3];
	/* In network byte order. */
	uint8_t data[UMAD_LEN_VENDOR_DATA];
};

/* What an agent of a class can do, and where requests and traps go. */
struct umad_class_port_info {
	/* 1. */
	uint8_t base_ver;
	/* Version of the class. */
	uint8_t class_ver;
	/* Capabilities. */
	__be16 cap_mask;
	/* 27 bits of further capabilities and 5 of the response time. */
	__be32 cap_mask2_resp_time;
	/* Where requests go instead. */
	__extension__ union {
		/* Its bytes in network order. */
		uint8_t redir_gid[16];
		/* The same. */
		union umad_gid redirgid;
	};
	/* Traffic class, service level and flow label there. */
	__be32 redir_tc_sl_fl;
	/* Local identifier there. */
	__be16 redir_lid;
	/* Partition key there. */
	__be16 redir_pkey;
	/* Queue pair there. */
	__be32 redir_qp;
	/* Q_Key there. */
	__be32 redir_qkey;
	/* Where traps go. */
	__extension__ union {
		/* Its bytes in network order. */
		uint8_t trap_gid[16];
		/* The same. */
		union umad_gid trapgid;
	};
	/* Traffic class, service level and flow label there. */
	__be32 trap_tc_sl_fl;
	/* Local identifier there. */
	__be16 trap_lid;
	/* Partition key there. */
	__be16 trap_pkey;
	/* Hop limit and queue pair there. */
	__be32 trap_hl_qp;
	/* Q_Key there. */
	__be32 trap_qkey;
};

/* End of what is generated. */

/* The 27 bits of further capabilities. */
static inline uint32_t umad_class_cap_mask2(struct umad_class_port_info *cpi)
{
	return ntohl(cpi->cap_mask2_resp_time) >> 5;
}

/* How long an answer may take: 4.096 us * 2^value. */
static inline uint8_t umad_class_resp_time(struct umad_class_port_info *cpi)
{
	return (uint8_t)(ntohl(cpi->cap_mask2_resp_time) & UMAD_CLASS_RESP_TIME_MASK);
}

#ifdef __cplusplus
}
#endif

#endif /* _UMAD_TYPES_H */
