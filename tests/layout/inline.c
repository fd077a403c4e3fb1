/*
 * What the inline functions of verbs.h do: which operation they call, with which arguments, and what they return and
 * leave in errno where the operation is missing. Compiled with rdma-core's headers and with ours; the output must be
 * the same. No library is linked: the exported functions that the header calls are recorders as well.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

/* RELEASE of rdma-core: what came later is left out, and what came later than the release of the argument. */
#if RELEASE >= 45
#define WITH_FLUSH(X) X(wr_flush, "848811")
#else
#define WITH_FLUSH(X)
#endif

static int release;

static struct verbs_context extended;
static struct ibv_pd pd, other_pd;
static struct ibv_mr region;
static struct ibv_mw window;
static struct ibv_mw_bind bind_request;
static struct ibv_cq cq;
static struct ibv_cq_ex cq_ex;
static struct ibv_srq srq;
static struct ibv_qp qp;
static struct ibv_qp_ex qp_ex;
static struct ibv_wq wq;
static struct ibv_wq_init_attr wq_attr;
static struct ibv_dm dm;
static struct ibv_td td;
static struct ibv_xrcd xrcd;
static struct ibv_flow flow;
static struct ibv_flow_action action;
static struct ibv_counters counters;
static struct ibv_rwq_ind_table table;
static struct ibv_srq_init_attr_ex srq_attr;
static struct ibv_qp_init_attr_ex qp_attr;
static struct ibv_device_attr_ex device_attr;
static struct ibv_query_device_ex_input input;
static struct ibv_port_attr port_attr;
static struct ibv_ops_wr operation, *bad_operation;
static struct ibv_gid_entry entry;

static const struct { const void *at; const char *name; } known[] = {
	{ &extended.context, "context" }, { &pd, "pd" }, { &region, "mr" }, { &window, "mw" },
	{ &bind_request, "mw_bind" }, { &cq, "cq" }, { &cq_ex, "cq_ex" }, { &srq, "srq" }, { &qp, "qp" },
	{ &qp_ex, "qp_ex" }, { &wq, "wq" }, { &wq_attr, "wq_attr" }, { &dm, "dm" }, { &td, "td" }, { &xrcd, "xrcd" },
	{ &flow, "flow" }, { &action, "action" }, { &counters, "counters" }, { &table, "table" },
	{ &srq_attr, "srq_attr" }, { &qp_attr, "qp_attr" }, { &device_attr, "device_attr" }, { &input, "input" },
	{ &port_attr, "port_attr" }, { &operation, "operation" }, { &bad_operation, "bad_operation" },
	{ &entry, "entry" },
};

static void show(uintptr_t value)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((uintptr_t)known[i].at == value) {
			printf(" %s", known[i].name);
			return;
		}
	printf(" %#lx", (unsigned long)value);
}

/* Prints a call; `widths` gives the bytes of each argument, as the callee may look at no more. */
static void record(const char *name, const char *widths, const uintptr_t *arguments)
{
	printf("    %s(", name);
	for (size_t i = 0; widths[i]; i++) {
		const int bytes = widths[i] - '0';
		show(bytes == 8 ? arguments[i] : arguments[i] & (((uintptr_t)1 << (8 * bytes)) - 1));
	}
	printf(" )\n");
}

/* What every recorder returns: as a pointer or cut to its type. */
static uintptr_t answer;

