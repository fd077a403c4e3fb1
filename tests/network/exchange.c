/*
 * exchange.c MESSAGES [SEED] - two processes send each other random messages, and look at every byte that comes.
 *
 * Over seven RC queue pairs and a UC one, at random: sends, writes, each with immediate data or without, reads, atomic
 * operations of both kinds; of no byte up to 256 KiB, in one to four entries or inline, at a path MTU of chance. Each side
 * checks that sends come whole and in order, that what a write wrote is read back, that immediate data comes when its
 * payload is there, that reads give what the peer has, and that each atomic operation found what the one before left. At the
 * end each side has received as many as the other one has sent. On UC messages may be missing, and it goes no faster than the
 * first of the others. In one of two seeds a side sleeps on its completion channel.
 */
#include <arpa/inet.h>

#include "../soft/peer.h"

#define PAIRS 8 /* the last one is UC */
#define DEPTH 16
#define RECEIVES 16
#define MOST (256 << 10)
#define INLINE 64
#define RECEIVE (1ULL << 63)
/*
 * 1.07 s, eight times: the program that carries the packets and the peer may have to wait for a processor. On two that six
 * programs want it was up to 0.7 s.
 */
#define TIMEOUT 18
#define RETRIES 7

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

/* The memory of a pair. The peer reads `given`, writes to the areas behind it, and counts with `counter` and `swapped`. */
struct memory {
	uint64_t counter, swapped;
	unsigned char given[MOST];
	unsigned char written[DEPTH][MOST];
	/* The first packets of a message may come while the receive for it is still to be posted. */
	unsigned char with_imm[2 * RECEIVES][MOST];
	/* Its own. */
	unsigned char send[DEPTH][MOST];
	unsigned char receive[RECEIVES][MOST];
};

struct request {
	enum ibv_wr_opcode opcode;
	uint32_t length, from;
	uint64_t number, expected;
	bool is_readback;
};

struct pair {
	struct ibv_qp *qp;
	bool reliable;
	uint64_t posted, completed, messages;
	uint64_t sends, imms, next_send, next_imm, received;
	uint64_t counter, swapped;
	struct request request[DEPTH];
	struct memory *memory;
};

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct memory *memory;
	struct pair pair[PAIRS];
	struct peer peer;
	unsigned checked;
} s;

/* The bytes of a message are those of a long random text from a place that its number gives. */
static unsigned char text[2 * MOST + 4096];
static const unsigned char *bytes_of(uint64_t number) { return text + number * 2654435761u % (MOST + 4096); }

static void check(int p, const char *what, uint64_t number, const unsigned char *found, uint32_t length)
{
	const unsigned char *expected = bytes_of(number);

	s.checked++;
	if (!memcmp(found, expected, length))
		return;
	for (uint32_t i = 0; i < length; i++)
		if (found[i] != expected[i])
			fail("pair %d, %s %lu of %u bytes is damaged from byte %u on", p, what, number, length, i);
}

/* Lengths: many small ones, many about those of packets, and long ones. */
static uint32_t random_length(void)
{
	switch (rnd(6)) {
	case 0:
		return rnd(9);
	case 1:
		return rnd(256);
	case 2:
		return (1 + rnd(16)) * 1024 + rnd(9) - 4;
	case 3:
		return 1 + rnd(8192);
	case 4:
		return rnd(65536);
	default:
		return rnd(8) ? rnd(16384) : rnd(MOST + 1);
	}
}

/* A send says its number and length first. Its bytes are those of the number. */
static uint32_t first_bytes(unsigned char *p, uint64_t number, uint32_t length)
{
	length = length < 12 ? 12 : length;
	memcpy(p + 12, bytes_of(number), length - 12);
	memcpy(p, &number, 8);
	memcpy(p + 8, &length, 4);
	return length;
}

static void post_receive(int p, int slot)
{
	unsigned char *buffer = s.pair[p].memory->receive[slot];
	struct ibv_sge sge[2] = {{(uintptr_t)buffer, 0, s.mr->lkey}, {0, 0, s.mr->lkey}};
	struct ibv_recv_wr wr = {.wr_id = RECEIVE | (uint64_t)p << 32 | (unsigned)slot, .sg_list = sge, .num_sge = 2}, *bad;

	sge[0].length = rnd(2) ? 1 + rnd(64) : rnd(MOST);
	sge[1].addr = sge[0].addr + sge[0].length;
	sge[1].length = MOST - sge[0].length;
	if (!sge[0].length)
		sge[0] = sge[1], wr.num_sge = 1;
	if (ibv_post_recv(s.pair[p].qp, &wr, &bad))
		fail("posting a receive");
}

