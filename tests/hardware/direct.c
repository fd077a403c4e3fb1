/*
 * direct.c - the providers' own libraries (libmlx5, libmlx4, libefa, libmana), which are plugins and have functions for
 * programs, too: a program linked with them has their drivers before this library looks for any.
 *
 *   direct DEVICE
 */
#include "program.h"

#include <fcntl.h>
#include <infiniband/efadv.h>
#include <infiniband/manadv.h>
#include <infiniband/mlx4dv.h>
#include <infiniband/mlx5dv.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static _Alignas(4096) unsigned char buffer[8192];

static void mlx5_devx(void)
{
	static uint32_t in[16], out[16];
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_obj *object;
	struct mlx5dv_devx_cmd_comp *completion;
	struct mlx5dv_devx_event_channel *events;
	struct mlx5dv_var *var;
	struct mlx5dv_pp *pacing;
	struct mlx5dv_port port;
	uint16_t types[2] = {9, 0xb};
	uint32_t eqn = 0;

	CALL_INT(mlx5dv_devx_general_cmd(context, in, sizeof in, out, sizeof out));
	CALL_INT(mlx5dv_devx_query_eqn(context, 1, &eqn));
	printf("    eqn %u\n", eqn);
	umem = CALL_PTR(mlx5dv_devx_umem_reg(context, buffer, 4096, IBV_ACCESS_LOCAL_WRITE));
	if (umem)
		CALL_INT(mlx5dv_devx_umem_dereg(umem));
	CALL_PTR(FAILING(EINVAL, mlx5dv_devx_umem_reg(context, buffer, 4096, IBV_ACCESS_LOCAL_WRITE)));
	kernel_fail(0, 0);
	uar = CALL_PTR(mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF));
	if (uar) {
		printf("    page %u\n", uar->page_id);
		CALL_VOID(mlx5dv_devx_free_uar(uar));
	}
	in[0] = htobe32(0x0b00 << 16); /* CREATE_GENERAL_OBJECT */
	object = CALL_PTR(mlx5dv_devx_obj_create(context, in, sizeof in, out, sizeof out));
	if (object) {
		CALL_INT(mlx5dv_devx_obj_query(object, in, sizeof in, out, sizeof out));
		CALL_INT(mlx5dv_devx_obj_modify(object, in, sizeof in, out, sizeof out));
	}
	completion = CALL_PTR(mlx5dv_devx_create_cmd_comp(context));
	if (completion && object)
		CALL_INT(mlx5dv_devx_obj_query_async(object, in, sizeof in, sizeof out, 77, completion));
	events = CALL_PTR(mlx5dv_devx_create_event_channel(context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA));
	if (events) {
		CALL_INT(mlx5dv_devx_subscribe_devx_event(events, object, sizeof types, types, 5));
		CALL_VOID(mlx5dv_devx_destroy_event_channel(events));
	}
	if (completion)
		CALL_VOID(mlx5dv_devx_destroy_cmd_comp(completion));
	if (object)
		CALL_INT(mlx5dv_devx_obj_destroy(object));
	var = CALL_PTR(mlx5dv_alloc_var(context, 0));
	if (var)
		CALL_VOID(mlx5dv_free_var(var));
	pacing = CALL_PTR(mlx5dv_pp_alloc(context, sizeof in, in, 0));
	if (pacing)
		CALL_VOID(mlx5dv_pp_free(pacing));
	FILL(port);
	CALL_INT(mlx5dv_query_port(context, 1, &port));
}

