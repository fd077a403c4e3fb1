#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	if (post_send(part(mr, 4032, right ? 64 : 65), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr) == 0)
		await();
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
