#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	NEED(channel);
	NEED(cq = ibv_create_cq(context, 64, NULL, channel, 0));
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	NEED(ibv_req_notify_cq(cq, 0) == 0);
	NEED(post_send(part(mr, 0, 8), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr) == 0);
	struct ibv_cq *of;
	void *cq_context;
	NEED(ibv_get_cq_event(channel, &of, &cq_context) == 0 && of == cq);
	await();
	if (right)
		ibv_ack_cq_events(cq, 1);
	else
		/* The call waits for ever. */
		alarm(2);
	close_pair();
	NEED(ibv_destroy_comp_channel(channel) == 0);
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
