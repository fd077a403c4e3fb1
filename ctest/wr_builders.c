/*
 * wr_builders.c - work requests built by calls instead of structs.
 *
 * Proves: every builder and setter that soft-RoCE has; several requests under one start; aborting; what is too much
 * (entries, inline bytes, requests) and that nothing of a failed batch is sent; datagrams.
 *
 * Two bugs of rdma-core's soft-RoCE provider are kept out of here: lists of entries of different lengths and lists of
 * inline buffers get a wrong total, and inline data is sent as such only when the program sets the flag itself.
 * ours_only_wr_builders.c tests those.
 */
#include "setup.h"

#define ALL                                                                                                    \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |                 \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |          \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |              \
	 IBV_QP_EX_WITH_SEND_WITH_INV)

static struct endpoint a = {.send_ops_flags = ALL, .cap = {16, 16, 4, 4, 64}}, b;
static struct ibv_qp_ex *q;

static void start(uint64_t wr_id, unsigned flags)
{
	CALL_VOID(ibv_wr_start(q));
	q->wr_id = wr_id;
	q->wr_flags = IBV_SEND_SIGNALED | flags;
}

static void set_sge(uint32_t length)
{
	ibv_wr_set_sge(q, a.mr->lkey, (uintptr_t)a.buffer, length);
}

static void operations(void)
{
	uint64_t there = (uintptr_t)b.buffer;
	volatile uint64_t *memory = (uint64_t *)b.buffer, *result = (uint64_t *)a.buffer;

	pattern(a.buffer, 8192, 1);
	CALL_INT(post_recv(&b, 1, 0, 4096));
	start(1, 0);
	CALL_VOID(ibv_wr_send(q));
	CALL_VOID(set_sge(3000));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, a.buffer, 3000);

	CALL_INT(post_recv(&b, 2, 0, 4096));
	start(2, IBV_SEND_SOLICITED);
	CALL_VOID(ibv_wr_send_imm(q, htobe32(0xcafe)));
	CALL_VOID(set_sge(10));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	expect_wc("received", b.recv_cq, b.qp, NULL);

	start(3, 0);
	CALL_VOID(ibv_wr_rdma_write(q, b.mr->rkey, there + 4096));
	CALL_VOID(set_sge(4096));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("written", a.send_cq, a.qp, NULL);
	check_data(b.buffer + 4096, a.buffer, 4096);

	CALL_INT(post_recv(&b, 4, 0, 0));
	start(4, 0);
	CALL_VOID(ibv_wr_rdma_write_imm(q, b.mr->rkey, there + 8192, htobe32(44)));
	CALL_VOID(set_sge(100));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("written", a.send_cq, a.qp, NULL);
	expect_wc("received", b.recv_cq, b.qp, NULL);

	pattern(b.buffer, 4096, 2);
	start(5, 0);
	CALL_VOID(ibv_wr_rdma_read(q, b.mr->rkey, there));
	CALL_VOID(set_sge(2000));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("read", a.send_cq, a.qp, NULL);
	check_data(a.buffer, b.buffer, 2000);

	*memory = 40;
	start(6, 0);
	CALL_VOID(ibv_wr_atomic_fetch_add(q, b.mr->rkey, there, 2));
	CALL_VOID(set_sge(8));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("added", a.send_cq, a.qp, NULL);
	note("    result %" PRIu64 " memory %" PRIu64, *result, *memory);
	start(7, 0);
	CALL_VOID(ibv_wr_atomic_cmp_swp(q, b.mr->rkey, there, 42, 7));
	CALL_VOID(set_sge(8));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("swapped", a.send_cq, a.qp, NULL);
	note("    result %" PRIu64 " memory %" PRIu64, *result, *memory);

	/* No entry at all, and an entry without length. */
	CALL_INT(post_recv(&b, 8, 0, 16));
	start(8, 0);
	CALL_VOID(ibv_wr_send(q));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	expect_wc("received", b.recv_cq, b.qp, NULL);
	CALL_INT(post_recv(&b, 9, 0, 16));
	start(9, 0);
	CALL_VOID(ibv_wr_send(q));
	CALL_VOID(set_sge(0));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	expect_wc("received", b.recv_cq, b.qp, NULL);
}

