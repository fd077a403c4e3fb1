#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	NEED(cq = ibv_create_cq(context, 1, NULL, NULL, 0));
	cap.max_send_wr = cq->cqe + 8;
	signals_all = 1;
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	for (int n = 0; n <= cq->cqe; n++) {
		if (post_send(part(mr, 0, 8), IBV_WR_RDMA_WRITE, 0, mr))
			break;
		if (right)
			await();
	}
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
