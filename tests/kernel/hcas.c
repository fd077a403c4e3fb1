/*
 * hcas.c - the answers of the drivers of older devices: cxgb4, ocrdma, qedr, vmw_pvrdma, hfi1 and qib.
 */
#include "kernel.h"

#include <rdma/cxgb4-abi.h>
#include <rdma/ocrdma-abi.h>
#include <rdma/qedr-abi.h>
#include <rdma/vmw_pvrdma-abi.h>

static void cxgb4_answer(struct request *request)
{
	const struct object *object = request->object;

	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct c4iw_alloc_ucontext_resp){.status_page_key = 0x1000, .status_page_size = 4096});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct c4iw_alloc_pd_resp){number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct c4iw_create_cq_resp){
			.key = 0x10000 + (number(request) << 12), .gts_key = 0x20000 + (number(request) << 12),
			.memsize = (object->cap.max_send_wr + 2) * 64 + 4096, .cqid = 0x400 + number(request),
			.size = object->cap.max_send_wr + 1, .qid_mask = 0xf, .flags = C4IW_64B_CQE});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct c4iw_create_qp_resp){
			.sq_key = 0x100000 + (number(request) << 12), .rq_key = 0x200000 + (number(request) << 12),
			.sq_db_gts_key = 0x300000 + (number(request) << 12), .rq_db_gts_key = 0x400000 + (number(request) << 12),
			.sq_memsize = (object->cap.max_send_wr + 2) * 256 + 4096,
			.rq_memsize = (object->cap.max_recv_wr + 2) * 128 + 4096, .sqid = 0x400 + 2 * number(request),
			.rqid = 0x401 + 2 * number(request), .sq_size = object->cap.max_send_wr + 1,
			.rq_size = object->cap.max_recv_wr + 1, .qid_mask = 0xf});
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		ANSWER(request, (struct c4iw_create_srq_resp){
			.srq_key = 0x500000, .srq_db_gts_key = 0x600000, .srq_memsize = (object->cap.max_recv_wr + 2) * 128 + 4096,
			.srqid = 0x420 + number(request), .srq_size = object->cap.max_recv_wr + 1, .qid_mask = 0xf,
			.flags = T4_SRQ_LIMIT_SUPPORT});
		break;
	}
}

/* The status page tells the numbers that queues may have. */
static void cxgb4_map(uint64_t offset, void *memory, size_t size)
{
	struct { uint8_t doorbells_off, write_completion; uint16_t pad2; uint32_t pad3; uint64_t qp_start, qp_size, cq_start,
		 cq_size; } page = {.qp_start = 0x400, .qp_size = 0x400, .cq_start = 0x400, .cq_size = 0x400};

	if (offset == 0x1000)
		give(memory, size, &page, sizeof page);
}

static const struct driver cxgb4 = {.provider = "cxgb4", .answer = cxgb4_answer, .map = cxgb4_map};

static void ocrdma_answer(struct request *request)
{
	const struct object *object = request->object;

	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct ocrdma_alloc_ucontext_resp){
			.dev_id = 1, .wqe_size = 128, .max_inline_data = 64, .dpp_wqe_size = 0, .ah_tbl_page = 0x1000,
			.ah_tbl_len = 16384, .rqe_size = 64, .fw_ver = "10.2.477.0"});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct ocrdma_alloc_pd_uresp){.id = number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct ocrdma_create_cq_uresp){
			.cq_id = number(request), .page_size = 1 << 16, .num_pages = 1, .max_hw_cqe = object->cap.max_send_wr,
			.page_addr = {0x100000 + (number(request) << 16)}, .db_page_addr = 0x2000, .db_page_size = 4096});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct ocrdma_create_qp_uresp){
			.qp_id = 0x40 + number(request), .sq_dbid = number(request), .rq_dbid = number(request),
			.sq_page_size = 1 << 16, .rq_page_size = 1 << 16, .num_sq_pages = 1, .num_rq_pages = 1,
			.sq_page_addr = {0x200000 + (number(request) << 16)}, .rq_page_addr = {0x300000 + (number(request) << 16)},
			.db_page_addr = 0x3000, .db_page_size = 4096, .num_wqe_allocated = object->cap.max_send_wr,
			.num_rqe_allocated = object->cap.max_recv_wr, .db_sq_offset = 0x60, .db_rq_offset = 0xa0,
			.db_shift = 16});
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		ANSWER(request, (struct ocrdma_create_srq_uresp){
			.rq_dbid = number(request), .rq_page_size = 1 << 16, .num_rq_pages = 1, .rq_page_addr = {0x400000},
			.db_page_addr = 0x4000, .db_page_size = 4096, .num_rqe_allocated = object->cap.max_recv_wr,
			.db_rq_offset = 0xa0, .db_shift = 16});
		break;
	}
}

