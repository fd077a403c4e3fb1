/*
 * A libibverbs of somebody's own, what uses it, and a program that is linked to that or opens it.
 *
 * -DLIBRARY  the library: it knows no device, and asks the kernel for some as libibverbs does
 * -DUSER     what is linked to it
 * -DPROGRAM  [FILE]: prints what the user sees, twice; of FILE, opened, if that is given, which may be the library
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct ibv_device;
struct ibv_device **ibv_get_device_list(int *count);
const char *ibv_get_device_name(struct ibv_device *device);
void print_devices(void);

#ifdef LIBRARY
struct ibv_device **ibv_get_device_list(int *count)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 20);

	if (fd >= 0)
		close(fd);
	*count = 0;
	errno = ENOSYS;
	return NULL;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	(void)device;
	return "somebody's own";
}
#endif

#ifdef USER
void print_devices(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; list && i < count; i++)
		puts(ibv_get_device_name(list[i]));
	if (count == 0)
		puts("none");
}
#endif

#ifdef PROGRAM
static struct ibv_device **(*list)(int *);

static void count_devices(void)
{
	int count = 0;

	list(&count);
	printf("%d devices\n", count);
}

int main(int argc, char **argv)
{
	void (*print)(void) = NULL;

	if (argc > 1) {
		void *user = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

		if (!user) {
			puts(dlerror());
			return 1;
		}
		*(void **)&print = dlsym(user, "print_devices");
		*(void **)&list = dlsym(user, "ibv_get_device_list");
		if (!print)
			print = count_devices;
	} else {
#ifdef LINKED
		print = print_devices;
#endif
	}
	print();
	print();
	return 0;
}
#endif
