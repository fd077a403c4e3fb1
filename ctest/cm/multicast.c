/*
 * multicast.c - groups: joining, what the event says, leaving, and who may not.
 */
#include "cm.h"

static struct rdma_event_channel *channel;

static struct rdma_cm_id *bound(const char *address)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_UDP);

	if (rdma_bind_addr(id, at(address, 0)))
		die("bind: %s", errno_name(errno));
	return id;
}

static void show_group(struct rdma_cm_event *event)
{
	char text[64];

	inet_ntop(AF_INET6, &event->param.ud.ah_attr.grh.dgid, text, sizeof(text));
	note("    dgid %s sgid_index %s", text, event->param.ud.ah_attr.grh.sgid_index ? "other" : "0");
}

static void join(const char *from, const char *group, bool with_qp, int context)
{
	struct rdma_cm_id *id = bound(from);
	struct rdma_cm_event *event;

	note("--- %s joins %s, %s", from, group, with_qp ? "with a queue pair" : "without one");
	if (with_qp)
		make_qp(id);
	if (CALL_INT(rdma_join_multicast(id, at(group, 0), context ? &channel : NULL)) == 0) {
		event = await_event(channel, LONG_MS);
		if (event) {
			show_group(event);
			rdma_ack_cm_event(event);
		}
		CALL_INT(rdma_join_multicast(id, at(group, 0), NULL));
		NO_EVENT(channel);
		CALL_INT(rdma_leave_multicast(id, at(group, 0)));
		CALL_INT(rdma_leave_multicast(id, at(group, 0)));
		CALL_INT(rdma_leave_multicast(id, at(group, 0)));
	}
	show_id("id", id);
	id_close(id);
	NO_EVENT(channel);
}

static void extended(uint32_t mask, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = mask, .join_flags = flags, .addr = at("239.1.2.5", 0)};
	struct rdma_cm_id *id = bound(HERE);

	note("--- mask 0x%x flags %u", mask, flags);
	make_qp(id);
	if (CALL_INT(rdma_join_multicast_ex(id, &attr, &channel)) == 0) {
		EVENT(channel);
		CALL_INT(rdma_leave_multicast(id, at("239.1.2.5", 0)));
	}
	id_close(id);
}

int main(void)
{
	struct rdma_cm_id *id, *other;

	begin();
	channel = make_channel();
	join(HERE, "239.1.2.3", true, 1);
	join(HERE, "239.1.2.3", false, 0);
	join(HERE, "224.0.0.1", true, 0);
	join(HERE, "ff0e::1234", true, 0);
	join("fd77::1", "ff0e::1234", true, 0);
	join(HERE, "10.77.0.9", true, 0);
	join(HERE, "0.0.0.0", true, 0);
	for (uint32_t mask = 0; mask < 8; mask++)
		for (uint32_t flags = 0; flags < 3; flags++)
			if (mask == 3 || flags == 0)
				extended(mask, flags);

	note("--- not bound, or not to an address");
	id = make_id(channel, "id", RDMA_PS_UDP);
	CALL_INT(rdma_join_multicast(id, at("239.1.2.3", 0), NULL));
	CALL_INT(rdma_bind_addr(id, at("0.0.0.0", 0)));
	CALL_INT(rdma_join_multicast(id, at("239.1.2.3", 0), NULL));
	CALL_INT(rdma_destroy_id(id));

	note("--- a stream's identifier");
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_bind_addr(id, at(HERE, 0)));
	CALL_INT(rdma_join_multicast(id, at("239.1.2.3", 0), NULL));
	NO_EVENT(channel);
	CALL_INT(rdma_destroy_id(id));

	note("--- after the group's address was resolved");
	id = make_id(channel, "id", RDMA_PS_UDP);
	CALL_INT(rdma_resolve_addr(id, at(HERE, 0), at("239.1.2.3", 0), 1000));
	EVENT(channel);
	show_id("id", id);
	make_qp(id);
	CALL_INT(rdma_join_multicast(id, at("239.1.2.3", 0), id));
	EVENT(channel);
	note("--- a second group, a second member, destroyed without leaving");
	CALL_INT(rdma_join_multicast(id, at("239.1.2.4", 0), NULL));
	EVENT(channel);
	other = name_id(bound(HERE), "other");
	make_qp(other);
	CALL_INT(rdma_join_multicast(other, at("239.1.2.3", 0), NULL));
	EVENT(channel);
	id_close(id);
	id_close(other);
	NO_EVENT(channel);

	note("--- an event that nobody took");
	id = bound(HERE);
	make_qp(id);
	CALL_INT(rdma_join_multicast(id, at("239.1.2.3", 0), NULL));
	CHECK(readable(channel->fd, LONG_MS));
	id_close(id);
	NO_EVENT(channel);
	rdma_destroy_event_channel(channel);
	return end();
}
