#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	connect_pair();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, right ? IBV_ACCESS_LOCAL_WRITE : 0);
	NEED(mr);
	NEED(post_receive(part(mr, 0, 64)) == 0);
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
