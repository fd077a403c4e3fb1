/*
 * nics.c - the answers of the drivers of cloud and Ethernet devices: efa, irdma, bnxt_re, hns, erdma and mana.
 */
#include "kernel.h"

#include <rdma/bnxt_re-abi.h>
#include <rdma/efa-abi.h>
#include <rdma/erdma-abi.h>
#include <rdma/hns-abi.h>
#include <rdma/irdma-abi.h>

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t power = 1;

	while (power < at_least)
		power *= 2;
	return power;
}

static void efa_answer(struct request *request)
{
	const struct object *object = request->object;

	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct efa_ibv_alloc_ucontext_resp){
			.cmds_supp_udata_mask = EFA_USER_CMDS_SUPP_UDATA_QUERY_DEVICE | EFA_USER_CMDS_SUPP_UDATA_CREATE_AH,
			.sub_cqs_per_cq = 2, .inline_buf_size = 32, .max_llq_size = 64 * 4096, .max_tx_batch = 64,
			.min_sq_wr = 16});
		break;
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		ANSWER(request, (struct efa_ibv_ex_query_device_resp){
			.max_sq_wr = 4096, .max_rq_wr = 8192, .max_sq_sge = 2, .max_rq_sge = 3, .max_rdma_size = 1 << 30,
			.device_caps = EFA_QUERY_DEVICE_CAPS_RDMA_READ | EFA_QUERY_DEVICE_CAPS_RNR_RETRY |
				       EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS | EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct efa_ibv_alloc_pd_resp){.pdn = number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct efa_ibv_create_cq_resp){
			.comp_mask = EFA_CREATE_CQ_RESP_DB_OFF, .q_mmap_key = number(request) << 16,
			.q_mmap_size = 2 * 64 * object->cap.max_send_wr, .cq_idx = number(request), .db_off = 64,
			.db_mmap_key = number(request) << 16 | 0x8000});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct efa_ibv_create_qp_resp){
			.rq_db_offset = 64, .sq_db_offset = 128, .rq_mmap_key = 0x1000000 + (number(request) << 16),
			.rq_mmap_size = 1 << 16, .rq_db_mmap_key = 0x2000000 + (number(request) << 16),
			.sq_db_mmap_key = 0x3000000 + (number(request) << 16),
			.llq_desc_mmap_key = 0x4000000 + (number(request) << 16), .send_sub_cq_idx = 0, .recv_sub_cq_idx = 1});
		break;
	case IB_USER_VERBS_CMD_CREATE_AH:
		ANSWER(request, (struct efa_ibv_create_ah_resp){.efa_address_handle = number(request)});
		break;
	}
}

static const struct driver efa = {.provider = "efa", .answer = efa_answer};

static void irdma_answer(struct request *request)
{
	const struct object *object = request->object;

	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct irdma_alloc_ucontext_resp){
			.max_pds = 1024, .max_qps = 4096, .kernel_ver = 5, .feature_flags = 3, .db_mmap_key = 0x1000,
			.max_hw_wq_frags = 13, .max_hw_read_sges = 13, .max_hw_inline = 101, .max_hw_rq_quanta = 32768,
			.max_hw_wq_quanta = 32768, .min_hw_cq_size = 4, .max_hw_cq_size = 1 << 20, .max_hw_sq_chunk = 128,
			.hw_rev = 2});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct irdma_alloc_pd_resp){.pd_id = number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct irdma_create_cq_resp){number(request), object->cap.max_send_wr});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct irdma_create_qp_resp){
			.qp_id = 0x40 + number(request), .actual_sq_size = object->cap.max_send_wr,
			.actual_rq_size = object->cap.max_recv_wr});
		break;
	case IB_USER_VERBS_CMD_CREATE_AH: ANSWER(request, (struct irdma_create_ah_resp){.ah_id = number(request)}); break;
	}
}

static void irdma_forget(uint32_t command, uint8_t *in, size_t size)
{
	if (command == IB_USER_VERBS_CMD_GET_CONTEXT && size >= 8) { /* all but the version */
		memset(in, 0, 4);
		memset(in + 5, 0, 3);
	} else if (command == IB_USER_VERBS_CMD_REG_MR && size >= 8 && in[0] == IRDMA_MEMREG_TYPE_MEM) {
		memset(in + 2, 0, 6); /* numbers of pages, which only queues have */
	}
}

