/*
 * threads.c CASE - a thread that waits in the library is cancelled, and a stopped third process holds a queue.
 */
#include "sides.h"

/* --- pthread_cancel of a thread that waits. */

static struct ibv_comp_channel *quiet;

static void *waits_for_completions(void *context)
{
	struct ibv_cq *cq;

	ibv_get_cq_event(quiet, &cq, &context);
	return NULL;
}

static void *waits_for_events(void *unused)
{
	struct ibv_async_event event;

	ibv_get_async_event(s.context, &event);
	return unused;
}

static void *(*waits)(void *);

static void *cancels(void *unused)
{
	until_loaded();
	for (int i = 0; i < 20; i++) {
		pthread_t waiter;
		void *result;

		if (pthread_create(&waiter, NULL, waits, NULL))
			fail("thread");
		/* Mostly it sleeps by then; that it has just begun is as well. */
		usleep(rnd(5000));
		if (pthread_cancel(waiter) || pthread_join(waiter, &result) || result != PTHREAD_CANCELED)
			fail("the waiter was not cancelled");
	}
	if (ibv_destroy_comp_channel(quiet))
		fail("the channel cannot be destroyed");
	shared->enough = 1;
	return unused;
}

static void cancelled_side(int socket, bool asleep)
{
	open_side();
	quiet = ibv_create_comp_channel(s.context);
	if (!quiet || !connect_side(socket))
		fail("opening");
	pthread_t thread;
	if (pthread_create(&thread, NULL, cancels, NULL))
		fail("thread");
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	pthread_join(thread, NULL);
	close_side();
}

static void cancelled(void *(*how)(void *))
{
	waits = how;
	start_sides(cancelled_side, plain_side, true);
	side_ended(0, 0);
	side_ended(1, 0);
}

static void cancelled_completions(void)
{
	cancelled(waits_for_completions);
}

static void cancelled_events(void)
{
	cancelled(waits_for_events);
}

/* --- Two clients of one completion queue, and one of them is stopped in the middle of a transaction. */

#define CLIENTS 2
#define STOPPED 1 /* this one */
#define BROKEN 2  /* how it ends when its connection broke */
#define SMALL 64
#define QUEUE 256

static struct {
	volatile uint64_t received[CLIENTS];
	volatile uint64_t notified; /* requests for notification that the server made */
	volatile int over;
} *counts;

static void serve(int sockets[CLIENTS])
{
	struct endpoint e[CLIENTS] = {{.with_channel = true}, {0}};
	struct peer own, others;

	e[0].cqe = 2 * CLIENTS * QUEUE;
	e[0].cap = e[1].cap = (struct ibv_qp_cap){16, QUEUE, 1, 1, 0};
	endpoint_open(&e[0], "rxe0");
	for (int i = 0; i < CLIENTS; i++) {
		struct ibv_qp_init_attr init = {.send_cq = e[0].recv_cq, .recv_cq = e[0].recv_cq, .cap = e[0].cap, .qp_type = IBV_QPT_RC};

		e[i].qp = ibv_create_qp(e[0].pd, &init);
		if (!e[i].qp)
			fail("queue pair");
		own = (struct peer){.gid = e[0].gid, .qp_num = {e[i].qp->qp_num}};
		if (!swap(sockets[i], &own, &others, sizeof(own)))
			fail("a client is gone");
		e[i].type = IBV_QPT_RC;
		ready(&e[i], &others.gid, others.qp_num[0]);
		e[i].mr = e[0].mr;
		e[i].buffer = e[0].buffer;
		for (int j = 0; j < QUEUE; j++)
			if (post_recv(&e[i], (uint64_t)i, 0, SMALL))
				fail("receive request");
		meet(sockets[i]);
	}
	while (!counts->over) {
		struct ibv_wc wc[16];
		int n = ibv_poll_cq(e[0].recv_cq, 16, wc);

		if (n < 0)
			fail("poll = %d", n);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >= CLIENTS)
				fail("a completion of nobody's");
			/* The one that is stopped may lose its connection over it. */
			if (wc[i].status && wc[i].wr_id == STOPPED)
				continue;
			if (wc[i].status)
				fail("a receive ended with %s", ibv_wc_status_str(wc[i].status));
			counts->received[wc[i].wr_id]++;
			if (post_recv(&e[wc[i].wr_id], wc[i].wr_id, 0, SMALL))
				fail("receive request");
		}
		if (!n) {
			int ret = ibv_req_notify_cq(e[0].recv_cq, 0);

			if (ret)
				fail("ibv_req_notify_cq = %s", errno_name(ret));
			counts->notified++;
		}
	}
}

