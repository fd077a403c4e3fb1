/*
 * mlx.c - the answers of the drivers of NVIDIA's (Mellanox) devices: mlx5_ib, mlx4_ib and ib_mthca.
 */
#include "kernel.h"

#include <rdma/mlx4-abi.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mthca-abi.h>

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

/* Where the program has its queues. */
static void mlx5_rings(struct request *request)
{
	const struct mlx5_ib_create_cq *cq = request->driver_in;
	const struct mlx5_ib_create_srq *srq = request->driver_in;
	const struct mlx5_ib_create_qp *qp = request->driver_in;
	struct object *object = request->object;

	if (object->kind == OBJECT_CQ && request->driver_in_size >= sizeof *cq)
		object->rings = (struct rings){.ring = (void *)(uintptr_t)cq->buf_addr, .record = (void *)(uintptr_t)cq->db_addr,
			.entries = object->cap.max_send_wr + 1};
	else if (object->kind == OBJECT_SRQ && request->driver_in_size >= sizeof *srq)
		object->rings = (struct rings){.ring = (void *)(uintptr_t)srq->buf_addr, .record = (void *)(uintptr_t)srq->db_addr,
			.uidx = srq->uidx};
	else if (object->kind == OBJECT_QP && request->driver_in_size >= 48)
		object->rings = (struct rings){.ring = (void *)(uintptr_t)qp->buf_addr, .record = (void *)(uintptr_t)qp->db_addr,
			.send_ring = (void *)(uintptr_t)(qp->sq_buf_addr ? qp->sq_buf_addr :
							  qp->buf_addr + ((uint64_t)qp->rq_wqe_count << qp->rq_wqe_shift)),
			.uidx = qp->uidx, .sends = qp->sq_wqe_count, .receives = qp->rq_wqe_count, .shift = qp->rq_wqe_shift};
}

/* The device ends the old ring with a completion of its own, and goes on in the new one. */
static void mlx5_resize(struct request *request)
{
	const struct mlx5_ib_resize_cq *in = request->driver_in;
	struct rings *rings = &request->object->rings;
	uint8_t *end = (uint8_t *)rings->ring + (size_t)(rings->produced & (rings->entries - 1)) * 64;

	memset(end, 0, 63);
	__atomic_store_n(end + 63, 5 << 4 | !!(rings->produced & rings->entries), __ATOMIC_RELEASE);
	rings->produced++;
	rings->ring = (void *)(uintptr_t)in->buf_addr;
	rings->entries = ((const struct ib_uverbs_resize_cq *)request->in)->cqe + 1;
}

static void mlx5_answer(struct request *request)
{
	if (request->object && request->driver_in_size)
		switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
		case IB_USER_VERBS_CMD_CREATE_CQ:
		case IB_USER_VERBS_CMD_CREATE_SRQ:
		case IB_USER_VERBS_CMD_CREATE_XSRQ:
		case IB_USER_VERBS_CMD_CREATE_QP: mlx5_rings(request); break;
		case IB_USER_VERBS_CMD_RESIZE_CQ: mlx5_resize(request); break;
		}
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

