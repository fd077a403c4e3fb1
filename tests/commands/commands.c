/*
 * commands.c - what the functions that providers call (ibv_cmd_*, execute_ioctl) give to the kernel, and what they make of
 * its answers: every command as bytes, return value, errno, and the objects and buffers afterwards.
 *
 * One run per kind of kernel: with all ioctl methods, with legacy commands inside the ioctl only, with write only, and
 * with every command failing.
 */
#include "calls.h"
#include "objects.h"

static struct ibv_pd other_pd;
static struct private_xrcd xrcd;
static struct ibv_mw mw;
static struct private_srq srq;
static struct ibv_wq wq;
static struct ibv_rwq_ind_table table;
static struct ibv_ah ah;
static struct ibv_flow flow;
static struct private_action action;
static struct private_counters counters;
static struct private_dm dm;

static void handles(void)
{
	common_handles();
	other_pd = (struct ibv_pd){.context = context, .handle = 0x102};
	OF_CONTEXT(xrcd, xrcd.context);
	xrcd.comp_mask = 1;
	xrcd.handle = 0x103;
	OF_CONTEXT(srq, srq.context);
	srq.srq.handle = 0x105;
	qp.qp.qp_type = IBV_QPT_RC;
	OF_CONTEXT(wq, context);
	wq.handle = 0x107;
	OF_CONTEXT(table, context);
	table.ind_tbl_handle = 0x108;
	ah = (struct ibv_ah){.context = context, .handle = 0x109};
	OF_CONTEXT(flow, context);
	flow.handle = 0x10a;
	OF_CONTEXT(mw, context);
	mw.handle = 0x10c;
	action = (struct private_action){.action.context = context, .handle = 0x10d, .type = 1};
	counters = (struct private_counters){.counters.context = context, .handle = 0x10e};
	OF_CONTEXT(dm, dm.context);
	dm.handle = 0x10f;
}

static void contexts(void)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	static struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	size_t size;

	buffers();
	CALL(ibv_cmd_get_context(outer, CMD(ib_uverbs_get_context, 12), RESP(ib_uverbs_get_context_resp, 16)));
	printf("  vectors %d async %d core support %#llx\n", context->num_comp_vectors, context->async_fd,
	       (unsigned long long)device.core_support);
	DRIVER(ib_uverbs_get_context_resp, 16);
	buffers();
	CALL(ibv_cmd_get_context(outer, NULL, 0, NULL, 0));
	context->async_fd = -1;

	CALL(ibv_cmd_query_device_any(context, &input, &attr, sizeof attr, NULL, NULL));
	CALL(ibv_cmd_query_device_any(context, NULL, &attr, sizeof attr.orig_attr - 1, NULL, NULL));
	START(attr);
	CALL(ibv_cmd_query_device_any(context, NULL, &attr, sizeof attr.orig_attr, NULL, NULL));
	SHOW(attr);
	START(attr);
	buffers();
	size = sizeof(struct ib_uverbs_ex_query_device_resp) + 16;
	CALL(ibv_cmd_query_device_any(context, NULL, &attr, offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex),
				      resp, &size));
	SHOW(attr);
	if (!kernel.fails) {
		CORE(ib_uverbs_ex_query_device_resp);
		DRIVER(ib_uverbs_ex_query_device_resp, 16);
	}
	printf("  size %zu\n", size);

	START(port);
	buffers();
	CALL(ibv_cmd_query_port(context, 1, &port, CMD(ib_uverbs_query_port, 0)));
	show("port", &port, 52);
}

