/*
 * connect.c - connections: requests, their parameters and private data, accepting, refusing, ending.
 */
#include "cm.h"

static uint8_t pattern[256];

/* A listener at this address, and a client that knows its way to HERE. */
static struct sides resolved(const char *listens, int port)
{
	struct sides s = {make_channel(), make_channel(), 0, 0, 0};

	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	make_listener(s.listener, listens, port, 4);
	s.client = make_id(s.client_channel, "client", RDMA_PS_TCP);
	make_route(s.client, NULL, HERE, port);
	return s;
}

/* One connection with these parameters on both sides, from request to the end of the time-wait state. */
static void whole(const char *what, const struct rdma_conn_param *ask, const struct rdma_conn_param *answer, bool client_ends)
{
	struct rdma_conn_param a = *ask, b = *answer;

	note("--- %s", what);
	struct sides s = resolved("0.0.0.0", 7471);

	make_qp(s.client);
	CALL_INT(rdma_connect(s.client, &a));
	s.server = name_id(EVENT(s.server_channel), "server");
	show_id("server", s.server);
	show_id("client", s.client);
	make_qp(s.server);
	CALL_INT(rdma_connect(s.client, &a));
	CALL_INT(rdma_accept(s.server, &b));
	EVENT(s.client_channel);
	EVENT(s.server_channel);
	show_id("server", s.server);
	show_id("client", s.client);
	CALL_INT(rdma_accept(s.server, &b));
	CALL_INT(rdma_reject(s.server, NULL, 0));
	CALL_INT(rdma_notify(s.server, IBV_EVENT_COMM_EST));
	CALL_INT(rdma_establish(s.client));
	NO_EVENT(s.server_channel);
	CALL_INT(rdma_disconnect(client_ends ? s.client : s.server));
	if (client_ends) {
		EVENT(s.server_channel);
		CALL_INT(rdma_disconnect(s.server));
		EVENT(s.client_channel);
	} else {
		EVENT(s.client_channel);
		CALL_INT(rdma_disconnect(s.client));
		EVENT(s.server_channel);
	}
	note("the end of the time-wait state");
	EVENT(s.client_channel);
	EVENT(s.server_channel);
	CALL_INT(rdma_disconnect(s.server));
	CALL_INT(rdma_disconnect(s.client));
	NO_EVENT(s.server_channel);
	sides_close(&s);
}

/* Private data of each length, as far as the other side's event and the call's answer. */
static void private_data(void)
{
	static const int lengths[] = {0, 1, 55, 56, 57, 92, 147, 148, 149, 195, 196, 197, 255};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct rdma_conn_param param = {.private_data = pattern, .private_data_len = lengths[i], .retry_count = 7};

		note("--- %d bytes of private data", lengths[i]);
		struct sides s = resolved(HERE, 7471);

		make_qp(s.client);
		if (CALL_INT(rdma_connect(s.client, &param)))
			param.private_data_len = 0, CALL_INT(rdma_connect(s.client, &param));
		s.server = name_id(EVENT(s.server_channel), "server");
		make_qp(s.server);
		param.private_data_len = lengths[i];
		if (lengths[i] & 1) {
			if (CALL_INT(rdma_accept(s.server, &param)) == 0) {
				EVENT(s.client_channel);
				EVENT(s.server_channel);
			}
		} else if (CALL_INT(rdma_reject(s.server, pattern, lengths[i])) == 0) {
			EVENT(s.client_channel);
		}
		NO_EVENT(s.client_channel);
		NO_EVENT(s.server_channel);
		sides_close(&s);
	}
}

/* How requests end that are not accepted. */
static void refused(void)
{
	struct sides s;
	struct rdma_conn_param param = {.retry_count = 7};

	note("--- nobody listens");
	s = (struct sides){make_channel(), make_channel(), 0, 0, 0};
	s.client = make_id(s.client_channel, "client", RDMA_PS_TCP);
	make_route(s.client, NULL, HERE, 7475);
	make_qp(s.client);
	CALL_INT(rdma_connect(s.client, &param));
	EVENT(s.client_channel);
	CALL_INT(rdma_connect(s.client, &param));
	NO_EVENT(s.client_channel);
	CALL_INT(rdma_disconnect(s.client));
	CALL_INT(rdma_resolve_addr(s.client, NULL, at(HERE, 7475), 500));
	sides_close(&s);

	note("--- bound, but it does not listen");
	s = (struct sides){make_channel(), make_channel(), 0, 0, 0};
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	CALL_INT(rdma_bind_addr(s.listener, at(HERE, 7475)));
	s.client = make_id(s.client_channel, "client", RDMA_PS_TCP);
	make_route(s.client, NULL, HERE, 7475);
	make_qp(s.client);
	CALL_INT(rdma_connect(s.client, &param));
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- it listens on another address");
	s = resolved(THERE, 7475);
	make_qp(s.client);
	CALL_INT(rdma_connect(s.client, &param));
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- rdma_reject twice, then what the identifiers still can");
	sides_request(&s, RDMA_PS_TCP, 7471);
	CALL_INT(rdma_reject(s.server, "no", 2));
	CALL_INT(rdma_reject(s.server, "no", 2));
	EVENT(s.client_channel);
	CALL_INT(rdma_accept(s.server, &param));
	CALL_INT(rdma_disconnect(s.server));
	CALL_INT(rdma_disconnect(s.client));
	NO_EVENT(s.server_channel);
	NO_EVENT(s.client_channel);
	sides_close(&s);

	note("--- the server's identifier is destroyed");
	sides_request(&s, RDMA_PS_TCP, 7471);
	id_close(s.server);
	s.server = NULL;
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- the listener is destroyed, the request is kept");
	sides_request(&s, RDMA_PS_TCP, 7471);
	CALL_INT(rdma_destroy_id(s.listener));
	s.listener = NULL;
	CALL_INT(rdma_accept(s.server, &param));
	EVENT(s.client_channel);
	EVENT(s.server_channel);
	sides_close(&s);

	note("--- the client's identifier is destroyed before the answer");
	sides_request(&s, RDMA_PS_TCP, 7471);
	id_close(s.client);
	s.client = NULL;
	NO_EVENT(s.server_channel);
	CALL_INT(rdma_accept(s.server, &param));
	NO_EVENT(s.server_channel);
	sides_close(&s);

	note("--- rdma_disconnect instead of an answer");
	sides_request(&s, RDMA_PS_TCP, 7471);
	CALL_INT(rdma_disconnect(s.server));
	NO_EVENT(s.client_channel);
	NO_EVENT(s.server_channel);
	CALL_INT(rdma_disconnect(s.client));
	NO_EVENT(s.client_channel);
	NO_EVENT(s.server_channel);
	sides_close(&s);
}

