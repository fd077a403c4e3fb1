/*
 * mw.c - memory windows.
 *
 * Proves: allocation of both types and of none; the checks of ibv_bind_mw; binding by ibv_bind_mw and by a work
 * request, with the window's key changing as the verb says; access through the window within and outside its range
 * and after invalidation by the owner and by a peer's send; binds that the device refuses.
 */
#include "setup.h"

static struct endpoint a, b;

static void allocate(struct ibv_pd *pd)
{
	static const int types[] = {0, IBV_MW_TYPE_1, IBV_MW_TYPE_2, 3, 255};

	for (int i = 0; i < 5; i++) {
		struct ibv_mw *mw;

		note("type %d", types[i]);
		mw = CALL_PTR(ibv_alloc_mw(pd, types[i]));
		if (mw) {
			CHECK(mw->context == pd->context && mw->pd == pd);
			FIELD(*mw, type);
			CHECK(mw->rkey != 0);
			CALL_INT(ibv_dealloc_mw(mw));
		}
	}
}

/* Type 1: ibv_bind_mw. */
static void bind_type_1(void)
{
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buffer, a.length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_1));
	struct ibv_mw *two = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	struct ibv_pd *other = ibv_alloc_pd(a.context);
	struct ibv_mr *foreign = ibv_reg_mr(other, a.buffer, a.length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind bind = {
		.wr_id = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {mr, (uintptr_t)a.buffer, 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
	};
	uint32_t before = mw->rkey;

	CALL_INT(ibv_bind_mw(a.qp, two, &bind)); /* wrong type */
	bind.bind_info.mr = NULL;
	CALL_INT(ibv_bind_mw(a.qp, mw, &bind)); /* an address without a region */
	bind.bind_info.mr = foreign;
	CALL_INT(ibv_bind_mw(a.qp, mw, &bind)); /* another protection domain */
	bind.bind_info.mr = mr;
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	CALL_INT(ibv_bind_mw(a.qp, mw, &bind));
	CHECK(mw->rkey == before);

	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	CALL_INT(ibv_bind_mw(a.qp, mw, &bind));
	CHECK(mw->rkey == ibv_inc_rkey(before));
	expect_wc("bound", a.send_cq, a.qp, NULL);
	before = mw->rkey;
	bind.wr_id = 2;
	bind.bind_info.addr += 4096;
	CALL_INT(ibv_bind_mw(a.qp, mw, &bind));
	CHECK(mw->rkey == ibv_inc_rkey(before));
	expect_wc("bound again", a.send_cq, a.qp, NULL);

	/* A region without the right to bind: the verb accepts it, the device does not. */
	bind.wr_id = 3;
	bind.bind_info.mr = a.mr;
	before = mw->rkey;
	CALL_INT(ibv_bind_mw(a.qp, mw, &bind));
	CHECK(mw->rkey == ibv_inc_rkey(before));
	expect_wc("refused", a.send_cq, a.qp, NULL);

	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dealloc_mw(two));
	CALL_INT(ibv_dereg_mr(foreign));
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_dealloc_pd(other));
	reconnect_pair(&a, &b);
}

static int post_bind(struct ibv_mw *mw, struct ibv_mr *mr, uint32_t rkey, size_t offset, size_t length, unsigned access,
		     uint64_t wr_id)
{
	struct ibv_send_wr wr = {.wr_id = wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)a.buffer + offset, length, access};
	return ibv_post_send(a.qp, &wr, &bad);
}

/* b reads or writes length bytes at offset of a's buffer through a key. */
static int remote_access(enum ibv_wr_opcode opcode, uint32_t rkey, size_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)b.buffer, length, b.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)a.buffer + offset;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(b.qp, &wr, &bad);
}

