/*
 * program.h - what the programs of this test share: the kernel's functions for the program, and the first calls on a device.
 */
#ifndef HARDWARE_PROGRAM_H
#define HARDWARE_PROGRAM_H

#include <dlfcn.h>
#include "../../ctest/fields.h"

/* In the preloaded kernel. */
static void (*kernel_name)(const void *start, const char *text);
static void (*kernel_fail)(int error, unsigned after);
static void (*kernel_report)(int fd, const char *kind, uint64_t element, uint32_t type);
static void (*kernel_complete)(int fd, uint32_t cq);
static void (*kernel_plug)(const char *device, bool in);

static inline void *in_kernel(const char *symbol)
{
	void *found = dlsym(RTLD_DEFAULT, symbol);

	if (!found)
		die("the kernel of this test is not loaded");
	return found;
}

static inline void find_kernel(void)
{
	kernel_name = in_kernel("hardware_name");
	kernel_fail = in_kernel("hardware_fail");
	kernel_report = in_kernel("hardware_report");
	kernel_complete = in_kernel("hardware_complete");
	kernel_plug = in_kernel("hardware_plug");
}

/* The call while the kernel refuses its next request. */
#define FAILING(error, call) (kernel_fail(error, 1), call)

/* Creates and destroys while each of the first requests fails in turn; a creation that needs fewer succeeds. */
#define FAILING_EACH(error, create, destroy)             \
	do                                               \
		for (unsigned after_ = 1; after_ <= 3; after_++) { \
			kernel_fail(error, after_);      \
			__typeof__(create) made = CALL_PTR(create); \
			kernel_fail(0, 0);               \
			if (made)                        \
				CALL_INT(destroy(made)); \
		}                                        \
	while (0)

/* A device as the list shows it; of its paths the part behind sysfs. */
static inline void print_device(struct ibv_device *device)
{
	printf("    name %s file %s node %d transport %d guid %016llx index %d path %s\n", ibv_get_device_name(device),
	       device->dev_name, device->node_type, device->transport_type,
	       (unsigned long long)be64toh(ibv_get_device_guid(device)), ibv_get_device_index(device),
	       strstr(device->ibdev_path, "/class/"));
}

#endif
