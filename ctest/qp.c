/*
 * qp.c - creating, querying and destroying queue pairs.
 *
 * Proves: capacities asked for and given, wrong ones; every type; the fields of the struct; the extended verb's
 * masks, flags and operations; conversion to the extended struct; what a fresh queue pair answers when queried.
 */
#include "setup.h"

static struct ibv_context *c;
static struct ibv_pd *pd;
static struct ibv_cq *cq, *cq2;

static struct ibv_qp_init_attr base(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){.qp_context = &c,
					 .send_cq = cq,
					 .recv_cq = cq2,
					 .cap = {8, 8, 2, 2, 16},
					 .qp_type = type};
}

static void print_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK(qp->context == c && qp->pd == pd && qp->send_cq == cq && qp->recv_cq == cq2);
	CHECK(qp->qp_context == &c && qp->srq == NULL && qp->qp_num != 0);
	FIELD(*qp, state);
	FIELD(*qp, qp_type);
	FIELD(*qp, events_completed);
	FILL(attr);
	FILL(init);
	CALL_INT(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init));
	print_qp_attr(&attr);
	print_init_attr(&init, qp);
}

static void create(struct ibv_qp_init_attr init)
{
	struct ibv_qp *qp = CALL_PTR(ibv_create_qp(pd, &init));

	print_cap(&init.cap);
	if (qp) {
		print_qp(qp);
		note("extended struct: %s", ibv_qp_to_qp_ex(qp) ? "yes" : "no");
		CALL_INT(ibv_destroy_qp(qp));
	}
}

static void types(void)
{
	static const int all[] = {0, 1, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, 5, 7, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND,
				  IBV_QPT_XRC_RECV, IBV_QPT_DRIVER, 1000};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct ibv_qp_init_attr init = base(all[i]);

		note("type %d", all[i]);
		create(init);
		init.sq_sig_all = 1;
		create(init);
	}
}

static void capacities(void)
{
	static const struct ibv_qp_cap caps[] = {
		{0, 0, 0, 0, 0}, {1, 1, 1, 1, 0}, {1, 1, 0, 0, 0}, {3, 5, 2, 3, 7}, {100, 200, 32, 32, 0},
		{10, 10, 32, 32, 512}, {10, 10, 1, 1, 512}, {10, 10, 1, 1, 513}, {10, 10, 1, 1, 4096}, {10, 10, 33, 1, 0},
		{10, 10, 1, 33, 0}, {1048577, 1, 1, 1, 0}, {1, 1048577, 1, 1, 0}, {UINT32_MAX, 1, 1, 1, 0},
		{1, UINT32_MAX, 1, 1, 0}, {1, 1, UINT32_MAX, 1, 0}, {1, 1, 1, UINT32_MAX, 0}, {1, 1, 1, 1, UINT32_MAX},
		{127, 127, 1, 1, 0}, {128, 128, 5, 1, 80}, {8, 8, 6, 1, 100}};

	for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++) {
		struct ibv_qp_init_attr init = base(IBV_QPT_RC);

		init.cap = caps[i];
		note("ask");
		print_cap(&init.cap);
		create(init);
	}
	struct ibv_qp_init_attr init = base(IBV_QPT_UD);
	init.cap = (struct ibv_qp_cap){10, 10, 5, 5, 300};
	create(init);
}

static void with_srq(void)
{
	struct ibv_srq_init_attr srq_init = {.attr = {8, 1, 0}};
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);
	struct ibv_qp_init_attr init = base(IBV_QPT_RC);
	struct ibv_qp *qp;

	init.srq = srq;
	qp = CALL_PTR(ibv_create_qp(pd, &init));
	print_cap(&init.cap);
	if (qp) {
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr back;

		CHECK(qp->srq == srq);
		FILL(attr);
		FILL(back);
		CALL_INT(ibv_query_qp(qp, &attr, IBV_QP_CAP, &back));
		print_init_attr(&back, qp);
		CALL_INT(ibv_destroy_srq(srq));
		CALL_INT(ibv_destroy_qp(qp));
	}
	CALL_INT(ibv_destroy_srq(srq));
}

