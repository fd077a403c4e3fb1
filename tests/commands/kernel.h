/*
 * kernel.h - a kernel in the process: ioctl and write of the library under test end here. It prints each command that it
 * accepts, byte for byte, and answers with a pattern. Addresses are printed as the name of what stands there, or as the
 * bytes there.
 */
#ifndef COMMANDS_KERNEL_H
#define COMMANDS_KERNEL_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "provider.h"

enum { COMMAND_FD = 1000, LEGACY = 1 << 16 };

/* What the kernel of this run knows. */
static struct {
	bool ioctl;       /* the uverbs ioctl at all */
	bool methods;     /* methods of commands that have a legacy form */
	int fails;        /* every accepted command fails with this */
	bool datagrams;   /* sends are those of a datagram queue pair */
} kernel;

static struct { const void *start; const char *name; } names[64];
static unsigned name_count;
static void name(const void *start, const char *text)
{
	for (unsigned i = 0; i < name_count; i++)
		if (names[i].start == start || !strcmp(names[i].name, text)) {
			names[i].start = start;
			names[i].name = text;
			return;
		}
	names[name_count].start = start;
	names[name_count++].name = text;
}

/* Bytes in hex; an address that has a name appears as the name, runs of zeros as their length. */
static void dump(const void *start, size_t size)
{
	const uint8_t *bytes = start;
	size_t at = 0;

	while (at < size) {
		uint64_t word = 0;
		size_t zeros = 0;

		if (at % 8 == 0 && size - at >= 8) {
			bool named = false;

			memcpy(&word, bytes + at, 8);
			for (unsigned i = 0; word && i < name_count && !named; i++)
				if (word == (uintptr_t)names[i].start) {
					printf(" <%s>", names[i].name);
					named = true;
				}
			if (named) {
				at += 8;
				continue;
			}
		}
		while (at + zeros < size && !bytes[at + zeros])
			zeros++;
		if (zeros >= 8) {
			zeros -= (at + zeros == size) ? 0 : (at + zeros) % 8;
			printf(" 0*%zu", zeros);
			at += zeros;
		} else {
			printf("%s%02x", at % 4 == 0 ? " " : "", bytes[at]);
			at++;
		}
	}
}

/* What comes out of a command: every byte tells its place, small numbers stay small. */
static void fill(void *start, size_t size, uint8_t seed)
{
	uint8_t *bytes = start;

	memset(bytes, 0, size);
	for (size_t at = 0; at < size; at += 4)
		bytes[at] = seed + at / 4;
}

/* Commands after which the caller waits for as many events as the answer says. */
static bool legacy_destroys(uint32_t command)
{
	return command == IB_USER_VERBS_CMD_DESTROY_CQ || command == IB_USER_VERBS_CMD_DESTROY_QP ||
	       command == IB_USER_VERBS_CMD_DESTROY_SRQ ||
	       command == (IB_USER_VERBS_EX_CMD_DESTROY_WQ | IB_USER_VERBS_CMD_FLAG_EXTENDED);
}

static bool posts(uint32_t command)
{
	return command == IB_USER_VERBS_CMD_POST_SEND || command == IB_USER_VERBS_CMD_POST_RECV ||
	       command == IB_USER_VERBS_CMD_POST_SRQ_RECV;
}

static void answer_legacy(uint32_t command, void *core, size_t core_size, void *driver, size_t driver_size)
{
	if (kernel.fails && !posts(command)) /* only these answer when they fail */
		return;
	if (core_size) {
		fill(core, core_size, legacy_destroys(command) ? 0 : 0x21);
		if (legacy_destroys(command))
			memset(core, 0, core_size);
		if (command == IB_USER_VERBS_CMD_POLL_CQ)
			*(uint32_t *)core = core_size > 8 ? 2 : 0;
		if (posts(command))
			*(uint32_t *)core = kernel.fails ? 2 : 0;
		if (command == (IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED))
			((struct ib_uverbs_ex_query_device_resp *)core)->response_length = core_size + driver_size;
	}
	if (driver_size)
		fill(driver, driver_size, 0x91);
}

