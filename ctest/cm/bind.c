/*
 * bind.c - to which addresses and ports an identifier can be bound, and which ports two may share.
 */
#include "cm.h"

static struct rdma_event_channel *channel;

static void addresses(void)
{
	static const char *all[] = {"0.0.0.0", "::", HERE, THERE, "127.0.0.1", "127.1.2.3", "::1", "fd77::1", "fd77::2",
				    "fe80::ff:fe00:1%v0", "fe80::ff:fe00:1", "fe80::ff:fe00:1%v1", "10.77.0.9", "192.0.2.1",
				    "239.1.2.3", "255.255.255.255", "ff0e::1", "fd77::9", "::ffff:10.77.0.1"};
	static const int ports[] = {0, 7471, 1023, 1};
	struct rdma_cm_id *id;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (size_t j = 0; j < sizeof(ports) / sizeof(*ports); j++) {
			if (j > 1 && i > 1)
				continue; /* the port is looked at after the address */
			note("address %s port %d", all[i], ports[j]);
			id = make_id(channel, "id", RDMA_PS_TCP);
			if (CALL_INT(rdma_bind_addr(id, at(all[i], ports[j]))) == 0) {
				show_id("id", id);
				CALL_INT(rdma_bind_addr(id, at(all[i], ports[j])));
				CALL_INT(rdma_bind_addr(id, at(all[i], 7472)));
			}
			CALL_INT(rdma_destroy_id(id));
		}
}

static void families(void)
{
	struct sockaddr_storage other = {.ss_family = AF_UNIX};
	struct sockaddr_ib ib = {.sib_family = AF_IB};
	static const int spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB};
	struct rdma_cm_id *id;

	for (int i = 0; i < 4; i++) {
		note("port space 0x%x", spaces[i]);
		id = make_id(channel, "id", spaces[i]);
		CALL_INT(rdma_bind_addr(id, (struct sockaddr *)&other));
		other.ss_family = AF_UNSPEC;
		CALL_INT(rdma_bind_addr(id, (struct sockaddr *)&other));
		other.ss_family = AF_UNIX;
		if (CALL_INT(rdma_bind_addr(id, at(HERE, 7471))) == 0)
			show_id("id", id);
		CALL_INT(rdma_destroy_id(id));
		id = make_id(channel, "id", spaces[i]);
		ib.sib_sid = htobe64((uint64_t)spaces[i] << 16);
		ib.sib_sid_mask = htobe64(0xffffffffffff0000ULL);
		if (CALL_INT(rdma_bind_addr(id, (struct sockaddr *)&ib)) == 0)
			note("    family %d", rdma_get_local_addr(id)->sa_family);
		CALL_INT(rdma_destroy_id(id));
	}
}

/* Two identifiers with options and addresses; the second answers what the first lets it. */
static void conflict(const char *first, int reuse1, int only1, const char *second, int reuse2, int only2, int space2)
{
	struct rdma_cm_id *one = make_id(channel, "one", RDMA_PS_TCP), *two = make_id(channel, "two", space2);

	note("%s reuse %d only %d, then %s reuse %d only %d space 0x%x", first, reuse1, only1, second, reuse2, only2, space2);
	if (reuse1)
		CALL_INT(rdma_set_option(one, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse1, sizeof(reuse1)));
	if (only1 >= 0)
		CALL_INT(rdma_set_option(one, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only1, sizeof(only1)));
	if (reuse2)
		CALL_INT(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse2, sizeof(reuse2)));
	if (only2 >= 0)
		CALL_INT(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only2, sizeof(only2)));
	CALL_INT(rdma_bind_addr(one, at(first, 7471)));
	if (CALL_INT(rdma_bind_addr(two, at(second, 7471))) == 0) {
		CALL_INT(rdma_listen(two, 1));
		CALL_INT(rdma_listen(one, 1));
	} else {
		CALL_INT(rdma_listen(one, 1));
		CALL_INT(rdma_bind_addr(two, at(second, 7472)));
	}
	CALL_INT(rdma_destroy_id(one));
	CALL_INT(rdma_destroy_id(two));
}

static void conflicts(void)
{
	static const char *all[] = {"0.0.0.0", "::", HERE, THERE, "fd77::1", "127.0.0.1", "::1"};

	for (int i = 0; i < 7; i++)
		for (int j = 0; j < 7; j++)
			for (int reuse = 0; reuse < 4; reuse++)
				if (reuse == 0 || reuse == 3 || (i == j && i < 3))
					conflict(all[i], reuse & 1, -1, all[j], reuse >> 1, -1, RDMA_PS_TCP);
	for (int only = 0; only < 4; only++) {
		conflict("::", 0, only & 1, "0.0.0.0", 0, only >> 1, RDMA_PS_TCP);
		conflict("0.0.0.0", 0, only & 1, "::", 0, only >> 1, RDMA_PS_TCP);
		conflict(HERE, 0, only & 1, "::", 0, only >> 1, RDMA_PS_TCP);
	}
	conflict(HERE, 0, -1, HERE, 0, -1, RDMA_PS_UDP);
}

static void listening(void)
{
	struct rdma_cm_id *id = make_id(channel, "id", RDMA_PS_TCP);

	note("listening without an address");
	CALL_INT(rdma_listen(id, 0));
	show_id("id", id);
	CALL_INT(rdma_listen(id, 1));
	CALL_INT(rdma_bind_addr(id, at(HERE, 7471)));
	CALL_INT(rdma_resolve_addr(id, NULL, at(HERE, 7471), 1000));
	CALL_INT(rdma_destroy_id(id));
	for (int backlog = -1; backlog < 3; backlog++) {
		id = make_id(channel, "id", RDMA_PS_TCP);
		CALL_INT(rdma_bind_addr(id, at(HERE, 7471)));
		note("backlog %d", backlog);
		CALL_INT(rdma_listen(id, backlog));
		show_id("id", id);
		CALL_INT(rdma_destroy_id(id));
	}
}

int main(void)
{
	begin();
	channel = make_channel();
	addresses();
	families();
	conflicts();
	listening();
	rdma_destroy_event_channel(channel);
	return end();
}
