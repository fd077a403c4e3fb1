/*
 * many.c [CONNECTIONS] - many come at once: 1,000 connections of one process to another, 100 processes at a
 * listener with a backlog of one, and 200 listeners on one port, one after the other, each of which its
 * client has been told of. All get through, and nothing is left open.
 */
#include "descriptors.h"
#include <signal.h>
#include <sys/wait.h>

#define PROCESSES 100
#define ANEW 200
#define HANG_S 900 /* seconds after which what hangs is ended; nothing is judged by that */

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
		if (!readable(channel->fd, 1000 * HANG_S))
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

		alarm(HANG_S);
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
		if (!readable(channel->fd, 1000 * HANG_S))
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

/* Listens and says so, takes one connection, and listens anew while that one lasts. */
static void listen_anew(int ready, int done)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_conn_param param = {0};
	struct rdma_cm_id *last = NULL;
	char byte;

	for (int i = 0; i < ANEW; i++) {
		struct rdma_cm_id *listener = make_id(channel, "listener", RDMA_PS_TCP), *id;

		make_listener(listener, "127.0.0.1", 7471, 1);
		if (write(ready, "r", 1) != 1)
			die("write");
		id = take(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		rdma_destroy_id(listener);
		param.qp_num = unused_qp();
		if (rdma_accept(id, &param))
			die("accept: %s", errno_name(errno));
		take(channel, RDMA_CM_EVENT_ESTABLISHED);
		if (last)
			rdma_destroy_id(last);
		last = id;
		if (read(done, &byte, 1) != 1)
			die("read");
	}
	rdma_destroy_id(last);
	rdma_destroy_event_channel(channel);
}

static int find_anew(int ready, int done)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *ids[ANEW];
	char byte;

	for (int i = 0; i < ANEW; i++) {
		struct rdma_conn_param param = {.qp_num = unused_qp()};
		struct rdma_cm_event *event;
		bool answered = false;

		ids[i] = make_id(channel, "client", RDMA_PS_TCP);
		make_route(ids[i], NULL, "127.0.0.1", 7471);
		if (read(ready, &byte, 1) != 1)
			die("read");
		if (rdma_connect(ids[i], &param))
			die("connect: %s", errno_name(errno));
		while (!answered) {
			if (!readable(channel->fd, 1000 * HANG_S) || rdma_get_cm_event(channel, &event))
				die("listener %d: no answer", i);
			if (event->event == RDMA_CM_EVENT_REJECTED)
				die("listener %d: refused, status %d", i, event->status);
			answered = event->event == RDMA_CM_EVENT_CONNECT_RESPONSE;
			rdma_ack_cm_event(event);
		}
		if (rdma_establish(ids[i]) || write(done, "d", 1) != 1)
			die("establish: %s", errno_name(errno));
		if (i) {
			take(channel, RDMA_CM_EVENT_DISCONNECTED);
			rdma_destroy_id(ids[i - 1]);
		}
	}
	rdma_destroy_id(ids[ANEW - 1]);
	rdma_destroy_event_channel(channel);
	return 0;
}

static int anew(void)
{
	int ready[2], done[2], failed;
	pid_t server, client;

	if (pipe(ready) || pipe(done))
		die("pipe");
	server = fork();
	if (!server) {
		alarm(HANG_S);
		listen_anew(ready[1], done[0]);
		_exit(0);
	}
	client = fork();
	if (!client) {
		alarm(HANG_S);
		_exit(find_anew(ready[0], done[1]));
	}
	failed = exit_of(client) != 0;
	if (failed)
		kill(server, SIGKILL);
	note("%d listeners one after the other: %s", ANEW, failed ? "not all were found" : "all were found");
	return failed + (exit_of(server) != 0);
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

		alarm(HANG_S);
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
			alarm(HANG_S);
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
	failed += anew();
	note("%d failed", failed);
	return failed != 0;
}
