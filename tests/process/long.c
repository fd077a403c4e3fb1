/*
 * long.c - a process whose memory ends anywhere in a long run.
 *
 *   long [KIND...]   thousands of objects of each kind are made and stay, and each allocation on the way fails: in one
 *                    process with all that follow, in another with the next, in a third by itself. Then all are destroyed
 *                    while there is no memory at all
 *
 * What short runs do not reach are tables that grow when they are full: each allocation of a verb fails in turn before the
 * verb's object is there for good, so that none of these is left out. A verb that fails says ENOMEM and has changed nothing:
 * the next try succeeds. Each process has one kind, messages pass there afterwards, and nothing is left over. Other
 * processes fail other allocations, since what has grown once does not grow again; the next one is what is asked for where
 * memory cannot be made larger in its place.
 */
#include <dlfcn.h>
#include <sys/resource.h>

#include "failing.h"

#define MOST 6000
#define ALL (1L << 40)

static long tried, refused, failed;
static const char *kind_name;

/* Objects that those of a kind are made with. */
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static struct ibv_srq *srq;
static struct ibv_xrcd *xrcd;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_qp_ex *builder;
static struct endpoint a, b;
static char memory[1 << 12];
static void *objects[MOST], *others[MOST];

struct ibv_comp_cntr;
static struct ibv_comp_cntr *counter;
static struct ibv_comp_cntr *(*create_counter)(struct ibv_context *, void *);
static int (*destroy_counter)(struct ibv_comp_cntr *);
static int (*attach_counter)(struct ibv_qp *, struct ibv_comp_cntr *, void *);

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...)
{
	va_list args;

	fail_calls(-1, 0);
	va_start(args, format);
	printf("FAIL %s: ", kind_name);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	failed++;
}

/* A verb that answers with an error is one that answers with an object or NULL. */
static void *answer(int error)
{
	errno = error;
	return error ? NULL : memory;
}

static struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_cq *completions)
{
	struct ibv_qp_init_attr init = {.send_cq = completions, .recv_cq = completions, .cap = {2, 2, 1, 1, 0}, .qp_type = type};

	return ibv_create_qp(pd, &init);
}

static void *make_context(int n) { (void)n; return ibv_open_device(context->device); }
static int undo_context(void *o) { return ibv_close_device(o); }
static void *make_pd(int n) { (void)n; return ibv_alloc_pd(context); }
static int undo_pd(void *o) { return ibv_dealloc_pd(o); }
static void *make_mr(int n) { (void)n; return ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE); }
static int undo_mr(void *o) { return ibv_dereg_mr(o); }
static void *make_mw(int n) { return ibv_alloc_mw(pd, n & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2); }
static int undo_mw(void *o) { return ibv_dealloc_mw(o); }
static void *make_dm(int n)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};

	(void)n;
	return ibv_alloc_dm(context, &attr);
}
static int undo_dm(void *o) { return ibv_free_dm(o); }
static void *make_ah(int n)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = PORT, .grh = {.dgid = a.gid, .sgid_index = GID_INDEX}};

	(void)n;
	return ibv_create_ah(pd, &attr);
}
static int undo_ah(void *o) { return ibv_destroy_ah(o); }
static void *make_td(int n)
{
	struct ibv_td_init_attr attr = {0};

	(void)n;
	return ibv_alloc_td(context, &attr);
}
static int undo_td(void *o) { return ibv_dealloc_td(o); }
static void *make_parent(int n)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};

	(void)n;
	return ibv_alloc_parent_domain(context, &attr);
}
static void *make_cq(int n) { (void)n; return ibv_create_cq(context, 2, NULL, NULL, 0); }
static void *make_cq_of_channel(int n) { (void)n; return ibv_create_cq(context, 2, NULL, channel, 0); }
static int undo_cq(void *o) { return ibv_destroy_cq(o); }
static void *make_srq(int n)
{
	struct ibv_srq_init_attr attr = {.attr = {2, 1, 0}};

	(void)n;
	return ibv_create_srq(pd, &attr);
}
static int undo_srq(void *o) { return ibv_destroy_srq(o); }
static void *make_qp(int n) { return new_qp(n & 1 ? IBV_QPT_UD : IBV_QPT_RC, cq); }
static int undo_qp(void *o) { return ibv_destroy_qp(o); }