/* Attributes that come out; a method without any has an entry for itself. */
static const struct driver_output mlx5_outputs[] = {
#define METHOD(object, method, attr, number) {MLX5_IB_OBJECT_##object, MLX5_IB_METHOD_##method, attr, number}
#define NUMBER(object, method, attr) METHOD(object, method, MLX5_IB_ATTR_##attr, true)
#define OUT(object, method, attr) METHOD(object, method, MLX5_IB_ATTR_##attr, false)
#define NO_OUT(object, method) METHOD(object, method, UINT16_MAX, false)
	NUMBER(UAR, UAR_OBJ_ALLOC, UAR_OBJ_ALLOC_HANDLE),
	OUT(UAR, UAR_OBJ_ALLOC, UAR_OBJ_ALLOC_MMAP_OFFSET),
	OUT(UAR, UAR_OBJ_ALLOC, UAR_OBJ_ALLOC_MMAP_LENGTH),
	OUT(UAR, UAR_OBJ_ALLOC, UAR_OBJ_ALLOC_PAGE_ID),
	NO_OUT(UAR, UAR_OBJ_DESTROY),
	NUMBER(VAR, VAR_OBJ_ALLOC, VAR_OBJ_ALLOC_HANDLE),
	OUT(VAR, VAR_OBJ_ALLOC, VAR_OBJ_ALLOC_MMAP_OFFSET),
	OUT(VAR, VAR_OBJ_ALLOC, VAR_OBJ_ALLOC_MMAP_LENGTH),
	OUT(VAR, VAR_OBJ_ALLOC, VAR_OBJ_ALLOC_PAGE_ID),
	NO_OUT(VAR, VAR_OBJ_DESTROY),
	NUMBER(PP, PP_OBJ_ALLOC, PP_OBJ_ALLOC_HANDLE),
	OUT(PP, PP_OBJ_ALLOC, PP_OBJ_ALLOC_INDEX),
	NO_OUT(PP, PP_OBJ_DESTROY),
	OUT(DEVX, DEVX_OTHER, DEVX_OTHER_CMD_OUT),
	OUT(DEVX, DEVX_QUERY_UAR, DEVX_QUERY_UAR_DEV_IDX),
	OUT(DEVX, DEVX_QUERY_EQN, DEVX_QUERY_EQN_DEV_EQN),
	NO_OUT(DEVX, DEVX_SUBSCRIBE_EVENT),
	NUMBER(DEVX_UMEM, DEVX_UMEM_REG, DEVX_UMEM_REG_HANDLE),
	OUT(DEVX_UMEM, DEVX_UMEM_REG, DEVX_UMEM_REG_OUT_ID),
	NO_OUT(DEVX_UMEM, DEVX_UMEM_DEREG),
	NUMBER(DEVX_OBJ, DEVX_OBJ_CREATE, DEVX_OBJ_CREATE_HANDLE),
	OUT(DEVX_OBJ, DEVX_OBJ_CREATE, DEVX_OBJ_CREATE_CMD_OUT),
	NO_OUT(DEVX_OBJ, DEVX_OBJ_DESTROY),
	OUT(DEVX_OBJ, DEVX_OBJ_MODIFY, DEVX_OBJ_MODIFY_CMD_OUT),
	OUT(DEVX_OBJ, DEVX_OBJ_QUERY, DEVX_OBJ_QUERY_CMD_OUT),
	NO_OUT(DEVX_OBJ, DEVX_OBJ_ASYNC_QUERY),
	NUMBER(DEVX_ASYNC_CMD_FD, DEVX_ASYNC_CMD_FD_ALLOC, DEVX_ASYNC_CMD_FD_ALLOC_HANDLE),
	NUMBER(DEVX_ASYNC_EVENT_FD, DEVX_ASYNC_EVENT_FD_ALLOC, DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE),
	NUMBER(FLOW_MATCHER, FLOW_MATCHER_CREATE, FLOW_MATCHER_CREATE_HANDLE),
	NO_OUT(FLOW_MATCHER, FLOW_MATCHER_DESTROY),
	NUMBER(STEERING_ANCHOR, STEERING_ANCHOR_CREATE, STEERING_ANCHOR_CREATE_HANDLE),
	OUT(STEERING_ANCHOR, STEERING_ANCHOR_CREATE, STEERING_ANCHOR_FT_ID),
	NO_OUT(STEERING_ANCHOR, STEERING_ANCHOR_DESTROY),
	{UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, MLX5_IB_ATTR_CREATE_FLOW_HANDLE, true},
	{UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER, MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, true},
	{UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE,
	 true},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, false},
	{UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, false},
	{UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR, MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET, false},
	{UVERBS_OBJECT_DM, MLX5_IB_METHOD_DM_MAP_OP_ADDR, MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX, false},
	{UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY, MLX5_IB_ATTR_QUERY_PD_RESP_PDN, false},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, false},
	{0}
};

