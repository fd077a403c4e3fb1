/*
 * posts.c - nanoseconds that a call of the data path takes: the least average of batches, so that what else the machine does
 * counts little.
 *
 *   posts      lines "CALL NANOSECONDS": a receive request, an RDMA write of 8 bytes, a poll that finds one completion
 */
#include "../soft/connections.h"
#include "../soft/measured.h"

enum { BATCHES = 4000, BATCH = 32, SIZE = 8 };

static double least(double least, double begun)
{
	double each = (now() - begun) / BATCH;

	return least == 0 || each < least ? each : least;
}

int main(void)
{
	static unsigned char memory[2 * SIZE];
	struct ibv_sge sge = {(uintptr_t)memory, SIZE, 0};
	struct ibv_send_wr write = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1};
	struct ibv_send_wr *bad_write;
	struct ibv_recv_wr *bad_receive;
	double receives = 0, writes = 0, polls = 0, begun;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	settle(0);
	open_side(2 * BATCH);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		fail("region");
	sge.lkey = mr->lkey;
	write.wr.rdma.remote_addr = (uintptr_t)memory + SIZE;
	write.wr.rdma.rkey = mr->rkey;
	create(1, BATCH, BATCH);
	connect_all(-1, 1);
	for (int batch = 0; batch < BATCHES; batch++) {
		begun = now();
		for (int i = 0; i < BATCH; i++)
			if (ibv_post_send(pair[0].qp, &write, &bad_write))
				fail("post");
		writes = least(writes, begun);
		begun = now();
		for (int i = 0; i < BATCH; i++)
			if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.status)
				fail("completion");
		polls = least(polls, begun);
	}
	/* Each batch of a queue pair of its own: nothing comes to take them. */
	for (int batch = 0; batch < BATCHES / 8; batch++) {
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, init = {.qp_state = IBV_QPS_INIT, .port_num = PORT};

		if (ibv_modify_qp(pair[0].qp, &reset, IBV_QP_STATE) ||
		    ibv_modify_qp(pair[0].qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
			fail("reset");
		begun = now();
		for (int i = 0; i < BATCH; i++)
			if (ibv_post_recv(pair[0].qp, &receive, &bad_receive))
				fail("receive");
		receives = least(receives, begun);
	}
	printf("ibv_post_recv %.0f\nibv_post_send %.0f\nibv_poll_cq %.0f\n", receives, writes, polls);
	return 0;
}
