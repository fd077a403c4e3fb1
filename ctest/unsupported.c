/*
 * unsupported.c - verbs that soft-RoCE has not: extended connections, work queues, flows, counters, device memory,
 * tag matching, rate limits, clocks.
 *
 * Proves: the same refusal, by the same path: result, errno and out-parameters. Objects that cannot exist are structs
 * of the program's own, with the context filled in as the inline functions need it.
 */
#include "setup.h"

static struct endpoint e;
static struct ibv_context *c;

static void connections(void)
{
	struct ibv_xrcd_init_attr init = {.comp_mask = 3, .fd = -1, .oflags = 0};
	struct ibv_xrcd fake = {.context = c};
	struct ibv_qp_open_attr open_attr = {.comp_mask = 15, .qp_num = 17, .xrcd = &fake, .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_init_attr_ex ask = {.comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = &fake, .qp_type = IBV_QPT_XRC_RECV};
	uint32_t number = 5;
	struct ibv_srq_init_attr srq_init = {.attr = {4, 1, 0}};
	struct ibv_srq *srq = ibv_create_srq(e.pd, &srq_init);

	CALL_PTR(ibv_open_xrcd(c, &init));
	init.comp_mask = 0;
	CALL_PTR(ibv_open_xrcd(c, &init));
	CALL_INT(ibv_close_xrcd(&fake));
	CALL_PTR(ibv_open_qp(c, &open_attr));
	open_attr.comp_mask = 0;
	CALL_PTR(ibv_open_qp(c, &open_attr));
	CALL_PTR(ibv_create_qp_ex(c, &ask));
	CALL_INT(ibv_get_srq_num(srq, &number));
	note("    number %u", number);
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_ADD}, *bad = NULL;
	CALL_INT(ibv_post_srq_ops(srq, &op, &bad));
	CHECK(bad == &op);
	CALL_INT(ibv_destroy_srq(srq));
}

static void work_queues(void)
{
	struct ibv_wq_init_attr init = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = e.pd, .cq = e.recv_cq};
	struct ibv_wq fake = {.context = c};
	struct ibv_wq *table[1] = {&fake};
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr table_init = {.log_ind_tbl_size = 0, .ind_tbl = table};
	struct ibv_rwq_ind_table fake_table = {.context = c};

	CALL_PTR(ibv_create_wq(c, &init));
	CALL_INT(ibv_modify_wq(&fake, &attr));
	CALL_INT(ibv_destroy_wq(&fake));
	CALL_PTR(ibv_create_rwq_ind_table(c, &table_init));
	CALL_INT(ibv_destroy_rwq_ind_table(&fake_table));
}

static void flows(void)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} flow = {.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .num_of_specs = 1, .port = 1},
		  .eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth)}};
	struct ibv_flow fake = {.context = c};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_flow_action action = {.context = c};

	CALL_PTR(ibv_create_flow(e.qp, &flow.attr));
	flow.attr.type = IBV_FLOW_ATTR_SNIFFER;
	CALL_PTR(ibv_create_flow(e.qp, &flow.attr));
	CALL_INT(ibv_destroy_flow(&fake));
	CALL_PTR(ibv_create_flow_action_esp(c, &esp));
	CALL_INT(ibv_modify_flow_action_esp(&action, &esp));
	CALL_INT(ibv_destroy_flow_action(&action));
}

static void counters(void)
{
	struct ibv_counters_init_attr init = {0};
	struct ibv_counters fake = {.context = c};
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS};
	uint64_t values[4] = {1, 2, 3, 4};

	CALL_PTR(ibv_create_counters(c, &init));
	init.comp_mask = 1;
	CALL_PTR(ibv_create_counters(c, &init));
	CALL_INT(ibv_attach_counters_point_flow(&fake, &attach, NULL));
	CALL_INT(ibv_read_counters(&fake, values, 4, 0));
	CALL_INT(ibv_read_counters(&fake, values, 0, 1));
	CHECK(values[0] == 1 && values[3] == 4);
	CALL_INT(ibv_destroy_counters(&fake));
}

static void memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm fake = {.context = c};
	struct ibv_sge sge = {(uintptr_t)e.buffer, 64, e.mr->lkey};

	CALL_PTR(ibv_alloc_dm(c, &attr));
	attr.comp_mask = 1;
	CALL_PTR(ibv_alloc_dm(c, &attr));
	CALL_INT(ibv_free_dm(&fake));
	CALL_PTR(ibv_reg_dm_mr(e.pd, &fake, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
	CALL_PTR(ibv_alloc_null_mr(e.pd));
	CALL_PTR(ibv_import_device(dup(c->cmd_fd)));
	CALL_PTR(ibv_import_mr(e.pd, e.mr->handle));
	CALL_PTR(ibv_import_pd(c, e.pd->handle));
	CALL_PTR(ibv_import_dm(c, 0));
	CALL_VOID(ibv_unimport_mr(e.mr));
	CALL_VOID(ibv_unimport_pd(e.pd));
	CALL_VOID(ibv_unimport_dm(&fake));
	CALL_INT(ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1));
	CALL_PTR(ibv_reg_dmabuf_mr(e.pd, 0, 4096, 0, 0, 0));
}

static void completions(void)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = e.pd};
	struct ibv_cq_ex *cq = CALL_PTR(ibv_create_cq_ex(c, &cq_init)); /* a plain domain where a parent one is meant */
	if (cq)
		CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static void others(void)
{
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {1, 1}};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {1, 2}};

	CALL_INT(ibv_modify_qp_rate_limit(e.qp, &rate));
	CALL_INT(ibv_modify_cq(e.recv_cq, &moderation));
	CALL_INT(ibv_query_rt_values_ex(c, &values));
	FIELD(values, comp_mask);
	FIELD(values, raw_clock.tv_sec);
	values.comp_mask = 0;
	CALL_INT(ibv_query_rt_values_ex(c, &values));
	CALL_INT(ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
}

int main(void)
{
	begin();
	endpoint_open(&e, "rxe0");
	c = e.context;
	connections();
	work_queues();
	flows();
	counters();
	memory();
	completions();
	others();
	endpoint_close(&e);
	return end();
}
