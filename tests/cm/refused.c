/*
 * refused.c - how soon is a connect refused for which nobody listens, beside a process that listens elsewhere; and does it
 * still wait for one that has told its port and is about to listen?
 */
#include "../../ctest/cm/cm.h"
#include <sys/wait.h>

#define LISTENS 7471
#define NOBODY 7472
#define SOON 7473
/* Less than the time for which somebody is waited for. */
#define PROMPT_MS 200

/* Asks for a connection; the event that comes of it, and how long that took. */
static enum rdma_cm_event_type ask(int port, int *status, uint64_t *ms)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *id = make_id(channel, "client", RDMA_PS_TCP);
	struct rdma_conn_param param = {.qp_num = unused_qp(), .retry_count = 7};
	struct rdma_cm_event *event;
	enum rdma_cm_event_type kind;
	uint64_t began;

	make_route(id, NULL, HERE, port);
	began = now_ms();
	if (rdma_connect(id, &param))
		die("connect: %s", errno_name(errno));
	if (!readable(channel->fd, LONG_MS) || rdma_get_cm_event(channel, &event))
		die("no event");
	*ms = now_ms() - began;
	kind = event->event;
	*status = event->status;
	rdma_ack_cm_event(event);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return kind;
}

static void refused(void)
{
	uint64_t least = UINT64_MAX, ms;
	int status;

	/* The machine may be busy: one that is prompt shows that none has to wait. */
	for (int i = 0; i < 10; i++) {
		if (ask(NOBODY, &status, &ms) != RDMA_CM_EVENT_REJECTED || status != 8)
			die("not refused with 8 but with %d", status);
		least = ms < least ? ms : least;
	}
	note("refused within %llu ms", (unsigned long long)least);
	if (least >= PROMPT_MS)
		die("a refusal takes %llu ms", (unsigned long long)least);
}

/* Tells by a pipe what the other process may go on with. */
static void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		die("pipe");
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		die("pipe");
}

int main(void)
{
	int ready[2], go[2], bound[2], status, why;
	uint64_t ms;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pipe(ready) || pipe(go) || pipe(bound))
		die("pipe");
	pid = fork();
	if (!pid) {
		struct rdma_event_channel *channel = make_channel();
		struct rdma_cm_id *listener = make_id(channel, "listener", RDMA_PS_TCP), *late;
		struct rdma_cm_event *event;

		make_listener(listener, HERE, LISTENS, 8);
		tell(ready[1]);
		hear(go[0]);
		rdma_destroy_id(listener);
		late = make_id(channel, "late", RDMA_PS_TCP);
		if (rdma_bind_addr(late, at(HERE, SOON)))
			die("bind: %s", errno_name(errno));
		tell(bound[1]);
		usleep(20000);
		if (rdma_listen(late, 8))
			die("listen: %s", errno_name(errno));
		if (!readable(channel->fd, LONG_MS) || rdma_get_cm_event(channel, &event) || event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
			die("no request");
		rdma_reject(event->id, NULL, 0);
		_exit(0);
	}
	hear(ready[0]);
	refused();
	tell(go[1]);
	hear(bound[0]);
	if (ask(SOON, &why, &ms) != RDMA_CM_EVENT_REJECTED || why != 28)
		die("who is about to listen was not waited for: %d", why);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the listening process ended with %d", status);
	note("0 failed");
	return 0;
}
