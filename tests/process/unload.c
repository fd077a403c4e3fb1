/*
 * unload.c - a program that opens the library, lets it go, and has pointers into it left: to verbs, in the tables of an open
 * device, of exit handlers. It is linked to nothing of it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "../asleep.h"

static struct ibv_device **(*get_device_list)(int *);
static void (*free_device_list)(struct ibv_device **);
static struct ibv_context *(*open_device)(struct ibv_device *);
static int (*close_device)(struct ibv_context *);
static struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
static int (*destroy_cq)(struct ibv_cq *);
static struct ibv_comp_channel *(*create_channel)(struct ibv_context *);
static int (*get_cq_event)(struct ibv_comp_channel *, struct ibv_cq **, void **);

static volatile pid_t waiting;

static void *wait_for_event(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	waiting = gettid();
	get_cq_event(channel, &cq, &context); /* until it is cancelled */
	return NULL;
}

int main(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL), *end;

	alarm(280); /* ends a hang */
	if (!library) {
		printf("FAIL %s\n", dlerror());
		return 1;
	}
#define FIND(name, symbol) *(void **)&(name) = dlsym(library, symbol)
	FIND(get_device_list, "ibv_get_device_list");
	FIND(free_device_list, "ibv_free_device_list");
	FIND(open_device, "ibv_open_device");
	FIND(close_device, "ibv_close_device");
	FIND(create_cq, "ibv_create_cq");
	FIND(destroy_cq, "ibv_destroy_cq");
	FIND(create_channel, "ibv_create_comp_channel");
	FIND(get_cq_event, "ibv_get_cq_event");

	struct ibv_device **list = get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? open_device(list[0]) : NULL;
	struct ibv_comp_channel *channel = context ? create_channel(context) : NULL;
	struct ibv_cq *cq = channel ? create_cq(context, 16, NULL, channel, 0) : NULL;
	struct ibv_wc wc;
	pthread_t waiter;

	if (!cq || pthread_create(&waiter, NULL, wait_for_event, channel)) {
		printf("FAIL no queue\n");
		return 1;
	}
	free_device_list(list);
	if (!until_asleep(&waiting, is_for_file)) {
		printf("FAIL the thread does not wait\n");
		return 1;
	}
	if (dlclose(library)) {
		printf("FAIL dlclose: %s\n", dlerror());
		return 1;
	}
	/* The table of the device, the waiting thread, and the kept pointers. */
	if (ibv_poll_cq(cq, 1, &wc) != 0 || ibv_req_notify_cq(cq, 0) != 0) {
		printf("FAIL the queue\n");
		return 1;
	}
	pthread_cancel(waiter);
	if (pthread_join(waiter, &end) || end != PTHREAD_CANCELED) {
		printf("FAIL the waiting thread\n");
		return 1;
	}
	if (destroy_cq(cq) || !(cq = create_cq(context, 16, NULL, NULL, 0)) || destroy_cq(cq)) {
		printf("FAIL queues after dlclose\n");
		return 1;
	}
	/* The device stays open: the library's exit handler takes care of it. */
	printf("0 failed\n");
	return 0;
}
