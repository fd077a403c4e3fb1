/*
 * traffic.c - what agents send and receive: sizes, responses, time-outs, tables in many segments, buffers that
 * are too
 * short, requests between two agents, and files that are closed or whose device goes away.
 *
 *   traffic DEBUG-LEVEL CARD PORT [SERVER-CARD SERVER-PORT GID]
 *
 * On a real kernel, requests go to the server's port by its GID; else to nodes of the played fabric.
 */
#include "mads.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

static const char *card, *server_card;
static int port, server_port;
static bool played;

/* How long an answer may take, in milliseconds: a real kernel always gives one. */
#define WITHIN(ms) (played ? (ms) : 3000)
/* How long to wait for what a send may bring: nothing comes of one that failed. */
#define AFTER(sent, ms) ((sent) ? 10 : (ms))

static void nodes(int fd, int agent)
{
	for (unsigned behaviour = 0; behaviour < 8; behaviour++) {
		note("node 0x%02x05", behaviour);
		request(PERF, GET, 0x12, 1, 0x100 + behaviour, behaviour << 8 | 5);
		if (!give(fd, agent, 256, WITHIN(40), behaviour == 5))
			take(fd, 256, 5000);
	}
	/* What nobody answers. */
	request(PERF, 3, 0x12, 1, 0x180, 0x105);
	if (!give(fd, agent, 256, 40, 1))
		take(fd, 256, 5000);
	request(PERF, GET, 0x12, 1, 0x200, 5);
	give(fd, agent, 256, 0, 0);
	take(fd, 256, 20);
}

static void waits(int fd, int agent)
{
	int sent;

	request(PERF, SET, 0x12, 1, 0x300, 0x105);
	take(fd, 256, 0);
	take(fd, 256, 1);
	CALL_COUNT(umad_poll(fd, 1));
	sent = give(fd, agent, 256, 30, 2);
	take(fd, 256, 0);
	take(fd, 256, 5);
	CALL_COUNT(umad_poll(fd, 5));
	CALL_COUNT(umad_poll(fd, AFTER(sent, 1000)));
	take(fd, 256, 0);
	CALL_COUNT(umad_status(incoming));
	if (!give(fd, agent, 256, 1, 0) && !umad_poll(fd, 1000))
		take(fd, 256, -1);
	/* The same transaction again, while the first waits. */
	sent = give(fd, agent, 256, 30, 0);
	give(fd, agent, 256, 30, 0);
	take(fd, 256, AFTER(sent, 1000));
	take(fd, 256, 60);
}

static void sizes(int fd, int agent)
{
	static const int lengths[] = {-65, -64, -1, 0, 1, 23, 24, 35, 36, 37, 55, 56, 64, 255, 256, 257, 300, 4096, 65536};
	static const int rooms[] = {-1, 0, 1, 23, 24, 100, 255};
	static const int agents[] = {-1, 1, 31, 32, 0x7fffffff};
	int sent;

	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		request(PERF, GET, 0x12, 1, 0x400 + i, 5);
		/* One that is as much too short as the header is long is not sent, though no error comes of it. */
		if (!give(fd, agent, lengths[i], WITHIN(20), 0))
			take(fd, 256, lengths[i] < 0 ? 10 : 5000);
	}
	for (unsigned i = 0; i < sizeof agents / sizeof *agents; i++) {
		request(PERF, GET, 0x12, 1, 0x500 + i, 5);
		give(fd, agents[i], 256, 20, 0);
	}
	/* One that comes back shorter, with every room. */
	request(PERF, 3, 0x12, 1, 0x600, 0x105);
	sent = give(fd, agent, 256, 1, 0);
	CALL_COUNT(umad_poll(fd, AFTER(sent, 5000)));
	for (unsigned i = 0; i < sizeof rooms / sizeof *rooms; i++)
		if (take(fd, rooms[i], 10) >= 0)
			break;
	if (played) {
		request(PERF, GET, 0x12, 1, 0x601, 5);
		give(fd, agent, 256, 1000, 0);
		for (unsigned i = 0; i < sizeof rooms / sizeof *rooms; i++)
			take(fd, rooms[i], 10);
		take(fd, 1000, 10);
	}
	errno = 0;
	CALL_COUNT(umad_recv(fd, NULL, (int[]){256}, 0));
	CALL_COUNT(umad_recv(fd, incoming, NULL, 0));
	CALL_COUNT(umad_recv(-1, incoming, (int[]){256}, 0));
	CALL_COUNT(umad_recv(-1, incoming, (int[]){256}, 10));
	CALL_COUNT(umad_send(-1, 0, outgoing, 256, 0, 0));
}

