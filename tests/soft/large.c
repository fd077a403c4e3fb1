/*
 * large.c - as much as the device says it can: a message of max_msg_sz, requests with max_sge entries, full queues of
 * max_qp_wr requests, and thousands of queue pairs between two processes, each used once.
 */
#include "peer.h"

#define PAIRS 4000

static struct ibv_device_attr device;
static struct ibv_port_attr port;

/* The bytes are different enough to be seen in the wrong place, and quick to make. */
static void fill(uint64_t *p, size_t length, uint64_t seed)
{
	for (size_t i = 0; i < length / 8; i++)
		p[i] = (i + seed) * 0x9e3779b97f4a7c15;
}

/* The completion of a transfer of gigabytes: a busy machine may take longer for it than any other one has to. */
static bool slow_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (int i = 0; i < 15; i++)
		if (next_wc(cq, wc))
			return true;
	return false;
}

static void largest_message(void)
{
	struct endpoint a = {0}, b = {0};
	size_t length = port.max_msg_sz;
	uint64_t *from = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t *to = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *source, *target;
	struct ibv_sge sge, into;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr recv = {.sg_list = &into, .num_sge = 1}, *bad_recv;
	struct ibv_wc wc;

	open_pair(&a, &b, "rxe0", "rxe0");
	source = ibv_reg_mr(a.pd, from, length, IBV_ACCESS_LOCAL_WRITE);
	target = ibv_reg_mr(b.pd, to, length, IBV_ACCESS_LOCAL_WRITE);
	if (from == MAP_FAILED || to == MAP_FAILED || !source || !target)
		fail("memory");
	fill(from, length, 1);
	sge = (struct ibv_sge){(uintptr_t)from, (uint32_t)length, source->lkey};
	into = (struct ibv_sge){(uintptr_t)to, (uint32_t)length, target->lkey};
	if (ibv_post_recv(b.qp, &recv, &bad_recv) || ibv_post_send(a.qp, &wr, &bad) || !slow_wc(a.send_cq, &wc) || wc.status ||
	    !slow_wc(b.recv_cq, &wc) || wc.status || wc.byte_len != length || memcmp(from, to, length))
		fail("a message of %zu bytes", length);
	printf("a message of %zu bytes\n", length);
	sge.length = (uint32_t)length + 1;
	if (!ibv_post_send(a.qp, &wr, &bad) && (!next_wc(a.send_cq, &wc) || wc.status == IBV_WC_SUCCESS))
		fail("a message that is too long was sent");
	ibv_dereg_mr(source);
	ibv_dereg_mr(target);
	munmap(from, length);
	munmap(to, length);
	endpoint_close(&a);
	endpoint_close(&b);
}