/* Type 2: a work request, then traffic through the window. */
static void bind_type_2(void)
{
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buffer, a.length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	uint32_t before = mw->rkey, key = ibv_inc_rkey(before);

	CALL_INT(post_bind(mw, mr, key, 4096, 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 10));
	expect_wc("bound", a.send_cq, a.qp, NULL);
	CHECK(mw->rkey == before); /* a posted bind leaves the struct alone */

	pattern(b.buffer, 4096, 1);
	CALL_INT(remote_access(IBV_WR_RDMA_WRITE, key, 4096, 4096, 11));
	expect_wc("write through the window", b.send_cq, b.qp, NULL);
	check_data(a.buffer + 4096, b.buffer, 4096);
	memset(b.buffer, 0, 4096);
	CALL_INT(remote_access(IBV_WR_RDMA_READ, key, 4096 + 100, 1000, 12));
	expect_wc("read through the window", b.send_cq, b.qp, NULL);
	check_data(b.buffer, a.buffer + 4096 + 100, 1000);

	/* The owner invalidates it. */
	struct ibv_send_wr wr = {.wr_id = 13, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.invalidate_rkey = key;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("invalidated", a.send_cq, a.qp, NULL);
	CALL_INT(remote_access(IBV_WR_RDMA_WRITE, key, 4096, 64, 14));
	expect_wc("write after invalidation", b.send_cq, b.qp, NULL);
	reconnect_pair(&a, &b);

	/* Bound once more (the program keeps the struct's key up to date), then used outside its range. */
	mw->rkey = key;
	key = ibv_inc_rkey(key);
	CALL_INT(post_bind(mw, mr, key, 4096, 4096, IBV_ACCESS_REMOTE_WRITE, 15));
	expect_wc("bound", a.send_cq, a.qp, NULL);
	CALL_INT(remote_access(IBV_WR_RDMA_WRITE, key, 4096, 4097, 16));
	expect_wc("write past the window", b.send_cq, b.qp, NULL);
	CALL_INT(ibv_dealloc_mw(mw));
	reconnect_pair(&a, &b);

	/* Without the right that is used. */
	mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	key = ibv_inc_rkey(mw->rkey);
	CALL_INT(post_bind(mw, mr, key, 0, 4096, IBV_ACCESS_REMOTE_WRITE, 17));
	expect_wc("bound for writing", a.send_cq, a.qp, NULL);
	CALL_INT(remote_access(IBV_WR_RDMA_READ, key, 0, 64, 18));
	expect_wc("read", b.send_cq, b.qp, NULL);
	reconnect_pair(&a, &b);
	CALL_INT(ibv_dealloc_mw(mw));

	/* A peer's send invalidates it. */
	mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	key = ibv_inc_rkey(mw->rkey);
	CALL_INT(post_bind(mw, mr, key, 0, 4096, IBV_ACCESS_REMOTE_WRITE, 19));
	expect_wc("bound", a.send_cq, a.qp, NULL);
	CALL_INT(post_recv(&a, 20, 8192, 128));
	struct ibv_sge sge = {(uintptr_t)b.buffer, 64, b.mr->lkey};
	struct ibv_send_wr inv = {.wr_id = 21,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .send_flags = IBV_SEND_SIGNALED};
	inv.invalidate_rkey = key;
	CALL_INT(ibv_post_send(b.qp, &inv, &bad));
	expect_wc("send with invalidate", b.send_cq, b.qp, NULL);
	struct ibv_wc wc;
	if (next_wc(a.recv_cq, &wc)) {
		print_wc(&wc, a.qp, b.qp);
		CHECK(wc.invalidated_rkey == key);
	}
	CALL_INT(remote_access(IBV_WR_RDMA_WRITE, key, 0, 64, 22));
	expect_wc("write after the peer's invalidation", b.send_cq, b.qp, NULL);
	reconnect_pair(&a, &b);
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dereg_mr(mr));
}

/* Binds that are refused by the device: each ends in an error completion. */
static void refused(void)
{
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buffer, a.length,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	struct ibv_mr *read_only = ibv_reg_mr(a.pd, a.buffer, a.length, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw;

	struct {
		const char *what;
		struct ibv_mr *mr;
		uint32_t key_step;
		size_t offset, length;
		unsigned access;
	} cases[] = {
		{"same key part", mr, 0, 0, 4096, IBV_ACCESS_REMOTE_WRITE},
		{"beyond the region", mr, 1, 65536 - 100, 4096, IBV_ACCESS_REMOTE_WRITE},
		{"remote write on a read-only region", read_only, 1, 0, 4096, IBV_ACCESS_REMOTE_WRITE},
		{"no right to bind", a.mr, 1, 0, 4096, IBV_ACCESS_REMOTE_WRITE},
		{"zero based", mr, 1, 0, 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED},
		{"no length", mr, 1, 0, 0, IBV_ACCESS_REMOTE_WRITE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
		note("%s", cases[i].what);
		uint32_t key = cases[i].key_step ? ibv_inc_rkey(mw->rkey) : mw->rkey;
		CALL_INT(post_bind(mw, cases[i].mr, key, cases[i].offset, cases[i].length, cases[i].access, 30 + i));
		expect_wc("answer", a.send_cq, a.qp, NULL);
		CALL_INT(ibv_dealloc_mw(mw));
		reconnect_pair(&a, &b);
	}
	/* A window of type 1 by work request. */
	mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_1));
	CALL_INT(post_bind(mw, mr, ibv_inc_rkey(mw->rkey), 0, 4096, IBV_ACCESS_REMOTE_WRITE, 40));
	expect_wc("answer", a.send_cq, a.qp, NULL);
	CALL_INT(ibv_dealloc_mw(mw));
	reconnect_pair(&a, &b);

	/* What the provider itself refuses before the device sees it. */
	mw = CALL_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
	struct ibv_sge sge = {(uintptr_t)a.buffer, 8, a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info.mr = mr;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);
	wr.num_sge = 0;
	wr.imm_data = 5;
	bad = NULL;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	CHECK(bad == &wr);
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dereg_mr(read_only));
	CALL_INT(ibv_dereg_mr(mr));
}

int main(void)
{
	begin();
	CALL_INT((int)(ibv_inc_rkey(0x12345678) - 0x12345679));
	CALL_INT((int)(ibv_inc_rkey(0x123456ff) - 0x12345600));
	open_pair(&a, &b, "rxe0", "rxe1");
	allocate(a.pd);
	bind_type_1();
	bind_type_2();
	refused();
	endpoint_close(&a);
	endpoint_close(&b);
	return end();
}
