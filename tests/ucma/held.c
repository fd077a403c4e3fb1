/*
 * Who has the port by which other hosts are reached is stopped: a thread that asks for it waits, and nobody else does; and it is
 * asked once, not for each channel and listener. In a network namespace of its own.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stddef.h>

#include "ucma.h"

/* The process that has the port, as others of the user find it: it answers nobody. */
static int hold(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "ironverbs-roce-%u", (unsigned int)geteuid());
	int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(bind(door, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
	CHECK(listen(door, 16) == 0);
	return door;
}

static void *listen_twice(void *none)
{
	for (int time = 0; time < 2; time++) {
		int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		int64_t id = create_id(fd, 1);

		CHECK(fd >= 0 && id >= 0 && bind_id(fd, (uint32_t)id, INADDR_ANY, 0) > 0);
		CHECK(simple(fd, 7, (uint32_t)id, 2, 5) > 0);
	}
	return none;
}

int main(void)
{
	int door, other, asked = 0;
	struct pollfd asks;
	pthread_t thread;

	unsetenv("IRONVERBS_SOFT_NETWORK");
	other = open(DEVICE, O_RDWR | O_CLOEXEC);
	CHECK(other >= 0);
	door = hold();
	setenv("IRONVERBS_SOFT_NETWORK", "1", 1);
	CHECK(pthread_create(&thread, NULL, listen_twice, NULL) == 0);
	asks = (struct pollfd){ .fd = door, .events = POLLIN };
	CHECK(poll(&asks, 1, LONG_MS) == 1);
	CHECK(create_id(other, 1) >= 0);
	/* The thread waits still. */
	asks.fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
	asked += asks.fd >= 0;
	CHECK(poll(&asks, 1, 0) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	while (accept4(door, NULL, NULL, SOCK_CLOEXEC) >= 0)
		asked++;
	CHECK(asked == 1);
	return end();
}
