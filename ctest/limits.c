/*
 * limits.c - capacities at and beyond what the device reports.
 *
 * Proves: that the reported maximum is accepted and one more is not, for queues, entries, inline bytes and shared
 * receive queues; and that nothing is left behind by what failed.
 */
#include "setup.h"

static struct ibv_context *c;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void qp(struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC};
	struct ibv_qp *made;

	print_cap(&cap);
	made = CALL_PTR(ibv_create_qp(pd, &init));
	print_cap(&init.cap);
	if (made)
		CALL_INT(ibv_destroy_qp(made));
}

static void srq(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {.attr = {max_wr, max_sge, 0}};
	struct ibv_srq *made;

	note("srq %u %u", max_wr, max_sge);
	made = CALL_PTR(ibv_create_srq(pd, &init));
	print_srq_attr(&init.attr);
	if (made)
		CALL_INT(ibv_destroy_srq(made));
}

int main(void)
{
	struct ibv_device_attr attr;

	begin();
	c = open_device("rxe0");
	pd = ibv_alloc_pd(c);
	cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	if (ibv_query_device(c, &attr))
		die("query");

	struct ibv_cq *most = CALL_PTR(ibv_create_cq(c, attr.max_cqe, NULL, NULL, 0));
	if (most) {
		FIELD(*most, cqe);
		CALL_INT(ibv_resize_cq(most, attr.max_cqe));
		CALL_INT(ibv_resize_cq(most, attr.max_cqe + 1));
		FIELD(*most, cqe);
		CALL_INT(ibv_destroy_cq(most));
	}
	CALL_PTR(ibv_create_cq(c, attr.max_cqe + 1, NULL, NULL, 0));
	CALL_PTR(ibv_create_cq(c, 16, NULL, NULL, c->num_comp_vectors));

	uint32_t wr = 65536, sge = attr.max_sge; /* as many as the test machine's memory allows easily */
	qp((struct ibv_qp_cap){wr, wr, 1, 1, 0});
	qp((struct ibv_qp_cap){attr.max_qp_wr + 1, 1, 1, 1, 0});
	qp((struct ibv_qp_cap){1, attr.max_qp_wr + 1, 1, 1, 0});
	qp((struct ibv_qp_cap){16, 16, sge, sge, 0});
	qp((struct ibv_qp_cap){16, 16, sge + 1, 1, 0});
	qp((struct ibv_qp_cap){16, 16, 1, sge + 1, 0});
	for (uint32_t inline_data = 496; inline_data <= 544; inline_data += 4)
		qp((struct ibv_qp_cap){16, 16, 1, 1, inline_data});
	srq(wr, 1);
	srq(attr.max_srq_wr + 1, 1);
	srq(16, attr.max_srq_sge);
	srq(16, attr.max_srq_sge + 1);

	/* Many failures leave nothing behind: the domain and the queue can be freed. */
	for (int i = 0; i < 200; i++) {
		struct ibv_qp_init_attr init = {.send_cq = cq,
						.recv_cq = cq,
						.cap = {16, 16, sge + 1, 1, 0},
						.qp_type = IBV_QPT_RC};
		struct ibv_srq_init_attr srq_init = {.attr = {16, 1000, 0}};

		if (ibv_create_qp(pd, &init) || ibv_create_srq(pd, &srq_init) || ibv_create_cq(c, 1 << 30, NULL, NULL, 0))
			note("creation %d worked", i);
	}
	CALL_INT(ibv_destroy_cq(cq));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
