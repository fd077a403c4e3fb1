/*
 * killed.c ROUNDS [SEED] - the peer is killed at any moment, and the survivor goes on as after a cable was cut.
 *
 * In each round two processes load two RC queue pairs and a UC one in both directions with sends, writes, reads and
 * atomics; one of them gets SIGKILL at a random moment, also while it opens the device or connects. The survivor must get
 * IBV_WC_RETRY_EXC_ERR for one request of each RC queue pair within its time-out and flush errors for those behind it, a
 * completion for every request, and what it received until then must be whole and in order. In every second round it
 * sleeps on its completion channel instead of polling.
 */
#include "peer.h"

#define PAIRS 3 /* the last one is UC */
#define DEPTH 16
#define RECEIVES 32
#define SIZE 16384
#define TIMEOUT 12   /* 16.8 ms */
#define RETRIES 2
#define LIMIT_MS 5000 /* three time-outs of up to 67 ms each, on a machine that is busy with other things */

/* Shared by the processes of a round and their parent. */
static struct {
	volatile uint64_t killed_at; /* ms; 0: not yet */
	volatile int loading;        /* processes that are past connecting */
	volatile uint64_t received;
	volatile uint64_t posted;
} *shared;

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

/* One message: its number, its length and bytes that follow from both. */
static void write_message(unsigned char *p, uint64_t number, uint32_t length)
{
	memcpy(p, &number, 8);
	memcpy(p + 8, &length, 4);
	pattern(p + 12, length - 12, (unsigned)number);
}

static void check_message(const unsigned char *p, uint32_t length, uint64_t *next, bool in_order)
{
	static unsigned char want[SIZE];
	uint64_t number;

	memcpy(&number, p, 8);
	if (in_order ? number != *next : number < *next)
		fail("message %lu received, %lu expected", number, *next);
	write_message(want, number, length);
	if (memcmp(p, want, length))
		fail("message %lu of %u bytes is damaged", number, length);
	*next = number + 1;
}

struct pair {
	struct ibv_qp *qp;
	bool reliable, broken;
	uint64_t posted, completed, next_sent, next_received;
	enum ibv_wr_opcode opcode[DEPTH];
	unsigned char *send, *receive, *target;
};

static struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	unsigned char *memory;
	struct pair pair[PAIRS];
	struct peer peer;
} s;

#define PER_PAIR ((DEPTH + RECEIVES + 1) * (size_t)SIZE)
#define RECEIVE (1ULL << 63)

static void receive(int p, int slot)
{
	struct ibv_sge sge = {(uintptr_t)s.pair[p].receive + (size_t)slot * SIZE, SIZE, s.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECEIVE | (uint64_t)p << 32 | (unsigned)slot, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(s.pair[p].qp, &wr, &bad))
		fail("posting a receive");
}

static void open_side(void)
{
	struct endpoint names = {0};

	s.context = open_device("rxe0");
	s.pd = ibv_alloc_pd(s.context);
	s.channel = ibv_create_comp_channel(s.context);
	s.cq = ibv_create_cq(s.context, PAIRS * (DEPTH + RECEIVES), NULL, s.channel, 0);
	s.memory = mmap(NULL, PAIRS * PER_PAIR, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s.mr = ibv_reg_mr(s.pd, s.memory, PAIRS * PER_PAIR,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!s.cq || !s.mr)
		fail("opening");
	for (int p = 0; p < PAIRS; p++) {
		struct pair *pair = &s.pair[p];
		struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .cap = {DEPTH, RECEIVES, 1, 1, 0},
						.qp_type = p == PAIRS - 1 ? IBV_QPT_UC : IBV_QPT_RC, .sq_sig_all = 1};

		pair->reliable = init.qp_type == IBV_QPT_RC;
		pair->qp = ibv_create_qp(s.pd, &init);
		if (!pair->qp)
			fail("queue pair");
		pair->send = s.memory + (size_t)p * PER_PAIR;
		pair->receive = pair->send + DEPTH * SIZE;
		pair->target = pair->receive + RECEIVES * SIZE;
		names.qp = pair->qp;
		names.type = init.qp_type;
		if (modify_to_init(&names))
			fail("INIT");
		for (int i = 0; i < RECEIVES; i++)
			receive(p, i);
	}
}