/* Tables of the subnet administrator, with RMPP by the kernel and without. */
static void tables(int fd)
{
	static const unsigned data[] = {0, 1, 100, 199, 200, 201, 400, 1000, 20000};
	int agent = CALL_COUNT(umad_register(fd, SA, 2, 1, NULL)), plain = CALL_COUNT(umad_register(fd, SA, 2, 0, NULL)), sent;

	for (unsigned i = 0; i < sizeof data / sizeof *data; i++) {
		request(SA, GET_TABLE, 0x11, data[i], 0x700 + i, 1);
		sent = give(fd, agent, 256, 1000, 0);
		CALL_COUNT(umad_poll(fd, AFTER(sent, 1000)));
		for (int room = 200; room < 100000; room *= 3)
			if (take(fd, room, 10) >= 0)
				break;
		request(SA, GET_TABLE, 0x11, data[i], 0x780 + i, 1);
		sent = give(fd, plain, 256, 1000, 0);
		take(fd, 256, AFTER(sent, 1000));
	}
	/* The other direction. */
	for (unsigned i = 0; i < sizeof data / sizeof *data; i++)
		for (unsigned active = 0; active < 2; active++) {
			uint8_t *mad = request(SA, GET, 0x11, 0, 0x800 + 2 * i + active, 1);

			mad[24] = 1;
			mad[25] = 1;
			mad[26] = active;
			if (!give(fd, agent, 56 + data[i], 1000, 0))
				take(fd, 256, 1000);
			if (!give(fd, plain, 56 + data[i], 1000, 0))
				take(fd, 256, 1000);
		}
	CALL_COUNT(umad_unregister(fd, agent));
	CALL_COUNT(umad_unregister(fd, plain));
}

/* Subnet management on queue pair 0: Ethernet has none. */
static void subnet(int fd)
{
	int routed = CALL_COUNT(umad_register(fd, SUBN, 1, 0, NULL)), direct = CALL_COUNT(umad_register(fd, DIRECT, 1, 0, NULL));
	struct umad_reg_attr attr = {.mgmt_class = DIRECT, .mgmt_class_version = 1, .method_mask = {1ull << 5}};
	uint32_t id = 55;

	CALL_INT(umad_register2(fd, &attr, &id));
	if (played && routed >= 0) {
		for (unsigned attribute = 0x10; attribute < 0x1c; attribute++) {
			request(SUBN, GET, attribute, 1, 0x900 + attribute, 5);
			give(fd, routed, 256, 1000, 0);
			take(fd, 256, 1000);
			request(DIRECT, GET, attribute, 0, 0x980 + attribute, 0xffff);
			give(fd, direct, 256, 1000, 0);
			take(fd, 256, 1000);
		}
		/* A trap, that nobody asked for. */
		request(DIRECT, 5, 2, 0, 0xa00, 0xffff);
		kernel_receive(0, outgoing, umad_get_mad(outgoing), 256);
		take(fd, 256, 1000);
		request(SUBN, 5, 2, 0, 0xa01, 0xffff);
		kernel_receive(0, outgoing, umad_get_mad(outgoing), 256);
		take(fd, 256, 20);
	}
	umad_unregister(fd, routed);
	umad_unregister(fd, direct);
	umad_unregister(fd, id);
}

