/*
 * calls.c - every control verb on one device, with its failures, whatever the device is; what it does not support shows as
 * the error.
 *
 *   calls DEVICE
 */
#include "program.h"

#include <fcntl.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq, *other_cq;
static struct ibv_srq *srq;
static _Alignas(4096) unsigned char buffer[16384];

static void open_it(const char *name)
{
	struct ibv_device **list;
	int count = 0;

	list = CALL_PTR(ibv_get_device_list(&count));
	printf("    %d devices\n", count);
	for (int i = 0; list && i < count; i++) {
		print_device(list[i]);
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		/* Each of the requests of opening fails once. */
		for (unsigned after = 1; after < 16; after++) {
			kernel_fail(EIO, after);
			context = CALL_PTR(ibv_open_device(list[i]));
			kernel_fail(0, 0);
			if (context)
				CALL_INT(ibv_close_device(context));
		}
		context = CALL_PTR(ibv_open_device(list[i]));
	}
	if (!context) {
		note("the device does not open");
		exit(end());
	}
	printf("    vectors %d events %d\n", context->num_comp_vectors, context->async_fd >= 0);
	CALL_VOID(ibv_free_device_list(list));
}

static void queries(void)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 0}, unknown = {.comp_mask = 1};
	struct ibv_device_attr_ex attr_ex;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry, entries[4];
	union ibv_gid gid;
	uint16_t pkey;

	FILL(attr);
	if (!CALL_INT(ibv_query_device(context, &attr)))
		print_device_attr(&attr);
	CALL_INT(FAILING(EIO, ibv_query_device(context, &attr)));
	FILL(attr_ex);
	if (!CALL_INT(ibv_query_device_ex(context, &input, &attr_ex)))
		print_device_attr_ex(&attr_ex);
	FILL(attr_ex);
	CALL_INT(ibv_query_device_ex(context, &unknown, &attr_ex));
	CALL_INT(FAILING(EIO, ibv_query_device_ex(context, NULL, &attr_ex)));
	for (int number = 1; number < 3; number++) {
		FILL(port);
		if (!CALL_INT(ibv_query_port(context, number, &port)))
			print_port_attr(&port);
	}
	CALL_INT(FAILING(ENODEV, ibv_query_port(context, 1, &port)));
	for (int i = 0; i < 2; i++) {
		FILL(gid);
		if (!CALL_INT(ibv_query_gid(context, 1, i, &gid)))
			print_gid("gid", &gid);
		FILL(entry);
		if (!CALL_INT(ibv_query_gid_ex(context, 1, i, &entry, 0)))
			printf("    index %u port %u type %u netdev %u\n", entry.gid_index, entry.port_num, entry.gid_type,
			       entry.ndev_ifindex);
	}
	CALL_INT(ibv_query_gid(context, 1, 9, &gid));
	CALL_COUNT(ibv_query_gid_table(context, entries, 4, 0));
	pkey = 0;
	CALL_INT(ibv_query_pkey(context, 1, 0, &pkey));
	FIELD_X(*(&(struct { uint16_t pkey; }){pkey}), pkey);
	CALL_INT(ibv_query_pkey(context, 1, 3, &pkey));
	CALL_COUNT(ibv_get_pkey_index(context, 1, 0xffff));
}

