/*
 * paths.c - what is under /sys/class/infiniband and /sys/class/infiniband_mad is in the folder HARDWARE_SYSFS,
 * for
 * libraries that name these folders themselves.
 */
#include "kernel.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

const char *sysfs_path(const char *path, char *room, size_t size)
{
	static const char classes[] = "/sys/class/infiniband";
	static const char *folder;
	const char *rest;

	if (!folder)
		folder = getenv("HARDWARE_SYSFS") ?: "";
	if (!*folder || !path || strncmp(path, classes, sizeof classes - 1))
		return path;
	rest = path + sizeof classes - 1;
	if (!strncmp(rest, "_mad", 4))
		rest += 4;
	if (*rest && *rest != '/')
		return path;
	if (snprintf(room, size, "%s%s", folder, path + sizeof "/sys" - 1) >= (int)size)
		return path;
	return room;
}

#define NEXT(name) ({ static __typeof__(&name) found; if (!found) found = dlsym(RTLD_NEXT, #name); found; })

DIR *opendir(const char *path)
{
	char room[PATH_MAX];

	return NEXT(opendir)(sysfs_path(path, room, sizeof room));
}

int scandir(const char *restrict path, struct dirent ***restrict list, int (*filter)(const struct dirent *),
	    int (*compare)(const struct dirent **, const struct dirent **))
{
	char room[PATH_MAX];

	return NEXT(scandir)(sysfs_path(path, room, sizeof room), list, filter, compare);
}

/* The same structure on a machine of 64 bits. */
int scandir64(const char *restrict path, struct dirent64 ***restrict list, int (*filter)(const struct dirent64 *),
	      int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	char room[PATH_MAX];

	return NEXT(scandir64)(sysfs_path(path, room, sizeof room), list, filter, compare);
}