/* How much of a work request means something. */
static unsigned used_words(uint32_t command, const uint32_t *request)
{
	if (command != IB_USER_VERBS_CMD_POST_SEND)
		return 3;
	if (kernel.datagrams)
		return 9;
	switch (request[3]) {
	case IBV_WR_RDMA_WRITE: case IBV_WR_RDMA_WRITE_WITH_IMM: case IBV_WR_RDMA_READ: return 9;
	case IBV_WR_ATOMIC_CMP_AND_SWP: case IBV_WR_ATOMIC_FETCH_AND_ADD: return 13;
	default: return 6;
	}
}

/* The core's part of a legacy command. The address of the answer, which only some of the ways need, is left out. */
static void print_core(uint32_t command, const void *core, size_t size, bool answered)
{
	size_t skip = !(command & IB_USER_VERBS_CMD_FLAG_EXTENDED) && answered ? 8 : 0;

	uint32_t words[256];
	const struct ib_uverbs_post_send *post = core;

	if (posts(command)) {
		/* What a request does not use, rdma-core leaves as it finds it. */
		memcpy(words, core, size < sizeof words ? size : sizeof words);
		for (unsigned i = 0; i < post->wr_count; i++) {
			uint32_t *request = words + (sizeof *post + i * post->wqe_size) / 4;

			memset(request + used_words(command, request), 0, post->wqe_size - 4 * used_words(command, request));
		}
		core = words;
	}
	printf(" core[%zu]", size);
	if (skip)
		printf(" (answer)");
	dump((const char *)core + skip, size - skip);
}

static int finish(void)
{
	if (!kernel.fails)
		return 0;
	errno = kernel.fails;
	return -1;
}

static int invoke_write(const struct ib_uverbs_attr *attrs, unsigned count)
{
	const struct ib_uverbs_attr *in = NULL, *out = NULL, *driver_in = NULL, *driver_out = NULL;
	uint32_t command = 0;

	for (unsigned i = 0; i < count; i++)
		switch (attrs[i].attr_id) {
		case UVERBS_ATTR_WRITE_CMD: command = attrs[i].data; break;
		case UVERBS_ATTR_CORE_IN: in = &attrs[i]; break;
		case UVERBS_ATTR_CORE_OUT: out = &attrs[i]; break;
		case UVERBS_ATTR_UHW_IN: driver_in = &attrs[i]; break;
		case UVERBS_ATTR_UHW_OUT: driver_out = &attrs[i]; break;
		}
	if (!in) { /* no command is this short: somebody asks whether the method exists */
		errno = ENOSPC;
		return -1;
	}
	printf("  invoke_write %#x", command);
	print_core(command, in->len > 8 ? (void *)(uintptr_t)in->data : &in->data, in->len, out);
	if (driver_in) {
		printf(" driver[%u]", driver_in->len);
		dump(driver_in->len > 8 ? (void *)(uintptr_t)driver_in->data : &driver_in->data, driver_in->len);
	}
	printf(" -> core[%u] driver[%u]\n", out ? out->len : 0, driver_out ? driver_out->len : 0);
	answer_legacy(command, out ? (void *)(uintptr_t)out->data : NULL, out ? out->len : 0,
		      driver_out ? (void *)(uintptr_t)driver_out->data : NULL, driver_out ? driver_out->len : 0);
	return finish();
}