static void ocrdma_forget(uint32_t command, uint8_t *in, size_t size)
{
	if (command == IB_USER_VERBS_CMD_CREATE_CQ && size >= 8)
		memset(in + 4, 0, 4); /* padding */
}

static const struct driver ocrdma = {.provider = "ocrdma", .answer = ocrdma_answer, .forget = ocrdma_forget};

static void qedr_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct qedr_alloc_ucontext_resp){
			.db_pa = 0x1000, .db_size = 4096, .max_send_wr = 4096, .max_recv_wr = 4096, .max_srq_wr = 4096,
			.sges_per_send_wr = 4, .sges_per_recv_wr = 4, .sges_per_srq_wr = 4, .max_cqes = 65536,
			.dpm_flags = QEDR_DPM_SIZES_SET, .wids_enabled = 1, .wid_count = 4, .ldpm_limit_size = 512});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct qedr_alloc_pd_uresp){number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct qedr_create_cq_uresp){.db_offset = 0x10, .icid = number(request),
							      .db_rec_addr = 0x100000 + (number(request) << 12)});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct qedr_create_qp_uresp){
			.qp_id = 0x40 + number(request), .atomic_supported = 1, .sq_db_offset = 0x20, .sq_icid = 2 * number(request),
			.rq_db_offset = 0x30, .rq_icid = 2 * number(request) + 1, .rq_db2_offset = 0x40,
			.sq_db_rec_addr = 0x200000 + (number(request) << 12), .rq_db_rec_addr = 0x300000 + (number(request) << 12)});
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
	case IB_USER_VERBS_CMD_CREATE_XSRQ:
		ANSWER(request, (struct qedr_create_srq_uresp){.srq_id = number(request)});
		break;
	}
}

static void qedr_forget(uint32_t command, uint8_t *in, size_t size)
{
	if (command == IB_USER_VERBS_CMD_CREATE_QP && size >= 8)
		memset(in, 0, 8); /* an address in two halves, the upper one first */
}

static const struct driver qedr = {.provider = "qedr", .answer = qedr_answer, .forget = qedr_forget};

static void pvrdma_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT: ANSWER(request, (struct pvrdma_alloc_ucontext_resp){4096, 0}); break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct pvrdma_alloc_pd_resp){number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ: ANSWER(request, (struct pvrdma_create_cq_resp){number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_SRQ: ANSWER(request, (struct pvrdma_create_srq_resp){number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct pvrdma_create_qp_resp){0x40 + number(request), number(request)});
		break;
	}
}

static void pvrdma_forget(uint32_t command, uint8_t *in, size_t size)
{
	if (command == IB_USER_VERBS_CMD_CREATE_CQ && size >= sizeof(struct pvrdma_create_cq))
		memset(&((struct pvrdma_create_cq *)in)->reserved, 0, 4); /* as the plugin's stack left it */
}

static const struct driver pvrdma = {.provider = "vmw_pvrdma", .answer = pvrdma_answer, .forget = pvrdma_forget};

/* hfi1 and qib share the software queues of rdmavt: an answer is the offset at which the queue can be mapped. */
static void rvt_answer(struct request *request)
{
	uint64_t offset = 0x10000 * ((request->object ? request->object->kind : 0) + 1) + (number(request) << 12), address;

	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_CREATE_CQ: case IB_USER_VERBS_CMD_RESIZE_CQ: case IB_USER_VERBS_CMD_CREATE_QP:
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		ANSWER(request, offset);
		break;
	case IB_USER_VERBS_CMD_MODIFY_SRQ: /* here the offset goes to the address that the request names */
		if (request->driver_in_size < sizeof address)
			break;
		memcpy(&address, request->driver_in, sizeof address);
		offset = 0x770000;
		memcpy((void *)(uintptr_t)address, &offset, sizeof offset);
		break;
	}
}

static const struct driver hfi1 = {.provider = "hfi1verbs", .answer = rvt_answer};
static const struct driver qib = {.provider = "ipathverbs", .answer = rvt_answer};

const struct driver *const hca_drivers[] = {&cxgb4, &ocrdma, &qedr, &pvrdma, &hfi1, &qib, NULL};