static void post(int p, struct request request, unsigned char *local, uint64_t remote)
{
	static const unsigned flags[] = {0, IBV_SEND_SOLICITED, IBV_SEND_FENCE, IBV_SEND_FENCE | IBV_SEND_SOLICITED};
	struct pair *pair = &s.pair[p];
	int slot = (int)(pair->posted % DEPTH);
	struct ibv_sge sge[4];
	struct ibv_send_wr wr = {.wr_id = (uint64_t)p << 32 | (unsigned)slot, .sg_list = sge, .opcode = request.opcode,
				 .send_flags = IBV_SEND_SIGNALED | (pair->reliable ? flags[rnd(4)] : flags[rnd(2)]),
				 .imm_data = htonl((uint32_t)request.number)}, *bad;
	uint32_t left = request.length, want = 1 + rnd(4);

	if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = s.peer.rkey;
		wr.wr.atomic.compare_add = request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? request.number : request.from;
		wr.wr.atomic.swap = request.number;
		want = 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = s.peer.rkey;
		if (request.opcode != IBV_WR_RDMA_READ && request.length <= INLINE && rnd(2))
			wr.send_flags |= IBV_SEND_INLINE;
	}
	while (left) {
		uint32_t length = (uint32_t)wr.num_sge == want - 1 ? left : 1 + rnd(left);

		sge[wr.num_sge++] = (struct ibv_sge){(uintptr_t)local, length, s.mr->lkey};
		local += length;
		left -= length;
	}
	pair->request[slot] = request;
	if (ibv_post_send(pair->qp, &wr, &bad))
		fail("posting operation %d", request.opcode);
	pair->posted++;
}

/* Where something of the own memory is in the peer's. */
static uint64_t theirs(const void *own) { return s.peer.address + (uint64_t)((const char *)own - (const char *)s.memory); }

static void send_one(int p)
{
	static const enum ibv_wr_opcode reliable[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						      IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
	struct pair *pair = &s.pair[p];
	int slot = (int)(pair->posted % DEPTH);
	struct request request = {.opcode = reliable[rnd(pair->reliable ? 7 : 4)], .length = random_length()};
	unsigned char *local = pair->memory->send[slot];

	pair->messages++;
	switch (request.opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		request.number = pair->sends++;
		request.length = first_bytes(local, request.number, request.length);
		post(p, request, local, 0);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		request.number = pair->imms++;
		memcpy(local, bytes_of(request.number), request.length);
		post(p, request, local, theirs(pair->memory->with_imm[request.number % (2 * RECEIVES)]));
		break;
	case IBV_WR_RDMA_WRITE:
		request.number = pair->posted;
		memcpy(local, bytes_of(request.number), request.length);
		post(p, request, local, theirs(pair->memory->written[slot]));
		if (!pair->reliable)
			break;
		/* And reads it back. */
		request.opcode = IBV_WR_RDMA_READ;
		request.is_readback = true;
		local = pair->memory->send[pair->posted % DEPTH];
		memset(local, 0, request.length);
		post(p, request, local, theirs(pair->memory->written[slot]));
		break;
	case IBV_WR_RDMA_READ:
		request.length = request.length ? request.length : 1;
		request.from = rnd(MOST - request.length + 1);
		memset(local, 0, request.length);
		post(p, request, local, theirs(pair->memory->given + request.from));
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		request.length = 8;
		request.number = rnd(1000);
		request.expected = pair->counter;
		pair->counter += request.number;
		post(p, request, local, theirs(&pair->memory->counter));
		break;
	default:
		/* Every other one finds what it expects. */
		request.length = 8;
		request.number = rnd(1000);
		request.expected = pair->swapped;
		request.from = rnd(2) ? (uint32_t)pair->swapped : 1000;
		if (request.from == pair->swapped)
			pair->swapped = request.number;
		post(p, request, local, theirs(&pair->memory->swapped));
		break;
	}
}

static void received(int p, int slot, const struct ibv_wc *wc)
{
	struct pair *pair = &s.pair[p];
	const unsigned char *buffer = pair->memory->receive[slot];
	uint32_t length, imm = ntohl(wc->imm_data);
	uint64_t number;

	if (wc->status)
		fail("pair %d: a receive ended with %s", p, ibv_wc_status_str(wc->status));
	pair->received++;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		if (!(wc->wc_flags & IBV_WC_WITH_IMM))
			fail("pair %d: no immediate data", p);
		if (pair->reliable) {
			if (imm != pair->next_imm)
				fail("pair %d: write %u came, %lu was expected", p, imm, pair->next_imm);
			check(p, "write with immediate data", imm, pair->memory->with_imm[imm % (2 * RECEIVES)], wc->byte_len);
		} else if (imm < pair->next_imm) {
			fail("pair %d: write %u came after %lu", p, imm, pair->next_imm - 1);
		}
		pair->next_imm = (uint64_t)imm + 1;
		post_receive(p, slot);
		return;
	}
	memcpy(&number, buffer, 8);
	memcpy(&length, buffer + 8, 4);
	if (wc->opcode != IBV_WC_RECV || wc->byte_len < 12 || length != wc->byte_len)
		fail("pair %d: a message of %u bytes came as %u", p, length, wc->byte_len);
	if (pair->reliable ? number != pair->next_send : number < pair->next_send)
		fail("pair %d: send %lu came, %lu was expected", p, number, pair->next_send);
	if ((wc->wc_flags & IBV_WC_WITH_IMM) && imm != number)
		fail("pair %d: send %lu came with immediate data %u", p, number, imm);
	check(p, "send", number, buffer + 12, length - 12);
	pair->next_send = number + 1;
	post_receive(p, slot);
}

