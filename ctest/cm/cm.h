/*
 * cm.h - prints what librdmacm answers: identifiers, addresses, events.
 *
 * Chosen ports, queue pair numbers, starting packet numbers and handles differ from run to run; they are
 * printed as a relation to something else. The machine has 10.77.0.1 on v0 and 10.77.0.2 on v1, fd77::1 and
 * fd77::2 likewise, and the link-local addresses that follow from 02:00:00:00:00:01 and :02.
 */
#ifndef CTEST_CM_H
#define CTEST_CM_H

#include "../transcript.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>

#ifndef HERE
#define HERE "10.77.0.1"
#endif
#define THERE "10.77.0.2"
#define LONG_MS 100000 /* for what must come, on a machine however busy */
#define SHORT_MS 300   /* for what must not */

/* An address of "a.b.c.d", "x::y" or "x::y%interface"; valid for 32 further calls. */
static inline struct sockaddr *at(const char *text, int port)
{
	static struct sockaddr_storage ring[32];
	static unsigned int next;
	struct sockaddr_storage *s = &ring[next++ % 32];
	struct sockaddr_in *four = (struct sockaddr_in *)s;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)s;
	char plain[64], *scope;

	memset(s, 0, sizeof(*s));
	snprintf(plain, sizeof(plain), "%s", text);
	scope = strchr(plain, '%');
	if (scope) {
		*scope++ = 0;
		six->sin6_scope_id = if_nametoindex(scope);
	}
	if (inet_pton(AF_INET, plain, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
	} else if (inet_pton(AF_INET6, plain, &six->sin6_addr) == 1) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
	} else {
		die("address %s", text);
	}
	return (struct sockaddr *)s;
}

static inline const char *port_text(int port)
{
	static char text[2][16];
	static unsigned int next;
	char *t = text[next++ % 2];

	if (port >= 32768)
		return "chosen";
	snprintf(t, sizeof(text[0]), "%d", port);
	return t;
}

static inline void show_address(const char *what, const struct sockaddr *a)
{
	char text[64] = "";
	int port = 0;

	if (a->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, text, sizeof(text));
		port = ntohs(((const struct sockaddr_in *)a)->sin_port);
	} else if (a->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
		char name[IF_NAMESIZE];

		inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
		if (six->sin6_scope_id)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%%%s",
				 if_indextoname(six->sin6_scope_id, name) ? name : "?");
		port = ntohs(six->sin6_port);
	}
	printf("    %s family %d %s port %s\n", what, a->sa_family, text, port_text(port));
}

/* Everything of an identifier that a program can see. */
static inline void show_id(const char *name, struct rdma_cm_id *id)
{
	printf("    %s: verbs %d qp %d pd %d port_num %d ps 0x%x qp_type %d paths %d\n", name, !!id->verbs, !!id->qp,
	       !!id->pd, id->port_num, id->ps, id->qp_type, id->route.num_paths);
	show_address("src", rdma_get_local_addr(id));
	show_address("dst", rdma_get_peer_addr(id));
}

/* Private data: how much there is said to be, and what of it is not zero. */
static inline void show_private(const void *data, int length)
{
	const uint8_t *bytes = data;
	int end = data ? length : 0;

	while (end && !bytes[end - 1])
		end--;
	printf(" private %d%s", length, data ? "" : " NULL");
	if (end > 24)
		printf(" [%d bytes, first 0x%02x last 0x%02x]", end, bytes[0], bytes[end - 1]);
	else if (end)
		for (int i = 0; i < end; i++)
			printf("%s%02x", i ? "" : " ", bytes[i]);
}

static uint32_t known_qp[8]; /* queue pair numbers that events may name, by the order in which they were known */
static int known_qps;

static inline void know_qp(uint32_t number)
{
	known_qp[known_qps++ % 8] = number;
}

/*
 * A queue pair number that nobody has used: the connection manager refuses one that it still keeps in the
 * time-wait state (status 10).
 */
