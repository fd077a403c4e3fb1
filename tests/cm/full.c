/*
 * full.c - the file system of the device's folder is full: who comes is told so by an error, who is
 * connected stays so, and all goes on when there is room again.
 */
#include "../../ctest/cm/cm.h"
#include <fcntl.h>
#include <sys/wait.h>

#define ANSWER_MS 300000 /* ends a wait for an event that never comes */

static int fill(void)
{
	int fd = open("/dev/shm/filler", O_RDWR | O_CREAT, 0600);
	static char block[65536];

	memset(block, 1, sizeof(block));
	if (fd < 0)
		die("filler: %s", errno_name(errno));
	while (write(fd, block, sizeof(block)) > 0)
		;
	while (write(fd, block, 1) > 0)
		;
	return fd;
}

/* A whole life of a client; answers the first errno, or 0. */
static int attempt(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;
	struct rdma_cm_event *event;
	int e = 0;

	errno = 0;
	if (!channel)
		return errno ? errno : -1;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, at("127.0.0.1", 7471), 1000))
		e = errno ? errno : -1;
	while (!e) {
		struct rdma_conn_param param = {.qp_num = unused_qp(), .retry_count = 7};

		if (!readable(channel->fd, ANSWER_MS))
			return ETIMEDOUT;
		if (rdma_get_cm_event(channel, &event))
			return errno;
		enum rdma_cm_event_type kind = event->event;
		int status = event->status;

		rdma_ack_cm_event(event);
		if (kind == RDMA_CM_EVENT_ADDR_RESOLVED)
			e = rdma_resolve_route(id, 1000) ? errno : 0;
		else if (kind == RDMA_CM_EVENT_ROUTE_RESOLVED)
			e = rdma_connect(id, &param) ? errno : 0;
		else if (kind == RDMA_CM_EVENT_REJECTED && status == 28)
			break; /* the server's way to say that it has got it */
		else
			e = status < 0 ? -status : status ? 1000 + status : -2;
	}
	if (id)
		rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return e;
}

/* Refuses one request, if one comes. */
static bool refuse(struct rdma_event_channel *channel, int ms)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (!readable(channel->fd, ms) || rdma_get_cm_event(channel, &event))
		return false;
	id = event->id;
	rdma_ack_cm_event(event);
	rdma_reject(id, NULL, 0);
	rdma_destroy_id(id);
	return true;
}

static int in_child(struct rdma_event_channel *channel)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int e = attempt();

		if (e)
			fprintf(stderr, "a client in a process of its own: %s\n", e > 0 && e < 1000 ? errno_name(e) : "refused");
		_exit(e == 0 ? 0 : e > 0 && e < 200 ? e : 201);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		refuse(channel, 10);
	if (WIFSIGNALED(status))
		die("a client was ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

int main(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *other;
	struct sides s = {0};
	int filler, e;

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* The processes that find it full have not opened the device before: they come from here. */
	channel = make_channel();
	listener = make_id(channel, "listener", RDMA_PS_TCP);
	make_listener(listener, "127.0.0.1", 7471, 8);
	e = in_child(channel);
	if (e)
		die("with room: %d", e);

	filler = fill();
	e = in_child(channel);
	note("the folder is full: a new process %s", e ? errno_name(e) : "finds room nevertheless");
	other = NULL;
	errno = 0;
	for (int i = 0; i < 200 && !errno; i++)
		if (rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) || rdma_bind_addr(other, at("127.0.0.1", 8000 + i)) ||
		    rdma_listen(other, 1))
			break;
	note("and more listeners of this process: %s", errno ? errno_name(errno) : "all find room");
	if (errno && errno != ENOMEM && errno != ENOSPC)
		die("errno %s", errno_name(errno));

	unlink("/dev/shm/filler");
	close(filler);
	e = in_child(channel);
	if (e)
		die("with room again: %s", errno_name(e));
	sides_connect(&s, 7600);
	sides_close(&s);
	note("0 failed");
	return 0;
}