static void domains(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = 3, .fd = 9, .oflags = 64};

	START(pd);
	buffers();
	CALL(ibv_cmd_alloc_pd(context, &pd, CMD(ib_uverbs_alloc_pd, 8), RESP(ib_uverbs_alloc_pd_resp, 8)));
	show("pd", &pd, 12);
	CORE(ib_uverbs_alloc_pd_resp);
	DRIVER(ib_uverbs_alloc_pd_resp, 8);
	handles();
	CALL(ibv_cmd_dealloc_pd(&pd));

	START(xrcd);
	buffers();
	CALL(ibv_cmd_open_xrcd(context, &xrcd, sizeof xrcd, &attr, CMD(ib_uverbs_open_xrcd, 0),
			       RESP(ib_uverbs_open_xrcd_resp, 0)));
	SHOW(xrcd);
	START(xrcd);
	buffers();
	CALL(ibv_cmd_open_xrcd(context, &xrcd, 12, &attr, CMD(ib_uverbs_open_xrcd, 0), RESP(ib_uverbs_open_xrcd_resp, 0)));
	SHOW(xrcd);
	attr.comp_mask = 1;
	CALL(ibv_cmd_open_xrcd(context, &xrcd, 16, &attr, CMD(ib_uverbs_open_xrcd, 0), RESP(ib_uverbs_open_xrcd_resp, 0)));
	attr.comp_mask = 7;
	CALL(ibv_cmd_open_xrcd(context, &xrcd, 16, &attr, CMD(ib_uverbs_open_xrcd, 0), RESP(ib_uverbs_open_xrcd_resp, 0)));
	handles();
	CALL(ibv_cmd_close_xrcd(&xrcd));

	START(mw);
	buffers();
	CALL(ibv_cmd_alloc_mw(&pd, 2, &mw, CMD(ib_uverbs_alloc_mw, 4), RESP(ib_uverbs_alloc_mw_resp, 4)));
	show("mw", &mw, 28);
	CORE(ib_uverbs_alloc_mw_resp);
	DRIVER(ib_uverbs_alloc_mw_resp, 4);
	handles();
	CALL(ibv_cmd_dealloc_mw(&mw));
}

static void linked(void)
{
	struct { struct command_buffer buffer; struct ib_uverbs_attr attrs[8]; } own;
	struct ibv_alloc_dm_attr dm_attr = {.length = 4096, .log_align_req = 6};
	struct ibv_counters_init_attr counters_attr = {0};
	uint64_t values[3];

	CALL(ibv_cmd_query_context(context, driver(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT)));
	printf("  vectors %d core support %#llx\n", context->num_comp_vectors, (unsigned long long)device.core_support);
	SHOW(far_out);
	CALL(ibv_cmd_query_context(context, NULL));

	START(dm);
	CALL(ibv_cmd_alloc_dm(context, &dm_attr, &dm, driver(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC)));
	show("dm", &dm, 36);
	SHOW(far_out);
	handles();
	START(mr);
	CALL(ibv_cmd_reg_dm_mr(&pd, &dm, 64, 128, IBV_ACCESS_LOCAL_WRITE, &mr, NULL));
	CALL(ibv_cmd_reg_dm_mr(&pd, &dm, 64, 128, IBV_ACCESS_ZERO_BASED, &mr,
			       driver(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG)));
	show("mr", &mr, 44);
	show("mr type and access", &mr.mr_type, 8);
	CALL(ibv_cmd_reg_dm_mr(&pd, &dm, 64, 128, IBV_ACCESS_ZERO_BASED, &mr, NULL));
	CALL(ibv_cmd_free_dm(&dm));

	START(counters);
	CALL(ibv_cmd_create_counters(context, &counters_attr, &counters,
				     driver(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_CREATE)));
	show("counters", &counters, 12);
	counters_attr.comp_mask = 1;
	CALL(ibv_cmd_create_counters(context, &counters_attr, &counters, NULL));
	handles();
	memset(values, 0, sizeof values);
	CALL(ibv_cmd_read_counters(&counters, values, 3, 1, driver(UVERBS_OBJECT_COUNTERS, UVERBS_METHOD_COUNTERS_READ)));
	SHOW(values);
	CALL(ibv_cmd_destroy_counters(&counters));

	/* A command that is the driver's alone, with a link behind it. */
	memset(&own, 0, sizeof own);
	own.buffer = (struct command_buffer){driver(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC), own.attrs + 2, own.attrs + 8,
					     0xff, 0xff, 0, 0, 0, {.object_id = UVERBS_OBJECT_DM, .method_id = UVERBS_METHOD_DM_ALLOC}};
	own.attrs[0] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_ALLOC_DM_HANDLE, .flags = 1};
	own.attrs[1] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_ALLOC_DM_LENGTH, .len = 8, .flags = 1, .data = 99};
	printf("final number %u %u\n", __ioctl_final_num_attrs(5, &near.link), __ioctl_final_num_attrs(5, NULL));
	CALL(execute_ioctl(context, &own.buffer));
	printf("  handle %llu\n", (unsigned long long)own.attrs[0].data);
	SHOW(far_out);
	own.buffer.flags = 1;
	CALL(execute_ioctl(context, &own.buffer));
}