static bool is(const struct ib_uverbs_ioctl_hdr *hdr, uint16_t object, uint16_t method)
{
	return hdr->object_id == object && hdr->method_id == method;
}

/* A new object or file for an attribute that is a number. */
static uint64_t mlx5_number(struct file *file, const struct ib_uverbs_ioctl_hdr *hdr)
{
	enum object_kind kind = hdr->object_id == UVERBS_OBJECT_FLOW ? OBJECT_FLOW :
				hdr->object_id == UVERBS_OBJECT_FLOW_ACTION ? OBJECT_ACTION : OBJECT_OF_DRIVER;

	if (hdr->object_id == MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD || hdr->object_id == MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD)
		return event_file(FILE_ASYNC, file->device);
	return new_object(file->device, kind, 0)->handle;
}

/* Bytes that come out: numbers are small, places in the device are pages, the status of a device's command is success. */
static void mlx5_out(const struct ib_uverbs_ioctl_hdr *hdr, const struct ib_uverbs_attr *attr, uint64_t handle)
{
	struct request request = {.driver_out = (void *)(uintptr_t)attr->data, .driver_out_size = attr->len};
	uint64_t value = 7;

	memset(request.driver_out, 0, attr->len);
	if (is(hdr, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT)) {
		ANSWER(&request, (struct mlx5_ib_alloc_ucontext_resp){
			.qp_tab_size = 1 << 18, .bf_reg_size = 512, .cache_line_size = 64, .max_sq_desc_sz = 1024,
			.max_rq_desc_sz = 512, .max_send_wqebb = 32768, .max_recv_wr = 32768, .max_srq_recv_wr = 32767,
			.num_ports = 1, .response_length = sizeof(struct mlx5_ib_alloc_ucontext_resp), .cqe_version = 1,
			.eth_min_inline = MLX5_USER_INLINE_MODE_L2, .log_uar_size = 12, .num_uars_per_page = 1});
		return;
	}
	if (hdr->object_id == MLX5_IB_OBJECT_UAR)
		value = attr->attr_id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET ? 0x60000 + (handle & 0xff) * 0x1000 :
			attr->attr_id == MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH ? 4096 : handle & 0xff;
	else if (hdr->object_id == MLX5_IB_OBJECT_VAR)
		value = attr->attr_id == MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_OFFSET ? 0x90000 :
			attr->attr_id == MLX5_IB_ATTR_VAR_OBJ_ALLOC_MMAP_LENGTH ? 4096 : handle & 0xff;
	else if (hdr->object_id == UVERBS_OBJECT_DM && attr->len == 8)
		value = 0x80;
	if (attr->len <= 8)
		give(request.driver_out, attr->len, &value, sizeof value);
}

static void mlx5_method(struct file *file, struct ib_uverbs_ioctl_hdr *hdr)
{
	uint64_t handle = 0;

	for (const struct driver_output *out = mlx5_outputs; out->attr; out++)
		for (unsigned i = 0; i < hdr->num_attrs && is(hdr, out->object, out->method); i++) {
			if (hdr->attrs[i].attr_id != out->attr)
				continue;
			if (out->number)
				hdr->attrs[i].data = handle = mlx5_number(file, hdr);
			else
				mlx5_out(hdr, &hdr->attrs[i], handle);
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

static void mthca_forget(uint32_t command, uint8_t *in, size_t size)
{
	if (command == IB_USER_VERBS_CMD_RESIZE_CQ && size >= sizeof(struct mthca_resize_cq))
		memset(&((struct mthca_resize_cq *)in)->reserved, 0, 4); /* as the plugin's stack left it */
}

static const struct driver mthca = {.provider = "mthca", .answer = mthca_answer, .forget = mthca_forget};

const struct driver *const mlx_drivers[] = {&mlx5, &mlx4, &mthca, NULL};