static void windows(void)
{
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buffer, a.length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	struct ibv_mw_bind_info info = {mr, (uintptr_t)a.buffer, 4096, IBV_ACCESS_REMOTE_WRITE};
	uint32_t key = ibv_inc_rkey(mw->rkey);

	start(20, 0);
	CALL_VOID(ibv_wr_bind_mw(q, mw, key, &info));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("bound", a.send_cq, a.qp, NULL);
	start(21, 0);
	CALL_VOID(ibv_wr_local_inv(q, key));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("invalidated", a.send_cq, a.qp, NULL);
	CALL_INT(ibv_dealloc_mw(mw));

	/* b owns a window that a's send invalidates. */
	struct ibv_mr *their = ibv_reg_mr(b.pd, b.buffer, b.length,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = {.wr_id = 22, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc;
	mw = CALL_PTR(ibv_alloc_mw(b.pd, IBV_MW_TYPE_2));
	key = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = key;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){their, (uintptr_t)b.buffer, 4096, IBV_ACCESS_REMOTE_WRITE};
	CALL_INT(ibv_post_send(b.qp, &wr, &bad));
	expect_wc("bound", b.send_cq, b.qp, NULL);
	CALL_INT(post_recv(&b, 23, 8192, 64));
	start(23, 0);
	CALL_VOID(ibv_wr_send_inv(q, key));
	CALL_VOID(set_sge(16));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (next_wc(b.recv_cq, &wc)) {
		print_wc(&wc, b.qp, NULL);
		CHECK(wc.invalidated_rkey == key);
	}
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_dereg_mr(their));
}

static void batches(void)
{
	struct ibv_sge list[4];

	for (int i = 0; i < 4; i++) /* equal lengths: see the head of this file */
		list[i] = (struct ibv_sge){(uintptr_t)a.buffer + i * 1000, 1000, a.mr->lkey};
	pattern(a.buffer, 8192, 4);
	for (int round = 0; round < 8; round++) { /* around the ring's end */
		start(100 + round * 10, 0);
		for (int i = 0; i < 5; i++) {
			q->wr_id = 100 + round * 10 + i;
			q->wr_flags = i == 4 ? IBV_SEND_SIGNALED : 0;
			ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer + i * 4000);
			ibv_wr_set_sge_list(q, 4, list);
		}
		CALL_INT(ibv_wr_complete(q));
		expect_wc("last", a.send_cq, a.qp, NULL);
		for (int i = 0; i < 5; i++)
			check_data(b.buffer + i * 4000, a.buffer, 4000);
	}
	expect_empty("no other", a.send_cq);

	/* Aborted: nothing is sent, and the next batch is not disturbed. */
	start(200, 0);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	set_sge(64);
	CALL_VOID(ibv_wr_abort(q));
	expect_empty("aborted", a.send_cq);
	start(201, 0);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	set_sge(64);
	CALL_INT(ibv_wr_complete(q));
	expect_wc("after it", a.send_cq, a.qp, NULL);
	start(202, 0);
	CALL_INT(ibv_wr_complete(q)); /* nothing built */
	expect_empty("nothing", a.send_cq);
}

static void inline_data(void)
{
	unsigned char data[64], copy[64];

	pattern(data, 64, 9);
	memcpy(copy, data, 64);
	start(300, IBV_SEND_INLINE);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	CALL_VOID(ibv_wr_set_inline_data(q, data, 64));
	memset(data, 0, 64);
	CALL_INT(ibv_wr_complete(q));
	expect_wc("written", a.send_cq, a.qp, NULL);
	check_data(b.buffer, copy, 64);
	start(301, IBV_SEND_INLINE);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	CALL_VOID(ibv_wr_set_inline_data(q, data, 65));
	CALL_INT(ibv_wr_complete(q)); /* 64 is the capacity */
	start(302, IBV_SEND_INLINE);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	CALL_VOID(ibv_wr_set_inline_data(q, data, 0));
	CALL_INT(ibv_wr_complete(q));
	expect_wc("written", a.send_cq, a.qp, NULL);
}