static void regions(void)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 4096, 0};
	struct ibv_mr *other;
	struct ibv_pd *other_pd;
	struct ibv_mw *mw;

	CALL_PTR(FAILING(ENOMEM, ibv_alloc_pd(context)));
	pd = CALL_PTR(ibv_alloc_pd(context));
	other_pd = CALL_PTR(ibv_alloc_pd(context));
	if (!pd)
		return;
	CALL_PTR(FAILING(EFAULT, ibv_reg_mr(pd, buffer, 8192, IBV_ACCESS_LOCAL_WRITE)));
	mr = CALL_PTR(ibv_reg_mr(pd, buffer, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	if (mr)
		printf("    lkey %#x rkey %#x handle %#x\n", mr->lkey, mr->rkey, mr->handle);
	CALL_PTR(ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_REMOTE_WRITE));
	other = CALL_PTR(ibv_reg_mr_iova(pd, buffer + 16, 4096, 0x1234000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
	if (other && other_pd) {
		CALL_INT(ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE));
		CALL_INT(ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buffer, 8192, 0));
		CALL_INT(FAILING(EINVAL, ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0)));
	}
	if (other) {
		CALL_INT(FAILING(EBUSY, ibv_dereg_mr(other)));
		CALL_INT(ibv_dereg_mr(other));
	}
	CALL_INT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
	other = CALL_PTR(ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE));
	if (other)
		CALL_INT(ibv_dereg_mr(other));
	other = CALL_PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE));
	if (other)
		CALL_INT(ibv_dereg_mr(other));
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		CALL_PTR(FAILING(ENOSPC, ibv_alloc_mw(pd, type)));
		mw = CALL_PTR(ibv_alloc_mw(pd, type));
		if (mw) {
			printf("    rkey %#x handle %#x type %d\n", mw->rkey, mw->handle, mw->type);
			CALL_INT(ibv_dealloc_mw(mw));
		}
	}
	kernel_fail(0, 0);
	if (other_pd) {
		CALL_INT(FAILING(EBUSY, ibv_dealloc_pd(other_pd)));
		CALL_INT(ibv_dealloc_pd(other_pd));
	}
}

static void domains(void)
{
	struct ibv_td_init_attr td_init = {0};
	struct ibv_parent_domain_init_attr init = {.pd = pd};
	struct ibv_pd *parent;
	struct ibv_td *td = CALL_PTR(ibv_alloc_td(context, &td_init));

	init.td = td;
	parent = CALL_PTR(ibv_alloc_parent_domain(context, &init));
	if (parent) {
		struct ibv_cq *queue = CALL_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
		struct ibv_qp_init_attr qp_init = {.send_cq = queue, .recv_cq = queue, .cap = {16, 16, 1, 1, 0},
						   .qp_type = IBV_QPT_RC};
		struct ibv_qp *qp = queue ? CALL_PTR(ibv_create_qp(parent, &qp_init)) : NULL;

		if (qp)
			CALL_INT(ibv_destroy_qp(qp));
		if (queue)
			CALL_INT(ibv_destroy_cq(queue));
		CALL_INT(ibv_dealloc_pd(parent));
	}
	if (td)
		CALL_INT(ibv_dealloc_td(td));
}

static void completion_queues(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 100, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_modify_cq_attr modify = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {16, 8}};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_cq_ex *cq_ex;
	struct ibv_cq *event_cq;
	void *event_context;
	struct ibv_wc wc;

	channel = CALL_PTR(ibv_create_comp_channel(context));
	CALL_PTR(ibv_create_cq(context, 0, NULL, NULL, 0));
	CALL_PTR(ibv_create_cq(context, 1 << 30, NULL, NULL, 0));
	CALL_PTR(ibv_create_cq(context, 16, NULL, NULL, 99));
	FAILING_EACH(ENOMEM, ibv_create_cq(context, 64, NULL, NULL, 0), ibv_destroy_cq);
	cq = CALL_PTR(ibv_create_cq(context, 64, buffer, channel, 1));
	if (!cq)
		cq = CALL_PTR(ibv_create_cq(context, 64, buffer, NULL, 1));
	other_cq = CALL_PTR(ibv_create_cq(context, 32, NULL, NULL, 0));
	if (!cq)
		return;
	printf("    cqe %d handle %#x context %d channel %d\n", cq->cqe, cq->handle, cq->cq_context == buffer,
	       cq->channel == channel);
	CALL_INT(ibv_resize_cq(cq, 200));
	FIELD(*cq, cqe);
	CALL_INT(FAILING(EINVAL, ibv_resize_cq(cq, 300)));
	kernel_fail(0, 0);
	CALL_INT(ibv_modify_cq(cq, &modify));
	modify.attr_mask = 1 << 5;
	CALL_INT(ibv_modify_cq(cq, &modify));
	CALL_INT(ibv_req_notify_cq(cq, 0));
	CALL_COUNT(ibv_poll_cq(cq, 1, &wc));
	if (cq->channel) {
		kernel_complete(channel->fd, cq->handle);
		CALL_INT(ibv_get_cq_event(channel, &event_cq, &event_context));
		CHECK(event_cq == cq && event_context == buffer);
		CALL_VOID(ibv_ack_cq_events(cq, 1));
	}
	cq_ex = CALL_PTR(ibv_create_cq_ex(context, &init));
	if (cq_ex) {
		CALL_INT(ibv_start_poll(cq_ex, &poll_attr));
		CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
	}
	init.wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	init.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	cq_ex = CALL_PTR(ibv_create_cq_ex(context, &init));
	if (cq_ex)
		CALL_INT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
	init.comp_mask = 1 << 20;
	CALL_PTR(ibv_create_cq_ex(context, &init));
}