static inline uint32_t unused_qp(void)
{
	static uint32_t next;
	uint32_t number = 0x800000 | ((uint32_t)getpid() * 64 + next++) % 0x7ffff0;

	know_qp(number);
	return number;
}

static inline void show_qp(uint32_t number)
{
	int found = -1;

	for (int i = 0; i < known_qps && i < 8; i++)
		if (known_qp[i] == number)
			found = i;
	if (!number || number == 0xffffff)
		printf(" qp 0x%x", number);
	else if (found >= 0)
		printf(" qp known %d", found);
	else
		printf(" qp other");
}

/* Which identifier an event is of: those that the program has named. */
static struct {
	struct rdma_cm_id *id;
	const char *name;
} known_id[32];

static inline struct rdma_cm_id *name_id(struct rdma_cm_id *id, const char *name)
{
	for (int i = 0; i < 32; i++)
		if (!known_id[i].id || known_id[i].id == id || !strcmp(known_id[i].name, name)) {
			known_id[i].id = id;
			known_id[i].name = name;
			break;
		}
	return id;
}

static inline const char *id_name(struct rdma_cm_id *id)
{
	if (!id)
		return "none";
	for (int i = 0; i < 32; i++)
		if (known_id[i].id == id)
			return known_id[i].name;
	return "new";
}

static inline void show_event(struct rdma_cm_event *e)
{
	printf("    event %d %s status %d id %s listener %s", e->event, rdma_event_str(e->event), e->status,
	       e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? "new" : id_name(e->id), id_name(e->listen_id));
	if (e->id && (e->id->ps == RDMA_PS_UDP || e->id->ps == RDMA_PS_IPOIB) &&
	    (e->event == RDMA_CM_EVENT_CONNECT_REQUEST || e->event == RDMA_CM_EVENT_ESTABLISHED ||
	     e->event == RDMA_CM_EVENT_MULTICAST_JOIN || e->event == RDMA_CM_EVENT_REJECTED)) {
		const struct rdma_ud_param *ud = &e->param.ud;

		show_qp(ud->qp_num);
		printf(" qkey 0x%x ah: global %d dlid %d sl %d static_rate %d port %d hop_limit %d tclass %d flow %d", ud->qkey,
		       ud->ah_attr.is_global, ud->ah_attr.dlid, ud->ah_attr.sl, ud->ah_attr.static_rate, ud->ah_attr.port_num,
		       ud->ah_attr.grh.hop_limit, ud->ah_attr.grh.traffic_class, !!ud->ah_attr.grh.flow_label);
		if (e->event == RDMA_CM_EVENT_MULTICAST_JOIN)
			printf(" context %d", !!ud->private_data);
		else
			show_private(ud->private_data, ud->private_data_len);
	} else {
		const struct rdma_conn_param *c = &e->param.conn;

		show_qp(c->qp_num);
		printf(" responder_resources %d initiator_depth %d flow %d retry %d rnr %d srq %d", c->responder_resources,
		       c->initiator_depth, c->flow_control, c->retry_count, c->rnr_retry_count, c->srq);
		show_private(c->private_data, c->private_data_len);
	}
	putchar('\n');
}

/* The next event of a channel, printed; NULL where none comes in time. The caller acknowledges it. */
static inline struct rdma_cm_event *await_event(struct rdma_event_channel *channel, int ms)
{
	struct rdma_cm_event *event = NULL;

	if (!readable(channel->fd, ms)) {
		printf("    no event\n");
		return NULL;
	}
	/* Who has polled must not wait. */
	int flags = fcntl(channel->fd, F_GETFL), result, e;

	fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK);
	errno = 0;
	result = rdma_get_cm_event(channel, &event);
	e = errno;
	fcntl(channel->fd, F_SETFL, flags);
	if (result) {
		printf("    rdma_get_cm_event: %s, though poll said that there is an event\n", errno_name(e));
		return NULL;
	}
	show_event(event);
	return event;
}

