/*
 * ours_only_domains.c - thread domains and parent domains, which rdma-core's soft-RoCE provider has not.
 *
 * Proves: what is refused, and with which number; that a domain in use stays (EBUSY) and a parent domain is as good as
 * the protection domain that it stands for: every object is made under it, in every mix of the two, and traffic runs
 * over RC, UD, a shared receive queue, builders and extended polling, also while other threads run.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "setup.h"

static struct ibv_context *c;

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)pd, (void)context, (void)size, (void)alignment, (void)type;
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void release(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	(void)pd, (void)context, (void)p, (void)type;
}

static void rules(void)
{
	struct ibv_pd *pd = CALL_PTR(ibv_alloc_pd(c));
	struct ibv_td_init_attr td_init = {.comp_mask = 1};
	struct ibv_parent_domain_init_attr init = {.comp_mask = 0};

	CALL_PTR(ibv_alloc_td(c, &td_init));
	td_init.comp_mask = 0;
	struct ibv_td *td = CALL_PTR(ibv_alloc_td(c, &td_init));
	CHECK(td->context == c);
	CALL_PTR(ibv_alloc_parent_domain(c, &init)); /* no protection domain */
	init.td = td;
	CALL_PTR(ibv_alloc_parent_domain(c, &init));
	init.pd = pd;
	init.comp_mask = 8;
	CALL_PTR(ibv_alloc_parent_domain(c, &init));
	CALL_INT(ibv_dealloc_td(td)); /* none of those counts */
	init.td = NULL;
	init.comp_mask = 4; /* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of newer headers */
	struct ibv_pd *newer = CALL_PTR(ibv_alloc_parent_domain(c, &init));
	CALL_INT(ibv_dealloc_pd(newer));

	td = CALL_PTR(ibv_alloc_td(c, &td_init));
	init.td = td;
	init.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	init.alloc = allocate;
	init.free = release;
	init.pd_context = &init;
	struct ibv_pd *with = CALL_PTR(ibv_alloc_parent_domain(c, &init));
	init.td = NULL;
	init.comp_mask = 0;
	struct ibv_pd *without = CALL_PTR(ibv_alloc_parent_domain(c, &init));
	CHECK(with->context == c && with->handle == pd->handle && with != pd);
	CHECK(without->handle == pd->handle && without != with);
	CALL_INT(ibv_dealloc_td(td));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_dealloc_pd(with));
	CALL_INT(ibv_dealloc_td(td));
	CALL_INT(ibv_dealloc_pd(pd)); /* the other parent domain */
	init.pd = without;
	struct ibv_pd *above = CALL_PTR(ibv_alloc_parent_domain(c, &init));
	CHECK(above->handle == pd->handle);
	CALL_INT(ibv_dealloc_pd(without));
	CALL_INT(ibv_dealloc_pd(above));
	CALL_INT(ibv_dealloc_pd(without));
	CALL_INT(ibv_dealloc_pd(pd));
}