static void next_event(const char *kind, uint32_t handle, uint32_t type)
{
	struct ibv_async_event event = {.event_type = 0};

	kernel_report(context->async_fd, kind, handle, type);
	if (!CALL_INT(ibv_get_async_event(context, &event))) {
		printf("    event %s", ibv_event_type_str(event.event_type));
		if (!kind)
			printf(" port %d", event.element.port_num);
		putchar('\n');
		CALL_VOID(ibv_ack_async_event(&event));
	}
}

static void receive(struct ibv_qp *qp, struct ibv_srq *from)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 64, mr ? mr->lkey : 0};
	struct ibv_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad = NULL;

	if (from)
		CALL_INT(ibv_post_srq_recv(from, &wr, &bad));
	else
		CALL_INT(ibv_post_recv(qp, &wr, &bad));
	CHECK(bad == &wr);
}

static void shared_receive_queues(void)
{
	struct ibv_srq_init_attr init = {.srq_context = buffer, .attr = {.max_wr = 32, .max_sge = 2}};
	struct ibv_srq_attr attr;

	FAILING_EACH(ENOMEM, ibv_create_srq(pd, &init), ibv_destroy_srq);
	init.attr.max_wr = 1 << 29;
	CALL_PTR(ibv_create_srq(pd, &init));
	init.attr.max_wr = 32;
	srq = CALL_PTR(ibv_create_srq(pd, &init));
	if (!srq)
		return;
	print_srq_attr(&init.attr);
	FILL(attr);
	if (!CALL_INT(ibv_query_srq(srq, &attr)))
		print_srq_attr(&attr);
	attr.srq_limit = 4;
	CALL_INT(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CALL_INT(FAILING(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)));
	kernel_fail(0, 0);
	attr.max_wr = 64;
	CALL_INT(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	receive(NULL, srq);
	next_event("srq", srq->handle, IBV_EVENT_SRQ_LIMIT_REACHED);
}

static void send_one(struct ibv_qp *qp, enum ibv_qp_type type, struct ibv_ah *ah)
{
	struct ibv_sge sge = {(uintptr_t)buffer, 64, mr ? mr->lkey : 0};
	struct ibv_send_wr wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *bad = NULL;

	if (type == IBV_QPT_UD) {
		if (!ah)
			return;
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = 5;
		wr.wr.ud.remote_qkey = 0x11111111;
	}
	CALL_INT(ibv_post_send(qp, &wr, &bad));
	CHECK(bad == &wr);
}

static void states(struct ibv_qp *qp, enum ibv_qp_type type)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				   .qkey = 0x11111111};
	struct ibv_qp_init_attr init;
	int mask = IBV_QP_STATE | IBV_QP_PORT;

	if (type != IBV_QPT_RAW_PACKET)
		mask |= IBV_QP_PKEY_INDEX;
	if (type == IBV_QPT_UD)
		mask |= IBV_QP_QKEY;
	else if (type != IBV_QPT_RAW_PACKET)
		mask |= IBV_QP_ACCESS_FLAGS;
	CALL_INT(FAILING(EINVAL, ibv_modify_qp(qp, &attr, mask)));
	kernel_fail(0, 0);
	CALL_INT(ibv_modify_qp(qp, &attr, mask));
	FIELD(*qp, state);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 0x55, .rq_psn = 0x123456,
		.max_dest_rd_atomic = 2, .min_rnr_timer = 12,
		.ah_attr = {.grh = {.dgid.raw = {0xfe, 0x80, [15] = 9}, .sgid_index = 0, .hop_limit = 64, .traffic_class = 3,
				    .flow_label = 0x12345}, .is_global = 1, .dlid = 7, .sl = 2, .port_num = 1}};
	mask = IBV_QP_STATE;
	if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CALL_INT(ibv_modify_qp(qp, &attr, mask));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 0x654321, .timeout = 14, .retry_cnt = 7, .rnr_retry = 6,
				    .max_rd_atomic = 2, .rate_limit = 1000};
	mask = IBV_QP_STATE;
	if (type != IBV_QPT_RAW_PACKET)
		mask |= IBV_QP_SQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	CALL_INT(ibv_modify_qp(qp, &attr, mask));
	FIELD(*qp, state);
	if (type == IBV_QPT_RAW_PACKET)
		CALL_INT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT));
	FILL(attr);
	FILL(init);
	if (!CALL_INT(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP | IBV_QP_AV, &init))) {
		printf("    state %d dest %#x rq_psn %#x sq_psn %#x qkey %#x type %d signal %d\n", attr.qp_state, attr.dest_qp_num,
		       attr.rq_psn, attr.sq_psn, attr.qkey, init.qp_type, init.sq_sig_all);
		print_cap(&attr.cap);
		print_cap(&init.cap);
	}
	CALL_INT(FAILING(EINVAL, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)));
	kernel_fail(0, 0);
}

