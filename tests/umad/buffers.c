/*
 * buffers.c - what needs no device: addresses, routes and P_Keys in a buffer, dumps, and the names of numbers.
 */
#include "umad.h"

static struct { struct ib_user_mad umad; uint8_t mad[256]; } room;
#define SHOW() BYTES(room, umad)

static void addresses(void)
{
	static const int numbers[] = {0, 1, -1, 5, 0xffff, 0x10000, 0x7fffffff, (int)0x80000000, 0x12345678};
	struct ib_mad_addr route;

	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		int n = numbers[i];

		FILL(room);
		CALL_INT(umad_set_addr(&room, n, n, n, n));
		SHOW();
		CALL_INT(umad_set_addr(&room, n, 1, 0, 0x80010000));
		SHOW();
		FILL(room);
		CALL_INT(umad_set_addr_net(&room, n, n, n, n));
		SHOW();
		CALL_INT(umad_set_pkey(&room, n));
		CALL_COUNT(umad_get_pkey(&room));
		SHOW();
		FILL(route);
		route.flow_label = n;
		route.hop_limit = n;
		route.traffic_class = n;
		for (unsigned g = 0; g < 16; g++)
			route.gid[g] = n + g;
		FILL(room);
		CALL_INT(umad_set_grh(&room, &route));
		SHOW();
		CALL_INT(umad_set_grh(&room, NULL));
		SHOW();
		room.umad.status = n;
		CALL_COUNT(umad_status(&room));
		CALL_VOID(umad_dump(&room));
		CALL_VOID(umad_addr_dump(&route));
		CALL_VOID(umad_addr_dump(umad_get_mad_addr(&room)));
	}
	note("buffer %zd, address %zd, size %zu", (char *)umad_get_mad(&room) - (char *)&room,
	     (char *)umad_get_mad_addr(&room) - (char *)&room, umad_size());
}

static void debug(void)
{
	static const int levels[] = {-1, 0, 1, -5, 2, 100, 0x7fffffff, (int)0x80000000, 0};

	for (unsigned i = 0; i < sizeof levels / sizeof *levels; i++) {
		CALL_COUNT(umad_debug(levels[i]));
		CALL_INT(umad_init());
		CALL_INT(umad_set_addr(&room, 1, 2, 3, 4) * 0);
		CALL_INT(umad_done());
	}
}

/* A line where the answer is another one than that of the number before. */
static const char *last;
static void named(const char *what, unsigned a, unsigned b, const char *name)
{
	if (!b || !last || strcmp(last, name ?: "NULL"))
		printf("%s %#x %#x: %s\n", what, a, b, name ?: "NULL");
	last = name ?: "NULL";
	transcript_calls++;
}

static void strings(void)
{
	for (unsigned class = 0; class < 256; class++) {
		named("class", class, 0, umad_class_str(class));
		for (unsigned method = 0; method < 256; method++)
			named("method", class, method, umad_method_str(class, method));
		for (unsigned attribute = 0; attribute < 65536; attribute++)
			named("attribute", class, attribute, umad_attribute_str(class, htobe16(attribute)));
	}
	for (unsigned status = 0; status < 65536; status++)
		named("status", 0, status, umad_common_mad_status_str(htobe16(status)));
	for (unsigned status = 0; status < 65536; status++)
		named("status of SA", 0, status, umad_sa_mad_status_str(htobe16(status)));
}

int main(int argc, char **argv)
{
	int fd = -1;

	begin();
	addresses();
	/* Opening a port of a kernel that knows P_Key indexes changes the layout. */
	if (argc > 2) {
		fd = umad_open_port(argv[1], atoi(argv[2]));
		note("opened %d", fd >= 0);
		addresses();
	}
	debug();
	strings();
	if (fd >= 0)
		CALL_INT(umad_close_port(fd));
	return end();
}