static void mlx5_flow(struct ibv_qp *qp)
{
	/* mlx5dv_flow_match_parameters with its bytes */
	struct { size_t size; uint64_t bytes[8]; } mask = {64, {~0ull}}, value = {64, {0x1234}};
	struct mlx5dv_flow_matcher_attr attr = {.type = IBV_FLOW_ATTR_NORMAL, .priority = 3, .match_criteria_enable = 1,
						.match_mask = (void *)&mask};
	struct mlx5dv_flow_action_attr actions[2] = {{.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = qp},
						     {.type = MLX5DV_FLOW_ACTION_TAG, .tag_value = 0x77}};
	struct mlx5dv_steering_anchor_attr anchor_attr = {.ft_type = MLX5DV_FLOW_TABLE_TYPE_NIC_RX, .priority = 1};
	uint64_t header[2] = {1, 2};
	struct mlx5dv_flow_matcher *matcher = CALL_PTR(mlx5dv_create_flow_matcher(context, &attr));
	struct mlx5dv_steering_anchor *anchor;
	struct ibv_flow_action *action;
	struct ibv_flow *flow;

	if (matcher) {
		flow = qp ? CALL_PTR(mlx5dv_create_flow(matcher, (void *)&value, 2, actions)) : NULL;
		if (flow)
			CALL_INT(ibv_destroy_flow(flow));
		CALL_INT(mlx5dv_destroy_flow_matcher(matcher));
	}
	action = CALL_PTR(mlx5dv_create_flow_action_modify_header(context, sizeof header, header,
								  MLX5DV_FLOW_TABLE_TYPE_NIC_RX));
	if (action)
		CALL_INT(ibv_destroy_flow_action(action));
	action = CALL_PTR(mlx5dv_create_flow_action_packet_reformat(
		context, sizeof header, header, MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL,
		MLX5DV_FLOW_TABLE_TYPE_NIC_TX));
	if (action)
		CALL_INT(ibv_destroy_flow_action(action));
	anchor = CALL_PTR(mlx5dv_create_steering_anchor(context, &anchor_attr));
	if (anchor)
		CALL_INT(mlx5dv_destroy_steering_anchor(anchor));
}

static void mlx5_import(const char *name)
{
	char path[64] = "/dev/infiniband/";
	struct ibv_context *imported;
	struct ibv_pd *imported_pd;
	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE)), *imported_mr;
	int fd = open(strcat(path, name), O_RDWR | O_CLOEXEC);

	imported = CALL_PTR(ibv_import_device(fd));
	if (imported) {
		imported_pd = CALL_PTR(ibv_import_pd(imported, pd->handle));
		imported_mr = imported_pd && mr ? CALL_PTR(ibv_import_mr(imported_pd, mr->handle)) : NULL;
		if (imported_mr)
			CALL_VOID(ibv_unimport_mr(imported_mr));
		if (imported_pd)
			CALL_VOID(ibv_unimport_pd(imported_pd));
		CALL_INT(ibv_close_device(imported));
	}
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
}