#define RECORDER(name, widths) \
	static uintptr_t name##_recorder(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) \
	{ \
		const uintptr_t arguments[] = { a, b, c, d, e, f }; \
		record(#name, widths, arguments); \
		return answer; \
	}
#define INSTALL(object, name) (*(uintptr_t *)&(object).name = (uintptr_t)name##_recorder)

/* Members of struct verbs_context. */
#define OPERATIONS(X) \
	X(query_port, "8188") X(advise_mr, "84484") X(alloc_null_mr, "8") X(read_counters, "8844") \
	X(attach_counters_point_flow, "888") X(create_counters, "88") X(destroy_counters, "8") \
	X(reg_dm_mr, "88884") X(alloc_dm, "88") X(free_dm, "8") X(modify_flow_action_esp, "88") \
	X(destroy_flow_action, "8") X(create_flow_action_esp, "88") X(modify_qp_rate_limit, "88") \
	X(alloc_parent_domain, "88") X(dealloc_td, "8") X(alloc_td, "88") X(modify_cq, "88") \
	X(post_srq_ops, "888") X(destroy_rwq_ind_table, "8") X(create_rwq_ind_table, "88") X(destroy_wq, "8") \
	X(modify_wq, "88") X(create_wq, "88") X(query_rt_values, "88") X(create_cq_ex, "88") \
	X(query_device_ex, "8888") X(ibv_destroy_flow, "8") X(ibv_create_flow, "88") X(open_qp, "88") \
	X(create_qp_ex, "88") X(get_srq_num, "88") X(create_srq_ex, "88") X(open_xrcd, "88") X(close_xrcd, "8")
OPERATIONS(RECORDER)

/* Members of struct ibv_context_ops. */
#define DATA_OPERATIONS(X) \
	X(alloc_mw, "84") X(bind_mw, "888") X(dealloc_mw, "8") X(poll_cq, "848") X(req_notify_cq, "84") \
	X(post_srq_recv, "888") X(post_send, "888") X(post_recv, "888")
DATA_OPERATIONS(RECORDER)

/* Members of struct ibv_cq_ex. */
#define POLL_OPERATIONS(X) \
	X(start_poll, "88") X(next_poll, "8") X(end_poll, "8") X(read_opcode, "8") X(read_vendor_err, "8") \
	X(read_byte_len, "8") X(read_imm_data, "8") X(read_qp_num, "8") X(read_src_qp, "8") X(read_wc_flags, "8") \
	X(read_slid, "8") X(read_sl, "8") X(read_dlid_path_bits, "8") X(read_completion_ts, "8") \
	X(read_cvlan, "8") X(read_flow_tag, "8") X(read_tm_info, "88") X(read_completion_wallclock_ns, "8")
POLL_OPERATIONS(RECORDER)

/* Members of struct ibv_qp_ex. */
#define SEND_OPERATIONS(X) \
	X(wr_atomic_cmp_swp, "84888") X(wr_atomic_fetch_add, "8488") X(wr_bind_mw, "8848") X(wr_local_inv, "84") \
	X(wr_rdma_read, "848") X(wr_rdma_write, "848") X(wr_rdma_write_imm, "8484") X(wr_send, "8") \
	X(wr_send_imm, "84") X(wr_send_inv, "84") X(wr_send_tso, "8822") X(wr_set_ud_addr, "8844") \
	X(wr_set_xrc_srqn, "84") X(wr_set_inline_data, "888") X(wr_set_inline_data_list, "888") \
	X(wr_set_sge, "8484") X(wr_set_sge_list, "888") X(wr_start, "8") X(wr_complete, "8") X(wr_abort, "8") \
	X(wr_atomic_write, "8488") WITH_FLUSH(X)
SEND_OPERATIONS(RECORDER)

RECORDER(memcpy_to_dm, "8888")
RECORDER(memcpy_from_dm, "8888")
RECORDER(wq_post_recv, "888")

/* Exported functions; the parentheses keep the header's macros of the same names out. */
#define EXPORTED(result, name, parameters, widths, ...) \
	result (name) parameters \
	{ \
		const uintptr_t arguments[] = { __VA_ARGS__ }; \
		record(#name, widths, arguments); \
		return (result)answer; \
	}
#define N(value) (uintptr_t)(value)
EXPORTED(int, ibv_query_port, (struct ibv_context *a, uint8_t b, struct _compat_ibv_port_attr *c), "818", N(a), N(b), N(c))
EXPORTED(int, ibv_query_device, (struct ibv_context *a, struct ibv_device_attr *b), "88", N(a), N(b))
EXPORTED(int, _ibv_query_gid_ex, (struct ibv_context *a, uint32_t b, uint32_t c, struct ibv_gid_entry *d, uint32_t e, size_t f), "844848", N(a), N(b), N(c), N(d), N(e), N(f))
EXPORTED(ssize_t, _ibv_query_gid_table, (struct ibv_context *a, struct ibv_gid_entry *b, size_t c, uint32_t d, size_t e), "88848", N(a), N(b), N(c), N(d), N(e))
EXPORTED(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *a, void *b, size_t c, int d), "8884", N(a), N(b), N(c), N(d))
EXPORTED(struct ibv_mr *, ibv_reg_mr_iova, (struct ibv_pd *a, void *b, size_t c, uint64_t d, int e), "88884", N(a), N(b), N(c), N(d), N(e))
EXPORTED(struct ibv_mr *, ibv_reg_mr_iova2, (struct ibv_pd *a, void *b, size_t c, uint64_t d, unsigned int e), "88884", N(a), N(b), N(c), N(d), N(e))
EXPORTED(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *a, struct ibv_srq_init_attr *b), "88", N(a), N(b))
EXPORTED(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *a, struct ibv_qp_init_attr *b), "88", N(a), N(b))