/* Which attributes of a method are outputs, and which methods have a legacy form. */
static const struct method {
	uint16_t object, method;
	bool legacy;
	uint16_t outputs[6]; /* attr_id + 1; + NUMBER for object numbers and files */
} methods[] = {
#define NUMBER 0x8000
#define OUT(id) ((id) + 1)
#define OUT_OBJ(id) (((id) + 1) | NUMBER)
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, true, {OUT(UVERBS_ATTR_QUERY_PORT_RESP)}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, true,
	 {OUT(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS), OUT(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT)}},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, false,
	 {OUT(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS), OUT(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT)}},
	{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, true, {0}},
	{UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, true, {0}},
	{UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, true, {0}},
	{UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, true, {0}},
	{UVERBS_OBJECT_FLOW, UVERBS_METHOD_FLOW_DESTROY, true, {0}},
	{UVERBS_OBJECT_RWQ_IND_TBL, UVERBS_METHOD_RWQ_IND_TBL_DESTROY, true, {0}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, true, {0}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, false, {0}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, false,
	 {OUT(UVERBS_ATTR_QUERY_MR_RESP_LKEY), OUT(UVERBS_ATTR_QUERY_MR_RESP_RKEY), OUT(UVERBS_ATTR_QUERY_MR_RESP_LENGTH)}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, false,
	 {OUT_OBJ(UVERBS_ATTR_REG_DMABUF_MR_HANDLE), OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY),
	  OUT(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY)}},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG, false,
	 {OUT_OBJ(UVERBS_ATTR_REG_DM_MR_HANDLE), OUT(UVERBS_ATTR_REG_DM_MR_RESP_LKEY), OUT(UVERBS_ATTR_REG_DM_MR_RESP_RKEY)}},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, false, {OUT_OBJ(UVERBS_ATTR_ALLOC_DM_HANDLE)}},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, false, {0}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE, false, {OUT_OBJ(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_DESTROY, false, {0}},
	{UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ, false, {OUT(UVERBS_ATTR_READ_COUNTERS_BUFF)}},
	{UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE, false,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE)}},
	{UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY, false, {0}},
	{UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, false, {0}},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_CQ_HANDLE), OUT(UVERBS_ATTR_CREATE_CQ_RESP_CQE)}},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_CQ_RESP)}},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_SRQ_HANDLE), OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR),
	  OUT(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE), OUT(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM)}},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_SRQ_RESP)}},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_QP_HANDLE), OUT(UVERBS_ATTR_CREATE_QP_RESP_CAP), OUT(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM)}},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_QP_RESP)}},
	{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, true,
	 {OUT_OBJ(UVERBS_ATTR_CREATE_WQ_HANDLE), OUT(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR),
	  OUT(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE), OUT(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM)}},
	{UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_DESTROY, true, {OUT(UVERBS_ATTR_DESTROY_WQ_RESP)}},
};

static uint16_t output_of(const struct method *method, uint16_t attr_id)
{
	if (attr_id == UVERBS_ATTR_UHW_OUT)
		return OUT(attr_id);
	/* In this test, a driver's attributes are inputs when their number is even. */
	if (attr_id > UVERBS_ATTR_UHW_OUT)
		return attr_id & 1 ? OUT(attr_id) : 0;
	for (unsigned i = 0; i < 6; i++)
		if ((method->outputs[i] & ~NUMBER) == attr_id + 1)
			return method->outputs[i];
	return 0;
}

static int run_method(const struct method *method, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *attrs = (void *)(hdr + 1);
	bool destroys = method->outputs[0] && method->method == 1 && method->object != UVERBS_OBJECT_MR;

	printf("  ioctl object %u method %u driver %u length %u reserved %llu %u\n", hdr->object_id, hdr->method_id,
	       hdr->driver_id, hdr->length, (unsigned long long)hdr->reserved1, hdr->reserved2);
	for (unsigned i = 0; i < hdr->num_attrs; i++) {
		struct ib_uverbs_attr *attr = &attrs[i];
		uint16_t output = output_of(method, attr->attr_id);
		bool address = output && !(output & NUMBER);

		printf("    attr %#x len %u flags %u elem %u %s", attr->attr_id, attr->len, attr->flags,
		       attr->attr_data.enum_data.elem_id, output ? "out" : "in");
		if (attr->attr_data.enum_data.reserved)
			printf(" reserved %u", attr->attr_data.enum_data.reserved);
		if (address)
			;
		else if (attr->len > 8)
			dump((void *)(uintptr_t)attr->data, attr->len);
		else
			dump(&attr->data, 8);
		putchar('\n');
	}
	for (unsigned i = 0; i < hdr->num_attrs && !kernel.fails; i++) {
		uint16_t output = output_of(method, attrs[i].attr_id);

		if (output & NUMBER)
			attrs[i].data = 0x40 + attrs[i].attr_id;
		else if (output)
			fill((void *)(uintptr_t)attrs[i].data, attrs[i].len, destroys ? 0 : 0x61 + attrs[i].attr_id);
		if (destroys && output)
			memset((void *)(uintptr_t)attrs[i].data, 0, attrs[i].len);
	}
	return finish();
}

