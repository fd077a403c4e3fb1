#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	struct ibv_mr wrong = *mr;
	wrong.rkey ^= 0x5a5a00;
	for (int n = 0; n < 3; n++) {
		if (post_send(part(mr, 0, 8), IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, n ? mr : &wrong))
			break;
		if (await().status != IBV_WC_SUCCESS && right)
			break;
	}
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