static const struct driver irdma = {.provider = "irdma", .answer = irdma_answer, .forget = irdma_forget};

static void bnxt_re_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct bnxt_re_uctx_resp){
			.dev_id = 1, .max_qp = 4096, .pg_size = 4096, .cqe_sz = 32, .max_cqd = 65535,
			.comp_mask = BNXT_RE_UCNTX_CMASK_HAVE_CCTX, .chip_id0 = 0x1614 | 1 << BNXT_RE_CHIP_ID0_CHIP_REV_SFT});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct bnxt_re_pd_resp){number(request), 7, 0x5000}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ: ANSWER(request, (struct bnxt_re_cq_resp){number(request), 0, 0, 0}); break;
	case IB_USER_VERBS_CMD_CREATE_QP: ANSWER(request, (struct bnxt_re_qp_resp){0x40 + number(request), 0}); break;
	case IB_USER_VERBS_CMD_CREATE_SRQ: ANSWER(request, (struct bnxt_re_srq_resp){number(request)}); break;
	}
}

static const struct driver bnxt_re = {.provider = "bnxt_re", .answer = bnxt_re_answer};

static void hns_answer(struct request *request)
{
	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct hns_roce_ib_alloc_ucontext_resp){.qp_tab_size = 4096, .cqe_size = 64,
									 .srq_tab_size = 1024});
		break;
	case IB_USER_VERBS_CMD_ALLOC_PD: ANSWER(request, (struct hns_roce_ib_alloc_pd_resp){number(request)}); break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		ANSWER(request, (struct hns_roce_ib_create_cq_resp){number(request), HNS_ROCE_CQ_FLAG_RECORD_DB});
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
	case IB_USER_VERBS_CMD_CREATE_XSRQ:
		ANSWER(request, (struct hns_roce_ib_create_srq_resp){0x20 + number(request), 0});
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		ANSWER(request, (struct hns_roce_ib_create_qp_resp){
			/* No direct work requests: on x86 the plugin copies them without end. */
			HNS_ROCE_QP_CAP_RQ_RECORD_DB | HNS_ROCE_QP_CAP_SQ_RECORD_DB | HNS_ROCE_QP_CAP_OWNER_DB, 0});
		break;
	}
}

static const struct driver hns = {.provider = "hns", .answer = hns_answer};

static void erdma_answer(struct request *request)
{
	const struct erdma_ureq_create_cq *cq = request->driver_in;
	uint32_t sends;

	switch (request->command & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		ANSWER(request, (struct erdma_uresp_alloc_ctx){.dev_id = 1, .sdb = 0x1000, .rdb = 0x2000, .cdb = 0x3000});
		break;
	case IB_USER_VERBS_CMD_CREATE_CQ: ANSWER(request, (struct erdma_uresp_create_cq){number(request), cq->qbuf_len / 32}); break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		/* Four slots of 32 bytes for a send request at most, whole pages. */
		sends = power_of_two(request->object->cap.max_send_wr * 4);
		ANSWER(request, (struct erdma_uresp_create_qp){0x40 + number(request), sends,
							       power_of_two(request->object->cap.max_recv_wr),
							       (sends * 32 + 4095) & ~4095u});
		break;
	}
}

static const struct driver erdma = {.provider = "erdma", .answer = erdma_answer};

static void mana_answer(struct request *request)
{
	/* mana_ib_create_qp_resp; Debian 12's kernel headers do not have it. */
	struct { uint32_t sqid, cqid, tx_vp_offset, reserved; } answer = {0x40 + number(request), 0x80 + number(request), 0, 0};

	if ((request->command & IB_USER_VERBS_CMD_COMMAND_MASK) == IB_USER_VERBS_CMD_CREATE_QP)
		ANSWER(request, answer);
}

static const struct driver mana = {.provider = "mana", .answer = mana_answer};

const struct driver *const nic_drivers[] = {&efa, &irdma, &bnxt_re, &hns, &erdma, &mana, NULL};
