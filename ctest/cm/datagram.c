/*
 * datagram.c - service resolution for datagrams: what is asked, accepted, refused, and what is not to be had.
 */
#include "cm.h"

static void begin_sides(struct sides *s)
{
	*s = (struct sides){make_channel(), make_channel(), 0, 0, 0};
	s->listener = make_id(s->server_channel, "listener", RDMA_PS_UDP);
	make_listener(s->listener, "0.0.0.0", 7471, 4);
	s->client = make_id(s->client_channel, "client", RDMA_PS_UDP);
	make_route(s->client, NULL, HERE, 7471);
}

static void accepted(int asked, int answered)
{
	static uint8_t pattern[256] = {1, 2, 3, [135] = 9, [136] = 10, [179] = 11, [180] = 12, [254] = 13};
	struct rdma_conn_param param = {.private_data = pattern, .private_data_len = asked};
	struct sides s;

	note("--- %d bytes asked, %d answered", asked, answered);
	begin_sides(&s);
	make_qp(s.client);
	if (CALL_INT(rdma_connect(s.client, &param))) {
		param.private_data_len = 0;
		CALL_INT(rdma_connect(s.client, &param));
	}
	s.server = name_id(EVENT(s.server_channel), "server");
	show_id("server", s.server);
	make_qp(s.server);
	param.private_data_len = answered;
	param.qp_num = s.server->qp->qp_num;
	if (CALL_INT(rdma_accept(s.server, &param)) == 0)
		EVENT(s.client_channel);
	NO_EVENT(s.server_channel);
	show_id("server", s.server);
	show_id("client", s.client);
	CALL_INT(rdma_accept(s.server, &param));
	CALL_INT(rdma_disconnect(s.client));
	CALL_INT(rdma_disconnect(s.server));
	CALL_INT(rdma_notify(s.server, IBV_EVENT_COMM_EST));
	NO_EVENT(s.client_channel);
	NO_EVENT(s.server_channel);
	sides_close(&s);
}

static void refused(void)
{
	struct rdma_conn_param param = {0};
	struct sides s;

	note("--- refused with words");
	begin_sides(&s);
	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	CALL_INT(rdma_reject(s.server, "no", 2));
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- the server's identifier is destroyed");
	begin_sides(&s);
	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	CALL_INT(rdma_destroy_id(s.server));
	s.server = NULL;
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- the client's identifier is destroyed");
	begin_sides(&s);
	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	CALL_INT(rdma_destroy_id(s.client));
	s.client = NULL;
	NO_EVENT(s.server_channel);
	CALL_INT(rdma_accept(s.server, &param));
	NO_EVENT(s.server_channel);
	sides_close(&s);

	note("--- nobody listens");
	begin_sides(&s);
	CALL_INT(rdma_destroy_id(s.listener));
	s.listener = NULL;
	CALL_INT(rdma_connect(s.client, &param));
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- a stream's listener does not answer for datagrams");
	begin_sides(&s);
	CALL_INT(rdma_destroy_id(s.listener));
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	make_listener(s.listener, "0.0.0.0", 7471, 4);
	CALL_INT(rdma_connect(s.client, &param));
	EVENT(s.client_channel);
	NO_EVENT(s.server_channel);
	sides_close(&s);
}

/* The queue pair works with what the event gives: its address, number and key. */
static void attributes(void)
{
	struct rdma_conn_param param = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp_init_attr init;
	struct sides s;
	int mask = 0;

	note("--- attributes of the queue pair");
	begin_sides(&s);
	CALL_INT(rdma_init_qp_attr(s.client, &attr, &mask));
	FIELD_X(attr, qkey);
	FIELD(attr, pkey_index);
	FIELD(attr, port_num);
	note("    mask 0x%x", mask);
	make_qp(s.client);
	CALL_INT(ibv_query_qp(s.client->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init));
	FIELD(attr, qp_state);
	FIELD_X(attr, qkey);
	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	make_qp(s.server);
	CALL_INT(rdma_accept(s.server, &param));
	EVENT(s.client_channel);
	sides_close(&s);
}

int main(void)
{
	begin();
	accepted(0, 0);
	accepted(3, 3);
	accepted(180, 136);
	accepted(181, 137);
	accepted(255, 255);
	refused();
	attributes();
	return end();
}
