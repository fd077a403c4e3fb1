/*
 * sync.c - identifiers without a channel, and endpoints: every call waits for its own event.
 */
#include "cm.h"
#include <pthread.h>
#include <rdma/rdma_verbs.h>

static struct rdma_addrinfo *info(const char *node, const char *port, int flags, int space)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = space}, *res = NULL;

	if (rdma_getaddrinfo(node, port, &hints, &res))
		die("rdma_getaddrinfo: %s", errno_name(errno));
	return res;
}

static struct ibv_qp_init_attr qp_of(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){.cap = {4, 4, 1, 1, 16}, .qp_type = type, .sq_sig_all = 1};
}

static char private_text[] = "words of the client";
static int verdict; /* what the client shall do: 0 connect and send, 1 be refused, 2 find nobody */

static void *client(void *arg)
{
	struct rdma_addrinfo *res = info(HERE, verdict == 2 ? "7479" : "7471", 0, RDMA_PS_TCP);
	struct rdma_conn_param param = {.private_data = private_text, .private_data_len = sizeof(private_text),
					.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct ibv_qp_init_attr attr = qp_of(IBV_QPT_RC);
	struct rdma_cm_id *id = NULL;
	int result[4] = {-2, -2, -2, -2}, e[4] = {0};

	errno = 0;
	result[0] = rdma_create_ep(&id, res, NULL, &attr);
	e[0] = errno;
	if (!result[0]) {
		errno = 0;
		result[1] = rdma_connect(id, &param);
		e[1] = errno;
	}
	FILE *out = arg;

	fprintf(out, "client: rdma_create_ep = %d, errno %s; rdma_connect = %d, errno %s\n", result[0],
		errno_name(result[0] ? e[0] : 0), result[1], errno_name(result[1] ? e[1] : 0));
	if (id && id->event)
		fprintf(out, "client: id->event %s status %d private %d\n", rdma_event_str(id->event->event), id->event->status,
			id->event->param.conn.private_data_len);
	if (verdict == 0 && !result[1]) {
		static char buffer[64];
		struct ibv_mr *mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
		struct ibv_wc wc;

		fprintf(out, "client: recv posted %d\n", rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr));
		fprintf(out, "client: sent %d\n", rdma_post_send(id, NULL, private_text, 8, NULL, IBV_SEND_INLINE) ? errno : 0);
		fprintf(out, "client: received %d", rdma_get_recv_comp(id, &wc));
		fprintf(out, " status %d\n", wc.status);
		fprintf(out, "client: disconnected %d\n", rdma_disconnect(id));
		rdma_dereg_mr(mr);
	}
	if (id)
		rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	fclose(out);
	return NULL;
}

static void sides(int what)
{
	struct rdma_addrinfo *res = info(NULL, "7471", RAI_PASSIVE, RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = qp_of(IBV_QPT_RC);
	struct rdma_cm_id *listener = NULL, *id = NULL;
	static char buffer[64];
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	pthread_t thread;

	note("--- %s", what == 0 ? "a connection" : what == 1 ? "a refusal" : "nobody listens");
	verdict = what;
	if (CALL_INT(rdma_create_ep(&listener, res, NULL, &attr)))
		die("no listener");
	CHECK(listener->channel != NULL && listener->qp == NULL);
	CALL_INT(rdma_listen(listener, 0));
	show_id("listener", listener);
	if (pthread_create(&thread, NULL, client, out))
		die("thread");
	if (what < 2) {
		CALL_INT(rdma_get_request(listener, &id));
		name_id(id, "id");
		CHECK(id->channel != listener->channel && id->qp != NULL);
		show_id("id", id);
		show_event(id->event);
	}
	if (what == 0) {
		struct ibv_mr *mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
		struct ibv_wc wc;

		CALL_INT(rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr));
		CALL_INT(rdma_accept(id, NULL));
		CALL_COUNT(rdma_get_recv_comp(id, &wc));
		FIELD(wc, status);
		CALL_INT(rdma_post_send(id, NULL, buffer, 8, mr, 0));
		CALL_COUNT(rdma_get_send_comp(id, &wc));
		FIELD(wc, status);
		CALL_INT(rdma_disconnect(id));
		CALL_INT(rdma_disconnect(id));
		CALL_INT(rdma_dereg_mr(mr));
	} else if (what == 1) {
		CALL_INT(rdma_reject(id, "because", 8));
	}
	pthread_join(thread, NULL);
	fputs(text, stdout);
	free(text);
	if (id)
		CALL_VOID(rdma_destroy_ep(id));
	CALL_VOID(rdma_destroy_ep(listener));
	rdma_freeaddrinfo(res);
}

/* Without a channel the calls wait; id->event shows what they have waited for. */
static void by_steps(void)
{
	struct rdma_cm_id *id = NULL;
	struct rdma_conn_param param = {.retry_count = 7};
	struct rdma_event_channel *channel;

	note("--- step by step");
	CALL_INT(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	name_id(id, "id");
	CHECK(id->channel != NULL);
	CALL_INT(rdma_resolve_addr(id, NULL, at("10.77.0.9", 7471), 100));
	CHECK(id->event != NULL);
	if (id->event)
		show_event(id->event);
	CALL_INT(rdma_resolve_addr(id, NULL, at(HERE, 7471), 1000));
	if (id->event)
		show_event(id->event);
	show_id("id", id);
	CALL_INT(rdma_resolve_route(id, 1000));
	if (id->event)
		show_event(id->event);
	show_id("id", id);
	make_qp(id);
	CALL_INT(rdma_connect(id, &param));
	if (id->event)
		show_event(id->event);
	channel = make_channel();
	CALL_INT(rdma_migrate_id(id, channel));
	CHECK(id->channel == channel && id->event == NULL);
	NO_EVENT(channel);
	id_close(id);
	rdma_destroy_event_channel(channel);
}

static void refused(void)
{
	struct rdma_addrinfo *res = info(HERE, "7471", RAI_PASSIVE, RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = qp_of(IBV_QPT_UD);
	struct rdma_cm_id *one = NULL, *two = NULL;
	struct rdma_addrinfo bad = *res;

	note("--- what endpoints refuse");
	CALL_INT(rdma_create_ep(&one, res, NULL, NULL));
	CALL_INT(rdma_create_ep(&two, res, NULL, NULL));
	CALL_VOID(rdma_destroy_ep(one));
	bad.ai_port_space = 1;
	CALL_INT(rdma_create_ep(&one, &bad, NULL, NULL));
	bad = *res;
	bad.ai_flags = 0;
	bad.ai_dst_addr = at("10.77.0.9", 7471);
	bad.ai_dst_len = sizeof(struct sockaddr_in);
	CALL_INT(rdma_create_ep(&one, &bad, NULL, &attr));
	rdma_freeaddrinfo(res);
	res = info(HERE, "7471", 0, RDMA_PS_TCP);
	CALL_INT(rdma_create_ep(&one, res, NULL, &attr));
	rdma_freeaddrinfo(res);
}

int main(void)
{
	begin();
	sides(0);
	sides(1);
	sides(2);
	by_steps();
	refused();
	return end();
}
