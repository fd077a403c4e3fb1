/*
 * options.c - rdma_set_option: which options there are, of which lengths, in which states, and what they
 * change.
 */
#include "cm.h"

static struct rdma_event_channel *channel;

static void all_of(const char *what, struct rdma_cm_id *id)
{
	static const int lengths[] = {0, 1, 2, 4, 8, 72, 144};
	static const int levels[] = {RDMA_OPTION_ID, RDMA_OPTION_IB, 2, -1};
	uint8_t value[256] = {1};

	note("--- %s", what);
	for (int level = 0; level < 4; level++)
		for (int name = -1; name < 6; name++)
			for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
				int result, e;

				errno = 0;
				result = rdma_set_option(id, levels[level], name, value, lengths[i]);
				e = errno;
				transcript_calls++;
				note("level %d option %d length %d = %d, errno %s", levels[level], name, lengths[i], result, errno_name(e));
			}
	NO_EVENT(channel);
}

/* The type of service goes into the path, the acknowledgement timeout too. */
static void in_path(int tos, int timeout)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP);
	struct ibv_sa_path_rec *path;
	uint8_t value = tos;

	note("--- type of service %d, acknowledgement timeout %d", tos, timeout);
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, 1));
	value = timeout;
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1));
	make_route(id, NULL, HERE, 7471);
	path = id->route.path_rec;
	note("    tclass %d life %d selector %d sl %d", path->traffic_class, path->packet_life_time, path->packet_life_time_selector,
	     path->sl);
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &value, 1));
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1));
	CALL_INT(rdma_destroy_id(id));
}

/* The listener's setting is not that of its connections; a side's own one comes before what the request said. */
static void timeout_of_qp(int timeout, int on_server)
{
	struct rdma_conn_param param = {.retry_count = 3, .rnr_retry_count = 2};
	struct sides s = {make_channel(), make_channel(), 0, 0, 0};
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	uint8_t value = timeout;

	note("--- a connection with acknowledgement timeout %d, the server's %d", timeout, on_server);
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	CALL_INT(rdma_set_option(s.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1));
	make_listener(s.listener, HERE, 7471, 1);
	s.client = make_id(s.client_channel, "client", RDMA_PS_TCP);
	CALL_INT(rdma_set_option(s.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1));
	make_route(s.client, NULL, HERE, 7471);
	make_qp(s.client);
	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	make_qp(s.server);
	if (on_server >= 0) {
		value = on_server;
		CALL_INT(rdma_set_option(s.server, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1));
	}
	CALL_INT(rdma_accept(s.server, &param));
	EVENT(s.client_channel);
	EVENT(s.server_channel);
	CALL_INT(ibv_query_qp(s.client->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY, &init));
	note("    client: timeout %d retry_cnt %d rnr_retry %d", attr.timeout, attr.retry_cnt, attr.rnr_retry);
	CALL_INT(ibv_query_qp(s.server->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY, &init));
	note("    server: timeout %d retry_cnt %d rnr_retry %d", attr.timeout, attr.retry_cnt, attr.rnr_retry);
	sides_close(&s);
}

int main(void)
{
	struct sides s;
	struct rdma_cm_id *id;
	int no = 0, yes = 1;

	begin();
	channel = make_channel();
	id = make_id(channel, "id", RDMA_PS_TCP);
	all_of("fresh", id);
	CALL_INT(rdma_destroy_id(id));
	id = make_id(channel, "id", RDMA_PS_TCP);
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &no, sizeof(no)));
	CALL_INT(rdma_bind_addr(id, at(HERE, 7471)));
	all_of("bound", id);
	CALL_INT(rdma_listen(id, 1));
	all_of("listening", id);
	CALL_INT(rdma_destroy_id(id));
	id = make_id(channel, "id", RDMA_PS_UDP);
	all_of("for datagrams", id);
	CALL_INT(rdma_destroy_id(id));
	in_path(0, 0);
	in_path(104, 14);
	in_path(255, 31);
	in_path(3, 32);
	in_path(3, 255);
	timeout_of_qp(1, -1);
	timeout_of_qp(10, -1);
	timeout_of_qp(10, 21);
	timeout_of_qp(10, 0);
	sides_connect(&s, 7471);
	id = s.client;
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	CALL_INT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof(yes)));
	sides_close(&s);
	rdma_destroy_event_channel(channel);
	return end();
}
