/*
 * listen.c - listeners: their backlog, requests that nobody has taken, several listeners on one port,
 * migration.
 */
#include "cm.h"

static struct rdma_conn_param plain = {.retry_count = 7, .rnr_retry_count = 7};

static struct rdma_cm_id *client(struct rdma_event_channel *channel, const char *name, const char *to, int port)
{
	struct rdma_cm_id *id = make_id(channel, name, RDMA_PS_TCP);

	make_route(id, NULL, to, port);
	make_qp(id);
	return id;
}

/* The backlog counts requests that the program has not taken; further ones are not answered. */
static void backlog(void)
{
	struct rdma_event_channel *server = make_channel(), *ask[3];
	struct rdma_cm_id *listener = make_id(server, "listener", RDMA_PS_TCP), *ids[3];
	static const char *names[] = {"first", "second", "third"};

	note("--- a backlog of two under three requests");
	make_listener(listener, HERE, 7471, 2);
	for (int i = 0; i < 3; i++) {
		ask[i] = make_channel();
		ids[i] = client(ask[i], names[i], HERE, 7471);
		CALL_INT(rdma_connect(ids[i], &plain));
	}
	for (int i = 0; i < 3; i++)
		event_on(names[i], ask[i], SHORT_MS);
	note("a client that found no room asks again, and is answered when there is some");
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_id *taken = take(server, RDMA_CM_EVENT_CONNECT_REQUEST);

		CALL_INT(rdma_reject(taken, NULL, 0));
		CALL_INT(rdma_destroy_id(taken));
	}
	for (int i = 0; i < 3; i++)
		event_on(names[i], ask[i], LONG_MS);
	NO_EVENT(server);
	for (int i = 0; i < 3; i++) {
		id_close(ids[i]);
		rdma_destroy_event_channel(ask[i]);
	}
	CALL_INT(rdma_destroy_id(listener));
	rdma_destroy_event_channel(server);
}

/* A listener that goes refuses the requests that nobody took. */
static void pending(void)
{
	struct rdma_event_channel *server = make_channel(), *ask = make_channel();
	struct rdma_cm_id *listener = make_id(server, "listener", RDMA_PS_TCP), *id;

	note("--- the listener is destroyed before the request is taken");
	make_listener(listener, HERE, 7471, 2);
	id = client(ask, "client", HERE, 7471);
	CALL_INT(rdma_connect(id, &plain));
	CHECK(readable(server->fd, LONG_MS));
	CALL_INT(rdma_destroy_id(listener));
	NO_EVENT(server);
	EVENT(ask);
	id_close(id);

	note("--- the channel's descriptor is closed before the request is taken");
	listener = make_id(server, "listener", RDMA_PS_TCP);
	make_listener(listener, HERE, 7471, 2);
	id = client(ask, "client", HERE, 7471);
	CALL_INT(rdma_connect(id, &plain));
	CHECK(readable(server->fd, LONG_MS));
	CALL_INT(close(server->fd));
	EVENT(ask);
	id_close(id);
	rdma_destroy_event_channel(ask);
}

