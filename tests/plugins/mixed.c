/*
 * mixed.c - one process moves data through a soft-RoCE and two soft-iWARP devices at once, whoever serves them.
 *
 *   mixed RXE LISTENER CLIENT
 *
 * RXE is the soft-RoCE device, a queue pair of which is connected to itself; LISTENER and CLIENT are addresses of two
 * soft-iWARP devices, which librdmacm connects. Every round posts a send, a write and a read on both kinds before it polls
 * any of them, and the completions are taken in turns.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "../../ctest/setup.h"

enum { ROUNDS = 50, BLOCK = 3000, DEPTH = 16 };
enum { SEND = 1, WRITE, READ, RECV };

/* One direction of a connection: what is posted on `qp` reaches `peer`'s memory. */
struct flow {
	const char *name;
	struct ibv_qp *qp, *peer;
	struct ibv_cq *cq, *peer_cq;
	struct ibv_mr *mr, *peer_mr;
	unsigned char *memory, *peer_memory; /* four blocks: sent, written from, read into; received, written, read from */
	int completed, wanted;
};

static void expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted, struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("no event: %s", errno_name(errno));
	if (event->event != wanted)
		die("%s (%d) instead of %s", rdma_event_str(event->event), event->status, rdma_event_str(wanted));
	if (id)
		*id = event->id;
	rdma_ack_cm_event(event);
}

static struct sockaddr_in address(const char *text, int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		die("no address: %s", text);
	return address;
}

/* Protection domain, memory, completion queue and queue pair of one side. */
static void equip(struct rdma_cm_id *id, struct ibv_pd **pd, struct ibv_mr **mr, unsigned char **memory)
{
	struct ibv_qp_init_attr init = {.cap = {DEPTH, DEPTH, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	*pd = ibv_alloc_pd(id->verbs);
	*memory = calloc(4, BLOCK);
	if (!*pd || !*memory)
		die("protection domain");
	*mr = ibv_reg_mr(*pd, *memory, 4 * BLOCK,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	init.send_cq = init.recv_cq = ibv_create_cq(id->verbs, 4 * DEPTH, NULL, NULL, 0);
	if (!*mr || !init.send_cq || rdma_create_qp(id, *pd, &init))
		die("soft-iWARP objects: %s", errno_name(errno));
}

struct connection {
	struct rdma_event_channel *channel[2];
	struct rdma_cm_id *listener, *accepted, *client;
	struct ibv_pd *pd[2];
	struct ibv_cq *cq[2];
};

/* A connection between two addresses of this machine, both ends of which this process holds. */
static void connect_by_address(struct connection *c, struct flow *flow, const char *listener, const char *client)
{
	struct rdma_conn_param parameters = {.responder_resources = 4, .initiator_depth = 4};
	struct sockaddr_in to = address(listener, 7471), from = address(client, 0);

	for (int i = 0; i < 2; i++)
		if (!(c->channel[i] = rdma_create_event_channel()))
			die("event channel: %s", errno_name(errno));
	if (rdma_create_id(c->channel[0], &c->listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(c->listener, (struct sockaddr *)&to) || rdma_listen(c->listener, 1) ||
	    rdma_create_id(c->channel[1], &c->client, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(c->client, (struct sockaddr *)&from, (struct sockaddr *)&to, 5000))
		die("listening: %s", errno_name(errno));
	expect_event(c->channel[1], RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (rdma_resolve_route(c->client, 5000))
		die("route: %s", errno_name(errno));
	expect_event(c->channel[1], RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	equip(c->client, &c->pd[0], &flow->mr, &flow->memory);
	if (rdma_connect(c->client, &parameters))
		die("connecting: %s", errno_name(errno));
	expect_event(c->channel[0], RDMA_CM_EVENT_CONNECT_REQUEST, &c->accepted);
	equip(c->accepted, &c->pd[1], &flow->peer_mr, &flow->peer_memory);
	if (rdma_accept(c->accepted, &parameters))
		die("accepting: %s", errno_name(errno));
	expect_event(c->channel[1], RDMA_CM_EVENT_ESTABLISHED, NULL);
	expect_event(c->channel[0], RDMA_CM_EVENT_ESTABLISHED, NULL);
	flow->qp = c->client->qp;
	flow->peer = c->accepted->qp;
	c->cq[0] = flow->cq = c->client->qp->send_cq;
	c->cq[1] = flow->peer_cq = c->accepted->qp->send_cq;
}

static void disconnect(struct connection *c, struct flow *flow)
{
	if (CALL_INT(rdma_disconnect(c->client)))
		die("disconnecting: %s", errno_name(errno));
	expect_event(c->channel[1], RDMA_CM_EVENT_DISCONNECTED, NULL);
	expect_event(c->channel[0], RDMA_CM_EVENT_DISCONNECTED, NULL);
	rdma_destroy_qp(c->client);
	rdma_destroy_qp(c->accepted);
	CALL_INT(ibv_dereg_mr(flow->mr));
	CALL_INT(ibv_dereg_mr(flow->peer_mr));
	for (int i = 0; i < 2; i++) {
		CALL_INT(ibv_destroy_cq(c->cq[i]));
		CALL_INT(ibv_dealloc_pd(c->pd[i]));
	}
	CALL_INT(rdma_destroy_id(c->client));
	CALL_INT(rdma_destroy_id(c->accepted));
	CALL_INT(rdma_destroy_id(c->listener));
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(c->channel[i]);
}

static void post_round(struct flow *flow, int round)
{
	struct ibv_sge sge[4];
	struct ibv_recv_wr recv = {.wr_id = RECV, .sg_list = &sge[3], .num_sge = 1}, *bad_recv;
	struct ibv_send_wr wr[3], *bad;
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	pattern(flow->memory, BLOCK, round);
	pattern(flow->memory + BLOCK, BLOCK, round + 1000);
	pattern(flow->peer_memory + 2 * BLOCK, BLOCK, round + 2000);
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < 3; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)flow->memory + i * BLOCK, BLOCK, flow->mr->lkey};
		wr[i].wr_id = SEND + i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].opcode = opcodes[i];
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].wr.rdma.remote_addr = (uintptr_t)flow->peer_memory + i * BLOCK;
		wr[i].wr.rdma.rkey = flow->peer_mr->rkey;
	}
	/* Read into the last block, which the peer does not write. */
	sge[2].addr = (uintptr_t)flow->memory + 3 * BLOCK;
	sge[3] = (struct ibv_sge){(uintptr_t)flow->peer_memory, BLOCK, flow->peer_mr->lkey};
	if (ibv_post_recv(flow->peer, &recv, &bad_recv) || ibv_post_send(flow->qp, wr, &bad))
		die("%s: posting", flow->name);
	flow->wanted += 4;
}

static void poll_one(struct flow *flow, struct ibv_cq *cq)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[SEND] = IBV_WC_SEND, [WRITE] = IBV_WC_RDMA_WRITE, [READ] = IBV_WC_RDMA_READ, [RECV] = IBV_WC_RECV};
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);

	if (n < 0)
		die("%s: polling", flow->name);
	if (!n)
		return;
	if (wc.status != IBV_WC_SUCCESS || wc.wr_id < SEND || wc.wr_id > RECV || wc.opcode != opcodes[wc.wr_id] ||
	    wc.qp_num != (wc.wr_id == RECV ? flow->peer : flow->qp)->qp_num)
		die("%s: completion %d with status %s", flow->name, (int)wc.wr_id, ibv_wc_status_str(wc.status));
	flow->completed++;
}

