/*
 * random_rounds.h - the rounds of random_data.h: post, wait, print.
 */
#ifndef CTEST_RANDOM_ROUNDS_H
#define CTEST_RANDOM_ROUNDS_H

#include "random_data.h"

static inline void print_round(bool receiver)
{
	note("  sender");
	print_taken(&sides[0], &sides[1]);
	if (!receiver)
		return;
	note("  receiver");
	print_taken(&sides[1], &sides[0]);
	/* In front of a datagram stands its IP header, whose identification is another one in every run. */
	memset((char *)sides[1].e.buffer + RECEIVES, 0, sides[1].e.type == IBV_QPT_UD ? 40 : 0);
	note("  bytes %016" PRIx64 " %016" PRIx64, sum_of(sides[0].e.buffer, SIDE), sum_of(sides[1].e.buffer, SIDE));
}

/* A request without bytes that completes behind all others. */
static inline uint64_t post_marker(void)
{
	struct endpoint *a = &sides[0].e;
	struct ibv_send_wr wr = {.wr_id = ++next_id, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (a->type == IBV_QPT_UD) {
		wr.opcode = IBV_WR_SEND;
		wr.wr.ud.ah = to_other, wr.wr.ud.remote_qpn = 0xfffff0, wr.wr.ud.remote_qkey = QKEY;
	}
	RESULT("post_send of a marker", ibv_post_send(a->qp, &wr, &bad));
	return wr.wr_id;
}

/* Soft-RoCE tells of a failure before it moves the queue pair, whose state is printed then. */
static inline void wait_for_error(const struct side *s)
{
	struct ibv_qp_attr attr = {0};
	struct ibv_qp_init_attr init;
	uint64_t deadline = now_ms() + 200;

	do {
		usleep(500);
	} while (!ibv_query_qp(s->e.qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS &&
		 now_ms() < deadline);
}

/* What arrived at the other side: for connected queue pairs it did before the sender was told. */
static inline void finish_round(uint64_t wr_id, int arriving, bool receiver)
{
	struct side *a = &sides[0], *b = &sides[1];

	if (!take(a, wr_id, 0))
		note("no completion of %" PRIu64, wr_id);
	if (a->n && a->wc[a->n - 1].status)
		wait_for_error(a);
	if (!take(b, 0, arriving))
		note("%d of %d arrived", b->n, arriving);
	if (a->e.channel) {
		struct ibv_cq *cq;
		void *context;

		/* Armed before the round, which had one completion at least. */
		note("  event %d", readable(a->e.channel->fd, 5000));
		RESULT("get_cq_event", ibv_get_cq_event(a->e.channel, &cq, &context));
		note("    queue %d context %d", cq == a->e.send_cq, context == cq->cq_context);
		ibv_ack_cq_events(cq, 1);
		transcript_calls++;
	}
	print_round(receiver);
}

static inline void arm(void)
{
	if (sides[0].e.channel)
		RESULT("req_notify_cq", ibv_req_notify_cq(sides[0].e.send_cq, 0));
}

/* Up to four requests that succeed; with a refused one, those before it do. */
static inline void good_round(bool refused)
{
	struct endpoint *a = &sides[0].e;
	struct ibv_sge sge[4][8], none = {0};
	struct ibv_send_wr wr[4], *bad = NULL;
	int n = 1 + (int)rnd(4), before = sides[1].receives, accepted = n;

	for (int i = 0; i < n; i++) {
		wr[i] = good(sge[i]);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	arm();
	if (!refused && a->send_ops_flags && chance(70)) {
		struct ibv_qp_ex *x = ibv_qp_to_qp_ex(a->qp);

		for (int i = 0; i < n; i++)
			if (wr[i].num_sge > 1)
				wr[i].num_sge = 1;
		ibv_wr_start(x);
		for (int i = 0; i < n; i++)
			build(x, &wr[i]);
		if (chance(10)) {
			ibv_wr_abort(x);
			note("aborted");
			accepted = 0;
		} else if (RESULT("wr_complete", ibv_wr_complete(x))) {
			accepted = 0;
		}
	} else {
		if (refused) {
			struct ibv_send_wr *w = &wr[rnd((uint32_t)n)];

			switch (rnd(4)) {
			case 0:
				w->num_sge = (int)a->cap.max_send_sge + 1 + (int)rnd(100);
				break;
			case 1:
				w->num_sge = -1;
				break;
			case 2:
				w->send_flags |= IBV_SEND_INLINE, w->num_sge = 1, w->sg_list = &none;
				none = (struct ibv_sge){(uintptr_t)a->buffer, a->cap.max_inline_data + 1 + rnd(100), 0};
				break;
			default:
				w->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, w->send_flags |= IBV_SEND_INLINE;
				w->num_sge = 1, w->sg_list = &none;
				none = (struct ibv_sge){(uintptr_t)a->buffer, 8, 0};
			}
		}
		RESULT("post_send", ibv_post_send(a->qp, wr, &bad));
		note("    bad %d", bad ? (int)(bad - wr) : -1);
		accepted = bad ? (int)(bad - wr) : n;
	}
	/* Receives that the requests which were not posted would have taken are there still. */
	int taken = 0, room = before, dropped = 0;
	for (int i = 0; i < accepted; i++)
		if (room && arrives(&wr[i]))
			taken++, room--;
		else
			dropped += arrives(&wr[i]);
	sides[1].receives = room;
	finish_round(post_marker(), taken, true);
	/* Datagrams that find no receive are not to find one of the next round. */
	if (dropped)
		usleep(50000);
}

/* One request that fails; the queue pairs are of no use then. */
static inline void bad_round(void)
{
	struct endpoint *a = &sides[0].e;
	struct ibv_sge sge[8] = {{0}};
	int receives = sides[1].receives;
	struct ibv_send_wr wr = good(sge), *bad;
	int refused;

	spoil(&wr);
	arm();
	refused = RESULT("post_send", ibv_post_send(a->qp, &wr, &bad));
	if (refused)
		wr.wr_id = post_marker();
	note("    opcode %d", wr.opcode);
	/* What the receiver sees of it comes before or after: it is printed when all of its queue was flushed. */
	sides[1].receives = receives;
	finish_round(wr.wr_id, 0, false);
	/* The sender succeeds, and the receiver fails behind it. */
	if (!refused && wr.opcode == IBV_WR_SEND_WITH_INV)
		wait_for_error(&sides[1]);
}

/* A memory window of type 1, bound by the verb. */
static inline void window_round(void)
{
	struct endpoint *a = &sides[0].e;
	struct ibv_mw *mw = MADE("alloc_mw", ibv_alloc_mw(a->pd, chance(90) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
	struct ibv_mw_bind bind = {.wr_id = ++next_id,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {chance(95) ? a->mr : NULL, (uintptr_t)a->buffer, rnd(SIDE + 1000),
						 chance(80) ? 2 * rnd(8) : rnd(256)}};
	uint32_t key = mw ? mw->rkey : 0;

	if (!mw)
		return;
	arm();
	int refused = RESULT("bind_mw", ibv_bind_mw(a->qp, mw, &bind));
	note("    key %d", mw->rkey == key ? 0 : mw->rkey == ibv_inc_rkey(key) ? 1 : 2);
	finish_round(refused ? post_marker() : bind.wr_id, 0, true);
	RESULT("dealloc_mw", ibv_dealloc_mw(mw));
}

static inline int kernel_state(struct endpoint *e)
{
	struct ibv_qp_attr attr = {0};
	struct ibv_qp_init_attr init;

	RESULT("query_qp", ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init));
	note("    state %d", attr.qp_state);
	return attr.qp_state;
}

static inline void data_calls(struct room rooms[2])
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	enum ibv_qp_type type = PICK(types);
	/* Writes and sends for all that are connected, reads and atomics for reliable ones. */
	uint64_t operations = type == IBV_QPT_RC ? 0x7f : type == IBV_QPT_UC ? 0xf : 0xc;
	struct side *a = &sides[0], *b = &sides[1];
	int rounds = 1 + (int)rnd(8);

	if (chance(50))
		operations = 0;
	next_id = 0;
	note("traffic of type %d", type);
	open_side(a, &rooms[rnd(2)], type, operations, 0);
	open_side(b, &rooms[rnd(2)], type, 0, 1);
	connect_pair(&a->e, &b->e);
	if (type == IBV_QPT_UD) {
		struct ibv_ah_attr to = {.grh = {.dgid = b->e.gid, .sgid_index = GID_INDEX, .hop_limit = 64},
					 .is_global = 1,
					 .port_num = PORT};

		to_other = MADE("create_ah", ibv_create_ah(a->e.pd, &to));
	}
	for (int i = 0; i < rounds; i++) {
		if (b->receives < 2 || chance(30))
			post_receives(b);
		if (chance(10)) {
			struct ibv_wc wc;

			COUNTED("poll_cq", ibv_poll_cq(a->e.send_cq, chance(50) ? 0 : -1, &wc));
		}
		if (chance(12))
			bad_round();
		else if (type == IBV_QPT_RC && chance(12))
			window_round();
		else
			good_round(chance(12));
		if (kernel_state(&a->e) != IBV_QPS_RTS || kernel_state(&b->e) != IBV_QPS_RTS)
			break;
	}
	/* What is left is flushed, or forgotten. */
	if (chance(50)) {
		RESULT("modify_qp", modify_to_error(b->e.qp));
		if (!moment_decides() && !take(b, 0, b->waiting))
			note("%d of %d flushed", b->n, b->waiting);
		print_round(true);
	} else {
		RESULT("modify_qp", modify_to_reset(b->e.qp));
	}
	if (type == IBV_QPT_UD)
		RESULT("destroy_ah", ibv_destroy_ah(to_other));
	close_side(a);
	close_side(b);
}

#endif
