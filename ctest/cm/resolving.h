/*
 * resolving.h - resolves an address and a route, and prints all that comes of it.
 */
#ifndef CTEST_CM_RESOLVING_H
#define CTEST_CM_RESOLVING_H

#include "cm.h"

static struct rdma_event_channel *channel;

static void show_path(const struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *p = id->route.path_rec;

	if (!id->route.num_paths)
		return;
	note("    path: dlid %d slid %d raw %d reversible %d numb_path %d mtu_selector %d rate_selector %d rate %d "
	     "life_selector %d life %d preference %d pkey 0x%x sl %d hop_limit %d tclass %d flow %d",
	     ntohs(p->dlid), ntohs(p->slid), p->raw_traffic, p->reversible, p->numb_path, p->mtu_selector, p->rate_selector, p->rate,
	     p->packet_life_time_selector, p->packet_life_time, p->preference, ntohs(p->pkey), p->sl, p->hop_limit,
	     p->traffic_class, !!p->flow_label);
	note("    path mtu %d", p->mtu);
	CHECK(!memcmp(&p->sgid, &id->route.addr.addr.ibaddr.sgid, 16));
	CHECK(!memcmp(&p->dgid, &id->route.addr.addr.ibaddr.dgid, 16));
}

static void show_gids(const struct rdma_cm_id *id)
{
	char text[2][64];

	inet_ntop(AF_INET6, &id->route.addr.addr.ibaddr.sgid, text[0], sizeof(text[0]));
	inet_ntop(AF_INET6, &id->route.addr.addr.ibaddr.dgid, text[1], sizeof(text[1]));
	note("    sgid %s dgid %s pkey 0x%x", text[0], text[1], ntohs(id->route.addr.addr.ibaddr.pkey));
}

static void one(const char *from, int from_port, const char *to, int space)
{
	struct rdma_cm_id *id = make_id(channel, "id", space);

	note("from %s port %d to %s space 0x%x", from ? from : "any", from_port, to, space);
	if (CALL_INT(rdma_resolve_addr(id, from ? at(from, from_port) : NULL, at(to, 7471), 500)) == 0) {
		EVENT(channel);
		show_id("id", id);
		show_gids(id);
		if (id->verbs && CALL_INT(rdma_resolve_route(id, 500)) == 0) {
			EVENT(channel);
			show_id("id", id);
			show_path(id);
			CALL_INT(rdma_resolve_route(id, 500));
			CALL_INT(rdma_resolve_addr(id, NULL, at(to, 7471), 500));
			CALL_INT(rdma_bind_addr(id, at(HERE, 0)));
			CALL_INT(rdma_listen(id, 0));
		}
	} else {
		show_id("id", id);
	}
	CALL_INT(rdma_destroy_id(id));
}

#endif
