/*
 * descriptors.h - which descriptors a process has that the connection manager could have forgotten.
 */
#ifndef TESTS_CM_DESCRIPTORS_H
#define TESTS_CM_DESCRIPTORS_H

#include "../../ctest/cm/cm.h"
#include <dirent.h>

/*
 * All but memory of the software device: that keeps what queues of former connections had, for the next ones.
 */
static inline int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(folder))) {
		char target[256];
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

		target[length > 0 ? length : 0] = 0;
		count += !strncmp(target, "socket:", 7) || !strncmp(target, "pipe:", 5) || !strncmp(target, "anon_inode:", 11);
	}
	closedir(folder);
	return count;
}

/* Opens what a process opens once: the device, and what its first queue pair needs. */
static inline void open_once(void)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *id = make_id(channel, "first", RDMA_PS_TCP);

	if (rdma_bind_addr(id, at("10.77.0.1", 0)))
		die("bind: %s", errno_name(errno));
	make_qp(id);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
}

#endif