static union ibv_gid group(int n)
{
	return (union ibv_gid){.raw = {0xff, 0x0e, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n}};
}
/* A membership is known by its number, as a pointer. */
static void *make_member(int n)
{
	union ibv_gid gid = group(n + 1);

	return answer(ibv_attach_mcast(qp, &gid, 0)) ? (void *)(intptr_t)(n + 1) : NULL;
}
static int undo_member(void *o)
{
	union ibv_gid gid = group((int)(intptr_t)o);

	return ibv_detach_mcast(qp, &gid, 0);
}

/* XRC domains, each of a file of its own. */
static void *make_xrcd(int n)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT};

	attr.fd = (int)(intptr_t)others[n];
	return ibv_open_xrcd(context, &attr);
}
static int undo_xrcd(void *o) { return ibv_close_xrcd(o); }
static void with_files(int count)
{
	for (int n = 0; n < count; n++) {
		int fd = memfd_create("xrcd", 0);

		if (fd < 0)
			fail("a file for a domain: %s", strerror(errno));
		others[n] = (void *)(intptr_t)fd;
	}
}

/* XRC receive queues that complete in one queue, each in a protection domain of its own. */
static void *make_xrc_srq(int n)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {2, 1, 0}, .srq_type = IBV_SRQT_XRC, .pd = others[n], .xrcd = xrcd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ};

	return ibv_create_srq_ex(context, &attr);
}
static void with_pds(int count)
{
	for (int n = 0; n < count; n++)
		if (!(others[n] = ibv_alloc_pd(context)))
			fail("a protection domain");
}

/* Handles of one XRC target. */
static void *make_opened(int n)
{
	struct ibv_qp_open_attr attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qp->qp_num, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV};

	(void)n;
	return ibv_open_qp(context, &attr);
}
static void with_target(int count)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	(void)count;
	ibv_destroy_qp(qp);
	if (!(qp = ibv_create_qp_ex(context, &attr)))
		fail("an XRC target");
}

/* Queue pairs that one counter counts for. */
static void with_qps(int count)
{
	uint32_t init[3] = {0};

	if (!create_counter || !(counter = create_counter(context, init)))
		fail("a counter");
	for (int n = 0; n < count; n++)
		if (!(others[n] = new_qp(IBV_QPT_RC, cq)))
			fail("a queue pair to count");
}
static void *make_counted(int n)
{
	uint32_t attr[2] = {0, 2 /* receives */};

	return answer(attach_counter(others[n], counter, attr)) ? others[n] : NULL;
}

/* Receive requests of more elements than fit where few do. */
static struct ibv_srq *wide;
static void with_wide(int count)
{
	struct ibv_srq_init_attr attr = {.attr = {(uint32_t)count, 8, 0}};

	if (!(wide = ibv_create_srq(pd, &attr)))
		fail("a shared receive queue");
}
static void *make_posted(int n)
{
	struct ibv_sge sge[8];
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)n, .sg_list = sge, .num_sge = 8}, *bad;

	for (int i = 0; i < 8; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)memory + 8 * i, 8, mr->lkey};
	return answer(ibv_post_srq_recv(wide, &wr, &bad));
}

/* Queues of a channel whose event waits, and that are armed again. */
static void with_events(int count)
{
	for (int n = 0; n < count; n++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT};
		struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		struct ibv_cq *own = make_cq_of_channel(n);
		struct ibv_qp *pair = own ? new_qp(IBV_QPT_RC, own) : NULL;

		if (!pair || ibv_req_notify_cq(own, 0) ||
		    ibv_modify_qp(pair, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
		    ibv_post_recv(pair, &wr, &bad) || modify_to_error(pair))
			fail("a queue with an event");
		others[n] = pair;
	}
}
static void *make_armed(int n)
{
	struct ibv_qp *pair = others[n];

	return answer(ibv_req_notify_cq(pair->recv_cq, 0));
}
/* Each of them gave one event before it was armed again. */
static void count_events(int count)
{
	for (int n = 0; n < count; n++) {
		struct ibv_cq *of;
		void *cookie;

		if (!readable(channel->fd, HANG_MS) || ibv_get_cq_event(channel, &of, &cookie)) {
			wrong("%d events, not %d", n, count);
			return;
		}
		ibv_ack_cq_events(of, 1);
	}
	if (readable(channel->fd, 0))
		wrong("more than %d events", count);
}

