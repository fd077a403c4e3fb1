/*
 * many.c [CONNECTIONS] - many come at once: 1,000 connections of one process to another, and 100 processes at a listener
 * with a backlog of one. All get through in time, and nothing is left open.
 */
#include "descriptors.h"
#include <signal.h>
#include <sys/wait.h>

#define PROCESSES 100

static void qp_for(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	if (rdma_create_qp(id, NULL, &init))
		die("rdma_create_qp: %s", errno_name(errno));
}

/* Accepts until this many connections have been established and have ended. */
static void serve(int ready, int wanted, int backlog, int slowly)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *listener;
	struct rdma_cm_event *event;
	int established = 0, ended = 0;

	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) || rdma_bind_addr(listener, at("127.0.0.1", 7471)) ||
	    rdma_listen(listener, backlog))
		die("listen: %s", errno_name(errno));
	if (write(ready, "r", 1) != 1)
		die("write");
	while (ended < wanted) {
		if (!readable(channel->fd, 60000))
			die("server: %d of %d established, %d ended", established, wanted, ended);
		if (rdma_get_cm_event(channel, &event))
			die("rdma_get_cm_event: %s", errno_name(errno));
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type kind = event->event;

		rdma_ack_cm_event(event);
		switch (kind) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			usleep(slowly);
			qp_for(id);
			if (rdma_accept(id, &param))
				die("accept: %s", errno_name(errno));
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			established++;
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			ended++;
			rdma_disconnect(id);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			break;
		default:
			die("server: event %s status %d", rdma_event_str(kind), event->status);
		}
	}
	if (established != wanted)
		die("server: %d established, %d ended", established, ended);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

static pid_t start_server(int wanted, int backlog, int slowly)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready))
		die("pipe");
	pid = fork();
	if (!pid) {
		int before;

		alarm(120);
		close(ready[0]);
		open_once();
		before = descriptors();
		serve(ready[1], wanted, backlog, slowly);
		if (descriptors() != before)
			die("server: %d descriptors where %d were", descriptors(), before);
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		die("the server does not begin");
	close(ready[0]);
	return pid;
}

/* Opens this many connections at once, and ends them when all are there. */
static int connect_all(int wanted)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id **ids = calloc(wanted, sizeof(*ids));
	struct rdma_conn_param param = {.retry_count = 7};
	struct rdma_cm_event *event;
	int established = 0, ended = 0;
	uint64_t begun = now_ms();

	for (int i = 0; i < wanted; i++)
		if (rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(ids[i], NULL, at("127.0.0.1", 7471), 2000))
			die("resolve %d: %s", i, errno_name(errno));
	while (ended < wanted) {
		if (!readable(channel->fd, 60000))
			die("client: %d of %d established, %d ended", established, wanted, ended);
		if (rdma_get_cm_event(channel, &event))
			die("rdma_get_cm_event: %s", errno_name(errno));
		struct rdma_cm_id *id = event->id;
		enum rdma_cm_event_type kind = event->event;
		int status = event->status;

		rdma_ack_cm_event(event);
		switch (kind) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			if (rdma_resolve_route(id, 2000))
				die("route: %s", errno_name(errno));
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			qp_for(id);
			if (rdma_connect(id, &param))
				die("connect: %s", errno_name(errno));
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			if (++established == wanted)
				for (int i = 0; i < wanted; i++)
					if (rdma_disconnect(ids[i]))
						die("disconnect: %s", errno_name(errno));
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			ended++;
			break;
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		default:
			die("client: event %s status %d", rdma_event_str(kind), status);
		}
	}
	for (int i = 0; i < wanted; i++) {
		rdma_destroy_qp(ids[i]);
		if (rdma_destroy_id(ids[i]))
			die("rdma_destroy_id: %s", errno_name(errno));
	}
	free(ids);
	rdma_destroy_event_channel(channel);
	return (int)(now_ms() - begun);
}

static int exit_of(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 1000, failed = 0, good = 0;
	pid_t server, clients[PROCESSES];
	uint64_t begun;

	setvbuf(stdout, NULL, _IOLBF, 0);
	server = start_server(wanted, wanted, 0);
	clients[0] = fork();
	if (!clients[0]) {
		int before, took;

		alarm(120);
		open_once();
		before = descriptors();
		took = connect_all(wanted);
		if (descriptors() != before)
			die("client: %d descriptors where %d were", descriptors(), before);
		note("%d connections at once: %d ms", wanted, took);
		_exit(0);
	}
	if (exit_of(clients[0])) {
		failed++;
		kill(server, SIGKILL);
	}
	failed += exit_of(server) != 0;

	begun = now_ms();
	server = start_server(PROCESSES, 1, 1000);
	for (int i = 0; i < PROCESSES; i++) {
		clients[i] = fork();
		if (!clients[i]) {
			alarm(120);
			connect_all(1);
			_exit(0);
		}
	}
	for (int i = 0; i < PROCESSES; i++)
		good += exit_of(clients[i]) == 0;
	note("%d of %d processes got through a backlog of one in %d ms", good, PROCESSES, (int)(now_ms() - begun));
	if (good != PROCESSES) {
		failed++;
		kill(server, SIGKILL);
	}
	failed += exit_of(server) != 0;
	note("%d failed", failed);
	return failed != 0;
}
