/*
 * cq.c - completion queues.
 *
 * Proves: capacities asked for and given, wrong ones; vectors; resizing up and down, below what is outstanding;
 * polling none, one and many, in order and across the ring's end; overflow with its event; notification without a
 * channel; moderation, which soft-RoCE lacks.
 *
 * Fact: ibv_resize_cq below the number of completions that wait is EINVAL; they stay, and the capacity too.
 */
#include "setup.h"

static void capacities(struct ibv_context *c)
{
	static const int sizes[] = {-1, 0, 1, 2, 3, 15, 16, 17, 100, 1023, 4096, 32767, 32768, 1 << 20, INT32_MAX,
				    INT32_MIN};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		int tag;
		struct ibv_cq *cq;

		note("cqe %d", sizes[i]);
		cq = CALL_PTR(ibv_create_cq(c, sizes[i], &tag, NULL, 0));
		if (cq) {
			FIELD(*cq, cqe);
			CHECK(cq->context == c && cq->channel == NULL && cq->cq_context == &tag);
			FIELD(*cq, comp_events_completed);
			FIELD(*cq, async_events_completed);
			CALL_INT(ibv_destroy_cq(cq));
		}
	}
	static const int vectors[] = {0, 1, 2, 3, -1, 100};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		struct ibv_cq *cq;

		note("vector %d", vectors[i]);
		cq = CALL_PTR(ibv_create_cq(c, 16, NULL, NULL, vectors[i]));
		if (cq)
			CALL_INT(ibv_destroy_cq(cq));
	}
}

static void empty(struct ibv_context *c)
{
	struct ibv_cq *cq = CALL_PTR(ibv_create_cq(c, 16, NULL, NULL, 0));
	struct ibv_wc wc[4];
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {1, 1}};

	FILL(wc);
	CALL_INT(ibv_poll_cq(cq, 4, wc));
	CALL_INT(ibv_poll_cq(cq, 0, wc));
	CALL_INT(ibv_poll_cq(cq, 0, NULL));
	CALL_INT(ibv_poll_cq(cq, -1, wc));
	CALL_INT(ibv_poll_cq(cq, 1, NULL)); /* nothing to write */
	CHECK(wc[0].wr_id == 0xa5a5a5a5a5a5a5a5);
	CALL_INT(ibv_req_notify_cq(cq, 0));
	CALL_INT(ibv_req_notify_cq(cq, 1));
	CALL_INT(ibv_req_notify_cq(cq, 7));
	CALL_INT(ibv_modify_cq(cq, &moderation));
	moderation.attr_mask = 0;
	CALL_INT(ibv_modify_cq(cq, &moderation));
	CALL_VOID(ibv_ack_cq_events(cq, 0));
	CALL_INT(ibv_destroy_cq(cq));
}

static struct endpoint e = {.cap = {64, 64, 1, 1, 0}, .cqe = 16};

/* Sends to itself, so that both queues fill. */
static void send_some(int n, uint64_t first)
{
	for (int i = 0; i < n; i++)
		if (post_recv(&e, first + i, 0, 64) || post_send(&e, first + i, 4096, (i + 1) % 64))
			die("posting");
}

static void wait_for(struct ibv_cq *cq, int n, const char *what)
{
	struct ibv_wc wc;

	note("%s", what);
	for (int i = 0; i < n; i++) {
		if (!next_wc(cq, &wc)) {
			note("    completion %d is missing", i);
			return;
		}
		note("    wr_id %" PRIu64 " status %u byte_len %u", wc.wr_id, wc.status, wc.byte_len);
	}
}

