/*
 * async_events.c - asynchronous events.
 *
 * Proves: waiting without blocking; events of queue pairs (drained, last receive used) with the right element, their
 * counting and acknowledging; that destroying a queue pair waits for the acknowledgement.
 *
 * Fact: Destroying an object waits for the acknowledgement of its events that were got, and for no others.
 */
#include <fcntl.h>

#include "late.h"

static void without_blocking(struct ibv_context *c)
{
	struct ibv_async_event event;
	int flags = fcntl(c->async_fd, F_GETFL);

	FILL(event);
	CHECK(!readable(c->async_fd, 0));
	fcntl(c->async_fd, F_SETFL, flags | O_NONBLOCK);
	CALL_INT(ibv_get_async_event(c, &event));
	CHECK((unsigned)event.event_type == 0xa5a5a5a5);
	fcntl(c->async_fd, F_SETFL, flags);
}

/* The next event of a queue pair, where there is one. */
static bool take(struct ibv_context *c, struct ibv_qp *qp, struct ibv_async_event *event, enum comes_on where)
{
	FILL(*event);
	if (!event_comes(c->async_fd, where, 300)) {
		note("    no event");
		return false;
	}
	CALL_INT(ibv_get_async_event(c, event));
	FIELD(*event, event_type);
	CALL_STRING(ibv_event_type_str(event->event_type));
	CHECK(event->element.qp == qp);
	return true;
}

static void drained(void)
{
	struct endpoint e = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_async_event event;

	endpoint_open(&e, "rxe0");
	ready(&e, &e.gid, e.qp->qp_num);
	CALL_INT(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	if (take(e.context, e.qp, &event, EVERYWHERE)) {
		FIELD(*e.qp, events_completed);
		CALL_VOID(ibv_ack_async_event(&event));
		FIELD(*e.qp, events_completed);
	}
	attr.qp_state = IBV_QPS_RTS;
	CALL_INT(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
	endpoint_close(&e);
}

/* First message on a queue pair that is ready to receive only. */
static void established(void)
{
	struct endpoint a = {0}, b = {0};
	struct ibv_async_event event;

	endpoint_open(&a, "rxe0");
	endpoint_open(&b, "rxe1");
	CALL_INT(modify_to_init(&b));
	CALL_INT(modify_to_rtr(&b, &a.gid, a.qp->qp_num));
	ready(&a, &b.gid, b.qp->qp_num);
	CALL_INT(post_recv(&b, 1, 0, 64));
	CALL_INT(post_send(&a, 1, 0, 64));
	expect_wc("received in RTR", b.recv_cq, b.qp, NULL);
	expect_wc("sent", a.send_cq, a.qp, NULL);
	if (take(b.context, b.qp, &event, ON_SOFT))
		CALL_VOID(ibv_ack_async_event(&event));
	CALL_INT(modify_to_rts(&b));
	endpoint_close(&a);
	endpoint_close(&b);
}

/* What each kind of failure tells asynchronously. */
static void failures(void)
{
	struct endpoint a = {.rnr_retry = 1}, b = {0};
	struct ibv_async_event event;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	open_pair(&a, &b, "rxe0", "rxe1");
	sge = (struct ibv_sge){(uintptr_t)a.buffer, 64, a.mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer;
	for (int i = 0; i < 3; i++) {
		note("failure %d", i);
		wr.wr.rdma.rkey = b.mr->rkey;
		if (i == 0)
			wr.wr.rdma.rkey ^= 0x10;
		if (i == 1)
			sge.lkey ^= 0x10;
		if (i == 2)
			wr.opcode = IBV_WR_SEND;
		CALL_INT(ibv_post_send(a.qp, &wr, &bad));
		expect_wc("failed", a.send_cq, a.qp, NULL);
		sge.lkey = a.mr->lkey;
		if (take(a.context, a.qp, &event, NOWHERE))
			CALL_VOID(ibv_ack_async_event(&event));
		if (take(b.context, b.qp, &event, i == 0 ? ON_SOFT : NOWHERE))
			CALL_VOID(ibv_ack_async_event(&event));
		reconnect_pair(&a, &b);
	}
	endpoint_close(&a);
	endpoint_close(&b);
}

/* Destroying waits for the event that was read and not acknowledged yet. */
static void destroy_waits(void)
{
	struct endpoint e = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	endpoint_open(&e, "rxe0");
	ready(&e, &e.gid, e.qp->qp_num);
	CALL_INT(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	if (!take(e.context, e.qp, &late, EVERYWHERE))
		die("no event to leave");
	acknowledge_later();
	CALL_INT(ibv_destroy_qp(e.qp));
	destroyed_after_acknowledgement();
	CALL_INT(ibv_close_device(e.context));
}

/* An event that nobody read does not keep its queue pair, and is gone with it. */
static void unread(void)
{
	struct endpoint e = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	endpoint_open(&e, "rxe0");
	ready(&e, &e.gid, e.qp->qp_num);
	CALL_INT(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK(comes(e.context->async_fd));
	CALL_INT(ibv_destroy_qp(e.qp));
	CHECK(!readable(e.context->async_fd, 0));
	CALL_INT(ibv_close_device(e.context));
}

/* A queue pair with a shared receive queue that fails: does it say that it has used its last receive? */
static void last_receive(void)
{
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_srq_init_attr init = {.attr = {8, 1, 0}};
	struct endpoint e = {.srq = ibv_create_srq(pd, &init)}, peer = {0};
	struct ibv_sge sge = {0, 64, 0}; /* no such region */
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	enum comes_on where = ON_SOFT;
	struct ibv_async_event event;

	endpoint_open_on(&e, c, pd);
	endpoint_open(&peer, "rxe1");
	connect_pair(&e, &peer);
	CALL_INT(ibv_post_srq_recv(e.srq, &wr, &bad));
	CALL_INT(post_send(&peer, 1, 0, 64));
	expect_wc("failed", peer.send_cq, peer.qp, NULL);
	while (take(c, e.qp, &event, where)) {
		CALL_VOID(ibv_ack_async_event(&event));
		where = NOWHERE;
	}
	CALL_INT(modify_to_error(e.qp));
	while (take(c, e.qp, &event, NOWHERE))
		CALL_VOID(ibv_ack_async_event(&event));
	CALL_INT(ibv_destroy_qp(e.qp));
	CALL_INT(ibv_destroy_srq(e.srq));
	CALL_INT(ibv_close_device(c));
	endpoint_close(&peer);
}

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");

	without_blocking(c);
	CALL_INT(ibv_close_device(c));
	drained();
	established();
	failures();
	destroy_waits();
	unread();
	last_receive();
	return end();
}
