/*
 * srq.c - shared receive queues.
 *
 * Proves: capacities asked for and given, wrong ones; both creating verbs; every modification (resize, limit, both,
 * none, out of range) and that a failed one changes nothing; posting lists, full queues and too many entries with
 * the right *bad_wr; receiving from one queue for two queue pairs; growing and shrinking with receives in it.
 *
 * Fact: ibv_modify_srq with a limit above the size is EINVAL and changes nothing, not even the size asked for with it.
 * Fact: ibv_modify_srq with unknown bits of the mask alone changes nothing; the kernel's soft-RoCE answers 0.
 */
#include "setup.h"

static void print_now(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	FILL(attr);
	CALL_INT(ibv_query_srq(srq, &attr));
	print_srq_attr(&attr);
}

static void capacities(struct ibv_pd *pd)
{
	static const uint32_t cases[][3] = {
		{1, 1, 0}, {2, 1, 0}, {3, 2, 0}, {100, 27, 0}, {1000, 3, 50}, {0, 1, 0}, {1, 0, 0}, {0, 0, 0},
		{10, 28, 0}, {10, 1000, 0}, {1048576, 1, 0}, {1048577, 1, 0}, {UINT32_MAX, 1, 0}, {10, UINT32_MAX, 0},
		{10, 1, 10}, {10, 1, 11}, {10, 1, UINT32_MAX},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_srq_init_attr init = {.srq_context = pd, .attr = {cases[i][0], cases[i][1], cases[i][2]}};
		struct ibv_srq *srq;

		if (cases[i][0] == 1048576)
			continue; /* 128 MiB in the kernel: limits.c does that one */
		note("max_wr %u max_sge %u srq_limit %u", cases[i][0], cases[i][1], cases[i][2]);
		srq = CALL_PTR(ibv_create_srq(pd, &init));
		print_srq_attr(&init.attr);
		if (srq) {
			CHECK(srq->context == pd->context && srq->pd == pd && srq->srq_context == pd);
			FIELD(*srq, events_completed);
			print_now(srq);
			CALL_INT(ibv_destroy_srq(srq));
		}
	}
}