static struct ibv_ah *address(void)
{
	struct ibv_ah_attr attr = {.grh = {.dgid.raw = {0xfe, 0x80, [8] = 2, 0x50, 0xb6, 0xff, 0xfe, 0, 0, 9}, .sgid_index = 0,
					   .hop_limit = 64}, .is_global = 1, .dlid = 7, .sl = 2, .port_num = 1};

	CALL_PTR(FAILING(EINVAL, ibv_create_ah(pd, &attr)));
	kernel_fail(0, 0);
	return CALL_PTR(ibv_create_ah(pd, &attr));
}

static void queue_pair(enum ibv_qp_type type, struct ibv_srq *from, struct ibv_ah *ah)
{
	struct ibv_qp_init_attr init;
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
	struct ibv_qp *qp;

	/* With zeros in the padding, which rdma-core 33 takes for a mask. */
	memset(&init, 0, sizeof init);
	init.qp_context = buffer;
	init.send_cq = cq;
	init.recv_cq = other_cq;
	init.srq = from;
	init.cap = (struct ibv_qp_cap){16, from ? 0 : 16, 2, from ? 0 : 2, 16};
	init.qp_type = type;
	init.sq_sig_all = 1;
	note("-- queue pair of type %d%s", type, from ? " with a shared receive queue" : "");
	FAILING_EACH(ENOMEM, ibv_create_qp(pd, &init), ibv_destroy_qp);
	qp = CALL_PTR(ibv_create_qp(pd, &init));
	if (!qp)
		return;
	printf("    number %#x handle %#x state %d type %d\n", qp->qp_num, qp->handle, qp->state, qp->qp_type);
	print_cap(&init.cap);
	states(qp, type);
	if (!from)
		receive(qp, NULL);
	if (type != IBV_QPT_RAW_PACKET)
		send_one(qp, type, ah);
	if (type == IBV_QPT_UD) {
		CALL_INT(ibv_attach_mcast(qp, &group, 7));
		CALL_INT(ibv_detach_mcast(qp, &group, 7));
	}
	next_event("qp", qp->handle, IBV_EVENT_COMM_EST);
	/* Not with a failure: several plugins have freed what they need for the second attempt. */
	CALL_INT(ibv_destroy_qp(qp));
}

static void limits(void)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {1 << 20, 16, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	CALL_PTR(ibv_create_qp(pd, &init));
	init.cap = (struct ibv_qp_cap){16, 16, 1000, 1, 0};
	CALL_PTR(ibv_create_qp(pd, &init));
	init.cap = (struct ibv_qp_cap){16, 16, 1, 1, 1 << 20};
	CALL_PTR(ibv_create_qp(pd, &init));
	init.cap = (struct ibv_qp_cap){16, 16, 1, 1, 0};
	init.qp_type = 77;
	CALL_PTR(ibv_create_qp(pd, &init));
}