static bool connect_side(int socket)
{
	struct peer own = {.address = (uintptr_t)s.memory, .rkey = s.mr->rkey};

	if (ibv_query_gid(s.context, PORT, gid_index(), &own.gid))
		fail("gid");
	for (int p = 0; p < PAIRS; p++)
		own.qp_num[p] = s.pair[p].qp->qp_num;
	if (!swap(socket, &own, &s.peer, sizeof(own)))
		return false;
	for (int p = 0; p < PAIRS; p++) {
		struct endpoint names = {.qp = s.pair[p].qp, .type = s.pair[p].reliable ? IBV_QPT_RC : IBV_QPT_UC,
					 .timeout = TIMEOUT, .retry_cnt = RETRIES};

		if (modify_to_rtr(&names, &s.peer.gid, s.peer.qp_num[p]) || modify_to_rts(&names))
			fail("connecting");
	}
	return meet(socket);
}

static void send_one(int p)
{
	static const enum ibv_wr_opcode reliable[] = {IBV_WR_SEND, IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM};
	struct pair *pair = &s.pair[p];
	int slot = (int)(pair->posted % DEPTH);
	unsigned char *buffer = pair->send + (size_t)slot * SIZE;
	uint32_t length = rnd(2) ? 12 + rnd(100) : 12 + rnd(SIZE - 12);
	struct ibv_sge sge = {(uintptr_t)buffer, length, s.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)p << 32 | (unsigned)slot, .sg_list = &sge, .num_sge = 1}, *bad;
	uint64_t remote = s.peer.address + (uint64_t)(pair->target - s.memory);

	wr.opcode = pair->reliable ? reliable[rnd(6)] : rnd(3) ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = s.peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = s.peer.rkey;
	}
	if (wr.opcode == IBV_WR_SEND || wr.opcode == IBV_WR_SEND_WITH_IMM)
		write_message(buffer, pair->next_sent++, length);
	pair->opcode[slot] = wr.opcode;
	if (ibv_post_send(pair->qp, &wr, &bad))
		fail("posting a send");
	pair->posted++;
	__atomic_fetch_add(&shared->posted, 1, __ATOMIC_RELAXED);
}

static void completed(const struct ibv_wc *wc)
{
	int p = (int)(wc->wr_id >> 32 & 0xff), slot = (int)(wc->wr_id & 0xffffffff);
	struct pair *pair = &s.pair[p];

	if (wc->wr_id & RECEIVE) {
		if (wc->status == IBV_WC_SUCCESS) {
			check_message(pair->receive + (size_t)slot * SIZE, wc->byte_len, &pair->next_received, pair->reliable);
			__atomic_fetch_add(&shared->received, 1, __ATOMIC_RELAXED);
			receive(p, slot);
		} else if (wc->status != IBV_WC_WR_FLUSH_ERR || !pair->broken) {
			fail("a receive ended with %s", ibv_wc_status_str(wc->status));
		}
		return;
	}
	if (slot != (int)(pair->completed % DEPTH))
		fail("request %d completed, %lu expected", slot, pair->completed % DEPTH);
	pair->completed++;
	if (wc->status == IBV_WC_SUCCESS && !pair->broken)
		return;
	if (!pair->reliable)
		fail("a UC request ended with %s", ibv_wc_status_str(wc->status));
	if (wc->status != (pair->broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR))
		fail("request %lu, operation %d, ended with %s", pair->completed, pair->opcode[slot], ibv_wc_status_str(wc->status));
	if (!shared->killed_at)
		fail("the peer lives, and a request ended with %s", ibv_wc_status_str(wc->status));
	if (!pair->broken && now_ms() - shared->killed_at > LIMIT_MS)
		fail("the error came after %lu ms", now_ms() - shared->killed_at);
	pair->broken = true;
}