static void check_round(const struct flow *flow)
{
	if (memcmp(flow->memory, flow->peer_memory, BLOCK) ||
	    memcmp(flow->memory + BLOCK, flow->peer_memory + BLOCK, BLOCK) ||
	    memcmp(flow->memory + 3 * BLOCK, flow->peer_memory + 2 * BLOCK, BLOCK))
		die("%s: data differs", flow->name);
}

int main(int argc, char **argv)
{
	struct flow flows[2] = {{.name = "soft-RoCE"}, {.name = "soft-iWARP"}};
	struct connection connection = {0};
	struct endpoint e = {.cap = {DEPTH, DEPTH, 1, 1, 0}};

	if (argc != 4)
		die("usage: mixed RXE LISTENER CLIENT");
	alarm(60);
	endpoint_open(&e, argv[1]);
	ready(&e, &e.gid, e.qp->qp_num);
	/* Two halves of its own memory are the two ends. */
	flows[0].qp = flows[0].peer = e.qp;
	flows[0].cq = e.send_cq;
	flows[0].peer_cq = e.recv_cq;
	flows[0].mr = flows[0].peer_mr = e.mr;
	flows[0].memory = e.buffer;
	flows[0].peer_memory = e.buffer + 4 * BLOCK;
	connect_by_address(&connection, &flows[1], argv[2], argv[3]);
	note("%s is served by %s", flows[0].name, file_name(served_by(e.context)));
	note("%s is served by %s", flows[1].name, file_name(served_by(connection.client->verbs)));
	note("%s is served by %s", flows[1].name, file_name(served_by(connection.accepted->verbs)));

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t deadline = now_ms() + 10000;

		for (int i = 0; i < 2; i++)
			post_round(&flows[i], round);
		while (flows[0].completed < flows[0].wanted || flows[1].completed < flows[1].wanted) {
			for (int i = 0; i < 2; i++) {
				poll_one(&flows[i], flows[i].cq);
				poll_one(&flows[i], flows[i].peer_cq);
			}
			if (now_ms() > deadline)
				die("round %d: %d and %d completions", round, flows[0].completed, flows[1].completed);
		}
		for (int i = 0; i < 2; i++)
			check_round(&flows[i]);
	}
	for (int i = 0; i < 2; i++)
		note("%s: %d completions, data as sent", flows[i].name, flows[i].completed);
	disconnect(&connection, &flows[1]);
	endpoint_close(&e);
	note("end (%lu calls)", transcript_calls);
	return 0;
}
