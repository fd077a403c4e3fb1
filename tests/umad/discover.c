/*
 * discover.c - what is found in sysfs: names, cards, ports, GUIDs, paths, device lists, and which port is
 * opened.
 *
 *   discover DEBUG-LEVEL [names]     with `names` only these
 */
#include "umad.h"

static void card(const char *name)
{
	umad_ca_t ca;
	__be64 guids[12];
	int result;

	FILL(ca);
	note("card %s", name ?: "NULL");
	if (!CALL_COUNT(umad_get_ca(name, &ca))) {
		print_ca(&ca);
		CALL_INT(umad_release_ca(&ca));
		for (unsigned i = 0; i < UMAD_CA_MAX_PORTS; i++)
			if ((int)i <= ca.numports && ca.ports[i])
				note("    port %u is left", i);
		CALL_INT(umad_release_ca(&ca));
	} else {
		TEXT(ca, ca_name);
		FIELD(ca, numports);
	}
	for (int max = 0; max <= 12; max += 3) {
		FILL(guids);
		errno = 0;
		result = umad_get_ca_portguids(name, guids, max);
		say_int("umad_get_ca_portguids(name, guids, max)", result, errno, result < 0);
		bytes("guids", guids, sizeof guids);
	}
	CALL_COUNT(umad_get_ca_portguids(name, NULL, 0));
	CALL_COUNT(umad_get_ca_portguids(name, guids, -1));
}

static void one_port(const char *name, int number)
{
	umad_port_t port;
	char path[64];
	int fd;

	note("port %d of %s", number, name ?: "NULL");
	FILL(port);
	if (!CALL_COUNT(umad_get_port(name, number, &port))) {
		print_port(&port, true);
		CALL_INT(umad_release_port(&port));
		CHECK(!port.pkeys);
		FIELD(port, pkeys_size);
		CALL_INT(umad_release_port(&port));
	} else {
		print_port(&port, false);
	}
	for (int max = 64; max; max /= 8) {
		FILL(path);
		errno = 0;
		fd = umad_get_issm_path(name, number, path, max);
		say_int("umad_get_issm_path(name, number, path, max)", fd, errno, fd < 0);
		text("path", path, sizeof path);
	}
	errno = 0;
	fd = umad_open_port(name, number);
	say_int("umad_open_port(name, number)", fd < 0 ? fd : 0, errno, fd < 0);
	if (fd >= 0) {
		CHECK(umad_get_fd(fd) == fd);
		FIELD((struct { size_t size; }){umad_size()}, size);
		CALL_COUNT(umad_poll(fd, 0));
		CALL_INT(umad_close_port(fd));
	}
}

static void names(int max)
{
	char cas[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	int count;

	FILL(cas);
	errno = 0;
	count = umad_get_cas_names(cas, max);
	say_int("umad_get_cas_names(cas, max)", count, errno, count < 0);
	/* For less than one, rdma-core writes where the caller gave no room, if there is no folder. */
	for (int i = 0; max > 0 && i <= count && i < UMAD_MAX_DEVICES; i++)
		text("name", cas[i], sizeof cas[i]);
}

static void list(void)
{
	struct umad_device_node *head = CALL_PTR(umad_get_ca_device_list()), *node;
	size_t count = 0;

	for (node = head; node; node = node->next, count++)
		note("    %s", node->ca_name);
	note("sorting %zu", count);
	CALL_COUNT(umad_sort_ca_device_list(&head, count));
	for (node = head; node; node = node->next)
		note("    %s", node->ca_name);
	CALL_COUNT(umad_sort_ca_device_list(&head, 0));
	CALL_COUNT(umad_sort_ca_device_list(&head, 1));
	if (count > 1) {
		CALL_INT(umad_sort_ca_device_list(&head, count + 1));
		CALL_COUNT(umad_sort_ca_device_list(&head, count - 1));
	}
	for (node = head; node; node = node->next)
		note("    %s", node->ca_name);
	CALL_VOID(umad_free_ca_device_list(head));
}

int main(int argc, char **argv)
{
	static const char *const strange[] = {NULL, "", ".", "..", "nothing", "nothing/../mlx4_0",
		"a_name_that_is_longer_than_any_name_that_a_card_can_have", "%s%n", "mlx4_0/", "mthca0"};
	struct umad_device_node *head, *none = NULL;

	begin();
	setvbuf(stderr, NULL, _IOLBF, 0);
	find_kernel();
	CALL_COUNT(umad_debug(argc > 1 ? atoi(argv[1]) : 0));
	CALL_INT(umad_init());
	for (int max = -1; max <= UMAD_MAX_DEVICES; max += max < 2 ? 1 : 10)
		names(max);
	list();
	CALL_INT(umad_sort_ca_device_list(&none, 0));
	CALL_INT(umad_sort_ca_device_list(&none, 3));
	CALL_VOID(umad_free_ca_device_list(NULL));
	if (argc > 2)
		return end();
	for (unsigned i = 0; i < sizeof strange / sizeof *strange; i++) {
		card(strange[i]);
		for (int port = -1; port < 3; port++)
			one_port(strange[i], port);
	}
	head = umad_get_ca_device_list();
	for (struct umad_device_node *node = head; node; node = node->next) {
		card(node->ca_name);
		for (int port = -1; port < 14; port++)
			one_port(node->ca_name, port);
		one_port(node->ca_name, 255);
		one_port(node->ca_name, 0x7fffffff);
	}
	umad_free_ca_device_list(head);
	CALL_INT(umad_done());
	return end();
}