static void regions(void)
{
	struct ibv_sge list[2] = {{0x1000, 2, 3}, {0x4000, 5, 6}};
	static char memory[64];

	name(memory, "memory");
	START(mr);
	buffers();
	CALL(ibv_cmd_reg_mr(&pd, memory, 64, 0x7000, 5, &mr, CMD(ib_uverbs_reg_mr, 8), RESP(ib_uverbs_reg_mr_resp, 4)));
	show("mr", &mr, 44);
	show("mr type and access", &mr.mr_type, 8);
	CORE(ib_uverbs_reg_mr_resp);
	DRIVER(ib_uverbs_reg_mr_resp, 4);
	buffers();
	CALL(ibv_cmd_reg_mr(&pd, memory, SIZE_MAX, 0, IBV_ACCESS_ON_DEMAND, &mr, CMD(ib_uverbs_reg_mr, 0),
			    RESP(ib_uverbs_reg_mr_resp, 0)));
	buffers();
	CALL(ibv_cmd_reg_mr(&pd, NULL, SIZE_MAX, 0, IBV_ACCESS_ON_DEMAND, &mr, CMD(ib_uverbs_reg_mr, 0),
			    RESP(ib_uverbs_reg_mr_resp, 0)));
	handles();
	for (int flags = 0; flags < 8; flags += 3) {
		buffers();
		CALL(ibv_cmd_rereg_mr(&mr, flags, memory, 32, 0x9000, 7, &other_pd, CMD(ib_uverbs_rereg_mr, 0),
				      RESP(ib_uverbs_rereg_mr_resp, 0)));
		show("mr", &mr, 44);
		CORE(ib_uverbs_rereg_mr_resp);
	}
	handles();
	CALL(ibv_cmd_dereg_mr(&mr));
	START(mr);
	CALL(ibv_cmd_query_mr(&pd, &mr, 0x1234));
	if (!kernel.fails)
		show("mr", &mr, 44);
	show("mr type and access", &mr.mr_type, 8);
	CALL(ibv_cmd_advise_mr(&pd, 1, 1, list, 2));
	CALL(ibv_cmd_advise_mr(&pd, 1, 1, list, 0));
	START(mr);
	CALL(ibv_cmd_reg_dmabuf_mr(&pd, 0x2000, 0x3000, 0x4000, 17, 5, &mr));
	show("mr", &mr, 44);
	show("mr type and access", &mr.mr_type, 8);
	handles();
}

static void completion_queues(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 77, .comp_vector = 2, .channel = &channel};
	struct ibv_modify_cq_attr moderation = {.attr_mask = 1, .moderate = {.cq_count = 3, .cq_period = 4}};
	struct ibv_wc wc[3];
	static const uint64_t wc_flags[] = {0, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
					    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};

	START(cq);
	buffers();
	CALL(ibv_cmd_create_cq(context, 55, &channel, 1, &cq, CMD(ib_uverbs_create_cq, 8), RESP(ib_uverbs_create_cq_resp, 8)));
	show("cq", &cq, 32);
	DRIVER(ib_uverbs_create_cq_resp, 8);
	buffers();
	CALL(ibv_cmd_create_cq(context, 55, NULL, 0, &cq, CMD(ib_uverbs_create_cq, 24), RESP(ib_uverbs_create_cq_resp, 0)));
	CALL(ibv_cmd_create_cq(context, 55, NULL, 0, &cq, NULL, 0, NULL, 0));
	for (unsigned i = 0; i < 3; i++)
		for (unsigned flags = 0; flags < 4; flags++) {
			attr.wc_flags = wc_flags[i];
			attr.comp_mask = flags & 2 ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0;
			attr.flags = flags & 2 ? IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN : 0;
			START(cq);
			buffers();
			CALL(ibv_cmd_create_cq_ex(context, &attr, &cq, EXCMD(ib_uverbs_ex_create_cq, 16),
						  RESP(ib_uverbs_ex_create_cq_resp, 8), flags & 1));
			show("cq", &cq, 32);
			DRIVER(ib_uverbs_ex_create_cq_resp, 8);
		}
	attr.comp_mask = 4;
	START(cq);
	CALL(ibv_cmd_create_cq_ex(context, &attr, &cq, NULL, 0, NULL, 0, 0));
	show("cq", &cq, 32);
	handles();

	memset(wc, 0, sizeof wc);
	CALL(ibv_cmd_poll_cq(&cq, 3, wc));
	SHOW(wc);
	CALL(ibv_cmd_poll_cq(&cq, 0, wc));
	CALL(ibv_cmd_req_notify_cq(&cq, 0));
	CALL(ibv_cmd_req_notify_cq(&cq, 5));
	buffers();
	CALL(ibv_cmd_resize_cq(&cq, 99, CMD(ib_uverbs_resize_cq, 8), RESP(ib_uverbs_resize_cq_resp, 4)));
	show("cq", &cq, 32);
	show("core answer", resp, 4); /* the rest is reserved */
	DRIVER(ib_uverbs_resize_cq_resp, 4);
	buffers();
	CALL(ibv_cmd_modify_cq(&cq, &moderation, EXCMD(ib_uverbs_ex_modify_cq, 0)));
	CALL(ibv_cmd_modify_cq(&cq, &moderation, EXCMD(ib_uverbs_ex_modify_cq, 8)));
	moderation.attr_mask = 2;
	CALL(ibv_cmd_modify_cq(&cq, &moderation, EXCMD(ib_uverbs_ex_modify_cq, 0)));
	CALL(ibv_cmd_destroy_cq(&cq));
}

