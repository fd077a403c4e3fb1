/*
 * dispatch.c - what lies between a program's verbs and a provider's operations: which operation each verb calls and with
 * what, what the library fills into the objects that come back, what it makes of refusals. Every verb that reaches an
 * operation is here, among them those that soft-RoCE has not: extended connections, work queues and their tables, flows
 * and their actions, counters, device memory, dma-bufs, null regions, advice, imported objects.
 *
 * Fact: A verb that returns an errno value returns what the provider answered, as it is; one that returns a pointer leaves
 * errno as the provider left it.
 */
#include "recorder.h"

static struct ibv_context *c;

/* Objects start as 0xa5, so that every byte which the library writes shows; what it reads is set by handles(). */
static struct ibv_pd pd, other_pd, parent;
static struct private_mr mr;
static struct ibv_mw mw;
static struct private_dm dm;
static struct ibv_td td;
static struct ibv_cq cq;
static struct ibv_cq_ex cq_ex;
static struct private_srq srq;
/* As verbs_qp of rdma-core 33, 44 or 65: the mask of what the provider set stands behind ibv_qp_ex. */
enum { BEFORE_MASK = PRIVATE == 33 ? 344 : PRIVATE == 34 ? 352 : 360 };
static union { struct ibv_qp qp; struct { char qp_ex[BEFORE_MASK]; uint64_t comp_mask; } verbs; char room[368]; } qp;
static struct private_xrcd xrcd;
static struct ibv_wq wq;
static struct ibv_rwq_ind_table table;
static struct ibv_ah ah;
static struct ibv_flow flow;
static struct private_action action;
static struct private_counters counters;
static char memory[8192];
static int tag;

static void handles(void)
{
#define START(object) memset(&(object), 0xa5, sizeof(object))
	START(pd), START(other_pd), START(parent), START(mr), START(mw), START(dm), START(td), START(cq), START(cq_ex);
	START(srq), START(qp), START(xrcd), START(wq), START(table), START(ah), START(flow), START(action), START(counters);
	pd.context = other_pd.context = parent.context = mr.mr.context = mw.context = dm.dm.context = td.context = cq.context =
		srq.srq.context = qp.qp.context = xrcd.xrcd.context = wq.context = table.context = ah.context = flow.context =
		action.action.context = counters.counters.context = c;
	mr.mr.pd = mw.pd = qp.qp.pd = &pd;
	mr.mr.addr = memory;
	mr.mr.length = 4096;
	mr.mr_type = 0; /* a region of memory */
	mr.access = 0;
	mw.type = IBV_MW_TYPE_1;
	cq.channel = NULL;
	qp.qp.qp_type = IBV_QPT_RC;
	qp.qp.state = IBV_QPS_INIT;
}

#define NAME(object) name(&object, #object)
static void names_of_objects(void)
{
	NAME(pd), NAME(other_pd), NAME(parent), NAME(mr), NAME(mw), NAME(dm), NAME(td), NAME(cq), NAME(cq_ex), NAME(srq);
	NAME(qp), NAME(xrcd), NAME(wq), NAME(table), NAME(ah), NAME(flow), NAME(action), NAME(counters), NAME(memory);
	NAME(tag);
	name(memory + 4096, "memory + 4096");
}

/* A queue pair as a provider makes it that has the ibv_wr_* functions; later releases have one argument more. */
static void make_extended(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = &pd,
					   .send_cq = &cq, .recv_cq = &cq};
	int (*create)(struct ibv_context *, void *, struct ibv_qp_init_attr_ex *, void *, size_t, void *, size_t, void *);
	_Alignas(8) char cmd[512] = {0}, resp[512] = {0};

	*(void **)&create = (void *)ibv_cmd_create_qp_ex2;
	printf("made %d\n", create(c, &qp, &attr, cmd, 24 + sizeof(struct ib_uverbs_ex_create_qp), resp,
				 sizeof(struct ib_uverbs_ex_create_qp_resp), NULL));
	handles();
}

