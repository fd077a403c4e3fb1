/*
 * Says when another libibverbs than the one of `ironverbs run` looks for devices: it finds no software device, and the program
 * no reason.
 *
 * Wheels and other bundles bring a libibverbs of their own under a name of their own (libibverbs-1de1263b.so.1.14.48.0), so that
 * the loader does not take the one that LD_LIBRARY_PATH names for it. The command preloads its library, whose functions then come
 * first also for what is opened later. Not where it was told not to, and not for who takes functions from one library by its
 * handle (dlsym). What is opened with RTLD_DEEPBIND calls the C library past this shim, and is not seen.
 *
 * Whichever libibverbs it is, it asks the kernel for devices by RDMA netlink before it does anything else.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "behind.h"

static const char library[] = "libibverbs.so.1";

/* Two names of libibverbs, as files: that which belongs to the shim, and another one that is loaded. */
struct found {
	char own[PATH_MAX];
	char other[PATH_MAX];
};

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int is_another(struct dl_phdr_info *object, size_t size, void *into)
{
	struct found *found = into;

	(void)size;
	return object->dlpi_name != NULL && strncmp(file_name(object->dlpi_name), "libibverbs", 10) == 0 &&
	       realpath(object->dlpi_name, found->other) != NULL && strcmp(found->own, found->other) != 0;
}

/* Whether an address is in the library that belongs to the shim. */
static int is_own(const void *address, const struct found *found)
{
	char path[PATH_MAX];
	Dl_info object;

	return dladdr(address, &object) && object.dli_fname != NULL && realpath(object.dli_fname, path) != NULL &&
	       strcmp(path, found->own) == 0;
}

/* Somebody asks for devices, from `caller`. */
static void look(const void *caller)
{
	static char said;
	struct found found;
	char path[PATH_MAX], text[2 * PATH_MAX + 512];
	const char *view = secure_getenv("IRONVERBS_VIEW");
	Dl_info self;
	int length;

	if (view == NULL || *view == '\0' || !dladdr((void *)look, &self) || self.dli_fname == NULL ||
	    strlen(self.dli_fname) + sizeof(library) > sizeof(path))
		return;
	strcpy(path, self.dli_fname);
	strcpy(path + (file_name(path) - path), library);
	if (realpath(path, found.own) == NULL || is_own(caller, &found) || !dl_iterate_phdr(is_another, &found) ||
	    __atomic_test_and_set(&said, __ATOMIC_RELAXED))
		return;
	length = snprintf(text, sizeof(text),
			  "ironverbs: %s looks for devices and finds no software device: it stands in the place of %s. %s\n",
			  found.other, path,
			  is_own(dlsym(RTLD_DEFAULT, "ibv_get_device_list"), &found)
				  ? "Its functions were taken from it alone (dlsym): what does so must open libibverbs.so.1"
				  : "Run the program by `ironverbs run` without --no-preload");
	if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
		return;
}

EXPORT int socket(int domain, int type, int protocol)
{
	BEHIND(int, socket, (int, int, int));
	int before = errno;

	if (function == NULL)
		return -1;
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		look(__builtin_return_address(0));
		errno = before;
	}
	return function(domain, type, protocol);
}
