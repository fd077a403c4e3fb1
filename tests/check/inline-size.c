#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	NEED(cq = ibv_create_cq(context, 64, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = IBV_QPT_RC };
	near_qp = ibv_create_qp(pd, &attr);
	NEED(near_qp);
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS);
	NEED(mr);
	uint32_t length = attr.cap.max_inline_data + !right;
	if (post_send(part(mr, 0, length), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE, mr) == 0)
		await();
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