/* A batch with one bad request fails as a whole. */
static void too_much(void)
{
	struct ibv_sge list[5] = {{0}};
	unsigned char data[200];

	memset(data, 1, sizeof(data));
	start(400, 0);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	set_sge(8);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	CALL_VOID(ibv_wr_set_sge_list(q, 5, list));
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	set_sge(8);
	CALL_INT(ibv_wr_complete(q));
	expect_empty("nothing of it", a.send_cq);

	start(401, IBV_SEND_INLINE);
	ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
	struct ibv_data_buf bufs[2] = {{data, 40}, {data, 160}};
	CALL_VOID(ibv_wr_set_inline_data_list(q, 2, bufs));
	CALL_INT(ibv_wr_complete(q));
	expect_empty("nothing of it", a.send_cq);

	start(402, 0);
	for (int i = 0; i < 40; i++) {
		ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
		set_sge(8);
	}
	CALL_INT(ibv_wr_complete(q)); /* more than the queue holds */
	expect_empty("nothing of it", a.send_cq);

	start(403, 0);
	q->wr_flags = 0;
	for (int i = 0; i < 16; i++) {
		if (i == 15)
			q->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(q, b.mr->rkey, (uintptr_t)b.buffer);
		set_sge(8);
	}
	CALL_INT(ibv_wr_complete(q)); /* exactly what was asked for at creation */
	expect_wc("the last", a.send_cq, a.qp, NULL);
}

static void datagrams(void)
{
	struct endpoint x = {.type = IBV_QPT_UD, .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
	struct endpoint y = {.type = IBV_QPT_UD};
	struct ibv_ah_attr attr = {.grh = {.sgid_index = GID_INDEX, .hop_limit = 64}, .is_global = 1, .port_num = PORT};

	endpoint_open(&x, "rxe0");
	endpoint_open(&y, "rxe1");
	ready(&x, &y.gid, 0);
	ready(&y, &x.gid, 0);
	attr.grh.dgid = y.gid;
	struct ibv_ah *ah = CALL_PTR(ibv_create_ah(x.pd, &attr));
	struct ibv_qp_ex *u = ibv_qp_to_qp_ex(x.qp);

	pattern(x.buffer, 512, 6);
	for (int i = 0; i < 2; i++)
		CALL_INT(post_recv(&y, i, i * 1024, 1024));
	ibv_wr_start(u);
	u->wr_id = 500;
	u->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(u);
	CALL_VOID(ibv_wr_set_ud_addr(u, ah, y.qp->qp_num, QKEY));
	ibv_wr_set_sge(u, x.mr->lkey, (uintptr_t)x.buffer, 300);
	u->wr_id = 501;
	ibv_wr_send_imm(u, htobe32(9));
	ibv_wr_set_sge(u, x.mr->lkey, (uintptr_t)x.buffer, 200); /* setters in either order */
	CALL_VOID(ibv_wr_set_ud_addr(u, ah, y.qp->qp_num, QKEY));
	CALL_INT(ibv_wr_complete(u));
	for (int i = 0; i < 2; i++)
		expect_wc("sent", x.send_cq, x.qp, NULL);
	for (int i = 0; i < 2; i++)
		if (expect_wc("received", y.recv_cq, y.qp, x.qp))
			check_data(y.buffer + i * 1024 + 40, x.buffer, i ? 200 : 300);
	CALL_INT(ibv_destroy_ah(ah));
	endpoint_close(&x);
	endpoint_close(&y);
}

int main(void)
{
	begin();
	open_pair(&a, &b, "rxe0", "rxe1");
	q = CALL_PTR(ibv_qp_to_qp_ex(a.qp));
	operations();
	windows();
	batches();
	inline_data();
	too_much();
	endpoint_close(&a);
	endpoint_close(&b);
	datagrams();
	return end();
}