static void most_entries(void)
{
	uint32_t n = (uint32_t)device.max_sge;
	struct ibv_qp_cap cap = {8, 8, n, n, 0};
	struct endpoint a = {.cap = cap}, b = {.cap = cap};
	struct ibv_sge from[64], to[64];
	struct ibv_send_wr wr = {.sg_list = from, .num_sge = (int)n, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr recv = {.sg_list = to, .num_sge = (int)n}, *bad_recv;
	struct ibv_wc wc;
	uint32_t total = 0;

	open_pair(&a, &b, "rxe0", "rxe0");
	pattern(a.buffer, a.length, 5);
	memset(b.buffer, 0, b.length);
	for (uint32_t i = 0; i < n; i++) { /* pieces of other lengths on the other side */
		from[i] = (struct ibv_sge){(uintptr_t)a.buffer + total, 100 + i, a.mr->lkey};
		total += 100 + i;
	}
	for (uint32_t i = 0, at = 0; i < n; i++) {
		uint32_t length = i + 1 == n ? total - at : 99 + n - i;

		to[i] = (struct ibv_sge){(uintptr_t)b.buffer + at, length, b.mr->lkey};
		at += length;
	}
	if (ibv_post_recv(b.qp, &recv, &bad_recv) || ibv_post_send(a.qp, &wr, &bad) || !next_wc(a.send_cq, &wc) || wc.status ||
	    !next_wc(b.recv_cq, &wc) || wc.status || wc.byte_len != total || memcmp(a.buffer, b.buffer, total))
		fail("%u entries", n);
	printf("%u entries on both sides\n", n);
	endpoint_close(&a);
	endpoint_close(&b);
}

static void deepest_queue(void)
{
	uint32_t n = (uint32_t)device.max_qp_wr;
	struct endpoint a = {.cap = {n, n, 1, 1, 0}, .cqe = (int)n}, b = {.cap = {n, n, 1, 1, 0}, .cqe = (int)n};
	struct ibv_wc wc;

	open_pair(&a, &b, "rxe0", "rxe0");
	for (uint32_t i = 0; i < n; i++) /* nobody receives, so they wait */
		if (post_send(&a, i, 0, 16))
			fail("request %u of %u", i, n);
	if (!post_send(&a, n, 0, 16))
		fail("one request more than the queue holds");
	for (uint32_t i = 0; i < n; i++)
		if (post_recv(&b, i, 0, 16))
			fail("receive %u of %u", i, n);
	for (uint32_t i = 0; i < n; i++)
		if (!next_wc(a.send_cq, &wc) || wc.status || wc.wr_id != i || !next_wc(b.recv_cq, &wc) || wc.status || wc.wr_id != i)
			fail("message %u of %u", i, n);
	printf("%u requests in a queue\n", n);
	endpoint_close(&a);
	endpoint_close(&b);
}

static void many_pairs(void)
{
	static struct endpoint pair[PAIRS];
	static uint32_t own[PAIRS], others[PAIRS];
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	struct endpoint e = {.cqe = PAIRS};
	struct ibv_wc wc;
	int sockets[2], status;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("socket pair");
	fflush(stdout);
	pid = fork();
	int s = sockets[!!pid];
	close(sockets[!pid]);
	endpoint_open(&e, "rxe0");
	init.send_cq = e.send_cq;
	init.recv_cq = e.recv_cq;
	for (int i = 0; i < PAIRS; i++) {
		pair[i] = e;
		pair[i].qp = ibv_create_qp(e.pd, &init);
		if (!pair[i].qp)
			fail("queue pair %d: %s", i, errno_name(errno));
		own[i] = pair[i].qp->qp_num;
	}
	if (!swap(s, own, others, sizeof(own)))
		fail("the peer is gone");
	for (int i = 0; i < PAIRS; i++) {
		ready(&pair[i], &e.gid, others[i]);
		if (post_recv(&pair[i], (uint64_t)i, 0, 64))
			fail("receive");
	}
	meet(s);
	for (int i = 0; i < PAIRS; i++)
		if (post_send(&pair[i], (uint64_t)i, 64, 64))
			fail("send");
	for (int i = 0; i < PAIRS; i++)
		if (!next_wc(e.send_cq, &wc) || wc.status || !next_wc(e.recv_cq, &wc) || wc.status)
			fail("message %d", i);
	meet(s);
	for (int i = 0; i < PAIRS; i++)
		if (ibv_destroy_qp(pair[i].qp))
			fail("destroying");
	endpoint_close(&e);
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	if (status)
		fail("the other side ended with %#x", status);
	printf("%d queue pairs between two processes\n", PAIRS);
}

int main(void)
{
	struct ibv_context *context;

	alarm(2 * HANG_S);
	many_pairs(); /* which forks, before a device is open */
	context = open_device("rxe0");
	if (ibv_query_device(context, &device) || ibv_query_port(context, PORT, &port))
		fail("query");
	ibv_close_device(context);
	most_entries();
	deepest_queue();
	largest_message();
	printf("0 failed\n");
	return 0;
}
