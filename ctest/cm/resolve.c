/*
 * resolve.c - addresses and routes: what resolving answers, what the identifier then shows, and when it is refused.
 */
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

static void addresses(void)
{
	static const struct {
		const char *from, *to;
		int port;
	} all[] = {
		{NULL, HERE, 0}, {HERE, HERE, 0}, {HERE, HERE, 7480}, {THERE, HERE, 0}, {HERE, THERE, 0}, {NULL, THERE, 0},
		{NULL, "fd77::1", 0}, {"fd77::2", "fd77::1", 0}, {"fd77::1", "fd77::1", 0},
		{NULL, "fe80::ff:fe00:1%v0", 0}, {"fe80::ff:fe00:1%v0", "fe80::ff:fe00:1%v0", 0}, {NULL, "fe80::ff:fe00:1", 0},
		{NULL, "127.0.0.1", 0}, {"127.0.0.1", "127.0.0.1", 0}, {HERE, "127.0.0.1", 0}, {NULL, "::1", 0},
		{NULL, "0.0.0.0", 0}, {NULL, "::", 0}, {"0.0.0.0", HERE, 0}, {"0.0.0.0", HERE, 7480}, {"::", "fd77::1", 0},
		{NULL, "10.77.0.9", 0}, {NULL, "192.0.2.1", 0}, {NULL, "2001:db8::1", 0}, {"10.77.0.9", HERE, 0},
		{"fd77::1", HERE, 0}, {HERE, "fd77::1", 0}, {NULL, "239.1.2.3", 0}, {HERE, "239.1.2.3", 0}, {HERE, HERE, 1},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		one(all[i].from, all[i].port, all[i].to, RDMA_PS_TCP);
	one(NULL, 0, HERE, RDMA_PS_UDP);
	one(HERE, 0, "239.1.2.3", RDMA_PS_UDP);
	one(HERE, 0, HERE, RDMA_PS_IB);
}

/* Bound first, then resolved; and the same port used for several peers. */
static void bound(void)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP), *other;

	note("bound to an address first");
	CALL_INT(rdma_bind_addr(id, at(HERE, 7480)));
	CALL_INT(rdma_resolve_addr(id, NULL, at(HERE, 7471), 500));
	EVENT(channel);
	show_id("id", id);
	CALL_INT(rdma_resolve_addr(id, NULL, at(HERE, 7471), 500));
	NO_EVENT(channel);
	note("another one from the same port");
	other = make_id(channel, "other", RDMA_PS_TCP);
	CALL_INT(rdma_resolve_addr(other, at(HERE, 7480), at(HERE, 7473), 500));
	NO_EVENT(channel);
	CALL_INT(rdma_destroy_id(other));
	CALL_INT(rdma_resolve_route(id, 0));
	NO_EVENT(channel);
	CALL_INT(rdma_resolve_route(id, -1));
	NO_EVENT(channel);
	CALL_INT(rdma_destroy_id(id));

	note("bound to every address first");
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_bind_addr(id, at("0.0.0.0", 0)));
	CALL_INT(rdma_resolve_addr(id, NULL, at(HERE, 7471), 500));
	EVENT(channel);
	show_id("id", id);
	CALL_INT(rdma_destroy_id(id));

	note("bound, then resolved from another address");
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_bind_addr(id, at(THERE, 0)));
	CALL_INT(rdma_resolve_addr(id, at(HERE, 0), at(HERE, 7471), 500));
	NO_EVENT(channel);
	show_id("id", id);
	CALL_INT(rdma_destroy_id(id));

	note("destroyed while it resolves");
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_resolve_addr(id, NULL, at("10.77.0.9", 7471), 5000));
	CALL_INT(rdma_destroy_id(id));
	NO_EVENT(channel);

	note("after an error the identifier can be used again");
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_resolve_addr(id, NULL, at("10.77.0.9", 7471), 50));
	EVENT(channel);
	CALL_INT(rdma_resolve_addr(id, NULL, at(HERE, 7471), 500));
	EVENT(channel);
	show_id("id", id);
	CALL_INT(rdma_destroy_id(id));
}

int main(void)
{
	begin();
	channel = make_channel();
	addresses();
	bound();
	rdma_destroy_event_channel(channel);
	return end();
}
