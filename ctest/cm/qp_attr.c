/*
 * qp_attr.c - the attributes that a queue pair gets in each phase of a connection.
 */
#include "cm.h"

static void all_of(const char *what, struct rdma_cm_id *id, struct rdma_cm_id *peer)
{
	for (int state = 0; state < 9; state++) {
		struct ibv_qp_attr a;
		int mask = 0x5a5a, result, e;

		FILL(a);
		a.qp_state = state;
		errno = 0;
		result = rdma_init_qp_attr(id, &a, &mask);
		e = errno;
		transcript_calls++;
		note("%s state %d = %d, errno %s", what, state, result, errno_name(e));
		if (result)
			continue;
		note("    mask 0x%x state %d cur %d mtu %d mig %d qkey 0x%x access 0x%x", mask, a.qp_state, a.cur_qp_state, a.path_mtu,
		     a.path_mig_state, a.qkey, a.qp_access_flags);
		note("    cap %u %u %u %u %u pkey_index %d alt %d sqd %d %d rd_atomic %d dest %d rnr_timer %d port %d timeout %d retry %d "
		     "rnr %d alt port %d timeout %d", a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge, a.cap.max_recv_sge,
		     a.cap.max_inline_data, a.pkey_index, a.alt_pkey_index, a.en_sqd_async_notify, a.sq_draining, a.max_rd_atomic,
		     a.max_dest_rd_atomic, a.min_rnr_timer, a.port_num, a.timeout, a.retry_cnt, a.rnr_retry, a.alt_port_num,
		     a.alt_timeout);
		if (mask & IBV_QP_AV) {
			char text[64];

			inet_ntop(AF_INET6, &a.ah_attr.grh.dgid, text, sizeof(text));
			note("    ah: dgid %s flow %d hop_limit %d tclass %d dlid %d sl %d path_bits %d rate %d global %d port %d", text,
			     !!a.ah_attr.grh.flow_label, a.ah_attr.grh.hop_limit, a.ah_attr.grh.traffic_class, a.ah_attr.dlid, a.ah_attr.sl,
			     a.ah_attr.src_path_bits, a.ah_attr.static_rate, a.ah_attr.is_global, a.ah_attr.port_num);
		}
		if (mask & IBV_QP_DEST_QPN)
			note("    destination is the peer's: %d, starting number nonzero", peer && peer->qp && a.dest_qp_num == peer->qp->qp_num);
	}
}

/* The number at which one side starts to send is the one that the other side expects. */
static void starting_numbers(struct sides *s)
{
	struct ibv_qp_attr client = {.qp_state = IBV_QPS_RTR}, server = {.qp_state = IBV_QPS_RTS};
	int mask;

	CALL_INT(rdma_init_qp_attr(s->client, &client, &mask));
	CALL_INT(rdma_init_qp_attr(s->server, &server, &mask));
	CHECK(client.rq_psn == server.sq_psn);
	CHECK(client.rq_psn < 1 << 24);
	client.qp_state = IBV_QPS_RTS;
	server.qp_state = IBV_QPS_RTR;
	CALL_INT(rdma_init_qp_attr(s->client, &client, &mask));
	CALL_INT(rdma_init_qp_attr(s->server, &server, &mask));
	CHECK(client.sq_psn == server.rq_psn);
}

static void with(int responder, int initiator)
{
	struct rdma_conn_param ask = {.responder_resources = responder, .initiator_depth = initiator, .retry_count = 6,
				      .rnr_retry_count = 5};
	struct rdma_conn_param answer = {.responder_resources = initiator, .initiator_depth = responder, .rnr_retry_count = 3};
	struct sides s = {make_channel(), make_channel(), 0, 0, 0};

	note("--- responder resources %d, initiator depth %d", responder, initiator);
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	make_listener(s.listener, HERE, 7471, 1);
	s.client = make_id(s.client_channel, "client", RDMA_PS_TCP);
	CALL_INT(rdma_resolve_addr(s.client, NULL, at(HERE, 7471), 1000));
	EVENT(s.client_channel);
	all_of("listener", s.listener, NULL);
	all_of("address resolved", s.client, NULL);
	CALL_INT(rdma_resolve_route(s.client, 1000));
	EVENT(s.client_channel);
	all_of("route resolved", s.client, NULL);
	make_qp(s.client);
	CALL_INT(rdma_connect(s.client, &ask));
	s.server = name_id(EVENT(s.server_channel), "server");
	all_of("connecting", s.client, NULL);
	all_of("requested", s.server, s.client);
	make_qp(s.server);
	CALL_INT(rdma_accept(s.server, &answer));
	all_of("accepted", s.server, s.client);
	EVENT(s.client_channel);
	EVENT(s.server_channel);
	all_of("client connected", s.client, s.server);
	all_of("server connected", s.server, s.client);
	starting_numbers(&s);
	CALL_INT(rdma_disconnect(s.client));
	EVENT(s.server_channel);
	CALL_INT(rdma_disconnect(s.server));
	EVENT(s.client_channel);
	all_of("client disconnected", s.client, s.server);
	all_of("server disconnected", s.server, s.client);
	sides_close(&s);
}

int main(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	begin();
	channel = make_channel();
	id = make_id(channel, "id", RDMA_PS_TCP);
	all_of("fresh", id, NULL);
	CALL_INT(rdma_bind_addr(id, at("0.0.0.0", 0)));
	all_of("bound to every address", id, NULL);
	id_close(id);
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_bind_addr(id, at(HERE, 0)));
	all_of("bound", id, NULL);
	id_close(id);
	id = make_id(channel, "id", RDMA_PS_UDP);
	CALL_INT(rdma_bind_addr(id, at(HERE, 0)));
	all_of("for datagrams", id, NULL);
	id_close(id);
	rdma_destroy_event_channel(channel);
	with(0, 0);
	with(2, 3);
	return end();
}
