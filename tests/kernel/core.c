/*
 * core.c - what the kernel's verbs core answers to commands; the driver adds its part.
 */
#include "kernel.h"

#include <errno.h>

/* A number for keys of memory, different each time. */
static uint32_t next_key(void)
{
	static uint32_t last;

	return ++last;
}

static void device_attributes(const struct device *device, struct ib_uverbs_query_device_resp *answer)
{
	*answer = (struct ib_uverbs_query_device_resp){
		.fw_ver = 0x0016001b07d4, .node_guid = 0x100fefffb65002, .sys_image_guid = 0x100fefffb65002,
		.max_mr_size = 1ull << 40, .page_size_cap = 0xfffff000, .vendor_id = device->vendor,
		.vendor_part_id = device->part, .hw_ver = 0x30, .max_qp = 1 << 12, .max_qp_wr = 4096,
		.device_cap_flags = 0x21361c36, .max_sge = 16, .max_sge_rd = 8, .max_cq = 1 << 12, .max_cqe = 1 << 16,
		.max_mr = 1 << 12, .max_pd = 1 << 10, .max_qp_rd_atom = 16, .max_res_rd_atom = 1 << 14,
		.max_qp_init_rd_atom = 16, .atomic_cap = 1, .max_mw = 1 << 10, .max_raw_ethy_qp = 4, .max_mcast_grp = 64,
		.max_mcast_qp_attach = 8, .max_total_mcast_qp_attach = 512, .max_ah = 1 << 10, .max_srq = 1 << 10,
		.max_srq_wr = 2048, .max_srq_sge = 15, .max_pkeys = 128, .local_ca_ack_delay = 16, .phys_port_cnt = 1,
	};
}

struct ib_uverbs_query_port_resp port_attributes(const struct device *device)
{
	return (struct ib_uverbs_query_port_resp){
		.port_cap_flags = 0x04010000, .max_msg_sz = 1 << 30, .gid_tbl_len = 4, .pkey_tbl_len = 1,
		.lid = device->link_layer == IBV_LINK_LAYER_INFINIBAND ? 5 : 0, .sm_lid = 1, .state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_1024, .max_vl_num = 1, .active_width = 2, .active_speed = 32,
		.phys_state = 5, .link_layer = device->link_layer,
	};
}

static void query_device(struct request *request)
{
	struct ib_uverbs_ex_query_device_resp answer = {.response_length = sizeof answer};

	device_attributes(request->file->device, &answer.base);
	if (request->command & IB_USER_VERBS_CMD_FLAG_EXTENDED) {
		answer.odp_caps.general_caps = 1;
		answer.odp_caps.per_transport_caps.rc_odp_caps = 0x1f;
		answer.timestamp_mask = ~0ull >> 1;
		answer.hca_core_clock = 1000000;
		answer.device_cap_flags_ex = 0x1021361c36;
		answer.rss_caps.supported_qpts = 1 << IBV_QPT_RAW_PACKET;
		answer.rss_caps.max_rwq_indirection_tables = 64;
		answer.rss_caps.max_rwq_indirection_table_size = 128;
		answer.max_wq_type_rq = 512;
		answer.raw_packet_caps = 7;
		answer.tm_caps.max_num_tags = 127;
		answer.cq_moderation_caps.max_cq_moderation_count = 0xffff;
		answer.cq_moderation_caps.max_cq_moderation_period = 0xfff;
		answer.max_dm_size = 1 << 17;
		answer.response_length = request->out_size + request->driver_out_size;
	}
	give(request->out, request->out_size, &answer, sizeof answer);
}

/* As the kernel and its drivers check. */
static bool out_of_range(const struct request *request)
{
	const struct ib_uverbs_create_cq *cq = request->in;
	const struct ib_uverbs_ex_create_cq *cq_ex = request->in;
	const struct ib_uverbs_create_qp *qp = request->in;
	const struct ib_uverbs_ex_create_qp *qp_ex = request->in;
	const struct ib_uverbs_create_srq *srq = request->in;

	switch (request->command) {
	case IB_USER_VERBS_CMD_CREATE_CQ: return !cq->cqe || cq->cqe > 1 << 20 || cq->comp_vector > 3;
	case EX(IB_USER_VERBS_EX_CMD_CREATE_CQ): return !cq_ex->cqe || cq_ex->cqe > 1 << 20 || cq_ex->comp_vector > 3;
	case IB_USER_VERBS_CMD_CREATE_QP: return qp->max_send_wr > 1 << 16 || qp->max_send_sge > 256;
	case EX(IB_USER_VERBS_EX_CMD_CREATE_QP): return qp_ex->max_send_wr > 1 << 16 || qp_ex->max_send_sge > 256;
	case IB_USER_VERBS_CMD_CREATE_SRQ: return srq->max_wr > 1 << 16;
	default: return false;
	}
}

