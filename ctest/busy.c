/*
 * busy.c - destroying what is still used.
 *
 * Proves: that every such call is refused with EBUSY, as often as it is repeated, and that the objects work afterwards
 * as if nothing had happened.
 *
 * Fact: Destroying what is in use is EBUSY, and what was to be destroyed works on: completion queues and channels,
 * protection domains, shared receive queues, regions with a window, queue pairs in a multicast group.
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

/* A queue that two queue pairs receive from, refused while either is there. */
static void shared_receive_queue(void)
{
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_srq_init_attr init = {.attr = {16, 1, 0}};
	struct ibv_srq *srq = CALL_PTR(ibv_create_srq(pd, &init));
	struct endpoint to = {.srq = srq}, from = {0};
	struct ibv_qp_init_attr second = {.srq = srq, .cap = {1, 0, 1, 0, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.wr_id = 77, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_srq_attr attr;

	endpoint_open_on(&to, c, pd);
	endpoint_open(&from, "rxe1");
	connect_pair(&to, &from);
	second.send_cq = second.recv_cq = to.recv_cq;
	struct ibv_qp *idle = CALL_PTR(ibv_create_qp(pd, &second));
	sge = (struct ibv_sge){(uintptr_t)to.buffer, 256, to.mr->lkey};
	for (int i = 0; i < 3; i++) {
		CALL_INT(ibv_destroy_srq(srq));
		CALL_INT(ibv_dealloc_pd(pd));
		CALL_INT(ibv_query_srq(srq, &attr));
		print_srq_attr(&attr);
		CALL_INT(ibv_post_srq_recv(srq, &wr, &bad));
		CALL_INT(post_send(&from, i, 0, 128));
		expect_wc("sent", from.send_cq, from.qp, NULL);
		expect_wc("received", to.recv_cq, to.qp, NULL);
		if (i == 1)
			CALL_INT(ibv_destroy_qp(idle)); /* one of two users is gone */
	}
	CALL_INT(ibv_destroy_qp(to.qp));
	CALL_INT(ibv_destroy_srq(srq));
	CALL_INT(ibv_dereg_mr(to.mr));

	/* What else lies in a domain. */
	struct ibv_ah_attr address = {.grh = {.dgid = to.gid, .sgid_index = GID_INDEX, .hop_limit = 1}, .is_global = 1, .port_num = PORT};
	struct ibv_ah *ah = CALL_PTR(ibv_create_ah(pd, &address));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_destroy_ah(ah));
	struct ibv_mw *mw = CALL_PTR(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	endpoint_close(&from);
}

/* A queue pair in a group cannot go, and still gets datagrams. */
static void in_a_group(void)
{
	struct endpoint ud = {.type = IBV_QPT_UD};
	union ibv_gid group = {.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 224, 1, 2, 9}};
	struct ibv_ah_attr to = {.grh = {.sgid_index = GID_INDEX, .hop_limit = 1}, .is_global = 1, .port_num = PORT};
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	endpoint_open(&ud, "rxe0");
	ready(&ud, &ud.gid, 0);
	to.grh.dgid = ud.gid;
	CALL_INT(ibv_attach_mcast(ud.qp, &group, 0));
	for (int i = 0; i < 3; i++)
		CALL_INT(ibv_destroy_qp(ud.qp));
	wr.wr.ud.ah = CALL_PTR(ibv_create_ah(ud.pd, &to));
	wr.wr.ud.remote_qpn = ud.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	sge = (struct ibv_sge){(uintptr_t)ud.buffer, 32, ud.mr->lkey};
	CALL_INT(post_recv(&ud, 1, 4096, 128));
	CALL_INT(ibv_post_send(ud.qp, &wr, &bad));
	expect_wc("sent", ud.send_cq, ud.qp, ud.qp);
	expect_wc("received", ud.recv_cq, ud.qp, ud.qp);
	CALL_INT(ibv_destroy_ah(wr.wr.ud.ah));
	CALL_INT(ibv_detach_mcast(ud.qp, &group, 0));
	endpoint_close(&ud);
}

int main(void)
{
	begin();
	shared_receive_queue();
	in_a_group();
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
	CHECK(comes(a.channel->fd));
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
