/*
 * memory.c - a process whose memory ends within a verb.
 *
 *   memory        each verb, again and again: every allocation of it fails once by itself, and once with all that follow
 *   memory limit  everything under a limit of the address space (RLIMIT_AS) that grows by little steps
 *
 * A verb either does what it is for, or fails with ENOMEM and leaves nothing behind: what is allocated is as much as before,
 * the next try without a limit succeeds, and everything can be destroyed.
 */
#include <sys/resource.h>

#include "failing.h"

static int failed;

/* Objects that the verbs work on. */
static struct ibv_device **list;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp, *ud;
static struct endpoint a, b;
static char memory[1 << 16];

/* Verbs that make something: NULL, or what `undo` takes back. */
static void *make_list(void) { return ibv_get_device_list(NULL); }
static void undo_list(void *o) { ibv_free_device_list(o); }
static void *make_context(void) { return ibv_open_device(list[0]); }
static void undo_context(void *o) { ibv_close_device(o); }
static void *make_pd(void) { return ibv_alloc_pd(context); }
static void undo_pd(void *o) { ibv_dealloc_pd(o); }
static void *make_mr(void) { return ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE); }
static void undo_mr(void *o) { ibv_dereg_mr(o); }
static void *make_mw(void) { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); }
static void undo_mw(void *o) { ibv_dealloc_mw(o); }
static void *make_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 8192};

	return ibv_alloc_dm(context, &attr);
}
static void undo_dm(void *o) { ibv_free_dm(o); }
static void *make_channel(void) { return ibv_create_comp_channel(context); }
static void undo_channel(void *o) { ibv_destroy_comp_channel(o); }
static void *make_cq(void) { return ibv_create_cq(context, 500, NULL, channel, 0); }
static void undo_cq(void *o) { ibv_destroy_cq(o); }
static void *make_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 100, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};

	return ibv_create_cq_ex(context, &attr);
}
static void undo_cq_ex(void *o) { ibv_destroy_cq(ibv_cq_ex_to_cq(o)); }
static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {300, 4, 0}};

	return ibv_create_srq(pd, &attr);
}
static void undo_srq(void *o) { ibv_destroy_srq(o); }
static void *make_qp(void)
{
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {1000, 300, 4, 4, 200}, .qp_type = IBV_QPT_RC};

	return ibv_create_qp(pd, &attr);
}
static void *make_qp_ex(void)
{
	struct ibv_qp_init_attr_ex attr = {.send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {100, 0, 4, 0, 64},
		.qp_type = IBV_QPT_RC, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND};

	return ibv_create_qp_ex(context, &attr);
}
static void undo_qp(void *o) { ibv_destroy_qp(o); }
static void *make_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};

	return ibv_open_xrcd(context, &attr);
}
static void undo_xrcd(void *o) { ibv_close_xrcd(o); }
static void *make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = a.gid, .sgid_index = (uint8_t)gid_index()}};

	return ibv_create_ah(pd, &attr);
}
static void undo_ah(void *o) { ibv_destroy_ah(o); }
static void *make_td(void)
{
	struct ibv_td_init_attr attr = {0};

	return ibv_alloc_td(context, &attr);
}
static void undo_td(void *o) { ibv_dealloc_td(o); }
static void *make_parent(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};

	return ibv_alloc_parent_domain(context, &attr);
}

/* Verbs that change or ask: 0, or the error. They can be repeated. */
static int negative(int result) { return result ? errno : 0; }
static int query_device(void)
{
	struct ibv_device_attr attr;

	return ibv_query_device(context, &attr);
}
static int query_gid(void)
{
	union ibv_gid gid;

	return negative(ibv_query_gid(context, 1, 1, &gid));
}
static int resize_cq(void)
{
	int error = ibv_resize_cq(cq, 3000);

	return error ? error : ibv_resize_cq(cq, 30);
}
static int resize_srq(void)
{
	struct ibv_srq_attr attr = {.max_wr = 2000};
	int error = ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);

	attr.max_wr = 10;
	return error ? error : ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}
static int modify_qp(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);

	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
	return error ? error : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}
