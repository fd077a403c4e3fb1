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
#include "methods.h"
#include "provider.h"

enum { COMMAND_FD = 1000, LEGACY = 1 << 16 };

/* What the kernel of this run knows. */
static struct {
	bool ioctl;       /* the uverbs ioctl at all */
	bool methods;     /* methods of commands that have a legacy form */
	int fails;        /* every accepted command fails with this */
	uint32_t reported; /* so many events of each kind it has delivered for an object, when that is destroyed */
} kernel;

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

static uint16_t output_of(const struct method *method, uint16_t attr_id)
{
	/* In this test, a driver's attributes are inputs when their number is even. */
	if (attr_id > UVERBS_ATTR_UHW_OUT)
		return attr_id & 1 ? OUT(attr_id) : 0;
	return core_output(method, attr_id);
}

static int run_method(const struct method *method, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct ib_uverbs_attr *attrs = (void *)(hdr + 1);
	bool destroys = method->outputs[0] && method->method == 1 && method->object != UVERBS_OBJECT_MR;

	print_header(hdr);
	for (unsigned i = 0; i < hdr->num_attrs; i++)
		print_attr(&attrs[i], output_of(method, attrs[i].attr_id));
	for (unsigned i = 0; i < hdr->num_attrs && !kernel.fails; i++) {
		uint16_t output = output_of(method, attrs[i].attr_id);

		if (output & NUMBER)
			attrs[i].data = 0x40 + attrs[i].attr_id;
		else if (output)
			fill((void *)(uintptr_t)attrs[i].data, attrs[i].len, destroys ? 0 : 0x61 + attrs[i].attr_id);
		for (unsigned at = 0; destroys && output && at < attrs[i].len; at += 4)
			memcpy((char *)(uintptr_t)attrs[i].data + at, &kernel.reported, 4);
	}
	return finish();
}

/* A program that answers all by itself. */
static __attribute__((unused)) int (*answer_ioctl)(struct ib_uverbs_ioctl_hdr *);

int ioctl(int fd, unsigned long request, ...)
{
	struct ib_uverbs_ioctl_hdr *hdr;
	va_list arguments;

	va_start(arguments, request);
	hdr = va_arg(arguments, void *);
	va_end(arguments);
	if (fd != COMMAND_FD)
		return syscall(SYS_ioctl, fd, request, hdr);
	if (answer_ioctl)
		return answer_ioctl(hdr);
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

/* What stat() calls in a library that runs with glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *result);
int __xstat(int version, const char *path, struct stat *result)
{
	(void)version;
	return stat(path, result);
}

#endif