static void builders(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .cap = {16, 16, 2, 2, 16}, .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE};
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;

	note("-- extended queue pair");
	FAILING_EACH(EPERM, ibv_create_qp_ex(context, &init), ibv_destroy_qp);
	qp = CALL_PTR(ibv_create_qp_ex(context, &init));
	if (qp) {
		ex = CALL_PTR(ibv_qp_to_qp_ex(qp));
		states(qp, IBV_QPT_RC);
		if (ex) {
			CALL_VOID(ibv_wr_start(ex));
			ex->wr_id = 3;
			ex->wr_flags = IBV_SEND_SIGNALED;
			CALL_VOID(ibv_wr_rdma_write(ex, 0x11, 0x2222));
			CALL_VOID(ibv_wr_set_sge(ex, mr ? mr->lkey : 0, (uintptr_t)buffer, 32));
			CALL_INT(ibv_wr_complete(ex));
		}
		CALL_INT(ibv_destroy_qp(qp));
	}
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	init.qp_type = IBV_QPT_RAW_PACKET;
	qp = CALL_PTR(ibv_create_qp_ex(context, &init));
	if (qp)
		CALL_INT(ibv_destroy_qp(qp));
	init.comp_mask = 1 << 25;
	CALL_PTR(ibv_create_qp_ex(context, &init));
}

static void work_queues(void)
{
	struct ibv_wq_init_attr init = {.wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq_attr modify = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table_init_attr table_init = {.log_ind_tbl_size = 0};
	struct ibv_rwq_ind_table *table = NULL;
	struct ibv_qp *qp;
	uint8_t key[40] = {1, 2, 3};

	note("-- work queues");
	FAILING_EACH(ENOMEM, ibv_create_wq(context, &init), ibv_destroy_wq);
	wq = CALL_PTR(ibv_create_wq(context, &init));
	if (wq) {
		printf("    number %#x handle %#x state %d\n", wq->wq_num, wq->handle, wq->state);
		CALL_INT(ibv_modify_wq(wq, &modify));
		FIELD(*wq, state);
		table_init.ind_tbl = &wq;
		table = CALL_PTR(ibv_create_rwq_ind_table(context, &table_init));
	}
	if (table) {
		struct ibv_qp_init_attr_ex rss = {
			.qp_type = IBV_QPT_RAW_PACKET, .pd = pd, .rwq_ind_tbl = table,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
			.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ, .rx_hash_key_len = 40, .rx_hash_key = key,
					 .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4}};

		printf("    table %#x number %#x\n", table->ind_tbl_handle, table->ind_tbl_num);
		qp = CALL_PTR(ibv_create_qp_ex(context, &rss));
		if (qp)
			CALL_INT(ibv_destroy_qp(qp));
		CALL_INT(ibv_destroy_rwq_ind_table(table));
	}
	if (wq) {
		next_event("wq", wq->handle, IBV_EVENT_WQ_FATAL);
		CALL_INT(ibv_destroy_wq(wq));
	}
}

static void flows(void)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {16, 16, 1, 1, 0}, .qp_type = IBV_QPT_RAW_PACKET};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ipv4;
	} rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule, .num_of_specs = 2, .port = 1, .priority = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof rule.eth, .val = {.dst_mac = {1, 2, 3, 4, 5, 6}},
			.mask = {.dst_mac = {255, 255, 255, 255, 255, 255}}},
		.ipv4 = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof rule.ipv4, .val = {.dst_ip = 0x0100000a},
			 .mask = {.dst_ip = ~0u}}};
	struct ibv_flow *flow;
	struct ibv_qp *qp;

	note("-- flows");
	qp = CALL_PTR(ibv_create_qp(pd, &init));
	if (!qp)
		return;
	CALL_PTR(FAILING(EINVAL, ibv_create_flow(qp, &rule.attr)));
	kernel_fail(0, 0);
	flow = CALL_PTR(ibv_create_flow(qp, &rule.attr));
	if (flow)
		CALL_INT(ibv_destroy_flow(flow));
	CALL_INT(ibv_destroy_qp(qp));
}

