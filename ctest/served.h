/*
 * served.h - whose functions serve a device.
 *
 * With CTEST_SERVED, the name of a file, programs append a line "DEVICE OBJECT" for every device that they open: OBJECT is
 * the object file that the device's poll function lies in, which is a provider plugin or the library itself.
 */
#ifndef CTEST_SERVED_H
#define CTEST_SERVED_H

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The object file by whose functions a device is polled: the only answer that cannot be pretended. */
static inline const char *served_by(const struct ibv_context *context)
{
	Dl_info info;

	return dladdr((void *)context->ops.poll_cq, &info) ? info.dli_fname : "nobody";
}

/* A path's last name. */
static inline const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static inline void note_server(const struct ibv_context *context)
{
	const char *path = getenv("CTEST_SERVED");
	int file = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (file < 0)
		return;
	dprintf(file, "%s %s\n", context->device->name, file_name(served_by(context)));
	close(file);
}

#endif
