/*
 * post_send.c - posting sends that succeed, and posting calls that are refused.
 *
 * Proves: every operation soft-RoCE has, over RC, UC and UD, with all fields of both completions and the data;
 * gather and scatter; signaling, solicited and fence flags; lists; every refusal with the right *bad_wr.
 */
#include "setup.h"

static struct endpoint a, b;

/* A work request over num_sge entries of size bytes each, from the start of a's buffer. */
static struct ibv_sge sges[40];
static struct ibv_send_wr request(uint64_t wr_id, enum ibv_wr_opcode opcode, int num_sge, uint32_t size)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sges,
				 .num_sge = num_sge,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};

	for (int i = 0; i < num_sge && i < 40; i++)
		sges[i] = (struct ibv_sge){(uintptr_t)a.buffer + i * size, size, a.mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	return wr;
}

static int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = (void *)1;
	int ret = ibv_post_send(a.qp, wr, &bad);

	if (bad)
		note("    *bad_wr %s", bad == wr ? "the request" : bad == (void *)1 ? "untouched" : "another");
	return ret;
}

static void sends(void)
{
	static const uint32_t sizes[] = {0, 1, 7, 1023, 1024, 1025, 4096, 16000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int n = 1; n <= 4; n++) {
			struct ibv_send_wr wr = request(i * 10 + n, IBV_WR_SEND, n, sizes[i]);

			note("%d entries of %u bytes", n, sizes[i]);
			pattern(a.buffer, 65536, i + n);
			memset(b.buffer, 0, 65536);
			CALL_INT(post_recv(&b, i * 10 + n, 0, 65536));
			CALL_INT(post(&wr));
			expect_wc("sent", a.send_cq, a.qp, NULL);
			if (expect_wc("received", b.recv_cq, b.qp, NULL))
				check_data(b.buffer, a.buffer, n * sizes[i]);
		}
	struct ibv_send_wr none = request(99, IBV_WR_SEND, 0, 0);
	CALL_INT(post_recv(&b, 99, 0, 16));
	CALL_INT(post(&none));
	expect_wc("sent nothing", a.send_cq, a.qp, NULL);
	expect_wc("received nothing", b.recv_cq, b.qp, NULL);

	/* Scattered into several entries on the other side. */
	struct ibv_sge to[3] = {{(uintptr_t)b.buffer, 100, b.mr->lkey},
				{(uintptr_t)b.buffer + 8192, 1500, b.mr->lkey},
				{(uintptr_t)b.buffer + 16384, 4000, b.mr->lkey}};
	struct ibv_recv_wr recv = {.wr_id = 100, .sg_list = to, .num_sge = 3}, *bad;
	struct ibv_send_wr wr = request(100, IBV_WR_SEND, 1, 3000);
	CALL_INT(ibv_post_recv(b.qp, &recv, &bad));
	CALL_INT(post(&wr));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("scattered", b.recv_cq, b.qp, NULL)) {
		check_data(b.buffer, a.buffer, 100);
		check_data(b.buffer + 8192, a.buffer + 100, 1500);
		check_data(b.buffer + 16384, a.buffer + 1600, 1400);
	}
}