/* A request from one agent to another, and its response. */
static void talk(int fd)
{
	long methods[16 / sizeof(long)] = {2};
	uint8_t oui[3] = {0, 0x14, 5}, *mad;
	int server = played ? fd : umad_open_port(server_card, server_port), client, agent, length = 256, sent;

	agent = CALL_COUNT(umad_register_oui(server, VENDOR, 1, oui, methods));
	client = CALL_COUNT(umad_register_oui(fd, VENDOR, 1, oui, NULL));
	for (unsigned key = 0; key < (played ? 4 : 3); key++) {
		request(VENDOR, GET, 0x20, 9, 0xb00 + key, played ? 3 : 0);
		CALL_INT(umad_set_pkey(outgoing, key == 1 ? 0 : key == 3 ? 0xffff : (int)key));
		if (give(fd, client, 256, WITHIN(1000), 0))
			continue;
		if (take(server, 256, 2000) != agent) {
			take(fd, 256, WITHIN(50));
			continue;
		}
		memcpy(outgoing, incoming, sizeof incoming);
		mad = umad_get_mad(outgoing);
		mad[3] |= 0x80;
		mad[100] = 0x99;
		umad_set_grh(outgoing, NULL);
		if (destination.routed) {
			struct ib_mad_addr *from = umad_get_mad_addr(incoming), route = *from;

			umad_set_grh(outgoing, &route);
		}
		give(server, agent, length, 0, 0);
		take(fd, 256, 5000);
	}
	CALL_COUNT(umad_unregister(server, agent));
	/* Nobody serves. */
	request(VENDOR, GET, 0x20, 9, 0xc00, played ? 3 : 0);
	sent = give(fd, client, 256, WITHIN(30), 0);
	take(fd, 256, AFTER(sent, 5000));
	/* The agent goes before the answer comes. */
	request(VENDOR, 3, 0x20, 9, 0xc01, played ? 3 : 0);
	give(fd, client, 256, 30, 0);
	CALL_COUNT(umad_unregister(fd, client));
	take(fd, 256, 60);
	if (!played)
		CALL_INT(umad_close_port(server));
}

/* What a kernel would not say. */
static void strange(int fd, int agent)
{
	static const struct { long result; int error; } answers[] = {
		{0, 0}, {1, 0}, {5, 0}, {56, 0}, {63, 0}, {64, 0}, {65, 0}, {319, 0}, {320, 0}, {321, 0}, {5000, 0},
		{0x7fffffff, 0}, {-11, 0}, {-5, 0}, {-1, 0}, {-1, EAGAIN}, {-1, EINTR}, {-1, EIO}, {-1, EFAULT}, {-1, ENODEV},
		{-1, ENOSPC}, {-1, EINVAL},
	};

	/* Nothing waits, so that it does not matter whether a library polls before it reads. */
	while (take(fd, ROOM, 10) >= 0)
		;
	for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
		note("answer %ld %s", answers[i].result, errno_name(answers[i].error));
		kernel_answer("read", answers[i].result, answers[i].error);
		take(fd, 256, 0);
		kernel_answer("read", answers[i].result, answers[i].error);
		take(fd, 0, 0);
		request(PERF, GET, 0x12, 1, 0xd00 + i, 5);
		kernel_answer("write", answers[i].result, answers[i].error);
		give(fd, agent, 256, 10, 0);
		kernel_answer("poll", answers[i].result, answers[i].error);
		take(fd, 256, 10);
		kernel_answer("poll", answers[i].result, answers[i].error);
		CALL_COUNT(umad_poll(fd, 10));
	}
}

static int waiting_ms;
static volatile pid_t waiter;

static void *waiting(void *fd)
{
	waiter = gettid();
	take(*(int *)fd, 256, waiting_ms);
	return NULL;
}

/* A thread that waits for a datagram; when this returns, it sleeps. */
static pthread_t wait_at(int *fd, int ms)
{
	pthread_t thread;

	waiter = 0;
	waiting_ms = ms;
	if (pthread_create(&thread, NULL, waiting, fd))
		die("no thread");
	until_it_waits(&waiter);
	return thread;
}

/* A file is closed while a thread waits at it. */
static void close_under_thread(void)
{
	int fd = umad_open_port(card, port);
	int ms = played ? 300 : 3000;
	pthread_t thread = wait_at(&fd, ms);

	CALL_INT(umad_close_port(fd));
	if (played)
		kernel_pass(ms);
	pthread_join(thread, NULL);
}

