/*
 * operations.c DEVICE GID-INDEX CASE [SERVER] - two hosts carry out each other's operations, and look at what came of them.
 *
 *   sizes      both do every operation of RC on each other at once, with lengths about those of packets, at each path MTU
 *   sizes-uc   the same on UC
 *   windows    the client writes by a bound window, invalidates it from afar, and may not write any more
 *   rnr        the server has no receive until it, or the client, has seen that one was waited for
 *   rnr-limit  it never has one
 *   refused    the client asks for what it may not: each time its request and both queue pairs end as they must
 *   gone       the server is killed before a request
 *   gone-amid  the server is killed while writes are under way
 *
 * Without SERVER it is the server. Nothing is judged by time; what hangs is ended.
 */
#include <arpa/inet.h>
#include <netdb.h>

#include "../soft/peer.h"

#define TCP_PORT "18600"
#define AREA (1 << 18)
#define AREAS 4
#define DEPTH 16
#define LIMIT_S 50

/* The parts of a side's memory. The peer writes to the first two, and counts in the third. */
enum { WRITTEN, WITH_IMM, COUNTER, GIVEN, SEND_FROM, READ_TO, ORIGINAL, RECEIVED, PARTS = RECEIVED + AREAS };

struct name {
	union ibv_gid gid;
	uint32_t qp_num, psn, rkey, soft_roce;
	uint64_t address;
};

static struct {
	int socket, gid_index;
	bool is_client, is_reliable;
	uint8_t retries;
	const char *device;
	char doing[64]; /* for who reads of a failure */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	unsigned char *memory;
	struct name own, peer;
	struct ibv_wc sent[DEPTH], received[DEPTH];
	int sent_count, received_count;
} s;

static unsigned char *part(int which) { return s.memory + (size_t)which * AREA; }
static uint64_t theirs(int which) { return s.peer.address + (uint64_t)which * AREA; }

/* The bytes that this message has. */
static void fill(unsigned char *bytes, uint32_t length, uint32_t message, bool is_peers)
{
	uint32_t z = message * 2654435761u + (s.is_client != is_peers);

	for (uint32_t i = 0; i < length; i++) {
		z = z * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(z >> 24);
	}
}

static void check(const char *what, const unsigned char *found, uint32_t length, uint32_t message, bool is_peers)
{
	static unsigned char expected[AREA];

	fill(expected, length, message, is_peers);
	for (uint32_t i = 0; i < length; i++)
		if (found[i] != expected[i])
			fail("%s: message %u of %u bytes is damaged from byte %u on", what, message, length, i);
}

static void poll_once(void)
{
	struct ibv_wc wc[DEPTH];
	int n = ibv_poll_cq(s.cq, DEPTH, wc);

	if (n < 0)
		fail("poll: %d", n);
	for (int i = 0; i < n; i++) {
		bool is_receive = wc[i].wr_id >> 63;
		int *count = is_receive ? &s.received_count : &s.sent_count;

		if (*count == DEPTH)
			fail("more completions than requests");
		(is_receive ? s.received : s.sent)[(*count)++] = wc[i];
	}
}

static void wait_for(int sent, int received)
{
	while (s.sent_count < sent || s.received_count < received)
		poll_once();
	if (s.sent_count != sent || s.received_count != received)
		fail("%d and %d completions, not %d and %d", s.sent_count, s.received_count, sent, received);
	s.sent_count = s.received_count = 0;
}

static void expect(const char *what, enum ibv_wc_status found, enum ibv_wc_status expected)
{
	if (found != expected)
		fail("%s ended with %s, not %s", what, ibv_wc_status_str(found), ibv_wc_status_str(expected));
}

static void wait_for_error(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	do {
		if (ibv_query_qp(s.qp, &attr, IBV_QP_STATE, &init))
			fail("query");
	} while (attr.qp_state != IBV_QPS_ERR);
}

static void come_together(void)
{
	if (!meet(s.socket))
		fail("%s: the peer is gone", s.doing);
}

static void hangs(int signal)
{
	(void)signal;
	fail("%s: hangs with %d sent and %d received", s.doing, s.sent_count, s.received_count);
}

static void receive(int which, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)part(RECEIVED + which), length, s.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1ULL << 63 | (unsigned)which, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(s.qp, &wr, &bad))
		fail("posting a receive");
}

