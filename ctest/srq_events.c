/*
 * srq_events.c - the limit of a shared receive queue.
 *
 * Proves: the event comes when fewer receives than the limit are left, once; the limit is then disarmed and can be
 * armed again; 0 disarms; the creating verb arms it, too; destroying waits until the event is acknowledged.
 *
 * Fact: The limit event of a shared receive queue comes once for each time that the limit is armed.
 */
#include "late.h"

static struct endpoint to, from;
static struct ibv_srq *srq;

static void print_now(void)
{
	struct ibv_srq_attr attr;

	CALL_INT(ibv_query_srq(srq, &attr));
	print_srq_attr(&attr);
}

static void fill(int n)
{
	struct ibv_sge sge = {(uintptr_t)to.buffer, 64, to.mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	for (int i = 0; i < n; i++)
		if (ibv_post_srq_recv(srq, &wr, &bad))
			die("filling");
}

static void take(int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++)
		if (post_send(&from, 0, 0, 32) || !next_wc(from.send_cq, &wc) || !next_wc(to.recv_cq, &wc))
			die("taking");
	note("%d receives used", n);
}

static void arm(uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	note("arm at %u", limit);
	CALL_INT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
}

static bool event(enum comes_on where)
{
	struct ibv_async_event e;

	FILL(e);
	if (!event_comes(to.context->async_fd, where, 100)) {
		note("    no event");
		return false;
	}
	CALL_INT(ibv_get_async_event(to.context, &e));
	FIELD(e, event_type);
	CHECK(e.element.srq == srq);
	CALL_VOID(ibv_ack_async_event(&e));
	FIELD(*srq, events_completed);
	return true;
}

static void create(uint32_t limit)
{
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_srq_init_attr init = {.attr = {16, 1, limit}};

	srq = CALL_PTR(ibv_create_srq(pd, &init));
	to = (struct endpoint){.srq = srq};
	from = (struct endpoint){0};
	endpoint_open_on(&to, c, pd);
	endpoint_open(&from, "rxe1");
	connect_pair(&to, &from);
}

int main(void)
{
	begin();
	create(0);
	fill(16);
	print_now();
	take(4);
	event(NOWHERE); /* never armed */
	arm(10);
	print_now();
	take(2); /* ten left: not below the limit */
	event(NOWHERE);
	take(1);
	event(EVERYWHERE);
	print_now(); /* disarmed */
	take(1);
	event(NOWHERE);
	fill(8);
	take(12);
	event(NOWHERE); /* passes the old limit once more without an event */
	fill(10);
	arm(10); /* fourteen are left */
	arm(0);
	take(6);
	event(NOWHERE);
	arm(5);
	take(5);
	event(EVERYWHERE);
	fill(2);
	arm(9); /* above what is there now */
	event(NOWHERE);
	take(1);
	event(EVERYWHERE);

	/* The limit may not exceed the size, and a refused one leaves the old one armed. */
	fill(8);
	arm(6);
	arm(1000);
	print_now();
	take(5);
	event(NOWHERE);
	take(2);
	event(EVERYWHERE);

	/* The last event stays unacknowledged while the queue is destroyed. */
	arm(3);
	take(3);
	if (comes(to.context->async_fd)) {
		CALL_INT(ibv_get_async_event(to.context, &late));
		FIELD(late, event_type);
		CALL_INT(ibv_destroy_qp(to.qp));
		acknowledge_later();
		CALL_INT(ibv_destroy_srq(srq));
		destroyed_after_acknowledgement();
	} else {
		note("no event to leave");
	}
	CALL_INT(ibv_close_device(to.context));
	endpoint_close(&from);

	/* Armed at creation. */
	create(4);
	print_now();
	fill(6);
	take(3);
	event(ON_RXE);
	take(1);
	event(NOWHERE);
	CALL_INT(ibv_close_device(to.context));
	endpoint_close(&from);
	return end();
}
