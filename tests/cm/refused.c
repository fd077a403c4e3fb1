/*
 * refused.c - a connect for which nobody listens is refused at once, beside a process that listens elsewhere, while one is still
 * waited for that has told its port and is about to listen.
 *
 * Both are asked for, the one that is about to listen first, and listens when the other one has been refused. It is waited for
 * a quarter of a second, in which a busy machine may not get that far: then both are asked for again.
 */
#include "../../ctest/cm/cm.h"
#include <sys/wait.h>

#define LISTENS 7471
#define NOBODY 7472
#define SOON 7473
#define ROUNDS 200
#define REJECTED_BY_NOBODY 8
#define REJECTED_BY_LISTENER 28

/* What the other process is told to do. */
enum order { BIND = 'b', LISTEN = 'l', UNBIND = 'u', LISTEN_NOWHERE = 'n', END = 'e' };

static int to_other[2], from_other[2];

static void other_process(void)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *listener = make_id(channel, "listener", RDMA_PS_TCP), *late = NULL;
	struct pollfd places[] = {{.fd = to_other[0], .events = POLLIN}, {.fd = channel->fd, .events = POLLIN}};
	struct rdma_cm_event *event;
	char order;

	make_listener(listener, HERE, LISTENS, 8);
	while (poll(places, 2, -1) > 0) {
		if (places[1].revents) {
			struct rdma_cm_id *id;

			if (rdma_get_cm_event(channel, &event) || event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
				die("no request");
			id = event->id;
			rdma_ack_cm_event(event);
			rdma_reject(id, NULL, 0);
			rdma_destroy_id(id);
		}
		if (!places[0].revents)
			continue;
		if (read(to_other[0], &order, 1) != 1)
			die("pipe");
		switch (order) {
		case BIND:
			late = make_id(channel, "late", RDMA_PS_TCP);
			if (rdma_bind_addr(late, at(HERE, SOON)))
				die("bind: %s", errno_name(errno));
			break;
		case LISTEN:
			if (rdma_listen(late, 8))
				die("listen: %s", errno_name(errno));
			break;
		case UNBIND:
			rdma_destroy_id(late);
			break;
		case LISTEN_NOWHERE:
			rdma_destroy_id(listener);
			break;
		default:
			_exit(0);
		}
		if (write(from_other[1], &order, 1) != 1)
			die("pipe");
	}
	die("poll: %s", errno_name(errno));
}

static void tell(char order)
{
	if (write(to_other[1], &order, 1) != 1 || (order != END && read(from_other[0], &order, 1) != 1))
		die("the other process is gone");
}

static void ask(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = unused_qp(), .retry_count = 7};

	if (rdma_connect(id, &param))
		die("connect: %s", errno_name(errno));
}

/* The next of those who asked that is rejected, and why. */
static struct rdma_cm_id *rejected(struct rdma_event_channel *channel, int *status)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (!readable(channel->fd, LONG_MS) || rdma_get_cm_event(channel, &event))
		die("no event");
	if (event->event != RDMA_CM_EVENT_REJECTED)
		die("event %s", rdma_event_str(event->event));
	id = event->id;
	*status = event->status;
	rdma_ack_cm_event(event);
	return id;
}

static struct rdma_cm_id *client(struct rdma_event_channel *channel, int port)
{
	struct rdma_cm_id *id = make_id(channel, "client", RDMA_PS_TCP);

	make_route(id, NULL, HERE, port);
	return id;
}

/*
 * Whether SOON was waited for until it listened, and NOBODY, where it was asked for, refused before. While another process
 * listens nowhere, NOBODY is waited for as well, and is not asked for.
 */
static bool round_of(bool with_nobody)
{
	struct rdma_event_channel *channel = make_channel();
	struct rdma_cm_id *soon, *nobody = NULL, *first = NULL;
	int status;
	bool good;

	tell(BIND);
	soon = client(channel, SOON);
	if (with_nobody)
		nobody = client(channel, NOBODY);
	ask(soon);
	if (nobody) {
		ask(nobody);
		first = rejected(channel, &status);
		if (status != REJECTED_BY_NOBODY)
			die("not refused with %d but with %d", REJECTED_BY_NOBODY, status);
	}
	tell(LISTEN);
	good = first != soon;
	if (rejected(channel, &status) == soon)
		good = status == REJECTED_BY_LISTENER;
	if (status != REJECTED_BY_NOBODY && !good)
		die("refused with %d", status);
	tell(UNBIND);
	rdma_destroy_id(soon);
	if (nobody)
		rdma_destroy_id(nobody);
	rdma_destroy_event_channel(channel);
	return good;
}

static void repeat(const char *what, bool with_nobody)
{
	for (int i = 1; i <= ROUNDS; i++)
		if (round_of(with_nobody)) {
			note("%s: round %d", what, i);
			return;
		}
	die("%s: in none of %d rounds", what, ROUNDS);
}

int main(void)
{
	int status;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (pipe(to_other) || pipe(from_other))
		die("pipe");
	pid = fork();
	if (!pid)
		other_process();
	close(from_other[1]);
	for (int i = 0; i < 10; i++)
		repeat("refused while one is waited for", true);
	tell(LISTEN_NOWHERE);
	repeat("waited for where nobody listens", false);
	tell(END);
	if (waitpid(pid, &status, 0) != pid || status)
		die("the other process ended with %d", status);
	note("0 failed");
	return 0;
}
