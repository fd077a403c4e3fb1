#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	struct ibv_mr *to = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory + 8192, 4096, 0);
	NEED(to && mr);
	NEED(post_send(part(mr, 0, 1000), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, to) == 0);
	if (right)
		await();
	memory[8192 + 500] = 1;
	if (!right)
		await();
	close_pair();
	NEED(ibv_dereg_mr(to) == 0 && ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