static void create_cq(struct request *request)
{
	const struct ib_uverbs_create_cq *in = request->in;
	const struct ib_uverbs_ex_create_cq *ex = request->in;
	struct ib_uverbs_ex_create_cq_resp answer = {.response_length = sizeof answer};
	bool extended = request->command & IB_USER_VERBS_CMD_FLAG_EXTENDED;

	request->object = new_object(request->file->device, OBJECT_CQ, extended ? ex->user_handle : in->user_handle);
	request->object->channel = file_of(extended ? ex->comp_channel : in->comp_channel);
	answer.base.cq_handle = request->object->handle;
	answer.base.cqe = request->object->cap.max_send_wr = extended ? ex->cqe : in->cqe;
	give(request->out, request->out_size, &answer, sizeof answer);
}

static void create_qp(struct request *request)
{
	const struct ib_uverbs_create_qp *in = request->in;
	const struct ib_uverbs_ex_create_qp *ex = request->in;
	struct ib_uverbs_ex_create_qp_resp answer = {.response_length = sizeof answer};
	bool extended = request->command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	struct object *object = new_object(request->file->device, OBJECT_QP, extended ? ex->user_handle : in->user_handle);

	/* From the first capacity on, the two forms are laid out alike. */
	memcpy(&object->cap, extended ? &ex->max_send_wr : &in->max_send_wr, 20);
	object->type = extended ? ex->qp_type : in->qp_type;
	request->object = object;
	answer.base.qp_handle = object->handle;
	answer.base.qpn = 0x40 + object->index;
	memcpy(&answer.base.max_send_wr, &object->cap, 20);
	give(request->out, request->out_size, &answer, sizeof answer);
}

static void create_srq(struct request *request)
{
	const struct ib_uverbs_create_srq *in = request->in;
	const struct ib_uverbs_create_xsrq *xin = request->in;
	bool extended = request->command == IB_USER_VERBS_CMD_CREATE_XSRQ;
	struct object *object = new_object(request->file->device, OBJECT_SRQ, extended ? xin->user_handle : in->user_handle);
	struct ib_uverbs_create_srq_resp answer = {.srq_handle = object->handle, .srqn = 0x20 + object->index};

	answer.max_wr = object->cap.max_recv_wr = extended ? xin->max_wr : in->max_wr;
	answer.max_sge = object->cap.max_recv_sge = extended ? xin->max_sge : in->max_sge;
	request->object = object;
	give(request->out, request->out_size, &answer, sizeof answer);
}

static void create_wq(struct request *request)
{
	const struct ib_uverbs_ex_create_wq *in = request->in;
	struct object *object = new_object(request->file->device, OBJECT_WQ, in->user_handle);
	struct ib_uverbs_ex_create_wq_resp answer = {.response_length = sizeof answer, .wq_handle = object->handle,
						     .max_wr = in->max_wr, .max_sge = in->max_sge, .wqn = 0x60 + object->index};

	request->object = object;
	give(request->out, request->out_size, &answer, sizeof answer);
}

static void modify_qp(struct request *request)
{
	const struct ib_uverbs_modify_qp *in = request->in; /* the extended form begins with it */
	struct ib_uverbs_ex_modify_qp_resp answer = {.response_length = sizeof answer};

	request->object = object_of(request->file->device, OBJECT_QP, in->qp_handle);
	if (request->object && in->attr_mask & IBV_QP_STATE)
		request->object->state = in->qp_state;
	give(request->out, request->out_size, &answer, sizeof answer);
}

static int query_qp(struct request *request)
{
	const struct ib_uverbs_query_qp *in = request->in;
	struct object *object = request->object = object_of(request->file->device, OBJECT_QP, in->qp_handle);
	struct ib_uverbs_query_qp_resp answer = {
		.dest = {.dlid = 9, .sl = 3, .is_global = 1, .port_num = 1, .hop_limit = 64, .sgid_index = 1},
		.qkey = 0x11111111, .rq_psn = 0x1234, .sq_psn = 0x4321, .dest_qp_num = 0x77, .qp_access_flags = 7,
		.path_mtu = IBV_MTU_1024, .max_rd_atomic = 2, .max_dest_rd_atomic = 3, .min_rnr_timer = 12, .port_num = 1,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 6, .sq_sig_all = 1,
	};

	if (!object)
		return EINVAL;
	memcpy(&answer.max_send_wr, &object->cap, 20);
	answer.qp_state = answer.cur_qp_state = object->state;
	give(request->out, request->out_size, &answer, sizeof answer);
	return 0;
}