static void talk(int number, int socket)
{
	struct endpoint e = {.cap = {16, 1, 1, 1, 0}, .sq_sig_all = 1};
	struct peer own = {0}, others;
	int under_way = 0;

	endpoint_open(&e, "rxe0");
	own.gid = e.gid;
	own.qp_num[0] = e.qp->qp_num;
	if (!swap(socket, &own, &others, sizeof(own)))
		fail("the server is gone");
	ready(&e, &others.gid, others.qp_num[0]);
	meet(socket);
	while (!counts->over) {
		struct ibv_wc wc;

		for (; under_way < 8; under_way++)
			if (post_send(&e, 1, 0, SMALL))
				fail("posting");
		while (ibv_poll_cq(e.send_cq, 1, &wc) > 0) {
			if (wc.status && number == STOPPED)
				_exit(BROKEN);
			if (wc.status)
				fail("a send ended with %s", ibv_wc_status_str(wc.status));
			under_way--;
		}
	}
}

static bool more_from(int client, uint64_t ms)
{
	uint64_t received = counts->received[client] + 20, deadline = now_ms() + ms;

	while (counts->received[client] < received)
		if (now_ms() > deadline)
			return false;
		else
			usleep(500);
	return true;
}

static void stopped_third(void)
{
	int sockets[CLIENTS][2], status;
	bool held = false, broken = false;
	pid_t server, clients[CLIENTS];
	uint64_t until;

	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	seed = now_ms();
	for (int i = 0; i < CLIENTS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]))
			fail("socket pair");
	fflush(stdout);
	server = fork();
	if (!server) {
		int own[CLIENTS] = {sockets[0][0], sockets[1][0]};

		alarm(60);
		serve(own);
		_exit(0);
	}
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = fork();
		if (!clients[i]) {
			alarm(60);
			talk(i, sockets[i][1]);
			_exit(0);
		}
	}
	if (!more_from(0, 20000) || !more_from(1, 20000))
		fail("no traffic");
	/* Until it was stopped where the other one notices, or where it costs its own connection; the other one goes on. */
	until = now_ms() + 8000;
	while (!held && !broken && now_ms() < until) {
		if (kill(clients[STOPPED], SIGSTOP) || waitpid(clients[STOPPED], &status, WUNTRACED) != clients[STOPPED])
			fail("stopping");
		broken = WIFEXITED(status) && WEXITSTATUS(status) == BROKEN;
		if (!broken && !WIFSTOPPED(status))
			fail("the stopped client ended with status %#x", status);
		if (!broken && !more_from(0, 300)) {
			uint64_t stopped_at = now_ms();

			held = true;
			if (!more_from(0, 12000))
				fail("nothing arrives from a client while another one is stopped");
			printf("the other client went on after %lu ms\n", now_ms() - stopped_at + 300);
			/* Still so after what the library waits for at most. */
			while (now_ms() < stopped_at + 12000)
				if (!more_from(0, 3000))
					fail("nothing arrives any more from a client while another one is stopped");
		}
		if (!broken)
			kill(clients[STOPPED], SIGCONT);
		usleep(rnd(3000));
	}
	if (!more_from(0, 5000))
		fail("nothing arrives from a client after another one was stopped");
	counts->over = 1;
	for (int i = 0; i < 2; i++)
		if (waitpid(i ? clients[0] : server, &status, 0) < 0 || status)
			fail("the %s ended with status %#x", i ? "other client" : "server", status);
	if (!broken && (waitpid(clients[STOPPED], &status, 0) < 0 || (status && WEXITSTATUS(status) != BROKEN)))
		fail("the stopped client ended with status %#x", status);
	printf("%lu and %lu messages%s%s\n", counts->received[0], counts->received[1],
	       held ? ", stopped within a transaction" : "", broken ? ", the stopped one lost its connection" : "");
}

int main(int argc, char **argv)
{
	static const struct lifecycle_case cases[] = {{"cancelled-completions", cancelled_completions},
						      {"cancelled-events", cancelled_events},
						      {"stopped-third", stopped_third},
						      {NULL, NULL}};

	return run_case(cases, argc, argv);
}