#define CALL(expression) \
	do { \
		errno = 0; \
		printf("  %s\n", #expression); \
		const uintptr_t result = (uintptr_t)(expression); \
		const int left = errno; \
		printf("    ="); \
		show(result); \
		printf(", errno %d\n", left); \
	} while (0)
#define CALL_VOID(expression) \
	do { \
		printf("  %s\n", #expression); \
		expression; \
	} while (0)

/* The call with an operation that is there, unset, beyond the size of the table, and in a context without a table. */
#define WITH(op, expression) \
	do { \
		const size_t exact = sizeof(extended) - offsetof(struct verbs_context, op); \
		extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED; \
		extended.sz = exact; \
		INSTALL(extended, op); \
		printf("present\n"); \
		CALL(expression); \
		extended.op = NULL; \
		printf("unset\n"); \
		CALL(expression); \
		INSTALL(extended, op); \
		extended.sz = exact - 1; \
		printf("beyond the size\n"); \
		CALL(expression); \
		extended.sz = exact; \
		extended.context.abi_compat = NULL; \
		printf("no table\n"); \
		CALL(expression); \
		extended.op = NULL; \
	} while (0)

#define P(number) ((void *)(uintptr_t)(number))
#define CONTEXT (&extended.context)

static void control(void)
{
	struct ibv_port_attr zero;

	memset(&zero, 0, sizeof(zero));
	memset(&port_attr, 0xa5, sizeof(port_attr));
	WITH(query_port, ibv_query_port(CONTEXT, 3, &port_attr));
	printf("  cleared %d\n", !memcmp(&zero, &port_attr, sizeof(zero)));
	WITH(advise_mr, ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 7, P(0x10), 9));
	WITH(alloc_null_mr, ibv_alloc_null_mr(&pd));
	WITH(read_counters, ibv_read_counters(&counters, P(0x10), 2, 3));
	WITH(attach_counters_point_flow, ibv_attach_counters_point_flow(&counters, P(0x10), &flow));
	WITH(create_counters, ibv_create_counters(CONTEXT, P(0x10)));
	WITH(destroy_counters, ibv_destroy_counters(&counters));
	WITH(reg_dm_mr, ibv_reg_dm_mr(&pd, &dm, 0x20, 0x30, 5));
	WITH(alloc_dm, ibv_alloc_dm(CONTEXT, P(0x10)));
	WITH(free_dm, ibv_free_dm(&dm));
	WITH(modify_flow_action_esp, ibv_modify_flow_action_esp(&action, P(0x10)));
	WITH(destroy_flow_action, ibv_destroy_flow_action(&action));
	WITH(create_flow_action_esp, ibv_create_flow_action_esp(CONTEXT, P(0x10)));
	WITH(modify_qp_rate_limit, ibv_modify_qp_rate_limit(&qp, P(0x10)));
	WITH(alloc_parent_domain, ibv_alloc_parent_domain(CONTEXT, P(0x10)));
	WITH(dealloc_td, ibv_dealloc_td(&td));
	WITH(alloc_td, ibv_alloc_td(CONTEXT, P(0x10)));
	WITH(modify_cq, ibv_modify_cq(&cq, P(0x10)));
	WITH(post_srq_ops, ibv_post_srq_ops(&srq, &operation, &bad_operation));
	CALL(bad_operation);
	WITH(destroy_rwq_ind_table, ibv_destroy_rwq_ind_table(&table));
	WITH(create_rwq_ind_table, ibv_create_rwq_ind_table(CONTEXT, P(0x10)));
	WITH(destroy_wq, ibv_destroy_wq(&wq));
	WITH(modify_wq, ibv_modify_wq(&wq, P(0x10)));
	WITH(query_rt_values, ibv_query_rt_values_ex(CONTEXT, P(0x10)));
	WITH(create_cq_ex, ibv_create_cq_ex(CONTEXT, P(0x10)));
	WITH(ibv_destroy_flow, ibv_destroy_flow(&flow));
	WITH(ibv_create_flow, ibv_create_flow(&qp, P(0x10)));
	WITH(open_qp, ibv_open_qp(CONTEXT, P(0x10)));
	WITH(get_srq_num, ibv_get_srq_num(&srq, P(0x10)));
	WITH(open_xrcd, ibv_open_xrcd(CONTEXT, P(0x10)));

	extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	INSTALL(extended, close_xrcd);
	CALL(ibv_close_xrcd(&xrcd));

	wq_attr.wq_context = P(0x77);
	wq.events_completed = 5;
	answer = 0;
	WITH(create_wq, ibv_create_wq(CONTEXT, &wq_attr));
	answer = (uintptr_t)&wq;
	WITH(create_wq, ibv_create_wq(CONTEXT, &wq_attr));
	answer = 0x123;
	CALL(wq.wq_context);
	CALL(wq.events_completed);
	CALL(pthread_mutex_trylock(&wq.mutex));
	CALL(pthread_mutex_trylock(&wq.mutex));
	CALL(pthread_cond_signal(&wq.cond));

	for (uint32_t mask = 0; mask < 16; mask++) {
		for (int type = IBV_SRQT_BASIC; type <= IBV_SRQT_TM; type++) {
			srq_attr.comp_mask = mask;
			srq_attr.srq_type = (enum ibv_srq_type)type;
			srq_attr.pd = &pd;
			printf("mask %#x, type %d\n", mask, type);
			WITH(create_srq_ex, ibv_create_srq_ex(CONTEXT, &srq_attr));
		}
		qp_attr.comp_mask = mask;
		qp_attr.pd = &pd;
		printf("mask %#x\n", mask);
		WITH(create_qp_ex, ibv_create_qp_ex(CONTEXT, &qp_attr));
	}

	static const int answers[] = { 0, EINVAL, EOPNOTSUPP, ENOSYS };
	for (size_t i = 0; i < 4; i++) {
		answer = (uintptr_t)answers[i];
		memset(&device_attr, 0xa5, sizeof(device_attr));
		input.comp_mask = 0;
		WITH(query_device_ex, ibv_query_device_ex(CONTEXT, NULL, &device_attr));
		WITH(query_device_ex, ibv_query_device_ex(CONTEXT, &input, &device_attr));
		CALL(device_attr.phys_port_cnt_ex);
		input.comp_mask = 1;
		WITH(query_device_ex, ibv_query_device_ex(CONTEXT, &input, &device_attr));
	}
	answer = 0x123;
}

static void memory(volatile int unknown)
{
	CALL(ibv_reg_mr(&pd, P(0x1000), 0x10, 1));
	CALL(ibv_reg_mr(&pd, P(0x1000), 0x10, IBV_ACCESS_RELAXED_ORDERING));
	CALL(ibv_reg_mr(&pd, P(0x1000), 0x10, 1 << 29));
	CALL(ibv_reg_mr(&pd, P(0x1000), 0x10, 1 << 30));
	CALL(ibv_reg_mr(&pd, P(0x1000), 0x10, unknown));
	CALL(ibv_reg_mr_iova(&pd, P(0x1000), 0x10, 0x2000, 1));
	CALL(ibv_reg_mr_iova(&pd, P(0x1000), 0x10, 0x2000, 1 << 20));
	CALL(ibv_reg_mr_iova(&pd, P(0x1000), 0x10, 0x2000, unknown));

	extended.context.ops.alloc_mw = NULL;
	CALL(ibv_alloc_mw(&pd, IBV_MW_TYPE_2));
	INSTALL(extended.context.ops, alloc_mw);
	CALL(ibv_alloc_mw(&pd, IBV_MW_TYPE_2));
	CALL(ibv_dealloc_mw(&window));
	CALL(ibv_inc_rkey(0x12345600));
	CALL(ibv_inc_rkey(0x123456ff));
	CALL(ibv_inc_rkey(0xffffffff));
	for (int bits = 0; bits < 32; bits++) {
		window.type = bits & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
		bind_request.bind_info.mr = bits & 2 ? &region : NULL;
		bind_request.bind_info.addr = bits & 4 ? 0x1000 : 0;
		bind_request.bind_info.length = bits & 8 ? 0x10 : 0;
		region.pd = bits & 16 ? &pd : &other_pd;
		printf("bind %d\n", bits);
		CALL(ibv_bind_mw(&qp, &window, &bind_request));
	}
	CALL(ibv_memcpy_to_dm(&dm, 1, P(2), 3));
	CALL(ibv_memcpy_from_dm(P(1), &dm, 2, 3));
}

static void data(void)
{
	CALL(ibv_poll_cq(&cq, 5, P(0x10)));
	CALL(ibv_req_notify_cq(&cq, 1));
	CALL(ibv_post_srq_recv(&srq, P(0x10), P(0x20)));
	CALL(ibv_post_send(&qp, P(0x10), P(0x20)));
	CALL(ibv_post_recv(&qp, P(0x10), P(0x20)));
	CALL(ibv_post_wq_recv(&wq, P(0x10), P(0x20)));
	CALL(ibv_cq_ex_to_cq(&cq_ex));

	CALL(ibv_start_poll(&cq_ex, P(0x10)));
	CALL(ibv_next_poll(&cq_ex));
	CALL_VOID(ibv_end_poll(&cq_ex));
	answer = 0x123456789abcdef0;
	CALL(ibv_wc_read_opcode(&cq_ex));
	CALL(ibv_wc_read_vendor_err(&cq_ex));
	CALL(ibv_wc_read_byte_len(&cq_ex));
	CALL(ibv_wc_read_imm_data(&cq_ex));
	CALL(ibv_wc_read_invalidated_rkey(&cq_ex));
	CALL(ibv_wc_read_qp_num(&cq_ex));
	CALL(ibv_wc_read_src_qp(&cq_ex));
	CALL(ibv_wc_read_wc_flags(&cq_ex));
	CALL(ibv_wc_read_slid(&cq_ex));
	CALL(ibv_wc_read_sl(&cq_ex));
	CALL(ibv_wc_read_dlid_path_bits(&cq_ex));
	CALL(ibv_wc_read_completion_ts(&cq_ex));
	CALL(ibv_wc_read_completion_wallclock_ns(&cq_ex));
	CALL(ibv_wc_read_cvlan(&cq_ex));
	CALL(ibv_wc_read_flow_tag(&cq_ex));
	CALL_VOID(ibv_wc_read_tm_info(&cq_ex, P(0x10)));
	answer = 0x123;

	CALL_VOID(ibv_wr_start(&qp_ex));
	CALL_VOID(ibv_wr_atomic_cmp_swp(&qp_ex, 1, 2, 3, 4));
	CALL_VOID(ibv_wr_atomic_fetch_add(&qp_ex, 1, 2, 3));
	CALL_VOID(ibv_wr_atomic_write(&qp_ex, 1, 2, P(3)));
#if RELEASE >= 45
	if (release >= 45)
		CALL_VOID(ibv_wr_flush(&qp_ex, 1, 2, 3, 4, 5));
#endif
	CALL_VOID(ibv_wr_bind_mw(&qp_ex, &window, 1, P(2)));
	CALL_VOID(ibv_wr_local_inv(&qp_ex, 1));
	CALL_VOID(ibv_wr_rdma_read(&qp_ex, 1, 2));
	CALL_VOID(ibv_wr_rdma_write(&qp_ex, 1, 2));
	CALL_VOID(ibv_wr_rdma_write_imm(&qp_ex, 1, 2, 3));
	CALL_VOID(ibv_wr_send(&qp_ex));
	CALL_VOID(ibv_wr_send_imm(&qp_ex, 1));
	CALL_VOID(ibv_wr_send_inv(&qp_ex, 1));
	CALL_VOID(ibv_wr_send_tso(&qp_ex, P(1), 2, 3));
	CALL_VOID(ibv_wr_set_ud_addr(&qp_ex, P(1), 2, 3));
	CALL_VOID(ibv_wr_set_xrc_srqn(&qp_ex, 1));
	CALL_VOID(ibv_wr_set_inline_data(&qp_ex, P(1), 2));
	CALL_VOID(ibv_wr_set_inline_data_list(&qp_ex, 1, P(2)));
	CALL_VOID(ibv_wr_set_sge(&qp_ex, 1, 2, 3));
	CALL_VOID(ibv_wr_set_sge_list(&qp_ex, 1, P(2)));
	CALL(ibv_wr_complete(&qp_ex));
	CALL_VOID(ibv_wr_abort(&qp_ex));
}

int main(int argc, char **argv)
{
	release = argc > 1 ? atoi(argv[1]) : RELEASE;
	answer = 0x123;
	pd.context = cq.context = srq.context = qp.context = wq.context = dm.context = td.context = xrcd.context =
		flow.context = action.context = counters.context = table.context = window.context = CONTEXT;
	window.pd = &pd;
#define FILL(name, widths) INSTALL(extended.context.ops, name);
	DATA_OPERATIONS(FILL)
#undef FILL
#define FILL(name, widths) INSTALL(cq_ex, name);
	POLL_OPERATIONS(FILL)
#undef FILL
#define FILL(name, widths) INSTALL(qp_ex, name);
	SEND_OPERATIONS(FILL)
#undef FILL
	INSTALL(dm, memcpy_to_dm);
	INSTALL(dm, memcpy_from_dm);
	*(uintptr_t *)&wq.post_recv = (uintptr_t)wq_post_recv_recorder;

	control();
	memory(1);
	data();

	CALL(ibv_query_gid_ex(CONTEXT, 1, 2, &entry, 3));
	CALL(ibv_query_gid_table(CONTEXT, &entry, 4, 5));
	for (unsigned int type = 0; type < 12; type++)
		CALL(ibv_is_qpt_supported(0x31c, (enum ibv_qp_type)type));
	for (uint32_t label = 1; label < 1u << 24; label *= 3) {
		CALL(ibv_flow_label_to_udp_sport(label));
		CALL(ibv_flow_label_to_udp_sport(~label));
	}
	extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	CALL((char *)verbs_get_ctx(CONTEXT) == (char *)&extended);
	extended.context.abi_compat = NULL;
	CALL(verbs_get_ctx(CONTEXT));
	return 0;
}