/* Objects that only have a handle and perhaps a number more. */
static void create(struct request *request, enum object_kind kind, unsigned at, const void *answer, size_t size)
{
	struct object *object = request->object = new_object(request->file->device, kind, 0);

	give(request->out, request->out_size, answer, size);
	if (request->out_size >= at + 4)
		memcpy((char *)request->out + at, &object->handle, 4);
}

/* The handle stands at this place of the request. */
static int destroy(struct request *request, enum object_kind kind, unsigned at)
{
	uint32_t handle;
	struct object *object;

	memcpy(&handle, (const char *)request->in + at, 4);
	object = request->object = object_of(request->file->device, kind, handle);
	if (!object)
		return EINVAL;
	object->gone = true;
	if (kind == OBJECT_CQ) {
		struct ib_uverbs_destroy_cq_resp answer = {object->completions, object->events};

		give(request->out, request->out_size, &answer, sizeof answer);
	} else if (kind == OBJECT_WQ) {
		struct ib_uverbs_ex_destroy_wq_resp answer = {.response_length = sizeof answer,
							      .events_reported = object->events};

		give(request->out, request->out_size, &answer, sizeof answer);
	} else {
		give(request->out, request->out_size, &object->events, 4);
	}
	return 0;
}

/* Runs a request; the result is an error number or 0. */
int run_command(struct request *request)
{
	struct device *device = request->file->device;
	struct object *object;
	int error = 0;

	if (request->out_size && request->command != IB_USER_VERBS_CMD_POLL_CQ)
		memset(request->out, 0, request->out_size);
	error = failure();
	if (error)
		return error;
	if (out_of_range(request))
		return EINVAL;
	switch (request->command) {
	case IB_USER_VERBS_CMD_GET_CONTEXT: {
		struct ib_uverbs_get_context_resp answer = {.num_comp_vectors = 4};

		answer.async_fd = event_file(FILE_ASYNC, device);
		give(request->out, request->out_size, &answer, sizeof answer);
		break;
	}
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
	case EX(IB_USER_VERBS_EX_CMD_QUERY_DEVICE): query_device(request); break;
	case IB_USER_VERBS_CMD_QUERY_PORT: {
		struct ib_uverbs_query_port_resp answer = port_attributes(device);

		give(request->out, request->out_size, &answer, sizeof answer);
		break;
	}
	case IB_USER_VERBS_CMD_ALLOC_PD: create(request, OBJECT_PD, 0, NULL, 0); break;
	case IB_USER_VERBS_CMD_CREATE_AH: create(request, OBJECT_AH, 0, NULL, 0); break;
	case IB_USER_VERBS_CMD_OPEN_XRCD: create(request, OBJECT_XRCD, 0, NULL, 0); break;
	case IB_USER_VERBS_CMD_REG_MR: {
		struct ib_uverbs_reg_mr_resp answer = {.lkey = 0x1000 + next_key(), .rkey = 0x2000 + next_key()};

		create(request, OBJECT_MR, 0, &answer, sizeof answer);
		break;
	}
	case IB_USER_VERBS_CMD_REREG_MR: {
		struct ib_uverbs_rereg_mr_resp answer = {.lkey = 0x3001, .rkey = 0x3002};

		give(request->out, request->out_size, &answer, sizeof answer);
		break;
	}
	case IB_USER_VERBS_CMD_ALLOC_MW: {
		struct ib_uverbs_alloc_mw_resp answer = {.rkey = 0x4000 + next_key()};

		create(request, OBJECT_MW, 0, &answer, sizeof answer);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: {
		uint32_t fd = event_file(FILE_CHANNEL, device);

		give(request->out, request->out_size, &fd, sizeof fd);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_CQ:
	case EX(IB_USER_VERBS_EX_CMD_CREATE_CQ): create_cq(request); break;
	case IB_USER_VERBS_CMD_RESIZE_CQ: {
		const struct ib_uverbs_resize_cq *in = request->in;

		request->object = object_of(device, OBJECT_CQ, in->cq_handle);
		give(request->out, request->out_size, &in->cqe, sizeof in->cqe);
		break;
	}
	case IB_USER_VERBS_CMD_CREATE_QP:
	case EX(IB_USER_VERBS_EX_CMD_CREATE_QP): create_qp(request); break;
	case IB_USER_VERBS_CMD_OPEN_QP: {
		const struct ib_uverbs_open_qp *in = request->in;
		struct ib_uverbs_create_qp_resp answer = {.qpn = in->qpn};

		create(request, OBJECT_QP, 0, &answer, sizeof answer);
		request->object->user_handle = in->user_handle;
		break;
	}
	case IB_USER_VERBS_CMD_MODIFY_QP:
	case EX(IB_USER_VERBS_EX_CMD_MODIFY_QP): modify_qp(request); break;
	case IB_USER_VERBS_CMD_QUERY_QP: error = query_qp(request); break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
	case IB_USER_VERBS_CMD_CREATE_XSRQ: create_srq(request); break;
	case IB_USER_VERBS_CMD_QUERY_SRQ: {
		const struct ib_uverbs_query_srq *in = request->in;
		struct ib_uverbs_query_srq_resp answer = {.srq_limit = 5};

		object = object_of(device, OBJECT_SRQ, in->srq_handle);
		if (!object)
			return EINVAL;
		answer.max_wr = object->cap.max_recv_wr;
		answer.max_sge = object->cap.max_recv_sge;
		give(request->out, request->out_size, &answer, sizeof answer);
		break;
	}
	case EX(IB_USER_VERBS_EX_CMD_CREATE_WQ): create_wq(request); break;
	case EX(IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL): {
		struct ib_uverbs_ex_create_rwq_ind_table_resp answer = {.response_length = sizeof answer, .ind_tbl_num = 0x70};

		create(request, OBJECT_TABLE, 8, &answer, sizeof answer);
		break;
	}
	case EX(IB_USER_VERBS_EX_CMD_CREATE_FLOW): create(request, OBJECT_FLOW, 4, NULL, 0); break;
	case IB_USER_VERBS_CMD_POST_SEND:
	case IB_USER_VERBS_CMD_POST_RECV:
	case IB_USER_VERBS_CMD_POST_SRQ_RECV: break;
	case IB_USER_VERBS_CMD_POLL_CQ: memset(request->out, 0, request->out_size < 8 ? request->out_size : 8); break;
	case IB_USER_VERBS_CMD_DEALLOC_PD: error = destroy(request, OBJECT_PD, 0); break;
	case IB_USER_VERBS_CMD_DESTROY_AH: error = destroy(request, OBJECT_AH, 0); break;
	case IB_USER_VERBS_CMD_DEREG_MR: error = destroy(request, OBJECT_MR, 0); break;
	case IB_USER_VERBS_CMD_DEALLOC_MW: error = destroy(request, OBJECT_MW, 0); break;
	case IB_USER_VERBS_CMD_CLOSE_XRCD: error = destroy(request, OBJECT_XRCD, 0); break;
	case IB_USER_VERBS_CMD_DESTROY_CQ: error = destroy(request, OBJECT_CQ, 8); break;
	case IB_USER_VERBS_CMD_DESTROY_QP: error = destroy(request, OBJECT_QP, 8); break;
	case IB_USER_VERBS_CMD_DESTROY_SRQ: error = destroy(request, OBJECT_SRQ, 8); break;
	case EX(IB_USER_VERBS_EX_CMD_DESTROY_WQ): error = destroy(request, OBJECT_WQ, 4); break;
	case EX(IB_USER_VERBS_EX_CMD_DESTROY_FLOW): error = destroy(request, OBJECT_FLOW, 4); break;
	case EX(IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL): error = destroy(request, OBJECT_TABLE, 4); break;
	case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ: case IB_USER_VERBS_CMD_MODIFY_SRQ: case IB_USER_VERBS_CMD_ATTACH_MCAST:
	case IB_USER_VERBS_CMD_DETACH_MCAST: case EX(IB_USER_VERBS_EX_CMD_MODIFY_WQ): case EX(IB_USER_VERBS_EX_CMD_MODIFY_CQ):
		break;
	default: return EOPNOTSUPP;
	}
	if (error)
		return error;
	if (request->driver_out_size)
		memset(request->driver_out, 0, request->driver_out_size);
	if (device->driver && device->driver->answer)
		device->driver->answer(request);
	return 0;
}