static void extended(struct ibv_context *c, struct ibv_pd *pd)
{
	static const struct {
		uint32_t mask;
		int type;
	} cases[] = {{0, 0},
		     {IBV_SRQ_INIT_ATTR_PD, IBV_SRQT_XRC},
		     {IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC},
		     {IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_XRC},
		     {IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_TM},
		     {IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, 9},
		     {IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_RESERVED, 0},
		     {IBV_SRQ_INIT_ATTR_PD | 1 << 30, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_srq_init_attr_ex init = {.srq_context = c,
						    .attr = {8, 2, 0},
						    .comp_mask = cases[i].mask,
						    .srq_type = cases[i].type,
						    .pd = pd};
		struct ibv_srq *srq;
		uint32_t number = 0x5a5a5a5a;

		if (!(cases[i].mask & IBV_SRQ_INIT_ATTR_PD))
			continue; /* read without a check */
		note("comp_mask 0x%x type %d", cases[i].mask, cases[i].type);
		srq = CALL_PTR(ibv_create_srq_ex(c, &init));
		print_srq_attr(&init.attr);
		if (srq) {
			CHECK(srq->context == c && srq->pd == pd && srq->srq_context == c);
			CALL_INT(ibv_get_srq_num(srq, &number));
			FIELD(*srq, events_completed);
			CALL_INT(ibv_destroy_srq(srq));
		}
	}
	struct ibv_cq *cq = ibv_create_cq(c, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr_ex tm = {.attr = {8, 2, 0},
					  .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
						       IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
					  .srq_type = IBV_SRQT_TM,
					  .pd = pd,
					  .cq = cq,
					  .tm_cap = {.max_num_tags = 8, .max_ops = 8}};
	CALL_PTR(ibv_create_srq_ex(c, &tm));
	tm.tm_cap.max_num_tags = 0;
	CALL_PTR(ibv_create_srq_ex(c, &tm));
	CALL_INT(ibv_destroy_cq(cq));
}

static void modify(struct ibv_srq *srq, uint32_t max_wr, uint32_t limit, int mask)
{
	struct ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = 77, .srq_limit = limit};

	note("max_wr %u srq_limit %u mask 0x%x", max_wr, limit, mask);
	CALL_INT(ibv_modify_srq(srq, &attr, mask));
	print_srq_attr(&attr);
	print_now(srq);
}

static void modifications(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {.attr = {16, 2, 0}};
	struct ibv_srq *srq = CALL_PTR(ibv_create_srq(pd, &init));

	modify(srq, 0, 0, 0);
	modify(srq, 0, 0, IBV_SRQ_MAX_WR);
	modify(srq, 32, 0, IBV_SRQ_MAX_WR);
	modify(srq, 5, 0, IBV_SRQ_MAX_WR);
	modify(srq, 0, 4, IBV_SRQ_LIMIT);
	modify(srq, 0, 0, IBV_SRQ_LIMIT);
	modify(srq, 0, 8, IBV_SRQ_LIMIT);
	modify(srq, 0, 9, IBV_SRQ_LIMIT);
	modify(srq, 0, UINT32_MAX, IBV_SRQ_LIMIT);
	modify(srq, 64, 40, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	modify(srq, 32, 20, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT); /* both smaller */
	modify(srq, 10, 0, IBV_SRQ_MAX_WR);                  /* below the limit */
	modify(srq, 100, 101, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	modify(srq, 1048577, 0, IBV_SRQ_MAX_WR);
	modify(srq, UINT32_MAX, 0, IBV_SRQ_MAX_WR);
	modify(srq, 1048577, 3, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	modify(srq, 50, 0, 4);
	modify(srq, 50, 0, IBV_SRQ_MAX_WR | 8);
	modify(srq, 50, 3, -1);
	CALL_INT(ibv_destroy_srq(srq));
}

static unsigned char *buffer;
static struct ibv_mr *mr;

static int post(struct ibv_srq *srq, int n, int num_sge, uint64_t first, int *bad_at)
{
	struct ibv_recv_wr wr[64], *bad = (void *)1;
	struct ibv_sge sge[64] = {{0}};
	int ret;

	for (int i = 0; i < 64; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)buffer + 1024 * (i % 4), 1024, mr->lkey};
	for (int i = 0; i < n; i++)
		wr[i] = (struct ibv_recv_wr){first + i, i + 1 < n ? &wr[i + 1] : NULL, sge, num_sge};
	ret = ibv_post_srq_recv(srq, wr, &bad);
	*bad_at = bad == (void *)1 ? -1 : bad ? (int)(bad - wr) : -2;
	return ret;
}

static void posting(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {.attr = {8, 2, 0}};
	struct ibv_srq *srq = CALL_PTR(ibv_create_srq(pd, &init));
	struct ibv_recv_wr *bad = (void *)1;
	int bad_at;

	print_now(srq);
	CALL_INT(ibv_post_srq_recv(srq, NULL, &bad));
	CHECK(bad == (void *)1);
	CALL_INT(post(srq, 3, 2, 1, &bad_at));
	note("    bad %d", bad_at);
	CALL_INT(post(srq, 1, 3, 1, &bad_at)); /* one entry too many */
	note("    bad %d", bad_at);
	CALL_INT(post(srq, 1, 0, 1, &bad_at)); /* none is allowed */
	note("    bad %d", bad_at);
	CALL_INT(post(srq, 30, 1, 10, &bad_at)); /* the queue fills in the middle of the list */
	note("    bad %d", bad_at);
	CALL_INT(post(srq, 1, 1, 10, &bad_at));
	note("    bad %d", bad_at);
	print_now(srq);
	modify(srq, 2, 0, IBV_SRQ_MAX_WR); /* fewer than are in it */
	modify(srq, 20, 0, IBV_SRQ_MAX_WR);
	CALL_INT(post(srq, 30, 1, 50, &bad_at)); /* room for the new ones only */
	note("    bad %d", bad_at);
	CALL_INT(ibv_destroy_srq(srq));
}

/* Two queue pairs on rxe0 share a queue; rxe1 sends to both. */
static void receiving(void)
{
	struct ibv_context *c = open_device("rxe0"), *peer = open_device("rxe1");
	struct ibv_pd *pd = ibv_alloc_pd(c), *peer_pd = ibv_alloc_pd(peer);
	struct ibv_srq_init_attr init = {.attr = {8, 1, 0}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct endpoint to[2] = {{.srq = srq}, {.srq = srq}}, from[2] = {0};
	int bad_at, round;

	for (int i = 0; i < 2; i++) {
		endpoint_open_on(&to[i], c, pd);
		endpoint_open_on(&from[i], peer, peer_pd);
		connect_pair(&to[i], &from[i]);
		CHECK(to[i].qp->srq == srq);
		CALL_INT(post_recv(&to[i], 1, 0, 64)); /* such a queue pair has no queue of its own */
	}
	mr = to[0].mr;
	buffer = to[0].buffer;
	CALL_INT(post(srq, 8, 1, 100, &bad_at));
	for (round = 0; round < 6; round++) {
		int i = round % 2;

		pattern(from[i].buffer, 1000, round);
		CALL_INT(post_send(&from[i], round, 0, 1000));
		expect_wc("sent", from[i].send_cq, from[i].qp, NULL);
		if (expect_wc("received", to[i].recv_cq, to[i].qp, NULL))
			check_data(buffer, from[i].buffer, 1000);
		if (round == 2) /* grow with receives in it */
			modify(srq, 40, 0, IBV_SRQ_MAX_WR);
		if (round == 4)
			modify(srq, 4, 0, IBV_SRQ_MAX_WR);
	}
	CALL_INT(ibv_destroy_srq(srq)); /* in use */
	print_now(srq);
	for (int i = 0; i < 2; i++) {
		CALL_INT(modify_to_error(to[i].qp));
		expect_empty("no flush from a shared queue", to[i].recv_cq);
		CALL_INT(ibv_destroy_qp(to[i].qp));
		CALL_INT(ibv_destroy_qp(from[i].qp));
	}
	CALL_INT(ibv_destroy_srq(srq));
	CALL_INT(ibv_close_device(c));
	CALL_INT(ibv_close_device(peer));
}

int main(void)
{
	begin();
	struct ibv_context *c = open_device("rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(c);

	if (posix_memalign((void **)&buffer, 4096, 8192))
		die("memory");
	mr = ibv_reg_mr(pd, buffer, 8192, IBV_ACCESS_LOCAL_WRITE);
	capacities(pd);
	extended(c, pd);
	modifications(pd);
	posting(pd);
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	receiving();
	return end();
}
