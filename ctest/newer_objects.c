/*
 * newer_objects.c - the table through which the inline functions of verbs.h reach the verbs that came after 1.1.
 *
 * Proves: every slot that a verbs.h has called is there, counted from the end as those functions count; what was added
 * for programs of 2013 stands where they look; and through the table itself the device refuses alike, whatever the
 * arguments say, and leaves the program's memory as it was.
 */
#include "setup.h"

static struct endpoint e;
static struct ibv_context *c;
static struct verbs_context *v;

static void table(void)
{
	v = verbs_get_ctx(c);
	CHECK(v != NULL);
	CHECK(v->sz >= sizeof(*v) - offsetof(struct verbs_context, query_port));
	CHECK(verbs_get_ctx_op(c, query_port) == v);
	CHECK(v->query_port && v->advise_mr && v->alloc_null_mr && v->read_counters && v->attach_counters_point_flow);
	CHECK(v->create_counters && v->destroy_counters && v->reg_dm_mr && v->alloc_dm && v->free_dm);
	CHECK(v->modify_flow_action_esp && v->destroy_flow_action && v->create_flow_action_esp);
	CHECK(v->modify_qp_rate_limit && v->alloc_parent_domain && v->dealloc_td && v->alloc_td && v->modify_cq);
	CHECK(v->post_srq_ops && v->destroy_rwq_ind_table && v->create_rwq_ind_table);
	CHECK(v->destroy_wq && v->modify_wq && v->create_wq && v->query_rt_values && v->create_cq_ex);
	CHECK(v->query_device_ex && v->ibv_destroy_flow && v->ibv_create_flow && v->open_qp && v->create_qp_ex);
	CHECK(v->get_srq_num && v->create_srq_ex && v->open_xrcd && v->close_xrcd && v->priv);
	CHECK((void *)v->ABI_placeholder1 == (void *)v->ibv_create_flow);
	CHECK((void *)v->ABI_placeholder2 == (void *)v->ibv_destroy_flow);
	CHECK(c->ops.alloc_mw && c->ops.bind_mw && c->ops.dealloc_mw && c->ops.poll_cq && c->ops.req_notify_cq);
	CHECK(c->ops.post_srq_recv && c->ops.post_send && c->ops.post_recv);
	CHECK(c->ops._compat_query_device && c->ops._compat_query_port);
}

/* A refusal must not touch what the program passed. */
#define UNTOUCHED(object, call)                                                                                \
	do {                                                                                                   \
		__typeof__(object) before_ = (object);                                                         \
		call;                                                                                          \
		CHECK(!memcmp(&before_, &(object), sizeof(before_)));                                          \
	} while (0)

