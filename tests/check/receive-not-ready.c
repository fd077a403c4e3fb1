#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	rnr_retry = 1;
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	for (int n = 0; n < 2; n++)
		if (right)
			NEED(post_receive(part(mr, 2048, 64)) == 0);
	NEED(post_send(part(mr, 0, 8), IBV_WR_SEND, IBV_SEND_SIGNALED, NULL) == 0);
	for (int n = 0; n <= right; n++)
		await();
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
