/*
 * post_recv.c - posting receives.
 *
 * Proves: states that take receives and states that do not; lists, full queues and too many entries with the right
 * *bad_wr; receives without room; that they are used in order; queue pairs with a shared queue.
 */
#include "setup.h"

static struct endpoint e, peer;
static int posted;

static int post(struct endpoint *to, int n, int num_sge, int *bad_at)
{
	struct ibv_recv_wr wr[64], *bad = (void *)1;
	struct ibv_sge sge[64];
	int ret;

	for (int i = 0; i < 64; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)to->buffer + i * 512, 512, to->mr->lkey};
	for (int i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){i, i + 1 < n ? &wr[i + 1] : NULL, sge, num_sge};
	ret = ibv_post_recv(to->qp, wr, &bad);
	posted += ret ? (bad >= wr && bad < wr + n ? (int)(bad - wr) : 0) : n;
	*bad_at = bad == (void *)1 ? -1 : bad ? (int)(bad - wr) : -2; /* -2: set to NULL */
	return ret;
}

static void states(void)
{
	int bad_at;
	struct ibv_recv_wr *bad = (void *)1;

	CALL_INT(ibv_post_recv(e.qp, NULL, &bad));
	CHECK(bad == NULL);
	CALL_INT(post(&e, 1, 1, &bad_at)); /* RESET */
	note("    bad %d", bad_at);
	struct ibv_recv_wr one = {.wr_id = 1};
	CALL_INT(ibv_post_recv(e.qp, &one, NULL));
	CALL_INT(modify_to_init(&e));
	CALL_INT(post(&e, 2, 1, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(modify_to_rtr(&e, &e.gid, e.qp->qp_num));
	CALL_INT(post(&e, 2, 2, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(modify_to_rts(&e));
	CALL_INT(post(&e, 2, 4, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(post(&e, 1, 5, &bad_at)); /* one entry too many */
	note("    bad %d", bad_at);
	CALL_INT(post(&e, 1, 1000, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(post(&e, 60, 1, &bad_at)); /* the queue fills */
	note("    bad %d", bad_at);
	CALL_INT(post(&e, 1, 1, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(modify_to_error(e.qp));
	for (int i = 0; i < 31; i++)
		if (i < posted)
			expect_wc("flushed", e.recv_cq, e.qp, NULL);
		else
			expect_no_wc("flushed", e.recv_cq, e.qp, NULL);
	expect_empty("all", e.recv_cq);
	CALL_INT(post(&e, 3, 1, &bad_at));
	expect_on_soft("soft-RoCE flushes no receive posted this late", e.recv_cq);
	CALL_INT(modify_to_reset(e.qp));
	CALL_INT(post(&e, 1, 1, &bad_at));
	note("    bad %d", bad_at);
}

/* The struct's state decides, and the program may have changed it behind the library's back. */
static void state_of_the_struct(void)
{
	int bad_at;

	CALL_INT(modify_to_init(&e));
	e.qp->state = IBV_QPS_RESET;
	CALL_INT(post(&e, 1, 1, &bad_at));
	note("    bad %d", bad_at);
	e.qp->state = IBV_QPS_INIT;
	CALL_INT(post(&e, 1, 1, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(modify_to_reset(e.qp));
}

static void order(void)
{
	struct ibv_sge sge = {0};
	struct ibv_recv_wr empty = {.wr_id = 500}, *bad;
	struct ibv_recv_wr zero_length = {.wr_id = 501, .sg_list = &sge, .num_sge = 1};

	connect_pair(&e, &peer);
	for (int i = 0; i < 8; i++)
		CALL_INT(post_recv(&e, 100 + i, i * 1024, 1024));
	for (int i = 0; i < 8; i++) {
		pattern(peer.buffer, 1024, i);
		CALL_INT(post_send(&peer, i, 0, 1024 - i));
		expect_wc("sent", peer.send_cq, peer.qp, NULL);
		expect_wc("received", e.recv_cq, e.qp, NULL);
		check_data(e.buffer + i * 1024, peer.buffer, 1024 - i);
	}
	/* Receives without room take messages without data. */
	CALL_INT(ibv_post_recv(e.qp, &empty, &bad));
	CALL_INT(ibv_post_recv(e.qp, &zero_length, &bad));
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;

		CALL_INT(ibv_post_send(peer.qp, &wr, &bad_send));
		expect_wc("sent", peer.send_cq, peer.qp, NULL);
		expect_wc("received", e.recv_cq, e.qp, NULL);
	}
	/* Around the ring's end many times. */
	for (int i = 0; i < 200; i++) {
		struct ibv_wc wc;

		if (post_recv(&e, i, 0, 64) || post_send(&peer, i, 0, 32) || !next_wc(peer.send_cq, &wc) || wc.status ||
		    !next_wc(e.recv_cq, &wc) || wc.status || wc.wr_id != (unsigned)i || wc.byte_len != 32)
			note("message %d went wrong", i);
	}
}

static void with_srq(void)
{
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_srq_init_attr init = {.attr = {8, 1, 0}};
	struct endpoint s = {.srq = ibv_create_srq(pd, &init)};
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = (void *)1;

	endpoint_open_on(&s, c, pd);
	ready(&s, &s.gid, s.qp->qp_num);
	CALL_INT(ibv_post_recv(s.qp, &wr, &bad));
	CHECK(bad == NULL);
	CALL_INT(ibv_close_device(c));
}

int main(void)
{
	begin();
	endpoint_open(&e, "rxe0");
	endpoint_open(&peer, "rxe1");
	states();
	state_of_the_struct();
	order();
	endpoint_close(&e);
	endpoint_close(&peer);
	with_srq();
	return end();
}
