/*
 * ids.c - channels and identifiers before anything is bound: what is made, what is refused, what can be asked.
 */
#include "cm.h"

static void devices(void)
{
	int count = -1;
	struct ibv_context **list = CALL_PTR(rdma_get_devices(&count));

	CHECK(count > 0);
	for (int i = 0; list && i < count; i++)
		if (!list[i] || !list[i]->device)
			note("device %d is none", i);
	CHECK(list && list[count] == NULL);
	rdma_free_devices(list);
	list = CALL_PTR(rdma_get_devices(NULL));
	rdma_free_devices(list);
}

static void spaces(struct rdma_event_channel *channel)
{
	static const int all[] = {0, 1, 2, RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, 0x107, 0x1ff, 0x10106, -1};
	struct rdma_cm_id *id;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		note("port space 0x%x", all[i]);
		id = NULL;
		if (CALL_INT(rdma_create_id(channel, &id, &id, all[i])) == 0) {
			CHECK(id->context == &id && id->channel == channel && id->event == NULL);
			show_id("id", id);
			CALL_INT(rdma_get_src_port(id));
			CALL_INT(rdma_get_dst_port(id));
			CALL_INT(rdma_destroy_id(id));
		}
	}
}

static void channel_descriptor(void)
{
	struct rdma_event_channel *channel = CALL_PTR(rdma_create_event_channel());
	struct rdma_cm_event *event;
	struct pollfd p = {.fd = channel->fd, .events = POLLIN | POLLOUT | POLLPRI};
	char byte;

	CALL_INT(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC ? 0 : 1);
	CALL_COUNT(fcntl(channel->fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
	CALL_COUNT(poll(&p, 1, 0));
	FIELD(p, revents);
	CALL_COUNT(read(channel->fd, &byte, 1));
	CALL_COUNT(lseek(channel->fd, 0, SEEK_CUR));
	CALL_COUNT(lseek(channel->fd, 7, SEEK_SET));
	CALL_INT(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	CALL_INT(rdma_get_cm_event(channel, &event));
	CALL_INT(rdma_get_cm_event(channel, NULL));
	CALL_INT(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) & ~O_NONBLOCK));
	CALL_VOID(rdma_destroy_event_channel(channel));
}

/* Steps that need another one before it, as far as librdmacm does not crash. */
static void too_early(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_ece ece = {0};
	int mask;

	CALL_INT(rdma_connect(id, NULL));
	CALL_INT(rdma_reject(id, NULL, 0));
	CALL_INT(rdma_disconnect(id));
	CALL_INT(rdma_notify(id, IBV_EVENT_COMM_EST));
	CALL_INT(rdma_establish(id));
	CALL_INT(rdma_init_qp_attr(id, &attr, &mask));
	CALL_INT(rdma_set_local_ece(id, &ece));
	CALL_INT(rdma_set_local_ece(id, NULL));
	CALL_INT(rdma_get_remote_ece(id, &ece));
	CALL_INT(rdma_get_remote_ece(id, NULL));
	CALL_INT(rdma_leave_multicast(id, at("239.1.2.3", 0)));
	CALL_INT(rdma_ack_cm_event(NULL));
	CALL_INT(rdma_bind_addr(id, NULL));
	CALL_INT(rdma_resolve_addr(id, NULL, NULL, 1000));
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 0));
	CALL_INT(rdma_destroy_id(id));
}

int main(void)
{
	struct rdma_event_channel *channel;

	begin();
	devices();
	channel = CALL_PTR(rdma_create_event_channel());
	spaces(channel);
	channel_descriptor();
	too_early(channel);
	for (int i = -1; i < 18; i++)
		if (i < 0 || i > 15)
			CALL_STRING(rdma_event_str(i));
		else
			note("event %d: %s", i, rdma_event_str(i));
	CALL_VOID(rdma_destroy_event_channel(channel));
	return end();
}
