/*
 * gid.c - the GID table.
 *
 * Proves: single entries by the old and by the extended verb, empty entries, indices past the end, wrong ports,
 * unknown flags, entries of older and newer struct sizes, and the whole table with too little and with enough room.
 *
 * Fact: A port that is not there, and an index past the table, are EINVAL for ibv_query_gid and ibv_query_gid_ex.
 * Fact: An empty place of the GID table is zeros for ibv_query_gid and ENODATA for ibv_query_gid_ex.
 */
#include "setup.h"

static void print_entry(const struct ibv_gid_entry *e)
{
	print_gid("gid", &e->gid);
	FIELD(*e, gid_index);
	FIELD(*e, port_num);
	FIELD(*e, gid_type);
	FIELD(*e, ndev_ifindex);
}

static void query(struct ibv_context *c, unsigned port, int index)
{
	union ibv_gid gid;
	struct ibv_gid_entry entry;

	note("port %u index %d", port, index);
	FILL(gid);
	CALL_INT(ibv_query_gid(c, port, index, &gid));
	print_gid("gid", &gid);
	FILL(entry);
	CALL_INT(ibv_query_gid_ex(c, port, index, &entry, 0));
	print_entry(&entry);
}

static void sizes(struct ibv_context *c)
{
	struct {
		struct ibv_gid_entry entry;
		unsigned char more[32];
	} big;

	static const size_t lengths[] = {0, 4, 16, 24, sizeof(struct ibv_gid_entry) - 4, sizeof(struct ibv_gid_entry) + 8,
					 sizeof(big)};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		const unsigned char *p = (const unsigned char *)&big;
		size_t written = 0;

		FILL(big);
		note("entry size %zu", lengths[i]);
		CALL_INT(_ibv_query_gid_ex(c, PORT, 1, &big.entry, 0, lengths[i]));
		for (size_t k = 0; k < sizeof(big); k++)
			if (p[k] != 0xa5)
				written = k + 1;
		note("    last byte written %zu", written);
	}
}

/* Of the GIDs of the loopback interface, which the software device has and soft-RoCE has not. */
static int is_loopback(const unsigned char *gid)
{
	static const unsigned char v4[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, v6[16] = {[15] = 1};

	return !memcmp(gid, v4, 16) || !memcmp(gid, v6, 16);
}

/* The table without those, for entries of any size, with room for as many entries beside them. */
static ssize_t query_table(struct ibv_context *c, void *entries, size_t room, uint32_t flags, size_t size)
{
	struct ibv_gid_entry all[64];
	unsigned char with_loopback[10 * 64];
	ssize_t there = _ibv_query_gid_table(c, all, 64, 0, sizeof(*all)), n, kept = 0;
	size_t more = 0;

	for (ssize_t i = 0; i < there; i++)
		more += is_loopback(all[i].gid.raw);
	FILL(with_loopback);
	errno = 0;
	n = _ibv_query_gid_table(c, (struct ibv_gid_entry *)with_loopback, room + more, flags, size);
	for (ssize_t i = 0; i < n; i++)
		if (!is_loopback(with_loopback + i * size))
			memcpy((char *)entries + kept++ * size, with_loopback + i * size, size);
	return n < 0 ? n : kept;
}

/* The transcript has the verb that is called. */
#define COUNT_AS(text, call)                                                  \
	({                                                                    \
		long long result_ = (long long)(call);                        \
		int errno_ = errno;                                           \
		say_int(text, result_, errno_, result_ < 0);                  \
		result_;                                                      \
	})

static void table(struct ibv_context *c)
{
	struct ibv_gid_entry entries[8];

	for (size_t room = 0; room <= 4; room++) {
		FILL(entries);
		note("room for %zu entries", room);
		ssize_t n = COUNT_AS("ibv_query_gid_table(c, entries, room, 0)",
				     query_table(c, entries, room, 0, sizeof(*entries)));
		for (ssize_t i = 0; i < n; i++)
			print_entry(&entries[i]);
	}
	FILL(entries);
	CALL_COUNT(ibv_query_gid_table(c, entries, 8, 1));
	CALL_COUNT(ibv_query_gid_table(c, entries, 8, 0x80000000));
	COUNT_AS("_ibv_query_gid_table(c, entries, 4, 0, 16)", query_table(c, entries, 4, 0, 16));
	if (!getenv("CTEST_LEGACY")) /* as in sizes() */
		CALL_COUNT(_ibv_query_gid_table(c, entries, 4, 0, 0));
	FILL(entries);
	if (COUNT_AS("_ibv_query_gid_table(c, entries, 4, 0, 64)", query_table(c, entries, 4, 0, 64)) == 2)
		print_entry((struct ibv_gid_entry *)((char *)entries + 64));
}

int main(void)
{
	begin();
	const char *names[] = {"rxe0", "rxe1"};

	for (int i = 0; i < 2; i++) {
		struct ibv_context *c = open_device(names[i]);
		struct ibv_gid_entry entry;

		note("%s", names[i]);
		query(c, 1, 0);
		query(c, 1, 1);
		query(c, 1, 2);
		query(c, 1, 1023);
		query(c, 1, 1024);
		query(c, 1, -1);
		query(c, 0, 0);
		query(c, 2, 0);
		query(c, 255, 1);
		FILL(entry);
		CALL_INT(ibv_query_gid_ex(c, 257, 1, &entry, 0)); /* the port is 32 bits wide here */
		CALL_INT(ibv_query_gid_ex(c, PORT, 1, &entry, 1));
		CALL_INT(ibv_query_gid_ex(c, PORT, 1, &entry, 0x80000000));
		/* Without the ioctl rdma-core writes a whole entry into whatever size the program has. */
		if (!getenv("CTEST_LEGACY"))
			sizes(c);
		table(c);
		CALL_INT(ibv_close_device(c));
	}
	return end();
}
