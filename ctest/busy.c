/*
 * busy.c - destroying what is still used.
 *
 * Proves: that every such call is refused with EBUSY, as often as it is repeated, and that the objects work afterwards
 * as if nothing had happened.
 */
#include "setup.h"

static struct endpoint a = {.with_channel = true}, b;

static void works(const char *when)
{
	note("%s", when);
	pattern(a.buffer, 256, (unsigned)strlen(when));
	memset(b.buffer, 0, 256);
	CALL_INT(post_recv(&b, 1, 0, 256));
	CALL_INT(post_send(&a, 2, 0, 256));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (expect_wc("received", b.recv_cq, b.qp, NULL))
		check_data(b.buffer, a.buffer, 256);
}

int main(void)
{
	begin();
	open_pair(&a, &b, "rxe0", "rxe1");
	works("at first");
	for (int i = 0; i < 3; i++) {
		CALL_INT(ibv_destroy_cq(a.send_cq));
		CALL_INT(ibv_destroy_cq(a.recv_cq));
		CALL_INT(ibv_dealloc_pd(a.pd));
		CALL_INT(ibv_destroy_comp_channel(a.channel));
	}
	works("after refused destructions");
	CHECK(a.qp->send_cq == a.send_cq && a.send_cq->channel == a.channel);
	FIELD(*a.channel, refcnt);
	CALL_INT(ibv_req_notify_cq(a.send_cq, 0));
	CALL_INT(post_recv(&b, 3, 0, 256));
	CALL_INT(post_send(&a, 4, 0, 256));
	expect_wc("sent", a.send_cq, a.qp, NULL);
	expect_wc("received", b.recv_cq, b.qp, NULL);
	struct ibv_cq *cq;
	void *context;
	CHECK(readable(a.channel->fd, 2000));
	CALL_INT(ibv_get_cq_event(a.channel, &cq, &context));
	CHECK(cq == a.send_cq && context == &a);
	CALL_VOID(ibv_ack_cq_events(cq, 1));

	/* A window on a region, and an address in a domain. */
	struct ibv_mr *mr = ibv_reg_mr(a.pd, a.buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(a.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.wr_id = 5, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)a.buffer, 4096, IBV_ACCESS_REMOTE_WRITE};
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("bound", a.send_cq, a.qp, NULL);
	CALL_INT(ibv_dereg_mr(mr)); /* a window is bound to it */
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_dealloc_pd(a.pd));
	works("after windows");

	/* Once the user is gone, each can go, in order. */
	CALL_INT(ibv_destroy_qp(a.qp));
	CALL_INT(ibv_dealloc_pd(a.pd)); /* the region is left */
	CALL_INT(ibv_dereg_mr(a.mr));
	CALL_INT(ibv_dealloc_pd(a.pd));
	CALL_INT(ibv_destroy_comp_channel(a.channel));
	CALL_INT(ibv_destroy_cq(a.send_cq));
	CALL_INT(ibv_destroy_comp_channel(a.channel));
	CALL_INT(ibv_destroy_cq(a.recv_cq));
	CALL_INT(ibv_destroy_comp_channel(a.channel));
	CALL_INT(ibv_close_device(a.context));
	endpoint_close(&b);
	return end();
}
