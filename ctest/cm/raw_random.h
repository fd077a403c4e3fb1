/*
 * raw_random.h - identifiers that a random sequence of commands has made, and what came of them.
 */
#ifndef CTEST_CM_RAW_RANDOM_H
#define CTEST_CM_RAW_RANDOM_H

#include "raw.h"
#include <sys/stat.h>

#define FILES 3
#define SLOTS 64 /* identifiers of one sequence */
#define JOINS 16
#define OTHER "10.77.0.2" /* of the second interface */

/* Numbers of events that the kernel's header does not name. */
enum { REQUEST_EVENT = 4, RESPONSE_EVENT = 5, DISCONNECTED_EVENT = 10, TIMEWAIT_EVENT = 15 };

enum phase { FRESH, BOUND, LISTENING, RESOLVED, ROUTED, ASKED, REQUESTED, RESPONDED, JOINED_UP, OVER };

struct slot {
	uint32_t id, qpn;
	int file;
	bool live, datagrams, ipoib;
	/*
	 * Asked or answered over a connection, and nothing came back yet: who refuses that waits a minute when he
	 * goes, since the kernel repeats what he sent.
	 */
	bool pending;
	uint32_t unseen; /* events that are not told, and that the kernel counts */
	enum phase phase;
	/*
	 * Whose interface it has to keep to. Between two interfaces of one host the kernel asks for a neighbour that
	 * does not answer, and how long a sequence takes decides what comes of it.
	 */
	enum { NEITHER, FIRST, SECOND } interface;
	/* Its own address is one of the host itself, from which soft-RoCE reaches nobody. */
	bool inward;
	/*
	 * Resolved to the host itself without an address, where soft-RoCE has no interface for routes and groups, and
	 * the software device needs none.
	 */
	bool loops;
};

static struct slot slots[SLOTS];
static int used;
static uint32_t joins[JOINS];
static int joined;
static int files[FILES];
static int helper;	/* a file for barriers */
static uint8_t *edge;	/* the end of a page behind which nothing is mapped */
static uint64_t random_state;

static uint32_t rnd(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(random_state >> 33) % below;
}

static bool chance(uint32_t percent)
{
	return rnd(100) < percent;
}

#define PICK(array) ((array)[rnd(sizeof(array) / sizeof(*(array)))])

static int new_slot(uint32_t id, int file, bool datagrams, enum phase phase)
{
	if (used == SLOTS)
		die("too many identifiers");
	slots[used] = (struct slot){.id = id, .file = file, .live = true, .datagrams = datagrams, .phase = phase};
	return used++;
}

static int slot_of(uint32_t id)
{
	for (int i = 0; i < used; i++)
		if (slots[i].live && slots[i].id == id)
			return i;
	return -1;
}

/* Who has this queue pair number; -1: nobody. */
static int slot_of_qp(uint32_t qpn)
{
	for (int i = 0; i < used; i++)
		if (qpn && slots[i].qpn == qpn)
			return i;
	return -1;
}

/* A port as far as it is the same in every run. */
static const char *port_name(int port)
{
	static char text[2][8];
	static int next;
	char *t = text[next++ % 2];

	if (port >= 32768)
		return "chosen";
	snprintf(t, sizeof(text[0]), "%d", port);
	return t;
}

static const char *place_name(const void *address)
{
	static char text[4][64];
	static int next;
	const struct sockaddr_in *four = address;
	const struct sockaddr_in6 *six = address;
	char *t = text[next++ % 4], plain[48] = "";

	if (four->sin_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, plain, sizeof(plain));
	else if (four->sin_family == AF_INET6)
		inet_ntop(AF_INET6, &six->sin6_addr, plain, sizeof(plain));
	else
		snprintf(plain, sizeof(plain), "family %d", four->sin_family);
	snprintf(t, sizeof(text[0]), "%.40s:%.8s", plain, port_name(ntohs(four->sin_port)));
	return t;
}

/* Writes an address; its size. */
static int put_place(void *where, const char *text, int port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (!strchr(text, ':')) {
		raw_four(where, text, port);
		return sizeof(struct sockaddr_in);
	}
	inet_pton(AF_INET6, text, &six.sin6_addr);
	memcpy(where, &six, sizeof(six));
	return sizeof(six);
}

/*
 * Asks for a connection that nobody listens for, and waits for the refusal: the kernel works off addresses, routes
 * and messages in their order, so what was under way before has come.
 */
static void barrier(void)
{
	struct raw_command c;
	uint32_t id = raw_create(helper, PS_TCP, 1);

	raw_fill(&c, RDMA_USER_CM_CMD_RESOLVE_ADDR, id);
	raw_four(&c.u.resolve.dst_addr, HERE, 7999);
	raw_must("barrier: resolve", raw_write(helper, &c, 8 + sizeof(c.u.resolve)), 0);
	raw_must("barrier: resolved", raw_event(helper), 0);
	raw_must("barrier: route", raw_do(helper, RDMA_USER_CM_CMD_RESOLVE_ROUTE, id), 0);
	raw_must("barrier: routed", raw_event(helper), 2);
	raw_must("barrier: connect", raw_do(helper, RDMA_USER_CM_CMD_CONNECT, id), 0);
	raw_must("barrier: refused", raw_event(helper), 8);
	raw_must("barrier: destroy", raw_do(helper, RDMA_USER_CM_CMD_DESTROY_ID, id), 0);
}

/* Waits until everything has come of what was done: an answer to a message, and an answer to that. */
static void settle(void)
{
	for (int round = 0; round < 3; round++) {
		barrier();
		/* Where the connection manager works when its program asks. */
		for (int i = 0; i < FILES; i++)
			readable(files[i], 0);
	}
}

#endif
