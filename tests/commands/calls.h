/*
 * calls.h - how a program calls the functions that providers call: a context on the kernel in the process, the buffers of
 * commands, attributes that a driver adds, and each call with its return value, errno, and what it wrote.
 */
#ifndef COMMANDS_CALLS_H
#define COMMANDS_CALLS_H

#include "kernel.h"

static struct private_device device;
static struct verbs_context *outer;
static struct ibv_context *context;

/* A provider's buffers: headers and core first, then the driver's part. */
static _Alignas(8) uint8_t cmd[512], resp[512];

#define START(object) memset(&(object), 0xa5, sizeof(object))
#define SHOW(object) show(#object, &(object), sizeof(object))
static void show(const char *what, const void *start, size_t size)
{
	printf("  %s:", what);
	dump(start, size);
	putchar('\n');
}

static void buffers(void)
{
	memset(cmd, 0, sizeof cmd);
	memset(resp, 0x5a, sizeof resp);
	errno = 0;
}

static void result(const char *call, int ret)
{
	int error = errno;

	printf("  = %d errno %d\n", ret, error);
	(void)call;
}

#define CALL(...)                                                                                                      \
	do {                                                                                                           \
		printf("%s\n", #__VA_ARGS__);                                                                          \
		errno = 0;                                                                                             \
		result(#__VA_ARGS__, __VA_ARGS__);                                                                     \
	} while (0)

/* Sizes of a command with `in` bytes for the driver; `fill` puts them there. */
static __attribute__((unused)) size_t driver_in(size_t core, size_t in)
{
	for (size_t i = 0; i < in; i++)
		cmd[core + i] = 0xd0 + i;
	return core + in;
}
#define CMD(core_struct, in) cmd, driver_in(8 + sizeof(struct core_struct), in)
#define EXCMD(core_struct, in) cmd, driver_in(24 + sizeof(struct core_struct), in)
#define RESP(core_struct, out) resp, sizeof(struct core_struct) + (out)
/* The core's answer counts for commands without ioctl method only; the driver's for all. */
#define CORE(core_struct) show("core answer", resp, sizeof(struct core_struct))
#define DRIVER(core_struct, out) show("driver answer", resp + sizeof(struct core_struct), (out) + 4)

static void open_context(void)
{
	device.refcount = 1;
	outer = _verbs_init_and_alloc_context(&device.device, COMMAND_FD, sizeof *outer, NULL, 7);
	if (!outer) {
		printf("no context: errno %d\n", errno);
		exit(1);
	}
	context = &outer->context;
	name(context, "context");
	name(outer, "outer");
}

/* A driver's attributes, in two links: inputs have even numbers, outputs odd ones. */
static struct { struct command_buffer link; struct ib_uverbs_attr attrs[3]; } near, far;
static uint64_t far_out[2];
static __attribute__((unused)) struct command_buffer *driver(uint16_t object, uint16_t method)
{
	static const char text[] = "twelve bytes";

	memset(&near, 0, sizeof near);
	memset(&far, 0, sizeof far);
	memset(far_out, 0, sizeof far_out);
	near.link = (struct command_buffer){&far.link, near.attrs + 2, near.attrs + 3, 0xff, 0xff, 0, 0, 0,
					    {.object_id = object, .method_id = method}};
	far.link = (struct command_buffer){NULL, far.attrs + 1, far.attrs + 3, 0xff, 0xff, 0, 0, 0,
					   {.object_id = object, .method_id = method}};
	near.attrs[0] = (struct ib_uverbs_attr){.attr_id = 0x1100, .len = 12, .flags = 1, .data = (uintptr_t)text};
	near.attrs[1] = (struct ib_uverbs_attr){.attr_id = 0x1102, .len = 4, .flags = 0, .data = 0x55};
	far.attrs[0] = (struct ib_uverbs_attr){.attr_id = 0x1101, .len = 16, .flags = 1, .data = (uintptr_t)far_out};
	return &near.link;
}

/* Calls them over kernels with all methods, with some, with none, and with such as refuse. */
static void over_each_kernel(void (*calls)(void))
{
	static const struct { const char *what; bool ioctl, methods; int fails; } kinds[] = {
		{"all methods", true, true, 0}, {"legacy commands inside the ioctl", true, false, 0}, {"write", false, false, 0},
		{"every command fails", true, true, EBUSY}, {"every write fails", false, false, EBUSY}
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		printf("== %s\n", kinds[i].what);
		kernel.ioctl = kinds[i].ioctl;
		kernel.methods = kinds[i].methods;
		kernel.fails = kinds[i].fails;
		calls();
	}
}

/* Calls them on a device that is gone, where to destroy is an error and where it is none. */
static __attribute__((unused)) void without_device(void (*calls)(void))
{
	puts("== the device is gone");
	kernel.ioctl = kernel.methods = true;
	kernel.fails = 0;
	open_context();
	kernel.fails = EIO;
	calls();
	verbs_allow_disassociate_destroy = true;
	puts("== and that is no error");
	calls();
}

#endif
