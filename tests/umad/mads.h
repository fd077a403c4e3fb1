/*
 * mads.h - MADs that programs send, and how what they receive is printed.
 */
#ifndef UMAD_TEST_MADS_H
#define UMAD_TEST_MADS_H

#include "umad.h"

enum { ROOM = 65536 };
enum { SUBN = 0x01, SA = 0x03, PERF = 0x04, DIRECT = 0x81, VENDOR = 0x32, GET = 1, SET = 2, GET_TABLE = 0x12 };

/* Where requests go: a LID, or where the port is Ethernet's a GID. */
static struct { bool routed; uint8_t gid[16]; uint16_t lid; } destination;

static uint8_t outgoing[64 + ROOM] __attribute__((aligned(8))), incoming[64 + ROOM] __attribute__((aligned(8)));

/* A request in `outgoing`: nodes of the played fabric behave as the upper byte of the LID says. */
static inline uint8_t *request(uint8_t class, uint8_t method, uint16_t attribute, uint32_t modifier, uint32_t tid,
			       uint16_t lid)
{
	bool smp = class == SUBN || class == DIRECT;
	struct ib_mad_addr route = {.hop_limit = 2};
	uint8_t *mad;

	memset(outgoing, 0, sizeof outgoing);
	mad = umad_get_mad(outgoing);
	for (unsigned i = 24; i < ROOM; i++)
		mad[i] = i * 3;
	memset(mad + 24, 0, 40);
	mad[0] = 1;
	mad[1] = class;
	mad[2] = class == SA ? 2 : 1;
	mad[3] = method;
	for (unsigned i = 0; i < 4; i++) {
		mad[12 + i] = tid >> (24 - 8 * i);
		mad[20 + i] = modifier >> (24 - 8 * i);
	}
	mad[16] = attribute >> 8;
	mad[17] = attribute;
	if (class == VENDOR) {
		mad[38] = 0x14;
		mad[39] = 0x05;
	}
	umad_set_addr(outgoing, lid, !smp, 0, smp ? 0 : 0x80010000);
	if (destination.routed) {
		memcpy(route.gid, destination.gid, 16);
		umad_set_grh(outgoing, &route);
	}
	return mad;
}

/* The header and the MAD; the upper half of a transaction id is the kernel's, which counts all agents of a
 * machine. */
static inline void print_mad(const void *umad, int length)
{
	uint8_t mad[ROOM];
	uint32_t sum = 0;

	if (length < 0 || length > ROOM)
		return;
	memcpy(mad, (const uint8_t *)umad + umad_size(), length);
	if (!kernel_answer)
		memset(mad + 8, 0, 4);
	bytes("header", umad, umad_size());
	bytes("mad", mad, length < 256 ? length : 256);
	for (int i = 0; i < length; i++)
		sum = sum * 31 + mad[i];
	note("    %d bytes, sum %08x", length, sum);
}

/* Receives into room for `room` bytes. */
static inline int take(int fd, int room, int timeout)
{
	int length = room, result;

	memset(incoming, 0xa5, sizeof incoming);
	errno = 0;
	result = umad_recv(fd, incoming, &length, timeout);
	printf("umad_recv(fd, room %d, %d ms) = %d, errno %s, length %d\n", room, timeout, result, errno_name(errno), length);
	transcript_calls++;
	if (result >= 0)
		print_mad(incoming, length);
	else if (kernel_answer)
		bytes("room", incoming, 64 + 64);
	return result;
}

static inline int give(int fd, int agent, int length, int timeout, int retries)
{
	int result;

	errno = 0;
	result = umad_send(fd, agent, outgoing, length, timeout, retries);
	printf("umad_send(fd, agent %d, length %d, %d ms, %d retries) = %d, errno %s\n", agent, length, timeout, retries,
	       result, errno_name(errno));
	transcript_calls++;
	return result;
}

#endif
