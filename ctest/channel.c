/*
 * channel.c - completion channels.
 *
 * Proves: events for any and for solicited completions only; one event per request; counting and acknowledging; a
 * descriptor that does not block; the refusal to destroy a channel in use; and that destroying a completion queue
 * waits until its last event is acknowledged.
 */
#include <fcntl.h>
#include <pthread.h>

#include "asleep.h"

static struct endpoint a, b = {.with_channel = true};
static int next_send_flags;

static void send_one(uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)a.buffer, 64, a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | next_send_flags},
			   *bad;

	CALL_INT(post_recv(&b, wr_id, 0, 64));
	CALL_INT(ibv_post_send(a.qp, &wr, &bad));
	expect_wc("sent", a.send_cq, a.qp, NULL);
}

/* The event that has to be there. */
static void take_event(void)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	CHECK(comes(b.channel->fd));
	CALL_INT(ibv_get_cq_event(b.channel, &cq, &context));
	CHECK(cq == b.recv_cq);
	CHECK(context == &b);
}

static void drain(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(b.recv_cq, 1, &wc) > 0)
		print_wc(&wc, b.qp, a.qp);
}

static void any_completion(void)
{
	CHECK(!readable(b.channel->fd, 0));
	send_one(1); /* no notification was asked for */
	CHECK(!readable(b.channel->fd, 50));
	drain();
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 0));
	CHECK(!readable(b.channel->fd, 50));
	send_one(2);
	take_event();
	drain();
	send_one(3); /* one request, one event */
	CHECK(!readable(b.channel->fd, 50));
	drain();
	FIELD(*b.recv_cq, comp_events_completed);
	CALL_VOID(ibv_ack_cq_events(b.recv_cq, 1));
	FIELD(*b.recv_cq, comp_events_completed);
}

static void solicited_only(void)
{
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 1));
	send_one(4);
	CHECK(!readable(b.channel->fd, 50));
	next_send_flags = IBV_SEND_SOLICITED;
	send_one(5);
	next_send_flags = 0;
	take_event();
	drain();
	CALL_VOID(ibv_ack_cq_events(b.recv_cq, 1));
	/* Asking for any after asking for solicited only. */
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 1));
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 0));
	send_one(6);
	take_event();
	drain();
	/* And the other way round: the wider request stays. */
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 0));
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 1));
	send_one(7);
	note("event after narrowing: %s", comes(b.channel->fd) ? "yes" : "no");
	if (readable(b.channel->fd, 0)) {
		take_event();
		CALL_VOID(ibv_ack_cq_events(b.recv_cq, 1));
	}
	drain();
	CALL_VOID(ibv_ack_cq_events(b.recv_cq, 1));
	/* A completion that is already there when notification is asked for. */
	send_one(8);
	wait_for_receives(&a, &b);
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 0));
	note("event for what was there: %s", readable(b.channel->fd, 100) ? "yes" : "no");
	drain();
	send_one(9);
	take_event();
	drain();
	CALL_VOID(ibv_ack_cq_events(b.recv_cq, 1));
}

static void without_blocking(void)
{
	struct ibv_cq *cq = (void *)1;
	void *context = (void *)2;
	int flags = fcntl(b.channel->fd, F_GETFL);

	fcntl(b.channel->fd, F_SETFL, flags | O_NONBLOCK);
	CALL_INT(ibv_get_cq_event(b.channel, &cq, &context));
	CHECK(cq == (void *)1 && context == (void *)2);
	fcntl(b.channel->fd, F_SETFL, flags);
}

/* Errors ask for an event, too, even of a solicited-only request. */
static void flush_is_solicited(void)
{
	CALL_INT(post_recv(&b, 90, 0, 64));
	CALL_INT(ibv_req_notify_cq(b.recv_cq, 1));
	CALL_INT(modify_to_error(b.qp));
	take_event();
	expect_wc("flushed", b.recv_cq, b.qp, NULL);
	CALL_VOID(ibv_ack_cq_events(b.recv_cq, 1));
}

static volatile uint64_t acknowledged_at;
static struct ibv_cq *waited_for;

static void *acknowledge_later(void *unused)
{
	(void)unused;
	wait_until_asleep(getpid(), 'S');
	acknowledged_at = now_ms();
	ibv_ack_cq_events(waited_for, 2);
	return NULL;
}

static void destroy_waits(void)
{
	struct endpoint x = {.with_channel = true};
	struct ibv_cq *cq;
	void *context;
	pthread_t thread;

	endpoint_open(&x, "rxe0");
	ready(&x, &x.gid, x.qp->qp_num);
	for (int i = 0; i < 2; i++) {
		CALL_INT(ibv_req_notify_cq(x.recv_cq, 0));
		CALL_INT(post_recv(&x, i, 0, 64));
		CALL_INT(post_send(&x, i, 0, 64));
		expect_wc("received", x.recv_cq, x.qp, x.qp);
		CALL_INT(ibv_get_cq_event(x.channel, &cq, &context));
		CHECK(cq == x.recv_cq && context == &x);
	}
	CALL_INT(ibv_destroy_comp_channel(x.channel)); /* two completion queues use it */
	FIELD(*x.channel, refcnt);
	CALL_INT(ibv_destroy_qp(x.qp));
	waited_for = x.recv_cq;
	pthread_create(&thread, NULL, acknowledge_later, NULL);
	CALL_INT(ibv_destroy_cq(x.recv_cq));
	CHECK(acknowledged_at != 0 && now_ms() >= acknowledged_at);
	pthread_join(thread, NULL);
	FIELD(*x.channel, refcnt);
	CALL_INT(ibv_destroy_comp_channel(x.channel));
	CALL_INT(ibv_destroy_cq(x.send_cq));
	FIELD(*x.channel, refcnt);
	CALL_INT(ibv_destroy_comp_channel(x.channel));
	ibv_dereg_mr(x.mr);
	CALL_INT(ibv_dealloc_pd(x.pd));
	CALL_INT(ibv_close_device(x.context));
}

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");
	struct ibv_comp_channel *channel = CALL_PTR(ibv_create_comp_channel(c));

	CHECK(channel->context == c && channel->fd >= 0);
	CHECK(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
	FIELD(*channel, refcnt);
	int fd = channel->fd;
	CALL_INT(ibv_destroy_comp_channel(channel));
	CHECK(fcntl(fd, F_GETFD) == -1);
	CALL_INT(ibv_close_device(c));

	open_pair(&a, &b, "rxe0", "rxe1");
	FIELD(*b.channel, refcnt);
	any_completion();
	solicited_only();
	without_blocking();
	flush_is_solicited();
	endpoint_close(&a);
	endpoint_close(&b);
	destroy_waits();
	return end();
}
