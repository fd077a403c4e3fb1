/*
 * newer.c - the functions that rdma-core 65 has and 44 has not, and what a library of 65 finds of more cards
 * than 44
 * looks at. Compared with a library of that version.
 */
#include "umad.h"

/* As rdma-core 65 declares them. */
struct umad_ca_pair {
	char smi_name[UMAD_CA_NAME_LEN];
	uint32_t smi_preferred_port;
	char gsi_name[UMAD_CA_NAME_LEN];
	uint32_t gsi_preferred_port;
};
int umad_open_smi_port(const char *name, int port);
int umad_get_smi_gsi_pairs(struct umad_ca_pair pairs[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *name, uint8_t port, struct umad_ca_pair *pair, unsigned enforce_smi);

static void print_pair(const struct umad_ca_pair *pair)
{
	TEXT(*pair, smi_name);
	FIELD(*pair, smi_preferred_port);
	TEXT(*pair, gsi_name);
	FIELD(*pair, gsi_preferred_port);
}

static void ask(const char *name)
{
	struct umad_ca_pair pair;
	int result;

	for (int port = -1; port < 4; port++) {
		errno = 0;
		result = umad_open_smi_port(name, port);
		printf("umad_open_smi_port(%s, %d) = %d, errno %s\n", name ?: "NULL", port, result < 0 ? result : 0,
		       errno_name(errno));
		umad_close_port(result);
		/* A port number past the room for ports is read outside of it. */
		for (unsigned smi = 0; port >= 0 && smi < 2; smi++) {
			FILL(pair);
			errno = 0;
			result = umad_get_smi_gsi_pair_by_ca_name(name, port, &pair, smi);
			printf("umad_get_smi_gsi_pair_by_ca_name(%s, %d, &pair, %u) = %d, errno %s\n", name ?: "NULL", port, smi,
			       result, errno_name(errno));
			print_pair(&pair);
		}
	}
	CALL_COUNT(umad_get_smi_gsi_pair_by_ca_name(name, 0, NULL, 0));
}

int main(int argc, char **argv)
{
	static struct umad_ca_pair pairs[200];
	static char names[200][UMAD_CA_NAME_LEN];
	struct umad_device_node *list;
	int count;

	begin();
	find_kernel();
	CALL_COUNT(umad_debug(argc > 1 ? atoi(argv[1]) : 0));
	for (size_t max = 0; max < 200; max += max < 4 ? 1 : 65) {
		FILL(pairs);
		errno = 0;
		count = umad_get_smi_gsi_pairs(pairs, max);
		printf("umad_get_smi_gsi_pairs(pairs, %zu) = %d, errno %s\n", max, count, errno_name(errno));
		for (int i = 0; i <= count && i < 200; i++)
			print_pair(&pairs[i]);
	}
	count = umad_get_cas_names(names, 200);
	note("%d names", count);
	ask(NULL);
	ask("nothing");
	list = umad_get_ca_device_list();
	umad_sort_ca_device_list(&list, 0);
	for (struct umad_device_node *node = list; node; node = node->next)
		ask(node->ca_name);
	umad_free_ca_device_list(list);
	return end();
}