/* A send request whose data is set again and again. */
static void with_builder(int count)
{
	struct ibv_qp_init_attr_ex attr = {.send_cq = cq, .recv_cq = cq, .cap = {2, 2, 4, 1, 256}, .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND};

	(void)count;
	if (!(builder = ibv_qp_to_qp_ex(ibv_create_qp_ex(context, &attr))))
		fail("a queue pair with builders");
	ibv_wr_start(builder);
	ibv_wr_send(builder);
}
static void *make_set(int n)
{
	struct ibv_sge list[4] = {{(uintptr_t)memory, 8, mr->lkey}, {(uintptr_t)memory, 8, mr->lkey},
				  {(uintptr_t)memory, 8, mr->lkey}, {(uintptr_t)memory, 8, mr->lkey}};
	struct ibv_data_buf pieces[2] = {{memory, 100}, {memory + 100, 100}};

	switch (n & 3) {
	case 0: ibv_wr_set_inline_data(builder, memory, 256); break;
	case 1: ibv_wr_set_sge_list(builder, 4, list); break;
	case 2: ibv_wr_set_inline_data_list(builder, 2, pieces); break;
	default: ibv_wr_set_sge(builder, mr->lkey, (uintptr_t)memory, 8);
	}
	return memory;
}
static void drop_built(int count)
{
	(void)count;
	ibv_wr_abort(builder);
}

static int still(void *o)
{
	(void)o;
	return 0;
}

struct kind {
	const char *name;
	int count;
	void (*before)(int count);
	void *(*make)(int n);
	/* What a made object, or what stands for it, is taken back by; NULL where a second time is no second object. */
	int (*undo)(void *);
	void (*after)(int count);
};

