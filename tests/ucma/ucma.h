/* Commands of the connection manager's device file, written as librdmacm writes them. */
#ifndef UCMA_TEST_H
#define UCMA_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include "../asleep.h"

#define DEVICE "/dev/infiniband/rdma_cm"
/* For what must come: so that a hang ends. */
#define LONG_MS 120000

static int passed, failed;

/* Counts what holds, and says what does not. */
static __attribute__((unused)) void check_at(int line, const char *what, int holds)
{
	if (holds) {
		passed++;
	} else {
		printf("FAILED line %d: %s (errno %d)\n", line, what, errno);
		failed++;
	}
}
#define CHECK(condition) check_at(__LINE__, #condition, (condition))
/* The same of what there may be any number of: what holds is not counted. */
#define HOLDS(condition) do { if (!(condition)) check_at(__LINE__, #condition, 0); } while (0)
/* That a call fails with this errno value. */
#define FAILS(call, value) (errno = 0, CHECK((call) == -1 && errno == (value)))

struct command {
	uint32_t number;
	uint16_t in, out;
	unsigned char body[512];
};

static __attribute__((unused)) struct command command(uint32_t number, uint16_t in, uint16_t out)
{
	struct command made = { .number = number, .in = in, .out = out };

	return made;
}

static __attribute__((unused)) void put(struct command *to, size_t at, const void *from, size_t size)
{
	memcpy(to->body + at, from, size);
}
#define PUT(to, at, type, value) put(to, at, &(type){ value }, sizeof(type))

static __attribute__((unused)) ssize_t give(int fd, const struct command *made)
{
	return write(fd, made, 8 + (size_t)made->in);
}

/* A new id of the port space for connections, or -1. */
static __attribute__((unused)) int64_t create_id(int fd, uint64_t uid)
{
	struct command made = command(0, 24, 4);
	uint32_t id = 0;

	PUT(&made, 0, uint64_t, uid);
	PUT(&made, 8, uint64_t, (uint64_t)(uintptr_t)&id);
	PUT(&made, 16, uint16_t, 0x0106);
	PUT(&made, 18, uint8_t, 2);
	return give(fd, &made) == 32 ? (int64_t)id : -1;
}

static __attribute__((unused)) ssize_t on_address(int fd, uint32_t number, uint32_t id, uint32_t address, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address) };
	struct command made = command(number, number == 20 ? 136 : 272, 0);

	PUT(&made, 0, uint32_t, id);
	if (number == 20) {
		PUT(&made, 4, uint16_t, sizeof(in));
		put(&made, 8, &in, sizeof(in));
	} else {
		PUT(&made, 4, uint32_t, 2000);
		PUT(&made, 10, uint16_t, sizeof(in));
		put(&made, 144, &in, sizeof(in));
	}
	return give(fd, &made);
}

static __attribute__((unused)) ssize_t bind_id(int fd, uint32_t id, uint32_t address, uint16_t port)
{
	return on_address(fd, 20, id, address, port);
}

static __attribute__((unused)) ssize_t resolve(int fd, uint32_t id, uint32_t address, uint16_t port)
{
	return on_address(fd, 21, id, address, port);
}

/* A command of an id's number, and perhaps one word behind it. */
static __attribute__((unused)) ssize_t simple(int fd, uint32_t number, uint32_t id, int words, uint32_t word)
{
	struct command made = command(number, (uint16_t)(4 * words), 0);

	PUT(&made, 0, uint32_t, id);
	PUT(&made, 4, uint32_t, word);
	return give(fd, &made);
}

struct event {
	uint64_t uid;
	uint32_t id, kind;
	int32_t status;
	unsigned char rest[316];
};

static __attribute__((unused)) ssize_t get_event(int fd, struct event *event)
{
	struct command made = command(12, 8, sizeof(*event));

	PUT(&made, 0, uint64_t, (uint64_t)(uintptr_t)event);
	return give(fd, &made);
}

/* The only socket of a listener: in the folder of the network namespace, which is in this one. */
static __attribute__((unused)) void find_listener(const char *folder, struct sockaddr_un *address)
{
	glob_t found;
	char pattern[300];

	snprintf(pattern, sizeof(pattern), "%.200s/cm-*/l*", folder);
	address->sun_family = AF_UNIX;
	if (glob(pattern, 0, NULL, &found) == 0) {
		/* Its path may be too long for an address. */
		int directory = open(dirname(strdup(found.gl_pathv[0])), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%.50s", directory, basename(found.gl_pathv[0]));
	}
	globfree(&found);
}

static __attribute__((unused)) int end(void)
{
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}

#endif
