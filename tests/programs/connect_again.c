/*
 * Preloaded into clients of perftest: connects when the server has listened for a moment, and again for some seconds where
 * it is refused.
 *
 * With its connection manager, perftest's client connects a second time at the moment when the server begins to listen for
 * that. iWARP refuses it at once where the server is late, and perftest then crashes in its own second try. On a busy machine
 * soft-iWARP also gave no answer at that moment (RDMA_CM_EVENT_UNREACHABLE after ten seconds).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define LISTENS 0x0A

/* Whether a TCP socket of this machine listens at the port. */
static bool is_listened_to(unsigned int port)
{
	char line[256];
	bool found = false;
	FILE *sockets = fopen("/proc/net/tcp", "r");

	while (sockets && !found && fgets(line, sizeof(line), sockets)) {
		unsigned int at, state;

		found = sscanf(line, "%*d: %*x:%x %*x:%*x %x", &at, &state) == 2 && at == port && state == LISTENS;
	}
	if (sockets)
		fclose(sockets);
	return found;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int (*connect)(struct rdma_cm_id *, struct rdma_conn_param *) = dlsym(RTLD_NEXT, "rdma_connect");
	unsigned int port = ntohs(rdma_get_dst_port(id));
	int result;

	if (!connect) {
		errno = ENOSYS;
		return -1;
	}
	for (int tries = 0; !is_listened_to(port) && tries < 100; tries++)
		usleep(50000);
	usleep(100000);
	for (int tries = 0; (result = connect(id, param)) && errno == ECONNREFUSED && tries < 100; tries++)
		usleep(50000);
	return result;
}
