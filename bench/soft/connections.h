/*
 * connections.h - a side with many queue pairs and one completion queue.
 */
#ifndef SOFT_CONNECTIONS_H
#define SOFT_CONNECTIONS_H

#include "../../tests/soft/peer.h"

#define MOST 16384

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct endpoint pair[MOST];

static inline void open_side(int completions)
{
	context = open_device("rxe0");
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = pd && channel ? ibv_create_cq(context, completions, NULL, channel, 0) : NULL;
	if (!cq)
		fail("opening");
}

static inline void create(int count, uint32_t send, uint32_t receive)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {send, receive, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	for (int i = 0; i < count; i++) {
		pair[i].type = IBV_QPT_RC;
		pair[i].qp = ibv_create_qp(pd, &init);
		if (!pair[i].qp)
			fail("queue pair %d: %s", i, errno_name(errno));
	}
}

/* Connects all pairs with those of the other side, or with themselves. */
static inline void connect_all(int socket, int count)
{
	static uint32_t own[MOST], others[MOST];
	union ibv_gid gid;

	if (ibv_query_gid(context, PORT, GID_INDEX, &gid))
		fail("gid");
	for (int i = 0; i < count; i++)
		others[i] = own[i] = pair[i].qp->qp_num;
	if (socket >= 0 && !swap(socket, own, others, (size_t)count * sizeof(*own)))
		fail("the peer is gone");
	for (int i = 0; i < count; i++)
		ready(&pair[i], &gid, others[i]);
	if (socket >= 0 && !meet(socket))
		fail("the peer is gone");
}

#endif
