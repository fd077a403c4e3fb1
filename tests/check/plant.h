/*
 * plant.h - what the programs of this folder begin with: two connected queue pairs of one process on the software device.
 *
 * Each program breaks the rule whose name it has; with the argument "right" it does the same as it should be done.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEED(what) do { \
	if (!(what)) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno)); exit(1); } \
} while (0)

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *near_qp, *far_qp;
static char memory[65536] __attribute__((aligned(4096), unused));
static int right;
/* What a program may change before connect_pair(). */
static struct ibv_qp_cap cap = {
	.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64,
};
static int near_depth = 4, far_depth = 4, signals_all, rnr_retry = 7;

static inline void open_device(int argc, char **argv)
{
	right = argc > 1 && !strcmp(argv[1], "right");
	struct ibv_device **list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	context = ibv_open_device(list[0]);
	NEED(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	NEED(pd);
}

static inline struct ibv_qp *make_qp(struct ibv_pd *domain)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC, .sq_sig_all = signals_all,
	};
	struct ibv_qp *qp = ibv_create_qp(domain, &attr);
	NEED(qp);
	return qp;
}

static inline void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS };
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

static inline void to_rtr(struct ibv_qp *qp, uint32_t peer, int depth)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = depth,
		.min_rnr_timer = 1, .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } },
	};
	NEED(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
}

static inline void to_rts(struct ibv_qp *qp, int depth)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = rnr_retry, .max_rd_atomic = depth,
	};
	NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			   IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static inline void connect_pair(void)
{
	if (!cq)
		NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	if (!near_qp)
		near_qp = make_qp(pd);
	far_qp = make_qp(pd);
	to_init(near_qp);
	to_init(far_qp);
	to_rtr(near_qp, far_qp->qp_num, near_depth);
	to_rtr(far_qp, near_qp->qp_num, far_depth);
	to_rts(near_qp, near_depth);
	to_rts(far_qp, far_depth);
}

static inline int post_send(struct ibv_sge sge, int opcode, int flags, struct ibv_mr *to)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
		.wr.rdma = { .remote_addr = to ? (uintptr_t)to->addr : 0, .rkey = to ? to->rkey : 0 },
	}, *bad;
	return ibv_post_send(near_qp, &wr, &bad);
}

static inline int post_receive(struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;
	return ibv_post_recv(far_qp, &wr, &bad);
}

static inline struct ibv_sge part(struct ibv_mr *mr, size_t from, uint32_t length)
{
	return (struct ibv_sge) { .addr = (uintptr_t)mr->addr + from, .length = length, .lkey = mr->lkey };
}

static inline struct ibv_wc await(void)
{
	struct ibv_wc wc;
	int got;
	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		;
	NEED(got == 1);
	return wc;
}

static inline void close_pair(void)
{
	if (near_qp)
		NEED(ibv_destroy_qp(near_qp) == 0);
	if (far_qp)
		NEED(ibv_destroy_qp(far_qp) == 0);
	if (cq)
		NEED(ibv_destroy_cq(cq) == 0);
}

static inline void close_device(void)
{
	NEED(ibv_dealloc_pd(pd) == 0);
	NEED(ibv_close_device(context) == 0);
}
