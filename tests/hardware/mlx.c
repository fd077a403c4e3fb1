/*
 * mlx.c - the answers of the drivers of NVIDIA's (Mellanox) devices: mlx5_ib, mlx4_ib and ib_mthca.
 */
#include "kernel.h"

#include <rdma/mlx4-abi.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mthca-abi.h>

static uint32_t number(const struct request *request)
{
	return request->object ? request->object->index : 0;
}

static void mlx5_context(struct request *request)
{
	const struct mlx5_ib_alloc_ucontext_req_v2 *in = request->driver_in;
	/* A kernel with methods has pages for doorbells that are made when they are needed. */
	bool dynamic = ways == WAY_METHODS && request->driver_in_size >= sizeof *in && in->lib_caps & MLX5_LIB_CAP_DYN_UAR;

	ANSWER(request, (struct mlx5_ib_alloc_ucontext_resp){
		.qp_tab_size = 1 << 18, .bf_reg_size = 512, .tot_bfregs = dynamic ? 0 : in->total_num_bfregs,
		.cache_line_size = 64, .max_sq_desc_sz = 1024, .max_rq_desc_sz = 512, .max_send_wqebb = 32768,
		.max_recv_wr = 32768, .max_srq_recv_wr = 32767, .num_ports = 1,
		.comp_mask = MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET |
			     MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY | MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE |
			     MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS,
		.response_length = sizeof(struct mlx5_ib_alloc_ucontext_resp), .cqe_version = 1,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		.eth_min_inline = MLX5_USER_INLINE_MODE_L2, .clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1,
		.hca_core_clock_offset = 0x40, .log_uar_size = 12, .num_uars_per_page = 1, .num_dyn_bfregs = 512,
		.dump_fill_mkey = 0x1234,
	});
}

static void mlx5_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT: mlx5_context(request); break;
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		ANSWER(request, (struct mlx5_ib_query_device_resp){
			.response_length = sizeof(struct mlx5_ib_query_device_resp),
			.tso_caps = {262144, 1 << IBV_QPT_RAW_PACKET},
			.rss_caps = {0xff, MLX5_RX_HASH_FUNC_TOEPLITZ, {0}},
			.cqe_comp_caps = {64, MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM},
			.packet_pacing_caps = {1, 100000, 1 << IBV_QPT_RAW_PACKET, MLX5_IB_PP_SUPPORT_BURST, {0}},
			.mlx5_ib_support_multi_pkt_send_wqes = MLX5_IB_ALLOW_MPW | MLX5_IB_SUPPORT_EMPW,
			.flags = MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP | MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD,
			.sw_parsing_caps = {7, 1 << IBV_QPT_RAW_PACKET},
			.striding_rq_caps = {6, 13, 9, 16, 1 << IBV_QPT_RAW_PACKET, 0},
			.tunnel_offloads_caps = 7,
		});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct mlx5_ib_alloc_pd_resp){number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ: ANSWER(request, (struct mlx5_ib_create_cq_resp){0x400 + number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
	case IB_USER_VERBS_CMD_CREATE_XSRQ:
		ANSWER(request, (struct mlx5_ib_create_srq_resp){0x20 + number(request), 0});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct mlx5_ib_create_qp_resp){
			.bfreg_index = number(request) % 4, .ece_options = 0x20,
			.comp_mask = MLX5_IB_CREATE_QP_RESP_MASK_TIRN | MLX5_IB_CREATE_QP_RESP_MASK_RQN, .tirn = 5, .rqn = 6,
		});
		break;
	case IB_USER_VERBS_CMD_MODIFY_QP:
		ANSWER(request, (struct mlx5_ib_modify_qp_resp){sizeof(struct mlx5_ib_modify_qp_resp), 0x90, 0x20, 0});
		break;
	case IB_USER_VERBS_CMD_CREATE_AH:
		ANSWER(request, (struct mlx5_ib_create_ah_resp){
			.response_length = sizeof(struct mlx5_ib_create_ah_resp), .dmac = {2, 0x50, 0xb6, 0, 0, 1}});
		break;
	case IB_USER_VERBS_EX_CMD_CREATE_WQ:
		ANSWER(request, (struct mlx5_ib_create_wq_resp){sizeof(struct mlx5_ib_create_wq_resp), 0});
		break;
	case IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL:
		ANSWER(request, (struct mlx5_ib_create_rwq_ind_tbl_resp){sizeof(struct mlx5_ib_create_rwq_ind_tbl_resp), 0});
		break;
	}
}

static const struct driver_output mlx5_outputs[] = {
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, true},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, false},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, false},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, false},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, UINT16_MAX, false},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, false},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, false},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, false},
	{0}
};