static void post(enum ibv_wr_opcode opcode, int from, uint32_t length, uint64_t remote, uint32_t key)
{
	/* Not at a boundary, so that what is gathered is not either. */
	uint32_t first = length > 5 ? length / 2 + 1 : length;
	struct ibv_sge sge[2] = {{(uintptr_t)part(from), first, s.mr->lkey},
				 {(uintptr_t)part(from) + first, length - first, s.mr->lkey}};
	struct ibv_send_wr wr = {.sg_list = sge, .num_sge = length > first ? 2 : length ? 1 : 0, .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(length)}, *bad;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = key;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		/* Here `length` is what is added, and 2 is exchanged for 1. */
		sge[0].length = 8;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = length;
		wr.wr.atomic.swap = 1;
	}
	if (opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = key;
	if (ibv_post_send(s.qp, &wr, &bad))
		fail("posting operation %d", opcode);
}

/* A fresh queue pair, connected to the peer's. Receives come before the peer begins. */
static void join_peer(enum ibv_mtu mtu, int rnr_retry, int receives, uint32_t length)
{
	struct ibv_qp_init_attr init = {.send_cq = s.cq, .recv_cq = s.cq, .cap = {DEPTH, DEPTH, 2, 1, 0},
					.qp_type = s.is_reliable ? IBV_QPT_RC : IBV_QPT_UC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (s.is_reliable)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	if (s.qp && ibv_destroy_qp(s.qp))
		fail("destroying a queue pair");
	while (ibv_poll_cq(s.cq, 1, s.sent) > 0)
		;
	s.sent_count = s.received_count = 0;
	s.qp = ibv_create_qp(s.pd, &init);
	if (!s.qp || ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("queue pair");
	for (int i = 0; i < receives; i++)
		receive(i, length);
	s.own.qp_num = s.qp->qp_num;
	s.own.psn = 0xfffff0 + s.is_client; /* the numbers begin again soon */
	if (!swap(s.socket, &s.own, &s.peer, sizeof(s.own)))
		fail("the peer is gone");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = s.peer.qp_num, .rq_psn = s.peer.psn,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = {.grh = {.dgid = s.peer.gid, .sgid_index = (uint8_t)s.gid_index, .hop_limit = 64},
			    .is_global = 1, .port_num = PORT},
	};
	if (ibv_modify_qp(s.qp, &attr, mask | (s.is_reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)))
		fail("RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = s.own.psn, .timeout = 14, .retry_cnt = s.retries,
				    .rnr_retry = (uint8_t)rnr_retry, .max_rd_atomic = 4};
	mask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	if (ibv_modify_qp(s.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (s.is_reliable ? mask : 0)))
		fail("RTS");
	come_together();
}

static uint32_t imm_of(const struct ibv_wc *wc) { return wc->wc_flags & IBV_WC_WITH_IMM ? ntohl(wc->imm_data) : 0xdead; }

/* Every operation with one length, while the peer does the same. */
static void every_operation(uint32_t message, uint32_t length, uint64_t *count)
{
	static const enum ibv_wc_opcode opcodes[] = {IBV_WC_RECV, IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM};
	int sent = 4;

	snprintf(s.doing, sizeof(s.doing), "message %u of %u bytes", message, length);
	fill(part(SEND_FROM), length, message, false);
	memset(part(WITH_IMM), 0, length);
	memset(part(WRITTEN), 0, length);
	memset(part(READ_TO), 0, length);
	for (int i = 0; i < 3; i++) {
		memset(part(RECEIVED + i), 0, length);
		receive(i, AREA);
	}
	come_together();
	post(IBV_WR_RDMA_WRITE, SEND_FROM, length, theirs(WRITTEN), s.peer.rkey);
	if (s.is_reliable) {
		post(IBV_WR_RDMA_READ, READ_TO, length, theirs(WRITTEN), s.peer.rkey);
		post(IBV_WR_ATOMIC_FETCH_AND_ADD, ORIGINAL, length + 1, theirs(COUNTER), s.peer.rkey);
		post(IBV_WR_ATOMIC_CMP_AND_SWP, ORIGINAL + 0, 0, theirs(COUNTER) + 8, s.peer.rkey);
		sent += 3;
	}
	post(IBV_WR_SEND, SEND_FROM, length, 0, 0);
	post(IBV_WR_SEND_WITH_IMM, SEND_FROM, length, 0, 0);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, SEND_FROM, length, theirs(WITH_IMM), s.peer.rkey);
	while (s.sent_count < sent || s.received_count < 3)
		poll_once();
	for (int i = 0; i < s.sent_count; i++)
		expect("an operation", s.sent[i].status, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		expect("a receive", s.received[i].status, IBV_WC_SUCCESS);
		if (s.received[i].opcode != opcodes[i] || s.received[i].byte_len != length)
			fail("a receive of kind %d got %u bytes, not %u", s.received[i].opcode, s.received[i].byte_len, length);
		if (i && imm_of(&s.received[i]) != length)
			fail("immediate data is %x", imm_of(&s.received[i]));
	}
	wait_for(sent, 3);
	check("send", part(RECEIVED), length, message, true);
	check("send with immediate data", part(RECEIVED + 1), length, message, true);
	check("write with immediate data", part(WITH_IMM), length, message, true);
	check("write", part(WRITTEN), length, message, true);
	if (s.is_reliable) {
		check("read", part(READ_TO), length, message, false);
		/* It found what the operations before left; the last one changed what it found, or did not. */
		uint64_t original;
		memcpy(&original, part(ORIGINAL), 8);
		if (original != (message ? 1 : 0))
			fail("an exchange found %lu", original);
		*count += length + 1;
		memcpy(&original, part(COUNTER), 8);
		if (original != *count)
			fail("the counter is at %lu, not %lu", original, *count);
	}
	/* A lost answer is asked for again, so nothing changes before both have all of theirs. */
	come_together();
}

