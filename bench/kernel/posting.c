/*
 * posting.c - what it costs to post requests: one by one and in lists, with data inline, one and four entries, by
 * ibv_post_send and by the builders.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH = 255, LIST = 32, OF_ROUND = 128, INLINE = 32 };

struct posting {
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_srq *srq;
	struct queue queue;
	unsigned list; /* requests of a list */
	unsigned char buffer[4096];
	struct ibv_sge sges[4];
	struct ibv_send_wr sends[LIST];
	struct ibv_recv_wr receives[LIST];
};

static uint64_t post_sends(void *argument)
{
	struct posting *posting = argument;
	struct ibv_send_wr *bad;
	uint64_t start;

	consume(&posting->queue);
	posting->sends[posting->list - 1].next = NULL;
	start = ticks();
	for (unsigned i = 0; i < OF_ROUND; i += posting->list)
		if (ibv_post_send(posting->qp, posting->sends, &bad))
			die("post_send");
	start = ticks() - start;
	if (posting->list < LIST)
		posting->sends[posting->list - 1].next = &posting->sends[posting->list];
	return start;
}

static uint64_t build_sends(void *argument)
{
	struct posting *posting = argument;
	struct ibv_qp_ex *ex = posting->ex;
	uint64_t start;

	consume(&posting->queue);
	start = ticks();
	for (unsigned i = 0; i < OF_ROUND; i += posting->list) {
		ibv_wr_start(ex);
		for (unsigned j = 0; j < posting->list; j++) {
			ex->wr_id = j;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(ex, 7, 0x1000);
			ibv_wr_set_sge(ex, posting->sges[0].lkey, posting->sges[0].addr, posting->sges[0].length);
		}
		if (ibv_wr_complete(ex))
			die("wr_complete");
	}
	return ticks() - start;
}

static uint64_t build_inline(void *argument)
{
	struct posting *posting = argument;
	struct ibv_qp_ex *ex = posting->ex;
	uint64_t start;

	consume(&posting->queue);
	start = ticks();
	for (unsigned i = 0; i < OF_ROUND; i += posting->list) {
		ibv_wr_start(ex);
		for (unsigned j = 0; j < posting->list; j++) {
			ex->wr_id = j;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_send(ex);
			ibv_wr_set_inline_data(ex, posting->buffer, INLINE);
		}
		if (ibv_wr_complete(ex))
			die("wr_complete");
	}
	return ticks() - start;
}

static uint64_t post_receives(void *argument)
{
	struct posting *posting = argument;
	struct ibv_recv_wr *bad;
	uint64_t start;

	consume(&posting->queue);
	posting->receives[posting->list - 1].next = NULL;
	start = ticks();
	for (unsigned i = 0; i < OF_ROUND; i += posting->list)
		if (posting->srq ? ibv_post_srq_recv(posting->srq, posting->receives, &bad) :
				   ibv_post_recv(posting->qp, posting->receives, &bad))
			die("post_recv");
	start = ticks() - start;
	if (posting->list < LIST)
		posting->receives[posting->list - 1].next = &posting->receives[posting->list];
	return start;
}

static void set_requests(struct posting *posting, int entries, unsigned send_flags)
{
	for (unsigned i = 0; i < 4; i++)
		posting->sges[i] = (struct ibv_sge){(uintptr_t)posting->buffer + i * 512, INLINE, 5};
	for (unsigned i = 0; i < LIST; i++) {
		posting->sends[i] = (struct ibv_send_wr){
			.wr_id = i, .next = i + 1 < LIST ? &posting->sends[i + 1] : NULL, .sg_list = posting->sges,
			.num_sge = entries, .opcode = IBV_WR_SEND, .send_flags = send_flags};
		posting->receives[i] = (struct ibv_recv_wr){
			.wr_id = i, .next = i + 1 < LIST ? &posting->receives[i + 1] : NULL, .sg_list = posting->sges,
			.num_sge = entries};
	}
}

static void each_list(struct posting *posting, const char *what, const char *form, uint64_t (*round)(void *))
{
	static const unsigned lists[] = {1, LIST};
	char name[64];

	for (unsigned i = 0; i < 2; i++) {
		posting->list = lists[i];
		snprintf(name, sizeof name, "%s %u%s%s", what, lists[i], *form ? ", " : "", form);
		report(name, 300, round, posting, OF_ROUND);
	}
}

void measure_posting(struct ibv_context *context)
{
	static struct posting posting;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = DEPTH, .max_sge = 4}};

	MUST(pd && cq);
	posting.qp = ibv_create_qp(pd, (struct ibv_qp_init_attr *)&attr);
	MUST(posting.qp);
	ready(posting.qp);
	posting.queue = queue_of(context, "qp", posting.qp->handle, SENDS);
	set_requests(&posting, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	each_list(&posting, "post_send", "inline", post_sends);
	set_requests(&posting, 1, IBV_SEND_SIGNALED);
	each_list(&posting, "post_send", "1 entry", post_sends);
	set_requests(&posting, 4, IBV_SEND_SIGNALED);
	each_list(&posting, "post_send", "4 entries", post_sends);
	posting.queue = queue_of(context, "qp", posting.qp->handle, RECEIVES);
	set_requests(&posting, 1, 0);
	each_list(&posting, "post_recv", "1 entry", post_receives);
	set_requests(&posting, 4, 0);
	each_list(&posting, "post_recv", "4 entries", post_receives);
	MUST(!ibv_destroy_qp(posting.qp));

	posting.srq = ibv_create_srq(pd, &srq_attr);
	MUST(posting.srq);
	posting.queue = queue_of(context, "srq", posting.srq->handle, RECEIVES);
	set_requests(&posting, 1, 0);
	each_list(&posting, "post_srq_recv", "1 entry", post_receives);
	MUST(!ibv_destroy_srq(posting.srq));
	posting.srq = NULL;

	if (!is_siw) {
		posting.qp = ibv_create_qp_ex(context, &attr);
		MUST(posting.qp);
		ready(posting.qp);
		posting.ex = ibv_qp_to_qp_ex(posting.qp);
		posting.queue = queue_of(context, "qp", posting.qp->handle, SENDS);
		each_list(&posting, "wr_rdma_write", "1 entry", build_sends);
		each_list(&posting, "wr_send", "inline", build_inline);
		MUST(!ibv_destroy_qp(posting.qp));
	}
	MUST(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
}