int ioctl(int fd, unsigned long request, ...)
{
	struct ib_uverbs_ioctl_hdr *hdr;
	va_list arguments;

	va_start(arguments, request);
	hdr = va_arg(arguments, void *);
	va_end(arguments);
	if (fd != COMMAND_FD)
		return syscall(SYS_ioctl, fd, request, hdr);
	if (request != RDMA_VERBS_IOCTL || !kernel.ioctl) {
		errno = ENOTTY;
		return -1;
	}
	if (hdr->object_id == UVERBS_OBJECT_DEVICE && hdr->method_id == UVERBS_METHOD_INVOKE_WRITE)
		return invoke_write((void *)(hdr + 1), hdr->num_attrs);
	for (unsigned i = 0; i < sizeof methods / sizeof *methods; i++)
		if (methods[i].object == hdr->object_id && methods[i].method == hdr->method_id) {
			if (methods[i].legacy && !kernel.methods)
				break;
			return run_method(&methods[i], hdr);
		}
	errno = EPROTONOSUPPORT;
	return -1;
}

ssize_t write(int fd, const void *start, size_t size)
{
	const struct ib_uverbs_cmd_hdr *hdr = start;
	const char *bytes = start;
	size_t core_at = sizeof *hdr, core_in, core_out, driver_in, driver_out;
	uint64_t response;

	if (fd != COMMAND_FD)
		return syscall(SYS_write, fd, start, size);
	if (hdr->command & IB_USER_VERBS_CMD_FLAG_EXTENDED) {
		const struct ib_uverbs_ex_cmd_hdr *ex = (void *)(hdr + 1);

		core_at += sizeof *ex;
		core_in = hdr->in_words * 8;
		core_out = hdr->out_words * 8;
		driver_in = ex->provider_in_words * 8;
		driver_out = ex->provider_out_words * 8;
		response = ex->response;
		if (ex->cmd_hdr_reserved)
			printf("  reserved word %u\n", ex->cmd_hdr_reserved);
	} else {
		/* The kernel knows the core's sizes; here they are what the ioctl way shows, so all counts as core. */
		core_in = hdr->in_words * 4 - core_at;
		core_out = hdr->out_words * 4;
		driver_in = driver_out = 0;
		memcpy(&response, hdr + 1, 8);
	}
	printf("  write %#x size %zu", hdr->command, size);
	if (core_at + core_in + driver_in != size)
		printf(" but %zu", core_at + core_in + driver_in);
	print_core(hdr->command, bytes + core_at, core_in, core_out);
	if (driver_in) {
		printf(" driver[%zu]", driver_in);
		dump(bytes + core_at + core_in, driver_in);
	}
	printf(" -> core[%zu] driver[%zu]\n", core_out, driver_out);
	if (core_out)
		answer_legacy(hdr->command, (void *)(uintptr_t)response, core_out,
			      (char *)(uintptr_t)response + core_out, driver_out);
	return finish() ? -1 : (ssize_t)size;
}

/* So that rdma-core takes the version of the kernel's commands from the sysfs that the test gives it. */
int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return syscall(SYS_socket, domain, type, protocol);
}

int stat(const char *restrict path, struct stat *restrict result)
{
	return fstatat(AT_FDCWD, strncmp(path, "/dev/infiniband/", 16) ? path : "/dev/null", result, 0);
}

#endif