static void sizes(void)
{
	struct ibv_port_attr port;
	uint32_t message = 0;
	uint64_t count = 0;

	if (ibv_query_port(s.context, PORT, &port))
		fail("port");
	if (port.active_mtu != IBV_MTU_4096)
		fail("an MTU of %d", port.active_mtu);
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		uint32_t m = 128u << mtu;
		uint32_t lengths[] = {0, 1, 2, 3, 4, 5, m - 1, m, m + 1, 2 * m - 1, 2 * m, 2 * m + 1, 3 * m, 5 * m + 3, 30 * m + 2};

		join_peer(mtu, 7, 0, 0);
		/* On UC what a socket has no room for is lost, so not the longest. */
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) - !s.is_reliable; i++)
			every_operation(message++, lengths[i], &count);
	}
}

static void windows(void)
{
	struct ibv_mw *window = NULL;
	uint32_t rkey, theirs_rkey;

	join_peer(IBV_MTU_1024, 7, 1, AREA);
	if (!s.is_client) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

		window = ibv_alloc_mw(s.pd, IBV_MW_TYPE_2);
		if (!window)
			fail("window");
		wr.bind_mw.mw = window;
		wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){s.mr, (uintptr_t)part(WRITTEN), 5000, IBV_ACCESS_REMOTE_WRITE};
		rkey = wr.bind_mw.rkey;
		if (ibv_post_send(s.qp, &wr, &bad))
			fail("binding");
		while (!s.sent_count)
			poll_once();
		expect("bind", s.sent[0].status, IBV_WC_SUCCESS);
		wait_for(1, 0);
	} else {
		rkey = 0;
	}
	if (!swap(s.socket, &rkey, &theirs_rkey, 4))
		fail("the peer is gone");
	if (s.is_client) {
		fill(part(SEND_FROM), 5000, 1, false);
		post(IBV_WR_RDMA_WRITE, SEND_FROM, 5000, theirs(WRITTEN), theirs_rkey);
		post(IBV_WR_SEND_WITH_INV, SEND_FROM, 3000, 0, theirs_rkey);
		post(IBV_WR_RDMA_WRITE, SEND_FROM, 100, theirs(WRITTEN), theirs_rkey);
		while (s.sent_count < 3)
			poll_once();
		expect("a write by a window", s.sent[0].status, IBV_WC_SUCCESS);
		expect("a send with invalidation", s.sent[1].status, IBV_WC_SUCCESS);
		expect("a write by an invalid window", s.sent[2].status, IBV_WC_REM_ACCESS_ERR);
	} else {
		while (!s.received_count)
			poll_once();
		expect("a receive", s.received[0].status, IBV_WC_SUCCESS);
		/* soft-RoCE gives the kernel's flag, which has another value. */
		if (!(s.received[0].wc_flags & IBV_WC_WITH_INV || s.own.soft_roce) || s.received[0].invalidated_rkey != rkey)
			fail("nothing, or %x, was invalidated", s.received[0].invalidated_rkey);
		check("write", part(WRITTEN), 5000, 1, true);
		check("send", part(RECEIVED), 3000, 1, true);
	}
	come_together();
}

/* soft-RoCE counts how often a receive was waited for. */
static long waited(const char *counter)
{
	char path[128];
	long count = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s", s.device, counter);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%ld", &count) != 1)
		fail("no %s", path);
	fclose(file);
	return count;
}

