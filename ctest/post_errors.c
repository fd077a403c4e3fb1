/*
 * post_errors.c - work that fails after it was accepted.
 *
 * Proves: the status and every other field of the completions for each kind of failure, on the side that asked and on
 * the side that answered; that what was posted behind it is flushed; and the state both queue pairs end in.
 */
#include "setup.h"

static struct endpoint a, b;

static struct ibv_sge sge;
static struct ibv_send_wr request(uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t size)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED};

	sge = (struct ibv_sge){(uintptr_t)a.buffer, size, a.mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	wr.wr.rdma.rkey = b.mr->rkey;
	return wr;
}

static void print_state(const char *who, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(qp, &attr, IBV_QP_CUR_STATE, &init))
		die("query");
	note("    %s: struct %d kernel %d", who, qp->state, attr.qp_state);
}

/* Post the failing request with a harmless one behind it; print what both sides see; start afresh. */
static void fails(const char *what, struct ibv_send_wr wr, bool receive_fails)
{
	struct ibv_sge harmless_sge = {(uintptr_t)a.buffer, 8, a.mr->lkey};
	struct ibv_send_wr harmless = {.wr_id = 999,
				       .sg_list = &harmless_sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = 0},
			   *bad;
	struct ibv_wc wc;

	harmless.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	harmless.wr.rdma.rkey = b.mr->rkey;
	note("%s", what);
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_this_wc("failed", a.send_cq, a.qp, NULL, &wc);
	CALL_INT(ibv_post_send(a.qp, &harmless, &bad)); /* unsignaled, and completes all the same */
	if (wc.status)
		expect_wc("flushed", a.send_cq, a.qp, NULL);
	else
		expect_no_wc("flushed", a.send_cq, a.qp, NULL);
	if (receive_fails)
		expect_wc("receive", b.recv_cq, b.qp, NULL);
	CALL_INT(post_recv(&a, 55, 0, 16));
	expect_on_soft("soft-RoCE flushes no receive posted this late", a.recv_cq);
	print_state("requester", a.qp);
	reconnect_pair(&a, &b);
}

static void remote_access(void)
{
	struct ibv_send_wr wr;
	struct ibv_mr *none = ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *readable_mr = ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_REMOTE_READ);

	wr = request(1, IBV_WR_RDMA_WRITE, 64), wr.wr.rdma.rkey ^= 0x10;
	fails("write, unknown key", wr, false);
	wr = request(2, IBV_WR_RDMA_READ, 64), wr.wr.rdma.rkey ^= 0x10;
	fails("read, unknown key", wr, false);
	wr = request(3, IBV_WR_RDMA_WRITE, 64), wr.wr.rdma.remote_addr += b.length - 63;
	fails("write, one byte past the region", wr, false);
	wr = request(4, IBV_WR_RDMA_READ, 64), wr.wr.rdma.remote_addr -= 1;
	fails("read, one byte before the region", wr, false);
	wr = request(5, IBV_WR_RDMA_WRITE, 64), wr.wr.rdma.rkey = readable_mr->rkey;
	fails("write, region for reading", wr, false);
	wr = request(6, IBV_WR_RDMA_READ, 64), wr.wr.rdma.rkey = none->lkey;
	fails("read, region without remote rights", wr, false);
	CALL_INT(post_recv(&b, 7, 0, 64));
	wr = request(7, IBV_WR_RDMA_WRITE_WITH_IMM, 64), wr.wr.rdma.rkey ^= 0x10;
	fails("write with immediate data, unknown key", wr, false);
	CALL_INT(ibv_dereg_mr(none));
	CALL_INT(ibv_dereg_mr(readable_mr));

	/* The queue pair's own rights. */
	b.no_qp_access = true;
	reconnect_pair(&a, &b);
	fails("write, queue pair without rights", request(8, IBV_WR_RDMA_WRITE, 64), false);
	fails("read, queue pair without rights", request(9, IBV_WR_RDMA_READ, 64), false);
	b.no_qp_access = false;
	reconnect_pair(&a, &b);
}

static void local_protection(void)
{
	struct ibv_send_wr wr;
	struct ibv_mr *constant = ibv_reg_mr(a.pd, a.buffer, 4096, 0);
	struct ibv_pd *other = ibv_alloc_pd(a.context);
	struct ibv_mr *foreign = ibv_reg_mr(other, a.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);

	wr = request(1, IBV_WR_RDMA_WRITE, 64), sge.lkey ^= 0x10;
	fails("write, unknown local key", wr, false);
	wr = request(2, IBV_WR_RDMA_WRITE, 64), sge.addr += a.length - 63;
	fails("write, one byte past the local region", wr, false);
	wr = request(3, IBV_WR_SEND, 64), sge.lkey = foreign->lkey;
	fails("send, region of another protection domain", wr, false);
	wr = request(4, IBV_WR_RDMA_READ, 64), sge.lkey = constant->lkey;
	fails("read into a region that may not be written", wr, false);
	wr = request(5, IBV_WR_RDMA_WRITE, 64), sge.lkey = 0;
	fails("write, key 0", wr, false);
	CALL_INT(ibv_dereg_mr(constant));
	CALL_INT(ibv_dereg_mr(foreign));
	CALL_INT(ibv_dealloc_pd(other));
}