static void other_operations(void)
{
	struct ibv_send_wr wr;

	pattern(a.buffer, 65536, 50);
	memset(b.buffer, 0, 65536);
	CALL_INT(post_recv(&b, 1, 32768, 4096));
	wr = request(1, IBV_WR_SEND_WITH_IMM, 1, 500);
	wr.imm_data = htobe32(0xdeadbeef);
	CALL_INT(post(&wr));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received with immediate data", b.recv_cq, b.qp, NULL))
		check_data(b.buffer + 32768, a.buffer, 500);

	wr = request(2, IBV_WR_RDMA_WRITE, 2, 5000);
	CALL_INT(post(&wr));
	expect_wc("written", a.send_cq, a.qp, NULL);
	check_data(b.buffer, a.buffer, 10000);
	expect_empty("the other side sees nothing", b.recv_cq);

	CALL_INT(post_recv(&b, 3, 32768, 16));
	wr = request(3, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 20000);
	wr.imm_data = htobe32(7);
	CALL_INT(post(&wr));
	expect_wc("written", a.send_cq, a.qp, NULL);
	if (expect_wc("received the immediate data", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, a.buffer, 20000);

	pattern(b.buffer, 65536, 51);
	wr = request(4, IBV_WR_RDMA_READ, 2, 6000);
	CALL_INT(post(&wr));
	expect_wc("read", a.send_cq, a.qp, NULL);
	check_data(a.buffer, b.buffer, 12000);

	wr = request(5, IBV_WR_RDMA_WRITE, 0, 0);
	wr.wr.rdma.rkey = 0; /* nothing is written, so no key is looked at */
	CALL_INT(post(&wr));
	expect_wc("wrote nothing", a.send_cq, a.qp, NULL);
	wr = request(6, IBV_WR_RDMA_READ, 0, 0);
	CALL_INT(post(&wr));
	expect_wc("read nothing", a.send_cq, a.qp, NULL);

	/* Send with invalidation of a key that may be invalidated by nobody is in post_errors.c. */
	wr = request(7, IBV_WR_LOCAL_INV, 0, 0);
	wr.invalidate_rkey = 0;
	CALL_INT(post(&wr));
	expect_wc("invalidated nothing", a.send_cq, a.qp, NULL);
	reconnect_pair(&a, &b);
}

static void flags(void)
{
	struct ibv_send_wr wr[5];
	struct ibv_send_wr *bad;

	/* Of a list only the signaled ones complete, in order. */
	for (int i = 0; i < 5; i++) {
		wr[i] = request(200 + i, IBV_WR_RDMA_WRITE, 1, 64);
		wr[i].send_flags = i == 1 || i == 4 ? IBV_SEND_SIGNALED : 0;
		wr[i].next = i < 4 ? &wr[i + 1] : NULL;
	}
	CALL_INT(ibv_post_send(a.qp, wr, &bad));
	CHECK(bad == NULL);
	expect_wc("second", a.send_cq, a.qp, NULL);
	expect_wc("fifth", a.send_cq, a.qp, NULL);
	expect_empty("no other", a.send_cq);

	/* A fence holds a write back until the read before it is done. */
	wr[0] = request(210, IBV_WR_RDMA_READ, 1, 4096);
	wr[1] = request(211, IBV_WR_RDMA_WRITE, 1, 4096);
	wr[1].send_flags |= IBV_SEND_FENCE;
	wr[0].next = &wr[1];
	CALL_INT(ibv_post_send(a.qp, wr, &bad));
	expect_wc("read", a.send_cq, a.qp, NULL);
	expect_wc("write behind the fence", a.send_cq, a.qp, NULL);

	static const unsigned more[] = {IBV_SEND_SOLICITED, IBV_SEND_IP_CSUM, 1 << 5, 1u << 31};
	for (int i = 0; i < 4; i++) {
		wr[0] = request(220 + i, IBV_WR_SEND, 1, 64);
		wr[0].send_flags |= more[i];
		note("flag 0x%x", more[i]);
		CALL_INT(post_recv(&b, i, 0, 64));
		CALL_INT(post(&wr[0]));
		expect_wc("sent", a.send_cq, a.qp, NULL);
		expect_wc("received", b.recv_cq, b.qp, NULL);
	}
}

static void refusals(void)
{
	struct ibv_send_wr wr[40], *bad = (void *)1;

	CALL_INT(ibv_post_send(a.qp, NULL, &bad));
	CHECK(bad == NULL);
	wr[0] = request(1, IBV_WR_SEND, 1, 64);
	CALL_INT(ibv_post_send(a.qp, wr, NULL));
	wr[0] = request(2, IBV_WR_SEND, 5, 64); /* the queue pair takes four */
	CALL_INT(post(&wr[0]));
	wr[0] = request(3, IBV_WR_SEND, 33, 1);
	CALL_INT(post(&wr[0]));

	/* The third of a list is refused: the first two are sent. */
	for (int i = 0; i < 4; i++) {
		wr[i] = request(10 + i, IBV_WR_RDMA_WRITE, i == 2 ? 9 : 1, 64);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	CALL_INT(ibv_post_send(a.qp, wr, &bad));
	CHECK(bad == &wr[2]);
	expect_wc("first", a.send_cq, a.qp, NULL);
	expect_wc("second", a.send_cq, a.qp, NULL);
	expect_empty("no third", a.send_cq);

	/* The peer has no receive, so the sends stay in the queue until it is full. */
	for (int i = 0; i < 40; i++) {
		wr[i] = request(100 + i, IBV_WR_SEND, 1, 64);
		wr[i].next = i < 39 ? &wr[i + 1] : NULL;
	}
	CALL_INT(ibv_post_send(a.qp, wr, &bad));
	int accepted = (int)(bad - wr);
	note("%d of 40 accepted", accepted);
	CALL_INT(ibv_post_send(a.qp, &wr[39], &bad));
	CHECK(bad == &wr[39]);
	for (int i = 0; i < accepted; i++) {
		struct ibv_wc wc;

		if (post_recv(&b, i, 0, 64) || !next_wc(a.send_cq, &wc) || wc.wr_id != 100u + i || wc.status)
			note("send %d went wrong", i);
		if (!next_wc(b.recv_cq, &wc) || wc.wr_id != (unsigned)i || wc.status)
			note("receive %d went wrong", i);
	}
	expect_empty("all done", a.send_cq);
}

/* Posting before the queue pair can send. */
static void states(void)
{
	struct ibv_send_wr wr = request(1, IBV_WR_SEND, 1, 64);
	struct endpoint fresh = {0};
	struct ibv_send_wr *bad = (void *)1;

	endpoint_open(&fresh, "rxe0");
	wr.sg_list[0].lkey = fresh.mr->lkey;
	CALL_INT(ibv_post_send(fresh.qp, &wr, &bad));
	CHECK(bad == NULL);
	modify_to_init(&fresh);
	CALL_INT(ibv_post_send(fresh.qp, &wr, &bad));
	modify_to_rtr(&fresh, &fresh.gid, fresh.qp->qp_num);
	CALL_INT(ibv_post_send(fresh.qp, &wr, &bad));
	expect_empty("nothing completes", fresh.send_cq);
	CALL_INT(modify_to_reset(fresh.qp));
	CALL_INT(modify_to_init(&fresh));
	CALL_INT(modify_to_error(fresh.qp));
	CALL_INT(ibv_post_send(fresh.qp, &wr, &bad));
	expect_wc("flushed at once", fresh.send_cq, fresh.qp, NULL);
	endpoint_close(&fresh);
}

int main(void)
{
	begin();
	open_pair(&a, &b, "rxe0", "rxe1");
	sends();
	other_operations();
	flags();
	refusals();
	states();
	endpoint_close(&a);
	endpoint_close(&b);

	note("within one device, every send signaled");
	a = (struct endpoint){.sq_sig_all = 1};
	b = (struct endpoint){0};
	open_pair(&a, &b, "rxe0", "rxe0");
	other_operations();
	struct ibv_send_wr wr = request(1, IBV_WR_RDMA_WRITE, 1, 64);
	wr.send_flags = 0;
	CALL_INT(post(&wr));
	expect_wc("written", a.send_cq, a.qp, NULL);
	endpoint_close(&a);
	endpoint_close(&b);
	return end();
}