static void refusals(void)
{
	struct ibv_wq wq = {.context = c, .wq_num = 7, .events_completed = 3};
	struct ibv_wq_init_attr wq_init = {
		.wq_type = 99, .max_wr = 1u << 31, .max_sge = 1u << 31, .pd = e.pd, .cq = e.recv_cq, .comp_mask = ~0u, .create_flags = ~0u};
	struct ibv_wq_attr wq_attr = {.attr_mask = ~0u, .wq_state = 55, .curr_wq_state = 66};
	struct ibv_wq *list[2] = {&wq, NULL};
	struct ibv_rwq_ind_table_init_attr table_init = {.log_ind_tbl_size = 31, .ind_tbl = list, .comp_mask = ~0u};
	struct ibv_rwq_ind_table rwq = {.context = c, .ind_tbl_num = 9};
	struct ibv_flow_attr rule = {.comp_mask = ~0u, .type = 77, .size = 0, .num_of_specs = 255, .port = 255};
	struct ibv_flow flow = {.comp_mask = ~0u, .context = c, .handle = 4711};
	struct ibv_flow_action_esp_attr esp = {.comp_mask = ~0u, .keymat_len = 0xffff};
	struct ibv_flow_action action = {.context = c};
	struct ibv_counters_init_attr counters_init = {.comp_mask = ~0u};
	struct ibv_counters counters = {.context = c};
	struct ibv_counter_attach_attr attach = {.counter_desc = 99, .index = ~0u, .comp_mask = ~0u};
	struct ibv_alloc_dm_attr dm_init = {.length = SIZE_MAX, .log_align_req = 99, .comp_mask = ~0u};
	struct ibv_dm dm = {.context = c, .handle = 12};
	struct ibv_xrcd_init_attr xrcd_init = {.comp_mask = ~0u, .fd = 99, .oflags = ~0};
	struct ibv_xrcd xrcd = {.context = c};
	struct ibv_qp_open_attr open = {.comp_mask = ~0u, .qp_num = ~0u, .xrcd = &xrcd, .qp_type = 99};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = ~0u, .max_burst_sz = ~0u, .typical_pkt_sz = 0xffff, .comp_mask = ~0u};
	struct ibv_modify_cq_attr cq_attr = {.attr_mask = ~0u, .moderate = {0xffff, 0xffff}};
	struct ibv_sge sge = {~0ull, ~0u, ~0u};
	uint64_t values[3] = {1, 2, 3};

	UNTOUCHED(wq_init, CALL_PTR(v->create_wq(c, &wq_init)));
	UNTOUCHED(wq_attr, CALL_INT(v->modify_wq(&wq, &wq_attr)));
	UNTOUCHED(wq, CALL_INT(v->destroy_wq(&wq)));
	UNTOUCHED(table_init, CALL_PTR(v->create_rwq_ind_table(c, &table_init)));
	UNTOUCHED(rwq, CALL_INT(v->destroy_rwq_ind_table(&rwq)));
	UNTOUCHED(rule, CALL_PTR(v->ibv_create_flow(e.qp, &rule)));
	UNTOUCHED(flow, CALL_INT(v->ibv_destroy_flow(&flow)));
	UNTOUCHED(esp, CALL_PTR(v->create_flow_action_esp(c, &esp)));
	UNTOUCHED(esp, CALL_INT(v->modify_flow_action_esp(&action, &esp)));
	UNTOUCHED(action, CALL_INT(v->destroy_flow_action(&action)));
	UNTOUCHED(counters_init, CALL_PTR(v->create_counters(c, &counters_init)));
	UNTOUCHED(attach, CALL_INT(v->attach_counters_point_flow(&counters, &attach, &flow)));
	UNTOUCHED(values[0], CALL_INT(v->read_counters(&counters, values, 3, ~0u)));
	CALL_INT(v->read_counters(&counters, NULL, 3, 0));
	UNTOUCHED(counters, CALL_INT(v->destroy_counters(&counters)));
	UNTOUCHED(dm_init, CALL_PTR(v->alloc_dm(c, &dm_init)));
	UNTOUCHED(dm, CALL_PTR(v->reg_dm_mr(e.pd, &dm, ~0ull, SIZE_MAX, ~0u)));
	UNTOUCHED(dm, CALL_INT(v->free_dm(&dm)));
	CALL_PTR(v->alloc_null_mr(e.pd));
	UNTOUCHED(sge, CALL_INT(v->advise_mr(e.pd, 99, ~0u, &sge, 1)));
	CALL_INT(v->advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0));
	CALL_INT(v->advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, NULL, 5));
	UNTOUCHED(xrcd_init, CALL_PTR(v->open_xrcd(c, &xrcd_init)));
	UNTOUCHED(xrcd, CALL_INT(v->close_xrcd(&xrcd)));
	UNTOUCHED(open, CALL_PTR(v->open_qp(c, &open)));
	UNTOUCHED(rate, CALL_INT(v->modify_qp_rate_limit(e.qp, &rate)));
	UNTOUCHED(cq_attr, CALL_INT(v->modify_cq(e.send_cq, &cq_attr)));
}

int main(void)
{
	begin();
	endpoint_open(&e, "rxe0");
	c = e.context;
	table();
	refusals();
	endpoint_close(&e);
	return end();
}