static void shared_receive_queues(void)
{
	struct ibv_srq_init_attr attr = {.attr = {11, 2, 3}};
	struct ibv_srq_attr change = {21, 22, 23};
	struct ibv_srq_init_attr_ex ex;
	static const struct { uint32_t mask; int type; uint32_t tags; } kinds[] = {
		{IBV_SRQ_INIT_ATTR_PD, IBV_SRQT_BASIC, 0},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, 0},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_XRC, 0},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ, IBV_SRQT_XRC, 0},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM, IBV_SRQT_TM, 5},
		{IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM, IBV_SRQT_TM, 0},
		{IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, 0},
		{64, IBV_SRQT_BASIC, 0},
	};

	START(srq);
	buffers();
	CALL(ibv_cmd_create_srq(&pd, &srq.srq, &attr, CMD(ib_uverbs_create_srq, 8), RESP(ib_uverbs_create_srq_resp, 8)));
	show("srq", &srq.srq, 124);
	SHOW(attr);
	DRIVER(ib_uverbs_create_srq_resp, 8);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		memset(&ex, 0, sizeof ex);
		ex.attr = (struct ibv_srq_attr){11, 2, 3};
		ex.comp_mask = kinds[i].mask;
		ex.srq_type = kinds[i].type;
		ex.tm_cap.max_num_tags = kinds[i].tags;
		ex.pd = &pd;
		ex.cq = &cq;
		ex.xrcd = &xrcd.xrcd;
		memset(&srq, 0, sizeof srq);
		buffers();
		CALL(ibv_cmd_create_srq_ex(context, &srq, &ex, CMD(ib_uverbs_create_xsrq, 8), RESP(ib_uverbs_create_srq_resp, 8)));
		SHOW(srq);
		show("attr", &ex.attr, 12);
		DRIVER(ib_uverbs_create_srq_resp, 8);
	}
	handles();
	buffers();
	CALL(ibv_cmd_modify_srq(&srq.srq, &change, 3, CMD(ib_uverbs_modify_srq, 8)));
	buffers();
	CALL(ibv_cmd_query_srq(&srq.srq, &change, CMD(ib_uverbs_query_srq, 0)));
	SHOW(change);
	CALL(ibv_cmd_destroy_srq(&srq.srq));
}