static void device_memory(void)
{
	struct ibv_alloc_dm_attr init = {.length = 256, .log_align_req = 3};
	struct ibv_counters_init_attr counters_init = {0};
	struct ibv_counters *counters;
	uint64_t values[2] = {0};
	struct ibv_dm *dm;
	struct ibv_mr *region;

	note("-- device memory and counters");
	FAILING_EACH(ENOMEM, ibv_alloc_dm(context, &init), ibv_free_dm);
	dm = CALL_PTR(ibv_alloc_dm(context, &init));
	if (dm) {
		CALL_INT(ibv_memcpy_to_dm(dm, 8, "abcdefgh", 8));
		CALL_INT(ibv_memcpy_from_dm(values, dm, 8, 8));
		CHECK(!memcmp(values, "abcdefgh", 8));
		region = CALL_PTR(ibv_reg_dm_mr(pd, dm, 0, 128, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
		if (region)
			CALL_INT(ibv_dereg_mr(region));
		CALL_INT(ibv_free_dm(dm));
	}
	counters = CALL_PTR(ibv_create_counters(context, &counters_init));
	if (counters) {
		CALL_INT(ibv_read_counters(counters, values, 2, 0));
		CALL_INT(ibv_destroy_counters(counters));
	}
}

static void xrc(void)
{
	struct ibv_xrcd_init_attr init = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_srq_init_attr_ex srq_init = {
		.attr = {.max_wr = 16, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = pd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD};
	struct ibv_qp_init_attr_ex qp_init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp_open_attr open_attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					     .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_xrcd *xrcd;
	struct ibv_srq *shared;
	struct ibv_qp *qp;
	uint32_t number;

	note("-- XRC");
	FAILING_EACH(EINVAL, ibv_open_xrcd(context, &init), ibv_close_xrcd);
	xrcd = CALL_PTR(ibv_open_xrcd(context, &init));
	srq_init.xrcd = qp_init.xrcd = open_attr.xrcd = xrcd;
	if (!xrcd)
		return;
	shared = CALL_PTR(ibv_create_srq_ex(context, &srq_init));
	if (shared) {
		number = 0;
		CALL_INT(ibv_get_srq_num(shared, &number));
		printf("    number %#x\n", number);
		CALL_INT(ibv_destroy_srq(shared));
	}
	qp = CALL_PTR(ibv_create_qp_ex(context, &qp_init));
	if (qp) {
		states(qp, IBV_QPT_XRC_RECV);
		open_attr.qp_num = qp->qp_num;
		/* Stays: rdma-core 44's mlx5 plugin frees a doorbell that an opened queue pair never had, and overruns memory. */
		CALL_PTR(ibv_open_qp(context, &open_attr));
		CALL_INT(ibv_destroy_qp(qp));
	}
	CALL_INT(ibv_close_xrcd(xrcd));
}

int main(int argc, char **argv)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET};
	struct ibv_ah *ah;

	if (argc != 2)
		return 2;
	begin();
	find_kernel();
	kernel_name(buffer, "buffer");
	open_it(argv[1]);
	queries();
	regions();
	if (pd) {
		domains();
		completion_queues();
	}
	if (cq && other_cq) {
		next_event("cq", cq->handle, IBV_EVENT_CQ_ERR);
		shared_receive_queues();
		ah = address();
		for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
			queue_pair(types[i], NULL, ah);
		if (srq)
			queue_pair(IBV_QPT_RC, srq, NULL);
		limits();
		builders();
		work_queues();
		flows();
		device_memory();
		xrc();
		if (ah)
			CALL_INT(ibv_destroy_ah(ah));
	}
	next_event(NULL, 1, IBV_EVENT_PORT_ERR);
	next_event(NULL, 1, IBV_EVENT_LID_CHANGE);
	if (srq)
		CALL_INT(ibv_destroy_srq(srq));
	if (cq)
		CALL_INT(ibv_destroy_cq(cq));
	if (other_cq)
		CALL_INT(ibv_destroy_cq(other_cq));
	if (channel)
		CALL_INT(ibv_destroy_comp_channel(channel));
	if (mr)
		CALL_INT(ibv_dereg_mr(mr));
	if (pd)
		CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(context));
	return end();
}