static void mlx5_method(struct file *file, struct ib_uverbs_ioctl_hdr *hdr)
{
	struct object *object = NULL;

	if (hdr->object_id == MLX5_IB_OBJECT_UAR && hdr->method_id == MLX5_IB_METHOD_UAR_OBJ_ALLOC)
		object = new_object(file->device, OBJECT_OF_DRIVER, 0);
	for (unsigned i = 0; i < hdr->num_attrs; i++) {
		struct ib_uverbs_attr *attr = &hdr->attrs[i];
		void *out = (void *)(uintptr_t)attr->data;
		uint64_t offset = 0x60000 + (object ? object->index : 0) * 0x1000;
		uint32_t length = 4096, page = object ? object->index : 0;
		uint16_t index = 3;

		if (object)
			switch (attr->attr_id) {
			case MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE: attr->data = object->handle; break;
			case MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET: give(out, attr->len, &offset, sizeof offset); break;
			case MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH: give(out, attr->len, &length, sizeof length); break;
			case MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID: give(out, attr->len, &page, sizeof page); break;
			}
		else if (hdr->object_id == MLX5_IB_OBJECT_DEVX && attr->attr_id == MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT)
			memset(out, 0, attr->len); /* success, and no capability */
		else if (hdr->object_id == UVERBS_OBJECT_DM && hdr->method_id == UVERBS_METHOD_DM_ALLOC) {
			if (attr->attr_id == MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET)
				give(out, attr->len, &(uint64_t){0x80}, 8);
			else if (attr->attr_id == MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX)
				give(out, attr->len, &index, sizeof index);
		}
	}
}

static const struct driver mlx5 = {.provider = "mlx5", .answer = mlx5_answer, .outputs = mlx5_outputs, .method = mlx5_method};

/* A new ring of completions; the driver fills it with what no completion is. */
static void mlx4_ring(struct object *cq, uint64_t address, uint32_t entries)
{
	cq->memory = address;
	memset((void *)(uintptr_t)address, 0xcc, entries * 64);
}

static void mlx4_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct mlx4_ib_alloc_ucontext_resp){
			.dev_caps = MLX4_USER_DEV_CAP_LARGE_CQE, .qp_tab_size = 1 << 16, .bf_reg_size = 512,
			.bf_regs_per_page = 8, .cqe_size = 64});
		break;
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		ANSWER(request, (struct mlx4_uverbs_ex_query_device_resp){
			.comp_mask = MLX4_IB_QUERY_DEV_RESP_MASK_CORE_CLOCK_OFFSET,
			.response_length = sizeof(struct mlx4_uverbs_ex_query_device_resp), .hca_core_clock_offset = 0x80,
			.max_inl_recv_sz = 128, .rss_caps = {0xff, MLX4_IB_RX_HASH_FUNC_TOEPLITZ, {0}},
			.tso_caps = {65536, 1 << IBV_QPT_UD},
		});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct mlx4_ib_alloc_pd_resp){number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		mlx4_ring(request->object, ((const struct mlx4_ib_create_cq *)request->driver_in)->buf_addr,
			  request->object->cap.max_send_wr + 1);
		ANSWER(request, (struct mlx4_ib_create_cq_resp){0x80 + number(request), 0});
		break;
	case IB_USER_VERBS_CMD_RESIZE_CQ:
		/* The device marks the end of the old ring with a completion of its own; the last byte of an entry is its code. */
		((uint8_t *)(uintptr_t)request->object->memory)[63] = 0x16;
		mlx4_ring(request->object, ((const struct mlx4_ib_resize_cq *)request->driver_in)->buf_addr,
			  ((const struct ib_uverbs_resize_cq *)request->in)->cqe + 1);
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
	case IB_USER_VERBS_CMD_CREATE_XSRQ:
		ANSWER(request, (struct mlx4_ib_create_srq_resp){0x20 + number(request), 0});
		break;
	case IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL:
		ANSWER(request, (struct mlx4_ib_create_rwq_ind_tbl_resp){sizeof(struct mlx4_ib_create_rwq_ind_tbl_resp), 0});
		break;
	}
}

static const struct driver mlx4 = {.provider = "mlx4", .answer = mlx4_answer};

static void mthca_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT: ANSWER(request, (struct mthca_alloc_ucontext_resp){1 << 16, 64 * 4096}); break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct mthca_alloc_pd_resp){number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ: ANSWER(request, (struct mthca_create_cq_resp){0x80 + number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_SRQ: ANSWER(request, (struct mthca_create_srq_resp){0x20 + number(request), 0}); break;
	}
}

static const struct driver mthca = {.provider = "mthca", .answer = mthca_answer};

const struct driver *const mlx_drivers[] = {&mlx5, &mlx4, &mthca, NULL};