/* The next event, printed and acknowledged; answers its identifier, which a connection request has brought. */
static inline struct rdma_cm_id *event_on(const char *name, struct rdma_event_channel *channel, int ms)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	printf("%s\n", name);
	event = await_event(channel, ms);
	if (!event)
		return NULL;
	id = event->id;
	if (rdma_ack_cm_event(event))
		printf("    rdma_ack_cm_event: %s\n", errno_name(errno));
	return id;
}

#define EVENT(channel) event_on("event of " #channel, channel, LONG_MS)
#define NO_EVENT(channel) event_on("event of " #channel ", if any", channel, SHORT_MS)

/* --- what is not printed ---------------------------------------------------------------------------------- */

static inline struct rdma_event_channel *make_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	if (!channel)
		die("event channel: %s", errno_name(errno));
	return channel;
}

static inline struct rdma_cm_id *make_id(struct rdma_event_channel *channel, const char *name, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, ps))
		die("identifier %s: %s", name, errno_name(errno));
	return name_id(id, name);
}

/* Takes one event that must be of this kind. */
static inline struct rdma_cm_id *take(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	if (!readable(channel->fd, LONG_MS) || rdma_get_cm_event(channel, &event))
		die("no event %s", rdma_event_str(kind));
	if (event->event != kind)
		die("event %s status %d where %s should be", rdma_event_str(event->event), event->status, rdma_event_str(kind));
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static inline void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.cap = {4, 4, 1, 1, 0},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	if (rdma_create_qp(id, NULL, &init))
		die("queue pair: %s", errno_name(errno));
	know_qp(id->qp->qp_num);
}

/* Up to a route from an address, or from whichever is right for NULL, to another. */
static inline void make_route(struct rdma_cm_id *id, const char *from, const char *to, int port)
{
	if (rdma_resolve_addr(id, from ? at(from, 0) : NULL, at(to, port), 2000))
		die("resolve %s: %s", to, errno_name(errno));
	take(id->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		die("route: %s", errno_name(errno));
	take(id->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static inline void make_listener(struct rdma_cm_id *id, const char *address, int port, int backlog)
{
	if (rdma_bind_addr(id, at(address, port)) || rdma_listen(id, backlog))
		die("listen: %s", errno_name(errno));
}

/* A listener, a client and what the client's request became, each of the two sides with a channel. */
struct sides {
	struct rdma_event_channel *server_channel, *client_channel;
	struct rdma_cm_id *listener, *server, *client;
};

static inline void sides_request(struct sides *s, enum rdma_port_space ps, int port)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

	s->server_channel = make_channel();
	s->client_channel = make_channel();
	s->listener = make_id(s->server_channel, "listener", ps);
	make_listener(s->listener, HERE, port, 4);
	s->client = make_id(s->client_channel, "client", ps);
	make_route(s->client, NULL, HERE, port);
	make_qp(s->client);
	if (rdma_connect(s->client, &param))
		die("connect: %s", errno_name(errno));
	s->server = name_id(take(s->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST), "server");
	make_qp(s->server);
}

static inline void sides_connect(struct sides *s, int port)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};

	sides_request(s, RDMA_PS_TCP, port);
	if (rdma_accept(s->server, &param))
		die("accept: %s", errno_name(errno));
	take(s->client_channel, RDMA_CM_EVENT_ESTABLISHED);
	take(s->server_channel, RDMA_CM_EVENT_ESTABLISHED);
}

static inline void id_close(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static inline void sides_close(struct sides *s)
{
	id_close(s->server);
	id_close(s->client);
	id_close(s->listener);
	rdma_destroy_event_channel(s->server_channel);
	rdma_destroy_event_channel(s->client_channel);
	memset(s, 0, sizeof(*s));
}

#endif
