/*
 * devices.c - every device in the order of the list: is it usable, and whose functions serve it?
 *
 *   devices [brief] [COMMAND...]
 *
 * A device is usable when it opens and gives a port, a protection domain, a memory region, a completion queue and a queue
 * pair. Who serves it is the object file that its poll function lies in: the only answer that cannot be pretended. The last
 * line names the plugins that the process has mapped; `brief` leaves it out. After each command, which may bring or take away
 * devices, they are listed again.
 */
#include <errno.h>

#include "../../ctest/served.h"

static char memory[4096];

/* The plugin's whole path; of the library the name, because the path is what the test chooses. */
static const char *server(const struct ibv_context *context)
{
	const char *path = served_by(context), *name = file_name(path);

	return strncmp(name, "libibverbs.so", 13) == 0 ? name : path;
}

static const char *use(struct ibv_context *context)
{
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;

	if (ibv_query_port(context, 1, &port) || port.state != IBV_PORT_ACTIVE)
		return "no active port";
	if (!(pd = ibv_alloc_pd(context)))
		return "no protection domain";
	if (!(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)))
		return "no memory region";
	if (!(init.send_cq = init.recv_cq = ibv_create_cq(context, 8, NULL, NULL, 0)))
		return "no completion queue";
	if (!(qp = ibv_create_qp(pd, &init)))
		return "no queue pair";
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(init.send_cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		return "an object that stays";
	return "usable";
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* File names, because some plugins are links to libraries with a name of their own. */
static void print_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4352], *names[64];
	int count = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		char *name = strrchr(line, '/');

		if (!name || !strstr(name, "-rdmav34.so") || count == 64)
			continue;
		name[strcspn(name, "\n")] = 0;
		if (!count || strcmp(names[count - 1], name + 1))
			names[count++] = strdup(name + 1);
	}
	if (maps)
		fclose(maps);
	qsort(names, count, sizeof(*names), by_text);
	printf("mapped:");
	for (int i = 0; i < count; i++)
		printf(" %s", names[i]);
	putchar('\n');
}

static void print_devices(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list) {
		printf("no list: %s\n", strerrorname_np(errno));
		exit(1);
	}
	for (int i = 0; i < count; i++) {
		struct ibv_context *context = ibv_open_device(list[i]);

		if (!context) {
			printf("%s: %s\n", ibv_get_device_name(list[i]), strerrorname_np(errno));
			continue;
		}
		printf("%s: %s, served by %s\n", ibv_get_device_name(list[i]), use(context), server(context));
		ibv_close_device(context);
	}
	ibv_free_device_list(list);
}

int main(int argc, char **argv)
{
	int brief = argc > 1 && !strcmp(argv[1], "brief");

	print_devices();
	for (int i = 1 + brief; i < argc; i++) {
		fflush(stdout);
		if (system(argv[i])) {
			printf("failed: %s\n", argv[i]);
			return 1;
		}
		printf("after %s:\n", argv[i]);
		print_devices();
	}
	if (!brief)
		print_mapped();
	return 0;
}
