/*
 * channel.c - a channel of the connection manager on the software device under memcheck: commands, and an event. Exits with it
 * open. Prints one line; ends with 1 where something failed or this does not run on valgrind.
 */
#include <valgrind/memcheck.h>
#include "../ucma/ucma.h"

int main(void)
{
	struct event event;
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	int64_t id = create_id(fd, 7);

	alarm(600); /* ends a program that hangs */
	memset(&event, 0, sizeof(event));
	CHECK(id >= 0);
	CHECK(resolve(fd, (uint32_t)id, INADDR_LOOPBACK, 9) > 0);
	CHECK(get_event(fd, &event) > 0 && event.uid == 7 && event.kind == 0);
	printf("channel on valgrind: %d\n", RUNNING_ON_VALGRIND);
	return !RUNNING_ON_VALGRIND || failed != 0;
}
