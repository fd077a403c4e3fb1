/*
 * beside.c - ids of the kernel's devices and of the software device in one process.
 *
 *   beside DEVICE DEVICE      the devices that 10.77.0.1 and 10.77.0.2 belong to; 10.78.0.1 is the software device's
 */
#include "../../ctest/cm/cm.h"
#include <rdma/rdma_verbs.h>

#define OURS "10.78.0.1"

static const char *first, *second;
static struct rdma_event_channel *servers, *clients;

static void belongs(const char *what, struct rdma_cm_id *id, const char *device)
{
	const char *found = id->verbs ? ibv_get_device_name(id->verbs->device) : "none";

	if (strcmp(found, device))
		die("%s is of %s where it should be of %s", what, found, device);
}

static void silent(const char *what, struct rdma_event_channel *channel)
{
	if (readable(channel->fd, 0))
		die("%s: the channel is readable, and there is no event", what);
}

/* What one side sends arrives. */
static void message(const char *what, struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	static char sent[64], got[64];
	struct ibv_mr *source = rdma_reg_msgs(from, sent, sizeof(sent)), *target = rdma_reg_msgs(to, got, sizeof(got));
	struct ibv_wc wc;

	snprintf(sent, sizeof(sent), "message %s", what);
	memset(got, 0, sizeof(got));
	if (!source || !target || rdma_post_recv(to, NULL, got, sizeof(got), target) ||
	    rdma_post_send(from, NULL, sent, sizeof(sent), source, IBV_SEND_SIGNALED))
		die("%s: the message cannot be posted: %s", what, errno_name(errno));
	if (rdma_get_send_comp(from, &wc) != 1 || wc.status || rdma_get_recv_comp(to, &wc) != 1 || wc.status ||
	    strcmp(sent, got))
		die("%s: the message did not arrive: status %s", what, ibv_wc_status_str(wc.status));
	rdma_dereg_mr(source);
	rdma_dereg_mr(target);
}

struct connection {
	struct rdma_cm_id *client, *server;
};

