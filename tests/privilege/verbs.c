/*
 * Lists devices with the library and opens the software device, and prints all that the environment had a say in.
 *
 *   verbs [as-user ID | as-group ID]      with this effective id from before the first verb
 *
 * The kernel's RDMA netlink answers nobody here, so that the devices are those of sysfs on every machine.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rights.h"

#define FAMILY_NETLINK 16
#define NETLINK_OF_RDMA 20

/* In place of the C library's, for the library too. */
int socket(int domain, int type, int protocol)
{
	if (domain == FAMILY_NETLINK && protocol == NETLINK_OF_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

int prctl(int option, ...)
{
	unsigned long arguments[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		arguments[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_PTRACER && arguments[0] == PR_SET_PTRACER_ANY)
		puts("consents to copies by others");
	return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

static int show_plugin(struct dl_phdr_info *object, size_t size, void *none)
{
	const char *file = strrchr(object->dlpi_name, '/');

	(void)size, (void)none;
	if (file && strstr(file, "-rdmav34.so"))
		printf("plugin %s\n", file + 1);
	return 0;
}

static int threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	for (struct dirent *task; tasks && (task = readdir(tasks));)
		count += task->d_name[0] != '.';
	if (tasks)
		closedir(tasks);
	return count;
}

int main(int argc, char **argv)
{
	struct ibv_device **devices;
	int count = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!take_rights(argc, argv))
		return 2;
	devices = ibv_get_device_list(&count);
	if (!devices)
		printf("no list: %s\n", strerror(errno));
	for (int i = 0; devices && i < count; i++) {
		const char *name = ibv_get_device_name(devices[i]);
		struct ibv_context *context;
		struct ibv_port_attr port;

		printf("device %s\n", name);
		if (strncmp(devices[i]->dev_name, "uverbs-", 7) != 0)
			continue;
		context = ibv_open_device(devices[i]);
		if (!context) {
			printf("not opened: %s\n", strerror(errno));
			continue;
		}
		if (ibv_query_port(context, 1, &port))
			return 2;
		printf("opened %s, %d threads, link layer %d\n", name, threads(), port.link_layer);
		if (ibv_close_device(context))
			return 2;
	}
	if (devices)
		ibv_free_device_list(devices);
	printf("fork protection %s\n", ibv_is_fork_initialized() == IBV_FORK_DISABLED ? "off" : "on");
	dl_iterate_phdr(show_plugin, NULL);
	puts("end");
	return 0;
}