static void mlx5(struct ibv_device *device)
{
	struct mlx5dv_context_attr open_attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct mlx5dv_context attr = {
		.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_SWP | MLX5DV_CONTEXT_MASK_STRIDING_RQ |
			     MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS | MLX5DV_CONTEXT_MASK_DYN_BFREGS |
			     MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE | MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS};
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct mlx5dv_cq_init_attr cq_attr = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
					      .cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_CSUM, .cqe_size = 64};
	struct ibv_qp_init_attr_ex qp_init = {.qp_type = IBV_QPT_RAW_PACKET, .cap = {16, 16, 1, 1, 0},
					      .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct mlx5dv_qp_init_attr qp_attr = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
					      .create_flags = MLX5DV_QP_CREATE_TUNNEL_OFFLOADS};
	struct ibv_wq_init_attr wq_init = {.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1};
	struct mlx5dv_wq_init_attr wq_attr = {.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
					      .striding_rq_attrs = {6, 9, 0}};
	struct ibv_alloc_dm_attr dm_init = {.length = 128};
	struct mlx5dv_alloc_dm_attr dm_attr = {.type = MLX5DV_DM_TYPE_MEMIC};
	struct mlx5dv_mkey_init_attr mkey_init = {.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, .max_entries = 4};
	struct mlx5dv_clock_info clock;
	struct mlx5dv_cq cq_out = {0};
	struct mlx5dv_qp qp_out = {.comp_mask = MLX5DV_QP_MASK_RAW_QP_HANDLES | MLX5DV_QP_MASK_UAR_MMAP_OFFSET};
	struct mlx5dv_pd pd_out = {0};
	struct mlx5dv_obj view = {.pd = {.out = &pd_out}, .cq = {.out = &cq_out}, .qp = {.out = &qp_out}};
	struct mlx5dv_mkey *mkey;
	struct ibv_cq_ex *cq;
	struct ibv_wq *wq;
	struct ibv_qp *qp;
	struct ibv_dm *dm;

	CHECK(mlx5dv_is_supported(device));
	context = CALL_PTR(mlx5dv_open_device(device, &open_attr));
	if (!context)
		return;
	if (!CALL_INT(mlx5dv_query_device(context, &attr))) {
		FIELD(attr, version);
		FIELD_X(attr, flags);
		FIELD_X(attr, comp_mask);
		FIELD_X(attr, cqe_comp_caps.supported_format);
		FIELD(attr, striding_rq_caps.max_single_stride_log_num_of_bytes);
		FIELD(attr, max_dynamic_bfregs);
	}
	CALL_INT(mlx5dv_get_clock_info(context, &clock));
	pd = CALL_PTR(ibv_alloc_pd(context));
	if (!pd)
		return;
	mlx5_devx();
	view.pd.in = qp_init.pd = wq_init.pd = mkey_init.pd = pd;
	cq = CALL_PTR(mlx5dv_create_cq(context, &cq_init, &cq_attr));
	if (cq) {
		view.cq.in = qp_init.send_cq = qp_init.recv_cq = wq_init.cq = ibv_cq_ex_to_cq(cq);
		qp = CALL_PTR(mlx5dv_create_qp(context, &qp_init, &qp_attr));
		view.qp.in = qp;
		if (qp && !CALL_INT(mlx5dv_init_obj(&view, MLX5DV_OBJ_PD | MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP))) {
			printf("    pd %u cq %#x entries %u of %u sends %u stride %u receives %u tir %u\n", pd_out.pdn, cq_out.cqn,
			       cq_out.cqe_cnt, cq_out.cqe_size, qp_out.sq.wqe_cnt, qp_out.sq.stride, qp_out.rq.wqe_cnt, qp_out.tirn);
		}
		mlx5_flow(qp);
		if (qp)
			CALL_INT(ibv_destroy_qp(qp));
		qp_init.qp_type = IBV_QPT_DRIVER;
		qp_init.cap.max_recv_wr = qp_init.cap.max_recv_sge = 0;
		qp_attr = (struct mlx5dv_qp_init_attr){.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
						       .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
		qp = CALL_PTR(mlx5dv_create_qp(context, &qp_init, &qp_attr));
		if (qp)
			CALL_INT(ibv_destroy_qp(qp));
		wq = CALL_PTR(mlx5dv_create_wq(context, &wq_init, &wq_attr));
		if (wq)
			CALL_INT(ibv_destroy_wq(wq));
		CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	dm = CALL_PTR(mlx5dv_alloc_dm(context, &dm_init, &dm_attr));
	if (dm) {
		CALL_PTR(mlx5dv_dm_map_op_addr(dm, 1));
		CALL_INT(ibv_free_dm(dm));
	}
	mkey = CALL_PTR(mlx5dv_create_mkey(&mkey_init));
	if (mkey)
		CALL_INT(mlx5dv_destroy_mkey(mkey));
	mlx5_import(device->dev_name);
}

static void mlx4(struct ibv_device *device)
{
	struct mlx4dv_context attr = {0};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}, .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct mlx4dv_qp_init_attr qp_attr = {.comp_mask = MLX4DV_QP_INIT_ATTR_MASK_INL_RECV, .inl_recv_sz = 64};
	struct mlx4dv_qp out = {0};
	struct mlx4dv_obj view = {.qp = {.out = &out}};
	struct ibv_cq *cq;

	context = CALL_PTR(ibv_open_device(device));
	if (!context)
		return;
	if (!CALL_INT(mlx4dv_query_device(context, &attr)))
		FIELD(attr, max_inl_recv_sz);
	pd = CALL_PTR(ibv_alloc_pd(context));
	cq = CALL_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	if (!pd || !cq)
		return;
	init.pd = pd;
	init.send_cq = init.recv_cq = cq;
	view.qp.in = CALL_PTR(mlx4dv_create_qp(context, &init, &qp_attr));
	if (view.qp.in) {
		CALL_INT(mlx4dv_init_obj(&view, MLX4DV_OBJ_QP));
		printf("    sends %d receives %d inline %u\n", out.sq.wqe_cnt, out.rq.wqe_cnt, qp_attr.inl_recv_sz);
		CALL_INT(ibv_destroy_qp(view.qp.in));
	}
	CALL_INT(ibv_destroy_cq(cq));
}

