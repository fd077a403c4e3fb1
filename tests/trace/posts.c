/*
 * posts.c - posts to queue pairs of a device whose kernel carries nothing out, each way that there is, and polls what
 * never comes.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(what) do { if (!(what)) { printf("failed: %s: %s\n", #what, strerror(errno)); exit(1); } } while (0)

static char memory[4096];

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	NEED(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	NEED(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	NEED(pd);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	struct ibv_cq_init_attr_ex wanted = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &wanted);
	NEED(cq);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 16 },
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
	NEED(qp);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = 17 };
		NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
	}
	struct ibv_sge sge = { (uintptr_t)memory, 64, mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad_receive;
	printf("post_recv %d\n", ibv_post_recv(qp, &receive, &bad_receive));
	struct ibv_send_wr second = {
		.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	}, first = {
		.wr_id = 2, .next = &second, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = 0x1000, .rkey = 0x77 },
	}, *bad_send;
	printf("post_send %d\n", ibv_post_send(qp, &first, &bad_send));
	if (!getenv("IRONVERBS_PLUGINS")) { /* rdma-core's plugin reads the list before it refuses it */
		second.num_sge = 1000; /* more than the device takes; the list has one */
		printf("post_send %d\n", ibv_post_send(qp, &first, &bad_send));
		printf("refused %d\n", bad_send == &second);
	}
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);
	NEED(extended);
	ibv_wr_start(extended);
	extended->wr_id = 4;
	extended->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(extended, 0x78, 0x2000);
	ibv_wr_set_sge(extended, mr->lkey, (uintptr_t)memory, 32);
	printf("wr_complete %d\n", ibv_wr_complete(extended));
	struct ibv_poll_cq_attr poll = { 0 };
	printf("start_poll %d\n", ibv_start_poll(cq, &poll));
	struct ibv_wc wc;
	for (int i = 0; i < 1000; i++)
		NEED(ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) == 0);
	printf("req_notify_cq %d\n", ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0));
	NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && ibv_dereg_mr(mr) == 0);
	NEED(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	return 0;
}
