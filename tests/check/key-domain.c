#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	struct ibv_pd *other = ibv_alloc_pd(context);
	NEED(other);
	struct ibv_mr *mr = ibv_reg_mr(right ? pd : other, memory, 4096, ALL_ACCESS);
	NEED(mr);
	if (post_send(part(mr, 0, 64), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, mr) == 0)
		await();
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(other) == 0);
	close_device();
	return 0;
}