static void extended(void)
{
	struct ibv_qp_init_attr_ex init = {.qp_context = &c,
					   .send_cq = cq,
					   .recv_cq = cq2,
					   .cap = {8, 8, 2, 2, 16},
					   .qp_type = IBV_QPT_RC,
					   .pd = pd};
	static const struct {
		int type;
		uint32_t mask, flags;
		uint64_t ops;
	} cases[] = {
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 1u << 31, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 0x3ff},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_TSO},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 1 << 13},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 1ULL << 40},
		{IBV_QPT_UC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 0xf},
		{IBV_QPT_UC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_RDMA_READ},
		{IBV_QPT_UC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_LOCAL_INV},
		{IBV_QPT_UC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_BIND_MW},
		{IBV_QPT_UD, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 0xc},
		{IBV_QPT_UD, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_RDMA_WRITE},
		{IBV_QPT_UD, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_SEND_WITH_INV},
		{IBV_QPT_RAW_PACKET, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_SEND},
		{IBV_QPT_XRC_SEND, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, IBV_QP_EX_WITH_SEND},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | 1 << 7, 0, 0},
		{IBV_QPT_RC, IBV_QP_INIT_ATTR_PD | 1u << 31, 0, 0},
		{IBV_QPT_RC, 0, 0, 0},
		{IBV_QPT_XRC_RECV, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_init_attr_ex ask = init;
		struct ibv_qp *qp;

		ask.qp_type = cases[i].type;
		ask.comp_mask = cases[i].mask;
		ask.create_flags = cases[i].flags;
		ask.send_ops_flags = cases[i].ops;
		note("type %d comp_mask 0x%x create_flags 0x%x ops 0x%llx", cases[i].type, cases[i].mask, cases[i].flags,
		     (unsigned long long)cases[i].ops);
		qp = CALL_PTR(ibv_create_qp_ex(c, &ask));
		print_cap(&ask.cap);
		if (!qp)
			continue;
		print_qp(qp);
		struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
		note("extended struct: %s", x ? "yes" : "no");
		if (x) {
			CHECK(&x->qp_base == qp);
			printf("    comp_mask 0x%llx builders: cmp_swp %d fetch_add %d bind %d inv %d read %d write %d"
			       " write_imm %d send %d send_imm %d send_inv %d tso %d atomic_write %d\n",
			       (unsigned long long)x->comp_mask, !!x->wr_atomic_cmp_swp, !!x->wr_atomic_fetch_add,
			       !!x->wr_bind_mw, !!x->wr_local_inv, !!x->wr_rdma_read, !!x->wr_rdma_write,
			       !!x->wr_rdma_write_imm, !!x->wr_send, !!x->wr_send_imm, !!x->wr_send_inv, !!x->wr_send_tso,
			       !!x->wr_atomic_write);
			printf("    setters: ud %d xrc %d inline %d inline list %d sge %d sge list %d start %d complete %d"
			       " abort %d\n",
			       !!x->wr_set_ud_addr, !!x->wr_set_xrc_srqn, !!x->wr_set_inline_data,
			       !!x->wr_set_inline_data_list, !!x->wr_set_sge, !!x->wr_set_sge_list, !!x->wr_start,
			       !!x->wr_complete, !!x->wr_abort);
		}
		CALL_INT(ibv_destroy_qp(qp));
	}
}

static void many(void)
{
	struct ibv_qp *qp[40];

	for (int i = 0; i < 40; i++) {
		struct ibv_qp_init_attr init = base(IBV_QPT_RC);

		qp[i] = ibv_create_qp(pd, &init);
		if (!qp[i])
			die("queue pair %d", i);
		for (int k = 0; k < i; k++)
			if (qp[k]->qp_num == qp[i]->qp_num)
				note("queue pairs %d and %d share a number", k, i);
	}
	CALL_INT(ibv_destroy_cq(cq)); /* in use */
	CALL_INT(ibv_dealloc_pd(pd));
	for (int i = 0; i < 40; i++)
		if (ibv_destroy_qp(qp[i]))
			note("queue pair %d stays", i);
}

int main(void)
{
	begin();
	c = open_device("rxe0");
	pd = ibv_alloc_pd(c);
	cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	cq2 = ibv_create_cq(c, 16, NULL, NULL, 0);
	types();
	capacities();
	with_srq();
	extended();
	many();

	/* Nothing to complete into. */
	struct ibv_qp_init_attr init = base(IBV_QPT_RC);
	struct ibv_qp *qp;
	init.send_cq = init.recv_cq = cq;
	qp = CALL_PTR(ibv_create_qp(pd, &init));
	CHECK(qp->send_cq == cq && qp->recv_cq == cq);
	CALL_INT(ibv_destroy_qp(qp));
	CALL_INT(ibv_destroy_cq(cq));
	CALL_INT(ibv_destroy_cq(cq2));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