static void completed(const struct ibv_wc *wc)
{
	int p = (int)(wc->wr_id >> 32 & 0xff), slot = (int)(wc->wr_id & 0xffffffff);
	struct pair *pair = &s.pair[p];
	const struct request *request = &pair->request[slot];
	const unsigned char *local = pair->memory->send[slot];
	uint64_t original;

	if (wc->wr_id & RECEIVE) {
		received(p, slot, wc);
		return;
	}
	if (slot != (int)(pair->completed % DEPTH))
		fail("pair %d: request %d completed, %lu expected", p, slot, pair->completed % DEPTH);
	pair->completed++;
	if (wc->status)
		fail("pair %d: operation %d of %u bytes ended with %s", p, request->opcode, request->length,
		     ibv_wc_status_str(wc->status));
	switch (request->opcode) {
	case IBV_WR_RDMA_READ:
		if (request->is_readback)
			check(p, "write, read back,", request->number, local, request->length);
		else if (memcmp(local, text + request->from, request->length))
			fail("pair %d: a read of %u bytes is damaged", p, request->length);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		memcpy(&original, local, 8);
		if (original != request->expected)
			fail("pair %d: atomic operation %d found %lu, %lu was expected", p, request->opcode, original, request->expected);
		break;
	default:
		break;
	}
}

static void open_side(int socket)
{
	struct peer own;
	struct ibv_port_attr port;
	int least = IBV_MTU_256;

	s.context = open_device("rxe0");
	s.pd = ibv_alloc_pd(s.context);
	s.channel = ibv_create_comp_channel(s.context);
	s.cq = ibv_create_cq(s.context, PAIRS * (DEPTH + RECEIVES), NULL, s.channel, 0);
	s.memory = mmap(NULL, PAIRS * sizeof(struct memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s.mr = ibv_reg_mr(s.pd, s.memory, PAIRS * sizeof(struct memory),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!s.cq || !s.mr || ibv_query_port(s.context, PORT, &port))
		fail("opening");
	own = (struct peer){.address = (uintptr_t)s.memory, .rkey = s.mr->rkey};
	if (ibv_query_gid(s.context, PORT, gid_index(), &own.gid))
		fail("gid");
	for (int p = 0; p < PAIRS; p++) {
		struct pair *pair = &s.pair[p];
		struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .cap = {DEPTH, RECEIVES, 4, 2, INLINE},
						.qp_type = p == PAIRS - 1 ? IBV_QPT_UC : IBV_QPT_RC};
		struct endpoint names;

		pair->reliable = init.qp_type == IBV_QPT_RC;
		pair->memory = &s.memory[p];
		pair->qp = ibv_create_qp(s.pd, &init);
		if (!pair->qp)
			fail("queue pair");
		memcpy(pair->memory->given, text, MOST);
		own.qp_num[p] = pair->qp->qp_num;
		names = (struct endpoint){.qp = pair->qp, .type = init.qp_type};
		if (modify_to_init(&names))
			fail("INIT");
		for (int i = 0; i < RECEIVES; i++)
			post_receive(p, i);
	}
	if (!swap(socket, &own, &s.peer, sizeof(own)))
		fail("the peer is gone");
	for (int p = 0; p < PAIRS; p++) {
		uint32_t mine = (uint32_t)(least + (int)rnd((uint32_t)(port.active_mtu - least + 1))), other, psn[2];
		struct pair *pair = &s.pair[p];

		/* About where the numbers begin again, too. */
		psn[0] = rnd(2) ? rnd(1 << 24) : (1 << 24) - 1 - rnd(1000);
		if (!swap(socket, &mine, &other, 4) || !swap(socket, &psn[0], &psn[1], 4))
			fail("the peer is gone");
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_RTR, .path_mtu = mine < other ? mine : other, .dest_qp_num = s.peer.qp_num[p],
			.rq_psn = psn[1], .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
			.ah_attr = {.grh = {.dgid = s.peer.gid, .sgid_index = GID_INDEX, .hop_limit = 64}, .is_global = 1,
				    .port_num = PORT},
		};
		int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

		if (ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  (pair->reliable ? reliable : 0)))
			fail("RTR");
		attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = psn[0], .timeout = TIMEOUT, .retry_cnt = RETRIES,
					    .rnr_retry = 7, .max_rd_atomic = 4};
		reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		if (ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (pair->reliable ? reliable : 0)))
			fail("RTS");
	}
	if (!meet(socket))
		fail("the peer is gone");
}

