/*
 * every.c - calls the verbs that the programs of ctest/ do not reach on the software device: with what is right where the
 * device has it, and with what is wrong. What is newer than the headers is found by name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(what) do { if (!(what)) { printf("failed: %s: %s\n", #what, strerror(errno)); exit(1); } } while (0)

static char memory[4096];

static void device_memory(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	NEED(dm);
	strcpy(memory, "kept");
	NEED(ibv_memcpy_to_dm(dm, 64, memory, 8) == 0);
	memset(memory, 0, 8);
	NEED(ibv_memcpy_from_dm(memory, dm, 64, 8) == 0 && !strcmp(memory, "kept"));
	NEED(ibv_memcpy_to_dm(dm, 4096, memory, 8) != 0);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	NEED(mr && ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0);
}

static void shared_domain(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &attr);
	NEED(xrcd);
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .qp_num = 0xffffff,
		.xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};
	NEED(!ibv_open_qp(context, &open));
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	NEED(cq);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .cap = { .max_send_wr = 4, .max_send_sge = 1 }, .qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	NEED(qp);
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);
	NEED(extended && extended == ibv_qp_to_qp_ex(qp));
	ibv_wr_start(extended);
	extended->wr_id = 7;
	extended->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(extended);
	ibv_wr_set_xrc_srqn(extended, 5);
	ibv_wr_abort(extended);
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000 };
	NEED(ibv_modify_qp_rate_limit(qp, &limit) != 0);
	NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_close_xrcd(xrcd) == 0);
}

static void atomic_write(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	NEED(cq && qp);
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);
	NEED(extended);
	ibv_wr_start(extended);
	ibv_wr_atomic_write(extended, 0x77, 0x1000, memory);
	ibv_wr_abort(extended);
	NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
}

/* What the software device lacks, and must say so. */
static void lacking(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	NEED(cq);
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq };
	struct ibv_rwq_ind_table_init_attr table = { .log_ind_tbl_size = 0 };
	struct ibv_wq_attr state = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_wq no_wq = { .context = context };
	struct ibv_rwq_ind_table no_table = { .context = context };
	NEED(!ibv_create_wq(context, &wq) && ibv_modify_wq(&no_wq, &state) && ibv_destroy_wq(&no_wq));
	NEED(!ibv_create_rwq_ind_table(context, &table) && ibv_destroy_rwq_ind_table(&no_table));

	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_counters no_counters = { .context = context };
	struct ibv_counter_attach_attr attach = { .counter_desc = IBV_COUNTER_PACKETS };
	uint64_t values[2] = { 0 };
	NEED(!ibv_create_counters(context, &counters) && ibv_destroy_counters(&no_counters));
	NEED(ibv_attach_counters_point_flow(&no_counters, &attach, NULL) && ibv_read_counters(&no_counters, values, 2, 0));

	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_flow_action no_action = { .context = context };
	struct ibv_flow_attr flow = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1 };
	struct ibv_flow no_flow = { .context = context };
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	NEED(qp && !ibv_create_flow(qp, &flow) && ibv_destroy_flow(&no_flow));
	NEED(!ibv_create_flow_action_esp(context, &esp) && ibv_modify_flow_action_esp(&no_action, &esp));
	NEED(ibv_destroy_flow_action(&no_action));
	NEED(ibv_destroy_qp(qp) == 0);

	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &shared);
	struct ibv_ops_wr tag = { .wr_id = 3, .opcode = IBV_WR_TAG_DEL, .tm.handle = 9 }, *bad;
	NEED(srq && ibv_post_srq_ops(srq, &tag, &bad) && ibv_destroy_srq(srq) == 0);
	NEED(ibv_destroy_cq(cq) == 0);
	struct ibv_values_ex clock = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	ibv_query_rt_values_ex(context, &clock);
}

/* By name, with nothing. */
static void by_name(const char *name)
{
	void *(*verb)(void *, void *, void *, void *, void *) = dlsym(RTLD_DEFAULT, name);
	if (!verb)
		printf("failed: no %s\n", name);
	else
		verb(NULL, NULL, NULL, NULL, NULL);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	NEED(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	NEED(pd);
	device_memory(context, pd);
	shared_domain(context, pd);
	atomic_write(context, pd);
	lacking(context, pd);
	static const char *const names[] = {
		"ibv_import_pd", "ibv_unimport_pd", "ibv_import_mr", "ibv_unimport_mr", "ibv_import_dm", "ibv_unimport_dm",
		"ibv_dealloc_dmah", "ibv_dm_export_dmabuf_fd",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		by_name(names[i]);
	NEED(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	ibv_free_device_list(list);
	return 0;
}
