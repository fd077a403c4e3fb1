#include "plant.h"

int main(int argc, char **argv)
{
	open_device(argc, argv);
	NEED(cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	near_qp = make_qp(pd);
	far_qp = make_qp(pd);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, ALL_ACCESS);
	NEED(mr);
	if (right)
		to_init(far_qp);
	post_receive(part(mr, 0, 64));
	close_pair();
	NEED(ibv_dereg_mr(mr) == 0);
	close_device();
	return 0;
}
