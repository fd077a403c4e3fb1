/*
 * stale.c - a queue pair whose last connection has not left the time-wait state cannot be connected again.
 */
#include "cm.h"

static void connect_as(struct sides *s, uint32_t number, bool end)
{
	struct rdma_conn_param param = {.qp_num = number, .retry_count = 7};

	s->client = make_id(s->client_channel, "client", RDMA_PS_TCP);
	make_route(s->client, NULL, HERE, 7471);
	CALL_INT(rdma_connect(s->client, &param));
	if (!end) {
		EVENT(s->client_channel);
		NO_EVENT(s->server_channel);
		CALL_INT(rdma_destroy_id(s->client));
		return;
	}
	s->server = name_id(EVENT(s->server_channel), "server");
	param.qp_num = unused_qp();
	CALL_INT(rdma_accept(s->server, &param));
	EVENT(s->client_channel);
	CALL_INT(rdma_establish(s->client));
	EVENT(s->server_channel);
	CALL_INT(rdma_disconnect(s->client));
	EVENT(s->server_channel);
	CALL_INT(rdma_disconnect(s->server));
	EVENT(s->client_channel);
}

int main(void)
{
	struct sides s = {make_channel(), make_channel(), 0, 0, 0};
	struct rdma_cm_id *first;
	uint32_t number;

	begin();
	number = unused_qp();
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	make_listener(s.listener, HERE, 7471, 4);
	connect_as(&s, number, true);
	first = name_id(s.client, "first");
	note("--- the same number at once");
	connect_as(&s, number, false);
	note("--- and when the time is over");
	EVENT(s.client_channel);
	EVENT(s.server_channel);
	CALL_INT(rdma_destroy_id(first));
	CALL_INT(rdma_destroy_id(s.server));
	connect_as(&s, number, true);
	sides_close(&s);
	return end();
}
