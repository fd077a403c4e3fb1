/*
 * A server and a client of rdma_cm, of which the server has a defect that no ordinary run shows, or has not.
 *
 *   connections server ADDRESS PORT [repaired]
 *   connections client ADDRESS PORT
 *
 * The client connects, sends a message, waits for the answer and disconnects. The server takes it that a message comes on
 * an established connection; the repaired one knows that the message may come before the client's last word (RTU).
 * The server says "listening" once a client may come.
 *
 * Exit status 0: done; 1: it failed, and says so.
 */
#include <rdma/rdma_cma.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 64 };

static struct rdma_event_channel *channel;
static char buffer[SIZE];
static struct ibv_pd *pd;
static struct ibv_mr *region;
static struct ibv_cq *cq;

static void fail(const char *what)
{
	printf("%s failed\n", what);
	exit(1);
}

/* The next event, acknowledged, and its id; -1 where there is none and the channel does not block. */
static int event(struct rdma_cm_id **id, int *status)
{
	struct rdma_cm_event *event;
	int kind;

	if (rdma_get_cm_event(channel, &event))
		return -1;
	kind = event->event;
	*id = event->id;
	*status = event->status;
	rdma_ack_cm_event(event);
	return kind;
}

static void expect(int wanted)
{
	struct rdma_cm_id *id;
	int status, kind = event(&id, &status);

	if (kind == wanted)
		return;
	printf("%s, status %d\n", rdma_event_str(kind), status);
	exit(1);
}

static void make_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {4, 4, 1, 1, 0}};
	struct ibv_sge piece;
	struct ibv_recv_wr receive = {.sg_list = &piece, .num_sge = 1}, *bad;

	pd = ibv_alloc_pd(id->verbs);
	region = pd ? ibv_reg_mr(pd, buffer, SIZE, IBV_ACCESS_LOCAL_WRITE) : NULL;
	cq = region ? ibv_create_cq(id->verbs, 8, NULL, NULL, 0) : NULL;
	if (!cq)
		fail("the objects");
	init.send_cq = init.recv_cq = cq;
	if (rdma_create_qp(id, pd, &init))
		fail("rdma_create_qp");
	piece = (struct ibv_sge){(uintptr_t)buffer, SIZE, region->lkey};
	if (ibv_post_recv(id->qp, &receive, &bad))
		fail("ibv_post_recv");
}

static void send_message(struct rdma_cm_id *id)
{
	struct ibv_sge piece = {(uintptr_t)buffer, SIZE, region->lkey};
	struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	if (ibv_post_send(id->qp, &wr, &bad))
		fail("ibv_post_send");
}

/* Whether a completion is there; a failed one ends the program. */
static bool completed(enum ibv_wc_opcode *opcode)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) < 1)
		return false;
	if (wc.status != IBV_WC_SUCCESS) {
		printf("%s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	*opcode = wc.opcode;
	return true;
}

static void set_blocking(bool blocks)
{
	if (fcntl(channel->fd, F_SETFL, blocks ? 0 : O_NONBLOCK))
		fail("fcntl");
}

/* Waits for a message, unless the connection ends before. */
static void wait_for_message(void)
{
	enum ibv_wc_opcode opcode;
	struct rdma_cm_id *id;
	int status, kind;

	set_blocking(false);
	while (!completed(&opcode) || opcode != IBV_WC_RECV) {
		kind = event(&id, &status);
		if (kind >= 0) {
			printf("%s, status %d\n", rdma_event_str(kind), status);
			exit(1);
		}
	}
	set_blocking(true);
}

static int client(struct rdma_cm_id *id, struct sockaddr *address)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	if (rdma_resolve_addr(id, NULL, address, 2000))
		fail("rdma_resolve_addr");
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		fail("rdma_resolve_route");
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_queue_pair(id);
	if (rdma_connect(id, &param))
		fail("rdma_connect");
	expect(RDMA_CM_EVENT_ESTABLISHED);
	send_message(id);
	wait_for_message();
	if (rdma_disconnect(id))
		fail("rdma_disconnect");
	expect(RDMA_CM_EVENT_DISCONNECTED);
	printf("answered\n");
	return 0;
}

static int server(struct rdma_cm_id *listener, struct sockaddr *address, bool is_repaired)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};
	bool is_established = false, is_answered = false;
	enum ibv_wc_opcode opcode;
	struct rdma_cm_id *id;
	int status;

	if (rdma_bind_addr(listener, address) || rdma_listen(listener, 1))
		fail("rdma_listen");
	printf("listening\n");
	fflush(stdout);
	if (event(&id, &status) != RDMA_CM_EVENT_CONNECT_REQUEST)
		fail("the request");
	make_queue_pair(id);
	if (rdma_accept(id, &param))
		fail("rdma_accept");
	/* From here on it looks at both. */
	set_blocking(false);
	for (;;) {
		bool has_message = !is_answered && completed(&opcode) && opcode == IBV_WC_RECV;
		struct rdma_cm_id *of;
		int kind = event(&of, &status);

		if (kind == RDMA_CM_EVENT_ESTABLISHED)
			is_established = true;
		else if (kind == RDMA_CM_EVENT_DISCONNECTED)
			break;
		else if (kind >= 0) {
			printf("%s, status %d\n", rdma_event_str(kind), status);
			return 1;
		}
		if (!has_message)
			continue;
		if (!is_established && !is_repaired) {
			printf("a message of no connection\n");
			return 1;
		}
		send_message(id);
		is_answered = true;
	}
	if (rdma_disconnect(id))
		fail("rdma_disconnect");
	printf("%s\n", is_answered ? "has answered" : "nothing came");
	return !is_answered;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
	struct rdma_cm_id *id;
	bool serves = argc > 3 && !strcmp(argv[1], "server");

	if (argc < 4)
		fail("the call");
	hints.ai_flags = serves ? RAI_PASSIVE : 0;
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		fail("the channel");
	if (rdma_getaddrinfo(argv[2], argv[3], &hints, &found))
		fail("rdma_getaddrinfo");
	if (serves)
		return server(id, found->ai_src_addr, argc > 4);
	return client(id, found->ai_dst_addr);
}