/* Posts until the peer is gone; true when everything was answered. */
static void load(bool asleep)
{
	struct ibv_wc wc[16];

	for (;;) {
		bool done = true;
		int n;

		while ((n = ibv_poll_cq(s.cq, 16, wc)) > 0)
			for (int i = 0; i < n; i++)
				completed(&wc[i]);
		if (n < 0)
			fail("poll = %d", n);
		for (int p = 0; p < PAIRS; p++) {
			bool all_broken = s.pair[0].broken && s.pair[1].broken;

			if (s.pair[p].reliable ? !s.pair[p].broken : !all_broken)
				while (s.pair[p].posted - s.pair[p].completed < DEPTH && rnd(8))
					send_one(p);
			done = done && all_broken && s.pair[p].posted == s.pair[p].completed;
		}
		if (done)
			return;
		if (asleep) {
			struct ibv_cq *cq;
			void *context;

			if (ibv_req_notify_cq(s.cq, 0))
				fail("notification");
			n = ibv_poll_cq(s.cq, 16, wc);
			for (int i = 0; i < n; i++)
				completed(&wc[i]);
			if (n)
				continue;
			/* What completes before it was posted here would be waited for in vain. */
			if (!readable(s.channel->fd, 5000))
				fail("nothing happened for 5 s");
			if (ibv_get_cq_event(s.channel, &cq, &context))
				fail("event");
			ibv_ack_cq_events(cq, 1);
		}
	}
}

static void close_side(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	for (int p = 0; p < PAIRS; p++) {
		if (ibv_query_qp(s.pair[p].qp, &attr, IBV_QP_STATE, &init) ||
		    attr.qp_state != (s.pair[p].reliable ? IBV_QPS_ERR : IBV_QPS_RTS))
			fail("queue pair %d is in state %d", p, attr.qp_state);
		if (ibv_destroy_qp(s.pair[p].qp))
			fail("destroying");
	}
	if (ibv_destroy_cq(s.cq) || ibv_destroy_comp_channel(s.channel) || ibv_dereg_mr(s.mr) || ibv_dealloc_pd(s.pd) ||
	    ibv_close_device(s.context))
		fail("closing");
}

static void side(int socket, bool asleep)
{
	alarm(20);
	open_side();
	if (!connect_side(socket))
		_exit(0); /* killed before */
	__atomic_fetch_add(&shared->loading, 1, __ATOMIC_SEQ_CST);
	load(asleep);
	close_side();
	_exit(0);
}

static pid_t start(int socket, int other, bool asleep)
{
	pid_t pid = fork();

	if (!pid) {
		close(other);
		seed ^= (uint64_t)getpid() << 32;
		side(socket, asleep);
	}
	return pid;
}

/* Files that a process has left; a device that is opened and closed takes them away. */
static int leftovers(void)
{
	int count = 0, status;
	pid_t pid = fork();
	FILE *list;
	char line[512];

	if (!pid)
		_exit(ibv_close_device(open_device("rxe0")) ? 1 : 0);
	waitpid(pid, &status, 0);
	if (status)
		fail("opening the device afterwards");
	list = popen("find \"${IRONVERBS_SOFT_DIR:-/dev/shm}\" -mindepth 1 ! -type d ! -path '*/view-*'", "r");
	while (fgets(line, sizeof(line), list)) {
		fprintf(stderr, "left: %s", line);
		count++;
	}
	pclose(list);
	return count;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 20, failed = 0, loaded = 0;
	uint64_t started = now_ms(), slowest = 0;

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() ^ started << 20;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int round = 0; round < rounds; round++) {
		int sockets[2], status;
		bool early = rnd(4) == 0;
		pid_t victim, survivor;
		uint64_t killed;

		shared->killed_at = 0;
		shared->loading = 0;
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
			fail("socket pair");
		rnd(2);
		victim = start(sockets[0], sockets[1], false);
		survivor = start(sockets[1], sockets[0], round % 2);
		close(sockets[0]);
		close(sockets[1]);
		for (int i = 0; !early && shared->loading < 2 && i < 5000; i++)
			usleep(1000);
		usleep(rnd(early ? 8000 : 12000));
		shared->killed_at = killed = now_ms();
		kill(victim, SIGKILL);
		waitpid(victim, &status, 0);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
			fprintf(stderr, "round %d: the victim ended by itself, status %#x\n", round, status);
			failed++;
		}
		waitpid(survivor, &status, 0);
		if (status) {
			fprintf(stderr, "round %d (%s): the survivor ended with status %#x\n", round,
				round % 2 ? "events" : "polling", status);
			failed++;
		}
		loaded += shared->loading == 2;
		slowest = now_ms() - killed > slowest ? now_ms() - killed : slowest;
	}
	failed += leftovers();
	printf("%d rounds in %lu ms, %d killed under load, %lu requests posted, %lu messages received, slowest survivor %lu ms\n",
	       rounds, now_ms() - started, loaded, shared->posted, shared->received, slowest);
	printf("%d failed\n", failed);
	return failed ? 1 : 0;
}
