/*
 * program.c - linked with libibverbs.a: a write over a pair of queue pairs on the software device.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#define NEED(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			printf("line %d: %s\n", __LINE__, #condition);                                                 \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

static int connect(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};

	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
				    .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 1}}};
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC));
	return 0;
}

int main(void)
{
	static char source[64] = "by a static link", target[64];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *from, *to;
	struct ibv_qp *qp[2];
	union ibv_gid gid;
	struct ibv_wc wc;
	int got = 0;

	NEED(list && list[0]);
	NEED(c = ibv_open_device(list[0]));
	NEED(pd = ibv_alloc_pd(c));
	NEED(cq = ibv_create_cq(c, 4, NULL, NULL, 0));
	NEED(from = ibv_reg_mr(pd, source, sizeof source, IBV_ACCESS_LOCAL_WRITE));
	NEED(to = ibv_reg_mr(pd, target, sizeof target, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	NEED(!ibv_query_gid(c, 1, 1, &gid));
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	for (int i = 0; i < 2; i++)
		NEED(qp[i] = ibv_create_qp(pd, &init));
	for (int i = 0; i < 2; i++)
		NEED(!connect(qp[i], qp[!i]->qp_num, &gid));
	struct ibv_sge sge = {.addr = (uintptr_t)source, .length = sizeof source, .lkey = from->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
				 .wr.rdma = {.remote_addr = (uintptr_t)target, .rkey = to->rkey}}, *bad;
	NEED(!ibv_post_send(qp[0], &wr, &bad));
	while (!got)
		got = ibv_poll_cq(cq, 1, &wc);
	NEED(got == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(source, target));
	for (int i = 0; i < 2; i++)
		NEED(!ibv_destroy_qp(qp[i]));
	NEED(!ibv_dereg_mr(from) && !ibv_dereg_mr(to) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(c));
	ibv_free_device_list(list);
	puts("written");
	return 0;
}
