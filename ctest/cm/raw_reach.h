/*
 * raw_reach.h - brings an identifier into each of its states, by raw commands.
 */
#ifndef CTEST_CM_RAW_REACH_H
#define CTEST_CM_RAW_REACH_H

#include "raw.h"

enum state {
	FRESH, BOUND_ANY, BOUND, LISTENING, RESOLVING, RESOLVED, ROUTED, CONNECTING, REFUSED, REQUESTED, ANSWERED, RESPONDED,
	CONNECTED, SERVING, DISCONNECTED, STATES
};
static const char *const states[] = {
	"fresh", "bound to every address", "bound", "listening", "resolving", "resolved", "routed", "connecting", "refused", "requested",
	"answered", "responded", "connected", "serving", "disconnected",
};

static int server_fd, client_fd;
static uint32_t listener, server, client;

static int write_listen(uint32_t id)
{
	return raw_do(server_fd, RDMA_USER_CM_CMD_LISTEN, id);
}

/* The client asks for a connection and the listener's file has the request. */
static void request(uint16_t space)
{
	struct raw_command c;

	client = raw_create(client_fd, space, 0xc11e);
	raw_must("resolve", raw_do(client_fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, client), 0);
	raw_must("resolved", raw_event(client_fd), 0);
	raw_must("route", raw_do(client_fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, client), 0);
	raw_must("routed", raw_event(client_fd), 2);
	raw_fill(&c, RDMA_USER_CM_CMD_CONNECT, client);
	raw_must("connect", raw_write(client_fd, &c, 8 + sizeof(c.u.connect)), 0);
}

static void take_request(void)
{
	raw_must("request", raw_event(server_fd), 4);
	server = ((struct rdma_ucm_event_resp *)raw_answer)->id;
}

/* Brings an identifier into the state; answers it, and its file. */
static uint32_t reach(enum state state, uint16_t space, int *fd)
{
	bool asks = state >= CONNECTING;

	server_fd = raw_open();
	client_fd = raw_open();
	*fd = client_fd;
	if (asks && state != REFUSED) {
		listener = raw_create(server_fd, space, 0x5e57);
		raw_must("bind", raw_bind(server_fd, listener, HERE, 7471), 0);
		raw_must("listen", write_listen(listener), 0);
	}
	if (asks) {
		request(space);
		if (state == REFUSED) {
			raw_must("refused", raw_event(client_fd), space == PS_UDP ? 7 : 8);
			return client;
		}
		if (!readable(server_fd, 100000))
			die("no request");
		if (state == CONNECTING)
			return client;
		take_request();
		if (state == REQUESTED) {
			*fd = server_fd;
			return server;
		}
		raw_must("accept", raw_do(server_fd, RDMA_USER_CM_CMD_ACCEPT, server), 0);
		raw_must("response", raw_event(client_fd), space == PS_UDP ? 9 : 5);
		if (state == ANSWERED) {
			*fd = server_fd;
			return server;
		}
		if (state == RESPONDED || space == PS_UDP)
			return client;
		struct raw_command c;

		raw_fill(&c, RDMA_USER_CM_CMD_ACCEPT, client);
		c.u.accept.conn_param.valid = 0;
		raw_must("ready", raw_write(client_fd, &c, 8 + sizeof(c.u.accept)), 0);
		raw_must("established", raw_event(server_fd), 9);
		if (state == SERVING)
			*fd = server_fd;
		if (state == DISCONNECTED) {
			raw_must("disconnect", raw_do(server_fd, RDMA_USER_CM_CMD_DISCONNECT, server), 0);
			raw_must("disconnected", raw_event(client_fd), 10);
		}
		return state == SERVING ? server : client;
	}
	client = raw_create(client_fd, space, 0xc11e);
	if (state == BOUND_ANY)
		raw_must("bind", raw_bind(client_fd, client, "0.0.0.0", 0), 0);
	if (state == BOUND || state == LISTENING)
		raw_must("bind", raw_bind(client_fd, client, HERE, 0), 0);
	if (state == LISTENING)
		raw_must("listen", raw_do(client_fd, RDMA_USER_CM_CMD_LISTEN, client), 0);
	if (state == RESOLVING) {
		struct raw_command c;

		raw_fill(&c, RDMA_USER_CM_CMD_RESOLVE_ADDR, client);
		raw_four(&c.u.resolve.dst_addr, "10.77.0.9", 7471);
		c.u.resolve.timeout_ms = 60000;
		raw_must("resolving", raw_write(client_fd, &c, 8 + sizeof(c.u.resolve)), 0);
	}
	if (state >= RESOLVED) {
		raw_must("resolve", raw_do(client_fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, client), 0);
		raw_must("resolved", raw_event(client_fd), 0);
	}
	if (state == ROUTED) {
		raw_must("route", raw_do(client_fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, client), 0);
		raw_must("routed", raw_event(client_fd), 2);
	}
	return client;
}

#endif