/* Takes what has completed; whether there was something. */
static bool take(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(s.cq, 16, wc);

	if (n < 0)
		fail("poll = %d", n);
	for (int i = 0; i < n; i++)
		completed(&wc[i]);
	return n > 0;
}

/* Sleeps until something has completed, or the peer says something. */
static void rest(int socket)
{
	struct pollfd fds[2] = {{.fd = s.channel->fd, .events = POLLIN}, {.fd = socket, .events = POLLIN}};
	struct ibv_cq *cq;
	void *context;

	if (ibv_req_notify_cq(s.cq, 0))
		fail("notification");
	if (take())
		return;
	if (poll(fds, 2, -1) > 0 && fds[0].revents) {
		if (ibv_get_cq_event(s.channel, &cq, &context))
			fail("event");
		ibv_ack_cq_events(cq, 1);
	}
}

static void exchange(int socket, uint64_t messages, bool asleep)
{
	char byte = 'd';
	bool said = false, heard = false;

	while (!said || !heard) {
		bool done = true;

		while (take())
			;
		for (int p = 0; p < PAIRS; p++) {
			struct pair *pair = &s.pair[p];

			/* Two of them where a write is read back. */
			while (pair->messages < messages && pair->posted - pair->completed + 2 <= DEPTH && rnd(8) &&
			       (pair->reliable || pair->posted <= s.pair[0].completed))
				send_one(p);
			done = done && pair->messages == messages && pair->posted == pair->completed;
		}
		if (done && !said) {
			said = true;
			if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1)
				fail("the peer is gone");
		}
		if (!heard) {
			ssize_t n = recv(socket, &byte, 1, MSG_DONTWAIT);

			if (!n)
				fail("the peer is gone");
			heard = n == 1;
		}
		if (asleep && (done || s.pair[0].posted != s.pair[0].completed) && (!said || !heard))
			rest(socket);
	}
	/* What was acknowledged has come, and its completion is there. */
	while (take())
		;
}

static void end_side(int socket)
{
	for (int p = 0; p < PAIRS; p++) {
		struct pair *pair = &s.pair[p];
		uint64_t sent = pair->sends + pair->imms, expected, counts[2] = {pair->counter, pair->swapped}, others[2];

		if (!swap(socket, &sent, &expected, 8) || !swap(socket, counts, others, sizeof(counts)))
			fail("the peer is gone");
		if (pair->reliable ? pair->received != expected : pair->received > expected)
			fail("pair %d: %lu of %lu messages came", p, pair->received, expected);
		if (pair->memory->counter != others[0] || pair->memory->swapped != others[1])
			fail("pair %d: atomic operations left %lu and %lu, not %lu and %lu", p, pair->memory->counter,
			     pair->memory->swapped, others[0], others[1]);
		if (ibv_destroy_qp(pair->qp))
			fail("destroying");
		printf("pair %d: %lu of %lu came\n", p, pair->received, expected);
	}
	printf("%u payloads compared\n", s.checked);
	if (ibv_dereg_mr(s.mr) || ibv_destroy_cq(s.cq) || ibv_destroy_comp_channel(s.channel) || ibv_dealloc_pd(s.pd) ||
	    ibv_close_device(s.context))
		fail("closing");
}

int main(int argc, char **argv)
{
	uint64_t messages = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
	int sockets[2], failed = 0, status;

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() ^ now_ms() << 20;
	printf("seed %#lx\n", seed);
	fflush(stdout);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)rnd(256);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	for (int i = 0; i < 2; i++) {
		bool asleep = i && rnd(2);

		if (fork())
			continue;
		alarm(HANG_S);
		close(sockets[!i]);
		seed ^= (uint64_t)(i + 1) << 32;
		open_side(sockets[i]);
		exchange(sockets[i], messages, asleep);
		end_side(sockets[i]);
		fflush(stdout);
		_exit(0);
	}
	close(sockets[0]);
	close(sockets[1]);
	while (wait(&status) > 0)
		failed += status != 0;
	return failed ? 1 : 0;
}
