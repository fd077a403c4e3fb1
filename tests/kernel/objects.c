/*
 * objects.c - what the kernel remembers: objects and their events, and which request is to fail.
 */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct object objects[1024];
static unsigned object_count;
static int fails;                /* a request fails with this error */
static unsigned fails_after = 1; /* which one from now */

static const char *const kind_names[OBJECT_KINDS] = {"pd", "mr", "mw", "ah", "cq", "srq", "qp", "wq", "table", "flow",
						     "xrcd", "dm", "counters", "action", "driver's"};

/* For the program. */
void hardware_fail(int error, unsigned after);
void hardware_report(int fd, const char *kind, uint64_t element, uint32_t type);
void hardware_complete(int fd, uint32_t cq);
void hardware_plug(const char *device, bool in);
struct rings *hardware_rings(int fd, const char *kind, uint32_t handle);

/* One of the next requests fails: the first for 1. No error takes that back. */
void hardware_fail(int error, unsigned after)
{
	fails = error;
	fails_after = after;
}

/* The error with which this request fails, or 0. */
int failure(void)
{
	int error = fails;

	if (!fails || --fails_after)
		return 0;
	fails = 0;
	NOTE("    fails with %d\n", error);
	return error;
}

struct object *object_of(struct device *device, enum object_kind kind, uint32_t handle)
{
	for (unsigned i = 0; i < object_count; i++)
		if (objects[i].device == device && objects[i].kind == kind && objects[i].handle == handle && !objects[i].gone)
			return &objects[i];
	return NULL;
}

struct object *new_object(struct device *device, enum object_kind kind, uint64_t user_handle)
{
	struct object *object;

	/* In a record, numbers are not used twice. */
	while (!record && object_count && objects[object_count - 1].gone)
		object_count--;
	object = &objects[object_count];
	if (object_count == sizeof objects / sizeof *objects)
		abort();
	*object = (struct object){.kind = kind, .device = device, .user_handle = user_handle, .index = 1};
	for (unsigned i = 0; i < object_count; i++)
		object->index += objects[i].device == device && objects[i].kind == kind;
	object->handle = (kind + 1) << 8 | object->index;
	object_count++;
	NOTE("    = object %s %u\n", kind_names[kind], object->index);
	return object;
}

/* Reports an event through the file: about an object by its kind and handle, or with a number as it is. */
void hardware_report(int fd, const char *kind, uint64_t element, uint32_t type)
{
	struct ib_uverbs_async_event_desc event = {.element = element, .event_type = type};
	struct file *file = file_of(fd);

	for (unsigned i = 0; file && kind && i < OBJECT_KINDS; i++)
		if (!strcmp(kind, kind_names[i])) {
			struct object *object = object_of(file->device, i, element);

			if (!object)
				abort();
			event.element = object->user_handle;
			object->events++;
		}
	if (!file || write(file->reports, &event, sizeof event) != sizeof event)
		abort();
}

/* Reports a completion of the queue through the channel. */
void hardware_complete(int fd, uint32_t cq)
{
	struct file *file = file_of(fd);
	struct object *object = file ? object_of(file->device, OBJECT_CQ, cq) : NULL;
	struct ib_uverbs_comp_event_desc event;

	if (!object)
		abort();
	event.cq_handle = object->user_handle;
	object->completions++;
	if (write(file->reports, &event, sizeof event) != sizeof event)
		abort();
}

/* Where a queue is, for who plays the device. */
struct rings *hardware_rings(int fd, const char *kind, uint32_t handle)
{
	enum object_kind wanted = *kind == 'c' ? OBJECT_CQ : *kind == 's' ? OBJECT_SRQ : OBJECT_QP;
	struct file *file = file_of(fd);
	struct object *object = file ? object_of(file->device, wanted, handle) : NULL;

	if (!object)
		abort();
	return &object->rings;
}

/* Takes a device out, or puts it in again as a new one. What is open of it answers EIO from then on. */
void hardware_plug(const char *name, bool in)
{
	for (unsigned i = 0; i < device_count; i++)
		if (!strcmp(devices[i].name, name)) {
			devices[i].times += !devices[i].absent && !in;
			devices[i].absent = !in;
		}
}