static void queue_pairs(void)
{
	static const int types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND,
				    IBV_QPT_XRC_RECV, IBV_QPT_DRIVER, 99};
	static const uint32_t masks[] = {
		IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH, IBV_QP_INIT_ATTR_XRCD,
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 1 << 10};
	struct ibv_qp_init_attr attr;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_qp_open_attr open = {.comp_mask = 0xf, .qp_num = 0x777, .xrcd = &xrcd.xrcd, .qp_type = IBV_QPT_XRC_RECV,
					.qp_context = &open};
	struct ibv_qp_attr state;

	name(&open, "open");
	for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
		memset(&attr, 0, sizeof attr);
		attr.qp_context = &device;
		attr.send_cq = attr.recv_cq = &cq;
		attr.srq = i % 2 ? &srq.srq : NULL;
		attr.cap = (struct ibv_qp_cap){10, 20, 3, 4, 50};
		attr.sq_sig_all = i / 2 % 2;
		attr.qp_type = types[i];
		START(qp);
		buffers();
		CALL(ibv_cmd_create_qp(&pd, &qp.qp, &attr, CMD(ib_uverbs_create_qp, 16), RESP(ib_uverbs_create_qp_resp, 16)));
		show("qp", &qp, 156);
		SHOW(attr);
		DRIVER(ib_uverbs_create_qp_resp, 16);
	}
	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		for (unsigned j = 0; j < sizeof masks / sizeof *masks; j++) {
			bool table_given = masks[j] & IBV_QP_INIT_ATTR_IND_TABLE;

			memset(&ex, 0, sizeof ex);
			ex.qp_context = &device;
			ex.send_cq = table_given && i % 2 ? NULL : &cq;
			ex.recv_cq = table_given ? NULL : &cq;
			ex.srq = table_given || types[i] == IBV_QPT_XRC_RECV ? NULL : &srq.srq;
			ex.cap = (struct ibv_qp_cap){table_given && i % 2 ? 0 : 10, table_given ? 0 : 20, 3, table_given ? 0 : 4, 50};
			ex.qp_type = types[i];
			ex.comp_mask = masks[j];
			ex.pd = &pd;
			ex.xrcd = &xrcd.xrcd;
			ex.rwq_ind_tbl = &table;
			ex.create_flags = IBV_QP_CREATE_SCATTER_FCS | (i % 2 ? IBV_QP_CREATE_SOURCE_QPN : 0);
			ex.source_qpn = 0x55;
			memset(&qp, 0, sizeof qp);
			buffers();
			CALL(ibv_cmd_create_qp_ex2(context, &qp, &ex, EXCMD(ib_uverbs_ex_create_qp, 16),
						   RESP(ib_uverbs_ex_create_qp_resp, 16)));
			/* With an unknown bit in the mask, the context of the queue pair that is not made does not matter. */
			if (j != 6)
				show("qp", &qp, 160);
			show("cap", &ex.cap, sizeof ex.cap);
			DRIVER(ib_uverbs_ex_create_qp_resp, 16);
			memset(&qp, 0, sizeof qp);
			buffers();
			CALL(ibv_cmd_create_qp_ex(context, &qp, &ex, CMD(ib_uverbs_create_qp, 8), RESP(ib_uverbs_create_qp_resp, 0)));
		}
	memset(&ex, 0, sizeof ex);
	ex.qp_type = IBV_QPT_RC;
	ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ex.pd = &pd;
	ex.send_cq = ex.recv_cq = &cq;
	ex.create_flags = 1;
	CALL(ibv_cmd_create_qp_ex2(context, &qp, &ex, NULL, 0, NULL, 0));

	START(qp);
	buffers();
	CALL(ibv_cmd_open_qp(context, &qp, 160, &open, CMD(ib_uverbs_open_qp, 0), RESP(ib_uverbs_create_qp_resp, 0)));
	show("qp", &qp, 156);
	for (open.comp_mask = 0; open.comp_mask < 32; open.comp_mask += 8 + open.comp_mask / 8)
		CALL(ibv_cmd_open_qp(context, &qp, 160, &open, CMD(ib_uverbs_open_qp, 0), RESP(ib_uverbs_create_qp_resp, 0)));

	handles();
	qp.qp.send_cq = &cq;
	qp.qp.qp_context = &device;
	memset(&state, 0, sizeof state);
	for (uint8_t *byte = (void *)&state; byte < (uint8_t *)(&state + 1); byte++)
		*byte = 1 + (byte - (uint8_t *)&state);
	for (int bit = 0; bit <= 25; bit++) {
		buffers();
		CALL(ibv_cmd_modify_qp(&qp.qp, &state, 1 << bit, CMD(ib_uverbs_modify_qp, bit % 2 ? 8 : 0)));
	}
	buffers();
	CALL(ibv_cmd_modify_qp_ex(&qp.qp, &state, (1 << 26) - 1, EXCMD(ib_uverbs_ex_modify_qp, 8),
				  RESP(ib_uverbs_ex_modify_qp_resp, 8)));
	if (!kernel.fails)
		CORE(ib_uverbs_ex_modify_qp_resp);
	DRIVER(ib_uverbs_ex_modify_qp_resp, 8);
	CALL(ibv_cmd_modify_qp_ex(&qp.qp, &state, IBV_QP_RATE_LIMIT, cmd, 24 + 112, resp, 8));
	memset(&state, 0, sizeof state);
	memset(&attr, 0, sizeof attr);
	buffers();
	CALL(ibv_cmd_query_qp(&qp.qp, &state, 0xfffff, &attr, CMD(ib_uverbs_query_qp, 0)));
	SHOW(state);
	SHOW(attr);
	CALL(ibv_cmd_query_qp(&qp.qp, &state, IBV_QP_RATE_LIMIT, &attr, CMD(ib_uverbs_query_qp, 0)));
	CALL(ibv_cmd_destroy_qp(&qp.qp));
}

