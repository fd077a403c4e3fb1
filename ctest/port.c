/*
 * port.c - port attributes.
 *
 * Proves: every field, through the current call, through the exported symbol that old programs use (which must
 * not write beyond the shorter struct they have), and through the table with any length; wrong ports.
 *
 * Fact: Ports 0, past the last, and 255 are EINVAL for ibv_query_port.
 */
#include "setup.h"

#undef ibv_query_port /* the exported symbol, not the inline function */

static bool untouched_from(const void *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (((const unsigned char *)p)[i] != 0xa5)
			return false;
	return true;
}

static void current(struct ibv_context *c, unsigned port)
{
	struct ibv_port_attr attr;

	FILL(attr);
	note("port %u", port);
	if (!CALL_INT(___ibv_query_port(c, port, &attr)))
		print_port_attr(&attr);
	else
		print_port_attr(&attr); /* what a failing query leaves there */
}

static void old_symbol(struct ibv_context *c, unsigned port)
{
	struct ibv_port_attr attr;
	/* Old programs know the struct up to and including flags. */
	size_t old_size = offsetof(struct ibv_port_attr, flags) + 1;

	FILL(attr);
	note("port %u, old struct", port);
	CALL_INT(ibv_query_port(c, port, (struct _compat_ibv_port_attr *)&attr));
	CHECK(untouched_from(&attr, (old_size + 3) & ~3UL, sizeof(attr)));
	print_port_attr(&attr);
	FILL(attr);
	CALL_INT(c->ops._compat_query_port(c, port, (struct _compat_ibv_port_attr *)&attr));
	CHECK(untouched_from(&attr, (old_size + 3) & ~3UL, sizeof(attr)));
	FIELD(attr, state);
}

static void lengths(struct ibv_context *c)
{
	struct verbs_context *v = verbs_get_ctx(c);
	struct {
		struct ibv_port_attr attr;
		unsigned char more[64];
	} big;

	FILL(big);
	CALL_INT(v->query_port(c, PORT, &big.attr, 8));
	CHECK(untouched_from(&big, 8, sizeof(big)));
	FIELD(big.attr, state);
	FILL(big);
	CALL_INT(v->query_port(c, PORT, &big.attr, 0));
	CHECK(untouched_from(&big, 0, sizeof(big)));
	FILL(big);
	CALL_INT(v->query_port(c, PORT, &big.attr, sizeof(big)));
	print_port_attr(&big.attr);
	/* First comes active_speed_ex of rdma-core 65, which kernels after 6.1 answer. */
	bool zero = true;
	for (size_t i = sizeof(uint32_t); i < sizeof(big.more); i++)
		zero = zero && big.more[i] == 0;
	CHECK(zero); /* a newer program's longer struct is cleared to its end */
	FILL(big);
	CALL_INT(v->query_port(c, 7, &big.attr, 8));
	CHECK(untouched_from(&big, 0, sizeof(big)));
}

int main(void)
{
	begin();
	const char *names[] = {"rxe0", "rxe1"};

	for (int i = 0; i < 2; i++) {
		struct ibv_context *c = open_device(names[i]);

		note("%s", names[i]);
		current(c, 1);
		current(c, 0);
		current(c, 2);
		current(c, 255);
		old_symbol(c, 1);
		old_symbol(c, 0);
		old_symbol(c, 2);
		lengths(c);
		CALL_INT(ibv_close_device(c));
	}
	return end();
}