static void rnr(void)
{
	const char *counter = s.is_client ? "rcvd_rnr_err" : "send_rnr_err";
	char byte = 'r';

	for (uint32_t message = 0; message < 3; message++) {
		uint32_t length = message ? message * 3000 : 8;
		long before = s.own.soft_roce ? waited(counter) : 0;

		snprintf(s.doing, sizeof(s.doing), "message %u", message);
		join_peer(IBV_MTU_1024, 7, 0, 0);
		if (s.is_client) {
			fill(part(SEND_FROM), length, message, false);
			post(message == 1 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND, SEND_FROM, length, theirs(WITH_IMM), s.peer.rkey);
			post(IBV_WR_SEND_WITH_IMM, SEND_FROM, length, 0, 0);
		}
		/* Two: the requester has come back. */
		while (s.own.soft_roce && waited(counter) < before + 2)
			poll_once();
		if (s.own.soft_roce == s.is_client) {
			if (s.is_client ? send(s.socket, &byte, 1, 0) != 1 : recv(s.socket, &byte, 1, 0) != 1)
				fail("the peer is gone");
		}
		if (s.is_client) {
			while (s.sent_count < 2)
				poll_once();
			expect("the first", s.sent[0].status, IBV_WC_SUCCESS);
			expect("the second", s.sent[1].status, IBV_WC_SUCCESS);
			come_together();
			continue;
		}
		receive(0, AREA);
		while (s.received_count < 1)
			poll_once();
		receive(1, AREA);
		while (s.received_count < 2)
			poll_once();
		expect("the first receive", s.received[0].status, IBV_WC_SUCCESS);
		expect("the second receive", s.received[1].status, IBV_WC_SUCCESS);
		check("the first", part(message == 1 ? WITH_IMM : RECEIVED), length, message, true);
		check("the second", part(RECEIVED + 1), length, message, true);
		come_together();
	}
}

