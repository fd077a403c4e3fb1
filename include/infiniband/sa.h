/* SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef INFINIBAND_SA_H
#define INFINIBAND_SA_H

#include <infiniband/verbs.h>
#include <linux/types.h>

/* Bit of ibv_path_record.reversible_numpath. */
#define IBV_PATH_RECORD_REVERSIBLE 0x80

/* Bits of ibv_path_data.flags. */
#define IBV_PATH_FLAG_GMP (1 << 0)
#define IBV_PATH_FLAG_PRIMARY (1 << 1)
#define IBV_PATH_FLAG_ALTERNATE (1 << 2)
#define IBV_PATH_FLAG_OUTBOUND (1 << 3)
#define IBV_PATH_FLAG_INBOUND (1 << 4)
#define IBV_PATH_FLAG_INBOUND_REVERSE (1 << 5)
#define IBV_PATH_FLAG_BIDIRECTIONAL (IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE)

/* Generated from src/abi/sa.rs; do not edit. */

/* Path record with unpacked fields. */
struct ibv_sa_path_rec {
	/* Destination GID. */
	union ibv_gid dgid;
	/* Source GID. */
	union ibv_gid sgid;
	/* Destination local identifier. */
	__be16 dlid;
	/* Source local identifier. */
	__be16 slid;
	/* Nonzero: raw packets are allowed. */
	int raw_traffic;
	/* Flow label. */
	__be32 flow_label;
	/* Hop limit. */
	uint8_t hop_limit;
	/* Traffic class. */
	uint8_t traffic_class;
	/* Nonzero: the path works in both directions. */
	int reversible;
	/* Paths wanted or found. */
	uint8_t numb_path;
	/* Partition key. */
	__be16 pkey;
	/* Service level. */
	uint8_t sl;
	/* How mtu compares: 0 greater, 1 less, 2 exact, 3 largest. */
	uint8_t mtu_selector;
	/* A value of ibv_mtu. */
	uint8_t mtu;
	/* How rate compares. */
	uint8_t rate_selector;
	/* A value of ibv_rate. */
	uint8_t rate;
	/* How packet_life_time compares. */
	uint8_t packet_life_time_selector;
	/* 4.096 µs * 2^value. */
	uint8_t packet_life_time;
	/* Lower numbers are preferred. */
	uint8_t preference;
};

/* Multicast member record. */
struct ibv_sa_mcmember_rec {
	/* Multicast GID. */
	union ibv_gid mgid;
	/* Member port's GID. */
	union ibv_gid port_gid;
	/* Q_Key. */
	uint32_t qkey;
	/* Multicast local identifier. */
	uint16_t mlid;
	/* How mtu compares. */
	uint8_t mtu_selector;
	/* A value of ibv_mtu. */
	uint8_t mtu;
	/* Traffic class. */
	uint8_t traffic_class;
	/* Partition key. */
	uint16_t pkey;
	/* How rate compares. */
	uint8_t rate_selector;
	/* A value of ibv_rate. */
	uint8_t rate;
	/* How packet_life_time compares. */
	uint8_t packet_life_time_selector;
	/* 4.096 µs * 2^value. */
	uint8_t packet_life_time;
	/* Service level. */
	uint8_t sl;
	/* Flow label. */
	uint32_t flow_label;
	/* Hop limit. */
	uint8_t hop_limit;
	/* Scope of the group. */
	uint8_t scope;
	/* Membership bits: full, non-member, send-only. */
	uint8_t join_state;
	/* Nonzero: joined on behalf of another port. */
	int proxy_join;
};

/* Service record. */
struct ibv_sa_service_rec {
	/* Service identifier. */
	uint64_t id;
	/* Port that offers it. */
	union ibv_gid gid;
	/* Partition key. */
	uint16_t pkey;
	/* Lease in seconds. */
	uint32_t lease;
	/* Service key. */
	uint8_t key[16];
	/* Service name. */
	uint8_t name[64];
	/* Data as bytes. */
	uint8_t data8[16];
	/* Data as 16-bit words. */
	uint16_t data16[8];
	/* Data as 32-bit words. */
	uint32_t data32[4];
	/* Data as 64-bit words. */
	uint64_t data64[2];
};

/* Path record as on the wire. */
struct ibv_path_record {
	/* Service identifier. */
	__be64 service_id;
	/* Destination GID. */
	union ibv_gid dgid;
	/* Source GID. */
	union ibv_gid sgid;
	/* Destination local identifier. */
	__be16 dlid;
	/* Source local identifier. */
	__be16 slid;
	/* Bits 27:8 flow label, 7:0 hop limit. */
	__be32 flowlabel_hoplimit;
	/* Traffic class. */
	uint8_t tclass;
	/* Bit 7 reversible, 6:0 number of paths. */
	uint8_t reversible_numpath;
	/* Partition key. */
	__be16 pkey;
	/* Bits 15:4 quality of service class, 3:0 service level. */
	__be16 qosclass_sl;
	/* Bits 7:6 selector, 5:0 value. */
	uint8_t mtu;
	/* Bits 7:6 selector, 5:0 value. */
	uint8_t rate;
	/* Bits 7:6 selector, 5:0 value. */
	uint8_t packetlifetime;
	/* Lower numbers are preferred. */
	uint8_t preference;
	/* Zero. */
	uint8_t reserved[6];
};

/* Path record with its role. */
struct ibv_path_data {
	/* IBV_PATH_FLAG_* bits. */
	uint32_t flags;
	/* Zero. */
	uint32_t reserved;
	/* The record. */
	struct ibv_path_record path;
};

/* End of what is generated. */

#endif /* INFINIBAND_SA_H */