/* Which of several listeners on a port gets the request. */
static void several(void)
{
	struct rdma_event_channel *channels[3] = {make_channel(), make_channel(), make_channel()}, *ask = make_channel();
	struct rdma_cm_id *listeners[3], *id, *taken;
	static const struct {
		const char *address;
		const char *to;
	} rounds[] = {{HERE, HERE}, {THERE, HERE}, {"fd77::1", "fd77::1"}, {"fd77::1", "fd77::2"}};

	for (int i = 0; i < 4; i++) {
		note("--- listeners on %s, to %s", rounds[i].address, rounds[i].to);
		listeners[0] = make_id(channels[0], "specific", RDMA_PS_TCP);
		make_listener(listeners[0], rounds[i].address, 7471, 2);
		listeners[1] = make_id(channels[1], "other port", RDMA_PS_TCP);
		make_listener(listeners[1], "::", 7472, 2);
		listeners[2] = make_id(channels[2], "other specific", RDMA_PS_TCP);
		CALL_INT(rdma_bind_addr(listeners[2], at(i < 2 ? (i ? HERE : THERE) : (i == 3 ? "fd77::2" : HERE), 7471)));
		CALL_INT(rdma_listen(listeners[2], 2));
		for (int port = 7471; port < 7473; port++) {
			note("port %d", port);
			id = client(ask, "client", rounds[i].to, port);
			CALL_INT(rdma_connect(id, &plain));
			for (int j = 0; j < 3; j++)
				if (readable(channels[j]->fd, SHORT_MS)) {
					taken = name_id(event_on(id_name(listeners[j]), channels[j], LONG_MS), "taken");
					show_id("taken", taken);
					CALL_INT(rdma_reject(taken, NULL, 0));
					CALL_INT(rdma_destroy_id(taken));
				}
			EVENT(ask);
			id_close(id);
		}
		for (int j = 0; j < 3; j++)
			CALL_INT(rdma_destroy_id(listeners[j]));
	}
}

/* An identifier goes to another channel, with the events that nobody has taken. */
static void migration(void)
{
	struct rdma_event_channel *other = make_channel();
	struct sides s;

	note("--- a connected identifier goes to another channel");
	sides_connect(&s, 7471);
	CALL_INT(rdma_migrate_id(s.server, other));
	CHECK(s.server->channel == other);
	CALL_INT(rdma_disconnect(s.client));
	event_on("the old channel, if any", s.server_channel, SHORT_MS);
	note("the new channel has it; it goes back with the event");
	CHECK(readable(other->fd, LONG_MS));
	CALL_INT(rdma_migrate_id(s.server, s.server_channel));
	NO_EVENT(other);
	EVENT(s.server_channel);
	CALL_INT(rdma_migrate_id(s.server, s.server_channel));
	sides_close(&s);

	note("--- a listener with a request that nobody has taken: the request stays behind, and librdmacm cannot take it");
	s = (struct sides){make_channel(), make_channel(), 0, 0, 0};
	s.listener = make_id(s.server_channel, "listener", RDMA_PS_TCP);
	make_listener(s.listener, HERE, 7471, 2);
	s.client = client(s.client_channel, "client", HERE, 7471);
	CALL_INT(rdma_connect(s.client, &plain));
	CHECK(readable(s.server_channel->fd, LONG_MS));
	CALL_INT(rdma_migrate_id(s.listener, other));
	event_on("the old channel, if any", s.server_channel, SHORT_MS);
	CALL_INT(fcntl(other->fd, F_SETFL, O_RDWR | O_NONBLOCK));
	s.server = name_id(event_on("the new channel", other, LONG_MS), "server");
	CHECK(s.server == NULL);
	event_on("the client", s.client_channel, SHORT_MS);
	sides_close(&s);

	note("--- a synchronous identifier goes to a channel and back");
	sides_connect(&s, 7471);
	CALL_INT(rdma_migrate_id(s.client, NULL));
	CHECK(s.client->channel != s.client_channel);
	CALL_INT(rdma_disconnect(s.server));
	CALL_INT(rdma_disconnect(s.client));
	CHECK(s.client->event == NULL);
	CALL_INT(rdma_migrate_id(s.client, s.client_channel));
	EVENT(s.server_channel);
	NO_EVENT(s.client_channel);
	sides_close(&s);

	note("--- to a descriptor that is none");
	sides_connect(&s, 7471);
	struct rdma_event_channel none = {.fd = -1}, null = {.fd = 0};

	CALL_INT(rdma_migrate_id(s.client, &none));
	CALL_INT(rdma_migrate_id(s.client, &null));
	CHECK(s.client->channel == s.client_channel);
	sides_close(&s);
	rdma_destroy_event_channel(other);
}

int main(void)
{
	begin();
	backlog();
	pending();
	several();
	migration();
	return end();
}
