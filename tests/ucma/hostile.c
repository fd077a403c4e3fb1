/*
 * Peers of the same user that send what no peer should send to a socket where an id listens: nothing, too much,
 * noise, and requests that end in the middle. An honest client gets through all the same. Run by
 * tests/ucma/run.
 *
 *   hostile FOLDER
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/resource.h>

#include "ucma.h"

#define LOCALHOST 0x7f000001
#define PORT 7000

static int connected(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int next(int fd, struct event *event, int timeout)
{
	struct pollfd asked = { fd, POLLIN, 0 };

	return poll(&asked, 1, timeout) == 1 && get_event(fd, event) == 16;
}

/* Asks for a connection. */
static int begin(int client)
{
	struct event event;
	int64_t id = create_id(client, 2);
	struct command made = command(6, 288, 0);
	int good;

	resolve(client, (uint32_t)id, LOCALHOST, PORT);
	good = next(client, &event, LONG_MS) && event.kind == 0 && simple(client, 4, (uint32_t)id, 2, 2000) == 16 &&
	       next(client, &event, LONG_MS) && event.kind == 2;
	PUT(&made, 272, uint32_t, (uint32_t)id);
	PUT(&made, 271, uint8_t, 1);
	return good && give(client, &made) == 296;
}

/* Is asked, and destroys both ends. */
static int finish(int server, int client)
{
	struct event event;
	int good = next(server, &event, LONG_MS) && event.kind == 4 && event.uid == 1;

	if (good) {
		struct command destroy = command(1, 16, 4);
		uint32_t reported;

		PUT(&destroy, 0, uint64_t, (uint64_t)(uintptr_t)&reported);
		PUT(&destroy, 8, uint32_t, event.id);
		good = give(server, &destroy) == 24 && next(client, &event, LONG_MS) && event.kind == 8;
	}
	return good;
}

static int honest(int server, int client)
{
	return begin(client) && finish(server, client);
}

int main(int argc, char **argv)
{
	int server = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK), client = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct sockaddr_un address = { 0 };
	struct rlimit limit = { 60, 60 };
	unsigned char noise[600];
	struct pollfd both[2] = { { client, POLLIN, 0 }, { server, POLLIN, 0 } };
	struct event event;
	int64_t id = create_id(server, 1);
	int fds[400], opened = 0;

	if (argc != 2)
		return 2;
	CHECK(bind_id(server, (uint32_t)id, 0, PORT) == 144 && simple(server, 7, (uint32_t)id, 2, 10) == 16);
	find_listener(argv[1], &address);
	CHECK(address.sun_path[0] && honest(server, client));
	/* Says nothing, and stays. */
	for (int count = 0; count < 200; count++)
		fds[opened++] = connected(&address);
	CHECK(!next(server, &event, 0) && honest(server, client));
	/* Noise of all lengths, some of it with the header of a request. */
	srand(1);
	for (int round = 0; round < 2000; round++) {
		int fd = connected(&address);
		size_t length = round % 3 ? 256 : (size_t)rand() % sizeof(noise);

		for (size_t at = 0; at < sizeof(noise); at++)
			noise[at] = (unsigned char)rand();
		if (round % 2) {
			static const unsigned char header[18] = { 1, 7, 2, 3, [17] = 0x10 };

			memcpy(noise, header, sizeof(header));
			noise[17] = (unsigned char)(0x10 + round % 11);
		}
		if (fd < 0)
			continue;
		for (int more = round % 4; more >= 0; more--)
			send(fd, noise, length, MSG_NOSIGNAL);
		if (round % 16 == 0)
			while (next(server, &event, 0))
				;
		close(fd);
	}
	while (next(server, &event, 0))
		;
	CHECK(honest(server, client));
	for (int at = 0; at < opened; at++)
		close(fds[at]);
	CHECK(honest(server, client));
	/* No descriptor is left: what waits is taken when there is one again. */
	setrlimit(RLIMIT_NOFILE, &limit);
	for (opened = 0; opened < 400 && (fds[opened] = open("/dev/null", O_RDONLY)) >= 0; opened++)
		;
	FAILS(open(DEVICE, O_RDWR), EMFILE);
	CHECK(begin(client) && !next(server, &event, 100));
	while (opened > 0)
		close(fds[--opened]);
	/* The client is where it is tried again: that is a program which waits for an event, which is the server's here. */
	CHECK(poll(both, 2, LONG_MS) == 1 && both[1].revents && finish(server, client) && honest(server, client));
	close(server);
	close(client);
	return end();
}