static void work_queues(void)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ, .max_wr = 7, .max_sge = 2, .pd = &pd, .cq = &cq};
	struct ibv_wq_attr change = {.attr_mask = 7, .wq_state = 1, .curr_wq_state = 0, .flags = 3, .flags_mask = 5};
	struct ibv_wq *entries[4] = {&wq, &wq, &wq, &wq};
	struct ibv_rwq_ind_table_init_attr table_attr = {.log_ind_tbl_size = 0, .ind_tbl = entries};

	for (int i = 0; i < 4; i++) {
		attr.comp_mask = i == 3 ? 2 : i != 0;
		attr.create_flags = i == 2 ? 16 : 5;
		attr.max_wr = 7;
		attr.max_sge = 2;
		START(wq);
		buffers();
		CALL(ibv_cmd_create_wq(context, &attr, &wq, EXCMD(ib_uverbs_ex_create_wq, 16), RESP(ib_uverbs_ex_create_wq_resp, 8)));
		show("wq", &wq, 48);
		SHOW(attr);
		DRIVER(ib_uverbs_ex_create_wq_resp, 8);
	}
	handles();
	for (int i = 0; i < 4; i++) {
		static const uint32_t attr_masks[] = {7, 2, 8, 4};

		change.attr_mask = attr_masks[i];
		change.flags_mask = i == 3 ? 16 : 5;
		buffers();
		CALL(ibv_cmd_modify_wq(&wq, &change, EXCMD(ib_uverbs_ex_modify_wq, 8)));
		show("wq", &wq, 56);
	}
	CALL(ibv_cmd_destroy_wq(&wq));
	for (int i = 0; i < 3; i++) {
		table_attr.log_ind_tbl_size = i;
		START(table);
		buffers();
		CALL(ibv_cmd_create_rwq_ind_table(context, &table_attr, &table, RESP(ib_uverbs_ex_create_rwq_ind_table_resp, 8)));
		show("table", &table, 20);
		if (!kernel.fails)
			CORE(ib_uverbs_ex_create_rwq_ind_table_resp);
		DRIVER(ib_uverbs_ex_create_rwq_ind_table_resp, 8);
	}
	table_attr.comp_mask = 1;
	CALL(ibv_cmd_create_rwq_ind_table(context, &table_attr, &table, RESP(ib_uverbs_ex_create_rwq_ind_table_resp, 0)));
	handles();
	CALL(ibv_cmd_destroy_rwq_ind_table(&table));
}

static void addresses(void)
{
	struct ibv_ah_attr attr = {.grh = {.flow_label = 0x12345, .sgid_index = 2, .hop_limit = 3, .traffic_class = 4},
				   .dlid = 5, .sl = 6, .src_path_bits = 7, .static_rate = 8, .is_global = 1, .port_num = 9};
	union ibv_gid gid;

	for (int i = 0; i < 16; i++)
		gid.raw[i] = attr.grh.dgid.raw[i] = 0xe0 + i;
	START(ah);
	buffers();
	CALL(ibv_cmd_create_ah(&pd, &ah, &attr, RESP(ib_uverbs_create_ah_resp, 8)));
	show("ah", &ah, 20);
	CORE(ib_uverbs_create_ah_resp);
	DRIVER(ib_uverbs_create_ah_resp, 8);
	handles();
	CALL(ibv_cmd_destroy_ah(&ah));
	CALL(ibv_cmd_attach_mcast(&qp.qp, &gid, 0xc001));
	CALL(ibv_cmd_detach_mcast(&qp.qp, &gid, 0xc001));
}

