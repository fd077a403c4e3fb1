/*
 * barriers.c LIBRARY - a program that has threads before it opens the software device, and before it loads a library at all.
 *
 * `tests/process/run barriers` looks at its system calls. With an empty name it is linked with the library, and the kernel is
 * to have made it part of other processes' barriers (membarrier(2)) before its first thread: a process with several threads
 * waits for that some ten milliseconds. With a name it loads that library when it has two threads already.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct ibv_device;
struct ibv_context;

static int told[2];

static void *idle(void *none)
{
	char byte;

	return read(told[0], &byte, 1) == 1 ? none : NULL;
}

static void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

int main(int argc, char **argv)
{
	void *library = RTLD_DEFAULT;
	struct ibv_device **list;
	struct ibv_context *context;
	pthread_t thread;
	int count;

	if (argc != 2 || pipe(told) || pthread_create(&thread, NULL, idle, NULL))
		return 1;
	if (*argv[1])
		library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	/* What the process does when it is loaded is done. */
	if (write(STDOUT_FILENO, "loaded\n", 7) != 7)
		return 1;
	list = ((struct ibv_device * *(*)(int *)) function(library, "ibv_get_device_list"))(&count);
	context = list && count ? ((struct ibv_context * (*)(struct ibv_device *)) function(library, "ibv_open_device"))(list[0]) : NULL;
	if (!context || ((int (*)(struct ibv_context *))function(library, "ibv_close_device"))(context))
		return 1;
	if (write(told[1], "x", 1) != 1 || pthread_join(thread, NULL))
		return 1;
	puts("closed");
	return 0;
}
