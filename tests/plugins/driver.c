/*
 * driver.c - a plugin whose driver matches the soft-RoCE devices and does not drive them. One of these says how:
 *
 *   KERNEL_ABI     it asks for a version of the kernel's interface that no kernel has
 *   NO_DEVICE      it has no memory for the device
 *   UNWILLING      its match function says no
 *   NO_CONTEXT     it takes the device, and cannot open it
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* rdma-core 44's private structures, by the fields that are used. */
struct device_operations {
	const char *name;
	uint32_t lowest_abi, highest_abi;
	const void *table;
	const void *const *static_providers;
	bool (*match)(void *sysfs);
	struct ibv_context *(*alloc_context)(struct ibv_device *, int fd, void *private_data);
	struct ibv_context *(*import_context)(struct ibv_device *, int fd);
	struct ibv_device *(*alloc_device)(void *sysfs);
	void (*uninit_device)(struct ibv_device *);
};
_Static_assert(sizeof(struct device_operations) == 72, "verbs_device_ops");

struct match {
	void *driver_data;
	uint64_t number;
	uint16_t vendor, device;
	uint8_t kind;
};
_Static_assert(sizeof(struct match) == 24, "verbs_match_ent");

enum { BY_NUMBER = 3, DEVICE_SIZE = 712 };

void verbs_register_driver_34(const struct device_operations *);

static const struct match table[] = {{.number = RDMA_DRIVER_RXE, .kind = BY_NUMBER}, {.kind = 0}};

#ifdef UNWILLING
static bool never(void *sysfs)
{
	(void)sysfs;
	return false;
}
#endif

static struct ibv_device *alloc_device(void *sysfs)
{
	(void)sysfs;
#ifdef NO_DEVICE
	return NULL;
#else
	return calloc(1, DEVICE_SIZE);
#endif
}

static struct ibv_context *alloc_context(struct ibv_device *device, int fd, void *private_data)
{
	(void)device;
	(void)fd;
	(void)private_data;
	errno = EXDEV;
	return NULL;
}

static void uninit_device(struct ibv_device *device)
{
	free(device);
}

static const struct device_operations operations = {
	.name = "reluctant",
#ifdef KERNEL_ABI
	.lowest_abi = 1000,
	.highest_abi = 1001,
#else
	.highest_abi = UINT32_MAX,
#endif
	.table = table,
#ifdef UNWILLING
	.match = never,
#endif
	.alloc_context = alloc_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

__attribute__((constructor)) static void register_driver(void)
{
	verbs_register_driver_34(&operations);
}