/* One process has the file by which the port says that it is a subnet manager. */
static void manager(void)
{
	char path[64];
	int first, second, status, begins[2];
	pid_t child;
	char byte = 0;

	if (CALL_COUNT(umad_get_issm_path(card, port, path, sizeof path)))
		return;
	note("    %s", path);
	first = open(path, O_NONBLOCK);
	note("first %d", first >= 0);
	errno = 0;
	second = open(path, O_NONBLOCK);
	note("second %d %s", second >= 0, errno_name(errno));
	/* soft-RoCE of newer kernels has no such capability: there is nothing to wait for. */
	if (first < 0)
		return;
	fflush(stdout);
	if (pipe(begins))
		die("no pipe");
	child = fork();
	if (!child) {
		alarm(100);
		close(first);
		if (write(begins[1], &byte, 1) != 1)
			_exit(2);
		_exit(open(path, 0) >= 0 ? 7 : 1);    /* and ends without closing */
	}
	if (read(begins[0], &byte, 1) != 1)
		die("no child");
	until_it_waits(&child);
	close(begins[0]);
	close(begins[1]);
	note("child waits %d", waitpid(child, &status, WNOHANG) == 0);
	close(first);
	waitpid(child, &status, 0);
	note("child had it %d", WIFEXITED(status) && WEXITSTATUS(status) == 7);
	first = open(path, O_NONBLOCK);
	note("again %d", first >= 0);
	close(first);
}

/* How many GIDs the first soft-RoCE device of the guest has, where its port is up and its file of user_mad there; else 0. */
static int gids(void)
{
	FILE *said = popen("cd /sys/class/infiniband/rxe0/ports/1 2> /dev/null && grep -q ACTIVE state && "
			   "umad=$(grep -lx rxe0 /sys/class/infiniband_mad/umad*/ibdev) && umad=${umad%/ibdev} && "
			   "[ -c /dev/infiniband/${umad##*/} ] && cat gids/* 2> /dev/null | grep -c '[1-9a-f]'", "r");
	int found = 0;

	if (!said || fscanf(said, "%d", &found) != 1)
		found = 0;
	if (said)
		pclose(said);
	return found;
}

/* Takes that device out, and puts it in again. */
static void plug(unsigned number, bool in)
{
	static int before;

	(void)number;
	fflush(stdout);
	before = in ? before : gids();
	if (system(in ? "rdma link add rxe0 type rxe netdev v0" : "rdma link delete rxe0"))
		die("rdma link");
	while (in && gids() != before)
		usleep(10000);
}

/* The device goes away, and comes again. */
static void unplug(void)
{
	int fd = umad_open_port(card, port), agent = umad_register(fd, PERF, 1, 0, NULL), again;
	pthread_t thread = wait_at(&fd, 100000);

	kernel_plug(port - 1, false);
	pthread_join(thread, NULL);
	CALL_COUNT(umad_poll(fd, 10));
	take(fd, 256, 0);
	take(fd, 256, 10);
	request(PERF, GET, 0x12, 1, 0xe00, 5);
	give(fd, agent, 256, 10, 0);
	CALL_COUNT(umad_register(fd, PERF, 1, 0, NULL));
	CALL_COUNT(umad_unregister(fd, agent));
	CALL_COUNT(umad_open_port(card, port));
	CALL_COUNT(umad_open_port(card, 0));
	kernel_plug(port - 1, true);
	again = umad_open_port(card, port);
	note("open again %d", again >= 0);
	take(fd, 256, 0);
	CALL_INT(umad_close_port(fd));
	agent = CALL_COUNT(umad_register(again, PERF, 1, 0, NULL));
	give(again, agent, 256, 1000, 0);
	take(again, 256, 1000);
	CALL_INT(umad_close_port(again));
}

int main(int argc, char **argv)
{
	int fd, agent;

	if (argc != 4 && argc != 7)
		return 2;
	begin();
	find_kernel();
	played = kernel_answer != NULL;
	card = server_card = argv[2];
	port = server_port = atoi(argv[3]);
	if (argc == 7) {
		server_card = argv[4];
		server_port = atoi(argv[5]);
		destination.routed = true;
		for (unsigned i = 0; i < 16; i++)
			sscanf(argv[6] + 2 * i, "%2hhx", &destination.gid[i]);
	}
	CALL_COUNT(umad_debug(atoi(argv[1])));
	fd = umad_open_port(card, port);
	note("opened %d, size %zu", fd >= 0, umad_size());
	agent = CALL_COUNT(umad_register(fd, PERF, 1, 0, NULL));
	nodes(fd, agent);
	if (played)
		waits(fd, agent);
	sizes(fd, agent);
	subnet(fd);
	if (played)
		tables(fd);
	talk(fd);
	if (played)
		strange(fd, agent);
	CALL_INT(umad_close_port(fd));
	CALL_COUNT(umad_close_port(fd));
	close_under_thread();
	manager();
	if (!played)
		kernel_plug = plug;
	unplug();
	return end();
}