static struct connection connection(const char *what, const char *from, const char *to, int port, const char *client_device,
				    const char *server_device)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct connection c = {.client = make_id(clients, "client", RDMA_PS_TCP)};
	uint8_t tos = 104;

	/* Before the id has an address. */
	if (rdma_set_option(c.client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		die("%s: type of service: %s", what, errno_name(errno));
	make_route(c.client, from, to, port);
	belongs(what, c.client, client_device);
	if (c.client->route.path_rec->traffic_class != tos)
		die("%s: traffic class %d where %d was asked for", what, c.client->route.path_rec->traffic_class, tos);
	make_qp(c.client);
	if (rdma_connect(c.client, &param))
		die("%s: connect: %s", what, errno_name(errno));
	c.server = take(servers, RDMA_CM_EVENT_CONNECT_REQUEST);
	belongs(what, c.server, server_device);
	make_qp(c.server);
	if (rdma_accept(c.server, &param))
		die("%s: accept: %s", what, errno_name(errno));
	if (take(clients, RDMA_CM_EVENT_ESTABLISHED) != c.client || take(servers, RDMA_CM_EVENT_ESTABLISHED) != c.server)
		die("%s: the event is another id's", what);
	message(what, c.client, c.server);
	message(what, c.server, c.client);
	silent(what, servers);
	silent(what, clients);
	return c;
}

/* The server disconnects in its turn, and both ids go. */
static void finish_server(const char *what, struct connection *c)
{
	rdma_disconnect(c->server);
	if (take(c->client->channel, RDMA_CM_EVENT_DISCONNECTED) != c->client)
		die("%s: the event is another id's", what);
	id_close(c->client);
	id_close(c->server);
}

static void finish(const char *what, struct connection *c)
{
	if (rdma_disconnect(c->client))
		die("%s: disconnect: %s", what, errno_name(errno));
	if (take(c->server->channel, RDMA_CM_EVENT_DISCONNECTED) != c->server)
		die("%s: the event is another id's", what);
	finish_server(what, c);
}

/* An event that nobody has taken goes with its id, and its new channel is heard of. */
static void unread(const char *what, struct connection *c, struct rdma_event_channel *to)
{
	if (rdma_disconnect(c->client) || !readable(c->server->channel->fd, LONG_MS) || rdma_migrate_id(c->server, to))
		die("%s: disconnect and migrate: %s", what, errno_name(errno));
	if (take(to, RDMA_CM_EVENT_DISCONNECTED) != c->server)
		die("%s: the event is another id's", what);
	finish_server(what, c);
}

static void both(const char *what, int port)
{
	struct connection theirs = connection(what, THERE, HERE, port, second, first);
	struct connection ours = connection(what, NULL, OURS, port, "soft0", "soft0");

	/* Both are there at the same time. */
	message(what, theirs.client, theirs.server);
	message(what, ours.client, ours.server);
	finish(what, &ours);
	finish(what, &theirs);
	note("ok: %s", what);
}

static void refused(const char *what, const char *from, const char *to)
{
	struct rdma_conn_param param = {.qp_num = unused_qp(), .retry_count = 7};
	struct rdma_cm_id *client = make_id(clients, "client", RDMA_PS_TCP);

	make_route(client, from, to, 9);
	if (rdma_connect(client, &param))
		die("%s: connect: %s", what, errno_name(errno));
	take(clients, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_id(client);
	note("ok: %s", what);
}

/* An id whose bind is refused takes another port; answers it listening. */
static void taken(int port)
{
	const char *addresses[] = {"0.0.0.0", HERE, OURS};

	for (int i = 0; i < 3; i++) {
		struct rdma_cm_id *id = make_id(servers, "late", RDMA_PS_TCP);

		if (!rdma_bind_addr(id, at(addresses[i], port)))
			die("port %d is given away twice, at %s", port, addresses[i]);
		if (errno != EADDRINUSE && errno != EADDRNOTAVAIL)
			die("a port that is taken: %s at %s", errno_name(errno), addresses[i]);
		if (rdma_bind_addr(id, at(addresses[i], port + 1)) || rdma_listen(id, 4))
			die("the next port at %s: %s", addresses[i], errno_name(errno));
		rdma_destroy_id(id);
	}
	note("ok: a port that is taken");
}

static void addresses_of_their_own(void)
{
	struct rdma_cm_id *theirs = make_id(servers, "theirs", RDMA_PS_TCP), *ours = make_id(servers, "ours", RDMA_PS_TCP);

	make_listener(theirs, HERE, 7472, 4);
	make_listener(ours, OURS, 7472, 4);
	belongs("a listener at an address of the kernel's", theirs, first);
	belongs("a listener at another", ours, "soft0");
	both("a listener at each address", 7472);
	rdma_destroy_id(theirs);
	rdma_destroy_id(ours);
}

static void any_address(void)
{
	struct rdma_cm_id *listener = make_id(servers, "listener", RDMA_PS_TCP);

	make_listener(listener, "0.0.0.0", 7471, 4);
	both("one listener at any address", 7471);
	taken(7471);
	rdma_destroy_id(listener);

	listener = make_id(servers, "listener", RDMA_PS_TCP);
	make_listener(listener, "0.0.0.0", 0, 4);
	both("a port that was chosen", ntohs(rdma_get_src_port(listener)));
	rdma_destroy_id(listener);

	/* Without an address, LISTEN takes any. */
	listener = make_id(servers, "listener", RDMA_PS_TCP);
	if (rdma_listen(listener, 4))
		die("listen without an address: %s", errno_name(errno));
	both("a listener without an address", ntohs(rdma_get_src_port(listener)));
	rdma_destroy_id(listener);
}

/* Listener and connections go to another channel, and what happens then comes there. */
static void migration(void)
{
	struct rdma_event_channel *before = servers, *other = make_channel();
	struct rdma_cm_id *listener = make_id(servers, "listener", RDMA_PS_TCP);
	struct connection theirs, ours;

	make_listener(listener, "0.0.0.0", 7473, 4);
	theirs = connection("before a migration", THERE, HERE, 7473, second, first);
	ours = connection("before a migration", NULL, OURS, 7473, "soft0", "soft0");
	if (rdma_migrate_id(listener, other) || rdma_migrate_id(theirs.server, other) || rdma_migrate_id(ours.server, other))
		die("migrate: %s", errno_name(errno));
	unread("an event of the kernel's", &theirs, before);
	unread("an event of the software device", &ours, before);
	servers = other;
	both("a listener that has migrated", 7473);
	rdma_destroy_id(listener);
	silent("migration", before);
	rdma_destroy_event_channel(other);
	servers = before;
}

/* Many at once on one channel: none waits for the other side's. */
static void requests_of_both(void)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct rdma_cm_id *listener = make_id(servers, "listener", RDMA_PS_TCP), *id[8];
	int of_ours = 0;

	make_listener(listener, "0.0.0.0", 7474, 8);
	for (int i = 0; i < 8; i++) {
		id[i] = make_id(clients, "client", RDMA_PS_TCP);
		make_route(id[i], i % 2 ? NULL : THERE, i % 2 ? OURS : HERE, 7474);
		param.qp_num = unused_qp();
		if (rdma_connect(id[i], &param))
			die("connect: %s", errno_name(errno));
	}
	for (int i = 0; i < 8; i++) {
		struct rdma_cm_id *request = take(servers, RDMA_CM_EVENT_CONNECT_REQUEST);

		of_ours += !strcmp(ibv_get_device_name(request->verbs->device), "soft0");
		if (rdma_reject(request, NULL, 0))
			die("reject: %s", errno_name(errno));
		rdma_destroy_id(request);
	}
	if (of_ours != (strcmp(first, "soft0") ? 4 : 8))
		die("%d of 8 requests are of the software device", of_ours);
	for (int i = 0; i < 8; i++)
		take(clients, RDMA_CM_EVENT_REJECTED);
	for (int i = 0; i < 8; i++)
		rdma_destroy_id(id[i]);
	silent("requests of both", servers);
	silent("requests of both", clients);
	/* With requests that nobody has fetched. */
	rdma_destroy_id(listener);
	note("ok: requests of both");
}

/* Who asks for an event without poll() is woken by either. */
static void waits(void)
{
	const char *to[] = {HERE, OURS};

	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *id = make_id(clients, "waits", RDMA_PS_TCP);
		struct rdma_cm_event *event;

		if (rdma_resolve_addr(id, NULL, at(to[i], 1), 2000) || rdma_get_cm_event(clients, &event) ||
		    event->event != RDMA_CM_EVENT_ADDR_RESOLVED || event->id != id)
			die("waiting for an event at %s: %s", to[i], errno_name(errno));
		rdma_ack_cm_event(event);
		rdma_destroy_id(id);
	}
	note("ok: waiting without poll");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("usage: beside DEVICE DEVICE");
	first = argv[1];
	second = argv[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	servers = make_channel();
	clients = make_channel();
	addresses_of_their_own();
	any_address();
	migration();
	requests_of_both();
	waits();
	refused("nobody at an address of the kernel's", THERE, HERE);
	refused("nobody at another", NULL, OURS);
	/* Closing a channel ends what is left on it. */
	make_listener(make_id(servers, "left", RDMA_PS_TCP), "0.0.0.0", 7475, 4);
	close(servers->fd);
	servers = make_channel();
	make_listener(make_id(servers, "after", RDMA_PS_TCP), "0.0.0.0", 7475, 4);
	note("0 failed");
	return 0;
}