static void work_requests(void)
{
	static const int opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
				      IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct ibv_sge list[3] = {{0x1000, 2, 3}, {0x4000, 5, 6}, {0x7000, 8, 9}};
	struct ibv_send_wr sends[7], *bad_send;
	struct ibv_recv_wr recvs[3], *bad_recv;

	for (datagrams = false;; datagrams = true) {
		memset(sends, 0, sizeof sends);
		for (int i = 0; i < 7; i++) {
			sends[i].wr_id = 0x900 + i;
			sends[i].next = i < 6 ? &sends[i + 1] : NULL;
			sends[i].sg_list = list;
			sends[i].num_sge = i % 4;
			sends[i].opcode = opcodes[i];
			sends[i].send_flags = i;
			sends[i].imm_data = 0x1000 + i;
			if (datagrams) {
				sends[i].wr.ud.ah = &ah;
				sends[i].wr.ud.remote_qpn = 0x66 + i;
				sends[i].wr.ud.remote_qkey = 0x77;
			} else if (opcodes[i] == IBV_WR_ATOMIC_CMP_AND_SWP || opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD) {
				sends[i].wr.atomic.remote_addr = 0xabc000 + i;
				sends[i].wr.atomic.compare_add = 0x77;
				sends[i].wr.atomic.swap = 0x88;
				sends[i].wr.atomic.rkey = 0x99;
			} else {
				sends[i].wr.rdma.remote_addr = 0xdef000 + i;
				sends[i].wr.rdma.rkey = 0x55;
			}
		}
		qp.qp.qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
		bad_send = NULL;
		CALL(ibv_cmd_post_send(&qp.qp, sends, &bad_send));
		printf("  bad %td\n", bad_send ? bad_send - sends : -1);
		if (datagrams)
			break;
	}
	memset(recvs, 0, sizeof recvs);
	for (int i = 0; i < 3; i++) {
		recvs[i].wr_id = 0xa00 + i;
		recvs[i].next = i < 2 ? &recvs[i + 1] : NULL;
		recvs[i].sg_list = list;
		recvs[i].num_sge = 3 - i;
	}
	bad_recv = NULL;
	CALL(ibv_cmd_post_recv(&qp.qp, recvs, &bad_recv));
	printf("  bad %td\n", bad_recv ? bad_recv - recvs : -1);
	bad_recv = NULL;
	CALL(ibv_cmd_post_srq_recv(&srq.srq, recvs, &bad_recv));
	printf("  bad %td\n", bad_recv ? bad_recv - recvs : -1);
}

static void flows(void)
{
	static _Alignas(8) uint8_t rule[sizeof(struct ibv_flow_attr) + 512];
	struct ibv_flow_attr *attr = (void *)rule;
	static const uint16_t sizes[][2] = {
		{IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth)},
		{IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_eth)},
		{IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4)},
		{IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext)},
		{IBV_FLOW_SPEC_IPV4_EXT | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_ipv4_ext)},
		{IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext) - 2},
		{IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext) + 8},
		{IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6)},
		{IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp)},
		{IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp)},
		{IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_tcp_udp)},
		{IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel)},
		{IBV_FLOW_SPEC_VXLAN_TUNNEL | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_tunnel)},
		{IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre)},
		{IBV_FLOW_SPEC_GRE | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_gre)},
		{IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls)},
		{IBV_FLOW_SPEC_MPLS | IBV_FLOW_SPEC_INNER, sizeof(struct ibv_flow_spec_mpls)},
		{IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag)},
		{IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)},
		{IBV_FLOW_SPEC_ACTION_HANDLE, sizeof(struct ibv_flow_spec_action_handle)},
		{IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action)},
		{0x77, 16},
	};
	struct ibv_flow_action_esp esp = {.spi = 1, .seq = 2, .tfc_pad = 3, .flags = 4, .hard_limit_pkts = 5};
	struct ibv_flow_action_esp_encap encap = {.len = 8, .type = 0x30};
	uint32_t key[4] = {1, 2, 3, 4}, window = 64;
	struct ibv_flow_action_esp_attr esp_attr = {.esp_attr = &esp, .keymat_proto = 0, .keymat_len = sizeof key,
						    .keymat_ptr = key, .replay_proto = 1, .replay_len = 4, .replay_ptr = &window,
						    .esp_encap = &encap, .comp_mask = 1, .esn = 0xabcd};
	uint32_t told[2] = {0xfeed, 0xbeef};

	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint8_t *spec = rule + sizeof *attr, *second = spec + sizes[i][1];

		memset(rule, 0, sizeof rule);
		*attr = (struct ibv_flow_attr){.type = 2, .size = 99, .priority = 4, .num_of_specs = 2, .port = 1, .flags = 2};
		for (unsigned at = 6; at < sizes[i][1]; at++)
			spec[at] = 1 + at;
		memcpy(spec, &(uint32_t){sizes[i][0]}, 4);
		memcpy(spec + 4, &sizes[i][1], 2);
		if (sizes[i][0] == IBV_FLOW_SPEC_IPV6)
			spec[sizes[i][1] - 1] = 0; /* padding of the mask */
		if (sizes[i][0] == IBV_FLOW_SPEC_ACTION_HANDLE)
			((struct ibv_flow_spec_action_handle *)spec)->action = &action.action;
		if (sizes[i][0] == IBV_FLOW_SPEC_ACTION_COUNT)
			((struct ibv_flow_spec_counter_action *)spec)->counters = &counters.counters;
		memcpy(second, &(uint32_t){IBV_FLOW_SPEC_ACTION_TAG}, 4);
		memcpy(second + 4, &(uint16_t){12}, 2);
		memcpy(second + 8, &(uint32_t){0x7a6}, 4);
		START(flow);
		printf("specification %#x\n", sizes[i][0]);
		CALL(ibv_cmd_create_flow(&qp.qp, &flow, attr, i % 2 ? told : NULL, i % 2 ? sizeof told : 0));
		show("flow", &flow, 20);
	}
	handles();
	CALL(ibv_cmd_destroy_flow(&flow));

	START(action);
	CALL(ibv_cmd_create_flow_action_esp(context, &esp_attr, &action,
					    driver(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE)));
	SHOW(action);
	memset(&esp_attr, 0, sizeof esp_attr);
	CALL(ibv_cmd_create_flow_action_esp(context, &esp_attr, &action, NULL));
	esp_attr.comp_mask = 1;
	esp_attr.esp_attr = &esp;
	handles();
	CALL(ibv_cmd_modify_flow_action_esp(&action, &esp_attr, NULL));
	CALL(ibv_cmd_destroy_flow_action(&action));
}

