/*
 * resolve.c - addresses and routes: what resolving answers, what the identifier then shows, and when it is
 * refused.
 */
#include "resolving.h"

static void addresses(void)
{
	static const struct {
		const char *from, *to;
		int port;
	} all[] = {
		{NULL, HERE, 0}, {HERE, HERE, 0}, {HERE, HERE, 7480}, {THERE, HERE, 0}, {HERE, THERE, 0}, {NULL, THERE, 0},
		{NULL, "fd77::1", 0}, {"fd77::2", "fd77::1", 0}, {"fd77::1", "fd77::1", 0},
		{NULL, "fe80::ff:fe00:1%v0", 0}, {"fe80::ff:fe00:1%v0", "fe80::ff:fe00:1%v0", 0},
		{"0.0.0.0", HERE, 0}, {"0.0.0.0", HERE, 7480}, {"::", "fd77::1", 0},
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
