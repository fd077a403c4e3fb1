/*
 * load.h - two processes load two RC queue pairs and a UC one in both directions with sends, writes, reads and atomics.
 *
 * What arrives is checked. A request may end with an error only when the peer may be gone (`shared->gone_at`): then one of
 * each RC queue pair with IBV_WC_RETRY_EXC_ERR, in time, and those behind it flushed. Nothing else depends on the clock: who
 * polls counts the processor's time that it had, and who sleeps is woken by what it has posted.
 */
#ifndef SOFT_LOAD_H
#define SOFT_LOAD_H

#include "peer.h"

#define PAIRS 3 /* the last one is UC */
#define DEPTH 16
#define RECEIVES 32
#define SIZE 16384
#ifndef TIMEOUT
#define TIMEOUT 12   /* 16.8 ms; over a network the peer must have answered by then, so that it takes more */
#endif
#ifndef RETRIES
#define RETRIES 2
#endif
#define LIMIT_MS 5000 /* of the processor's time that a process polls for an error after three time-outs of up to 67 ms each */
#define SLEEP_S 300   /* seconds after which a sleep that nothing ends is ended */

/* Shared by both processes and their parent. */
static struct {
	volatile uint64_t gone_at; /* ms; 0: the peer lives and answers */
	volatile int loading;      /* processes that are past connecting */
	volatile uint64_t received;
	volatile uint64_t posted;
	volatile uint64_t slept;
	volatile int enough;       /* both shall come to an end: finish what is posted */
	volatile int finished;     /* processes that have */
} *shared;

static inline void load_init(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("memory");
}

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

/* The processor's time of this process, of which a busy machine gives it less. */
static inline int64_t own_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* When this process saw that the peer is gone, by its own time. */
static uint64_t seen_gone_at;
static int64_t gone_at_own;

static inline void look_for_peer(void)
{
	if (shared->gone_at == seen_gone_at)
		return;
	seen_gone_at = shared->gone_at;
	gone_at_own = own_ms();
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
	if (!shared->gone_at)
		fail("the peer lives, and a request ended with %s", ibv_wc_status_str(wc->status));
	look_for_peer();
	if (!pair->broken && own_ms() - gone_at_own > LIMIT_MS)
		fail("the error came after %ld ms of this process's own time", own_ms() - gone_at_own);
	pair->broken = true;
}

/*
 * Sleeps until there is an event, or it is enough. A request is outstanding at each reliable queue pair, so what becomes of it
 * must wake the sleeper, however long the peer takes; a completion without an event has been lost.
 */
static inline void sleep_for_event(void)
{
	struct ibv_wc wc;

	__atomic_fetch_add(&shared->slept, 1, __ATOMIC_RELAXED);
	for (int i = 0; !readable(s.channel->fd, 100) && !shared->enough; i++)
		if (i == 10 * SLEEP_S)
			fail(ibv_poll_cq(s.cq, 1, &wc) > 0 ? "a completion is there, and its event is not" :
							     "neither a completion nor an error comes");
}

/* Posts until the peer is gone and everything was answered, or until it is enough for both. */
static void load(bool asleep)
{
	struct ibv_wc wc[16];
	bool finished = false;

	for (;;) {
		bool done = true, empty = true;
		int n;

		look_for_peer();
		while ((n = ibv_poll_cq(s.cq, 16, wc)) > 0)
			for (int i = 0; i < n; i++)
				completed(&wc[i]);
		if (n < 0)
			fail("poll = %d", n);
		for (int p = 0; p < PAIRS; p++) {
			bool all_broken = s.pair[0].broken && s.pair[1].broken;

			if (!shared->enough && (s.pair[p].reliable ? !s.pair[p].broken : !all_broken))
				while (s.pair[p].posted - s.pair[p].completed < DEPTH &&
				       ((s.pair[p].reliable && s.pair[p].posted == s.pair[p].completed) || rnd(8)))
					send_one(p);
			empty = empty && s.pair[p].posted == s.pair[p].completed;
			done = done && all_broken && empty;
		}
		if (done) {
			if (!finished)
				__atomic_fetch_add(&shared->finished, 1, __ATOMIC_SEQ_CST);
			return;
		}
		/* Until the other one is done as well, it needs receives. */
		if (shared->enough && empty && !finished) {
			finished = true;
			__atomic_fetch_add(&shared->finished, 1, __ATOMIC_SEQ_CST);
		}
		if (shared->finished == 2)
			return;
		if (asleep && !shared->enough) {
			struct ibv_cq *cq;
			void *context;

			if (ibv_req_notify_cq(s.cq, 0))
				fail("notification");
			n = ibv_poll_cq(s.cq, 16, wc);
			for (int i = 0; i < n; i++)
				completed(&wc[i]);
			if (n)
				continue;
			sleep_for_event();
			if (shared->enough)
				continue;
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
		    attr.qp_state != (s.pair[p].broken ? IBV_QPS_ERR : IBV_QPS_RTS))
			fail("queue pair %d is in state %d", p, attr.qp_state);
		if (ibv_destroy_qp(s.pair[p].qp))
			fail("destroying");
	}
	if (ibv_destroy_cq(s.cq) || ibv_destroy_comp_channel(s.channel) || ibv_dereg_mr(s.mr) || ibv_dealloc_pd(s.pd) ||
	    ibv_close_device(s.context))
		fail("closing");
}

#endif