static void efa(struct ibv_device *device)
{
	struct efadv_device_attr attr = {0};
	struct efadv_ah_attr ah_attr = {0};
	struct efadv_cq_init_attr cq_attr = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 64};
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_DRIVER, .cap = {64, 64, 2, 2, 32},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ};
	struct efadv_qp_init_attr qp_attr = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_ah_attr address = {.grh = {.dgid.raw = {0xfe, 0x80, [15] = 9}}, .is_global = 1, .port_num = 1};
	struct ibv_cq_ex *cq;
	struct ibv_ah *ah;
	struct ibv_qp *qp;

	context = CALL_PTR(ibv_open_device(device));
	if (!context)
		return;
	if (!CALL_INT(efadv_query_device(context, &attr, sizeof attr))) {
		FIELD(attr, max_sq_wr);
		FIELD_X(attr, device_caps);
	}
	pd = CALL_PTR(ibv_alloc_pd(context));
	cq = CALL_PTR(efadv_create_cq(context, &cq_init, &cq_attr, sizeof cq_attr));
	if (!pd || !cq)
		return;
	init.pd = pd;
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = CALL_PTR(efadv_create_qp_ex(context, &init, &qp_attr, sizeof qp_attr));
	ah = CALL_PTR(ibv_create_ah(pd, &address));
	if (ah && !CALL_INT(efadv_query_ah(ah, &ah_attr, sizeof ah_attr)))
		FIELD(ah_attr, ahn);
	if (qp && ah) {
		struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

		for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
			struct ibv_qp_attr change = {.qp_state = state, .port_num = 1, .qkey = 0x11111111};

			CALL_INT(ibv_modify_qp(qp, &change, state == IBV_QPS_INIT ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_QKEY : state == IBV_QPS_RTS ? IBV_QP_STATE | IBV_QP_SQ_PSN : IBV_QP_STATE));
		}
		CALL_VOID(ibv_wr_start(ex));
		ex->wr_id = 5;
		CALL_VOID(ibv_wr_send(ex));
		CALL_VOID(ibv_wr_set_ud_addr(ex, ah, 7, 0x11111111));
		CALL_VOID(ibv_wr_set_sge(ex, 3, (uintptr_t)buffer, 64));
		CALL_INT(ibv_wr_complete(ex));
	}
	if (ah)
		CALL_INT(ibv_destroy_ah(ah));
	if (qp)
		CALL_INT(ibv_destroy_qp(qp));
	CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

static void *allocate(size_t size, void *unused)
{
	(void)unused;
	return aligned_alloc(4096, (size + 4095) & ~4095ul);
}

static void release(void *memory, void *unused)
{
	(void)unused;
	free(memory);
}