static void rnr_limit(void)
{
	join_peer(IBV_MTU_1024, 2, 0, 0);
	if (s.is_client) {
		post(IBV_WR_SEND, SEND_FROM, 3000, 0, 0);
		post(IBV_WR_SEND, SEND_FROM, 100, 0, 0);
		while (s.sent_count < 2)
			poll_once();
		expect("the first", s.sent[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
		expect("the second", s.sent[1].status, IBV_WC_WR_FLUSH_ERR);
		wait_for_error();
	}
	come_together();
}

/* What is refused: one of these on each queue pair. */
static const struct refusal {
	const char *what;
	enum ibv_wr_opcode opcode;
	uint32_t length, key_change;
	uint64_t offset;
	uint32_t receive; /* bytes; 0: none */
	enum ibv_wc_status status, soft_roce; /* the client's; where soft-RoCE serves and has another one, this */
} refusals[] = {
	{"a write by a wrong key", IBV_WR_RDMA_WRITE, 5000, 1 << 8, 0, 0, IBV_WC_REM_ACCESS_ERR, 0},
	{"a write by an old key", IBV_WR_RDMA_WRITE, 10, 1, 0, 0, IBV_WC_REM_ACCESS_ERR, 0},
	{"a read by a wrong key", IBV_WR_RDMA_READ, 5000, 1 << 8, 0, 0, IBV_WC_REM_ACCESS_ERR, 0},
	{"an atomic operation by a wrong key", IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 1 << 8, 0, 0, IBV_WC_REM_ACCESS_ERR, 0},
	{"a write with immediate data by a wrong key", IBV_WR_RDMA_WRITE_WITH_IMM, 3000, 1 << 8, 0, 64,
	 IBV_WC_REM_ACCESS_ERR, 0},
	{"a write beyond the end", IBV_WR_RDMA_WRITE, 5000, 0, PARTS * (uint64_t)AREA - 4999, 0, IBV_WC_REM_ACCESS_ERR, 0},
	{"a read beyond the end", IBV_WR_RDMA_READ, 5000, 0, PARTS * (uint64_t)AREA - 4999, 0, IBV_WC_REM_ACCESS_ERR, 0},
	{"a send to a receive that is too short", IBV_WR_SEND, 5000, 0, 0, 4999, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR},
};

static void refused(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *r = &refusals[i];
		enum ibv_wc_status expected = r->status;

		snprintf(s.doing, sizeof(s.doing), "%s", r->what);
		join_peer(IBV_MTU_1024, 7, r->receive && !s.is_client ? 1 : 0, r->receive);
		if (s.peer.soft_roce && r->soft_roce)
			expected = r->soft_roce;
		if (s.is_client) {
			post(r->opcode, SEND_FROM, r->length, s.peer.address + r->offset, s.peer.rkey + r->key_change);
			post(IBV_WR_SEND, SEND_FROM, 100, 0, 0);
			while (s.sent_count < 2)
				poll_once();
			expect(r->what, s.sent[0].status, expected);
			expect("what follows", s.sent[1].status, IBV_WC_WR_FLUSH_ERR);
		}
		come_together();
		wait_for_error();
	}
}

static void gone(bool is_amid)
{
	bool is_gone = false, has_failed = false;
	int under_way = 0;
	char byte = 'g';

	join_peer(IBV_MTU_1024, 7, 0, 0);
	if (!s.is_client) {
		if (recv(s.socket, &byte, 1, 0) != 1)
			fail("the peer is gone");
		kill(getpid(), SIGKILL);
	}
	while (!has_failed || under_way) {
		for (bool is_idle = !has_failed && !under_way; is_idle && under_way < DEPTH - 1;)
			post(under_way++ % 3 == 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, SEND_FROM, is_amid ? AREA : 5000,
			     theirs(WRITTEN), s.peer.rkey);
		while (!s.sent_count)
			poll_once();
		for (int i = 0; i < s.sent_count; i++, under_way--) {
			if (!has_failed && s.sent[i].status == IBV_WC_SUCCESS)
				continue;
			expect("what the peer did not answer", s.sent[i].status,
			       has_failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
			has_failed = true;
		}
		s.sent_count = 0;
		if (!is_gone && (is_amid || !under_way)) {
			if (has_failed)
				fail("the peer was there");
			/* The socket ends with the peer's process. */
			if (send(s.socket, &byte, 1, 0) != 1 || recv(s.socket, &byte, 1, 0) > 0)
				fail("the peer lives");
			is_gone = true;
		}
		if (!is_gone)
			while (s.sent_count < under_way)
				poll_once();
	}
	wait_for_error();
}

/* The socket to the other side. */
static int reach(const char *server)
{
	struct addrinfo hints = {.ai_family = server ? AF_UNSPEC : AF_INET6, .ai_socktype = SOCK_STREAM,
				 .ai_flags = server ? 0 : AI_PASSIVE}, *address;
	int fd, one = 1, accepted;

	if (getaddrinfo(server, TCP_PORT, &hints, &address))
		fail("no address %s", server);
	fd = socket(address->ai_family, SOCK_STREAM, 0);
	if (server) {
		if (connect(fd, address->ai_addr, address->ai_addrlen))
			fail("connecting: %s", strerror(errno));
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, 1) || (accepted = accept(fd, NULL, NULL)) < 0)
		fail("listening: %s", strerror(errno));
	return accepted;
}

static void play(const char *name)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
		     IBV_ACCESS_MW_BIND;

	signal(SIGALRM, hangs);
	alarm(LIMIT_S);
	s.context = open_device(s.device);
	s.pd = ibv_alloc_pd(s.context);
	s.cq = ibv_create_cq(s.context, 2 * DEPTH, NULL, NULL, 0);
	s.memory = mmap(NULL, PARTS * (size_t)AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s.mr = ibv_reg_mr(s.pd, s.memory, PARTS * (size_t)AREA, access);
	if (!s.cq || !s.mr || ibv_query_gid(s.context, PORT, s.gid_index, &s.own.gid))
		fail("opening");
	s.own.address = (uintptr_t)s.memory;
	s.own.rkey = s.mr->rkey;
	s.own.soft_roce = !strncmp(s.device, "rxe", 3);
	/* To soft-RoCE 7 is for ever; it counts each gap that it is told of, of which late packets make many. */
	s.retries = strncmp(name, "gone", 4) ? 7 : 6;
	s.is_reliable = strcmp(name, "sizes-uc") != 0;
	if (!strncmp(name, "sizes", 5))
		sizes();
	else if (!strcmp(name, "windows"))
		windows();
	else if (!strcmp(name, "rnr"))
		rnr();
	else if (!strcmp(name, "rnr-limit"))
		rnr_limit();
	else if (!strcmp(name, "refused"))
		refused();
	else if (!strncmp(name, "gone", 4))
		gone(!strcmp(name, "gone-amid"));
	else
		fail("no case %s", name);
	if (ibv_destroy_qp(s.qp))
		fail("destroying a queue pair");
}

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc < 4)
		fail("operations DEVICE GID-INDEX CASE [SERVER]");
	s.device = argv[1];
	s.gid_index = atoi(argv[2]);
	s.is_client = argc > 4;
	s.socket = reach(argv[4]);
	if (s.is_client || strncmp(argv[3], "gone", 4)) {
		play(argv[3]);
		return 0;
	}
	/* Who shall be killed is another process, whose end closes the socket. */
	child = fork();
	if (!child) {
		play(argv[3]);
		_exit(1);
	}
	close(s.socket);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail("not killed");
	return 0;
}