/* How established connections end. */
static void ended(void)
{
	struct sides s;

	note("--- the server's identifier is destroyed while connected");
	sides_connect(&s, 7471);
	id_close(s.server);
	s.server = NULL;
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- the client's identifier is destroyed while connected");
	sides_connect(&s, 7471);
	id_close(s.client);
	s.client = NULL;
	EVENT(s.server_channel);
	sides_close(&s);

	note("--- both disconnect at once");
	sides_connect(&s, 7471);
	CALL_INT(rdma_disconnect(s.server));
	CALL_INT(rdma_disconnect(s.client));
	EVENT(s.server_channel);
	EVENT(s.client_channel);
	CALL_INT(rdma_disconnect(s.client));
	CALL_INT(rdma_disconnect(s.server));
	sides_close(&s);
}

static struct sides requested_without_qp(void)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 6, .qp_num = unused_qp()};
	struct sides s = resolved(HERE, 7471);

	CALL_INT(rdma_connect(s.client, &param));
	s.server = name_id(EVENT(s.server_channel), "server");
	return s;
}

/* Without a queue pair of its own the program sees the response and says when it is ready. */
static void without_qp(void)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 6};

	note("--- without queue pairs");
	struct sides s = requested_without_qp();

	param.qp_num = unused_qp();
	CALL_INT(rdma_accept(s.server, &param));
	EVENT(s.client_channel);
	NO_EVENT(s.server_channel);
	CALL_INT(rdma_establish(s.client));
	EVENT(s.server_channel);
	CALL_INT(rdma_establish(s.client));
	CALL_INT(rdma_disconnect(s.client));
	EVENT(s.server_channel);
	NO_EVENT(s.client_channel);
	CALL_INT(rdma_disconnect(s.server));
	EVENT(s.client_channel);
	sides_close(&s);

	note("--- the same, established by rdma_notify");
	s = requested_without_qp();
	CALL_INT(rdma_notify(s.server, IBV_EVENT_COMM_EST));
	param.qp_num = unused_qp();
	CALL_INT(rdma_accept(s.server, &param));
	EVENT(s.client_channel);
	CALL_INT(rdma_notify(s.server, IBV_EVENT_PATH_MIG));
	CALL_INT(rdma_notify(s.server, IBV_EVENT_QP_FATAL));
	CALL_INT(rdma_notify(s.server, IBV_EVENT_COMM_EST));
	EVENT(s.server_channel);
	CALL_INT(rdma_reject(s.client, "late", 4));
	NO_EVENT(s.server_channel);
	sides_close(&s);

	note("--- the client refuses the response");
	s = requested_without_qp();
	param.qp_num = unused_qp();
	CALL_INT(rdma_accept(s.server, &param));
	EVENT(s.client_channel);
	CALL_INT(rdma_reject(s.client, "refused", 7));
	EVENT(s.server_channel);
	sides_close(&s);
}

int main(void)
{
	struct rdma_conn_param plain = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_conn_param full = {.private_data = "from the client", .private_data_len = 16, .responder_resources = 3,
				       .initiator_depth = 2, .flow_control = 1, .retry_count = 5, .rnr_retry_count = 4};
	struct rdma_conn_param other = {.private_data = "from the server", .private_data_len = 16, .responder_resources = 2,
					.initiator_depth = 3, .flow_control = 0, .retry_count = 2, .rnr_retry_count = 3};
	struct rdma_conn_param most = {.responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH,
				       .retry_count = 255, .rnr_retry_count = 255, .srq = 1, .flow_control = 1};

	begin();
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = i + 1;
	pattern[255] = 1;
	whole("plain parameters", &plain, &plain, true);
	whole("every parameter", &full, &other, false);
	whole("the largest parameters", &most, &most, true);
	private_data();
	refused();
	ended();
	without_qp();
	return end();
}