static void mana(struct ibv_device *device)
{
	struct manadv_ctx_allocators allocators = {allocate, release, NULL};
	struct ibv_parent_domain_init_attr parent_init = {.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
							  .pd_context = (void *)1};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RAW_PACKET, .cap = {16, 0, 2, 0, 0}};
	struct ibv_wq_init_attr wq_init = {.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_rwq_ind_table_init_attr table_init = {.log_ind_tbl_size = 0};
	struct ibv_rwq_ind_table *table;
	struct manadv_qp qp_out = {0};
	struct manadv_cq cq_out = {0};
	struct manadv_obj view = {.qp = {.out = &qp_out}, .cq = {.out = &cq_out}};
	struct ibv_pd *parent;
	struct ibv_cq *cq;
	struct ibv_wq *wq;
	struct ibv_qp *qp;
	uint8_t key[40] = {1, 2, 3};

	context = CALL_PTR(ibv_open_device(device));
	if (!context)
		return;
	CALL_INT(manadv_set_context_attr(context, MANADV_CTX_ATTR_BUF_ALLOCATORS, &allocators));
	pd = CALL_PTR(ibv_alloc_pd(context));
	cq = CALL_PTR(ibv_create_cq(context, 64, NULL, NULL, 0));
	if (!pd || !cq)
		return;
	parent_init.pd = pd;
	parent = CALL_PTR(ibv_alloc_parent_domain(context, &parent_init));
	init.send_cq = init.recv_cq = wq_init.cq = view.cq.in = cq;
	qp = parent ? CALL_PTR(ibv_create_qp(parent, &init)) : NULL;
	if (qp) {
		view.qp.in = qp;
		CALL_INT(manadv_init_obj(&view, MANADV_OBJ_QP | MANADV_OBJ_CQ));
		printf("    sends %u of %u queue %#x cq %#x\n", qp_out.sq_count, qp_out.sq_size, qp_out.sq_id, cq_out.cq_id);
		CALL_INT(ibv_destroy_qp(qp));
	}
	wq_init.pd = pd;
	wq = CALL_PTR(ibv_create_wq(context, &wq_init));
	if (wq) {
		CALL_INT(ibv_modify_wq(wq, &ready));
		table_init.ind_tbl = &wq;
		table = CALL_PTR(ibv_create_rwq_ind_table(context, &table_init));
		if (table) {
			struct ibv_qp_init_attr_ex rss = {
				.qp_type = IBV_QPT_RAW_PACKET, .pd = parent, .rwq_ind_tbl = table,
				.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
				.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, .rx_hash_key_len = 40,
						 .rx_hash_key = key, .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4}};

			qp = CALL_PTR(ibv_create_qp_ex(context, &rss));
			if (qp)
				CALL_INT(ibv_destroy_qp(qp));
			CALL_INT(ibv_destroy_rwq_ind_table(table));
		}
		CALL_INT(ibv_destroy_wq(wq));
	}
	if (parent)
		CALL_INT(ibv_dealloc_pd(parent));
	CALL_INT(ibv_destroy_cq(cq));
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(struct ibv_device *); } providers[] = {
		{"hw_mlx5", mlx5}, {"hw_mlx4", mlx4}, {"hw_efa", efa}, {"hw_mana", mana}};
	struct ibv_device **list;

	if (argc != 2)
		return 2;
	begin();
	find_kernel();
	kernel_name(buffer, "buffer");
	list = CALL_PTR(ibv_get_device_list(NULL));
	for (int i = 0; list && list[i]; i++)
		for (unsigned j = 0; j < sizeof providers / sizeof *providers; j++)
			if (!strcmp(ibv_get_device_name(list[i]), argv[1]) && !strcmp(argv[1], providers[j].name))
				providers[j].run(list[i]);
	CALL_VOID(ibv_free_device_list(list));
	if (pd)
		CALL_INT(ibv_dealloc_pd(pd));
	if (context)
		CALL_INT(ibv_close_device(context));
	return end();
}