static void receiver(void)
{
	struct ibv_mr *constant = ibv_reg_mr(b.pd, b.buffer, 4096, 0);
	struct ibv_sge to = {(uintptr_t)b.buffer, 64, constant->lkey};
	struct ibv_recv_wr recv = {.wr_id = 70, .sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr wr;

	CALL_INT(post_recv(&b, 71, 0, 63));
	fails("send longer than the receive", request(1, IBV_WR_SEND, 64), true);
	CALL_INT(post_recv(&b, 72, 0, 3000));
	fails("send longer than the receive, several packets", request(2, IBV_WR_SEND, 4000), true);
	CALL_INT(ibv_post_recv(b.qp, &recv, &bad));
	fails("receive into a region that may not be written", request(3, IBV_WR_SEND, 64), true);
	to.lkey = b.mr->lkey ^ 0x10;
	CALL_INT(ibv_post_recv(b.qp, &recv, &bad));
	fails("receive with an unknown key", request(4, IBV_WR_SEND, 64), true);
	CALL_INT(post_recv(&b, 73, 0, 64));
	wr = request(5, IBV_WR_SEND_WITH_INV, 64);
	wr.invalidate_rkey = b.mr->rkey ^ 0x10;
	fails("send that invalidates an unknown key", wr, true);
	CALL_INT(ibv_dereg_mr(constant));
}

static void retries(void)
{
	/* No receive, and patience for one retry. */
	a.rnr_retry = 1;
	reconnect_pair(&a, &b);
	fails("no receive, one retry", request(1, IBV_WR_SEND, 64), false);
	a.rnr_retry = 0, a.zero_rnr_retry = true;
	reconnect_pair(&a, &b);
	fails("no receive, no retry", request(2, IBV_WR_SEND, 64), false);
	a.zero_rnr_retry = false;

	/* Nobody answers: the peer is in RESET. */
	a.timeout = 8, a.retry_cnt = 1;
	reconnect_pair(&a, &b);
	CALL_INT(modify_to_reset(b.qp));
	struct ibv_send_wr wr = request(3, IBV_WR_SEND, 64), *bad;
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("peer in RESET", a.send_cq, a.qp, NULL);
	print_state("requester", a.qp);
	reconnect_pair(&a, &b);
	CALL_INT(modify_to_error(b.qp));
	wr = request(4, IBV_WR_RDMA_READ, 64);
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("peer in ERR", a.send_cq, a.qp, NULL);
	a.timeout = 0, a.retry_cnt = 0;

	/* A peer that does not exist. */
	struct endpoint x = {.timeout = 8, .retry_cnt = 1};
	endpoint_open(&x, "rxe0");
	ready(&x, &b.gid, 0xfffff0);
	CALL_INT(post_send(&x, 5, 0, 64));
	expect_wc("no such queue pair", x.send_cq, x.qp, NULL);
	endpoint_close(&x);
	reconnect_pair(&a, &b);
}

/* Moving to ERR flushes everything that was posted, in order. */
static void flush(void)
{
	for (int i = 0; i < 3; i++)
		CALL_INT(post_recv(&a, 10 + i, 0, 64));
	for (int i = 0; i < 3; i++)
		CALL_INT(post_send(&a, 20 + i, 0, 64)); /* the peer has no receive, so they wait */
	usleep(20000);
	CALL_INT(modify_to_error(a.qp));
	for (int i = 0; i < 3; i++)
		expect_wc("receive", a.recv_cq, a.qp, NULL);
	for (int i = 0; i < 3; i++)
		expect_wc("send", a.send_cq, a.qp, NULL);
	CALL_INT(post_recv(&a, 30, 0, 64));
	expect_on_soft("receive posted in ERR", a.recv_cq);
	CALL_INT(post_send(&a, 31, 0, 64));
	expect_wc("send posted in ERR", a.send_cq, a.qp, NULL);
	reconnect_pair(&a, &b);

	/* Moving to RESET forgets it. */
	for (int i = 0; i < 3; i++)
		CALL_INT(post_recv(&a, 40 + i, 0, 64));
	CALL_INT(post_send(&a, 50, 0, 64));
	usleep(20000);
	CALL_INT(modify_to_reset(a.qp));
	expect_empty("no receive", a.recv_cq);
	expect_empty("no send", a.send_cq);
	reconnect_pair(&a, &b);
}

int main(void)
{
	begin();
	open_pair(&a, &b, "rxe0", "rxe1");
	remote_access();
	local_protection();
	receiver();
	retries();
	flush();
	endpoint_close(&a);
	endpoint_close(&b);
	return end();
}
