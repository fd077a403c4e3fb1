/*
 * small.c - what small operations of two processes cost that programs of others do not measure.
 *
 *   small turn COUNT         microseconds of half a round trip: 8 bytes by each of COUNT connections in turn, of one queue
 *   small empty COUNT        nanoseconds of a poll that finds nothing, of the queue of COUNT connections
 *   small write own|shared   microseconds of half a round trip: each side writes 8 bytes into the other's memory, which is
 *                            its own or shared by both, and looks at its own
 *   small post SIZE LIST     millions of messages in a second, posted LIST at once: 1, 2, 4, 8, 16 or 32
 *
 * Each is the median of batches, the two sides on the first two processors.
 */
#include <sys/prctl.h>

#include "connections.h"
#include "measured.h"

enum { BATCHES = 201, TRIPS = 100, DEPTH = 4, SIZE = 8, PAGE = 4096, HANGS_S = 60 };
/* At every 64th poll in vain a poller may give way to others: most batches have none of these calls. */
enum { BATCHES_OF_POLLS = 2001, POLLS = 16 };
/* Of `post`: a completion for each 32 messages, of which few are waited for; batches take a part of a millisecond. */
enum { SIGNAL = 32, UNFINISHED = 4, SENDS = SIGNAL * (UNFINISHED + 2), RECEIVES = 512 };
enum { SHORT_SIZE = 256, SHORT_ONES = 4096, LONG_ONES = 128 };

static int s, side, count, list;
static uint32_t size = SIZE;
static unsigned int posted, completed, received;
static unsigned char *page; /* what the other side writes to, and behind `source` what it gets */
static size_t length = PAGE, source = PAGE / 2;
static struct ibv_mr *mr;
static double took;

static void poll_once(void)
{
	struct ibv_wc wc;
	int found = ibv_poll_cq(cq, 1, &wc);

	if (found < 0 || (found && wc.status))
		fail("poll: %d, status %d", found, found > 0 ? (int)wc.status : 0);
	if (found && wc.opcode == IBV_WC_RECV)
		received++;
	else if (found)
		completed++;
}

static void post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	struct ibv_sge sge = {(uintptr_t)page + source, size, mr->lkey};
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(qp, &wr, &bad))
		fail("post");
	posted++;
}

static void receive(struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)page, size, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		fail("receive");
}

static void open_memory(bool shared)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	if (!shared)
		page = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = page == MAP_FAILED ? NULL : ibv_reg_mr(pd, page, length, access);
	if (!mr)
		fail("memory");
}

/* Nanoseconds that a call takes, into `took`: the median of batches, which follow as many to warm up. */
static void in_batches(int batches, int calls, void (*call)(void))
{
	double *batch = calloc((size_t)batches, sizeof(*batch));

	if (!batch)
		fail("memory");
	for (int i = 0; i < 2 * batches; i++) {
		double start = now();

		for (int j = 0; j < calls; j++)
			call();
		batch[i % batches] = (now() - start) / calls;
	}
	took = median(batch, batches);
	free(batch);
}

/* Side 0 sends, side 1 answers, by the next connection each time. */
static void send_in_turn(void)
{
	static int next;
	struct ibv_qp *qp = pair[next].qp;
	unsigned int before = received;

	next = next + 1 < count ? next + 1 : 0;
	if (!side)
		post(qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND});
	while (received == before)
		poll_once();
	receive(qp);
	if (side)
		post(qp, (struct ibv_send_wr){.opcode = IBV_WR_SEND});
	while (posted - completed >= DEPTH)
		poll_once();
}

static void connect_pairs(void)
{
	open_side(2 * DEPTH * count);
	open_memory(false);
	create(count, DEPTH, DEPTH);
	connect_all(s, count);
	for (int i = 0; i < count; i++)
		receive(pair[i].qp);
	if (!meet(s))
		fail("the peer is gone");
	for (int i = 0; i < count; i++)
		send_in_turn();
}

static void poll_nothing(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc))
		fail("a completion of nothing");
}

static struct peer other;

static void write_and_look(void)
{
	static uint64_t written;
	volatile uint64_t *seen = (volatile uint64_t *)page;

	written++;
	while (side && *seen != written)
		;
	memcpy(page + source, &written, sizeof(written));
	post(pair[0].qp, (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {other.address, other.rkey}});
	while (posted != completed)
		poll_once();
	while (!side && *seen != written)
		;
}