static const struct kind KINDS[] = {
	{"contexts", 60, NULL, make_context, undo_context, NULL},
	{"protection domains", MOST, NULL, make_pd, undo_pd, NULL},
	{"parent domains", MOST, NULL, make_parent, undo_pd, NULL},
	{"thread domains", MOST, NULL, make_td, undo_td, NULL},
	{"memory regions", MOST, NULL, make_mr, undo_mr, NULL},
	{"memory windows", MOST, NULL, make_mw, undo_mw, NULL},
	{"device memory", 2000, NULL, make_dm, undo_dm, NULL},
	{"address handles", MOST, NULL, make_ah, undo_ah, NULL},
	{"completion queues", 4000, NULL, make_cq, undo_cq, NULL},
	{"completion queues of a channel", 4000, NULL, make_cq_of_channel, undo_cq, NULL},
	{"shared receive queues", 4000, NULL, make_srq, undo_srq, NULL},
	{"queue pairs", 4000, NULL, make_qp, undo_qp, NULL},
	{"multicast memberships", 1024, NULL, make_member, undo_member, NULL},
	{"XRC domains", 3000, with_files, make_xrcd, undo_xrcd, NULL},
	{"XRC receive queues", 3000, with_pds, make_xrc_srq, undo_srq, NULL},
	{"handles of an XRC target", 3000, with_target, make_opened, undo_qp, NULL},
	{"queue pairs of a counter", 3000, with_qps, make_counted, NULL, NULL},
	{"receive requests", 4000, with_wide, make_posted, NULL, NULL},
	{"armed queues", 3000, with_events, make_armed, NULL, count_events},
	{"setters of a request", MOST, with_builder, make_set, still, drop_built},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The object, after each allocation on the way to it has failed, with those after it. */
static void *make_in_spite(const struct kind *kind, int n, long width)
{
	for (long from = 0; from < 3000; from++) {
		fail_calls(from, width);
		errno = 0;
		void *made = kind->make(n);
		int error = errno;
		bool reached = atomic_load(&calls) > from;
		fail_calls(-1, 0);

		tried++;
		refused += !made;
		if (!made && (!reached || error != ENOMEM)) {
			wrong("number %d, allocation %ld: error %d", n, from, error);
			return NULL;
		}
		/* What was not made is made in another try, what cannot be made twice is there. */
		if (made && (!kind->undo || !reached))
			return made;
		if (made && kind->undo(made)) {
			wrong("number %d, allocation %ld: not destroyed", n, from);
			return NULL;
		}
	}
	wrong("number %d: no end", n);
	return NULL;
}

static bool message(void)
{
	struct ibv_wc wc;

	return !post_recv(&b, 1, 0, 64) && !post_send(&a, 2, 0, 64) && next_wc(a.send_cq, &wc) && !wc.status &&
	       next_wc(b.recv_cq, &wc) && !wc.status;
}

static void run_kind(const struct kind *kind, long width)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_srq_init_attr shared = {.attr = {2, 1, 0}};
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	open_pair(&a, &b, "rxe0", "rxe0");
	context = a.context;
	pd = a.pd;
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	srq = ibv_create_srq(pd, &shared);
	xrcd = ibv_open_xrcd(context, &domain);
	qp = new_qp(IBV_QPT_UD, cq);
	create_counter = (__typeof__(create_counter))dlsym(RTLD_DEFAULT, "ibv_create_comp_cntr");
	destroy_counter = (__typeof__(destroy_counter))dlsym(RTLD_DEFAULT, "ibv_destroy_comp_cntr");
	attach_counter = (__typeof__(attach_counter))dlsym(RTLD_DEFAULT, "ibv_qp_attach_comp_cntr");
	if (!mr || !channel || !cq || !srq || !xrcd || !qp || !message())
		fail("objects to work with");
	if (kind->before)
		kind->before(kind->count);
	long before = atomic_load(&used);

	for (int round = 0; round < (kind->undo ? 2 : 1) && !failed; round++) {
		long kept;
		int made = 0;

		while (made < kind->count && (objects[made] = make_in_spite(kind, made, width)))
			made++;
		if (kind->after)
			kind->after(kind->count);
		if (!message())
			wrong("no message passes where all are made");
		/* With no memory at all. */
		fail_calls(0, ALL);
		while (kind->undo && made > 0)
			if (kind->undo(objects[--made])) {
				wrong("number %d is not destroyed without memory", made);
				break;
			}
		fail_calls(-1, 0);
		if (!message())
			wrong("no message passes where all are destroyed");
		kept = atomic_load(&used);
		if (round && kept > before + 8)
			wrong("leaves %ld allocations", kept - before);
		before = kept;
	}
	fflush(stdout);
}

static bool is_asked_for(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	static const long WIDTHS[] = {ALL, 2, 1};
	long sums[3] = {0}, processes = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < COUNT(KINDS) * COUNT(WIDTHS); i++) {
		const struct kind *kind = &KINDS[i / COUNT(WIDTHS)];
		long width = WIDTHS[i % COUNT(WIDTHS)];
		int told[2], status;
		long counts[3] = {0};
		pid_t child;

		if (!is_asked_for(kind->name, argc, argv))
			continue;
		if (pipe(told))
			fail("a pipe");
		if (!(child = fork())) {
			alarm(250); /* ends a hang */
			kind_name = kind->name;
			run_kind(kind, width);
			counts[0] = tried, counts[1] = refused, counts[2] = failed;
			_exit(write(told[1], counts, sizeof(counts)) != sizeof(counts));
		}
		close(told[1]);
		waitpid(child, &status, 0);
		if (read(told[0], counts, sizeof(counts)) != sizeof(counts) || status) {
			printf("FAIL %s, %ld at a time: the process ended with %#x\n", kind->name, width, (unsigned)status);
			counts[2]++;
		}
		close(told[0]);
		processes++;
		for (int n = 0; n < 3; n++)
			sums[n] += counts[n];
	}
	printf("%ld processes, %ld tries, %ld refused, %ld failed\n", processes, sums[0], sums[1], sums[2]);
	return sums[2] != 0 || !processes;
}
