/*
 * Preloaded into clients of perftest: a connection that is refused is tried again for some seconds.
 *
 * With its connection manager, perftest's client connects a second time at the moment when the server begins to listen for
 * that. iWARP refuses it at once where the server is late, and perftest then crashes in its own second try.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

struct rdma_cm_id;
struct rdma_conn_param;

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int (*connect)(struct rdma_cm_id *, struct rdma_conn_param *) = dlsym(RTLD_NEXT, "rdma_connect");
	int result;

	if (!connect) {
		errno = ENOSYS;
		return -1;
	}
	for (int tries = 0; (result = connect(id, param)) && errno == ECONNREFUSED && tries < 100; tries++)
		usleep(50000);
	return result;
}