/* Runs a part. Its own objects lie on the stack, where later parts have others: their names are forgotten. */
static void part(void (*run)(void))
{
	unsigned of_all = name_count;

	run();
	name_count = of_all;
}

static void show(const char *what, const void *start, size_t size)
{
	printf("  %s:", what);
	dump(start, size);
	putchar('\n');
}
#define SHOW(object) show(#object, &(object), sizeof(object))

/* The call is printed as it stands here, before what it does. */
#define INT_AS(text, call)                                                                                             \
	({                                                                                                             \
		puts(text);                                                                                            \
		errno = 0;                                                                                             \
		int result_ = (call);                                                                                  \
		printf("  = %d errno %d\n", result_, errno);                                                           \
		result_;                                                                                               \
	})
#define INT(call) INT_AS(#call, call)
#define POINTER_AS(text, call)                                                                                         \
	({                                                                                                             \
		puts(text);                                                                                            \
		errno = 0;                                                                                             \
		__typeof__(call) pointer_ = (call);                                                                    \
		int error_ = errno;                                                                                    \
		printf("  =");                                                                                         \
		show_value((uintptr_t)pointer_);                                                                       \
		printf(" errno %d\n", error_);                                                                         \
		pointer_;                                                                                              \
	})
#define POINTER(call) POINTER_AS(#call, call)
#define VOID(call)                                                                                                     \
	do {                                                                                                           \
		puts(#call);                                                                                           \
		call;                                                                                                  \
	} while (0)

static void will(uintptr_t result, int error)
{
	answer = result;
	answer_errno = error;
}

/* A verb that makes an object; then a refusal that says why, and one that does not. */
#define MAKES(object, call)                                                                                            \
	do {                                                                                                           \
		handles();                                                                                             \
		START(object);                                                                                         \
		will((uintptr_t)&(object), 0);                                                                         \
		POINTER_AS(#call, call);                                                                               \
		SHOW(object);                                                                                          \
		handles();                                                                                             \
		will(0, ENOMEM);                                                                                       \
		POINTER_AS(#call, call);                                                                               \
		will(0, 0);                                                                                            \
		POINTER_AS(#call, call);                                                                               \
	} while (0)

/* A verb that answers a number: done, an errno value, and what a provider must not answer but may. */
#define DOES(call)                                                                                                     \
	do {                                                                                                           \
		handles();                                                                                             \
		will(0, 0);                                                                                            \
		INT_AS(#call, call);                                                                                   \
		will(EBUSY, 0);                                                                                        \
		INT_AS(#call, call);                                                                                   \
		will(EINVAL, EIO);                                                                                     \
		INT_AS(#call, call);                                                                                   \
		will((uintptr_t)-1, EPERM);                                                                            \
		INT_AS(#call, call);                                                                                   \
		will((uintptr_t)-EAGAIN, 0);                                                                           \
		INT_AS(#call, call);                                                                                   \
	} while (0)

static void device(void)
{
	static struct ibv_device_attr attr;
	static struct ibv_device_attr_ex attr_ex;
	static struct ibv_port_attr port;
	struct ibv_query_device_ex_input input = {.comp_mask = 0};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	static const struct { int answer; unsigned mask; } cases[] = {{0, 0}, {EBUSY, 0}, {EOPNOTSUPP, 0}, {ENOSYS, 0}, {0, 1}};

	/* What is written arrives whether the operation says that it has failed or not; by which way is the library's. */
	NAME(input), NAME(values);
	writes.argument = 2;
	writes.size = sizeof attr;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		will(cases[i].answer, 0);
		START(attr);
		INT(ibv_query_device(c, &attr));
		SHOW(attr);
		input.comp_mask = cases[i].mask;
		START(attr_ex);
		INT(ibv_query_device_ex(c, &input, &attr_ex));
		SHOW(attr_ex);
		START(attr_ex);
		INT(ibv_query_device_ex(c, NULL, &attr_ex));
		SHOW(attr_ex);
	}
	writes.size = sizeof port;
	for (unsigned i = 0; i < 3; i++) {
		will(cases[i].answer, 0);
		START(port);
		INT(ibv_query_port(c, 1, &port));
		show("port", &port, 52); /* as long as it has been since rdma-core 19 */
		START(port);
		INT((ibv_query_port)(c, 255, (struct _compat_ibv_port_attr *)&port)); /* the exported symbol */
		show("port", &port, 52); /* as long as it has been since rdma-core 19 */
	}
	writes.size = 0;
	DOES(ibv_query_rt_values_ex(c, &values));
}

static void domains(void)
{
	struct ibv_td_init_attr td_attr = {.comp_mask = 5};
	struct ibv_parent_domain_init_attr parent_attr = {.pd = &pd, .td = &td, .comp_mask = 7, .pd_context = &tag};
	struct ibv_xrcd_init_attr xrcd_attr = {.comp_mask = 3, .fd = 9, .oflags = 64};

	NAME(td_attr), NAME(parent_attr), NAME(xrcd_attr);
	MAKES(pd, ibv_alloc_pd(c));
	DOES(ibv_dealloc_pd(&pd));
	MAKES(td, ibv_alloc_td(c, &td_attr));
	DOES(ibv_dealloc_td(&td));
	MAKES(parent, ibv_alloc_parent_domain(c, &parent_attr));
	DOES(ibv_dealloc_pd(&parent));
	MAKES(xrcd, ibv_open_xrcd(c, &xrcd_attr));
	DOES(ibv_close_xrcd(&xrcd.xrcd));
	MAKES(pd, ibv_import_pd(c, 0x123));
	VOID(ibv_unimport_pd(&pd));
}

static void regions(void)
{
	volatile int access = IBV_ACCESS_REMOTE_WRITE; /* a variable takes the newer way */
	struct ibv_sge list[2] = {{0x1000, 2, 3}, {0x4000, 5, 6}};
	struct ibv_alloc_dm_attr dm_attr = {.length = 4096, .log_align_req = 6, .comp_mask = 1};
	static const int flags[] = {0, 1, 2, 4, 7, 8, 1 << 31 | 1};

	NAME(list), NAME(dm_attr);
	MAKES(mr, (ibv_reg_mr)(&pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	MAKES(mr, ibv_reg_mr(&pd, memory, 4096, access));
	MAKES(mr, ibv_reg_mr(&pd, memory, 4096, IBV_ACCESS_RELAXED_ORDERING));
	MAKES(mr, ibv_reg_mr_iova(&pd, memory, 4096, 0x7000, IBV_ACCESS_LOCAL_WRITE));
	MAKES(mr, ibv_reg_mr_iova2(&pd, memory, 4096, 0x7000, IBV_ACCESS_OPTIONAL_FIRST | 1));
	MAKES(mr, ibv_reg_mr_iova2(&pd, NULL, SIZE_MAX, 0, IBV_ACCESS_ON_DEMAND));
	SINCE_34(MAKES(mr, ibv_reg_dmabuf_mr(&pd, 0x2000, 0x3000, 0x4000, 17, 5));)
	MAKES(mr, ibv_alloc_null_mr(&pd));
	MAKES(mr, ibv_import_mr(&pd, 0x321));
	VOID(ibv_unimport_mr(&mr.mr));
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		printf("flags %#x\n", flags[i]);
		DOES(ibv_rereg_mr(&mr.mr, flags[i], &other_pd, memory + 4096, 64, 0));
		DOES(ibv_rereg_mr(&mr.mr, flags[i], NULL, NULL, 0, 3));
		SHOW(mr);
		will(0, 0);
		handles();
		INT(ibv_rereg_mr(&mr.mr, flags[i], &other_pd, memory + 4096, 64, flags[i] & 4 ? 3 : 0));
		SHOW(mr);
	}
	handles();
	mr.mr_type = 1; /* what was imported or is null cannot change */
	INT(ibv_rereg_mr(&mr.mr, IBV_REREG_MR_CHANGE_PD, &other_pd, NULL, 0, 0));
	DOES(ibv_dereg_mr(&mr.mr));
	DOES(ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, list, 2));
	DOES(ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, NULL, 0));

	MAKES(dm, ibv_alloc_dm(c, &dm_attr));
	MAKES(mr, ibv_reg_dm_mr(&pd, &dm.dm, 64, 128, IBV_ACCESS_ZERO_BASED));
	DOES(ibv_free_dm(&dm.dm));
	SINCE_34(MAKES(dm, ibv_import_dm(c, 0x777));)
	SINCE_34(VOID(ibv_unimport_dm(&dm.dm));)

	MAKES(mw, ibv_alloc_mw(&pd, IBV_MW_TYPE_2));
	DOES(ibv_dealloc_mw(&mw));
	struct ibv_mw_bind bind = {.bind_info = {.mr = &mr.mr, .addr = 0x1000, .length = 16}};
	NAME(bind);
	DOES(ibv_bind_mw(&qp.qp, &mw, &bind));
}

static void completion_queues(void)
{
	static struct ibv_comp_channel *channel;
	int channel_end;
	struct ibv_cq_init_attr_ex attr = {.cqe = 77, .cq_context = &tag, .comp_vector = 2, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_modify_cq_attr moderation = {.attr_mask = 1, .moderate = {.cq_count = 3, .cq_period = 4}};
	struct ibv_cq *got = NULL;
	void *got_context = NULL;
	struct ibv_wc wc[2];

	NAME(attr), NAME(moderation), NAME(got), NAME(wc);
	make_pipe(CHANNEL_FD, &channel_end);
	channel = POINTER(ibv_create_comp_channel(c));
	name(channel, "channel");
	printf("  context %d fd %d refcnt %d\n", channel->context == c, channel->fd, channel->refcnt);

	MAKES(cq, ibv_create_cq(c, 55, &tag, channel, 3));
	printf("  refcnt %d\n", channel->refcnt);
	cq.channel = channel;
	will(EBUSY, 0);
	INT(ibv_destroy_cq(&cq));
	printf("  refcnt %d\n", channel->refcnt);
	INT(ibv_destroy_comp_channel(channel)); /* a queue uses it */

	/* The kernel's event names the queue. */
	cq.cq_context = &tag;
	cq.comp_events_completed = 5;
	pthread_mutex_init(&cq.mutex, NULL);
	pthread_cond_init(&cq.cond, NULL);
	if (write(channel_end, &(uint64_t){(uintptr_t)&cq}, 8) != 8)
		exit(1);
	will(0, 0);
	INT(ibv_get_cq_event(channel, &got, &got_context));
	printf("  queue %d context %d\n", got == &cq, got_context == &tag);
	VOID(ibv_ack_cq_events(&cq, 2));
	printf("  completed %u\n", cq.comp_events_completed);
	INT(ibv_get_cq_event(channel, &got, &got_context)); /* there is none, and the file does not block */

	INT(ibv_destroy_cq(&cq));
	printf("  refcnt %d\n", channel->refcnt);
	MAKES(cq, ibv_create_cq(c, 1, NULL, NULL, 0));

	attr.channel = channel;
	MAKES(cq_ex, ibv_create_cq_ex(c, &attr));
	printf("  refcnt %d\n", channel->refcnt);
	channel->refcnt = 0;
	for (attr.comp_mask = 0; attr.comp_mask < 8; attr.comp_mask++) {
		printf("mask %#x\n", attr.comp_mask);
		will(0, EOPNOTSUPP);
		POINTER(ibv_create_cq_ex(c, &attr));
	}
	/* A provider that makes one in its own way has this function. */
	START(cq);
	verbs_init_cq(&cq, c, channel, &tag);
	SHOW(cq);
	printf("  refcnt %d\n", channel->refcnt);
	channel->refcnt = 0;
	INT(ibv_destroy_comp_channel(channel));

	DOES(ibv_resize_cq(&cq, 99));
	DOES(ibv_modify_cq(&cq, &moderation));
	DOES(ibv_poll_cq(&cq, 2, wc));
	DOES(ibv_req_notify_cq(&cq, 1));
	DOES(ibv_destroy_cq(&cq));
}

static void shared_receive_queues(void)
{
	struct ibv_srq_init_attr attr = {.srq_context = &tag, .attr = {11, 2, 3}};
	struct ibv_srq_init_attr_ex ex = {.srq_context = &tag, .attr = {11, 2, 3}, .pd = &pd, .cq = &cq, .xrcd = &xrcd.xrcd};
	struct ibv_srq_attr change = {21, 22, 23};
	struct ibv_recv_wr request = {.wr_id = 1}, *bad = NULL;
	struct ibv_ops_wr tag_request = {.wr_id = 2}, *bad_tag = NULL;
	uint32_t number = 0x5a5a5a5a;
	static const uint32_t masks[] = {
		IBV_SRQ_INIT_ATTR_PD,
		IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_RESERVED};

	NAME(attr), NAME(ex), NAME(change), NAME(request), NAME(bad), NAME(tag_request), NAME(bad_tag), NAME(number);
	MAKES(srq, ibv_create_srq(&pd, &attr));
	for (unsigned i = 0; i < sizeof masks / sizeof *masks; i++)
		for (int type = IBV_SRQT_BASIC; type <= IBV_SRQT_TM; type++) {
			printf("mask %#x type %d\n", masks[i], type);
			ex.comp_mask = masks[i];
			ex.srq_type = (enum ibv_srq_type)type;
			MAKES(srq, ibv_create_srq_ex(c, &ex));
		}
	/* The errno value comes back as it is, never as -1. */
	DOES(ibv_modify_srq(&srq.srq, &change, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	DOES(ibv_modify_srq(&srq.srq, &change, -1));
	SHOW(change);
	DOES(ibv_query_srq(&srq.srq, &change));
	SHOW(change);
	DOES(ibv_get_srq_num(&srq.srq, &number));
	DOES(ibv_post_srq_recv(&srq.srq, &request, &bad));
	DOES(ibv_post_srq_ops(&srq.srq, &tag_request, &bad_tag));
	DOES(ibv_destroy_srq(&srq.srq));
}

static void queue_pairs(void)
{
	struct ibv_qp_init_attr attr = {.qp_context = &tag, .send_cq = &cq, .recv_cq = &cq, .cap = {1, 2, 3, 4, 5}};
	struct ibv_qp_init_attr_ex ex = {.qp_context = &tag, .send_cq = &cq, .recv_cq = &cq, .pd = &pd, .xrcd = &xrcd.xrcd};
	struct ibv_qp_open_attr open_attr = {.comp_mask = 15, .qp_num = 7, .xrcd = &xrcd.xrcd, .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 9};
	static struct ibv_qp_attr state;
	struct ibv_ece ece = {.vendor_id = 1, .options = 2, .comp_mask = 0};
	struct ibv_send_wr send = {.wr_id = 1}, *bad_send = NULL;
	struct ibv_recv_wr recv = {.wr_id = 2}, *bad_recv = NULL;
	static const uint32_t masks[] = {IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_XRCD, 0,
					 IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 1u << 30};

	NAME(attr), NAME(ex), NAME(open_attr), NAME(rate), NAME(state), NAME(ece), NAME(send), NAME(bad_send), NAME(recv);
	NAME(bad_recv);
	MAKES(qp, ibv_create_qp(&pd, &attr));
	for (unsigned i = 0; i < sizeof masks / sizeof *masks; i++) {
		printf("mask %#x\n", masks[i]);
		ex.comp_mask = masks[i];
		MAKES(qp, ibv_create_qp_ex(c, &ex));
	}
	MAKES(qp, ibv_open_qp(c, &open_attr));
	state.qp_state = IBV_QPS_RTR;
	will(0, 0);
	handles();
	INT(ibv_modify_qp(&qp.qp, &state, IBV_QP_ACCESS_FLAGS));
	printf("  state %d\n", qp.qp.state);
	INT(ibv_modify_qp(&qp.qp, &state, IBV_QP_STATE | IBV_QP_AV));
	printf("  state %d\n", qp.qp.state);
	DOES(ibv_modify_qp(&qp.qp, &state, IBV_QP_STATE));
	DOES(ibv_query_qp(&qp.qp, &state, IBV_QP_STATE | IBV_QP_CAP, &attr));
	will(0, 0);
	state.qp_state = IBV_QPS_SQD;
	INT(ibv_query_qp(&qp.qp, &state, IBV_QP_STATE, &attr));
	printf("  state %d\n", qp.qp.state);
	DOES(ibv_modify_qp_rate_limit(&qp.qp, &rate));
	DOES(ibv_query_ece(&qp.qp, &ece));
	SHOW(ece);
	DOES(ibv_set_ece(&qp.qp, &ece));
	ece.vendor_id = 0;
	DOES(ibv_set_ece(&qp.qp, &ece));
	/* Where rdma-core 44 and later releases agree; in_order.c has the rest. */
	will(0, 0);
	SINCE_34(INT(ibv_query_qp_data_in_order(&qp.qp, IBV_WR_RDMA_WRITE, 0));)
	SINCE_34(INT(ibv_query_qp_data_in_order(&qp.qp, IBV_WR_RDMA_WRITE, 1));)
	will(1, 0);
	SINCE_34(INT(ibv_query_qp_data_in_order(&qp.qp, IBV_WR_RDMA_WRITE, 0));)
	will(2, 0);
	SINCE_34(INT(ibv_query_qp_data_in_order(&qp.qp, IBV_WR_RDMA_WRITE, 1));)
	make_extended();
	for (uint32_t mask = 0; mask < 4; mask++) {
		/* Plugins make their queue pairs of zeroed memory. */
		memset(&qp.verbs.qp_ex[BEFORE_MASK - 16], 0, 16);
		qp.verbs.comp_mask = mask;
		printf("mask %#x\n", mask);
		POINTER(ibv_qp_to_qp_ex(&qp.qp));
	}
	DOES(ibv_post_send(&qp.qp, &send, &bad_send));
	DOES(ibv_post_recv(&qp.qp, &recv, &bad_recv));
	DOES(ibv_attach_mcast(&qp.qp, (union ibv_gid *)memory, 0xc001));
	DOES(ibv_detach_mcast(&qp.qp, (union ibv_gid *)memory, 0xc001));
	DOES(ibv_destroy_qp(&qp.qp));
}

static void work_queues(void)
{
	struct ibv_wq_init_attr attr = {.wq_context = &tag, .wq_type = IBV_WQT_RQ, .max_wr = 7, .max_sge = 2, .pd = &pd, .cq = &cq};
	struct ibv_wq_attr change = {.attr_mask = 1, .wq_state = IBV_WQS_RDY};
	struct ibv_wq *entries[2] = {&wq, &wq};
	struct ibv_rwq_ind_table_init_attr table_attr = {.log_ind_tbl_size = 1, .ind_tbl = entries};

	NAME(attr), NAME(change), NAME(entries), NAME(table_attr);
	MAKES(wq, ibv_create_wq(c, &attr));
	DOES(ibv_modify_wq(&wq, &change));
	DOES(ibv_destroy_wq(&wq));
	MAKES(table, ibv_create_rwq_ind_table(c, &table_attr));
	DOES(ibv_destroy_rwq_ind_table(&table));
}

static void addresses(void)
{
	struct ibv_ah_attr attr = {.dlid = 5, .port_num = 1};
	struct ibv_wc wc = {.slid = 6, .sl = 3, .dlid_path_bits = 2};
	struct ibv_grh grh = {.hop_limit = 1};

	NAME(attr), NAME(wc), NAME(grh);
	MAKES(ah, ibv_create_ah(&pd, &attr));
	START(attr);
	INT(ibv_init_ah_from_wc(c, 1, &wc, &grh, &attr)); /* without a global header no table is needed */
	SHOW(attr);
	MAKES(ah, ibv_create_ah_from_wc(&pd, &wc, &grh, 1));
	DOES(ibv_destroy_ah(&ah));
}

static void flows(void)
{
	static struct { struct ibv_flow_attr attr; struct ibv_flow_spec_eth eth; } rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof rule, .num_of_specs = 1, .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(struct ibv_flow_spec_eth)}};
	struct ibv_flow_action_esp_attr esp = {.comp_mask = 1};
	struct ibv_counters_init_attr counters_attr = {.comp_mask = 0};
	struct ibv_counter_attach_attr point = {.counter_desc = IBV_COUNTER_BYTES, .index = 4};
	uint64_t values[3] = {1, 2, 3};

	NAME(rule), NAME(esp), NAME(counters_attr), NAME(point), NAME(values);
	MAKES(flow, ibv_create_flow(&qp.qp, &rule.attr));
	DOES(ibv_destroy_flow(&flow));
	MAKES(action, ibv_create_flow_action_esp(c, &esp));
	DOES(ibv_modify_flow_action_esp(&action.action, &esp));
	DOES(ibv_destroy_flow_action(&action.action));
	MAKES(counters, ibv_create_counters(c, &counters_attr));
	DOES(ibv_attach_counters_point_flow(&counters.counters, &point, &flow));
	DOES(ibv_attach_counters_point_flow(&counters.counters, &point, NULL));
	DOES(ibv_read_counters(&counters.counters, values, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED));
	DOES(ibv_read_counters(&counters.counters, NULL, 0, 0));
	DOES(ibv_destroy_counters(&counters.counters));
}

/* By which providers registered before 2010; no header declares it, and a linker finds it by its version alone. */
void register_old_driver(const char *name, void *init);
__asm__(".symver register_old_driver, ibv_register_driver@IBVERBS_1.1");

int main(void)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	VOID(register_old_driver("nobody", NULL));
	c = open_recorder(NULL);
	will(0, 0);
	INT(ibv_close_device(c));
	c = open_recorder((void *)0x51); /* as providers' own opening functions do */
	names_of_objects();
	printf("command file %d, event file %d\n", c->cmd_fd == COMMAND_FD, c->async_fd == ASYNC_FD);
	printf("device name %s, transport %d\n", ibv_get_device_name(c->device), c->device->transport_type);
	part(handles);
	part(device);
	part(domains);
	part(regions);
	part(completion_queues);
	part(shared_receive_queues);
	part(queue_pairs);
	part(work_queues);
	part(addresses);
	part(flows);
	SINCE_34(__verbs_log(outer_context, 1, "said by a %s: %d, %s\n", "provider", -7, "text");)
	will(0, 0);
	INT(ibv_close_device(c));

	/* The same device through a file that another process opened. */
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	make_pipe(ASYNC_FD, &event_end);
	c = POINTER(ibv_import_device(fd));
	printf("command file %d\n", c && c->cmd_fd == fd);
	if (c)
		INT(ibv_close_device(c));
	POINTER(ibv_import_device(-1));
	fd = open("/dev/zero", O_RDWR | O_CLOEXEC); /* a character device that is none of these */
	POINTER(ibv_import_device(fd));
	return 0;
}