static void everything(void)
{
	open_context();
	contexts();
	handles();
	domains();
	handles();
	linked();
	handles();
	regions();
	completion_queues();
	handles();
	shared_receive_queues();
	handles();
	queue_pairs();
	handles();
	work_queues();
	handles();
	addresses();
	handles();
	work_requests();
	flows();
}

/* Every function that destroys something on a device that is gone. */
static void gone(void)
{
	handles();
	CALL(ibv_cmd_dealloc_pd(&pd));
	CALL(ibv_cmd_close_xrcd(&xrcd));
	CALL(ibv_cmd_dereg_mr(&mr));
	CALL(ibv_cmd_dealloc_mw(&mw));
	CALL(ibv_cmd_destroy_cq(&cq));
	CALL(ibv_cmd_destroy_srq(&srq.srq));
	CALL(ibv_cmd_destroy_qp(&qp.qp));
	CALL(ibv_cmd_destroy_wq(&wq));
	CALL(ibv_cmd_destroy_rwq_ind_table(&table));
	CALL(ibv_cmd_destroy_ah(&ah));
	CALL(ibv_cmd_destroy_flow(&flow));
	CALL(ibv_cmd_destroy_flow_action(&action));
	CALL(ibv_cmd_destroy_counters(&counters));
	CALL(ibv_cmd_free_dm(&dm));
	CALL(ibv_cmd_detach_mcast(&qp.qp, &(union ibv_gid){{0}}, 1));
}

int main(void)
{
	char text[16];

	/* The library learns the kernel's version of the commands here. */
	ibv_free_device_list(ibv_get_device_list(NULL));

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	name(&device, "device"); name(&pd, "pd"); name(&other_pd, "other_pd"); name(&xrcd, "xrcd"); name(&mr, "mr");
	name(&mw, "mw"); name(&channel, "channel"); name(&cq, "cq"); name(&srq, "srq"); name(&qp, "qp"); name(&wq, "wq");
	name(&table, "table"); name(&ah, "ah"); name(&flow, "flow"); name(&action, "action"); name(&counters, "counters");
	name(&dm, "dm");

	over_each_kernel(everything);
	without_device(gone);

	errno = 0;
	memset(text, 0, sizeof text);
	printf("no device: %d", ibv_read_ibdev_sysfs_file(text, sizeof text, NULL, "ports/%d/state", 1));
	printf(" errno %d\n", errno);
	return 0;
}
