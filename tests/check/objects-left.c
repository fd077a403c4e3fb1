#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	if (right) {
		NEED(ibv_dereg_mr(mr) == 0);
		close_device();
	}
	return 0;
}
