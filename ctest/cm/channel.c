/*
 * channel.c - how events reach a program: waiting, signals, other descriptors of the channel, poll and
 * epoll, threads, and what must be acknowledged before an identifier can go.
 */
#include "../../tests/asleep.h"
#include "cm.h"
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static struct rdma_event_channel *channel;

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
	(void)number;
	handled++;
}

struct waiter {
	volatile pid_t thread;
	int result, error;
	volatile bool back;
	struct rdma_cm_event *event;
};

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;

	w->thread = gettid();
	errno = 0;
	w->result = rdma_get_cm_event(channel, &w->event);
	w->error = errno;
	w->back = true;
	return NULL;
}

/* Whether the thread waits, once it does or has come back. */
static bool waits(const struct waiter *w)
{
	return until_asleep(&w->thread, is_for_file) && !w->back;
}

static pthread_t begin_to_wait(struct waiter *w)
{
	pthread_t thread;

	memset(w, 0, sizeof(*w));
	pthread_create(&thread, NULL, wait_for_event, w);
	return thread;
}

static void resolve(struct rdma_cm_id *id)
{
	if (rdma_resolve_addr(id, NULL, at(HERE, 7471), 1000))
		die("resolve: %s", errno_name(errno));
}

static void waiting(void)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP);
	struct sigaction action = {.sa_handler = on_signal};
	struct waiter w;
	pthread_t thread;
	bool waited;

	note("--- a thread waits until an event comes");
	thread = begin_to_wait(&w);
	waited = waits(&w);
	resolve(id);
	pthread_join(thread, NULL);
	CHECK(w.result == 0 && waited);
	show_event(w.event);
	rdma_ack_cm_event(w.event);

	note("--- a signal without SA_RESTART ends the wait");
	sigaction(SIGUSR1, &action, NULL);
	thread = begin_to_wait(&w);
	waits(&w);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	note("    rdma_get_cm_event = %d, errno %s", w.result, errno_name(w.error));

	note("--- one with it does not");
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, NULL);
	rdma_destroy_id(id);
	id = make_id(channel, "id", RDMA_PS_TCP);
	thread = begin_to_wait(&w);
	waits(&w);
	handled = 0;
	pthread_kill(thread, SIGUSR1);
	waited = waits(&w) && handled == 1;
	resolve(id);
	pthread_join(thread, NULL);
	CHECK(w.result == 0 && waited);
	show_event(w.event);
	rdma_ack_cm_event(w.event);

	note("--- two threads wait, two events come: each gets one");
	rdma_destroy_id(id);
	struct rdma_cm_id *ids[2] = {make_id(channel, "id", RDMA_PS_TCP), make_id(channel, "second", RDMA_PS_TCP)};
	struct waiter both[2];
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		threads[i] = begin_to_wait(&both[i]);
	for (int i = 0; i < 2; i++)
		waits(&both[i]);
	for (int i = 0; i < 2; i++)
		resolve(ids[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK(both[0].result == 0 && both[1].result == 0 && both[0].event->id != both[1].event->id);
	for (int i = 0; i < 2; i++)
		rdma_ack_cm_event(both[i].event);
	for (int i = 0; i < 2; i++)
		rdma_destroy_id(ids[i]);

	note("--- a waiting thread is cancelled");
	void *ended = NULL;

	thread = begin_to_wait(&w);
	waits(&w);
	pthread_cancel(thread);
	pthread_join(thread, &ended);
	CHECK(ended == PTHREAD_CANCELED);
}

static void polling(void)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP);
	int level = epoll_create1(0), edge = epoll_create1(0), again = dup(channel->fd);
	struct epoll_event want = {.events = EPOLLIN}, got;
	struct rdma_event_channel copy = {.fd = again};
	fd_set set;
	struct timeval second = {1, 0};

	note("--- poll, select and epoll");
	CALL_INT(epoll_ctl(level, EPOLL_CTL_ADD, channel->fd, &want));
	want.events = EPOLLIN | EPOLLET;
	CALL_INT(epoll_ctl(edge, EPOLL_CTL_ADD, channel->fd, &want));
	CALL_COUNT(epoll_wait(level, &got, 1, 0));
	CALL_COUNT(epoll_wait(edge, &got, 1, 0));
	resolve(id);
	CALL_COUNT(epoll_wait(level, &got, 1, 2000));
	CALL_COUNT(epoll_wait(level, &got, 1, 0));
	CALL_COUNT(epoll_wait(edge, &got, 1, 2000));
	CALL_COUNT(epoll_wait(edge, &got, 1, 0));
	FD_ZERO(&set);
	FD_SET(channel->fd, &set);
	CALL_COUNT(select(channel->fd + 1, &set, NULL, NULL, &second));
	note("--- another descriptor of the same file");
	CHECK(readable(again, 0));
	CALL_INT(fcntl(again, F_SETFL, O_RDWR | O_NONBLOCK));
	event_on("event of the copy", &copy, LONG_MS);
	CHECK(!readable(channel->fd, 0));
	CALL_COUNT(epoll_wait(level, &got, 1, 0));
	struct rdma_cm_event *event;

	CALL_INT(rdma_get_cm_event(channel, &event));
	CALL_INT(fcntl(channel->fd, F_SETFL, O_RDWR));
	CALL_INT(close(again));
	CALL_INT(rdma_resolve_route(id, 1000));
	EVENT(channel);
	close(level);
	close(edge);
	CALL_INT(rdma_destroy_id(id));
}

static struct rdma_cm_id *to_destroy;
static volatile pid_t destroyer;
static volatile int destroyed;

static void *destroy(void *arg)
{
	destroyer = gettid();
	destroyed = rdma_destroy_id(to_destroy) ? -1 : 1;
	return arg;
}

static void acknowledging(void)
{
	struct rdma_cm_event *event;
	pthread_t thread;

	note("--- destroying waits until the event is acknowledged");
	to_destroy = make_id(channel, "id", RDMA_PS_TCP);
	resolve(to_destroy);
	event = await_event(channel, LONG_MS);
	pthread_create(&thread, NULL, destroy, NULL);
	until_asleep(&destroyer, is_futex);
	CHECK(destroyed == 0);
	CALL_INT(rdma_ack_cm_event(event));
	pthread_join(thread, NULL);
	CHECK(destroyed == 1);
}

/* A child has the same file; it can take events, but its identifiers are the parent's. */
static void forked(void)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP);
	int status;
	pid_t child;

	note("--- a child that ends takes nothing with it");
	child = fork();
	if (child == 0) {
		close(channel->fd);
		_exit(0);
	}
	waitpid(child, &status, 0);
	resolve(id);
	EVENT(channel);
	child = fork();
	if (child == 0)
		_exit(readable(channel->fd, 0) ? 1 : 0);
	waitpid(child, &status, 0);
	CHECK(status == 0);
	CALL_INT(rdma_resolve_route(id, 1000));
	EVENT(channel);
	CALL_INT(rdma_destroy_id(id));
}

int main(void)
{
	begin();
	channel = make_channel();
	waiting();
	polling();
	acknowledging();
	forked();
	rdma_destroy_event_channel(channel);
	return end();
}