static void objects(struct ibv_pd *pd, struct ibv_pd *parent)
{
	static unsigned char memory[4096];
	union ibv_gid gid;
	struct ibv_ah_attr to = {.is_global = 1, .port_num = PORT, .grh = {.sgid_index = GID_INDEX, .hop_limit = 64}};
	struct ibv_cq *cq = ibv_create_cq(c, 8, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq_init = {.attr = {4, 1, 0}};

	if (ibv_query_gid(c, PORT, GID_INDEX, &gid))
		die("gid");
	to.grh.dgid = gid;
	struct ibv_mr *mr = CALL_PTR(ibv_reg_mr(parent, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
	struct ibv_mw *mw = CALL_PTR(ibv_alloc_mw(parent, IBV_MW_TYPE_2));
	struct ibv_ah *ah = CALL_PTR(ibv_create_ah(parent, &to));
	struct ibv_srq *srq = CALL_PTR(ibv_create_srq(parent, &srq_init));
	struct ibv_qp *qp = CALL_PTR(ibv_create_qp(parent, &qp_init));
	CHECK(mr->pd == parent && mw->pd == parent && ah->pd == parent && srq->pd == parent && qp->pd == parent);
	CALL_INT(ibv_dealloc_pd(pd)); /* the parent domain */
	CALL_INT(ibv_destroy_qp(qp));
	CALL_INT(ibv_destroy_srq(srq));
	CALL_INT(ibv_destroy_ah(ah));
	CALL_INT(ibv_dealloc_mw(mw));
	CALL_INT(ibv_dereg_mr(mr));
	CALL_INT(ibv_destroy_cq(cq));
}

static atomic_bool over;

static void *idle(void *unused)
{
	(void)unused;
	while (!over)
		usleep(1000);
	return NULL;
}

/* Sends and receives between two ends made under the domain; completions arrive in an extended queue of it. */
static void traffic(const char *name, struct ibv_pd *pd, enum ibv_qp_type type, bool builders, bool shared)
{
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 64,
					      .wc_flags = IBV_WC_STANDARD_FLAGS,
					      .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					      .parent_domain = pd};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(c, &cq_init);
	struct ibv_srq_init_attr srq_init = {.attr = {32, 1, 0}};
	struct endpoint e = {.type = type,
			     .srq = shared ? ibv_create_srq(pd, &srq_init) : NULL,
			     .send_ops_flags = builders ? IBV_QP_EX_WITH_SEND : 0};
	struct ibv_ah *ah = NULL;
	unsigned char want[64];

	if (!cq || (shared && !e.srq))
		die("queues: %s", errno_name(errno));
	endpoint_open_on(&e, c, pd);
	/* The queue pair reports receives to the extended queue. */
	struct ibv_qp_init_attr_ex init = {.send_cq = e.send_cq,
					   .recv_cq = ibv_cq_ex_to_cq(cq),
					   .srq = e.srq,
					   .cap = e.cap,
					   .qp_type = type,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = pd,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	if (ibv_destroy_qp(e.qp) || !(e.qp = ibv_create_qp_ex(c, &init)))
		die("queue pair: %s", errno_name(errno));
	ready(&e, &e.gid, e.qp->qp_num);
	if (type == IBV_QPT_UD) {
		struct ibv_ah_attr to = {.is_global = 1,
					 .port_num = PORT,
					 .grh = {.dgid = e.gid, .sgid_index = GID_INDEX, .hop_limit = 64}};

		ah = ibv_create_ah(pd, &to);
	}
	note("%s", name);
	pattern(want, sizeof(want), 5);
	memcpy(e.buffer + 4096, want, sizeof(want));
	int received = 0, intact = 0;
	for (int i = 0; i < 200; i++) {
		struct ibv_sge in = {(uintptr_t)e.buffer, 256, e.mr->lkey}, out = {(uintptr_t)e.buffer + 4096, 64, e.mr->lkey};
		struct ibv_recv_wr recv = {.wr_id = i, .sg_list = &in, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr send = {.wr_id = i, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
				   *bad_send;
		struct ibv_poll_cq_attr poll = {0};
		struct ibv_wc wc;
		uint64_t hang = now_ms() + HANG_MS;
		int ret;

		memset(e.buffer, 0, 256);
		if (shared ? ibv_post_srq_recv(e.srq, &recv, &bad_recv) : ibv_post_recv(e.qp, &recv, &bad_recv))
			die("receive");
		if (ah) {
			send.wr.ud.ah = ah;
			send.wr.ud.remote_qpn = e.qp->qp_num;
			send.wr.ud.remote_qkey = QKEY;
		}
		if (builders) {
			struct ibv_qp_ex *q = ibv_qp_to_qp_ex(e.qp);

			ibv_wr_start(q);
			q->wr_id = i;
			q->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_send(q);
			if (ah)
				ibv_wr_set_ud_addr(q, ah, e.qp->qp_num, QKEY);
			ibv_wr_set_sge(q, e.mr->lkey, out.addr, out.length);
			if (ibv_wr_complete(q))
				die("builders");
		} else if (ibv_post_send(e.qp, &send, &bad_send)) {
			die("send");
		}
		if (!next_wc(e.send_cq, &wc) || wc.status != IBV_WC_SUCCESS)
			die("send completion");
		while ((ret = ibv_start_poll(cq, &poll)) == ENOENT && now_ms() < hang)
			;
		if (ret)
			die("poll = %d", ret);
		received += cq->wr_id == (uint64_t)i && cq->status == IBV_WC_SUCCESS;
		ibv_end_poll(cq);
		intact += !memcmp(e.buffer + (ah ? 40 : 0), want, sizeof(want));
	}
	note("    %d received, %d intact", received, intact);
	if ((ah && ibv_destroy_ah(ah)) || ibv_destroy_qp(e.qp) || (e.srq && ibv_destroy_srq(e.srq)) || ibv_dereg_mr(e.mr) ||
	    ibv_destroy_cq(e.send_cq) || ibv_destroy_cq(e.recv_cq) || ibv_destroy_cq(ibv_cq_ex_to_cq(cq)))
		die("closing");
	free(e.buffer);
}

static void all_traffic(struct ibv_pd *pd)
{
	traffic("connected", pd, IBV_QPT_RC, false, false);
	traffic("connected, builders", pd, IBV_QPT_RC, true, false);
	traffic("connected, shared receives", pd, IBV_QPT_RC, true, true);
	traffic("datagrams", pd, IBV_QPT_UD, false, false);
	traffic("datagrams, builders", pd, IBV_QPT_UD, true, false);
}

int main(void)
{
	struct ibv_td_init_attr td_init = {.comp_mask = 0};
	pthread_t thread;

	begin();
	c = open_device("rxe0");
	rules();

	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_td *td = ibv_alloc_td(c, &td_init);
	struct ibv_parent_domain_init_attr init = {.pd = pd, .td = td};
	struct ibv_pd *parent = CALL_PTR(ibv_alloc_parent_domain(c, &init));
	init.td = NULL;
	struct ibv_pd *bare = CALL_PTR(ibv_alloc_parent_domain(c, &init));
	objects(pd, parent);
	objects(pd, bare);
	note("one thread");
	all_traffic(parent);
	all_traffic(bare);
	note("beside another thread");
	if (pthread_create(&thread, NULL, idle, NULL))
		die("thread");
	all_traffic(parent);
	all_traffic(bare);
	over = true;
	pthread_join(thread, NULL);
	CALL_INT(ibv_dealloc_pd(bare));
	CALL_INT(ibv_dealloc_pd(parent));
	CALL_INT(ibv_dealloc_td(td));
	CALL_INT(ibv_dealloc_pd(pd));
	CALL_INT(ibv_close_device(c));
	return end();
}
