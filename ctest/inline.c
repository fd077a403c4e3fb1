/*
 * inline.c - data that is copied when it is posted.
 *
 * Proves: what inline capacity is given for what is asked; every length up to it and the refusal beyond, with *bad_wr;
 * that the buffer is free at once and needs no region; several entries; inline writes; a capacity of zero.
 */
#include "setup.h"

static struct endpoint a = {.cap = {16, 16, 4, 4, 200}}, b;

static uint32_t max_inline(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &init))
		die("query");
	return init.cap.max_inline_data;
}

static void sends(void)
{
	uint32_t max = max_inline(a.qp);
	unsigned char data[1024], copy[1024];

	note("inline capacity %u", max);
	for (uint32_t length = 0; length <= max + 2; length += length < 4 || length >= max - 2 ? 1 : 23) {
		struct ibv_sge sge = {(uintptr_t)data, length, 0}; /* no region */
		struct ibv_send_wr wr = {.wr_id = length,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
				   *bad = NULL;

		note("length %u", length);
		pattern(data, sizeof(data), length);
		memcpy(copy, data, sizeof(copy));
		CALL_INT(post_recv(&b, length, 0, 1024));
		CALL_INT(ibv_post_send(a.qp, &wr, &bad));
		memset(data, 0xee, sizeof(data)); /* too late to matter */
		if (bad) {
			CHECK(bad == &wr);
			continue;
		}
		expect_wc("sent", a.send_cq, a.qp, NULL);
		if (expect_wc("received", b.recv_cq, b.qp, NULL))
			check_data(b.buffer, copy, length);
	}
	reconnect_pair(&a, &b);
}

static void several_entries(void)
{
	unsigned char one[50], two[30], three[20], all[100];
	struct ibv_sge sge[4] = {{(uintptr_t)one, 50, 0}, {(uintptr_t)two, 30, 0}, {0, 0, 0}, {(uintptr_t)three, 20, 0}};
	struct ibv_send_wr wr = {.sg_list = sge,
				 .num_sge = 4,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				 .imm_data = htobe32(5)},
			   *bad;

	pattern(all, 100, 3);
	memcpy(one, all, 50), memcpy(two, all + 50, 30), memcpy(three, all + 80, 20);
	CALL_INT(post_recv(&b, 1, 0, 1024));
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, all, 100);

	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer + 4096;
	wr.wr.rdma.rkey = b.mr->rkey;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("written", a.send_cq, a.qp, NULL);
	check_data(b.buffer + 4096, all, 100);

	sge[0].length = max_inline(a.qp); /* together too long */
	bad = NULL;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);

	/* In the middle of a list. */
	struct ibv_send_wr list[3];
	for (int i = 0; i < 3; i++) {
		list[i] = wr;
		list[i].wr_id = i;
		list[i].num_sge = i == 1 ? 4 : 0;
		list[i].next = i < 2 ? &list[i + 1] : NULL;
	}
	CALL_INT(ibv_post_send(a.qp, list, &bad));
	CHECK(bad == &list[1]);
	expect_wc("first", a.send_cq, a.qp, NULL);
	expect_empty("no other", a.send_cq);
}

/* Reads and atomics move data the other way; the flag is accepted or refused by the device. */
static void wrong_operations(void)
{
	unsigned char data[64] = {0};
	struct ibv_sge sge = {(uintptr_t)data, 16, 0};
	struct ibv_send_wr wr = {.wr_id = 9,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
			   *bad = NULL;

	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);
	if (!bad) {
		struct ibv_wc wc;

		if (FOUND_COUNT(ibv_poll_cq(a.send_cq, 1, &wc)))
			print_wc(&wc, a.qp, NULL);
	}
}

static void capacity_zero(void)
{
	struct endpoint x = {.cap = {4, 4, 1, 1, 0}};
	unsigned char data[64] = {0};
	struct ibv_sge sge = {(uintptr_t)data, 0, 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
			   *bad;

	endpoint_open(&x, "rxe0");
	ready(&x, &x.gid, x.qp->qp_num);
	wr.wr.rdma.remote_addr = (uintptr_t)x.buffer;
	wr.wr.rdma.rkey = x.mr->rkey;
	note("inline capacity %u", max_inline(x.qp));
	for (sge.length = 0; sge.length <= 20; sge.length += 4) {
		bad = NULL;
		note("length %u", sge.length);
		CALL_INT(ibv_post_send(x.qp, &wr, &bad));
		if (bad)
			CHECK(bad == &wr);
		else
			expect_wc("written", x.send_cq, x.qp, NULL);
	}
	endpoint_close(&x);
}

int main(void)
{
	begin();
	open_pair(&a, &b, "rxe0", "rxe1");
	sends();
	several_entries();
	wrong_operations();
	endpoint_close(&a);
	endpoint_close(&b);
	capacity_zero();
	return end();
}