static void resizing(void)
{
	struct ibv_cq *cq = e.recv_cq;
	static const int sizes[] = {0, -1, 1, 1 << 20, INT32_MAX, 32768};

	FIELD(*cq, cqe);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		note("resize to %d", sizes[i]);
		CALL_INT(ibv_resize_cq(cq, sizes[i]));
		FIELD(*cq, cqe);
	}
	CALL_INT(ibv_resize_cq(cq, 16));
	FIELD(*cq, cqe);
	send_some(10, 100);
	wait_for(e.send_cq, 10, "sent");
	CALL_INT(ibv_resize_cq(cq, 5)); /* ten are waiting in it */
	FIELD(*cq, cqe);
	CALL_INT(ibv_resize_cq(cq, 9));
	FIELD(*cq, cqe);
	CALL_INT(ibv_resize_cq(cq, 200)); /* and stay there */
	FIELD(*cq, cqe);
	wait_for(cq, 4, "received after growing");
	CALL_INT(ibv_resize_cq(cq, 10));
	FIELD(*cq, cqe);
	wait_for(cq, 6, "received after shrinking");
	expect_empty("then", cq);
	for (int i = 0; i < 20; i++) { /* several times around the ring of any size */
		int size = 8 + (i * 37) % 60;

		send_some(7, 200 + i * 10);
		note("resize to %d", size);
		CALL_INT(ibv_resize_cq(cq, size));
		FIELD(*cq, cqe);
		wait_for(e.send_cq, 7, "sent");
		wait_for(cq, 7, "received");
	}
	CALL_INT(ibv_resize_cq(cq, 16));
}

static void batches(void)
{
	struct ibv_wc wc[8];

	for (int round = 0; round < 12; round++) { /* the ring's end falls into different places of a batch */
		int got = 0;
		uint64_t hang = now_ms() + HANG_MS;

		send_some(5, 1000 + round * 10);
		wait_for(e.send_cq, 5, "sent");
		wait_for_receives(&e, &e);
		while (got < 5 && now_ms() < hang) {
			int n = ibv_poll_cq(e.recv_cq, 8, wc);

			for (int i = 0; i < n; i++)
				print_wc(&wc[i], e.qp, e.qp);
			got += n > 0 ? n : 0;
		}
		note("round %d: %d completions", round, got);
	}
	send_some(5, 2000);
	wait_for(e.send_cq, 5, "sent");
	wait_for_receives(&e, &e);
	FILL(wc);
	CALL_COUNT(ibv_poll_cq(e.recv_cq, 3, wc)); /* no more than asked for */
	CHECK(wc[2].wr_id == 2002 && wc[3].wr_id == 0xa5a5a5a5a5a5a5a5);
	CALL_COUNT(ibv_poll_cq(e.recv_cq, 8, wc));
	CHECK(wc[1].wr_id == 2004);
	CALL_COUNT(ibv_poll_cq(e.recv_cq, 8, wc));
}

/* More completions than the queue holds: an asynchronous event tells it. */
static void overflow(void)
{
	struct ibv_async_event event;
	struct ibv_wc wc;
	int n = 0;

	note("overflow");
	CHECK(!readable(e.context->async_fd, 0));
	CALL_INT(ibv_resize_cq(e.recv_cq, 4));
	FIELD(*e.recv_cq, cqe);
	int room = e.recv_cq->cqe;
	send_some(room + 1, 3000);
	if (comes(e.context->async_fd)) {
		CALL_INT(ibv_get_async_event(e.context, &event));
		/* The queue pair fails, too; soft-RoCE does not say so, and nothing says what comes first. */
		while (event.event_type == IBV_EVENT_QP_FATAL && comes(e.context->async_fd)) {
			ibv_ack_async_event(&event);
			ibv_get_async_event(e.context, &event);
		}
		FIELD(event, event_type);
		CHECK(event.element.cq == e.recv_cq);
		FIELD(*e.recv_cq, async_events_completed);
		CALL_VOID(ibv_ack_async_event(&event));
		FIELD(*e.recv_cq, async_events_completed);
	} else {
		note("no event");
	}
	while (ibv_poll_cq(e.recv_cq, 1, &wc) > 0)
		n++;
	note("%d of %d completions kept", n, room + 1);
}

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");

	capacities(c);
	empty(c);
	CALL_INT(ibv_close_device(c));
	endpoint_open(&e, "rxe0");
	ready(&e, &e.gid, e.qp->qp_num);
	CALL_INT(ibv_resize_cq(e.send_cq, 64));
	resizing();
	batches();
	overflow();
	endpoint_close(&e);
	return end();
}