/* Before the fork, so that both have the same memory; each takes a page of it. */
static void share_memory(void)
{
	int fd = memfd_create("small", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 2 * PAGE))
		fail("shared memory: %s", errno_name(errno));
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

static void post_list(void)
{
	static struct ibv_send_wr wr[SIGNAL];
	static struct ibv_sge sge;
	static int sent;
	struct ibv_send_wr *bad;

	if (!sent) {
		sge = (struct ibv_sge){(uintptr_t)page + source, size, mr->lkey};
		for (int i = 0; i < list; i++)
			wr[i] = (struct ibv_send_wr){.next = i + 1 < list ? &wr[i + 1] : NULL,
						     .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	}
	sent += list;
	wr[list - 1].send_flags = sent % SIGNAL ? 0 : IBV_SEND_SIGNALED;
	if (ibv_post_send(pair[0].qp, wr, &bad))
		fail("post");
	posted += sent % SIGNAL == 0;
	while (posted - completed > UNFINISHED)
		poll_once();
}

static void post_lists(void)
{
	int lists = (size > SHORT_SIZE ? LONG_ONES : SHORT_ONES) / list;
	unsigned int again = 0;

	length = (2 * (size_t)size + PAGE - 1) / PAGE * PAGE;
	source = length / 2;
	open_side(SENDS + RECEIVES);
	open_memory(false);
	memset(page, 1, length);
	create(1, SENDS, RECEIVES);
	connect_all(s, 1);
	for (int i = 0; i < RECEIVES && side; i++)
		receive(pair[0].qp);
	meet(s);
	if (!side)
		in_batches(BATCHES, lists, post_list);
	while (side && received < 2u * BATCHES * (unsigned int)(lists * list)) {
		poll_once();
		for (; again < received; again++)
			receive(pair[0].qp);
	}
}

static void measure(const char *kind, bool shared)
{
	if (!strcmp(kind, "write")) {
		struct peer own;

		open_side(2 * DEPTH);
		open_memory(shared);
		create(1, DEPTH, DEPTH);
		connect_all(s, 1);
		own = (struct peer){.address = (uintptr_t)page, .rkey = mr->rkey};
		if (!swap(s, &own, &other, sizeof(own)))
			fail("the peer is gone");
		in_batches(BATCHES, TRIPS, write_and_look);
	} else if (!strcmp(kind, "post")) {
		post_lists();
		took = list * 1e3 / took;
		if (!side)
			printf("%.4f\n", took);
		return;
	} else {
		connect_pairs();
		if (!strcmp(kind, "turn")) {
			in_batches(BATCHES, TRIPS, send_in_turn);
		} else {
			while (posted != completed)
				poll_once();
			meet(s);
			if (!side)
				in_batches(BATCHES_OF_POLLS, POLLS, poll_nothing);
		}
	}
	if (!side)
		printf("%.3f\n", strcmp(kind, "empty") ? took / 2e3 : took);
}

/* What the command line says; false for what nobody can measure. */
static bool understood(int argc, char **argv, bool *shared)
{
	if (argc < 3)
		return false;
	count = atoi(argv[2]);
	if (!strcmp(argv[1], "post")) {
		size = (uint32_t)count;
		list = argc == 4 ? atoi(argv[3]) : 0;
		return count > 0 && list > 0 && SIGNAL % list == 0;
	}
	if (!strcmp(argv[1], "write")) {
		*shared = !strcmp(argv[2], "shared");
		return argc == 3 && (*shared || !strcmp(argv[2], "own"));
	}
	return argc == 3 && count > 0 && count <= MOST && (!strcmp(argv[1], "turn") || !strcmp(argv[1], "empty"));
}

int main(int argc, char **argv)
{
	int sockets[2], status = 0;
	bool shared = false;
	pid_t child;

	if (!understood(argc, argv, &shared))
		fail("usage: small turn COUNT | empty COUNT | write own|shared | post SIZE 1|2|4|8|16|32");
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	if (shared)
		share_memory();
	child = fork();
	side = !child;
	s = sockets[side];
	close(sockets[!side]);
	if (side && shared)
		page += PAGE;
	if (side)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(HANGS_S);
	settle(side);
	measure(argv[1], shared);
	meet(s);
	if (side)
		_exit(0);
	waitpid(child, &status, 0);
	return status != 0;
}
