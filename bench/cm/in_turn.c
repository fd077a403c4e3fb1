/*
 * Connections one after the other between two processes, through librdmacm: how long each step of one takes when
 * nothing else is under way, and the processes know each other.
 *
 *   in_turn ADDRESS PORT                     waits for them, until it is killed
 *   in_turn ADDRESS PORT COUNT [without]     makes COUNT of them
 *
 * A line for each step, in microseconds with tabs between: its name, the least and the median. `connect` is from
 * rdma_connect() to RDMA_CM_EVENT_ESTABLISHED: request, accept, reply, and the queue pairs of both sides ready to
 * send. `without` queue pairs, on both sides, that is the connection manager alone.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RESOLVE_ADDR, RESOLVE_ROUTE, CREATE_QP, CONNECT, DISCONNECT, STEPS };

static const char *const names[STEPS] = { "resolve addr", "resolve route", "create qp", "connect", "disconnect" };
static struct rdma_event_channel *channel;
static struct ibv_cq *cq;
static char without;

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	if (without)
		return;
	if (cq == NULL)
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = cq;
	check(rdma_create_qp(id, NULL, &attr) == 0, "rdma_create_qp");
}

static void destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
}

/*
 * Without a queue pair, its number is the program's to say: a new one each time on either side, since the kernel refuses
 * that of a connection whose end is not long ago. The client's first byte of data says whether there are queue pairs.
 */
static struct rdma_conn_param parameters(bool server)
{
	static uint32_t next;

	return (struct rdma_conn_param){ .responder_resources = 1,
					 .initiator_depth = 1,
					 .retry_count = 7,
					 .qp_num = (server ? 0xc00000 : 0x800000) + next++ % 0x400000,
					 .private_data = &without,
					 .private_data_len = 1 };
}

/* Waits for one event, which is the only one that may come. */
static void await(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
	if (event->event != wanted || event->status != 0) {
		fprintf(stderr, "%s, status %d, instead of %s\n", rdma_event_str(event->event), event->status,
			rdma_event_str(wanted));
		exit(1);
	}
	rdma_ack_cm_event(event);
}

static void serve(struct sockaddr_in *address)
{
	struct rdma_conn_param param;
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *event;
	enum rdma_cm_event_type what;

	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(listener, (struct sockaddr *)address) == 0, "rdma_bind_addr");
	check(rdma_listen(listener, 16) == 0, "rdma_listen");
	puts("listens");
	fflush(stdout);
	while (rdma_get_cm_event(channel, &event) == 0) {
		id = event->id;
		what = event->event;
		/* The client says whether there are queue pairs. */
		if (what == RDMA_CM_EVENT_CONNECT_REQUEST)
			without = *(const char *)event->param.conn.private_data;
		rdma_ack_cm_event(event);
		if (what == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			param = parameters(true);
			check(rdma_accept(id, &param) == 0, "rdma_accept");
		} else if (what == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_disconnect(id);
			destroy(id);
		}
	}
}

static void connect_once(struct sockaddr_in *address, double times[STEPS])
{
	struct rdma_conn_param param = parameters(false);
	struct rdma_cm_id *id;
	double at[STEPS + 1];

	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	at[RESOLVE_ADDR] = now();
	check(rdma_resolve_addr(id, NULL, (struct sockaddr *)address, 2000) == 0, "rdma_resolve_addr");
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	at[RESOLVE_ROUTE] = now();
	check(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	at[CREATE_QP] = now();
	make_qp(id);
	at[CONNECT] = now();
	check(rdma_connect(id, &param) == 0, "rdma_connect");
	if (without) {
		await(RDMA_CM_EVENT_CONNECT_RESPONSE);
		check(rdma_establish(id) == 0, "rdma_establish");
	} else {
		await(RDMA_CM_EVENT_ESTABLISHED);
	}
	at[DISCONNECT] = now();
	check(rdma_disconnect(id) == 0, "rdma_disconnect");
	await(RDMA_CM_EVENT_DISCONNECTED);
	at[STEPS] = now();
	destroy(id);
	for (int step = 0; step < STEPS; step++)
		times[step] = at[step + 1] - at[step];
}

static int less(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int rounds = count > 3 ? atoi(words[3]) : 0;
	double (*times)[STEPS], *one;

	if (count < 3 || inet_pton(AF_INET, words[1], &address.sin_addr) != 1) {
		fprintf(stderr, "in_turn ADDRESS PORT [COUNT [without]]\n");
		return 2;
	}
	address.sin_port = htons((unsigned short)atoi(words[2]));
	channel = rdma_create_event_channel();
	check(channel != NULL, "rdma_create_event_channel");
	if (rounds == 0) {
		serve(&address);
		return 1;
	}
	without = count > 4;
	times = calloc((size_t)rounds, sizeof(*times));
	one = calloc((size_t)rounds, sizeof(*one));
	check(times && one, "calloc");
	for (int round = 0; round < rounds; round++)
		connect_once(&address, times[round]);
	for (int step = 0; step < STEPS; step++) {
		if (without && step == CREATE_QP)
			continue;
		for (int round = 0; round < rounds; round++)
			one[round] = times[round][step];
		qsort(one, (size_t)rounds, sizeof(*one), less);
		printf("%s%s\t%.1f\t%.1f\n", names[step], without ? " without queue pairs" : "", one[0], one[rounds / 2]);
	}
	return 0;
}