static int query_qp(void)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
}
static int attach_mcast(void)
{
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
	int error = ibv_attach_mcast(ud, &group, 0);

	return error ? error : ibv_detach_mcast(ud, &group, 0);
}
/* A message with its events, and one that is large. */
static int message(void)
{
	struct ibv_wc wc;

	for (uint32_t length = 64; length <= 8192; length *= 128)
		if (post_recv(&b, 1, 0, length) || post_send(&a, 2, 0, length) || !next_wc(a.send_cq, &wc) || wc.status ||
		    !next_wc(b.recv_cq, &wc) || wc.status)
			return EIO;
	return 0;
}
static int notify(void) { return ibv_req_notify_cq(b.recv_cq, 0); }

struct verb {
	const char *name;
	void *(*make)(void);
	void (*undo)(void *);
	int (*call)(void);
};

static const struct verb VERBS[] = {
	{"ibv_get_device_list", make_list, undo_list, NULL},
	{"ibv_open_device", make_context, undo_context, NULL},
	{"ibv_alloc_pd", make_pd, undo_pd, NULL},
	{"ibv_reg_mr", make_mr, undo_mr, NULL},
	{"ibv_alloc_mw", make_mw, undo_mw, NULL},
	{"ibv_alloc_dm", make_dm, undo_dm, NULL},
	{"ibv_create_comp_channel", make_channel, undo_channel, NULL},
	{"ibv_create_cq", make_cq, undo_cq, NULL},
	{"ibv_create_cq_ex", make_cq_ex, undo_cq_ex, NULL},
	{"ibv_create_srq", make_srq, undo_srq, NULL},
	{"ibv_create_qp", make_qp, undo_qp, NULL},
	{"ibv_create_qp_ex", make_qp_ex, undo_qp, NULL},
	{"ibv_open_xrcd", make_xrcd, undo_xrcd, NULL},
	{"ibv_create_ah", make_ah, undo_ah, NULL},
	{"ibv_alloc_td", make_td, undo_td, NULL},
	{"ibv_alloc_parent_domain", make_parent, undo_pd, NULL},
	{"ibv_query_device", NULL, NULL, query_device},
	{"ibv_query_gid", NULL, NULL, query_gid},
	{"ibv_resize_cq", NULL, NULL, resize_cq},
	{"ibv_modify_srq", NULL, NULL, resize_srq},
	{"ibv_modify_qp", NULL, NULL, modify_qp},
	{"ibv_query_qp", NULL, NULL, query_qp},
	{"ibv_attach_mcast", NULL, NULL, attach_mcast},
	{"ibv_req_notify_cq", NULL, NULL, notify},
	{"ibv_post_send", NULL, NULL, message},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What ended the verb: 0 or an error; what it made is undone, with memory still short where `undo_short`. */
static int once(const struct verb *verb, long from, long width, bool undo_short)
{
	void *made = NULL;
	int error;

	fail_calls(from, width);
	errno = 0;
	if (verb->make) {
		made = verb->make();
		error = made ? 0 : errno;
		if (!made && !error)
			error = -1;
	} else {
		error = verb->call();
	}
	if (made && undo_short)
		verb->undo(made);
	atomic_store(&fail_from, -1);
	if (made && !undo_short)
		verb->undo(made);
	return error;
}

static long refused, tried;

/* Fails the calls from `from` on, `width` of them, for each `from` until the verb makes no more calls than that. */
static void sweep(const struct verb *verb, long width, bool undo_short)
{
	for (long from = 0; from < 3000; from++) {
		int error = once(verb, from, width, undo_short);
		bool reached = atomic_load(&calls) > from;

		tried++;
		refused += error != 0;
		if (error && error != ENOMEM) {
			printf("FAIL %s: allocation %ld gives error %d\n", verb->name, from, error);
			failed++;
		}
		error = once(verb, -1, 0, false);
		if (error) {
			printf("FAIL %s: after allocation %ld, error %d with memory\n", verb->name, from, error);
			failed++;
			return;
		}
		if (!reached)
			return;
	}
	printf("FAIL %s: no end\n", verb->name);
	failed++;
}

static void each_allocation(void)
{
	for (size_t i = 0; i < COUNT(VERBS); i++) {
		const struct verb *verb = &VERBS[i];
		long before = 0;

		/* What stays is there before it is counted: tables that have grown, and numbers that rest until they are used
		   again. */
		for (int n = 0; n < 300; n++)
			once(verb, -1, 0, false);
		for (int round = 0; round < 2; round++) {
			if (round)
				before = atomic_load(&used);
			sweep(verb, 1, false);
			sweep(verb, 1 << 20, false);
			sweep(verb, 1 << 20, true);
		}
		if (atomic_load(&used) > before + 8) {
			printf("FAIL %s: leaves %ld allocations\n", verb->name, atomic_load(&used) - before);
			failed++;
		}
		if (message()) {
			printf("FAIL %s: queue pairs do not work any more\n", verb->name);
			failed++;
		}
	}
}

/* Nothing was opened before: everything is made for the first time, in a child for each allocation. */
static void first_opening(long width)
{
	for (long from = 0; from < 3000; from++) {
		int status;
		pid_t pid;

		fflush(stdout);
		if (!(pid = fork())) {
			struct ibv_device **all;
			struct ibv_context *first = NULL;

			alarm(250); /* ends a child that hangs */
			fail_calls(from, width);
			errno = 0;
			all = ibv_get_device_list(NULL);
			if (all && all[0]) {
				errno = 0;
				first = ibv_open_device(all[0]);
			}
			int error = errno;
			bool reached = atomic_load(&calls) > from;
			atomic_store(&fail_from, -1);
			if (!first && error != ENOMEM && (!all || all[0])) {
				printf("FAIL first opening: allocation %ld gives error %d\n", from, error);
				fflush(stdout);
				_exit(1);
			}
			endpoint_open(&a, "rxe0");
			endpoint_close(&a);
			_exit(reached ? 0 : 3);
		}
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
			return;
		tried++;
		if (status) {
			printf("FAIL first opening: allocation %ld ends the process with %#x\n", from, status);
			failed++;
		}
	}
}

/* Pages of address space that the process has now. */
static long address_space(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld", &pages) != 1)
		fail("/proc/self/statm");
	fclose(f);
	return pages * 4096;
}

static void under_a_limit(void)
{
	struct rlimit before, limit;

	getrlimit(RLIMIT_AS, &before);
	for (long more = 0; more < (4 << 20); more += more < (1 << 18) ? 4096 : 1 << 16) {
		void *made[COUNT(VERBS)][20];
		size_t counts[COUNT(VERBS)] = {0};

		limit = before;
		limit.rlim_cur = (rlim_t)(address_space() + more);
		setrlimit(RLIMIT_AS, &limit);
		for (size_t i = 0; i < COUNT(VERBS); i++) {
			const struct verb *verb = &VERBS[i];

			while (verb->make && counts[i] < COUNT(made[i])) {
				errno = 0;
				if (!(made[i][counts[i]] = verb->make())) {
					tried++;
					refused++;
					if (errno != ENOMEM) {
						int error = errno;
						setrlimit(RLIMIT_AS, &before);
						printf("FAIL %s under %ld bytes more: error %d\n", verb->name, more, error);
						setrlimit(RLIMIT_AS, &limit);
						failed++;
					}
					break;
				}
				counts[i]++;
			}
		}
		for (size_t i = COUNT(VERBS); i-- > 0;)
			while (counts[i] > 0)
				VERBS[i].undo(made[i][--counts[i]]);
		setrlimit(RLIMIT_AS, &before);
		if (message()) {
			printf("FAIL queue pairs do not work any more under %ld bytes more\n", more);
			failed++;
		}
	}
	if (!refused) {
		printf("FAIL no limit was reached\n");
		failed++;
	}
}

int main(int argc, char **argv)
{
	alarm(280); /* ends a hang */
	setvbuf(stdout, NULL, _IOLBF, 0);
	bool limited = argc > 1 && !strcmp(argv[1], "limit");

	if (!limited) {
		first_opening(1);
		first_opening(1 << 20);
	}
	b.with_channel = true;
	open_pair(&a, &b, "rxe0", "rxe0");
	list = ibv_get_device_list(NULL);
	context = open_device("rxe0");
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = make_cq();
	srq = make_srq();
	qp = make_qp();
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	ud = ibv_create_qp(pd, &init);
	if (!list || !ud || !pd || !channel || !cq || !srq || !qp || message())
		fail("objects to work with");
	if (!limited)
		each_allocation();
	else
		under_a_limit();
	if (ibv_destroy_qp(ud) || ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_destroy_comp_channel(channel) ||
	    ibv_dealloc_pd(pd) || ibv_close_device(context)) {
		printf("FAIL not everything could be destroyed\n");
		failed++;
	}
	endpoint_close(&a);
	endpoint_close(&b);
	printf("%ld tries, %ld refused, %d failed\n", tried, refused, failed);
	return failed != 0;
}
